//! Control messages: written as the kernel's `put_cmsg` does, read as its `ip_cmsg_send`.
//!
//! Sources: cmsg(3), ip(7), socket(7); linux net/core/scm.c, net/ipv4/ip_sockglue.c.

use super::is_nowhere;
use engine::error::Errno;
use engine::socket::io::{Datagram, Delivery, SendControl, wanted};
use libc::{c_int, c_void, cmsghdr, in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use std::net::Ipv4Addr;

const HEADER: usize = size_of::<cmsghdr>();
const ALIGN: usize = size_of::<usize>();

/// Names with 64-bit time of asm-generic/socket.h; on 64-bit machines the same shapes.
const SO_TIMESTAMP_NEW: c_int = 63;
const SO_TIMESTAMPNS_NEW: c_int = 64;
const SO_TIMESTAMPING_NEW: c_int = 65;

const fn align(len: usize) -> usize {
    (len + ALIGN - 1) & !(ALIGN - 1)
}

const _: () = assert!(HEADER == align(HEADER) && HEADER == 16);

/// Writes control messages into the caller's buffer.
pub(super) struct Writer {
    at: *mut u8,
    left: usize,
    used: usize,
    /// MSG_CTRUNC is due.
    pub(super) truncated: bool,
}

impl Writer {
    /// # Safety
    /// `control` is null or writable for `len` bytes while the writer lives.
    pub(super) unsafe fn new(control: *mut c_void, len: usize) -> Self {
        let left = if is_nowhere(control) { 0 } else { len };
        Self {
            at: control.cast(),
            left,
            used: 0,
            truncated: false,
        }
    }

    /// Bytes of the buffer that are in use (`msg_controllen` on return).
    pub(super) fn used(&self) -> usize {
        self.used
    }

    fn put(&mut self, level: c_int, kind: c_int, data: &[u8]) {
        if self.left < HEADER {
            self.truncated = true;
            return;
        }
        let mut len = HEADER + data.len();
        if self.left < len {
            self.truncated = true;
            len = self.left;
        }
        let mut header = [0_u8; HEADER];
        header[..8].copy_from_slice(&len.to_ne_bytes());
        header[8..12].copy_from_slice(&level.to_ne_bytes());
        header[12..].copy_from_slice(&kind.to_ne_bytes());
        // SAFETY: at least HEADER bytes are left in the caller's buffer.
        unsafe { self.at.copy_from_nonoverlapping(header.as_ptr(), HEADER) };
        // SAFETY: the header's end is inside the buffer or one past it.
        let body = unsafe { self.at.add(HEADER) };
        // SAFETY: `len` was cut to what is left.
        unsafe { body.copy_from_nonoverlapping(data.as_ptr(), len - HEADER) };
        let step = align(HEADER + data.len()).min(self.left);
        // SAFETY: `step` is at most what is left.
        self.at = unsafe { self.at.add(step) };
        self.left -= step;
        self.used += step;
    }

    /// Everything that the socket's options ask for, in the kernel's order.
    pub(super) fn put_all(&mut self, datagram: &Datagram<'_>, how: &Delivery) {
        let asked = |bit| how.wanted & bit != 0;
        let seconds = (datagram.timestamp / 1_000_000_000).to_ne_bytes();
        let nanos = datagram.timestamp % 1_000_000_000;
        // sock_recv_timestamp, sock_recv_drops
        let named = |old, new| {
            if asked(wanted::STAMP_NEW) { new } else { old }
        };
        if asked(wanted::TIMESTAMPNS) {
            let stamp = [seconds, nanos.to_ne_bytes()];
            let kind = named(libc::SCM_TIMESTAMPNS, SO_TIMESTAMPNS_NEW);
            self.put(libc::SOL_SOCKET, kind, stamp.as_flattened());
        } else if asked(wanted::TIMESTAMP) {
            let stamp = [seconds, (nanos / 1000).to_ne_bytes()];
            let kind = named(libc::SCM_TIMESTAMP, SO_TIMESTAMP_NEW);
            self.put(libc::SOL_SOCKET, kind, stamp.as_flattened());
        }
        // One of the others makes the stamp if nothing on the way has.
        let stamped = datagram.stamped || asked(wanted::TIMESTAMP | wanted::TIMESTAMPNS);
        let software = asked(wanted::TIMESTAMPING) && stamped;
        if software || asked(wanted::HARDWARE) {
            let mut stamps = [[0_u8; 8]; 6];
            let stamp = [seconds, nanos.to_ne_bytes()];
            if software {
                stamps[..2].copy_from_slice(&stamp);
            }
            if asked(wanted::HARDWARE) {
                stamps[4..].copy_from_slice(&stamp);
            }
            let kind = named(libc::SCM_TIMESTAMPING, SO_TIMESTAMPING_NEW);
            self.put(libc::SOL_SOCKET, kind, stamps.as_flattened());
        }
        if asked(wanted::RXQ_OVFL) && how.drops != 0 {
            self.put(
                libc::SOL_SOCKET,
                libc::SO_RXQ_OVFL,
                &how.drops.to_ne_bytes(),
            );
        }
        // ip6_datagram_recv_common_ctl
        if asked(wanted::PKTINFO6) {
            let mut info = [0_u8; size_of::<in6_pktinfo>()];
            info[..16].copy_from_slice(&datagram.destination.to_ipv6_mapped().octets());
            info[16..].copy_from_slice(&datagram.ifindex.to_ne_bytes());
            self.put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
        }
        // ip_cmsg_recv_offset
        if asked(wanted::PKTINFO) {
            let mut info = [0_u8; size_of::<in_pktinfo>()];
            info[..4].copy_from_slice(&datagram.ifindex.to_ne_bytes());
            info[4..8].copy_from_slice(&how.local.octets());
            info[8..].copy_from_slice(&datagram.destination.octets());
            self.put(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
        }
        if asked(wanted::TTL) {
            let ttl = c_int::from(datagram.ttl);
            self.put(libc::IPPROTO_IP, libc::IP_TTL, &ttl.to_ne_bytes());
        }
        if asked(wanted::TOS) {
            self.put(libc::IPPROTO_IP, libc::IP_TOS, &[datagram.tos]);
        }
        if asked(wanted::ORIGDSTADDR) {
            let to = std::net::SocketAddrV4::new(datagram.destination, datagram.port);
            let (bytes, len) = super::encode_address(to, false);
            self.put(libc::IPPROTO_IP, libc::IP_ORIGDSTADDR, &bytes[..len]);
        }
    }
}

const _: () = assert!(size_of::<in6_pktinfo>() == 20 && size_of::<in6_addr>() == 16);
const _: () = assert!(size_of::<in_pktinfo>() == 12 && size_of::<in_addr>() == 4);

/// Puts another number into what the kernel said of SO_RXQ_OVFL, or takes it out; the length
/// of what is there then.
///
/// # Safety
/// `control` is null or holds `len` bytes of the kernel's control messages.
pub(super) unsafe fn correct_drops(control: *mut c_void, len: usize, drops: u32) -> usize {
    if is_nowhere(control) {
        return len;
    }
    // SAFETY: not null, and writable by the caller's promise.
    let buffer = unsafe { std::slice::from_raw_parts_mut(control.cast::<u8>(), len) };
    let mut at = 0;
    while let Some(message) = Reader(buffer.get(at..).unwrap_or(&[]))
        .next()
        .and_then(Result::ok)
    {
        let size = HEADER + message.data.len();
        let found = (message.level, message.kind) == (libc::SOL_SOCKET, libc::SO_RXQ_OVFL);
        if found && drops == 0 {
            let end = (at + align(size)).min(len);
            buffer.copy_within(end.., at);
            return len - (end - at);
        }
        if found && let Some(number) = buffer.get_mut(at + HEADER..at + HEADER + 4) {
            number.copy_from_slice(&drops.to_ne_bytes());
            return len;
        }
        at += align(size);
    }
    len
}

/// One control message of a send call.
struct Message<'a> {
    level: c_int,
    kind: c_int,
    data: &'a [u8],
}

/// Walks the control buffer; an error is a header that the kernel's CMSG_OK refuses.
struct Reader<'a>(&'a [u8]);

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Message<'a>, Errno>;

    fn next(&mut self) -> Option<Self::Item> {
        let (header, _) = self.0.split_at_checked(HEADER)?;
        let word = |at: usize| {
            c_int::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let len = header[..8]
            .try_into()
            .map(usize::from_ne_bytes)
            .unwrap_or(0);
        if len < HEADER || len > self.0.len() {
            self.0 = &[];
            return Some(Err(Errno::INVAL));
        }
        let data = &self.0[HEADER..len];
        self.0 = self.0.get(align(len)..).unwrap_or(&[]);
        Some(Ok(Message {
            level: word(8),
            kind: word(12),
            data,
        }))
    }
}

/// The control buffer of a send call.
///
/// # Safety
/// `control` is null or readable for `len` bytes, and stays so for `'a`.
unsafe fn bytes<'a>(control: *const c_void, len: usize) -> &'a [u8] {
    if is_nowhere(control) || len > isize::MAX as usize {
        return &[];
    }
    // SAFETY: not null and readable for `len` bytes by the caller's promise.
    unsafe { std::slice::from_raw_parts(control.cast(), len) }
}

/// What a send call's control messages ask for; None if the kernel has to answer: a
/// message that the engine does not know, or one that Linux refuses.
///
/// # Safety
/// `control` is null or readable for `len` bytes.
pub(super) unsafe fn decode(control: *const c_void, len: usize) -> Option<SendControl> {
    if is_nowhere(control) && len > 0 {
        return None;
    }
    // SAFETY: passed on.
    let buffer = unsafe { bytes(control, len) };
    let mut out = SendControl::default();
    for message in Reader(buffer) {
        let message = message.ok()?;
        let int = || message.data.try_into().ok().map(c_int::from_ne_bytes);
        match (message.level, message.kind) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let info: &[u8; 12] = message.data.try_into().ok()?;
                let ifindex = u32::from_ne_bytes([info[0], info[1], info[2], info[3]]);
                let source = Ipv4Addr::new(info[4], info[5], info[6], info[7]);
                out.ifindex = (ifindex != 0).then_some(ifindex).or(out.ifindex);
                out.source = (!source.is_unspecified()).then_some(source);
            }
            (libc::IPPROTO_IP, libc::IP_TTL) => {
                out.ttl = Some(u8::try_from(int()?).ok().filter(|&ttl| ttl != 0)?);
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => {
                out.tos = Some(match *message.data {
                    [tos] => tos,
                    _ => u8::try_from(int()?).ok()?,
                });
            }
            (libc::SOL_UDP, libc::UDP_SEGMENT) => {
                out.segment = Some(u16::from_ne_bytes(message.data.try_into().ok()?));
            }
            _ => return None,
        }
    }
    Some(out)
}

/// Calls `f` for every descriptor that a message passes on (SCM_RIGHTS).
///
/// # Safety
/// `header` is null or a readable msghdr whose control buffer is readable.
pub(crate) unsafe fn for_each_right(header: *const libc::msghdr, mut f: impl FnMut(c_int)) {
    if is_nowhere(header) {
        return;
    }
    // SAFETY: readable by the caller's promise.
    let Some(header) = (unsafe { header.as_ref() }) else {
        return;
    };
    // SAFETY: passed on.
    let buffer = unsafe { bytes(header.msg_control, header.msg_controllen) };
    for message in Reader(buffer).map_while(Result::ok) {
        if (message.level, message.kind) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            let (fds, _) = message.data.as_chunks::<4>();
            fds.iter().for_each(|fd| f(c_int::from_ne_bytes(*fd)));
        }
    }
}

#[cfg(test)]
mod tests;
