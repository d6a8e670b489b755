use super::*;
use netlink_packet_core::{NetlinkHeader, NetlinkMessage};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState};
use proptest::prelude::*;
use std::net::IpAddr;

fn bytes(message: RouteNetlinkMessage) -> Vec<u8> {
    let mut message = NetlinkMessage::new(NetlinkHeader::default(), message.into());
    message.header.sequence_number = 42;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

fn event(bytes: &[u8]) -> Option<Event> {
    let all: Vec<_> = messages(bytes).collect();
    assert_eq!(all.len(), 1);
    assert_eq!(
        all[0].0,
        Envelope {
            sequence: 42,
            inconsistent: false
        }
    );
    match &all[0].1 {
        Message::Event(event) => Some(event.clone()),
        Message::Ignored => None,
        other => panic!("{other:?}"),
    }
}

fn link_message(family: AddressFamily) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.interface_family = family;
    message.header.index = 7;
    message.header.link_layer_type = LinkLayerType::Ether;
    message.header.flags = LinkFlags::Up | LinkFlags::Multicast;
    message.attributes = vec![
        LinkAttribute::IfName("eth7".into()),
        LinkAttribute::Mtu(9000),
        LinkAttribute::Address(vec![2, 0, 0, 0, 0, 7]),
        LinkAttribute::Controller(3),
        LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Veth)]),
        LinkAttribute::Promiscuity(1),
    ];
    message
}

/// The interface of the message above.
pub(in crate::net) fn eth7() -> Interface {
    Interface {
        index: 7,
        name: "eth7".into(),
        mac: [2, 0, 0, 0, 0, 7],
        mtu: 9000,
        up: true,
        running: false,
        loopback: false,
        multicast: true,
        no_arp: false,
        kind: LinkKind::Ethernet,
        driver: "veth".into(),
        master: Some(3),
        addresses: Vec::new(),
    }
}

#[test]
fn links() {
    let message = link_message(AddressFamily::Unspec);
    let new = bytes(RouteNetlinkMessage::NewLink(message.clone()));
    assert_eq!(event(&new), Some(Event::Link(eth7())));
    assert_eq!(
        event(&bytes(RouteNetlinkMessage::DelLink(message))),
        Some(Event::LinkGone(7))
    );
}

#[test]
fn leaving_a_bridge_is_not_leaving_the_host() {
    let message = link_message(AddressFamily::Bridge);
    assert_eq!(event(&bytes(RouteNetlinkMessage::DelLink(message))), None);
}

#[test]
fn addresses() {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.index = 7;
    message.header.prefix_len = 24;
    let local = Ipv4Addr::new(10, 0, 0, 1);
    let peer = Ipv4Addr::new(10, 0, 0, 2);
    message.attributes = vec![
        AddressAttribute::Address(IpAddr::V4(peer)),
        AddressAttribute::Local(IpAddr::V4(local)),
        AddressAttribute::Broadcast(Ipv4Addr::new(10, 0, 0, 255)),
    ];
    let broadcast = Some(Ipv4Addr::new(10, 0, 0, 255));
    let expected = InterfaceAddress {
        addr: local,
        prefix: 24,
        broadcast,
    };
    assert_eq!(
        event(&bytes(RouteNetlinkMessage::NewAddress(message.clone()))),
        Some(Event::Address(7, expected))
    );
    assert_eq!(
        event(&bytes(RouteNetlinkMessage::DelAddress(message.clone()))),
        Some(Event::AddressGone(7, local, 24))
    );
    message.header.family = AddressFamily::Inet6;
    assert_eq!(
        event(&bytes(RouteNetlinkMessage::NewAddress(message))),
        None
    );
}

#[test]
fn neighbors() {
    let addr = Ipv4Addr::new(10, 0, 0, 2);
    let mac = [2, 0, 0, 0, 0, 2];
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.ifindex = 7;
    message.header.state = NeighbourState::Reachable;
    message.attributes = vec![
        NeighbourAttribute::Destination(addr.into()),
        NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
    ];
    let new = |message: &NeighbourMessage| {
        event(&bytes(RouteNetlinkMessage::NewNeighbour(message.clone())))
    };
    let reachable = Event::Neighbor(7, addr, NeighborState::Reachable, Some(mac));
    assert_eq!(new(&message), Some(reachable));
    let gone = event(&bytes(RouteNetlinkMessage::DelNeighbour(message.clone())));
    assert_eq!(gone, Some(Event::NeighborGone(7, addr)));
    message.header.state = NeighbourState::None;
    assert_eq!(new(&message), Some(Event::NeighborGone(7, addr)));
    message.header.state = NeighbourState::Failed;
    message.attributes.truncate(1);
    assert_eq!(
        new(&message),
        Some(Event::Neighbor(7, addr, NeighborState::Failed, None))
    );
    message.header.flags = NeighbourFlags::Proxy;
    assert_eq!(new(&message), None);
}

#[test]
fn groups() {
    // As Linux 6.18 sent it when a socket joined 239.1.2.3 on interface 1.
    let mut joined = [
        0x34, 0x00, 0x00, 0x00, 0x38, 0x00, 0x00, 0x00, 0x2a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x02, 0x20, 0x80, 0x00, 0x01, 0x00, 0x00, 0x00, 0x08, 0x00, 0x07, 0x00, 0xef, 0x01,
        0x02, 0x03, 0x14, 0x00, 0x06, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x10,
        0x65, 0x01, 0x00, 0x10, 0x65, 0x01, 0x00,
    ];
    let membership = Membership {
        ifindex: 1,
        group: Ipv4Addr::new(239, 1, 2, 3),
    };
    if cfg!(target_endian = "little") {
        assert_eq!(event(&joined), Some(Event::Joined(membership)));
        joined[4] = 57;
        assert_eq!(event(&joined), Some(Event::Left(membership)));
        joined[16] = 10;
        assert_eq!(event(&joined), None);
    }
}

#[test]
fn several_in_one_datagram() {
    let mut all = bytes(RouteNetlinkMessage::NewLink(link_message(
        AddressFamily::Unspec,
    )));
    // NLMSG_ERROR with -EPERM, then NLMSG_DONE without a body and with a dump's flag.
    for (kind, flags, body) in [(2_u16, 0_u16, &(-1_i32).to_ne_bytes()[..]), (3, 0x10, &[])] {
        all.extend_from_slice(&(16 + body.len() as u32).to_ne_bytes());
        all.extend_from_slice(&kind.to_ne_bytes());
        all.extend_from_slice(&flags.to_ne_bytes());
        all.extend_from_slice(&[0; 8]);
        all.extend_from_slice(body);
    }
    all.extend_from_slice(&[1, 2, 3]);
    let all: Vec<_> = messages(&all).collect();
    assert_eq!(all.len(), 3);
    assert_eq!(all[1].1, Message::Done(Err(Errno(libc::EPERM))));
    assert_eq!(all[2].1, Message::Done(Ok(())));
    assert!(all[2].0.inconsistent);
}

proptest! {
    #[test]
    fn random_bytes(
        kind in prop_oneof![0u16..120, any::<u16>()],
        body in proptest::collection::vec(any::<u8>(), 0..120),
        length in 0u32..200,
    ) {
        let mut datagram = length.to_ne_bytes().to_vec();
        datagram.extend_from_slice(&kind.to_ne_bytes());
        datagram.extend_from_slice(&[0; 10]);
        datagram.extend_from_slice(&body);
        prop_assert!(messages(&datagram).count() <= 12);
        let _ = messages(&body).count();
    }

    #[test]
    fn damaged_messages(at in 16usize..100, value in any::<u8>(), end in 16usize..120) {
        let mut message = bytes(RouteNetlinkMessage::NewLink(link_message(AddressFamily::Unspec)));
        let last = message.len() - 1;
        message[at.min(last)] = value;
        message.truncate(end);
        let length = message.len() as u32;
        message[..4].copy_from_slice(&length.to_ne_bytes());
        let _ = messages(&message).count();
    }
}
