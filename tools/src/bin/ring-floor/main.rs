//! `ring-floor`: ping-pong over a bare packet ring, without any socket layer.
//!
//! What this takes is the floor for the packet backend: one ring, one send call, no
//! demultiplexing, no checksum. By default the frames carry an experimental ethertype,
//! which the kernel drops after the ring has its copy. With `--udp` they are the frames
//! that the engine exchanges, and the kernel carries its copy up to a bound UDP socket
//! whose filter drops it: what every user of the packet backend pays.
//!
//! It must never answer anything but its own frames, and never run unbounded.
//! Source: packet(7); Documentation/networking/packet_mmap.rst.

mod exchange;
mod frame;

use clap::{Args, Parser, Subcommand};
use engine::sys::bpf;
use engine::sys::packet::{PacketRing, PacketSender, RingGeometry};
use exchange::{Link, Report};
use frame::{Frame, MacAddress, UdpPath};
use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

const SLOT_SIZE: u32 = 2048;

/// Ping-pong of 64-byte payloads over a packet ring on both ends: half round-trip times.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Sends, waits for the answer, measures; prints `metric<TAB>value` lines.
    Ping(Options),
    /// Answers until the time is over.
    Pong(Options),
}

#[derive(Args)]
struct Options {
    /// Interface that joins the two hosts.
    #[arg(long, default_value = "eth0")]
    interface: String,
    /// Hardware address of that interface.
    #[arg(long)]
    mac: MacAddress,
    /// Hardware address of the other end.
    #[arg(long)]
    peer_mac: MacAddress,
    /// Exchange UDP frames between these addresses: OWN,PEER.
    #[arg(long, value_parser = addresses, value_name = "OWN,PEER")]
    udp: Option<(Ipv4Addr, Ipv4Addr)>,
    /// UDP port on both ends.
    #[arg(long, default_value_t = 11_112)]
    port: u16,
    /// Seconds to run; for a ping the measured part, after a warm-up of 0.2 s.
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,
    /// Slots of the receive ring, a power of two.
    #[arg(long, default_value_t = 1024, value_parser = slots)]
    slots: u32,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(v) if v > 0.0 && v <= 3600.0 => Ok(v),
        _ => Err("between 0 and 3600".into()),
    }
}

fn addresses(text: &str) -> Result<(Ipv4Addr, Ipv4Addr), String> {
    text.split_once(',')
        .and_then(|(own, peer)| Some((own.parse().ok()?, peer.parse().ok()?)))
        .ok_or_else(|| "two IPv4 addresses with a comma between".into())
}

fn slots(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(v) if v.is_power_of_two() && (32..=65_536).contains(&v) => Ok(v),
        _ => Err("a power of two between 32 and 65536".into()),
    }
}

/// The ring's filter for frames of one ethertype.
fn only_ethertype(ethertype: u16) -> bpf::Program {
    let op = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    vec![
        op(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, 12),
        op(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            u32::from(ethertype),
        ),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ]
}

/// Opens everything; the UDP socket is kept for its port and its filter.
fn open(options: &Options) -> Result<(Link, Option<UdpSocket>), Box<dyn Error>> {
    // Any socket will do for the question.
    let any = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let ifindex = rustix::net::netdevice::name_to_index(any.as_fd(), &options.interface)
        .map_err(|e| format!("{}: {e}", options.interface))?;
    let (frame, filter, shadow) = match options.udp {
        Some((own, peer)) => {
            let shadow = UdpSocket::bind((own, options.port))?;
            bpf::attach(shadow.as_raw_fd(), &bpf::shadow(&[ifindex], false, &[]))
                .map_err(|e| format!("socket filter: {}", message(e.0)))?;
            let path = UdpPath {
                source: own,
                destination: peer,
                port: options.port,
            };
            let frame = Frame::udp(options.mac, options.peer_mac, &path);
            (frame, bpf::tap(&[options.port]), Some(shadow))
        }
        None => (
            Frame::bare(options.mac, options.peer_mac),
            only_ethertype(frame::ETHERTYPE_EXPERIMENTAL),
            None,
        ),
    };
    let geometry = RingGeometry {
        slots: options.slots,
        slot_size: SLOT_SIZE,
    };
    let ring = PacketRing::open(ifindex, geometry, &filter)
        .map_err(|e| format!("packet ring on {}: {}", options.interface, message(e.0)))?;
    let sender = PacketSender::open(ifindex)
        .map_err(|e| format!("packet socket on {}: {}", options.interface, message(e.0)))?;
    Ok((Link::new(ring, sender, frame), shadow))
}

fn message(errno: i32) -> std::io::Error {
    std::io::Error::from_raw_os_error(errno)
}

fn render(report: &Report) -> String {
    let mut out = String::new();
    for (name, quantile) in [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)] {
        let round_trip = report.round_trips.value_at_quantile(quantile) as f64;
        let _ = writeln!(out, "{name}\t{:.3}", round_trip / 2000.0);
    }
    let _ = writeln!(out, "messages\t{}", report.round_trips.len());
    let _ = writeln!(out, "dropped\t{}", report.lost);
    out
}

fn run() -> Result<(), Box<dyn Error>> {
    match Cli::parse().role {
        Role::Pong(options) => {
            let (mut link, _shadow) = open(&options)?;
            exchange::pong(&mut link, Duration::from_secs_f64(options.seconds));
            Ok(())
        }
        Role::Ping(options) => {
            let (mut link, _shadow) = open(&options)?;
            let report = exchange::ping(&mut link, Duration::from_secs_f64(options.seconds))?;
            std::io::stdout().write_all(render(&report).as_bytes())?;
            Ok(())
        }
    }
}

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "ring-floor: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
