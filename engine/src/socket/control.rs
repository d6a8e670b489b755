//! The control plane of a socket: the kernel makes the call, the shadow follows.
//!
//! The kernel's verdict is the call's verdict. What the data path needs is read back
//! from the kernel where it can be, from the caller's memory (which the kernel has just
//! read) where it cannot.

use super::groups::{self, Groups};
use super::io::{Peer, wanted};
use super::path::WHOLE_RING;
use super::rings::Key;
use super::share::Shadow;
use super::udp::{Family, SockAddrArg, UdpSocket};
use crate::error::{Errno, Reason};
use crate::sys::sock;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

/// Reasons to send through the kernel, bits of `tx_kernel`.
pub(super) mod tx_kernel {
    /// UDP_CORK.
    pub(crate) const CORK: u32 = 1;
    /// IP_OPTIONS.
    pub(crate) const OPTIONS: u32 = 1 << 1;
    /// SO_TIMESTAMPING with transmit time stamps, SO_TXTIME, SO_MAX_PACING_RATE, SO_ZEROCOPY.
    pub(crate) const DEVICE: u32 = 1 << 2;
    /// SO_DONTROUTE.
    pub(crate) const DONTROUTE: u32 = 1 << 3;
    /// UDP_SEGMENT on the socket.
    pub(crate) const SEGMENT: u32 = 1 << 4;
    /// MSG_MORE: what follows joins a datagram that the kernel holds.
    pub(crate) const MORE: u32 = 1 << 6;
    /// The kernel socket has an error to report (ICMP).
    pub(crate) const ERROR: u32 = 1 << 7;
    /// IP_MTU_DISCOVER that forbids fragments, where sizes and errors are the kernel's.
    pub(crate) const PMTU: u32 = 1 << 5;
    /// No ring sends for it: what [`super::UdpSocket::reconcile`] decides.
    pub(crate) const UNSERVED: u32 = 1 << 8;
}

/// What the control plane knows of a socket.
#[derive(Clone, Debug)]
pub(super) struct Control {
    /// Local address as getsockname tells; None: no port yet.
    pub(super) local: Option<SocketAddr>,
    /// Connected peer.
    pub(super) peer: Option<SocketAddr>,
    /// It has had one.
    pub(super) had_peer: bool,
    pub(super) groups: Groups,
    pub(super) multicast_all: bool,
    /// SO_REUSEADDR or SO_REUSEPORT: unicast may be another process's.
    pub(super) shared_port: bool,
    pub(super) v6_only: bool,
    /// SO_BINDTODEVICE.
    pub(super) device: u32,
    pub(super) ttl: u8,
    /// IP_TTL was set, so no route has a say.
    pub(super) ttl_set: bool,
    pub(super) tos: u8,
    pub(super) multicast_ttl: u8,
    pub(super) multicast_loop: bool,
    pub(super) multicast_if: u32,
    pub(super) multicast_source: Ipv4Addr,
    pub(super) unicast_if: u32,
    pub(super) mark: u32,
    pub(super) checksum: bool,
    /// IP_RECVERR: errors also reach a socket that is not connected.
    pub(super) recverr: bool,
    pub(super) dont_fragment: bool,
    /// Bytes of the receive queue (SO_RCVBUF).
    pub(super) receive_limit: usize,
    /// It has sent: rings are worth having for that alone.
    pub(super) sends: bool,
    /// Whose rings bring its datagrams, once that is settled.
    pub(super) receive_key: Option<Key>,
    /// Whose rings send for it.
    pub(super) transmit_key: Option<Key>,
    /// Bits of those.
    pub(super) transmit_rings: u64,
    /// The kernel has it for good.
    pub(super) stays: Option<Reason>,
    /// The program's own socket filter replaced ours.
    pub(super) filter: Filter,
}

/// What socket filter the kernel socket carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    None,
    /// Ours.
    Shadow(Shadow),
    /// The program's.
    Program,
}

impl Control {
    /// What a new kernel socket has, defaults of sysctl included.
    pub(super) fn of_new(fd: RawFd, family: Family) -> Self {
        let ip = |name, otherwise| sock::get_int(fd, libc::IPPROTO_IP, name).unwrap_or(otherwise);
        let v6_only = family == Family::V6
            && sock::get_int(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY).unwrap_or(0) != 0;
        Self {
            local: None,
            peer: None,
            had_peer: false,
            groups: Groups::default(),
            multicast_all: ip(libc::IP_MULTICAST_ALL, 1) != 0,
            shared_port: false,
            v6_only,
            device: 0,
            ttl: ip(libc::IP_TTL, 64) as u8,
            ttl_set: false,
            tos: 0,
            multicast_ttl: 1,
            multicast_loop: true,
            multicast_if: 0,
            multicast_source: Ipv4Addr::UNSPECIFIED,
            unicast_if: 0,
            mark: 0,
            checksum: true,
            recverr: false,
            dont_fragment: ip(libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_WANT) != 0,
            receive_limit: sock::get_int(fd, libc::SOL_SOCKET, libc::SO_RCVBUF)
                .map_or(212_992, |v| v.max(0) as usize),
            sends: false,
            receive_key: None,
            transmit_key: None,
            transmit_rings: 0,
            stays: None,
            filter: Filter::None,
        }
    }
}

/// The IPv4 form of an address, mapped ones included; `::` counts as 0.0.0.0.
pub(super) fn v4(address: SocketAddr) -> Option<SocketAddrV4> {
    match address {
        SocketAddr::V4(a) => Some(a),
        SocketAddr::V6(a) if a.ip().is_unspecified() => {
            Some(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, a.port()))
        }
        SocketAddr::V6(a) => a
            .ip()
            .to_ipv4_mapped()
            .map(|ip| SocketAddrV4::new(ip, a.port())),
    }
}

const SIOCGSTAMP: libc::c_ulong = 0x8906;
const SIOCGSTAMPNS: libc::c_ulong = 0x8907;
const SIOCGSTAMP_NEW: libc::c_ulong = 0x8010_8906;
const SIOCGSTAMPNS_NEW: libc::c_ulong = 0x8010_8907;
const SO_TIMESTAMP_NEW: i32 = 63;
const SO_TIMESTAMPNS_NEW: i32 = 64;
const SO_TIMESTAMPING_NEW: i32 = 65;
const SO_RCVTIMEO_NEW: i32 = 66;
const SO_BINDTOIFINDEX: i32 = 62;
const SO_ZEROCOPY: i32 = 60;
const SO_TXTIME: i32 = 61;
const SO_ATTACH_BPF: i32 = 50;
const SO_PEEK_OFF: i32 = 42;
const SO_RCVMARK: i32 = 75;
const SO_RCVPRIORITY: i32 = 82;
const SO_MAX_PACING_RATE: i32 = 47;
const SO_NO_CHECK: i32 = 11;
const IP_UNICAST_IF: i32 = 50;
const UDP_CORK: i32 = 1;
const UDP_ENCAP: i32 = 100;
const UDP_NO_CHECK6_TX: i32 = 101;
const UDP_NO_CHECK6_RX: i32 = 102;
const UDP_SEGMENT: i32 = 103;
const UDP_GRO: i32 = 104;
const TIMESTAMPING_TX: i32 = 1 << 0 | 1 << 1 | 1 << 8 | 1 << 9;
const TIMESTAMPING_RX_SOFTWARE: i32 = 1 << 3;
const TIMESTAMPING_SOFTWARE: i32 = 1 << 4;
const TIMESTAMPING_RX_HARDWARE: i32 = 1 << 2;
const TIMESTAMPING_RAW_HARDWARE: i32 = 1 << 6;

impl UdpSocket {
    fn with_bit(&self, bit: u32, on: bool) {
        if on {
            self.wanted.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.wanted.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    pub(super) fn with_tx(&self, bit: u32, on: bool) {
        if on {
            self.tx_kernel.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.tx_kernel.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// bind(2).
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind(&self, fd: RawFd, addr: &SockAddrArg) -> Result<usize, Errno> {
        let expected = addr.parsed.filter(|a| a.port() != 0 && v4(*a).is_some());
        if self.is_parents() {
            return sock::bind(fd, addr.ptr, addr.len);
        }
        // The engine stands ready before the kernel opens the port: nothing is lost between.
        let prepared = match expected {
            Some(address) => {
                let mut control = self.control.lock();
                let alone = self.core.port_is_free(address.port());
                if control.local.is_none() && (alone || self.joins_company(&control, address)) {
                    control.local = Some(address);
                    self.reconcile(&mut control);
                    true
                } else {
                    false
                }
            }
            _ => false,
        };
        let result = sock::bind(fd, addr.ptr, addr.len);
        let mut control = self.control.lock();
        if result.is_ok() || prepared {
            self.refresh_names(fd, &mut control);
            self.reconcile(&mut control);
        }
        if prepared && result.is_err() {
            // The port is somebody else's, and so is what came for it.
            self.clear_queue();
        }
        drop(control);
        self.core.heed_own(self);
        result
    }

    /// connect(2), also to AF_UNSPEC.
    ///
    /// # Errors
    /// The kernel's.
    pub fn connect(&self, fd: RawFd, addr: &SockAddrArg) -> Result<usize, Errno> {
        if self.is_parents() {
            return sock::connect(fd, addr.ptr, addr.len);
        }
        // What came before is judged by the rules of before.
        self.drain_rings();
        let result = sock::connect(fd, addr.ptr, addr.len);
        let mut control = self.control.lock();
        // Also after a failure: Linux may have dissolved the old association.
        self.refresh_names(fd, &mut control);
        self.reconcile(&mut control);
        self.forget_routes();
        result
    }

    /// A socket that no ring sends for is about to send: are there rings for that? An
    /// unbound one with a destination gets its port by an explicit bind to port 0, which
    /// is what the kernel would do within the send.
    pub(super) fn begin_sending(&self, addressed: bool) {
        if self.is_parents() {
            return;
        }
        let mut control = self.control.lock();
        if control.stays.is_some() || control.sends && control.local.is_some() {
            return;
        }
        if control.local.is_none() && !(addressed && self.autobind(&mut control)) {
            return;
        }
        control.sends = true;
        self.reconcile(&mut control);
    }

    fn autobind(&self, control: &mut Control) -> bool {
        let fd = self.fd();
        // An address without a port is what connect(AF_UNSPEC) leaves of a bind to port 0.
        let bound = sock::bind_again(fd);
        if bound.is_ok() {
            self.refresh_names(fd, control);
        }
        bound.is_ok()
    }

    fn drain_rings(&self) {
        for ring in self.core.rings_of(self.ring_mask()) {
            ring.drain(WHOLE_RING);
        }
    }

    fn forget_routes(&self) {
        if self.core.forked.load(Ordering::Relaxed) {
            return; // the lock may be held by a thread that exists in the parent alone
        }
        if let Some(mut cache) = self.tx.lock() {
            cache.clear();
        }
    }

    fn refresh_names(&self, fd: RawFd, control: &mut Control) {
        control.local = sock::local_name(fd)
            .ok()
            .flatten()
            .filter(|a| a.port() != 0);
        control.peer = sock::peer_name(fd).ok().flatten();
        control.had_peer |= control.peer.is_some();
        let peer = control.peer.and_then(v4);
        let peer = peer.and_then(|p| Peer::new(*p.ip(), p.port()));
        self.peer.store(peer.map_or(0, |p| p.0), Ordering::Relaxed);
    }

    /// shutdown(2): rare on UDP, and the kernel knows all of its effects.
    ///
    /// # Errors
    /// The kernel's.
    pub fn shutdown(&self, fd: RawFd, how: i32) -> Result<usize, Errno> {
        self.hand_back(Reason::Option);
        let result = sock::shutdown(fd, how);
        // Also where it says ENOTCONN.
        if matches!(how, libc::SHUT_RD | libc::SHUT_RDWR) {
            self.shut.store(true, Ordering::Release);
        }
        self.wake();
        result
    }

    /// ioctl(2). `None`: not for the engine, make the kernel call.
    pub fn ioctl(
        &self,
        fd: RawFd,
        request: libc::c_ulong,
        arg: usize,
    ) -> Option<Result<usize, Errno>> {
        match request {
            libc::FIONREAD => {
                self.core
                    .poll_mask_whole(self.ring_mask(), || self.readable());
                let length = self.front_length()?;
                Some(sock::store_int(arg, length as i32).map(|()| 0))
            }
            libc::FIOASYNC => {
                let result = sock::ioctl(fd, request, arg);
                self.flags_changed(sock::status_flags(fd).unwrap_or(0));
                Some(result)
            }
            SIOCGSTAMP | SIOCGSTAMPNS | SIOCGSTAMP_NEW | SIOCGSTAMPNS_NEW => {
                let taken = self.has_received();
                // The kernel socket has seen nothing: from now on it is to.
                self.hand_back(Reason::Option);
                let nanos = matches!(request, SIOCGSTAMPNS | SIOCGSTAMPNS_NEW);
                Some(match sock::ioctl(fd, request, arg) {
                    // Asked for the first time, Linux says "now".
                    Err(Errno(libc::ENOENT)) if taken => sock::store_now(arg, nanos).map(|()| 0),
                    result => result,
                })
            }
            libc::FIONBIO => {
                let result = sock::ioctl(fd, request, arg);
                if result.is_ok() {
                    self.flags_changed(sock::status_flags(fd).unwrap_or(0));
                }
                Some(result)
            }
            _ => None,
        }
    }

    /// setsockopt(2).
    ///
    /// # Errors
    /// The kernel's.
    pub fn setsockopt(
        &self,
        fd: RawFd,
        level: i32,
        name: i32,
        ptr: usize,
        len: u32,
    ) -> Result<usize, Errno> {
        if self.is_parents() {
            return sock::setsockopt(fd, level, name, ptr, len);
        }
        if level == libc::SOL_SOCKET && name == libc::SO_DETACH_FILTER {
            return self.detach_filter(fd, ptr, len);
        }
        if level == libc::SOL_SOCKET && name == libc::SO_LOCK_FILTER {
            // A locked filter could not be taken off again.
            self.hand_back(Reason::OwnFilter);
        }
        // As for connect: a leave keeps what came before it, and what a datagram brings is what
        // was asked for when it came.
        self.drain_rings();
        let result = sock::setsockopt(fd, level, name, ptr, len);
        if level == libc::IPPROTO_IP && result == Err(Errno(libc::EADDRNOTAVAIL)) {
            self.membership_refused(name, ptr, len);
        }
        let result = result?;
        let mut control = self.control.lock();
        let memberships = control.groups.clone();
        match level {
            libc::SOL_SOCKET => self.socket_option(fd, name, ptr, len, &mut control),
            libc::IPPROTO_IP => self.ip_option(fd, name, ptr, len, &mut control),
            libc::IPPROTO_IPV6 => self.ipv6_option(fd, name, ptr, len, &mut control),
            libc::IPPROTO_UDP => self.udp_option(name, ptr, len, &mut control),
            _ => control.stays = control.stays.or(Some(Reason::Option)),
        }
        self.reconcile(&mut control);
        if level == libc::SOL_SOCKET && name == SO_PEEK_OFF {
            // A move looks at what the kernel socket holds, which would shift the offset.
            self.moving.end();
        }
        let changed = control.groups != memberships;
        drop(control);
        if changed {
            self.core.groups_changed();
            self.core.heed_own(self);
        }
        self.forget_routes();
        Ok(result)
    }

    /// SO_DETACH_FILTER: only the program's own filter can be taken off by it.
    fn detach_filter(&self, fd: RawFd, ptr: usize, len: u32) -> Result<usize, Errno> {
        let mut control = self.control.lock();
        if matches!(control.filter, Filter::Shadow(_)) {
            // What Linux looks at before it finds none.
            return Err(if (len.cast_signed()) < 4 {
                Errno::INVAL
            } else if sock::is_nowhere(ptr) {
                Errno::FAULT
            } else {
                Errno(libc::ENOENT)
            });
        }
        let result = sock::setsockopt(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, ptr, len)?;
        control.filter = Filter::None;
        if control.stays == Some(Reason::OwnFilter) {
            control.stays = None;
        }
        self.reconcile(&mut control);
        Ok(result)
    }

    /// getsockopt(2) where our filter on the kernel socket would show. None: the kernel answers.
    pub fn getsockopt(&self, level: i32, name: i32, len: usize) -> Option<Result<usize, Errno>> {
        // The number of SO_ATTACH_FILTER, asked for: SO_GET_FILTER.
        let shows = level == libc::SOL_SOCKET && name == libc::SO_ATTACH_FILTER;
        if !shows || self.is_parents() || sock::load_int(len)? < 0 {
            return None;
        }
        let ours = matches!(self.control.lock().filter, Filter::Shadow(_));
        ours.then(|| sock::store_int(len, 0).map(|()| 0))
    }

    fn socket_option(&self, fd: RawFd, name: i32, ptr: usize, len: u32, control: &mut Control) {
        let get = |name| sock::get_int(fd, libc::SOL_SOCKET, name).unwrap_or(0);
        let value = || sock::user_int(ptr, len).unwrap_or(0);
        match name {
            libc::SO_REUSEADDR | libc::SO_REUSEPORT => {
                // Who has bound beside it stays, also when the flag is taken away.
                let shares = control.shared_port && !self.unbound.load(Ordering::Relaxed);
                control.shared_port =
                    shares || get(libc::SO_REUSEADDR) != 0 || get(libc::SO_REUSEPORT) != 0;
            }
            libc::SO_BINDTODEVICE | SO_BINDTOIFINDEX => {
                control.device = get(SO_BINDTOIFINDEX) as u32;
            }
            libc::SO_RCVTIMEO | SO_RCVTIMEO_NEW => {
                let mut tv = [0u8; 16];
                let n = sock::get_bytes(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &mut tv);
                if n == Ok(16) {
                    let word = |at: usize| {
                        let mut b = [0u8; 8];
                        b.copy_from_slice(&tv[at..at + 8]);
                        u64::from_ne_bytes(b)
                    };
                    let ns = word(0).saturating_mul(1_000_000_000) + word(8) * 1000;
                    self.receive_timeout.store(ns, Ordering::Relaxed);
                }
            }
            libc::SO_RCVBUF | libc::SO_RCVBUFFORCE => {
                let kernel = get(libc::SO_RCVBUF).max(0) as usize;
                control.receive_limit = self.core.receive_limit(kernel);
                self.set_receive_limit(control.receive_limit);
            }
            libc::SO_TIMESTAMP | SO_TIMESTAMP_NEW | libc::SO_TIMESTAMPNS | SO_TIMESTAMPNS_NEW => {
                let ns = get(libc::SO_TIMESTAMPNS) != 0 || get(SO_TIMESTAMPNS_NEW) != 0;
                let us = get(libc::SO_TIMESTAMP) != 0 || get(SO_TIMESTAMP_NEW) != 0;
                self.with_bit(wanted::TIMESTAMPNS, ns);
                self.with_bit(wanted::TIMESTAMP, us && !ns);
                if value() != 0 {
                    let new = matches!(name, SO_TIMESTAMP_NEW | SO_TIMESTAMPNS_NEW);
                    self.with_bit(wanted::STAMP_NEW, new);
                }
            }
            libc::SO_TIMESTAMPING | SO_TIMESTAMPING_NEW => {
                let flags = get(libc::SO_TIMESTAMPING);
                let receive = TIMESTAMPING_RX_SOFTWARE | TIMESTAMPING_SOFTWARE;
                self.with_bit(wanted::TIMESTAMPING, flags & receive == receive);
                let hardware = TIMESTAMPING_RX_HARDWARE | TIMESTAMPING_RAW_HARDWARE;
                self.with_bit(wanted::HARDWARE, flags & hardware == hardware);
                self.with_bit(wanted::STAMP_NEW, name == SO_TIMESTAMPING_NEW);
                self.with_tx(tx_kernel::DEVICE, flags & TIMESTAMPING_TX != 0);
            }
            libc::SO_RXQ_OVFL => self.with_bit(wanted::RXQ_OVFL, get(libc::SO_RXQ_OVFL) != 0),
            libc::SO_MARK => control.mark = get(libc::SO_MARK) as u32,
            SO_NO_CHECK => control.checksum = get(SO_NO_CHECK) == 0,
            libc::SO_DONTROUTE => self.with_tx(tx_kernel::DONTROUTE, value() != 0),
            SO_ZEROCOPY => self.with_tx(tx_kernel::DEVICE, value() != 0),
            SO_TXTIME | SO_MAX_PACING_RATE => self.with_tx(tx_kernel::DEVICE, true),
            libc::SO_ATTACH_FILTER | SO_ATTACH_BPF => {
                // The kernel has replaced our filter by the program's.
                control.filter = Filter::Program;
                control.stays = control.stays.or(Some(Reason::OwnFilter));
            }
            SO_PEEK_OFF | SO_RCVMARK | SO_RCVPRIORITY => {
                control.stays = control.stays.or(Some(Reason::Option))
            }
            // Queue lengths, priorities, broadcast, polling hints and the like: the kernel
            // socket keeps them, a datagram is no different for it.
            _ => {}
        }
    }

    fn ip_option(&self, fd: RawFd, name: i32, ptr: usize, len: u32, control: &mut Control) {
        let get = |name| sock::get_int(fd, libc::IPPROTO_IP, name).unwrap_or(0);
        match name {
            libc::IP_TTL => {
                control.ttl = get(name) as u8;
                control.ttl_set = sock::user_int(ptr, len).is_some_and(|ttl| ttl != -1);
            }
            libc::IP_TOS => control.tos = get(name) as u8,
            libc::IP_MULTICAST_TTL => control.multicast_ttl = get(name) as u8,
            libc::IP_MULTICAST_LOOP if self.family == Family::V4 => {
                self.multicast_loop(get(name) != 0, control);
            }
            // Linux goes by the option of the socket's own family (`sk_mc_loop`).
            libc::IP_MULTICAST_LOOP => {}
            libc::IP_MULTICAST_ALL => control.multicast_all = get(name) != 0,
            libc::IP_MULTICAST_IF => self.multicast_interface(ptr, len, control),
            IP_UNICAST_IF => control.unicast_if = u32::from_be(get(name) as u32),
            libc::IP_PKTINFO => self.with_bit(wanted::PKTINFO, get(name) != 0),
            libc::IP_RECVTTL => self.with_bit(wanted::TTL, get(name) != 0),
            libc::IP_RECVTOS => self.with_bit(wanted::TOS, get(name) != 0),
            libc::IP_RECVORIGDSTADDR => self.with_bit(wanted::ORIGDSTADDR, get(name) != 0),
            libc::IP_MTU_DISCOVER => {
                let how = get(name);
                control.dont_fragment = how == libc::IP_PMTUDISC_WANT;
                self.with_tx(
                    tx_kernel::PMTU,
                    matches!(how, libc::IP_PMTUDISC_DO | libc::IP_PMTUDISC_PROBE),
                );
            }
            libc::IP_OPTIONS => self.with_tx(tx_kernel::OPTIONS, len != 0),
            libc::IP_RECVERR => control.recverr = get(name) != 0,
            libc::IP_FREEBIND
            | libc::IP_TRANSPARENT
            | libc::IP_BIND_ADDRESS_NO_PORT
            | libc::IP_MINTTL => {
                if name == libc::IP_MINTTL && get(name) != 0 {
                    control.stays = control.stays.or(Some(Reason::Option));
                }
            }
            _ => match self.membership_change(name, ptr, len) {
                Some(change) => control.groups.apply(&change),
                // IP_RECVOPTS, IP_CHECKSUM, … : only the kernel has them.
                None => control.stays = control.stays.or(Some(Reason::Option)),
            },
        }
    }

    fn membership_change(&self, name: i32, ptr: usize, len: u32) -> Option<groups::Change> {
        let mut value = [0u8; 4096];
        let n = sock::user_bytes(ptr, len, &mut value);
        let core = self.core;
        let resolve = |group, address| core.membership_interface(group, address);
        groups::parse_change(name, &value[..n], &resolve)
    }

    /// A membership call failed, which may have changed something even so.
    #[cold]
    fn membership_refused(&self, name: i32, ptr: usize, len: u32) {
        let Some(change) = self.membership_change(name, ptr, len) else {
            return;
        };
        let mut control = self.control.lock();
        let before = control.groups.clone();
        control.groups.apply_failed(&change);
        let changed = control.groups != before;
        if changed {
            self.reconcile(&mut control);
        }
        drop(control);
        if changed {
            self.core.groups_changed();
        }
    }

    /// IP_MULTICAST_IF with an in_addr, an ip_mreq or an ip_mreqn.
    fn multicast_interface(&self, ptr: usize, len: u32, control: &mut Control) {
        let mut value = [0u8; 12];
        let n = sock::user_bytes(ptr, len, &mut value);
        let ip = |at: usize| Ipv4Addr::new(value[at], value[at + 1], value[at + 2], value[at + 3]);
        let (address, index) = match n {
            12.. => (
                ip(4),
                u32::from_ne_bytes([value[8], value[9], value[10], value[11]]),
            ),
            8.. => (ip(4), 0),
            4.. => (ip(0), 0),
            _ => return,
        };
        control.multicast_source = address;
        control.multicast_if = if index != 0 {
            index
        } else if address.is_unspecified() {
            0
        } else {
            self.core
                .membership_interface(Ipv4Addr::UNSPECIFIED, address)
        };
    }

    fn ipv6_option(&self, fd: RawFd, name: i32, ptr: usize, len: u32, control: &mut Control) {
        let get = |name| sock::get_int(fd, libc::IPPROTO_IPV6, name).unwrap_or(0);
        match name {
            libc::IPV6_V6ONLY => control.v6_only = get(name) != 0,
            libc::IPV6_MULTICAST_LOOP => self.multicast_loop(get(name) != 0, control),
            libc::IPV6_RECVPKTINFO => self.with_bit(wanted::PKTINFO6, get(name) != 0),
            // Joining IPv4 groups by MCAST_JOIN_GROUP at this level is refused by Linux;
            // the rest concerns native IPv6, which the kernel carries.
            _ => {
                let _ = (ptr, len);
            }
        }
    }

    fn multicast_loop(&self, on: bool, control: &mut Control) {
        control.multicast_loop = on;
        self.stats.set_mc_loop(on);
    }

    fn udp_option(&self, name: i32, ptr: usize, len: u32, control: &mut Control) {
        let on = sock::user_int(ptr, len).unwrap_or(0) != 0;
        match name {
            UDP_CORK => self.with_tx(tx_kernel::CORK, on),
            UDP_SEGMENT => self.with_tx(tx_kernel::SEGMENT, on),
            UDP_GRO | UDP_NO_CHECK6_TX | UDP_NO_CHECK6_RX => {}
            UDP_ENCAP if !on => {}
            _ => control.stays = control.stays.or(Some(Reason::Option)),
        }
    }

    /// Gives the socket back to the kernel for good (exec, SCM_RIGHTS, shutdown).
    pub fn hand_back(&self, reason: Reason) {
        if self.is_parents() {
            return;
        }
        let mut control = self.control.lock();
        control.stays = control.stays.or(Some(reason));
        self.reconcile(&mut control);
        if reason == Reason::HandedOver {
            super::fork::hold_elsewhere();
        }
        if reason == Reason::HandedOver && control.device == 0 {
            drop(control);
            self.give_queue_back();
        }
    }

    /// Whether a local address is one that the engine can serve; else the reason.
    pub(super) fn local_v4(control: &Control) -> Result<SocketAddrV4, Reason> {
        if control.v6_only {
            return Err(Reason::NativeV6);
        }
        let local = control.local.ok_or(Reason::NotBound)?;
        let address = v4(local).ok_or(Reason::NativeV6)?;
        match control.peer.map(|p| (p.ip(), v4(p))) {
            Some((IpAddr::V6(_), None)) => Err(Reason::NativeV6),
            _ => Ok(address),
        }
    }
}
