use super::*;

const ME: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const ALSO_ME: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
const PEER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 9), 5);
const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 0, 0, 1);

const SCOPE: Scope<'_> = Scope {
    addresses: &[ME, ALSO_ME],
    groups: &[ALL_HOSTS, GROUP],
    delivery: Delivery::Steered,
    any_peer: true,
};

fn wanted(port: u16) -> Wanted<'static> {
    Wanted {
        port,
        local: Ipv4Addr::UNSPECIFIED,
        peer: None,
        unicast: true,
        multicast_all: false,
        groups: &[],
    }
}

fn flow(destination: Ipv4Addr, port: u16) -> Flow {
    Flow {
        destination,
        port,
        peer: None,
        shared: false,
    }
}

fn exclusive(list: &[Wanted<'_>], scope: &Scope<'_>) -> Vec<Flow> {
    plan(list.iter().copied(), scope, &|_, _| false)
}

#[test]
fn a_bound_address_is_one_flow() {
    let bound = Wanted {
        local: ME,
        ..wanted(7)
    };
    assert_eq!(exclusive(&[bound], &SCOPE), [flow(ME, 7)]);
}

#[test]
fn a_wildcard_is_a_flow_for_each_address() {
    assert_eq!(
        exclusive(&[wanted(7)], &SCOPE),
        [flow(ME, 7), flow(ALSO_ME, 7)]
    );
}

#[test]
fn members_and_multicast_all() {
    let member = Wanted {
        unicast: false,
        groups: &[GROUP],
        ..wanted(7)
    };
    assert_eq!(exclusive(&[member], &SCOPE), [flow(GROUP, 7)]);
    let all = Wanted {
        unicast: false,
        multicast_all: true,
        ..wanted(7)
    };
    let both = [flow(ALL_HOSTS, 7), flow(GROUP, 7)];
    assert_eq!(exclusive(&[all], &SCOPE), both);
    // Bound to the group: no other, and nothing without a membership of the host.
    let bound = Wanted {
        local: GROUP,
        unicast: true,
        ..all
    };
    assert_eq!(exclusive(&[bound], &SCOPE), [flow(GROUP, 7)]);
    let alone = Scope {
        groups: &[ALL_HOSTS],
        ..SCOPE
    };
    assert_eq!(exclusive(&[bound], &alone), []);
    // Bound to an address: multicast is not for it.
    let elsewhere = Wanted {
        local: ME,
        groups: &[GROUP],
        ..all
    };
    assert_eq!(exclusive(&[elsewhere], &SCOPE), []);
}

#[test]
fn a_peer_counts_only_where_asked() {
    let connected = Wanted {
        local: ME,
        peer: Some(PEER),
        groups: &[GROUP],
        ..wanted(7)
    };
    assert_eq!(exclusive(&[connected], &SCOPE), [flow(ME, 7)]);
    let by_peer = Scope {
        any_peer: false,
        ..SCOPE
    };
    let exact = Flow {
        peer: Some(PEER),
        ..flow(ME, 7)
    };
    assert_eq!(exclusive(&[connected], &by_peer), [exact]);
    // Another socket wants everybody's: its flow brings the peer's as well.
    assert_eq!(
        exclusive(&[connected, wanted(7)], &by_peer),
        [flow(ME, 7), flow(ALSO_ME, 7)]
    );
    let group = Wanted {
        local: Ipv4Addr::UNSPECIFIED,
        unicast: false,
        ..connected
    };
    assert_eq!(exclusive(&[group], &by_peer), [flow(GROUP, 7)]);
}

#[test]
fn the_cards_own_port_stays_with_the_card() {
    assert_eq!(exclusive(&[wanted(ROCE_PORT), wanted(0)], &SCOPE), []);
    let tap = Scope {
        delivery: Delivery::Tap,
        ..SCOPE
    };
    assert_eq!(exclusive(&[wanted(ROCE_PORT)], &tap).len(), 2);
}

#[test]
fn the_last_socket_takes_its_flow_along() {
    let two = [wanted(7), wanted(7)];
    assert_eq!(exclusive(&two, &SCOPE), exclusive(&two[..1], &SCOPE));
    assert_eq!(exclusive(&[], &SCOPE), []);
}

#[test]
fn groups_are_shared_by_port() {
    let member = |port| Wanted {
        groups: &[GROUP],
        ..wanted(port)
    };
    let list = [member(7), member(8)];
    let flows = plan(list.into_iter(), &SCOPE, &|_, port| port == 8);
    let shared: Vec<_> = flows.iter().filter(|f| f.shared).collect();
    let expected = Flow {
        shared: true,
        ..flow(GROUP, 8)
    };
    assert_eq!(shared, [&expected]);
}
