//! Two ends of a link within this network namespace, and frames to send over it.

use engine::device::{Backend, Flow, Memory, Opened, Packet, Port, Queue, QueueOptions, Verbs};
use engine::error::Reason;
use engine::sys::event;
use engine::wire::{HeaderTemplate, TemplateSpec, multicast_mac};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::RawFd;
use std::process::Command;
use std::time::{Duration, Instant};
use tests::netns;

/// The ends' interfaces.
pub(crate) const NAMES: [&str; 2] = ["vdev0", "vdev1"];
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
/// Their addresses.
pub(crate) const ADDRESSES: [Ipv4Addr; 2] =
    [Ipv4Addr::new(10, 79, 0, 1), Ipv4Addr::new(10, 79, 0, 2)];
/// A group.
pub(crate) const GROUP: Ipv4Addr = Ipv4Addr::new(239, 79, 1, 2);
/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// How long nothing must come.
pub(crate) const QUIET: Duration = Duration::from_millis(50);

/// Makes the interfaces; the namespace is ours alone.
pub(crate) fn make() {
    let run = |words: &str| {
        let words: Vec<_> = words.split_whitespace().collect();
        netns::ip(&words).expect("the namespace is ours");
    };
    run("link set lo up");
    run(
        "link add vdev0 address 02:00:00:00:00:01 type veth peer name vdev1 address 02:00:00:00:00:02",
    );
    for (name, address) in NAMES.iter().zip(ADDRESSES) {
        run(&format!("addr add {address}/24 dev {name}"));
        run(&format!("link set {name} up"));
    }
    let deadline = Instant::now() + PATIENCE;
    let up = |name: &&str| {
        netns::ip(&["-o", "link", "show", "dev", name]).is_ok_and(|out| out.contains("state UP"))
    };
    while !NAMES.iter().all(up) {
        assert!(Instant::now() < deadline, "no carrier");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Index of an interface.
fn index(name: &str) -> u32 {
    let out = Command::new("ip")
        .args(["-o", "link", "show", "dev", name])
        .output()
        .expect("ip(8) runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.split(':')
        .next()
        .and_then(|n| n.parse().ok())
        .expect("ip -o begins with the index")
}

/// Opens one end.
pub(crate) fn open(
    backend: &dyn Backend,
    end: usize,
    options: QueueOptions,
) -> Result<Opened, Reason> {
    let port = Port {
        index: index(NAMES[end]),
        name: NAMES[end],
        mtu: 1500,
        mac: MACS[end],
    };
    backend.open(port, options)
}

/// Which backend a case is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Memory,
    Packet,
    Verbs,
}

impl Kind {
    fn backend(self) -> &'static dyn Backend {
        match self {
            Self::Memory => &Memory,
            Self::Packet => &Packet,
            Self::Verbs => &Verbs,
        }
    }
}

/// A sender and a receiver. The memory device is both by itself: it sends back whatever it
/// is given, addresses exchanged.
pub(crate) struct Link {
    pub(crate) sender: Opened,
    pub(crate) far: Option<Opened>,
}

impl Link {
    pub(crate) fn open(kind: Kind, options: QueueOptions) -> Self {
        let open = |end| open(kind.backend(), end, options).expect("the device opens");
        Self {
            sender: open(0),
            far: (kind != Kind::Memory).then(|| open(1)),
        }
    }

    pub(crate) fn receiver(&mut self) -> &mut Opened {
        self.far.as_mut().unwrap_or(&mut self.sender)
    }

    pub(crate) fn queue(&mut self) -> &mut dyn Queue {
        &mut *self.receiver().queue
    }

    /// Sends a datagram to the far end; waits while the device is full.
    pub(crate) fn send(&self, port: u16, payload: &[u8]) {
        send(&self.sender, &frame(ADDRESSES[1], [port; 2], payload));
    }

    /// Takes the next datagram; panics when none comes.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        take(self.queue()).expect("a frame comes")
    }

    /// Nothing comes.
    pub(crate) fn expect_nothing(&mut self) {
        assert_eq!(take_within(self.queue(), QUIET), None);
    }
}

/// Sends a frame; waits while the device is full, as the engine does.
pub(crate) fn send(sender: &Opened, frame: &[u8]) {
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = sender.transmit.send(frame) {
        assert_eq!(error, engine::error::Errno::AGAIN);
        assert!(Instant::now() < deadline, "full for good");
        std::thread::yield_now();
    }
}

/// The payload of the next frame.
pub(crate) fn take(queue: &mut dyn Queue) -> Option<Vec<u8>> {
    take_within(queue, PATIENCE)
}

/// The same, waiting no longer than that.
pub(crate) fn take_within(queue: &mut dyn Queue, patience: Duration) -> Option<Vec<u8>> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(frame) = queue.next() {
            let payload = payload(frame.data);
            queue.release();
            return Some(payload);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::yield_now();
    }
}

/// Of an Ethernet frame with an IPv4 UDP datagram.
pub(crate) fn payload(frame: &[u8]) -> Vec<u8> {
    let length = usize::from(u16::from_be_bytes([frame[38], frame[39]]));
    frame[42..34 + length].to_vec()
}

/// A datagram from the near end, from and to these ports.
pub(crate) fn frame(to: Ipv4Addr, ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let template = HeaderTemplate::new(&TemplateSpec {
        src_mac: MACS[0],
        dst_mac: if to.is_multicast() {
            multicast_mac(to)
        } else {
            MACS[1]
        },
        src: SocketAddrV4::new(ADDRESSES[0], ports[0]),
        dst: SocketAddrV4::new(to, ports[1]),
        ttl: 1,
        tos: 0,
        dont_fragment: true,
        udp_checksum: true,
    });
    let mut out = vec![0; 42 + payload.len()];
    template.build(&mut out, &[payload], 0).expect("it fits");
    out
}

/// A flow to the far end.
pub(crate) fn flow(port: u16) -> Flow {
    Flow {
        destination: ADDRESSES[1],
        port,
        peer: None,
        shared: false,
    }
}

/// Whether a descriptor becomes readable within this time.
pub(crate) fn readable(fd: RawFd, patience: Duration) -> bool {
    let mut set = [libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }];
    let timeout = u64::try_from(patience.as_nanos()).expect("seconds");
    event::ppoll(&mut set, Some(timeout), None).is_ok_and(|n| n == 1)
}
