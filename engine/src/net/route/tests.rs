use super::*;
use netlink_packet_core::Emitable;
use netlink_packet_route::route::{RouteMetric, RouteVia};

const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);
const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

fn body(kind: RouteType, attributes: Vec<RouteAttribute>) -> Vec<u8> {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.kind = kind;
    message.attributes = attributes;
    let mut bytes = vec![0; message.buffer_len()];
    message.emit(&mut bytes);
    bytes
}

fn query() -> RouteQuery {
    RouteQuery::to(Ipv4Addr::new(192, 0, 2, 1))
}

#[test]
fn everything_that_is_told() {
    let body = body(
        RouteType::Unicast,
        vec![
            RouteAttribute::Table(254),
            RouteAttribute::Oif(7),
            RouteAttribute::Gateway(GATEWAY.into()),
            RouteAttribute::PrefSource(SOURCE.into()),
            RouteAttribute::Metrics(vec![
                RouteMetric::Lock(1 << 2),
                RouteMetric::Mtu(1400),
                RouteMetric::Hoplimit(9),
            ]),
        ],
    );
    let expected = Route {
        kind: RouteKind::Unicast,
        oif: 7,
        gateway: Some(GATEWAY),
        prefsrc: Some(SOURCE),
        mtu: Some(1400),
        mtu_locked: true,
        hop_limit: Some(9),
    };
    assert_eq!(answer(&body, &query()), Some(expected));
}

#[test]
fn the_source_asked_for() {
    let body = body(RouteType::Local, vec![RouteAttribute::Oif(1)]);
    let query = RouteQuery {
        src: Some(SOURCE),
        ..query()
    };
    let route = answer(&body, &query).unwrap();
    assert_eq!(
        (route.kind, route.prefsrc),
        (RouteKind::Local, Some(SOURCE))
    );
}

#[test]
fn kinds() {
    for (kind, expected) in [
        (RouteType::Broadcast, RouteKind::Broadcast),
        (RouteType::Multicast, RouteKind::Multicast),
        (RouteType::BlackHole, RouteKind::Other),
        (RouteType::Anycast, RouteKind::Other),
        (RouteType::Other(200), RouteKind::Other),
    ] {
        assert_eq!(
            answer(&body(kind, vec![]), &query()).unwrap().kind,
            expected,
            "{kind:?}"
        );
    }
    let via = RouteAttribute::Via(RouteVia::Inet6("fe80::1".parse().unwrap()));
    let other = body(RouteType::Unicast, vec![RouteAttribute::Oif(7), via]);
    assert_eq!(answer(&other, &query()).unwrap().kind, RouteKind::Other);
    assert_eq!(answer(&[2, 0], &query()), None);
}

#[test]
fn the_whole_question() {
    let query = RouteQuery {
        dst: Ipv4Addr::new(192, 0, 2, 1),
        src: Some(SOURCE),
        oif: Some(7),
        tos: 0x10,
        mark: 5,
        uid: Some(1000),
        sport: 1,
        dport: 2,
    };
    let RouteNetlinkMessage::GetRoute(message) = question(&query) else {
        panic!("GetRoute")
    };
    let mut bytes = vec![0; message.buffer_len()];
    message.emit(&mut bytes);
    assert_eq!(bytes[..4], [2, 32, 32, 0x10]);
    let told: Vec<_> = attributes(&bytes, ROUTE_HEADER).collect();
    let number = |value: u32| value.to_ne_bytes().to_vec();
    let expected = [
        (1, vec![192, 0, 2, 1]),
        (2, vec![10, 0, 0, 1]),
        (4, number(7)),
        (25, number(1000)),
        (16, number(5)),
        (27, vec![17]),
        (28, vec![0, 1]),
        (29, vec![0, 2]),
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|(kind, value)| (*kind, &value[..]))
        .collect();
    assert_eq!(told, expected);
}
