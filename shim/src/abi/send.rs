//! One send call: payload, destination, control messages.
//!
//! Source: send(2), udp(7); linux net/ipv4/udp.c and net/ipv6/udp.c for what an address
//! argument means on either family.

use super::kernel::{arg, forward};
use super::{LONGEST, address, control, is_kernels, is_nowhere, vectors};
use engine::error::Errno;
use engine::socket::SockAddrArg;
use engine::socket::io::{Destination, Peer, SendControl};
use libc::{c_int, c_void, iovec, msghdr, sockaddr_in, socklen_t};
use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::RawFd;
use std::ptr;

/// An IPv4 address.
const SHORTEST: u32 = size_of::<sockaddr_in>() as u32;

/// A msghdr that asks for nothing.
pub(super) fn empty_header() -> msghdr {
    // SAFETY: all-zero is a valid msghdr: null pointers and zero lengths.
    unsafe { std::mem::zeroed() }
}

/// Arguments of write, writev, send, sendto, sendmsg or one message of sendmmsg.
pub(crate) struct Outgoing<'a> {
    payload: &'a [IoSlice<'a>],
    flags: c_int,
    name: SockAddrArg,
    control: Option<SendControl>,
    header: Option<&'a msghdr>,
}

/// The call that market-data programs make: one buffer, to an IPv4 address or the peer.
pub(crate) struct Simple<'a> {
    payload: &'a [u8],
    to: Peer,
    flags: c_int,
    name: *const c_void,
    name_len: socklen_t,
}

impl<'a> Simple<'a> {
    /// None: not so simple, see [`Outgoing::plain`].
    ///
    /// # Safety
    /// The buffer and `name` are null or readable as sendto(2) asks.
    #[inline(always)]
    pub(crate) unsafe fn new(
        buffer: *const c_void,
        len: usize,
        flags: c_int,
        name: *const c_void,
        name_len: socklen_t,
    ) -> Option<Self> {
        let to = if name.is_null() {
            Peer::CONNECTED
        } else if name_len.wrapping_sub(SHORTEST) > LONGEST as u32 - SHORTEST || is_nowhere(name) {
            return None;
        } else {
            // SAFETY: readable for the 16 bytes of a sockaddr_in; alignment is not assumed.
            let v4 = unsafe { name.cast::<sockaddr_in>().read_unaligned() };
            if c_int::from(v4.sin_family) != libc::AF_INET {
                return None;
            }
            let ip = Ipv4Addr::from_bits(u32::from_be(v4.sin_addr.s_addr));
            Peer::new(ip, u16::from_be(v4.sin_port))?
        };
        if is_nowhere(buffer) || len > isize::MAX as usize {
            return None;
        }
        // SAFETY: not null, not longer than an object can be; readable for `len` bytes by the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), len) };
        Some(Self {
            payload: bytes,
            to,
            flags,
            name,
            name_len,
        })
    }

    /// The same call, as [`super::receive::Simple::again`].
    #[inline(always)]
    pub(crate) fn again(&self) -> Self {
        Self {
            payload: self.payload,
            to: self.to,
            flags: self.flags,
            name: self.name,
            name_len: self.name_len,
        }
    }

    /// Payload, destination, flags.
    #[inline(always)]
    pub(crate) fn parts(&self) -> (&'a [u8], Peer, c_int) {
        (self.payload, self.to, self.flags)
    }

    /// Makes the same call on the kernel socket.
    #[cold]
    pub(crate) fn kernel(&self, fd: RawFd) -> Result<usize, Errno> {
        let args = [
            arg(fd),
            self.payload.as_ptr().expose_provenance(),
            self.payload.len(),
            arg(self.flags),
            self.name.expose_provenance(),
            self.name_len as usize,
        ];
        // SAFETY: the application's sendto arguments.
        unsafe { forward(libc::SYS_sendto, args) }
    }
}

/// The vectors as the engine reads them; None if one is null (the kernel answers).
fn slices<'a>(vectors: &'a [iovec]) -> Option<&'a [IoSlice<'a>]> {
    // An empty one may point anywhere, but a Rust slice is never null.
    let unreadable = |v: &iovec| {
        v.iov_base.is_null()
            || is_kernels(v.iov_base, 0)
            || (v.iov_len > 0 && is_nowhere(v.iov_base))
    };
    if vectors.iter().any(unreadable) {
        return None;
    }
    // SAFETY: IoSlice is guaranteed to have iovec's layout; the buffers are readable as
    // the caller of the send function promised, and none is null.
    Some(unsafe { std::slice::from_raw_parts(vectors.as_ptr().cast(), vectors.len()) })
}

impl<'a> Outgoing<'a> {
    /// write, writev, send, sendto; None: let the kernel answer.
    ///
    /// # Safety
    /// The vectors' buffers and `name` are null or readable as sendto(2) asks.
    #[inline]
    pub(crate) unsafe fn plain(
        vectors: &'a [iovec],
        flags: c_int,
        name: *const c_void,
        name_len: socklen_t,
    ) -> Option<Self> {
        let payload = slices(vectors)?;
        // SAFETY: passed on.
        let name = unsafe { address(name, name_len) };
        Some(Self {
            payload,
            flags,
            name,
            control: None,
            header: None,
        })
    }

    /// sendmsg; None: let the kernel answer.
    ///
    /// # Safety
    /// `header` is null or valid with everything it points to, as sendmsg(2) asks.
    pub(crate) unsafe fn message(header: *const msghdr, flags: c_int) -> Option<Self> {
        if is_nowhere(header) {
            return None;
        }
        // SAFETY: readable for the call, by the caller's promise.
        let header = unsafe { header.as_ref() }?;
        // SAFETY: by the caller's promise.
        let payload = slices(unsafe { vectors(header.msg_iov, header.msg_iovlen) }?)?;
        // SAFETY: by the caller's promise.
        let control = unsafe { control::decode(header.msg_control, header.msg_controllen) }?;
        // SAFETY: by the caller's promise.
        let name = unsafe { address(header.msg_name, header.msg_namelen) };
        Some(Self {
            payload,
            flags,
            name,
            control: (control != SendControl::default()).then_some(control),
            header: Some(header),
        })
    }

    /// The payload.
    pub(crate) fn payload(&self) -> &'a [IoSlice<'a>] {
        self.payload
    }

    /// What the control messages ask for.
    pub(crate) fn control(&self) -> Option<&SendControl> {
        self.control.as_ref()
    }

    /// The call's flags.
    pub(crate) fn flags(&self) -> c_int {
        self.flags
    }

    /// Where it goes, by the rules of the socket's family.
    #[inline]
    pub(crate) fn destination(&self, v6: bool) -> Destination {
        match self.name.parsed {
            Some(SocketAddr::V4(to)) => Destination::V4(to),
            Some(SocketAddr::V6(to)) if v6 => match to.ip().to_ipv4_mapped() {
                Some(ip) => Destination::V4(SocketAddrV4::new(ip, to.port())),
                None => Destination::Other,
            },
            Some(SocketAddr::V6(_)) => Destination::Other,
            // A null address with a length is no address; sendto and sendmsg agree.
            None if self.name.ptr == 0 => Destination::Connected,
            None => Destination::Other,
        }
    }

    /// Makes the same call on the kernel socket.
    pub(crate) fn kernel(&self, fd: RawFd) -> Result<usize, Errno> {
        let flags = arg(self.flags);
        if let Some(header) = self.header {
            let header = ptr::from_ref(header).expose_provenance();
            // SAFETY: the application's sendmsg arguments.
            return unsafe { forward(libc::SYS_sendmsg, [arg(fd), header, flags, 0, 0, 0]) };
        }
        if let [one] = self.payload {
            let base = one.as_ptr().expose_provenance();
            let args = [
                arg(fd),
                base,
                one.len(),
                flags,
                self.name.ptr,
                self.name.len as usize,
            ];
            // SAFETY: the application's sendto arguments.
            return unsafe { forward(libc::SYS_sendto, args) };
        }
        // writev
        let mut header = empty_header();
        header.msg_iov = self.payload.as_ptr().cast::<iovec>().cast_mut();
        header.msg_iovlen = self.payload.len();
        let address = (&raw const header).expose_provenance();
        // SAFETY: a header of our own around the application's vectors.
        unsafe { forward(libc::SYS_sendmsg, [arg(fd), address, flags, 0, 0, 0]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    fn vector(bytes: &[u8]) -> iovec {
        iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        }
    }

    fn to(bytes: &[u8]) -> (Destination, Destination) {
        let data = vector(b"x");
        let vectors = std::slice::from_ref(&data);
        let (name, len) = (bytes.as_ptr().cast(), bytes.len() as u32);
        // SAFETY: slices are readable for their length.
        let call = unsafe { Outgoing::plain(vectors, 0, name, len) }.unwrap();
        (call.destination(false), call.destination(true))
    }

    #[test]
    fn destinations_by_family() {
        let addr: SocketAddrV4 = "192.0.2.1:9".parse().unwrap();
        let v4 = Destination::V4(addr);
        let (bytes, len) = super::super::encode_address(addr, false);
        assert_eq!(to(&bytes[..len]), (v4, v4));
        assert_eq!(to(&bytes[..15]), (Destination::Other, Destination::Other));
        let (bytes, len) = super::super::encode_address(addr, true);
        assert_eq!(to(&bytes[..len]), (Destination::Other, v4));
        let mut native = bytes;
        native[8] = 0x20;
        assert_eq!(to(&native), (Destination::Other, Destination::Other));
        assert_eq!(
            to(&[0; 16]),
            (Destination::Other, Destination::Other),
            "AF_UNSPEC"
        );

        let data = vector(b"x");
        let vectors = std::slice::from_ref(&data);
        // SAFETY: a null address.
        let call = unsafe { Outgoing::plain(vectors, 0, ptr::null(), 16) }.unwrap();
        assert_eq!(call.destination(false), Destination::Connected);
    }

    #[test]
    fn null_buffers_are_the_kernels() {
        let null = iovec {
            iov_base: ptr::null_mut(),
            iov_len: 0,
        };
        let null = [null];
        // SAFETY: null pointers.
        assert!(unsafe { Outgoing::plain(&null, 0, ptr::null(), 0) }.is_none());
        // SAFETY: null pointers.
        assert!(unsafe { Outgoing::message(ptr::null(), 0) }.is_none());
    }

    #[test]
    fn the_kernel_gets_the_same_call() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        let parts = [vector(b"abc"), vector(b""), vector(b"de")];
        let mut buffer = [0; 16];
        // SAFETY: slices are readable for their length.
        let call = unsafe { Outgoing::plain(&parts, 0, ptr::null(), 0) }.unwrap();
        assert_eq!(call.kernel(sender.as_raw_fd()), Ok(5));
        assert_eq!(receiver.recv(&mut buffer).unwrap(), 5);
        assert_eq!(&buffer[..5], b"abcde");
        // SAFETY: slices are readable for their length.
        let call = unsafe { Outgoing::plain(&parts[..1], 0, ptr::null(), 0) }.unwrap();
        assert_eq!(call.kernel(sender.as_raw_fd()), Ok(3));
        let mut header = empty_header();
        header.msg_iov = parts.as_ptr().cast_mut();
        header.msg_iovlen = 1;
        // SAFETY: a header on the stack with readable vectors.
        let call = unsafe { Outgoing::message(&raw const header, 0) }.unwrap();
        assert_eq!(call.kernel(sender.as_raw_fd()), Ok(3));
        assert_eq!(call.kernel(-1), Err(Errno::BADF));
    }
}
