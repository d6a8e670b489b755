//! What the switch wire costs beside what the machine costs: the half round trip of one
//! cache line between two processes, and of a frame over the wire, in turns.
//!
//! `cargo run --release -p softverbs --example ping_pong [TURNS CORE CORE]` as root, on a
//! machine with two processors or more. Prints nanoseconds.

#[path = "../tests/support/mod.rs"]
mod support;

use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::thread::{CpuSet, sched_setaffinity};
use softverbs::wire::{WireQueue, open_switch};
use std::error::Error;
use std::fs::OpenOptions;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::{Link, enter, interface, nobody, rule};

const ROUNDS: usize = 200_000;
const WARM_UP: usize = 20_000;
/// A datagram of 64 bytes, as scripts/bench sends it.
const FRAME: usize = 42 + 64;
/// No wait is longer.
const PATIENCE: Duration = Duration::from_secs(30);

fn pin(cpu: usize) -> Result<(), Box<dyn Error>> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)?;
    Ok(())
}

/// Spins until something is true.
fn until(mut what: impl FnMut() -> bool) -> Result<(), Box<dyn Error>> {
    let mut spins = 0u32;
    let start = Instant::now();
    while !what() {
        spins = spins.wrapping_add(1);
        if spins.is_multiple_of(1 << 16) && start.elapsed() > PATIENCE {
            return Err("the other side is silent".into());
        }
    }
    Ok(())
}

/// Two words on cache lines of their own, shared through a file.
struct Lines(*mut u8);

impl Lines {
    fn open(path: &str) -> Result<Self, Box<dyn Error>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        file.set_len(4096)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice, never unmapped.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                4096,
                protection,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        Ok(Self(start.cast()))
    }

    fn line(&self, index: usize) -> &AtomicU64 {
        assert!(index < 16);
        // SAFETY: within the page by the assertion, and aligned.
        let place = unsafe { self.0.add(index * 256) };
        // SAFETY: the mapping is never unmapped, and both sides use atomics.
        unsafe { &*place.cast::<AtomicU64>() }
    }
}

/// Number of the turn that both are in.
const TURN: usize = 0;
const PING: usize = 1;
const PONG: usize = 2;

fn median(samples: &mut [u64]) -> (u64, u64) {
    samples.sort_unstable();
    (
        samples[samples.len() / 2],
        samples[samples.len() * 99 / 100],
    )
}

fn bare(lines: &Lines, leader: bool) -> Result<Vec<u64>, Box<dyn Error>> {
    let mut samples = Vec::with_capacity(ROUNDS);
    let base = lines.line(PONG).load(Ordering::Acquire);
    for round in 0..(WARM_UP + ROUNDS) as u64 {
        let n = base + round + 1;
        if leader {
            let start = Instant::now();
            lines.line(PING).store(n, Ordering::Release);
            until(|| lines.line(PONG).load(Ordering::Acquire) == n)?;
            if round >= WARM_UP as u64 {
                samples.push(start.elapsed().as_nanos() as u64 / 2);
            }
        } else {
            until(|| lines.line(PING).load(Ordering::Acquire) >= n)?;
            lines.line(PONG).store(n, Ordering::Release);
        }
    }
    Ok(samples)
}

/// How often each side measures, and where it runs.
#[derive(Clone, Copy)]
struct Plan {
    turns: u64,
    core: usize,
}

/// A UDP frame of [`FRAME`] bytes to the other host.
fn frame(leader: bool) -> [u8; FRAME] {
    let (to, from) = if leader { (2, 1) } else { (1, 2) };
    let mut frame = [0u8; FRAME];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from]);
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 92, 0, 0, 0x40, 0, 64, 17]);
    frame[26..34].copy_from_slice(&[10, 77, 0, from, 10, 77, 0, to]);
    frame[34..42].copy_from_slice(&[0x13, 0x88, 0x13, 0x88, 0, 72, 0, 0]);
    frame
}

fn receive(queue: &dyn WireQueue) -> Result<(), Box<dyn Error>> {
    until(|| queue.receive(&mut |frame, _| frame.len() == FRAME))
}

fn run(
    leader: bool,
    lines: &Lines,
    switch: &str,
    ns: &str,
    plan: Plan,
) -> Result<(), Box<dyn Error>> {
    pin(plan.core)?;
    enter(ns);
    let here = interface(if leader { "a0" } else { "b0" });
    let wire = open_switch(switch, &here, nobody())?;
    let queue = wire.open_queue(1024)?;
    let mut wanted = rule(5000, 0, false);
    if !leader {
        wanted
            .ethernet
            .as_mut()
            .ok_or("no specification")?
            .destination
            .value[5] = 2;
        wanted
            .ipv4
            .as_mut()
            .ok_or("no specification")?
            .destination
            .value += 1;
    }
    wire.attach(&*queue, &wanted)?;
    let frame = frame(leader);
    let turn = |n: u64| -> Result<(), Box<dyn Error>> {
        lines.line(TURN).fetch_add(1, Ordering::AcqRel);
        until(|| lines.line(TURN).load(Ordering::Acquire) >= 2 * n)
    };
    for n in 0..plan.turns {
        turn(2 * n + 1)?;
        let mut line = bare(lines, leader)?;
        turn(2 * n + 2)?;
        let mut over = Vec::with_capacity(ROUNDS);
        for round in 0..WARM_UP + ROUNDS {
            if leader {
                let start = Instant::now();
                wire.send(&frame).map_err(|e| format!("{e:?}"))?;
                receive(&*queue)?;
                if round >= WARM_UP {
                    over.push(start.elapsed().as_nanos() as u64 / 2);
                }
            } else {
                receive(&*queue)?;
                wire.send(&frame).map_err(|e| format!("{e:?}"))?;
            }
        }
        if leader {
            let ((p50, p99), (w50, w99)) = (median(&mut line), median(&mut over));
            eprintln!(
                "half round trip, ns: cache line p50 {p50} p99 {p99}; switch wire p50 {w50} p99 {w99}"
            );
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [lines, switch, ns, turns, core] = args.as_slice() {
        let plan = Plan {
            turns: turns.parse()?,
            core: core.parse()?,
        };
        return run(false, &Lines::open(lines)?, switch, ns, plan);
    }
    let (turns, core, other_core) = match args.as_slice() {
        [] => (3, 0, 1),
        [turns, core, other] => (turns.parse()?, core.parse()?, other.parse()?),
        _ => return Err("ping_pong [TURNS CORE CORE]".into()),
    };
    let link = Link::new();
    let switch = format!("ping-pong-{}", std::process::id());
    let path = format!("/dev/shm/{switch}.lines");
    let lines = Lines::open(&path)?;
    let mut other = Command::new(std::env::current_exe()?)
        .args([&path, &switch, &link.b])
        .args([turns.to_string(), usize::to_string(&other_core)])
        .spawn()?;
    let result = run(true, &lines, &switch, &link.a, Plan { turns, core });
    if result.is_err() {
        other.kill()?;
    }
    other.wait()?;
    std::fs::remove_file(&path)?;
    result
}
