//! Removes the files of switches whose last process was killed: nobody else would, for their
//! names are seldom used again.

use super::{DIRECTORY, LOCK, MAGIC, PREFIX, Paths, Shared, WINDOWS, is_alive, remove};
use crate::wire::syscall::{Fd, Mapping};
use rustix::fs::{Dir, FlockOperation, Mode, OFlags, flock, fstat, open};
use rustix::io::Errno;
use std::sync::atomic::Ordering;

/// Looks at all switches but one.
pub(super) fn sweep(own: &Paths) {
    let names = names().unwrap_or_default();
    for name in &names {
        let switch = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.strip_suffix(LOCK));
        if let Some(Ok(paths)) = switch.map(Paths::new)
            && paths.memory() != own.memory()
        {
            // One that cannot be looked at is left alone.
            let _ = visit(&paths, &names);
        }
    }
}

fn names() -> Result<Vec<String>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = Fd::own(open(DIRECTORY, flags, Mode::empty())?)?;
    Dir::read_from(&directory)?
        .map(|entry| entry.map(|e| e.file_name().to_string_lossy().into_owned()))
        .collect()
}

fn visit(paths: &Paths, names: &[String]) -> Result<(), Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let lock = Fd::own(open(paths.lock(), flags, Mode::empty())?)?;
    // Somebody is at it: then it is not forgotten.
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    let forgotten = is_forgotten(paths);
    if forgotten == Ok(true) || forgotten == Err(Errno::NOENT) {
        let memory = paths.memory();
        for name in names {
            let path = format!("{DIRECTORY}/{name}");
            let rest = path.strip_prefix(memory).and_then(|p| p.strip_prefix('.'));
            if rest.is_some_and(|queue| queue.bytes().all(|b| b.is_ascii_digit())) {
                remove(&path);
            }
        }
        remove(memory);
        // Last: who waits for the lock sees by this that it is to make a new one.
        remove(&paths.lock());
    }
    flock(&lock, FlockOperation::Unlock)
}

/// Whether no member of the switch lives.
fn is_forgotten(paths: &Paths) -> Result<bool, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let file = Fd::own(open(paths.memory(), flags, Mode::empty())?)?;
    if fstat(&file)?.st_size < WINDOWS as i64 {
        return Ok(true);
    }
    let map = Mapping::new(file.raw(), 0, WINDOWS, true)?;
    // SAFETY: as long as the mapping, which outlives the borrow, and made of atomics; nobody
    // cuts the file while the lock is held.
    let shared = unsafe { &*map.start().cast::<Shared>() };
    let lives = |m: &super::Member| m.id.load(Ordering::Acquire) != 0 && is_alive(m);
    Ok(shared.magic.load(Ordering::Acquire) != MAGIC || !shared.members.iter().any(lives))
}
