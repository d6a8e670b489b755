//! The interfaces of this network namespace, by an rtnetlink dump (rtnetlink(7)): sysfs may
//! belong to another namespace than the process is in.

use crate::descriptor::Descriptor;
use crate::wire::Interface;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFF_LOWER_UP: u32 = 0x10000;
const IFF_UP: u32 = 1;

/// One interface and what decides whether it has a device.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// What a wire needs to know.
    pub(crate) interface: Interface,
    /// Kind of virtual interface, such as `veth`; empty for hardware.
    pub(crate) kind: String,
    /// Up, with a carrier.
    pub(crate) running: bool,
}

/// All interfaces, in the order of their indices.
pub(crate) fn links() -> Result<Vec<Link>, Errno> {
    let socket = Descriptor::from(rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // NETLINK_ROUTE is zero.
        None,
    )?);
    // struct nlmsghdr, then struct ifinfomsg of zeros: every link.
    let mut request = [0u8; 32];
    request[..4].copy_from_slice(&32u32.to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_GETLINK.to_ne_bytes());
    request[6..8].copy_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
    let kernel = SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(&socket, &request, SendFlags::empty(), &kernel)?;
    let mut links = Vec::new();
    let mut buffer = vec![0u8; 64 << 10];
    loop {
        let (size, _) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        if size == 0 || read(&buffer[..size], &mut links)? {
            break;
        }
    }
    links.sort_by_key(|l: &Link| l.interface.index);
    Ok(links)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Reads one datagram of the answer; true at its end.
fn read(mut bytes: &[u8], links: &mut Vec<Link>) -> Result<bool, Errno> {
    while let (Some(length), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        let length = length as usize;
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => return Err(Errno::IO),
            RTM_NEWLINK => links.extend(bytes.get(16..length).and_then(link)),
            _ => {}
        }
        let next = length.next_multiple_of(4);
        if length < 16 || next > bytes.len() {
            break;
        }
        bytes = &bytes[next..];
    }
    Ok(false)
}

/// `struct ifinfomsg` and its attributes.
fn link(message: &[u8]) -> Option<Link> {
    let flags = u32_at(message, 8)?;
    let mut link = Link {
        interface: Interface {
            name: String::new(),
            index: u32_at(message, 4)?,
            address: [0; 6],
            mtu: 0,
        },
        kind: String::new(),
        running: flags & IFF_UP != 0 && flags & IFF_LOWER_UP != 0,
    };
    attributes(message.get(16..)?, &mut |kind, value| match kind {
        IFLA_ADDRESS if value.len() == 6 => link.interface.address.copy_from_slice(value),
        IFLA_IFNAME => link.interface.name = text(value),
        IFLA_MTU => link.interface.mtu = u32_at(value, 0).unwrap_or(0),
        IFLA_LINKINFO => attributes(value, &mut |kind, value| {
            if kind == IFLA_INFO_KIND {
                link.kind = text(value);
            }
        }),
        _ => {}
    });
    (!link.interface.name.is_empty()).then_some(link)
}

fn attributes(mut bytes: &[u8], each: &mut dyn FnMut(u16, &[u8])) {
    while let (Some(length), Some(kind)) = (u16_at(bytes, 0), u16_at(bytes, 2)) {
        let length = usize::from(length);
        let Some(value) = bytes.get(4..length) else {
            break;
        };
        each(kind & 0x3fff, value);
        let Some(rest) = bytes.get(length.next_multiple_of(4)..) else {
            break;
        };
        bytes = rest;
    }
}

fn text(value: &[u8]) -> String {
    let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_listed() {
        let links = links().unwrap();
        let lo = links.iter().find(|l| l.interface.name == "lo").unwrap();
        assert_eq!(lo.interface.index, 1);
        assert!(lo.interface.mtu >= 1500);
        assert_eq!(lo.kind, "");
    }

    #[test]
    fn a_cut_answer_is_no_trouble() {
        let mut links = Vec::new();
        for length in 0..40 {
            let mut bytes = vec![0u8; length];
            if length >= 6 {
                bytes[..4].copy_from_slice(&40u32.to_ne_bytes());
                bytes[4..6].copy_from_slice(&RTM_NEWLINK.to_ne_bytes());
            }
            assert_eq!(read(&bytes, &mut links), Ok(false));
        }
        assert!(links.is_empty());
    }
}
