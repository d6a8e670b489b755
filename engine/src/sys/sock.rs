//! Socket system calls on the application's kernel sockets and on our own.
//!
//! The caller's pointers are handed to the kernel unread: it checks them.

use super::raw::syscall6;
use crate::error::Errno;
use std::mem::size_of;
use std::os::fd::RawFd;

/// A system call whose pointers come from the application or from live references here.
///
/// The kernel checks every pointer (EFAULT); memory it writes belongs to the
/// application, which asked for it.
fn call(nr: libc::c_long, args: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: see above; every caller in this file passes either the application's
    // own arguments or pointers to values that outlive the call.
    unsafe { syscall6(nr, args) }
}

/// bind(2) with the caller's structure.
///
/// # Errors
/// The kernel's.
pub fn bind(fd: RawFd, ptr: usize, len: u32) -> Result<usize, Errno> {
    call(libc::SYS_bind, [fd as usize, ptr, len as usize, 0, 0, 0])
}

/// Whether an interface has a carrier now, which netlink may tell a second later
/// (ETHTOOL_GLINK; `fd` is any socket). One that cannot be asked has.
pub fn has_carrier(fd: RawFd, name: &str) -> bool {
    const SIOCETHTOOL: usize = 0x8946;
    const ETHTOOL_GLINK: u32 = 0xa;
    #[repr(C)]
    struct Request {
        name: [u8; libc::IFNAMSIZ],
        value: *mut [u32; 2],
        rest: [usize; 2],
    }
    let mut value = [ETHTOOL_GLINK, 1];
    let mut request = Request {
        name: [0; libc::IFNAMSIZ],
        value: &raw mut value,
        rest: [0; 2],
    };
    let length = name.len().min(libc::IFNAMSIZ - 1);
    request.name[..length].copy_from_slice(&name.as_bytes()[..length]);
    let at = std::ptr::from_mut(&mut request) as usize;
    let asked = call(libc::SYS_ioctl, [fd as usize, SIOCETHTOOL, at, 0, 0, 0]);
    asked.is_err() || value[1] != 0
}

/// The number of a socket's network namespace (SO_NETNS_COOKIE); None before Linux 5.14.
#[must_use]
pub fn namespace(fd: RawFd) -> Option<u64> {
    const SO_NETNS_COOKIE: i32 = 71;
    let mut cookie = [0; 8];
    match get_bytes(fd, libc::SOL_SOCKET, SO_NETNS_COOKIE, &mut cookie) {
        Ok(8) => Some(u64::from_ne_bytes(cookie)),
        _ => None,
    }
}

/// The number by which /proc/net tells one socket from another.
///
/// # Errors
/// EBADF.
pub fn inode(fd: RawFd) -> Result<u64, Errno> {
    // SAFETY: an open descriptor of the caller's, borrowed for this call alone.
    let fd = unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) };
    Ok(rustix::fs::fstat(fd)?.st_ino)
}

/// connect(2) with the caller's structure.
///
/// # Errors
/// The kernel's.
pub fn connect(fd: RawFd, ptr: usize, len: u32) -> Result<usize, Errno> {
    call(libc::SYS_connect, [fd as usize, ptr, len as usize, 0, 0, 0])
}

/// setsockopt(2) with the caller's value.
///
/// # Errors
/// The kernel's.
pub fn setsockopt(fd: RawFd, level: i32, name: i32, ptr: usize, len: u32) -> Result<usize, Errno> {
    call(
        libc::SYS_setsockopt,
        [
            fd as usize,
            level as usize,
            name as usize,
            ptr,
            len as usize,
            0,
        ],
    )
}

/// setsockopt(2) with a value of ours.
///
/// # Errors
/// The kernel's.
pub fn set<T>(fd: RawFd, level: i32, name: i32, value: &T) -> Result<(), Errno> {
    setsockopt(
        fd,
        level,
        name,
        std::ptr::from_ref(value) as usize,
        size_of::<T>() as u32,
    )
    .map(drop)
}

/// getsockopt(2) of an int.
///
/// # Errors
/// The kernel's.
pub fn get_int(fd: RawFd, level: i32, name: i32) -> Result<i32, Errno> {
    let mut value = 0i32;
    let mut len = size_of::<i32>() as u32;
    call(
        libc::SYS_getsockopt,
        [
            fd as usize,
            level as usize,
            name as usize,
            std::ptr::from_mut(&mut value) as usize,
            std::ptr::from_mut(&mut len) as usize,
            0,
        ],
    )?;
    Ok(value)
}

/// getsockopt(2) into a byte buffer; the length the kernel filled.
///
/// # Errors
/// The kernel's.
pub fn get_bytes(fd: RawFd, level: i32, name: i32, out: &mut [u8]) -> Result<usize, Errno> {
    let mut len = out.len() as u32;
    call(
        libc::SYS_getsockopt,
        [
            fd as usize,
            level as usize,
            name as usize,
            out.as_mut_ptr() as usize,
            std::ptr::from_mut(&mut len) as usize,
            0,
        ],
    )?;
    Ok(len as usize)
}

fn name_bytes(nr: libc::c_long, fd: RawFd) -> Result<([u8; 128], u32), Errno> {
    let mut buf = [0u8; 128];
    let mut len = buf.len() as u32;
    call(
        nr,
        [
            fd as usize,
            buf.as_mut_ptr() as usize,
            std::ptr::from_mut(&mut len) as usize,
            0,
            0,
            0,
        ],
    )?;
    Ok((buf, len.min(128)))
}

fn name_call(nr: libc::c_long, fd: RawFd) -> Result<Option<std::net::SocketAddr>, Errno> {
    let (buf, len) = name_bytes(nr, fd)?;
    Ok(parse_sockaddr(&buf[..len as usize]))
}

/// bind(2) to port 0 of the address that the socket has already.
///
/// # Errors
/// The kernel's.
pub fn bind_again(fd: RawFd) -> Result<usize, Errno> {
    let (name, len) = name_bytes(libc::SYS_getsockname, fd)?;
    bind(fd, name.as_ptr() as usize, len)
}

/// getsockname(2); None for a family other than AF_INET and AF_INET6.
///
/// # Errors
/// The kernel's.
pub fn local_name(fd: RawFd) -> Result<Option<std::net::SocketAddr>, Errno> {
    name_call(libc::SYS_getsockname, fd)
}

/// getpeername(2); as [`local_name`].
///
/// # Errors
/// The kernel's, ENOTCONN among them.
pub fn peer_name(fd: RawFd) -> Result<Option<std::net::SocketAddr>, Errno> {
    name_call(libc::SYS_getpeername, fd)
}

/// Reads a `sockaddr_in` or `sockaddr_in6` (ip(7), ipv6(7)) of at least its full size.
#[must_use]
pub fn parse_sockaddr(bytes: &[u8]) -> Option<std::net::SocketAddr> {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
    let family = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    match i32::from(family) {
        libc::AF_INET if bytes.len() >= size_of::<libc::sockaddr_in>() => {
            let ip: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            Some(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::from(ip), port)))
        }
        libc::AF_INET6 if bytes.len() >= 24 => {
            let ip: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            Some(SocketAddr::V6(SocketAddrV6::new(
                Ipv6Addr::from(ip),
                port,
                0,
                0,
            )))
        }
        _ => None,
    }
}

/// shutdown(2).
///
/// # Errors
/// The kernel's.
pub fn shutdown(fd: RawFd, how: i32) -> Result<usize, Errno> {
    call(libc::SYS_shutdown, [fd as usize, how as usize, 0, 0, 0, 0])
}

/// ioctl(2) with the caller's argument.
///
/// # Errors
/// The kernel's.
pub fn ioctl(fd: RawFd, request: libc::c_ulong, arg: usize) -> Result<usize, Errno> {
    call(
        libc::SYS_ioctl,
        [fd as usize, request as usize, arg, 0, 0, 0],
    )
}

/// FIONREAD on a kernel UDP socket: bytes of the next datagram.
///
/// # Errors
/// The kernel's.
pub fn fionread(fd: RawFd) -> Result<i32, Errno> {
    let mut value = 0i32;
    ioctl(fd, libc::FIONREAD, std::ptr::from_mut(&mut value) as usize)?;
    Ok(value)
}

/// F_GETFL.
///
/// # Errors
/// The kernel's.
pub fn status_flags(fd: RawFd) -> Result<i32, Errno> {
    call(
        libc::SYS_fcntl,
        [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0],
    )
    .map(|v| v as i32)
}

/// Duplicates a descriptor (close-on-exec).
///
/// # Errors
/// The kernel's.
pub fn duplicate(fd: RawFd) -> Result<RawFd, Errno> {
    call(
        libc::SYS_fcntl,
        [fd as usize, libc::F_DUPFD_CLOEXEC as usize, 0, 0, 0, 0],
    )
    .map(|v| v as RawFd)
}

/// Sends one buffer; the socket is connected or bound to where it goes.
///
/// # Errors
/// The kernel's.
pub fn send(fd: RawFd, frame: &[u8], flags: i32) -> Result<usize, Errno> {
    call(
        libc::SYS_sendto,
        [
            fd as usize,
            frame.as_ptr() as usize,
            frame.len(),
            flags as usize,
            0,
            0,
        ],
    )
}

/// Receives into one buffer.
///
/// # Errors
/// The kernel's.
pub fn recv(fd: RawFd, out: &mut [u8], flags: i32) -> Result<usize, Errno> {
    call(
        libc::SYS_recvfrom,
        [
            fd as usize,
            out.as_mut_ptr() as usize,
            out.len(),
            flags as usize,
            0,
            0,
        ],
    )
}

/// What a datagram at the head of a socket's queue says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// When the kernel saw its frame (CLOCK_REALTIME, ns); 0: not known.
    pub timestamp: u64,
    /// Sender; also of an AF_INET6 socket that carries IPv4.
    pub source: Option<std::net::SocketAddrV4>,
    /// Payload bytes.
    pub length: usize,
}

/// Looks at the head of a socket's queue. The options of the socket are as before
/// afterwards.
///
/// # Errors
/// EAGAIN; an error that waited on the socket, which has it no more.
pub fn peek_origin(fd: RawFd) -> Result<Origin, Errno> {
    let nanoseconds = get_int(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS).unwrap_or(0);
    let microseconds = get_int(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMP).unwrap_or(0);
    let stamp = |name, on: i32| set(fd, libc::SOL_SOCKET, name, &on);
    if nanoseconds == 0 {
        stamp(libc::SO_TIMESTAMPNS, 1)?;
    }
    let origin = peek_stamped(fd);
    if nanoseconds == 0 {
        // The two exclude each other: the last one set is the one that is on.
        let _ = match microseconds {
            0 => stamp(libc::SO_TIMESTAMPNS, 0),
            _ => stamp(libc::SO_TIMESTAMP, 1),
        };
    }
    origin
}

/// The payload at the head of a socket's queue.
///
/// # Errors
/// As [`peek_origin`].
pub fn peek(fd: RawFd, payload: &mut [u8]) -> Result<usize, Errno> {
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    let (at, length) = (payload.as_mut_ptr() as usize, payload.len());
    call(
        libc::SYS_recvfrom,
        [fd as usize, at, length, flags as usize, 0, 0],
    )
}

/// A message with what the kernel says of it.
struct Message {
    length: usize,
    source: Option<std::net::SocketAddrV4>,
    control: [u8; 512],
    controls: usize,
}

impl Message {
    fn receive(fd: RawFd, flags: i32, payload: &mut [u8]) -> Result<Self, Errno> {
        let mut name = [0u8; 28];
        let mut control = [0u64; 64];
        let mut part = libc::iovec {
            iov_base: payload.as_mut_ptr().cast(),
            iov_len: payload.len(),
        };
        let mut message = libc::msghdr {
            msg_name: name.as_mut_ptr().cast(),
            msg_namelen: name.len() as u32,
            msg_iov: &raw mut part,
            msg_iovlen: 1,
            msg_control: control.as_mut_ptr().cast(),
            msg_controllen: size_of_val(&control),
            msg_flags: 0,
        };
        let flags = flags | libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        let message_at = std::ptr::from_mut(&mut message) as usize;
        let length = call(
            libc::SYS_recvmsg,
            [fd as usize, message_at, flags as usize, 0, 0, 0],
        )?;
        let mut bytes = [0u8; 512];
        for (to, from) in bytes.chunks_exact_mut(8).zip(control) {
            to.copy_from_slice(&from.to_ne_bytes());
        }
        let source = match parse_sockaddr(&name[..(message.msg_namelen as usize).min(28)]) {
            Some(std::net::SocketAddr::V4(v4)) => Some(v4),
            Some(std::net::SocketAddr::V6(v6)) => v6
                .ip()
                .to_ipv4_mapped()
                .map(|ip| std::net::SocketAddrV4::new(ip, v6.port())),
            None => None,
        };
        Ok(Self {
            length,
            source,
            control: bytes,
            controls: message.msg_controllen.min(512),
        })
    }

    /// The contents of a control message.
    fn find(&self, level: i32, kind: i32) -> Option<&[u8]> {
        const HEADER: usize = size_of::<libc::cmsghdr>();
        let wanted = u64::from(level as u32) | u64::from(kind as u32) << 32;
        let mut rest = &self.control[..self.controls];
        while rest.len() >= HEADER {
            let size = (word(rest, 0) as usize).max(HEADER);
            if word(rest, 8) == wanted {
                return rest.get(HEADER..size);
            }
            rest = rest.get(size.next_multiple_of(8)..).unwrap_or(&[]);
        }
        None
    }

    fn timestamp(&self) -> u64 {
        self.find(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS)
            .map_or(0, |time| word(time, 0) * 1_000_000_000 + word(time, 8))
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let eight = bytes.get(at..at + 8).and_then(|b| b.try_into().ok());
    eight.map_or(0, u64::from_ne_bytes)
}

fn peek_stamped(fd: RawFd) -> Result<Origin, Errno> {
    let message = Message::receive(fd, libc::MSG_PEEK, &mut [])?;
    Ok(Origin {
        timestamp: message.timestamp(),
        source: message.source,
        length: message.length,
    })
}

/// A datagram taken from a kernel socket.
#[derive(Debug)]
pub struct Taken {
    /// Sender.
    pub source: std::net::SocketAddrV4,
    /// Destination address of the IP header.
    pub destination: std::net::Ipv4Addr,
    /// Interface index.
    pub ifindex: u32,
    /// Time to live.
    pub ttl: u8,
    /// Type of service.
    pub tos: u8,
    /// Receive time (CLOCK_REALTIME, ns).
    pub timestamp: u64,
}

/// Options that [`take_all`] turns on.
const TOLD: [(i32, i32); 4] = [
    (libc::IPPROTO_IP, libc::IP_PKTINFO),
    (libc::IPPROTO_IP, libc::IP_RECVTTL),
    (libc::IPPROTO_IP, libc::IP_RECVTOS),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS),
];

/// Takes what is queued on a kernel socket, up to the first that did not come by IPv4. The
/// options of the socket are as before afterwards. Why it ended: an error that waited on the
/// socket, which has it no more, or EAGAIN.
pub fn take_all(fd: RawFd, mut visit: impl FnMut(&Taken, &[u8])) -> Errno {
    let microseconds = get_int(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMP).unwrap_or(0);
    let off: Vec<_> = TOLD
        .into_iter()
        .filter(|(level, name)| get_int(fd, *level, *name) == Ok(0))
        .collect();
    for (level, name) in &off {
        let _ = set(fd, *level, *name, &1i32);
    }
    let mut payload = vec![0; 1 << 16];
    let next = |payload: &mut [u8]| match Message::receive(fd, libc::MSG_PEEK, &mut [])? {
        Message { source: None, .. } => Err(Errno::AGAIN),
        _ => Message::receive(fd, 0, payload),
    };
    let end = loop {
        let message = match next(&mut payload) {
            Ok(message) => message,
            Err(e) => break e,
        };
        let Some(source) = message.source else {
            continue;
        };
        let info = message.find(libc::IPPROTO_IP, libc::IP_PKTINFO);
        let info = info.unwrap_or(&[]);
        let four = |at: usize| {
            let bytes = info.get(at..at + 4).and_then(|b| b.try_into().ok());
            bytes.unwrap_or([0u8; 4])
        };
        let first = |name| {
            let found = message.find(libc::IPPROTO_IP, name);
            found.and_then(|b| b.first().copied()).unwrap_or(0)
        };
        let taken = Taken {
            source,
            destination: four(8).into(),
            ifindex: u32::from_ne_bytes(four(0)),
            ttl: first(libc::IP_TTL),
            tos: first(libc::IP_TOS),
            timestamp: message.timestamp(),
        };
        visit(&taken, &payload[..message.length.min(payload.len())]);
    };
    for (level, name) in &off {
        let _ = set(fd, *level, *name, &0i32);
    }
    if microseconds != 0 {
        let _ = set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMP, &1i32);
    }
    end
}

/// Drops the datagram at the head of a socket's queue.
pub fn discard(fd: RawFd) {
    let _ = recv(fd, &mut [], libc::MSG_DONTWAIT);
}

/// Copies an int from the application's memory that the kernel has just read itself.
#[must_use]
pub fn user_int(ptr: usize, len: u32) -> Option<i32> {
    let mut value = [0u8; 4];
    let have = user_bytes(ptr, len, &mut value);
    // Linux takes a single byte for some options and an int for all.
    match have {
        4.. => Some(i32::from_ne_bytes(value)),
        1..4 => Some(i32::from(value[0])),
        _ => None,
    }
}

/// Copies bytes from the application's memory that the kernel has just read itself
/// (so the range is mapped); the number copied.
pub fn user_bytes(ptr: usize, len: u32, out: &mut [u8]) -> usize {
    let n = (len as usize).min(out.len());
    if ptr == 0 {
        return 0;
    }
    // SAFETY: the system call that came before read these bytes and succeeded; `out`
    // is at least n long and is ours.
    unsafe { std::ptr::copy_nonoverlapping(ptr as *const u8, out.as_mut_ptr(), n) };
    n
}

/// Stores an int where the application asked for it.
pub fn store_int(ptr: usize, value: i32) -> Result<(), Errno> {
    if is_nowhere(ptr) {
        return Err(Errno::FAULT);
    }
    // SAFETY: the application's out-parameter, somewhere; unaligned is allowed.
    unsafe { (ptr as *mut i32).write_unaligned(value) };
    Ok(())
}

/// Reads an int of the application's; None: the pointer is none.
#[must_use]
pub fn load_int(ptr: usize) -> Option<i32> {
    // SAFETY: the application's in-parameter, somewhere; unaligned is allowed.
    (!is_nowhere(ptr)).then(|| unsafe { (ptr as *const i32).read_unaligned() })
}

/// Stores the time of day: seconds with nanoseconds or microseconds, two words.
pub fn store_now(ptr: usize, nanos: bool) -> Result<(), Errno> {
    if is_nowhere(ptr) {
        return Err(Errno::FAULT);
    }
    let now = crate::clock::realtime();
    let part = now % 1_000_000_000;
    let part = if nanos { part } else { part / 1000 };
    let words = [now / 1_000_000_000, part];
    // SAFETY: the application's out-parameter, somewhere; unaligned is allowed.
    unsafe { (ptr as *mut [u64; 2]).write_unaligned(words) };
    Ok(())
}

/// True for an address where nothing of the application's can be.
#[must_use]
pub fn is_nowhere(ptr: usize) -> bool {
    ptr.cast_signed() < 4096
}
