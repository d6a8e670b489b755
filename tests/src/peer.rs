//! The far host's end of a conversation, driven by the victim.
//!
//! A victim connects to the Unix socket named in `PEER` (pathname sockets reach
//! across network namespaces) and sends commands; the answer comes when the command
//! has been carried out, so a victim's transcript does not depend on timing.
//!
//! A frame is a native-endian `u32` length, then a header line, `\n`, and a payload.
//! Commands: `open SLOT IP PORT`, `close SLOT`, `join SLOT GROUP`, `send SLOT IP PORT`,
//! `burst SLOT IP PORT COUNT LENGTH GAP_US`, `later MS SLOT IP PORT`,
//! `recv SLOT MS`, `observe SLOT IP PORT` and `observed SLOT MS` (`victims/observer.c`),
//! `ip near|far WORDS…` (`@near`, `@far`: the hosts' names), `sysctl near|far
//! KEY VALUE`, `report PID`; raw packets ([`crate::raw`]): `inject DESTINATION SOURCE` (hardware
//! addresses, or `near` and `far`), `sniff`, `sniffed MS`.

use crate::netns::Netns;
use crate::raw;
use crate::stats::{self, Snapshot};
use crate::topology::{LINK, Lab};
use crate::victim::{self, Variant};
use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

#[derive(Debug)]
struct Shared {
    near: String,
    far: String,
    reporting: bool,
    slots: Mutex<HashMap<u32, Arc<UdpSocket>>>,
    observers: Mutex<HashMap<u32, Observer>>,
    reports: Mutex<Vec<Result<Snapshot, String>>>,
    sniffer: Mutex<Option<raw::Port>>,
    /// Hardware addresses, until something changes.
    macs: Mutex<HashMap<String, raw::Mac>>,
    stop: AtomicBool,
}

/// The running peer; ends with its value.
#[derive(Debug)]
pub struct Peer {
    path: PathBuf,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    /// Starts a peer on the far host. `reporting`: the victim runs under the library,
    /// so `report` reads its statistics.
    ///
    /// # Panics
    /// When the Unix socket cannot be made.
    #[must_use]
    pub fn start(lab: &Lab, reporting: bool) -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = format!("shim-peer-{}-{serial}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&path).expect("a fresh socket name");
        listener
            .set_nonblocking(true)
            .expect("a listener can be non-blocking");
        // For victims that run as a plain user.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777))
            .expect("our own socket");
        let shared = Arc::new(Shared {
            near: lab.near.name().to_owned(),
            far: lab.far.name().to_owned(),
            reporting,
            slots: Mutex::default(),
            observers: Mutex::default(),
            reports: Mutex::default(),
            sniffer: Mutex::default(),
            macs: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let inner = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            Netns::enter(&inner.far).expect("the far host is there");
            serve(&listener, &inner);
        });
        Self {
            path,
            shared,
            thread: Some(thread),
        }
    }

    /// What the victim needs in `PEER`.
    #[must_use]
    pub fn address(&self) -> String {
        self.path.display().to_string()
    }

    /// The statistics that the victim asked to be taken, in order.
    #[must_use]
    pub fn reports(&self) -> Vec<Result<Snapshot, String>> {
        self.shared
            .reports
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

fn serve(listener: &UnixListener, shared: &Arc<Shared>) {
    let mut conversations = Vec::new();
    while !shared.stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => {
                let shared = Arc::clone(shared);
                conversations.push(std::thread::spawn(move || converse(stream, &shared)));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    for conversation in conversations {
        let _ = conversation.join();
    }
}

fn converse(mut stream: UnixStream, shared: &Arc<Shared>) {
    if stream.set_nonblocking(false).is_err()
        || stream
            .set_read_timeout(Some(Duration::from_millis(50)))
            .is_err()
    {
        return;
    }
    while let Some(frame) = next_frame(&mut stream, shared) {
        let (head, payload) = split(&frame);
        let answer = obey(&head, payload, shared)
            .unwrap_or_else(|e| format!("error {head}: {e}\n").into_bytes());
        let Ok(length) = u32::try_from(answer.len()) else {
            return;
        };
        if stream.write_all(&length.to_ne_bytes()).is_err() || stream.write_all(&answer).is_err() {
            return;
        }
    }
}

/// `None` at the end of the conversation or of the peer.
fn next_frame(stream: &mut UnixStream, shared: &Shared) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    fill(stream, &mut length, shared)?;
    let mut frame = vec![0; u32::from_ne_bytes(length) as usize];
    fill(stream, &mut frame, shared)?;
    Some(frame)
}

fn fill(stream: &mut UnixStream, buffer: &mut [u8], shared: &Shared) -> Option<()> {
    let mut have = 0;
    while have < buffer.len() {
        match stream.read(&mut buffer[have..]) {
            Ok(0) => return None,
            Ok(n) => have += n,
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) =>
            {
                if shared.stop.load(Ordering::Relaxed) {
                    return None;
                }
            }
            Err(_) => return None,
        }
    }
    Some(())
}

fn split(frame: &[u8]) -> (String, &[u8]) {
    let end = frame
        .iter()
        .position(|&b| b == b'\n')
        .unwrap_or(frame.len());
    let head = String::from_utf8_lossy(&frame[..end]).into_owned();
    (head, frame.get(end + 1..).unwrap_or_default())
}

fn obey(head: &str, payload: &[u8], shared: &Arc<Shared>) -> io::Result<Vec<u8>> {
    let words: Vec<&str> = head.split_whitespace().collect();
    match words[..] {
        ["open", slot, ip, port] => {
            let socket = UdpSocket::bind((ip, number(port)?))?;
            socket.set_broadcast(true)?;
            let port = socket.local_addr()?.port();
            let mut slots = shared.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.insert(number(slot)?, Arc::new(socket));
            Ok(format!("ok {port}\n").into_bytes())
        }
        ["close", slot] => {
            let mut slots = shared.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.remove(&number(slot)?);
            ok()
        }
        ["join", slot, group] => {
            let group: Ipv4Addr = group.parse().map_err(io::Error::other)?;
            socket(shared, slot)?.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED)?;
            ok()
        }
        ["send", slot, ip, port] => {
            socket(shared, slot)?.send_to(payload, (ip, number::<u16>(port)?))?;
            settled()
        }
        ["burst", slot, ip, port, count, length, gap_us] => {
            let to = address(ip, port)?;
            let (length, gap) = (number(length)?, Duration::from_micros(number(gap_us)?));
            burst(&*socket(shared, slot)?, to, number(count)?, length, gap)?;
            settled()
        }
        ["stream", slot, ip, port, count, length, gap_us] => {
            let (socket, to) = (socket(shared, slot)?, address(ip, port)?);
            let (count, length) = (number(count)?, number(length)?);
            let gap = Duration::from_micros(number(gap_us)?);
            // As below.
            std::thread::spawn(move || burst(&socket, to, count, length, gap));
            ok()
        }
        ["later", ms, slot, ip, port] => {
            let (socket, to) = (socket(shared, slot)?, address(ip, port)?);
            let (delay, payload) = (Duration::from_millis(number(ms)?), payload.to_vec());
            std::thread::spawn(move || {
                std::thread::sleep(delay);
                // The victim may have ended meanwhile; then nobody misses it.
                let _ = socket.send_to(&payload, to);
            });
            ok()
        }
        ["observe", slot, ip, port] => observe(shared, number(slot)?, [ip, port]),
        ["observed", slot, ms] => observed(shared, number(slot)?, number(ms)?),
        ["recv", slot, ms] => receive(&*socket(shared, slot)?, number(ms)?),
        ["ip", host, ..] => {
            let mut args = vec!["-n", shared.host(host)];
            args.extend(words[2..].iter().map(|word| match *word {
                "@near" | "@far" => shared.host(&word[1..]),
                word => word,
            }));
            shared.known_macs().clear();
            crate::netns::ip(&args)?;
            ok()
        }
        ["sysctl", host, key, value] => {
            crate::netns::sysctl(shared.host(host), key, value)?;
            ok()
        }
        ["inject", to, from] => {
            let (to, from) = (shared.mac(to)?, shared.mac(from)?);
            raw::Port::open(LINK, false)?.inject(to, from, payload)?;
            ok()
        }
        ["sniff"] => {
            let port = raw::Port::open(LINK, true)?;
            *shared
                .sniffer
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(port);
            ok()
        }
        ["sniffed", ms] => {
            let port = shared
                .sniffer
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            let port = port.ok_or_else(|| io::Error::other("nobody sniffs"))?;
            let text = port.sniffed(Duration::from_millis(number(ms)?))?;
            Ok(format!("ok\n{text}").into_bytes())
        }
        ["report", pid] => {
            if shared.reporting {
                let snapshot = stats::snapshot(number(pid)?);
                let mut reports = shared
                    .reports
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                reports.push(snapshot);
            }
            ok()
        }
        _ => Err(io::Error::other("no such command")),
    }
}

impl Shared {
    fn host(&self, host: &str) -> &str {
        if host == "near" {
            &self.near
        } else {
            &self.far
        }
    }

    /// `near` and `far`: the address of that host's interface now.
    fn mac(&self, text: &str) -> io::Result<raw::Mac> {
        if text != "near" && text != "far" {
            return raw::mac(text);
        }
        if let Some(mac) = self.known_macs().get(text) {
            return Ok(*mac);
        }
        let link = crate::netns::ip(&["-n", self.host(text), "-o", "link", "show", LINK])?;
        let mut words = link.split_whitespace().skip_while(|w| *w != "link/ether");
        let mac = raw::mac(words.nth(1).unwrap_or_default())?;
        self.known_macs().insert(text.to_owned(), mac);
        Ok(mac)
    }

    fn known_macs(&self) -> MutexGuard<'_, HashMap<String, raw::Mac>> {
        self.macs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ok() -> io::Result<Vec<u8>> {
    Ok(b"ok\n".to_vec())
}

/// A program that says a line for each datagram; ended with its value.
#[derive(Debug)]
struct Observer {
    child: Child,
    lines: Receiver<String>,
}

impl Drop for Observer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn observe(shared: &Shared, slot: u32, place: [&str; 2]) -> io::Result<Vec<u8>> {
    let program = victim::compile("observer", Variant::Plain);
    let mut child = Command::new("ip")
        .args(["netns", "exec", &shared.far])
        .arg(program)
        .args(place)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = BufReader::new(child.stdout.take().expect("asked for"));
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let observer = Observer { child, lines };
    let first = observer.lines.recv_timeout(Duration::from_secs(10));
    if first.as_deref() != Ok("ready") {
        return Err(io::Error::other("the observer does not start"));
    }
    let mut all = shared
        .observers
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    all.insert(slot, observer);
    ok()
}

fn observed(shared: &Shared, slot: u32, ms: u64) -> io::Result<Vec<u8>> {
    let all = shared
        .observers
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let observer = all
        .get(&slot)
        .ok_or_else(|| io::Error::other("nobody observes"))?;
    let line = observer.lines.recv_timeout(Duration::from_millis(ms));
    Ok(line.map_or_else(|_| b"none\n".to_vec(), |line| format!("ok {line}\n").into()))
}

/// Waits until the kernel has dealt with what was sent over the veth pair: a busy machine
/// leaves that to a thread of its own. Column 11 of the table is the length of a core's backlog.
fn settled() -> io::Result<Vec<u8>> {
    let end = Instant::now() + Duration::from_millis(500);
    // Twice: what is being dealt with is in no backlog any more.
    let mut quiet = 0;
    loop {
        let table = std::fs::read_to_string("/proc/net/softnet_stat")?;
        let waits = |line: &str| {
            let backlog = line.split_whitespace().nth(11);
            backlog.is_some_and(|word| word.bytes().any(|b| b != b'0'))
        };
        quiet = if table.lines().any(waits) {
            0
        } else {
            quiet + 1
        };
        if quiet == 2 || Instant::now() > end {
            return ok();
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn number<T: std::str::FromStr>(word: &str) -> io::Result<T> {
    word.parse()
        .map_err(|_| io::Error::other(format!("{word} is not a number")))
}

fn address(ip: &str, port: &str) -> io::Result<SocketAddr> {
    let ip = ip.parse().map_err(io::Error::other)?;
    Ok(SocketAddr::new(ip, number(port)?))
}

fn socket(shared: &Shared, slot: &str) -> io::Result<Arc<UdpSocket>> {
    let slots = shared.slots.lock().unwrap_or_else(PoisonError::into_inner);
    slots
        .get(&number(slot)?)
        .cloned()
        .ok_or_else(|| io::Error::other("slot is not open"))
}

/// `count` datagrams of `length` bytes that begin with their number, eight digits.
///
/// # Errors
/// What sendto(2) says.
pub fn burst(
    socket: &UdpSocket,
    to: SocketAddr,
    count: u32,
    length: usize,
    gap: Duration,
) -> io::Result<()> {
    let mut payload = vec![b'.'; length.max(8)];
    for number in 0..count {
        payload[..8].copy_from_slice(format!("{number:08}").as_bytes());
        socket.send_to(&payload, to)?;
        if !gap.is_zero() {
            std::thread::sleep(gap);
        }
    }
    Ok(())
}

fn receive(socket: &UdpSocket, ms: u64) -> io::Result<Vec<u8>> {
    socket.set_read_timeout(Some(Duration::from_millis(ms.max(1))))?;
    let mut buffer = vec![0; 65536];
    match socket.recv_from(&mut buffer) {
        Ok((length, from)) => {
            let mut answer = format!("ok {length} {} {}\n", from.ip(), from.port()).into_bytes();
            answer.extend_from_slice(&buffer[..length]);
            Ok(answer)
        }
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
            ) =>
        {
            Ok(b"none\n".to_vec())
        }
        Err(e) => Err(e),
    }
}
