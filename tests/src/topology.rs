//! Two hosts on one wire.
//!
//! | | near (the program under test) | far (its peer) |
//! |---|---|---|
//! | interface | `veth0` | `veth0` |
//! | IPv4 | 10.78.0.1/24, alias 10.78.0.11 | 10.78.0.2/24, alias 10.78.0.12 |
//! | IPv6 | fd78::1/64 | fd78::2/64 |
//! | groups | 224.0.0.0/4 over veth0 | the same |
//!
//! One lab at a time on the whole machine: spinning programs of two tests would
//! only measure each other.

use crate::netns::{self, Netns};
use crate::{require, stats};
use rustix::fs::{FlockOperation, flock};
use std::cell::Cell;
use std::fs::File;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The near host's address.
pub const NEAR: &str = "10.78.0.1";
/// The far host's address.
pub const FAR: &str = "10.78.0.2";
/// The interface on both hosts.
pub const LINK: &str = "veth0";

static SERIAL: AtomicU32 = AtomicU32::new(0);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
thread_local! {
    static HELD: Cell<bool> = const { Cell::new(false) };
}

/// Exclusive use of the machine's cores: within this process and between the
/// test binaries.
#[derive(Debug)]
pub struct Turn {
    // Dropped in this order: the file's lock goes with its descriptor.
    _file: File,
    _guard: MutexGuard<'static, ()>,
}

impl Turn {
    /// Waits until no other test is running.
    ///
    /// # Panics
    /// When the lock file cannot be made.
    #[must_use]
    pub fn take() -> Self {
        assert!(!HELD.replace(true), "this test holds a lab already");
        let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let path = std::env::temp_dir().join("shim-tests.lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .expect("the lock file can be made");
        flock(&file, FlockOperation::LockExclusive).expect("a fresh file can be locked");
        Self {
            _file: file,
            _guard: guard,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        HELD.set(false);
    }
}

/// The two hosts.
#[derive(Debug)]
pub struct Lab {
    /// Where the program under test runs.
    pub near: Netns,
    /// Where its peer runs.
    pub far: Netns,
    serial: u32,
    // Of a pair of labs the first holds it.
    _turn: Option<Turn>,
}

impl Lab {
    /// Two hosts that know each other's hardware address; `None` (with the reason
    /// printed) where namespaces cannot be made.
    ///
    /// # Panics
    /// When namespaces work but the wire cannot be set up.
    #[must_use]
    pub fn open() -> Option<Self> {
        stats::sweep();
        let lab = Self::open_cold()?;
        lab.warm_up();
        Some(lab)
    }

    /// Like [`Self::open`], but neither host has resolved the other yet.
    ///
    /// # Panics
    /// When namespaces work but the wire cannot be set up.
    #[must_use]
    pub fn open_cold() -> Option<Self> {
        if !require::netns() {
            return None;
        }
        let turn = Turn::take();
        netns::sweep();
        Some(Self::build(Some(turn)))
    }

    /// Two labs that know nothing of each other, side by side.
    ///
    /// # Panics
    /// When namespaces work but a wire cannot be set up.
    #[must_use]
    pub fn open_two() -> Option<[Self; 2]> {
        let first = Self::open()?;
        let second = Self::build(None);
        second.warm_up();
        Some([first, second])
    }

    fn build(turn: Option<Turn>) -> Self {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let near = Netns::new(serial, "near").expect("near host");
        let far = Netns::new(serial, "far").expect("far host");
        let lab = Self {
            near,
            far,
            serial,
            _turn: turn,
        };
        lab.wire().expect("a veth pair between the hosts");
        lab
    }

    fn wire(&self) -> std::io::Result<()> {
        let peer = self.far.name();
        self.near.ip(&format!(
            "link add {LINK} type veth peer name {LINK} netns {peer}"
        ))?;
        for (host, unit) in [(&self.near, 1), (&self.far, 2)] {
            // Router solicitations and duplicate address detection would only be
            // noise in the counters.
            host.ip_lines(&format!(
                "link set {LINK} addrgenmode none
                 addr add 10.78.0.{unit}/24 brd + dev {LINK}
                 addr add 10.78.0.1{unit}/24 dev {LINK}
                 addr add fd78::{unit}/64 dev {LINK} nodad
                 link set {LINK} up
                 route add 224.0.0.0/4 dev {LINK}
                "
            ))?;
            // Each closed port answers, also the seventh within a second.
            host.sysctl("net.ipv4.icmp_ratelimit", "0")?;
        }
        Ok(())
    }

    fn warm_up(&self) {
        for (from, to) in [(&self.near, FAR), (&self.far, NEAR)] {
            let name = from.name().to_owned();
            let sent = std::thread::spawn(move || -> std::io::Result<()> {
                Netns::enter(&name)?;
                // Port 9 is closed: the ICMP answer shows that both directions work.
                let socket = UdpSocket::bind("0.0.0.0:0")?;
                socket.connect((to, 9))?;
                socket.set_read_timeout(Some(Duration::from_secs(2)))?;
                socket.send(b"warm up")?;
                let refused = socket.recv(&mut [0; 8]).map_err(|e| e.kind());
                assert_eq!(refused, Err(std::io::ErrorKind::ConnectionRefused));
                Ok(())
            });
            sent.join()
                .expect("the wire answers")
                .expect("a socket in the namespace");
        }
    }

    /// Number that tells this lab from the others of this process.
    #[must_use]
    pub fn serial(&self) -> u32 {
        self.serial
    }
}
