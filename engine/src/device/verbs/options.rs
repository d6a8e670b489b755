//! The options that this device obeys, as numbers. Pure.

use crate::config::{Config, Opt};

/// How queues are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerbsOptions {
    /// Receive requests (VMA_RX_WRE); None: as many as fit a ring.
    pub receives: Option<u32>,
    /// Posted at a time (VMA_RX_WRE_BATCHING).
    pub receive_batch: u32,
    /// Send requests (VMA_TX_WRE).
    pub sends: u32,
    /// One in so many asks for its completion (VMA_TX_WRE_BATCHING).
    pub send_batch: u32,
    /// Frames up to this many bytes travel inside the request (VMA_TX_MAX_INLINE).
    pub inline: u32,
    /// Completions taken at a time (VMA_CQ_POLL_BATCH_MAX).
    pub poll: u32,
    /// Completions and µs until an interrupt (VMA_CQ_MODERATION_*).
    pub moderation: Option<(u16, u16)>,
    /// Try huge pages (VMA_MEM_ALLOC_TYPE).
    pub huge: bool,
    /// Ask for the card's time stamps (VMA_HW_TS_CONVERSION).
    pub stamps: bool,
    /// Multicast by MAC address alone (VMA_ETH_MC_L2_ONLY_RULES).
    pub multicast_by_mac: bool,
    /// Children must not disturb the card (VMA_FORK).
    pub fork: bool,
}

impl VerbsOptions {
    /// From the configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let number = |opt| u32::try_from(config.int(opt)).unwrap_or(0);
        let short = |opt| u16::try_from(config.int(opt)).unwrap_or(u16::MAX);
        Self {
            receives: (!config.is_default(Opt::RxWre)).then(|| number(Opt::RxWre)),
            receive_batch: number(Opt::RxWreBatching),
            sends: number(Opt::TxWre),
            send_batch: number(Opt::TxWreBatching),
            inline: number(Opt::TxMaxInline),
            poll: number(Opt::CqPollBatchMax),
            moderation: config.flag(Opt::CqModeration).then(|| {
                (
                    short(Opt::CqModerationCount),
                    short(Opt::CqModerationPeriod),
                )
            }),
            huge: config.int(Opt::MemAllocType) != 0,
            stamps: config.int(Opt::HwTsConversion) != 0,
            multicast_by_mac: config.flag(Opt::EthMcL2Only),
            fork: config.flag(Opt::Fork),
        }
    }
}

impl Default for VerbsOptions {
    fn default() -> Self {
        Self::of(&Config::default_config())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_environment_says_is_what_is_done() {
        let vars = [
            ("VMA_RX_WRE", "1000"),
            ("VMA_RX_WRE_BATCHING", "8"),
            ("VMA_TX_WRE", "128"),
            ("VMA_TX_WRE_BATCHING", "4"),
            ("VMA_TX_MAX_INLINE", "0"),
            ("VMA_CQ_POLL_BATCH_MAX", "2"),
            ("VMA_RX_POLL", "100"),
            ("VMA_CQ_MODERATION_COUNT", "7"),
            ("VMA_CQ_MODERATION_PERIOD_USEC", "9"),
            ("VMA_MEM_ALLOC_TYPE", "0"),
            ("VMA_HW_TS_CONVERSION", "0"),
            ("VMA_ETH_MC_L2_ONLY_RULES", "1"),
            ("VMA_FORK", "0"),
        ];
        let (config, warnings) =
            Config::from_env(vars.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(warnings, []);
        assert_eq!(
            VerbsOptions::of(&config),
            VerbsOptions {
                receives: Some(1000),
                receive_batch: 8,
                sends: 128,
                send_batch: 4,
                inline: 0,
                poll: 2,
                moderation: Some((7, 9)),
                huge: false,
                stamps: false,
                multicast_by_mac: true,
                fork: false,
            }
        );
        let plain = VerbsOptions::default();
        assert_eq!((plain.receives, plain.inline), (None, 204));
        assert!(plain.huge && plain.stamps && plain.fork && !plain.multicast_by_mac);
    }
}
