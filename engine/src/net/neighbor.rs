//! A neighbour: the link-layer address of an IPv4 address on an interface.
//!
//! Owns the meaning of the states (NUD_* of linux/neighbour.h). ARP is the kernel's.

/// A state of the kernel's neighbour table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighborState {
    /// Being resolved, for the first time or once more after failing.
    Incomplete,
    /// Confirmed lately.
    Reachable,
    /// Usable; to be confirmed when used.
    Stale,
    /// Usable; used since it went stale, confirmation awaited. Not announced: until it is
    /// asked, up to five seconds, tables go on saying stale.
    Delay,
    /// Usable; being asked.
    Probe,
    /// Did not answer.
    Failed,
    /// Needs no resolution.
    NoArp,
    /// Set by hand; never asked.
    Permanent,
}

impl NeighborState {
    /// From a NUD_* bit; NUD_NONE and combinations are no state.
    #[must_use]
    pub fn from_nud(nud: u16) -> Option<Self> {
        Some(match nud {
            0x01 => Self::Incomplete,
            0x02 => Self::Reachable,
            0x04 => Self::Stale,
            0x08 => Self::Delay,
            0x10 => Self::Probe,
            0x20 => Self::Failed,
            0x40 => Self::NoArp,
            0x80 => Self::Permanent,
            _ => return None,
        })
    }

    /// NUD_VALID: the kernel sends to the link-layer address in this state.
    #[must_use]
    pub fn is_valid(self) -> bool {
        !matches!(self, Self::Incomplete | Self::Failed)
    }

    /// Whether it goes unconfirmed unless the kernel learns that it is used.
    #[must_use]
    pub fn wants_refresh(self) -> bool {
        matches!(self, Self::Stale | Self::Failed)
    }
}

/// A neighbour that can be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// Link-layer address.
    pub mac: [u8; 6],
    /// State; a valid one.
    pub state: NeighborState,
}
