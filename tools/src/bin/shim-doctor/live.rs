//! Frames between two interfaces of this host, by the queues that the library would open:
//! no socket, no route. A cable or a switch joins the two.

use crate::{port, queue_options};
use engine::config::Config;
use engine::device::{self, Chosen, Flow};
use engine::net::Interface;
use engine::wire::{Checksum, HEADERS_LEN, HeaderTemplate, Parsed, TemplateSpec, parse};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

const PAYLOAD: usize = 64;
/// A frame that has not come by then is lost.
const PATIENCE: Duration = Duration::from_millis(200);
/// So long the queues are watched for second copies at the end.
const AFTERMATH: Duration = Duration::from_millis(100);
/// So many frames lost in a row, and there is no use in going on.
const HOPELESS: u32 = 10;

/// One end.
struct Side {
    chosen: Chosen,
    address: Ipv4Addr,
    template: HeaderTemplate,
    port: u16,
    received: u64,
    duplicates: u64,
    others: u64,
    /// The number that came last.
    last: Option<u32>,
}

impl Side {
    fn open(
        config: &Config,
        own: &Interface,
        peer: &Interface,
        ports: (u16, u16),
    ) -> Result<Self, String> {
        let chosen = device::candidates(config.backend())
            .map_err(|reason| reason.to_string())?
            .open(port(own), queue_options(config))
            .map_err(|refused| format!("{}: {}", own.name, refused.why))?;
        let mut side = Self {
            chosen,
            address: address(own)?,
            template: HeaderTemplate::new(&TemplateSpec {
                src_mac: own.mac,
                dst_mac: peer.mac,
                src: SocketAddrV4::new(address(own)?, ports.0),
                dst: SocketAddrV4::new(address(peer)?, ports.1),
                ttl: 1,
                tos: 0,
                dont_fragment: true,
                udp_checksum: true,
            }),
            port: ports.0,
            received: 0,
            duplicates: 0,
            others: 0,
            last: None,
        };
        let flow = Flow {
            destination: side.address,
            port: side.port,
            peer: None,
            shared: false,
        };
        let steered = side.chosen.opened.queue.steer(&[flow]);
        steered.map_err(|reason| format!("{}: no rule: {reason}", own.name))?;
        Ok(side)
    }

    fn send(&self, number: u32) -> Result<(), String> {
        let mut payload = [0u8; PAYLOAD];
        payload[..4].copy_from_slice(&number.to_be_bytes());
        let mut frame = [0u8; HEADERS_LEN + PAYLOAD];
        let built = self
            .template
            .build(&mut frame, &[&payload[..]], number as u16);
        debug_assert_eq!(built, Some(frame.len()), "the frame has room for it");
        self.chosen
            .opened
            .transmit
            .send(&frame)
            .map_err(|error| format!("a frame cannot be sent: {error}"))
    }

    /// Takes what waits; true: this number was among it, for the first time.
    fn take(&mut self, number: u32) -> bool {
        let mut came = false;
        let queue = &mut self.chosen.opened.queue;
        while let Some(frame) = queue.next() {
            match parse(frame.data, Checksum::Verify) {
                Parsed::Udp(udp) if udp.dst == SocketAddrV4::new(self.address, self.port) => {
                    let sent = udp.payload.first_chunk().copied().map(u32::from_be_bytes);
                    if sent == Some(number) && self.last != Some(number) {
                        self.last = sent;
                        self.received += 1;
                        came = true;
                    } else {
                        self.duplicates += 1;
                    }
                }
                _ => self.others += 1,
            }
            queue.release();
        }
        came
    }

    fn wait(&mut self, number: u32) -> bool {
        let until = Instant::now() + PATIENCE;
        loop {
            if self.take(number) {
                return true;
            }
            if Instant::now() > until {
                return false;
            }
            std::thread::yield_now();
        }
    }
}

fn address(interface: &Interface) -> Result<Ipv4Addr, String> {
    let first = interface.addresses.first();
    first
        .map(|a| a.addr)
        .ok_or_else(|| format!("{} has no IPv4 address", interface.name))
}

/// `count` frames each way, one at a time; what came of them.
pub(crate) fn between(
    config: &Config,
    a: &Interface,
    b: &Interface,
    count: u32,
) -> Result<String, String> {
    // Sockets that hold the ports: nobody else's flows are touched, nor will the kernel
    // answer with errors.
    let hold = |interface| -> Result<(UdpSocket, u16), String> {
        let socket = UdpSocket::bind((address(interface)?, 0));
        let socket = socket.map_err(|e| format!("no port: {e}"))?;
        let port = socket.local_addr().map_err(|e| e.to_string())?.port();
        Ok((socket, port))
    };
    let (_a, a_port) = hold(a)?;
    let (_b, b_port) = hold(b)?;
    let mut here = Side::open(config, a, b, (a_port, b_port))?;
    let mut there = Side::open(config, b, a, (b_port, a_port))?;
    let mut times = Vec::with_capacity(count as usize);
    let mut lost_in_a_row = 0;
    for number in 0..count {
        let start = Instant::now();
        here.send(number)?;
        let mut whole = there.wait(number);
        there.send(number)?;
        whole &= here.wait(number);
        lost_in_a_row = if whole { 0 } else { lost_in_a_row + 1 };
        if whole {
            times.push(start.elapsed());
        }
        if lost_in_a_row == HOPELESS {
            break;
        }
    }
    std::thread::sleep(AFTERMATH);
    for side in [&mut here, &mut there] {
        let nothing_more = count;
        side.take(nothing_more);
    }
    let received = here.received + there.received;
    let sent = 2 * u64::from(count);
    let (lost, twice) = (sent - received, here.duplicates + there.duplicates);
    times.sort_unstable();
    let half = times.get(times.len() / 2).copied().unwrap_or_default() / 2;
    let text = format!(
        "rules made; {sent} frames between {} and {}: {lost} lost, {twice} twice, {} of others; \
         on the rings {} and {}; half a round trip {:.1} us",
        a.name,
        b.name,
        here.others + there.others,
        ring(&here),
        ring(&there),
        half.as_secs_f64() * 1e6
    );
    if lost == 0 && twice == 0 {
        Ok(text)
    } else {
        Err(text)
    }
}

fn ring(side: &Side) -> String {
    let device = &side.chosen.opened.device;
    let space = if device.is_empty() { "" } else { " " };
    format!(
        "{}{space}{device}: {} received",
        side.chosen.backend.name(),
        side.received
    )
}
