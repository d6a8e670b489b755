//! Classic BPF programs (linux/filter.h): what the tap takes, what the shadow socket refuses.
//!
//! The two have to agree: a datagram that the tap's filter accepts for a socket is
//! dropped by that socket's filter, and nothing else is.

use super::sock;
use crate::error::Errno;
use std::net::Ipv4Addr;
use std::os::fd::RawFd;

const LD_W_ABS: u16 = 0x20;
const LD_H_ABS: u16 = 0x28;
const LD_B_ABS: u16 = 0x30;
const LD_H_IND: u16 = 0x48;
const LD_B_IND: u16 = 0x50;
const LDX_MSH: u16 = 0xb1;
const JEQ: u16 = 0x15;
const JGT: u16 = 0x25;
const JSET: u16 = 0x45;
const AND: u16 = 0x54;
const RET: u16 = 0x06;

const AD_PROTOCOL: u32 = ad(0);
const AD_PKTTYPE: u32 = ad(4);
const AD_IFINDEX: u32 = ad(8);
const AD_VLAN_TAG: u32 = ad(44);
const AD_VLAN_TAG_PRESENT: u32 = ad(48);
/// SKF_NET_OFF: offset from the network header.
const NET: u32 = 0xfff0_0000;

const ETH_P_IP: u32 = 0x0800;
const PKT_HOST: u32 = 0;
const PKT_MULTICAST: u32 = 2;
const TAKE: u32 = 0xffff_ffff;

/// Ports that one linear filter may list; beyond that it takes all UDP.
pub const PORTS_LISTED: usize = 64;

const fn ad(offset: u32) -> u32 {
    0xffff_f000 + offset // SKF_AD_OFF is -0x1000
}

/// Instructions of a program, `struct sock_filter`.
pub type Program = Vec<libc::sock_filter>;

const fn op(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

const fn jump(code: u16, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

/// The tap's filter: untagged or priority-tagged IPv4 for this host or a group, UDP
/// to one of `ports` or any fragment of UDP (later pieces carry no port).
#[must_use]
pub fn tap(ports: &[u16]) -> Program {
    if ports.is_empty() {
        return vec![op(RET, 0)];
    }
    let mut p = vec![
        op(LD_W_ABS, AD_PKTTYPE),
        jump(JEQ, PKT_HOST, 2, 0),
        jump(JEQ, PKT_MULTICAST, 1, 0),
        op(RET, 0),
        op(LD_B_ABS, AD_VLAN_TAG_PRESENT),
        jump(JEQ, 0, 4, 0),
        op(LD_H_ABS, AD_VLAN_TAG),
        op(AND, 0x0fff),
        jump(JEQ, 0, 1, 0),
        op(RET, 0),
        op(LD_H_ABS, 12),
        jump(JEQ, ETH_P_IP, 1, 0),
        op(RET, 0),
        op(LD_B_ABS, 23),
        jump(JEQ, libc::IPPROTO_UDP as u32, 1, 0),
        op(RET, 0),
        op(LD_H_ABS, 20),
        jump(JSET, 0x3fff, 0, 1), // more fragments, or an offset
        op(RET, TAKE),
    ];
    if ports.len() > PORTS_LISTED {
        p.push(op(RET, TAKE));
        return p;
    }
    p.push(op(LDX_MSH, 14));
    p.push(op(LD_H_IND, 16));
    let n = ports.len();
    for (i, &port) in ports.iter().enumerate() {
        // Jump over the remaining comparisons and the refusal.
        p.push(jump(JEQ, u32::from(port), (n - i) as u8, 0));
    }
    p.push(op(RET, 0));
    p.push(op(RET, TAKE));
    p
}

/// Takes packets, IP header first, with this byte at `offset` behind the header.
#[must_use]
pub fn byte_behind_ip_header(offset: u32, byte: u32) -> Program {
    vec![
        op(LDX_MSH, 0),
        op(LD_B_IND, offset),
        jump(JEQ, byte, 0, 1),
        op(RET, TAKE),
        op(RET, 0),
    ]
}

/// A group that a device brings although the kernel gets it as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shared {
    /// Interface index.
    pub ifindex: u32,
    /// The group.
    pub group: Ipv4Addr,
    /// Largest IP packet that the device brings: what is larger came in fragments.
    pub largest: u32,
}

/// The shadow socket's filter: refuses IPv4 to this host (unless `multicast_only`) or
/// to a group that came in by one of `interfaces`, and what is `shared`. Looped copies
/// of our own host's multicast (PACKET_LOOPBACK) and broadcasts never reach the
/// device's queue: they pass.
#[must_use]
pub fn shadow(interfaces: &[u32], multicast_only: bool, shared: &[Shared]) -> Program {
    let n = interfaces.len() as u8;
    let mut p = vec![
        op(LD_W_ABS, AD_PROTOCOL),
        jump(JEQ, ETH_P_IP, 1, 0),
        op(RET, TAKE),
        op(LD_W_ABS, AD_PKTTYPE),
        jump(JEQ, PKT_HOST, 2, 0),
        jump(JEQ, PKT_MULTICAST, 1, 0),
        op(RET, TAKE),
    ];
    for one in shared {
        p.extend([
            op(LD_W_ABS, AD_IFINDEX),
            jump(JEQ, one.ifindex, 0, 5),
            op(LD_W_ABS, NET + 16),
            jump(JEQ, one.group.to_bits(), 0, 3),
            op(LD_H_ABS, NET + 2),
            jump(JGT, one.largest, 1, 0),
            op(RET, 0),
        ]);
    }
    if interfaces.is_empty() {
        p.push(op(RET, TAKE));
        return p;
    }
    if multicast_only {
        // The destination decides, not the link layer: unicast in a multicast frame is unicast.
        p.extend([
            op(LD_B_ABS, NET + 16),
            op(AND, 0xf0),
            jump(JEQ, 0xe0, 1, 0),
            op(RET, TAKE),
        ]);
    }
    p.push(op(LD_W_ABS, AD_IFINDEX));
    for (i, &ifindex) in interfaces.iter().enumerate() {
        p.push(jump(JEQ, ifindex, n - i as u8, 0));
    }
    p.push(op(RET, TAKE));
    p.push(op(RET, 0));
    p
}

/// Attaches a program (SO_ATTACH_FILTER), replacing the one before it atomically.
///
/// # Errors
/// The kernel's: ENOMEM, EPERM on a locked filter.
pub fn attach(fd: RawFd, program: &Program) -> Result<(), Errno> {
    let prog = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_ptr().cast_mut(),
    };
    sock::set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &prog)
}

/// Takes the program off again.
///
/// # Errors
/// ENOENT when there is none.
pub fn detach(fd: RawFd) -> Result<(), Errno> {
    sock::set(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0i32)
}
