//! Interfaces, addresses, neighbours, groups and routes, as the kernel tells them.
//!
//! Owns a copy of the kernel's state and nothing of its decisions: routes are asked for
//! one by one, so policy rules, multipath and source selection stay the kernel's.
//! Never changes that state, but for asking the kernel to look after a neighbour.
//!
//! - [`interface`], [`neighbor`], [`group`]: what is known of each.
//! - [`event`]: netlink messages as events (rtnetlink(7)).
//! - [`tables`]: (event) → state; pure.
//! - [`monitor`]: the event socket that feeds them.
//! - [`route`]: one question to the kernel, one answer.

pub mod event;
pub mod group;
pub mod interface;
pub mod monitor;
pub mod neighbor;
mod request;
pub mod route;
pub mod tables;
mod usable;

pub use event::Event;
pub use group::{Membership, read_memberships};
pub use interface::{Interface, InterfaceAddress, LinkKind};
pub use monitor::Monitor;
pub use neighbor::{Neighbor, NeighborState};
pub use route::{Route, RouteClient, RouteKind, RouteQuery};
pub use tables::{Changes, Tables};
pub use usable::usable;
