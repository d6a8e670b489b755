use super::super::event::tests::eth7;
use super::*;
use crate::net::LinkKind;

const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn address(addr: Ipv4Addr, prefix: u8) -> InterfaceAddress {
    InterfaceAddress {
        addr,
        prefix,
        broadcast: None,
    }
}

fn loopback() -> Interface {
    Interface {
        index: 1,
        name: "lo".into(),
        loopback: true,
        kind: LinkKind::Loopback,
        master: None,
        ..eth7()
    }
}

fn filled() -> Tables {
    let mut tables = Tables::new();
    for event in [
        Event::Link(loopback()),
        Event::Link(eth7()),
        Event::Address(1, address(Ipv4Addr::LOCALHOST, 8)),
        Event::Address(7, address(HOST, 24)),
        Event::Neighbor(7, OTHER, NeighborState::Reachable, Some(MAC)),
        Event::Joined(Membership {
            ifindex: 7,
            group: GROUP,
        }),
    ] {
        assert!(!tables.apply(event.clone()).is_empty());
        assert!(
            tables.apply(event).is_empty(),
            "the second time nothing changes"
        );
    }
    tables
}

#[test]
fn lookups() {
    let tables = filled();
    assert_eq!(tables.interface(7).unwrap().name, "eth7");
    assert_eq!(tables.interface_by_name("lo").unwrap().index, 1);
    assert_eq!(tables.interface_by_address(HOST).unwrap().index, 7);
    assert_eq!(tables.interface_by_address(OTHER), None);
    assert_eq!(tables.interfaces().count(), 2);
    for (addr, local) in [
        (HOST, true),
        (OTHER, false),
        (Ipv4Addr::LOCALHOST, true),
        (Ipv4Addr::new(127, 9, 9, 9), true),
    ] {
        assert_eq!(tables.is_local(addr), local, "{addr}");
    }
    assert!(tables.is_broadcast(Ipv4Addr::BROADCAST));
    assert!(tables.is_broadcast(Ipv4Addr::new(10, 0, 0, 255)));
    assert!(!tables.is_broadcast(HOST));
    assert!(tables.host_joined(7, GROUP));
    assert!(!tables.host_joined(1, GROUP));
}

#[test]
fn link_changes_keep_addresses() {
    let mut tables = filled();
    let renamed = Interface {
        name: "wan".into(),
        up: false,
        ..eth7()
    };
    assert_eq!(tables.apply(Event::Link(renamed)), Changes::LINKS);
    let interface = tables.interface_by_name("wan").unwrap();
    assert_eq!(interface.addresses, [address(HOST, 24)]);
    assert!(tables.interface_by_name("eth7").is_none());
}

#[test]
fn what_goes_with_a_link() {
    let mut tables = filled();
    let all = Changes::LINKS | Changes::ADDRESSES | Changes::NEIGHBORS | Changes::GROUPS;
    assert_eq!(tables.apply(Event::LinkGone(7)), all);
    assert!(tables.interface(7).is_none());
    assert!(!tables.is_local(HOST));
    assert_eq!(tables.neighbor(7, OTHER), None);
    assert!(!tables.host_joined(7, GROUP));
    assert!(tables.apply(Event::LinkGone(7)).is_empty());
}

#[test]
fn addresses_come_and_go() {
    let mut tables = filled();
    let assigned = InterfaceAddress {
        broadcast: Some(OTHER),
        ..address(HOST, 24)
    };
    assert_eq!(
        tables.apply(Event::Address(7, assigned)),
        Changes::ADDRESSES
    );
    assert!(tables.is_broadcast(OTHER));
    assert!(tables.apply(Event::AddressGone(7, HOST, 16)).is_empty());
    assert_eq!(
        tables.apply(Event::AddressGone(7, HOST, 24)),
        Changes::ADDRESSES
    );
    assert!(!tables.is_local(HOST));
    // Of an interface that nobody has heard of.
    assert!(tables.apply(Event::Address(99, assigned)).is_empty());
    assert!(tables.apply(Event::AddressGone(99, HOST, 24)).is_empty());
}

#[test]
fn only_neighbour_changes_that_matter() {
    let mut tables = filled();
    let mut set = |state, mac| tables.apply(Event::Neighbor(7, OTHER, state, mac));
    for state in [
        NeighborState::Stale,
        NeighborState::Delay,
        NeighborState::Probe,
        NeighborState::Permanent,
        NeighborState::NoArp,
        NeighborState::Reachable,
    ] {
        assert!(set(state, Some(MAC)).is_empty(), "{state:?}");
    }
    assert_eq!(
        set(NeighborState::Reachable, Some([9; 6])),
        Changes::NEIGHBORS
    );
    assert_eq!(set(NeighborState::Failed, Some([9; 6])), Changes::NEIGHBORS);
    assert!(set(NeighborState::Incomplete, None).is_empty());
    assert_eq!(tables.neighbor(7, OTHER), None);
    // Valid but without an Ethernet address: cannot be sent to.
    let bare = Event::Neighbor(7, OTHER, NeighborState::Reachable, None);
    assert!(tables.apply(bare).is_empty());
    let stale = Event::Neighbor(7, OTHER, NeighborState::Stale, Some(MAC));
    assert_eq!(tables.apply(stale), Changes::NEIGHBORS);
    assert_eq!(tables.neighbor(7, OTHER), Some(MAC));
    assert!(tables.neighbor_state(7, OTHER).unwrap().wants_refresh());
    assert_eq!(
        tables.apply(Event::NeighborGone(7, OTHER)),
        Changes::NEIGHBORS
    );
    assert!(tables.apply(Event::NeighborGone(7, OTHER)).is_empty());
}

#[test]
fn groups() {
    let mut tables = filled();
    let membership = Membership {
        ifindex: 7,
        group: GROUP,
    };
    assert!(tables.set_memberships([membership]).is_empty());
    assert_eq!(tables.set_memberships([]), Changes::GROUPS);
    assert_eq!(tables.apply(Event::Joined(membership)), Changes::GROUPS);
    assert_eq!(tables.memberships().collect::<Vec<_>>(), [membership]);
    assert_eq!(tables.apply(Event::Left(membership)), Changes::GROUPS);
    assert!(tables.apply(Event::Left(membership)).is_empty());
    assert_eq!(tables.apply(Event::Routes), Changes::ROUTES);
}

#[test]
fn sets_of_changes() {
    let both = Changes::LINKS | Changes::ROUTES;
    assert!(both.intersects(Changes::ROUTES));
    assert!(!both.intersects(Changes::GROUPS));
    assert!(Changes::ALL.intersects(Changes::GROUPS));
    assert!(!Changes::NONE.intersects(Changes::ALL));
}
