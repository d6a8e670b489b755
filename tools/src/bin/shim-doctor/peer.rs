//! Datagrams between this host and another, through the library itself: the program that
//! exchanges them is this one, started again under it. The peer needs no library.

use engine::stats::Reader;
use engine::stats::read::Snapshot;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

const PAYLOAD: usize = 64;
/// An answer that has not come by then is lost.
const PATIENCE: Duration = Duration::from_millis(200);
/// The engine takes over once the kernel has resolved the peer: before, nothing counts. The
/// longest wait for that.
const WARM_UP: Duration = Duration::from_secs(2);
/// Where the exchanging program's statistics are, whatever this one's environment says.
const STATISTICS: &str = "/tmp/";
/// Answers lost in a row, and nobody is there.
const HOPELESS: u32 = 10;

/// Sends every datagram back for so long.
pub(crate) fn answer(port: u16, seconds: u64) -> ExitCode {
    let until = Instant::now() + Duration::from_secs(seconds);
    let work = || -> std::io::Result<()> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        let mut buffer = [0; 2048];
        while Instant::now() < until {
            if let Ok((length, from)) = socket.recv_from(&mut buffer) {
                socket.send_to(&buffer[..length], from)?;
            }
        }
        Ok(())
    };
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "shim-doctor: port {port}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The inside of [`meet`]: an ordinary program. Prints what came of it.
pub(crate) fn exchange(to: SocketAddrV4, count: u32) -> ExitCode {
    let line = match converse(to, count) {
        Ok(line) => line,
        Err(error) => format!("error {error}"),
    };
    let _ = writeln!(std::io::stdout(), "{line}");
    ExitCode::SUCCESS
}

/// Numbered datagrams, each sent when the one before has come back or been given up.
struct Conversation {
    socket: UdpSocket,
    to: SocketAddrV4,
    number: u32,
    lost: u32,
    twice: u32,
    in_a_row: u32,
}

impl Conversation {
    fn say(&mut self) -> Result<(), String> {
        let mut payload = [0u8; PAYLOAD];
        payload[..4].copy_from_slice(&self.number.to_be_bytes());
        let sent = self.socket.send(&payload);
        let mut came = false;
        let mut buffer = [0; 2048];
        while sent.is_ok() && !came {
            match self.socket.recv(&mut buffer) {
                Ok(length) if buffer[..length] == payload => came = true,
                Ok(_) => self.twice += 1,
                Err(_) => break,
            }
        }
        self.number += 1;
        self.lost += u32::from(!came);
        self.in_a_row = if came { 0 } else { self.in_a_row + 1 };
        if self.in_a_row == HOPELESS {
            return Err(format!("{} does not answer", self.to));
        }
        Ok(())
    }
}

fn snapshot() -> Result<Snapshot, String> {
    Reader::open(STATISTICS, std::process::id())
        .and_then(|reader| reader.snapshot())
        .map_err(|error| error.to_string())
}

fn converse(to: SocketAddrV4, count: u32) -> Result<String, String> {
    let text = |e: std::io::Error| e.to_string();
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(text)?;
    socket.connect(to).map_err(text)?;
    socket.set_read_timeout(Some(PATIENCE)).map_err(text)?;
    let mut talk = Conversation {
        socket,
        to,
        number: 0,
        lost: 0,
        twice: 0,
        in_a_row: 0,
    };
    // Until the neighbour is resolved and known the kernel sends.
    let end = Instant::now() + WARM_UP;
    let mut before = snapshot()?;
    loop {
        talk.say()?;
        let now = snapshot()?;
        let frames = |s: &Snapshot| s.rings.iter().map(|r| r.tx.frames).sum::<u64>();
        let goes_by_ring = frames(&now) > frames(&before);
        before = now;
        if goes_by_ring || Instant::now() > end {
            break;
        }
    }
    (talk.lost, talk.twice) = (0, 0);
    for _ in 0..count {
        talk.say()?;
    }
    let (lost, twice) = (talk.lost, talk.twice);
    let snapshot = snapshot()?.since(&before);
    let rings: Vec<String> = snapshot
        .rings
        .iter()
        .map(|r| {
            let (rx, tx) = (r.rx.frames, r.tx.frames);
            format!(
                "{} {} {}: {rx} in, {tx} out",
                r.backend, r.device, r.interface
            )
        })
        .collect();
    let by_ring = snapshot
        .rings
        .iter()
        .map(|r| r.rx.frames.min(r.tx.frames))
        .max();
    let backend = snapshot
        .rings
        .first()
        .map_or("none", |r| r.backend.as_str());
    Ok(format!(
        "{lost} {twice} {} {backend} {}",
        by_ring.unwrap_or(0),
        rings.join("; ")
    ))
}

/// The library beside this program, or where the dynamic linker looks.
fn library(given: Option<&Path>) -> PathBuf {
    let beside = || {
        let file = std::env::current_exe().ok()?.with_file_name("libshim.so");
        file.is_file().then_some(file)
    };
    given
        .map(Path::to_path_buf)
        .or_else(beside)
        .unwrap_or_else(|| "libshim.so".into())
}

/// Exchanges datagrams with a peer under the library; what came of them.
pub(crate) fn meet(
    given: Option<&Path>,
    interface: &str,
    backend: &str,
    to: SocketAddrV4,
    count: u32,
) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let output = Command::new(program)
        .args(["--exchange", &to.to_string(), "--count", &count.to_string()])
        .env("LD_PRELOAD", library(given))
        .env("SHIM_INTERFACES", interface)
        .env("SHIM_BANNER", "never")
        .env("VMA_STATS_SHMEM_DIR", STATISTICS)
        .output()
        .map_err(|e| e.to_string())?;
    let line = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    let mut words = line.trim().splitn(5, ' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let (Some(lost), Some(twice), Some(by_ring)) = (number(), number(), number()) else {
        return Err(format!("{} {}", line.trim(), said.trim()));
    };
    let (device, rings) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let text =
        format!("{count} datagrams to {to} and back: {lost} lost, {twice} twice; rings: {rings}");
    // Whatever happens to the neighbour meanwhile may send a few by the kernel.
    let carried = by_ring * 100 >= u64::from(count) * 99;
    match (lost, twice, carried && device == backend) {
        (0, 0, true) => Ok(text),
        (0, 0, false) => Err(format!("{text}: not by a ring of {backend}")),
        _ => Err(text),
    }
}
