//! The kernel is the oracle: the same datagram is received by the kernel and delivered by
//! us into equal arguments, and everything that the caller can see has to be equal.

#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one argument after the other on the same local"
)]

use super::*;
use engine::socket::io::wanted;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;

const PAYLOAD: &[u8] = b"0123456789abcdef";

struct Pair {
    sender: UdpSocket,
    receiver: UdpSocket,
    options: u32,
}

fn set(socket: &UdpSocket, level: c_int, name: c_int, value: c_int) {
    let (ptr, len) = ((&raw const value).cast(), size_of::<c_int>() as socklen_t);
    // SAFETY: an int option.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, ptr, len) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

impl Pair {
    fn new(options: u32) -> Self {
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        set(&sender, libc::IPPROTO_IP, libc::IP_TOS, 0x48);
        sender.set_ttl(33).unwrap();
        receiver.set_nonblocking(true).unwrap();
        let stamping =
            (libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE) as c_int;
        for (bit, level, name, value) in [
            (wanted::PKTINFO, libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
            (wanted::TTL, libc::IPPROTO_IP, libc::IP_RECVTTL, 1),
            (wanted::TOS, libc::IPPROTO_IP, libc::IP_RECVTOS, 1),
            (
                wanted::ORIGDSTADDR,
                libc::IPPROTO_IP,
                libc::IP_RECVORIGDSTADDR,
                1,
            ),
            (wanted::TIMESTAMP, libc::SOL_SOCKET, libc::SO_TIMESTAMP, 1),
            (
                wanted::TIMESTAMPNS,
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPNS,
                1,
            ),
            (
                wanted::TIMESTAMPING,
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPING,
                stamping,
            ),
            (wanted::RXQ_OVFL, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1),
        ] {
            if options & bit != 0 {
                set(&receiver, level, name, value);
            }
        }
        let pair = Self {
            sender,
            receiver,
            options,
        };
        // The kernel turns stamping on from a work queue.
        for _ in 0..1000 {
            pair.send(b"");
            let shape = Shape {
                room: 0,
                control: 256,
                name: 0,
                flags: 0,
            };
            let seen = receive(shape, |call| call.kernel(pair.receiver.as_raw_fd(), 0));
            if options & wanted::TIMESTAMPING == 0 || stamp(&seen) != 0 {
                return pair;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("no time stamps within a second")
    }

    fn send(&self, payload: &[u8]) {
        self.sender
            .send_to(payload, self.receiver.local_addr().unwrap())
            .unwrap();
    }
}

/// Everything that a recvmsg can change.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    result: Result<usize, Errno>,
    first: [u8; 8],
    second: Vec<u8>,
    name: [u8; 40],
    name_len: u32,
    control: Vec<u8>,
    control_len: usize,
    flags: c_int,
}

/// Arguments of one recvmsg.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Length of the second buffer.
    room: usize,
    control: usize,
    name: u32,
    flags: c_int,
}

fn receive(shape: Shape, call: impl FnOnce(&mut Incoming<'_>) -> Result<usize, Errno>) -> Seen {
    let mut seen = Seen {
        result: Ok(0),
        first: [0xee; 8],
        second: vec![0xee; shape.room],
        name: [0xee; 40],
        name_len: 0,
        control: vec![0xee; shape.control],
        control_len: 0,
        flags: 0,
    };
    let mut vectors = [
        iovec {
            iov_base: seen.first.as_mut_ptr().cast(),
            iov_len: 8,
        },
        iovec {
            iov_base: seen.second.as_mut_ptr().cast(),
            iov_len: shape.room,
        },
    ];
    let mut header = super::super::send::empty_header();
    header.msg_name = seen.name.as_mut_ptr().cast();
    header.msg_namelen = shape.name;
    header.msg_iov = vectors.as_mut_ptr();
    header.msg_iovlen = 2;
    if shape.control > 0 {
        header.msg_control = seen.control.as_mut_ptr().cast();
    }
    header.msg_controllen = shape.control;
    header.msg_flags = 0x55;
    // SAFETY: a header on the stack around live buffers.
    let mut incoming = unsafe { Incoming::message(&raw mut header, shape.flags) }.unwrap();
    seen.result = call(&mut incoming);
    seen.name_len = header.msg_namelen;
    seen.control_len = header.msg_controllen;
    seen.flags = header.msg_flags;
    seen
}

/// Finds the receive time in the kernel's control messages.
fn stamp(seen: &Seen) -> u64 {
    let mut at = 0;
    let word = |at: usize| {
        seen.control
            .get(at..at + 8)
            .map_or(0, |b| u64::from_ne_bytes(b.try_into().unwrap()))
    };
    while at + 16 <= seen.control_len {
        let kind = word(at + 8) >> 32;
        let socket_level = word(at + 8) as u32 == libc::SOL_SOCKET as u32;
        if socket_level && kind == libc::SCM_TIMESTAMP as u64 {
            return word(at + 16) * 1_000_000_000 + word(at + 24) * 1000;
        }
        if socket_level
            && [libc::SCM_TIMESTAMPNS, libc::SCM_TIMESTAMPING].contains(&(kind as c_int))
        {
            return word(at + 16) * 1_000_000_000 + word(at + 24);
        }
        at += (word(at) as usize).next_multiple_of(8).max(16);
    }
    0
}

fn compare(pair: &Pair, shape: Shape, payload: &[u8]) {
    pair.send(payload);
    let fd = pair.receiver.as_raw_fd();
    let kernel = receive(shape, |call| call.kernel(fd, libc::MSG_DONTWAIT));
    let std::net::SocketAddr::V4(source) = pair.sender.local_addr().unwrap() else {
        panic!("an IPv4 socket")
    };
    let datagram = Datagram {
        source: &source,
        destination: Ipv4Addr::LOCALHOST,
        port: pair.receiver.local_addr().unwrap().port(),
        ifindex: 1,
        ttl: 33,
        tos: 0x48,
        timestamp: stamp(&kernel),
        stamped: true,
        payload,
    };
    let how = Delivery {
        mapped: false,
        wanted: pair.options,
        drops: 0,
        local: Ipv4Addr::LOCALHOST,
    };
    let ours = receive(shape, |call| call.deliver(&datagram, &how));
    assert_eq!(ours, kernel, "{shape:?} options {:#x}", pair.options);
}

const ALL: u32 = wanted::PKTINFO
    | wanted::TTL
    | wanted::TOS
    | wanted::ORIGDSTADDR
    | wanted::TIMESTAMPNS
    | wanted::TIMESTAMPING
    | wanted::RXQ_OVFL;

#[test]
fn every_option_alone_and_all_together() {
    let mut sets: Vec<u32> = (0..9).map(|bit| 1 << bit).collect();
    sets.extend([
        0,
        ALL,
        wanted::TIMESTAMP | wanted::PKTINFO | wanted::TOS | wanted::TTL,
    ]);
    sets.retain(|set| set & wanted::PKTINFO6 == 0);
    for options in sets {
        let shape = Shape {
            room: 32,
            control: 256,
            name: 40,
            flags: 0,
        };
        compare(&Pair::new(options), shape, PAYLOAD);
    }
}

#[test]
fn control_buffers_of_every_length() {
    let pair = Pair::new(ALL);
    // Cut inside a time stamp the comparison would have no time to go by.
    let stamps = Pair::new(ALL & !(wanted::TIMESTAMPNS | wanted::TIMESTAMPING));
    for control in 0..=208 {
        let shape = Shape {
            room: 32,
            control,
            name: 16,
            flags: 0,
        };
        compare(&stamps, shape, PAYLOAD);
        if control >= 32 {
            compare(&pair, shape, PAYLOAD);
        }
    }
}

#[test]
fn lengths_and_flags() {
    let pair = Pair::new(wanted::TTL);
    for room in [0, 1, 7, 8, 9, 32] {
        for name in [0, 1, 8, 15, 16, 17, 28, 40] {
            for flags in [
                0,
                libc::MSG_TRUNC,
                libc::MSG_CMSG_CLOEXEC,
                libc::MSG_WAITALL,
            ] {
                for payload in [&PAYLOAD[..0], &PAYLOAD[..8], PAYLOAD] {
                    compare(
                        &pair,
                        Shape {
                            room,
                            control: 64,
                            name,
                            flags,
                        },
                        payload,
                    );
                }
            }
        }
    }
}

#[test]
fn mapped_address_and_packet_info() {
    let receiver = UdpSocket::bind("[::]:0").unwrap();
    receiver.set_nonblocking(true).unwrap();
    set(&receiver, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = receiver.local_addr().unwrap().port();
    sender
        .send_to(PAYLOAD, (Ipv4Addr::LOCALHOST, port))
        .unwrap();
    let shape = Shape {
        room: 32,
        control: 128,
        name: 40,
        flags: 0,
    };
    let kernel = receive(shape, |call| call.kernel(receiver.as_raw_fd(), 0));
    let std::net::SocketAddr::V4(source) = sender.local_addr().unwrap() else {
        panic!("an IPv4 socket")
    };
    let (destination, local) = (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST);
    let (ttl, tos, timestamp, ifindex) = (64, 0, 0, 1);
    let payload = PAYLOAD;
    let datagram = Datagram {
        source: &source,
        destination,
        port,
        ifindex,
        ttl,
        tos,
        timestamp,
        stamped: true,
        payload,
    };
    let how = Delivery {
        mapped: true,
        wanted: wanted::PKTINFO6,
        drops: 0,
        local,
    };
    assert_eq!(receive(shape, |call| call.deliver(&datagram, &how)), kernel);
}

#[test]
fn plain_calls_and_their_errors() {
    let source: SocketAddrV4 = "192.0.2.1:7".parse().unwrap();
    let datagram = Datagram {
        source: &source,
        destination: Ipv4Addr::LOCALHOST,
        port: 1,
        ifindex: 1,
        ttl: 1,
        tos: 0,
        timestamp: 0,
        stamped: true,
        payload: PAYLOAD,
    };
    let how = Delivery {
        mapped: false,
        wanted: 0,
        drops: 0,
        local: Ipv4Addr::LOCALHOST,
    };
    let mut name = [0_u8; 28];
    let mut deliver = |base: *mut c_void, name_len: *mut socklen_t, flags| {
        let vector = [iovec {
            iov_base: base,
            iov_len: 4,
        }];
        let name = name.as_mut_ptr().cast();
        // SAFETY: null or live buffers.
        unsafe { Incoming::plain(&vector, flags, name, name_len) }.deliver(&datagram, &how)
    };
    let mut buffer = [0_u8; 4];
    let base = buffer.as_mut_ptr().cast();
    let mut len: socklen_t = 28;
    assert_eq!(deliver(base, &raw mut len, 0), Ok(4));
    assert_eq!(len, 16);
    assert_eq!(deliver(base, &raw mut len, libc::MSG_TRUNC), Ok(16));
    assert_eq!(deliver(ptr::null_mut(), &raw mut len, 0), Err(Errno::FAULT));
    assert_eq!(deliver(base, ptr::null_mut(), 0), Err(Errno::FAULT));
    len = u32::MAX;
    assert_eq!(deliver(base, &raw mut len, 0), Err(Errno::INVAL));
    assert_eq!(&buffer, b"0123");
}

#[test]
fn headers_that_linux_refuses_are_the_kernels() {
    // SAFETY: null, then headers on the stack.
    unsafe {
        assert!(Incoming::message(ptr::null_mut(), 0).is_none());
        let mut header = super::super::send::empty_header();
        header.msg_iovlen = 1025;
        assert!(Incoming::message(&raw mut header, 0).is_none());
        header.msg_iovlen = 0;
        assert!(Incoming::message(&raw mut header, 0).is_some());
        let mut name = [0_u8; 16];
        header.msg_name = name.as_mut_ptr().cast();
        header.msg_namelen = u32::MAX;
        assert!(Incoming::message(&raw mut header, 0).is_none());
    }
}
