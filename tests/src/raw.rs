//! Frames as nobody's stack would send them, and what a host really put on the wire.
//!
//! Both ends are AF_PACKET sockets on the far host's `veth0`. A sniffer's lines hold what two
//! runs must have in common: addresses, ports, TTL, TOS, DF, how the id is chosen, pieces,
//! checksums, payload. Source: packet(7).
#![allow(
    unsafe_code,
    reason = "packet sockets have addresses that no safe crate makes"
)]

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

/// A hardware address.
pub type Mac = [u8; 6];

const ETH_LEN: usize = 14;
const IPV4: [u8; 2] = [8, 0];

/// Bytes in and out of an interface, with Ethernet header.
#[derive(Debug)]
pub struct Port(std::fs::File);

impl Port {
    /// On the interface `name` of the calling thread's namespace; `listen`: what comes in can
    /// be read.
    ///
    /// # Errors
    /// What socket(2), if_nametoindex(3) or bind(2) say.
    pub fn open(name: &str, listen: bool) -> io::Result<Self> {
        let protocol = if listen { libc::ETH_P_ALL as u16 } else { 0 }.to_be();
        // SAFETY: integers only.
        let fd = unsafe {
            libc::socket(
                libc::AF_PACKET,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC,
                i32::from(protocol),
            )
        };
        check(fd)?;
        // SAFETY: a fresh descriptor of our own.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let c_name = std::ffi::CString::new(name).map_err(io::Error::other)?;
        // SAFETY: a terminated string that lives over the call.
        let ifindex = unsafe { libc::if_nametoindex(c_name.as_ptr()) };
        if ifindex == 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: all zeros is a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = ifindex as i32;
        // SAFETY: the address is of the stated size.
        check(unsafe {
            libc::bind(
                fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            )
        })?;
        let option = |level, name, value: *const libc::c_void, size: usize| {
            // SAFETY: the callers below pass a value of that size.
            check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value, size as u32) })
        };
        let on: i32 = 1;
        let turn = libc::timeval {
            tv_sec: 0,
            tv_usec: 10_000,
        };
        option(
            libc::SOL_PACKET,
            libc::PACKET_IGNORE_OUTGOING,
            (&raw const on).cast(),
            4,
        )?;
        option(
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw const turn).cast(),
            size_of::<libc::timeval>(),
        )?;
        Ok(Self(fd.into()))
    }

    /// Puts an IPv4 packet on the wire.
    ///
    /// # Errors
    /// What write(2) says.
    pub fn inject(&self, to: Mac, from: Mac, packet: &[u8]) -> io::Result<()> {
        let frame = [&to, &from, &IPV4[..], packet].concat();
        (&self.0).write_all(&frame)
    }

    /// Every UDP and ICMP packet that has come in, until none comes for `quiet`.
    ///
    /// # Errors
    /// What read(2) says.
    pub fn sniffed(&self, quiet: Duration) -> io::Result<String> {
        let mut text = String::new();
        let mut last_id = 0;
        let mut frame = vec![0; 70_000];
        let mut until = Instant::now() + quiet;
        while Instant::now() < until {
            match (&self.0).read(&mut frame) {
                Ok(length) => {
                    if describe(&frame[..length], &mut last_id, &mut text).is_some() {
                        until = Instant::now() + quiet;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
        }
        Ok(text)
    }
}

fn check(result: i32) -> io::Result<()> {
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// One line; None for what is not UDP or ICMP over IPv4.
fn describe(frame: &[u8], last_id: &mut u16, text: &mut String) -> Option<()> {
    let short = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    if frame.get(12..14)? != IPV4 {
        return None;
    }
    let ip = frame.get(ETH_LEN..)?;
    let protocol = *ip.get(9)?;
    if protocol != 17 && protocol != 1 {
        return None;
    }
    let header = usize::from(ip[0] & 15) * 4;
    let total = usize::from(short(ETH_LEN + 2)?);
    let body = ip.get(header..total)?;
    let address = |at: usize| {
        Some(Ipv4Addr::from(
            <[u8; 4]>::try_from(ip.get(at..at + 4)?).ok()?,
        ))
    };
    let (source, destination) = (address(12)?, address(16)?);
    let mac = match frame[0] {
        0xff => "broadcast",
        odd if odd & 1 == 1 => "group",
        _ => "host",
    };
    let (id, place) = (short(ETH_LEN + 4)?, short(ETH_LEN + 6)?);
    let id_rule = match id {
        0 => "0",
        same if same == *last_id => "same",
        // Kernel and engine count each for itself.
        _ => "some",
    };
    *last_id = id;
    let (offset, more) = (usize::from(place & 0x1fff) * 8, place & 0x2000 != 0);
    let _ = write!(
        text,
        "{mac} {source} > {destination} ttl {} tos {:#x}{} id {id_rule}",
        ip[8],
        ip[1],
        if place & 0x4000 == 0 { "" } else { " DF" },
    );
    if header > 20 {
        let _ = write!(text, " options {}", header - 20);
    }
    if sum(&ip[..header], 0) != 0xffff {
        let _ = write!(text, " IP checksum wrong");
    }
    if offset != 0 || more {
        let _ = write!(
            text,
            " piece {offset}+{}{}",
            body.len(),
            if more { " more" } else { "" }
        );
    }
    if protocol == 1 {
        let _ = writeln!(text, " icmp {} {}", body.first()?, body.get(1)?);
        return Some(());
    }
    if offset == 0 {
        let at = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
        if body.len() < 8 {
            let _ = writeln!(text, " too short");
            return Some(());
        }
        let _ = write!(
            text,
            " ports {} {} length {}",
            fixed(at(0)),
            fixed(at(2)),
            at(4)
        );
        if !more {
            let _ = write!(text, " {}", checksum(ip, body));
            let shown = &body[8..body.len().min(40)];
            let _ = write!(text, " {:?}", String::from_utf8_lossy(shown));
        }
    }
    text.push('\n');
    Some(())
}

/// A port of the range that the kernel draws from is not the same in two runs.
fn fixed(port: u16) -> String {
    if port < 32768 {
        port.to_string()
    } else {
        "any".into()
    }
}

/// The sender's host may leave the sum to the device: then it is the pseudo-header's.
fn checksum(ip: &[u8], body: &[u8]) -> &'static str {
    let field = u16::from_be_bytes([body[6], body[7]]);
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let pseudo = sum(&ip[12..20], 17 + length);
    if field == 0 {
        "sum none"
    } else if field == pseudo || sum(body, u32::from(pseudo)) == 0xffff {
        "sum fine"
    } else {
        "sum wrong"
    }
}

/// One's complement sum (RFC 1071).
fn sum(bytes: &[u8], from: u32) -> u16 {
    let mut sum = from;
    for pair in bytes.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Six bytes in hexadecimal with colons.
///
/// # Errors
/// When it is not that.
pub fn mac(text: &str) -> io::Result<Mac> {
    let bytes: Result<Vec<u8>, _> = text.split(':').map(|b| u8::from_str_radix(b, 16)).collect();
    bytes
        .ok()
        .and_then(|b| b.try_into().ok())
        .ok_or_else(|| io::Error::other(format!("{text:?} is no hardware address")))
}
