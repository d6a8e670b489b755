//! C arguments ⇄ Rust types: addresses, buffers, control messages, sets, times.
//!
//! Every pointer of the application is looked at here and nowhere else. What is wrong
//! with an argument in itself (a negative length, a null vector) is left to the kernel,
//! which is asked with the same arguments and so gives Linux's own answer. What Linux
//! finds only while copying is an error here, at the same moment.
//!
//! Sources: recv(2), send(2), cmsg(3), select(2), poll(2), epoll_wait(2);
//! linux/net/socket.c, net/core/scm.c, net/ipv4/ip_sockglue.c.

pub(crate) mod control;
pub(crate) mod kernel;
pub(crate) mod receive;
pub(crate) mod send;
pub(crate) mod wait;

use engine::error::Errno;
use engine::socket::SockAddrArg;
use libc::{c_int, c_void, iovec, sockaddr_in, sockaddr_in6, socklen_t};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Vectors that one call may have (UIO_MAXIOV).
pub(crate) const MAX_VECTORS: usize = 1024;

/// Bytes that one call moves at the most (MAX_RW_COUNT).
pub(crate) const MOST: usize = 0x7fff_f000;

/// An address longer than this is refused (sockaddr_storage).
pub(crate) const LONGEST: usize = 128;

/// Nothing is ever mapped below this (vm.mmap_min_addr is at least a page) nor in the
/// upper half: null, small offsets from null, negative numbers.
const LOWEST: isize = 4096;

/// True for an address that cannot be the program's: what the kernel answers with EFAULT.
/// Any other bad pointer is a fault here, as it is in libc's own functions.
#[inline]
pub(crate) fn is_nowhere<T>(ptr: *const T) -> bool {
    ptr.addr().cast_signed() < LOWEST
}

/// No program has memory above this, with page tables of any depth.
const HIGHEST: usize = 1 << 56;

/// True for memory that Linux refuses before it looks at the socket (`access_ok`): the
/// kernel is to answer.
#[inline(always)]
pub(crate) fn is_kernels<T>(ptr: *const T, len: usize) -> bool {
    ptr.addr().saturating_add(len) > HIGHEST
}

/// Sets the calling thread's `errno`.
pub(crate) fn set_errno(errno: Errno) {
    // SAFETY: no precondition.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the address of this thread's errno, valid while the thread lives.
    unsafe { *place = errno.0 };
}

/// The calling thread's `errno`.
pub(crate) fn errno() -> Errno {
    // SAFETY: no precondition.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the address of this thread's errno, valid while the thread lives.
    Errno(unsafe { *place })
}

/// The calling thread's `errno` as it was when a call came in: what the engine does
/// meanwhile (futexes of its locks) is nobody's.
pub(crate) struct KeptErrno {
    place: *mut c_int,
    value: c_int,
}

impl KeptErrno {
    /// Reads it.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        // SAFETY: no precondition.
        let place = unsafe { libc::__errno_location() };
        // SAFETY: the address of this thread's errno, valid while the thread lives.
        let value = unsafe { *place };
        Self { place, value }
    }

    /// Puts it back.
    #[inline(always)]
    pub(crate) fn restore(&self) {
        // SAFETY: as it was read, in the same thread: the value is not Send.
        unsafe { *self.place = self.value };
    }
}

/// The two numbers that pipe or socketpair made.
///
/// # Safety
/// `pair` holds two ints.
pub(crate) unsafe fn pair(pair: *const c_int) -> [c_int; 2] {
    // SAFETY: by the caller's promise.
    unsafe { pair.cast::<[c_int; 2]>().read_unaligned() }
}

/// The descriptor of a stream, or -1; `errno` stays.
///
/// # Safety
/// An open stream.
pub(crate) unsafe fn stream_number(stream: *mut libc::FILE) -> c_int {
    let before = errno();
    // SAFETY: by the caller's promise.
    let fd = unsafe { libc::fileno(stream) };
    set_errno(before);
    fd
}

/// Parses an address argument.
///
/// # Safety
/// `ptr` is null or readable for `len` bytes.
pub(crate) unsafe fn address(ptr: *const c_void, len: socklen_t) -> SockAddrArg {
    // SAFETY: passed on.
    let parsed = unsafe { parse_address(ptr, len) };
    SockAddrArg {
        ptr: ptr.expose_provenance(),
        len,
        parsed,
    }
}

/// # Safety
/// As [`address`].
unsafe fn parse_address(ptr: *const c_void, len: socklen_t) -> Option<SocketAddr> {
    let len = usize::try_from(len).ok().filter(|&l| l <= LONGEST)?;
    if is_nowhere(ptr) || len < size_of::<sockaddr_in>() {
        return None;
    }
    // SAFETY: readable for at least the 16 bytes of a sockaddr_in; alignment is not assumed.
    let v4 = unsafe { ptr.cast::<sockaddr_in>().read_unaligned() };
    match c_int::from(v4.sin_family) {
        libc::AF_INET => {
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 if len >= size_of::<sockaddr_in6>() => {
            // SAFETY: readable for the 28 bytes of a sockaddr_in6.
            let v6 = unsafe { ptr.cast::<sockaddr_in6>().read_unaligned() };
            Some(SocketAddr::V6(SocketAddrV6::new(
                Ipv6Addr::from(v6.sin6_addr.s6_addr),
                u16::from_be(v6.sin6_port),
                v6.sin6_flowinfo,
                v6.sin6_scope_id,
            )))
        }
        _ => None,
    }
}

/// A sockaddr as the kernel writes it, and its length.
fn encode_address(addr: SocketAddrV4, mapped: bool) -> ([u8; 28], usize) {
    let mut out = [0; 28];
    out[2..4].copy_from_slice(&addr.port().to_be_bytes());
    if mapped {
        out[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        out[8..24].copy_from_slice(&addr.ip().to_ipv6_mapped().octets());
        (out, size_of::<sockaddr_in6>())
    } else {
        out[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        out[4..8].copy_from_slice(&addr.ip().octets());
        (out, size_of::<sockaddr_in>())
    }
}

/// The vectors of a readv, writev, recvmsg or sendmsg; None if the kernel would refuse
/// them before it looks at the socket.
///
/// # Safety
/// `iov` is null or readable for `count` elements, and stays so for `'a`.
pub(crate) unsafe fn vectors<'a>(iov: *const iovec, count: usize) -> Option<&'a [iovec]> {
    if count == 0 {
        return Some(&[]);
    }
    if count > MAX_VECTORS || is_nowhere(iov) || !iov.is_aligned() {
        return None;
    }
    // SAFETY: not null, aligned, readable for `count` elements by the caller's promise.
    let vectors = unsafe { std::slice::from_raw_parts(iov, count) };
    // A single one is cut to what a call moves at the most before it is looked at.
    let most = if count == 1 { MOST } else { usize::MAX };
    vectors
        .iter()
        .all(|v| v.iov_len <= isize::MAX as usize && !is_kernels(v.iov_base, v.iov_len.min(most)))
        .then_some(vectors)
}

/// Length of all vectors together.
pub(crate) fn total(vectors: &[iovec]) -> usize {
    vectors
        .iter()
        .fold(0, |sum, v| sum.saturating_add(v.iov_len))
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::multiple_unsafe_ops_per_block,
        reason = "one argument after the other on the same local"
    )]

    use super::*;

    fn parse(bytes: &[u8]) -> Option<SocketAddr> {
        // SAFETY: a slice is readable for its length.
        unsafe { address(bytes.as_ptr().cast(), bytes.len() as u32) }.parsed
    }

    #[test]
    fn addresses_both_ways() {
        let addr: SocketAddrV4 = "192.0.2.7:4242".parse().unwrap();
        let (bytes, len) = encode_address(addr, false);
        assert_eq!(
            &bytes[..len],
            [2, 0, 0x10, 0x92, 192, 0, 2, 7, 0, 0, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(parse(&bytes[..16]), Some(SocketAddr::V4(addr)));
        assert_eq!(parse(&bytes[..15]), None);

        let (bytes, len) = encode_address(addr, true);
        assert_eq!(len, 28);
        assert_eq!(bytes[..4], [10, 0, 0x10, 0x92]);
        assert_eq!(bytes[18..24], [0xff, 0xff, 192, 0, 2, 7]);
        assert_eq!(
            parse(&bytes),
            Some("[::ffff:192.0.2.7]:4242".parse().unwrap())
        );
        assert_eq!(parse(&bytes[..27]), None);
        assert_eq!(parse(&[0; 16]), None, "AF_UNSPEC");
    }

    #[test]
    fn addresses_that_cannot_be() {
        let at = |address: usize| std::ptr::without_provenance::<u8>(address);
        for address in [0, 8, 4095, usize::MAX, 1 << 63] {
            assert!(is_nowhere(at(address)));
        }
        assert!(!is_nowhere(at(4096)) && !is_nowhere(&raw const at));
        // SAFETY: refused before it is read.
        assert_eq!(unsafe { address(at(8).cast(), 16) }.parsed, None);
    }

    #[test]
    fn vectors_that_the_kernel_refuses() {
        let one = iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 5,
        };
        let wild = iovec {
            iov_base: std::ptr::without_provenance_mut(1 << 63),
            iov_len: 0,
        };
        let bad = iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: usize::MAX,
        };
        // SAFETY: pointers to locals, or null.
        unsafe {
            assert_eq!(vectors(&raw const one, 1).map(total), Some(5));
            assert!(vectors(&raw const bad, 1).is_none());
            assert!(vectors([one, wild].as_ptr(), 2).is_none());
            assert!(vectors(&raw const one, 1025).is_none());
            assert!(vectors(std::ptr::null(), 1).is_none());
            assert_eq!(vectors(std::ptr::null(), 0).map(total), Some(0));
        }
    }
}
