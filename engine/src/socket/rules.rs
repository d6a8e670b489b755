//! What the rules file says of a socket: in which of its roles it is the kernel's.

use super::control::{Control, v4};
use super::core::Core;
use super::udp::UdpSocket;
use crate::config::{Opt, Role, Rules, Transport};
use std::net::SocketAddrV4;

impl Core {
    /// Follows a rules file; `program` is the path it was started by.
    #[must_use]
    pub fn with_rules(mut self, rules: Rules, program: String) -> Self {
        self.rules = (rules, program);
        self
    }

    /// What the rules file says of a socket in a role.
    pub(super) fn ruled_out(
        &self,
        role: Role,
        local: SocketAddrV4,
        remote: Option<SocketAddrV4>,
    ) -> bool {
        let (rules, program) = &self.rules;
        let id = self.config.text(Opt::ApplicationId);
        rules.lookup(program, id, role, local, remote) == Transport::Os
    }

    /// No UDP socket of this program is ever the engine's.
    pub(super) fn never_udp(&self) -> bool {
        let (rules, program) = &self.rules;
        rules.never_udp(program, self.config.text(Opt::ApplicationId))
    }
}

impl UdpSocket {
    /// The rules file leaves what it receives, or its connection, to the kernel.
    pub(super) fn ruled_out(&self, control: &Control, local: SocketAddrV4) -> bool {
        let groups = control.groups.members().iter();
        let receives = groups
            .map(|m| SocketAddrV4::new(m.group, local.port()))
            .chain([local])
            .any(|at| self.core.ruled_out(Role::UdpReceiver, at, None));
        let peer = control.peer.and_then(v4);
        receives || self.core.ruled_out(Role::UdpConnect, local, peer)
    }
}
