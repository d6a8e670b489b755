//! The two kinds of "no": an error number for the caller, and the reason why a
//! socket or an interface stays with the kernel.

use std::fmt;

/// A Linux error number (`errno.h`), always positive.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// Operation would block.
    pub const AGAIN: Self = Self(libc::EAGAIN);
    /// Interrupted by a signal handler.
    pub const INTR: Self = Self(libc::EINTR);
    /// Bad file descriptor.
    pub const BADF: Self = Self(libc::EBADF);
    /// Bad address.
    pub const FAULT: Self = Self(libc::EFAULT);
    /// Invalid argument.
    pub const INVAL: Self = Self(libc::EINVAL);
    /// Message too long.
    pub const MSGSIZE: Self = Self(libc::EMSGSIZE);
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", std::io::Error::from_raw_os_error(self.0))
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for Errno {}

impl From<rustix::io::Errno> for Errno {
    fn from(value: rustix::io::Errno) -> Self {
        Self(value.raw_os_error())
    }
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal, $text:literal;)+) => {
        /// Why a socket, or a whole interface, is served by the kernel.
        ///
        /// One variant is one line of the statistics; the numbers are part of the
        /// shared-memory layout and are never reused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name = $code,)+
        }

        impl Reason {
            /// Every reason, in the order of its code.
            pub const ALL: &'static [Reason] = &[$(Reason::$name),+];

            /// What a person reads.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Reason::$name => $text,)+ }
            }

            /// The code kept in shared memory.
            #[must_use]
            pub const fn code(self) -> u32 {
                self as u32
            }

            /// The reason of a code, if there is one.
            #[must_use]
            pub fn from_code(code: u32) -> Option<Self> {
                match code { $($code => Some(Reason::$name),)+ _ => None }
            }
        }
    };
}

reasons! {
    /// `SHIM_BACKEND=off`, `VMA_OFFLOADED_SOCKETS=0`.
    SwitchedOff = 1, "switched off by configuration";
    /// A `use os` rule of the rules file matched.
    Rule = 2, "a rule in the configuration file says os";
    /// No port yet: not bound, not connected, nothing sent.
    NotBound = 3, "not bound yet";
    /// IPV6_V6ONLY, or bound to or connected to a native IPv6 address.
    NativeV6 = 5, "socket carries native IPv6";
    /// Bound to an address of an interface that is not accelerated.
    OtherInterface = 6, "bound to an interface that is not accelerated";
    /// Bound to or connected to 127.0.0.0/8.
    Loopback = 7, "bound or connected to loopback";
    /// No interface can be accelerated.
    NoInterface = 8, "no usable interface";
    /// CAP_NET_RAW is missing.
    NoPermission = 9, "missing CAP_NET_RAW";
    /// The program attached its own socket filter.
    OwnFilter = 10, "the program attached a socket filter";
    /// A socket option whose effect the engine does not reproduce.
    Option = 11, "a socket option that only the kernel implements";
    /// Shared between processes after fork.
    Forked = 12, "shared with another process after fork";
    /// Handed to another program over exec or a Unix socket.
    HandedOver = 13, "handed to another process";
    /// No descriptors or memory left for a ring.
    NoResources = 14, "no file descriptors or memory left for a ring";
    /// Interface is down.
    InterfaceDown = 15, "interface is down";
    /// Interface is not Ethernet.
    NotEthernet = 16, "interface is not Ethernet";
    /// Interface is part of a bridge, bond, team or VRF.
    Enslaved = 17, "interface belongs to a bridge, bond, team or VRF";
    /// Not named in SHIM_INTERFACES.
    NotNamed = 18, "interface is not named in SHIM_INTERFACES";
    /// Interface has no IPv4 address.
    NoAddress = 19, "interface has no IPv4 address";
    /// The backend is not part of this build or not possible on this interface.
    NoBackend = 20, "the backend is not available for this interface";
    /// Unicast to a socket with SO_REUSEADDR or SO_REUSEPORT, where only the
    /// kernel knows which process is next.
    SharedPort = 21, "port may be shared with other processes";
    /// The engine could not start.
    StartFailed = 22, "the engine could not start";
    /// Made after setns(2) or unshare(2): the engine is at home in another namespace.
    OtherNamespace = 26, "the socket belongs to another network namespace";
    /// libibverbs cannot be loaded.
    NoVerbsLibrary = 30, "libibverbs.so.1 is not installed";
    /// No RDMA device belongs to the interface, or it cannot be opened.
    NoRdmaDevice = 31, "the interface has no RDMA device";
    /// A port in InfiniBand mode: a raw packet has no place there.
    InfiniBand = 32, "the port's link layer is InfiniBand";
    /// Soft-RoCE and cards that do RoCE alone.
    RoceOnly = 33, "the device does RoCE only, no raw packets";
    /// An iWARP card.
    Iwarp = 34, "the device is an iWARP card";
    /// The device steers flows but has no raw packet queue pairs.
    NoRawPacket = 35, "the device has no raw packet queue pairs";
    /// Registered memory counts against RLIMIT_MEMLOCK.
    LockedMemory = 36, "RLIMIT_MEMLOCK is too low for the card's buffers";
    /// The device has no queue pairs or completion queues left.
    NoQueuePairs = 37, "the device has no queue pairs left";
    /// The device has no flow rules left.
    NoFlowRules = 38, "the device has no flow rules left";
    /// Flow steering is off or not there.
    NoFlowSteering = 39, "the device steers no flows";
    /// A bond: flow rules would have to be on every port of it.
    Bonded = 40, "the interface is a bond";
    /// A VLAN interface: flow rules would have to name its tag.
    Vlan = 41, "the interface is a VLAN";
    /// RoCE v2 is the card's own traffic.
    RocePort = 42, "UDP port 4791 belongs to RoCE";
    /// The device reports that its port is down.
    NoLink = 50, "the device's port has no link";
    /// A queue of the device is in error, or the device is gone.
    DeviceFailed = 51, "the device has failed";
    /// A receive call already waits in the kernel, where it would not see the rings.
    Waiting = 25, "a receive call was already waiting in the kernel";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip() {
        for &reason in Reason::ALL {
            assert_eq!(Reason::from_code(reason.code()), Some(reason));
        }
        assert_eq!(Reason::from_code(0), None);
    }
}
