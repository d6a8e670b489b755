//! `VMA_SPEC`: named sets of values.
//!
//! A profile changes what an option is when its own variable is not set; it never wins over one.

use super::option::{Choice, Preset};
use super::table::Opt;

macro_rules! profiles {
    ($($profile:ident = $value:literal, $title:literal, [$($name:literal),+];)+) => {
        /// A profile, numbered as libvma does where it has a number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Profile {
            $(#[doc = $title] $profile = $value,)+
        }

        impl Profile {
            /// Every profile.
            pub const ALL: &'static [Profile] = &[$(Profile::$profile),+];

            pub(super) fn from_value(value: i64) -> Self {
                match value { $($value => Self::$profile,)+ _ => Self::None }
            }
        }

        pub(super) const CHOICES: &[Choice] = &[
            $(Choice { value: $value, names: &[$($name),+], shown: $title }),+
        ];
    };
}

profiles! {
    None = 0, "NONE", ["none", "0"];
    UltraLatency = 10, "Ultra Latency", ["ultra-latency", "ultra_latency", "10"];
    Latency = 15, "Latency", ["latency", "15"];
    West29 = 29, "29West LBM Logic", ["29west", "29"];
    WombatFh = 554, "Wombat FH LBM Logic", ["wombat_fh", "wombat-fh", "554"];
    Memcached = 623, "Memcached Logic", ["mcd", "623"];
    MemcachedIrq = 624, "Memcached Interrupt Mode", ["mcd-irq", "mcd_irq", "624"];
    Rti = 784, "RTI Logic", ["rti", "rti_784", "rti_783", "784", "783"];
    Ll7750 = 7750, "7750 Low Latency Profile", ["7750"];
    MultiRing = -1, "Multi Ring Latency Profile", ["multi_ring_latency", "multi-ring-latency"];
}

/// Profiles of libxlio: known by name, but there is nothing in them for UDP here.
pub(super) const FOREIGN: &[&str] = &["nginx", "nginx_dpu", "nvme_bf3"];

const fn i(opt: Opt, value: i64) -> (Opt, Preset) {
    (opt, Preset::Int(value))
}

const fn t(opt: Opt, value: &'static str) -> (Opt, Preset) {
    (opt, Preset::Text(value))
}

const ULTRA_LATENCY: &[(Opt, Preset)] = &[
    i(Opt::TxSegsTcp, 512),
    i(Opt::TxBufs, 512),
    i(Opt::RxBufs, 1024),
    i(Opt::TxWre, 256),
    i(Opt::RxWre, 256),
    i(Opt::TxWreBatching, 4),
    i(Opt::RxWreBatching, 4),
    i(Opt::RxPoll, -1),
    i(Opt::RxUdpPollOsRatio, 0),
    i(Opt::RxPrefetchBeforePoll, 256),
    i(Opt::SelectPoll, -1),
    i(Opt::SelectPollOsRatio, 0),
    i(Opt::SelectSkipOs, 0),
    i(Opt::GroStreamsMax, 0),
    i(Opt::ProgressInterval, 0),
    i(Opt::CqKeepQpFull, 0),
    i(Opt::ThreadMode, 0),
    i(Opt::MemAllocType, 2),
    i(Opt::TcpNodelay, 1),
    i(Opt::RingDevMemTx, 16_384),
    t(Opt::ThreadAffinity, "0"),
    i(Opt::TcpAvoidSysCalls, 1),
];

const LATENCY: &[(Opt, Preset)] = &[
    i(Opt::TxWre, 256),
    i(Opt::RxWre, 256),
    i(Opt::TxWreBatching, 4),
    i(Opt::RxWreBatching, 4),
    i(Opt::RxPoll, -1),
    i(Opt::SelectPoll, -1),
    i(Opt::SelectPollOsRatio, 1),
    i(Opt::SelectSkipOs, 1),
    i(Opt::RxPrefetchBeforePoll, 256),
    i(Opt::GroStreamsMax, 0),
    i(Opt::ProgressInterval, 100),
    i(Opt::CqKeepQpFull, 0),
    i(Opt::ThreadMode, 0),
    i(Opt::MemAllocType, 2),
    i(Opt::TcpNodelay, 1),
    i(Opt::RingDevMemTx, 16_384),
    t(Opt::ThreadAffinity, "0"),
];

const WEST29: &[(Opt, Preset)] = &[
    i(Opt::SpecParam1, 5000),
    i(Opt::SpecParam2, 50),
    i(Opt::RxPoll, 0),
    i(Opt::RxUdpPollOsRatio, 100),
    i(Opt::SelectPoll, 100_000),
    i(Opt::SelectPollOsRatio, 100),
    i(Opt::SelectSkipOs, 50),
];

const WOMBAT_FH: &[(Opt, Preset)] = &[
    i(Opt::SpecParam1, 5000),
    i(Opt::SpecParam2, 50),
    i(Opt::RxPoll, 0),
    i(Opt::RxUdpPollOsRatio, 100),
    i(Opt::SelectPoll, 0),
    i(Opt::SelectSkipOs, 20),
];

const MEMCACHED: &[(Opt, Preset)] = &[i(Opt::RingLogicTx, 31), i(Opt::RingLogicRx, 31)];

const MEMCACHED_IRQ: &[(Opt, Preset)] = &[
    i(Opt::RingLogicTx, 31),
    i(Opt::RingLogicRx, 31),
    i(Opt::SelectPoll, 0),
    i(Opt::RxPoll, 0),
    i(Opt::CqModeration, 0),
];

const RTI: &[(Opt, Preset)] = &[i(Opt::RxPoll, -1)];

const LL7750: &[(Opt, Preset)] = &[
    i(Opt::TxBufs, 8192),
    i(Opt::RxBufs, 204_800),
    i(Opt::TraceLevel, 3),
    i(Opt::StatsFdNum, 1024),
    t(Opt::ThreadAffinity, "0x3"),
    i(Opt::RxPoll, -1),
    i(Opt::SelectPoll, -1),
    i(Opt::SelectPollOsRatio, 0),
    i(Opt::Tcp3tRules, 1),
    i(Opt::BufferBatching, 0),
    i(Opt::TcpCtlThread, 2),
];

const MULTI_RING: &[(Opt, Preset)] = &[
    i(Opt::MemAllocType, 2),
    i(Opt::RxPoll, -1),
    i(Opt::SelectPoll, -1),
    i(Opt::RingLogicTx, 20),
    i(Opt::RingLogicRx, 20),
    i(Opt::SelectPollOsRatio, 0),
    i(Opt::SelectSkipOs, 0),
    i(Opt::RxPollOnTxTcp, 1),
    i(Opt::DummySendGetsockname, 1),
];

impl Profile {
    /// What it changes.
    #[must_use]
    pub fn settings(self) -> &'static [(Opt, Preset)] {
        match self {
            Self::None => &[],
            Self::UltraLatency => ULTRA_LATENCY,
            Self::Latency => LATENCY,
            Self::West29 => WEST29,
            Self::WombatFh => WOMBAT_FH,
            Self::Memcached => MEMCACHED,
            Self::MemcachedIrq => MEMCACHED_IRQ,
            Self::Rti => RTI,
            Self::Ll7750 => LL7750,
            Self::MultiRing => MULTI_RING,
        }
    }

    /// Accepted spellings, the first is the canonical one.
    #[must_use]
    pub fn names(self) -> &'static [&'static str] {
        CHOICES
            .iter()
            .find(|c| c.value == self as i64)
            .map_or(&[], |c| c.names)
    }

    /// Canonical spelling.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.names().first().copied().unwrap_or("none")
    }

    /// Whether `VMA_SPEC_PARAM1` and `VMA_SPEC_PARAM2` belong to it.
    #[must_use]
    pub fn has_params(self) -> bool {
        matches!(self, Self::West29 | Self::WombatFh)
    }
}
