//! Siblings: sockets of this process on one shared port, on devices that steer.
//!
//! With IP_MULTICAST_ALL, the default, a bound socket gets every group that the host has joined,
//! its own or not. So while a device keeps a group's datagrams from the kernel, a sibling that
//! has joined nothing, or nothing any more, cannot be the kernel's without loss: it comes to,
//! and stays on, the rings of those that have. Its unicast is the kernel's all the same.

use super::control::Control;
use super::core::{Core, Directory};
use super::share::may_have_others;
use super::udp::UdpSocket;
use crate::device::Delivery;
use std::net::SocketAddr;

impl UdpSocket {
    /// Interfaces whose rings bring a group's datagrams to sockets of this port, itself among
    /// them, and keep them from the kernel.
    pub(super) fn company(&self, control: &Control, directory: &Directory) -> Vec<u32> {
        let Ok(local) = Self::local_v4(control) else {
            return Vec::new();
        };
        let multicast = local.ip().is_unspecified() || local.ip().is_multicast();
        if !control.shared_port || !multicast {
            return Vec::new();
        }
        let mut interfaces = self.core.company_of(directory, local.port());
        interfaces.retain(|index| control.device == 0 || control.device == *index);
        interfaces
    }

    /// Whether it has company once it is bound to this.
    pub(super) fn joins_company(&self, control: &Control, address: SocketAddr) -> bool {
        if !control.shared_port {
            return false;
        }
        let bound = Control {
            local: Some(address),
            ..control.clone()
        };
        let directory = self.core.directory.lock();
        !self.company(&bound, &directory).is_empty()
    }
}

impl Core {
    fn company_of(&self, directory: &Directory, port: u16) -> Vec<u32> {
        let mut interfaces: Vec<u32> = directory
            .sockets
            .port(port)
            .iter()
            .filter(|a| may_have_others(&a.wants))
            .flat_map(|a| self.rings_of(a.mask))
            .filter(|ring| ring.delivery == Delivery::Steered)
            .map(|ring| ring.ifindex)
            .collect();
        interfaces.sort_unstable();
        interfaces.dedup();
        interfaces
    }
}
