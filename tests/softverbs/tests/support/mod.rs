//! Two hosts on one link, for the tests of the wires.

#![allow(dead_code, reason = "each test binary uses its part")]

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use softverbs::wire::{
    EthernetMatch, Incident, Incidents, Interface, Ipv4Match, Masked, PortMatch, Rule, RuleKind,
    Transport,
};
use std::fs::File;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

static SERIAL: AtomicU32 = AtomicU32::new(0);

fn ip(words: &str) {
    let out = Command::new("ip")
        .args(words.split_whitespace())
        .output()
        .expect("ip(8) runs");
    assert!(
        out.status.success(),
        "ip {words}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
}

/// Two namespaces with a veth between `a0` (10.77.0.1) and `b0` (10.77.0.2).
pub(crate) struct Link {
    pub(crate) a: String,
    pub(crate) b: String,
}

impl Link {
    pub(crate) fn new() -> Self {
        let n = SERIAL.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();
        let link = Self {
            a: format!("svwire-{pid}-{n}-a"),
            b: format!("svwire-{pid}-{n}-b"),
        };
        ip(&format!("netns add {}", link.a));
        ip(&format!("netns add {}", link.b));
        ip(&format!(
            "-n {} link add a0 address 02:00:00:00:00:01 type veth peer name b0 address 02:00:00:00:00:02 netns {}",
            link.a, link.b
        ));
        for (ns, dev, address) in [(&link.a, "a0", "10.77.0.1"), (&link.b, "b0", "10.77.0.2")] {
            ip(&format!("-n {ns} link set lo up"));
            ip(&format!("-n {ns} addr add {address}/24 dev {dev}"));
            ip(&format!("-n {ns} link set {dev} up"));
        }
        ip(&format!(
            "-n {} neigh add 10.77.0.2 lladdr 02:00:00:00:00:02 dev a0",
            link.a
        ));
        ip(&format!(
            "-n {} neigh add 10.77.0.1 lladdr 02:00:00:00:00:01 dev b0",
            link.b
        ));
        link
    }

    pub(crate) fn ip(&self, words: &str) {
        ip(words);
    }

    /// Interface `a0`, from within its namespace.
    pub(crate) fn interface_a(&self) -> Interface {
        enter(&self.a);
        interface("a0")
    }

    /// Interface `b0`, from within its namespace.
    pub(crate) fn interface_b(&self) -> Interface {
        enter(&self.b);
        interface("b0")
    }

    /// A kernel socket of host `b`.
    pub(crate) fn socket_b(&self, port: u16) -> UdpSocket {
        socket(&self.b, Ipv4Addr::new(10, 77, 0, 2), port)
    }

    /// A kernel socket of host `a`.
    pub(crate) fn socket_a(&self, port: u16) -> UdpSocket {
        socket(&self.a, Ipv4Addr::new(10, 77, 0, 1), port)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for ns in [&self.a, &self.b] {
            let _ = Command::new("ip").args(["netns", "del", ns]).status();
        }
    }
}

fn socket(ns: &str, address: Ipv4Addr, port: u16) -> UdpSocket {
    std::thread::scope(|s| {
        s.spawn(|| {
            enter(ns);
            let socket = UdpSocket::bind((address, port)).expect("bind");
            socket
                .set_read_timeout(Some(Duration::from_millis(200)))
                .expect("timeout");
            socket
        })
        .join()
        .expect("socket thread")
    })
}

/// Moves the calling thread into a namespace.
pub(crate) fn enter(ns: &str) {
    let file = File::open(format!("/var/run/netns/{ns}")).expect("namespace");
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("setns");
}

/// An interface of the thread's namespace.
pub(crate) fn interface(name: &str) -> Interface {
    let out = Command::new("ip")
        .args(["-j", "link", "show", "dev", name])
        .output()
        .expect("ip(8) runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let after = |key: &str| {
        let at = text.find(key).expect("key") + key.len();
        text[at..]
            .chars()
            .take_while(|c| *c != ',' && *c != '}')
            .filter(|c| *c != '"')
            .collect::<String>()
    };
    let mut address = [0; 6];
    for (byte, part) in address.iter_mut().zip(after("\"address\":").split(':')) {
        *byte = u8::from_str_radix(part, 16).expect("address");
    }
    Interface {
        name: name.to_owned(),
        index: after("\"ifindex\":").parse().expect("index"),
        address,
        mtu: after("\"mtu\":").parse().expect("mtu"),
    }
}

/// Remembers what was raised.
#[derive(Default)]
pub(crate) struct Raised(pub(crate) Mutex<Vec<Incident>>);

impl Incidents for Raised {
    fn raise(&self, incident: Incident) {
        self.0.lock().expect("not poisoned").push(incident);
    }
}

pub(crate) fn nobody() -> Arc<dyn Incidents> {
    Arc::new(Raised::default())
}

fn exact<T>(value: T, mask: T) -> Masked<T> {
    Masked { value, mask }
}

/// UDP to 10.77.0.1 and a port.
pub(crate) fn rule(port: u16, priority: u16, dont_trap: bool) -> Rule {
    Rule {
        kind: RuleKind::Normal,
        priority,
        dont_trap,
        ethernet: Some(EthernetMatch {
            destination: exact([2, 0, 0, 0, 0, 1], [0xff; 6]),
            ether_type: exact(0x0800, 0xffff),
            ..EthernetMatch::default()
        }),
        ipv4: Some(Ipv4Match {
            destination: exact(u32::from(Ipv4Addr::new(10, 77, 0, 1)), u32::MAX),
            ..Ipv4Match::default()
        }),
        ports: Some(PortMatch {
            transport: Transport::Udp,
            destination: exact(port, 0xffff),
            source: Masked::default(),
        }),
        tag: 0,
    }
}

/// A whole UDP frame from 10.77.0.2 to 10.77.0.1.
pub(crate) fn datagram(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    frame.extend((payload.len() as u16 + 28).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 77, 0, 2, 10, 77, 0, 1]);
    let sum: u32 = frame[14..]
        .chunks(2)
        .map(|p| u32::from(u16::from_be_bytes([p[0], p[1]])))
        .sum();
    let check = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&check.to_be_bytes());
    frame.extend(4000u16.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend((payload.len() as u16 + 8).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

/// Payload of an IPv4 UDP frame.
pub(crate) fn payload(frame: &[u8]) -> &[u8] {
    let udp = 14 + usize::from(frame[14] & 15) * 4;
    let len = usize::from(u16::from_be_bytes([frame[udp + 4], frame[udp + 5]]));
    &frame[udp + 8..udp + len]
}
