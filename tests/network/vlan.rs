//! Frames with VLAN tags on an interface that has no VLAN: Linux drops those of a VLAN and
//! takes priority-tagged ones (id 0) as untagged.

use crate::delivery::collected;
use engine::net::{Monitor, Tables};
use engine::sys::packet::PacketSender;
use engine::wire::{HEADERS_LEN, HeaderTemplate, TemplateSpec};
use std::net::SocketAddrV4;
use std::time::Duration;
use tests::check::{DEFAULTS, SLEEP, SPIN};
use tests::netns::Netns;
use tests::preload::Mode;
use tests::topology::{LINK, Lab};

/// Tag protocol and tag control information of each frame; none: untagged.
const FRAMES: [Option<(u16, u16)>; 9] = [
    None,
    Some((0x8100, 7)),
    Some((0x8100, 0)),
    Some((0x8100, 0x6000)), // priority 3
    Some((0x8100, 0x6007)),
    Some((0x88a8, 7)),
    Some((0x88a8, 0)),
    Some((0x8100, 0x0fff)),
    None,
];

fn tables() -> Tables {
    let mut tables = Tables::new();
    Monitor::open_without_group_events()
        .and_then(|mut monitor| monitor.dump(&mut tables))
        .expect("netlink answers");
    tables
}

/// The interface of a host: its index and its hardware address.
fn link(host: &str) -> (u32, [u8; 6]) {
    let host = host.to_owned();
    let look = move || {
        Netns::enter(&host).expect("the host is there");
        let tables = tables();
        let link = tables.interface_by_name(LINK).expect("the lab's link");
        (link.index, link.mac)
    };
    std::thread::spawn(look).join().expect("a look at a host")
}

fn send(lab: &Lab, to: SocketAddrV4, dst_mac: [u8; 6]) {
    let (ifindex, src_mac) = link(lab.far.name());
    let far = lab.far.name().to_owned();
    let work = move || {
        Netns::enter(&far).expect("the far host is there");
        let sender = PacketSender::open(ifindex).expect("root may");
        let template = HeaderTemplate::new(&TemplateSpec {
            src_mac,
            dst_mac,
            src: SocketAddrV4::new([10, 78, 0, 2].into(), 6000),
            dst: to,
            ttl: 1,
            tos: 0,
            dont_fragment: true,
            udp_checksum: true,
        });
        for (tag, number) in FRAMES.iter().zip(0u8..) {
            let payload = [b'0' + number; 40];
            let mut frame = vec![0; HEADERS_LEN + payload.len()];
            let length = template.build(&mut frame, &[&payload[..]], 1);
            assert_eq!(length, Some(frame.len()));
            if let Some((protocol, control)) = tag {
                let tag = [protocol.to_be_bytes(), control.to_be_bytes()].concat();
                let rest = frame.split_off(12);
                frame.extend(tag.into_iter().chain(rest));
            }
            sender.send(&frame).expect("a veth takes it");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    std::thread::spawn(work).join().expect("the sender lives");
}

/// What a program prints of the frames, and how many the engine gave it.
fn received(mode: Mode) -> Option<(String, u64)> {
    collected(mode, |lab| {
        let (_, mac) = link(lab.near.name());
        send(lab, SocketAddrV4::new([10, 78, 0, 1].into(), 5000), mac);
    })
}

#[test]
fn tags_are_linuxs() {
    let Some((oracle, _)) = received(Mode::Native) else {
        return;
    };
    assert!(oracle.contains("40 00000000\n") && oracle.contains("40 88888888\n"));
    assert!(!oracle.contains("11111111"), "a VLAN's: {oracle}");
    for mode in [DEFAULTS, SLEEP, SPIN] {
        let Some((shimmed, by_engine)) = received(mode) else {
            return;
        };
        assert_eq!(shimmed, oracle, "{mode:?}");
        assert!(by_engine >= 2, "{mode:?}: {by_engine} by the engine");
    }
}
