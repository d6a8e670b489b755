//! bpf(2): maps, programs and links.
//!
//! Source: bpf(2), linux/bpf.h (`union bpf_attr`, of which each struct here is one member).

use super::assembler::Insn;
use crate::wire::syscall::{Fd, call};
use rustix::io::Errno;
use std::os::fd::RawFd;

const MAP_CREATE: usize = 0;
const MAP_LOOKUP_ELEM: usize = 1;
const MAP_UPDATE_ELEM: usize = 2;
const MAP_DELETE_ELEM: usize = 3;
const PROG_LOAD: usize = 5;
const PROG_GET_FD_BY_ID: usize = 13;
const MAP_GET_FD_BY_ID: usize = 14;
const OBJ_GET_INFO_BY_FD: usize = 15;
const PROG_QUERY: usize = 16;
const LINK_CREATE: usize = 28;

const PROG_TYPE_SCHED_CLS: u32 = 3;
const TCX_INGRESS: u32 = 46;

/// Kinds of map (`enum bpf_map_type`).
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Array whose value is mapped by processes.
    Shared,
    /// Array of maps, made after the pattern of one.
    Maps(RawFd),
    /// Sockets that leave the map when they are closed.
    Sockets,
    /// Ring of records.
    Ring,
}

/// Object name of at most 15 bytes.
fn name(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    name[..text.len()].copy_from_slice(text.as_bytes());
    name
}

/// One bpf(2) call.
///
/// # Safety
/// `attr` is the member of `union bpf_attr` for `command`, and what it points to is valid.
unsafe fn bpf<T>(command: usize, attr: &mut T) -> Result<usize, Errno> {
    // SAFETY: `attr` is live and of the given size; the rest is the caller's promise.
    unsafe {
        call(
            libc::SYS_bpf,
            [
                command,
                std::ptr::from_mut(attr) as usize,
                size_of::<T>(),
                0,
                0,
                0,
            ],
        )
    }
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    inner: u32,
    numa: u32,
    name: [u8; 16],
    /// Of no interface; memcheck looks whatever the size says.
    interface: u32,
}

/// Makes a map.
pub(super) fn create_map(
    kind: Kind,
    title: &str,
    value_size: usize,
    entries: usize,
) -> Result<Fd, Errno> {
    let (number, key_size, flags, inner) = match kind {
        Kind::Shared => (2, 4, 1 << 10, 0),
        Kind::Maps(pattern) => (12, 4, 0, pattern as u32),
        Kind::Sockets => (15, 4, 0, 0),
        Kind::Ring => (27, 0, 0, 0),
    };
    let mut attr = MapCreate {
        kind: number,
        key_size,
        value_size: value_size as u32,
        max_entries: entries as u32,
        flags,
        inner,
        numa: 0,
        name: name(title),
        interface: 0,
    };
    // SAFETY: the member for MAP_CREATE; it holds no pointer.
    let fd = unsafe { bpf(MAP_CREATE, &mut attr)? };
    Fd::adopt(fd as RawFd)
}

#[repr(C)]
struct Element {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

fn element(map: RawFd, key: &u32, value: u64) -> Element {
    Element {
        map: map as u32,
        padding: 0,
        key: std::ptr::from_ref(key) as u64,
        value,
        flags: 0,
    }
}

/// Stores a descriptor in a map of maps (`V` = `u32`) or sockets (`V` = `u64`).
pub(super) fn update<V>(map: RawFd, key: u32, value: &V) -> Result<(), Errno> {
    let mut attr = element(map, &key, std::ptr::from_ref(value) as u64);
    // SAFETY: key and value are of the sizes the two kinds of map were made with.
    unsafe { bpf(MAP_UPDATE_ELEM, &mut attr) }.map(|_| ())
}

/// Empties one place.
pub(super) fn delete(map: RawFd, key: u32) -> Result<(), Errno> {
    let mut attr = element(map, &key, 0);
    // SAFETY: the key is of the size the map was made with.
    unsafe { bpf(MAP_DELETE_ELEM, &mut attr) }.map(|_| ())
}

/// Whether a place of a map of sockets is taken.
pub(super) fn is_taken(map: RawFd, key: u32) -> bool {
    let mut cookie = 0u64;
    let mut attr = element(map, &key, std::ptr::from_mut(&mut cookie) as u64);
    // SAFETY: the kernel writes the eight bytes of a socket's cookie.
    unsafe { bpf(MAP_LOOKUP_ELEM, &mut attr) }.is_ok()
}

#[repr(C)]
struct ProgLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

/// Loads a classifier program. `log`, when not empty, gets the verifier's words.
pub(super) fn load(title: &str, program: &[Insn], log: &mut [u8]) -> Result<Fd, Errno> {
    // The helpers are for programs under this licence; it says nothing of the library's own.
    let license = c"GPL";
    let mut attr = ProgLoad {
        kind: PROG_TYPE_SCHED_CLS,
        count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log: if log.is_empty() {
            0
        } else {
            log.as_mut_ptr() as u64
        },
        kernel_version: 0,
        flags: 0,
        name: name(title),
        interface: 0,
        attach_type: TCX_INGRESS,
    };
    // SAFETY: the pointers are to live slices of the given lengths.
    let fd = unsafe { bpf(PROG_LOAD, &mut attr)? };
    Fd::adopt(fd as RawFd)
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
    relative: u32,
    padding: u32,
    revision: u64,
}

/// Attaches a program to an interface's ingress, behind those that are there. It goes with
/// the descriptor.
pub(super) fn attach(program: RawFd, interface: u32) -> Result<Fd, Errno> {
    let mut attr = LinkCreate {
        program: program as u32,
        interface,
        attach_type: TCX_INGRESS,
        flags: 0,
        relative: 0,
        padding: 0,
        revision: 0,
    };
    // SAFETY: the member for LINK_CREATE; it holds no pointer.
    let fd = unsafe { bpf(LINK_CREATE, &mut attr)? };
    Fd::adopt(fd as RawFd)
}

#[repr(C)]
struct ProgQuery {
    interface: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    ids: u64,
    count: u32,
    padding: u32,
    more: [u64; 4],
}

/// Names of the programs at an interface's ingress, in order.
pub(super) fn attached(interface: u32) -> Result<Vec<u32>, Errno> {
    let mut ids = [0u32; 64];
    let mut attr = ProgQuery {
        interface,
        attach_type: TCX_INGRESS,
        query_flags: 0,
        attach_flags: 0,
        ids: ids.as_mut_ptr() as u64,
        count: ids.len() as u32,
        padding: 0,
        more: [0; 4],
    };
    // SAFETY: `ids` has room for the count given.
    match unsafe { bpf(PROG_QUERY, &mut attr) } {
        Ok(_) => Ok(ids[..(attr.count as usize).min(ids.len())].to_vec()),
        Err(Errno::NOENT) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[repr(C)]
struct ById {
    id: u32,
    next: u32,
    flags: u32,
}

fn by_id(command: usize, id: u32) -> Result<Fd, Errno> {
    let mut attr = ById {
        id,
        next: 0,
        flags: 0,
    };
    // SAFETY: the member for both commands; it holds no pointer.
    let fd = unsafe { bpf(command, &mut attr)? };
    Fd::adopt(fd as RawFd)
}

#[repr(C)]
struct ObjectInfo {
    fd: u32,
    len: u32,
    info: u64,
}

fn info<T>(fd: RawFd, into: &mut T) -> Result<(), Errno> {
    let mut attr = ObjectInfo {
        fd: fd as u32,
        len: size_of::<T>() as u32,
        info: std::ptr::from_mut(into) as u64,
    };
    // SAFETY: the kernel writes at most `len` bytes of plain numbers to `into`.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut attr) }.map(|_| ())
}

#[repr(C)]
#[derive(Default)]
struct ProgInfo {
    kind: u32,
    id: u32,
    tag: [u8; 8],
    jited_len: u32,
    xlated_len: u32,
    jited: u64,
    xlated: u64,
    load_time: u64,
    user: u32,
    map_count: u32,
    maps: u64,
    name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct MapInfo {
    kind: u32,
    id: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    name: [u8; 16],
}

/// The maps of a program of ours, by their names: `None` if the program is another's.
pub(super) fn maps_of(id: u32, title: &str, maps: [&str; 3]) -> Result<Option<[Fd; 3]>, Errno> {
    let program = by_id(PROG_GET_FD_BY_ID, id)?;
    let mut ids = [0u32; 16];
    let mut about = ProgInfo {
        map_count: ids.len() as u32,
        maps: ids.as_mut_ptr() as u64,
        ..ProgInfo::default()
    };
    info(program.raw(), &mut about)?;
    if about.name != name(title) {
        return Ok(None);
    }
    let mut found: [Option<Fd>; 3] = [None, None, None];
    for &id in &ids[..(about.map_count as usize).min(ids.len())] {
        let map = by_id(MAP_GET_FD_BY_ID, id)?;
        let mut about = MapInfo::default();
        info(map.raw(), &mut about)?;
        for (place, title) in found.iter_mut().zip(maps) {
            if about.name == name(title) {
                *place = Some(map);
                break;
            }
        }
    }
    Ok(match found {
        [Some(a), Some(b), Some(c)] => Some([a, b, c]),
        _ => None,
    })
}

#[cfg(test)]
#[repr(C)]
struct TestRun {
    program: u32,
    verdict: u32,
    size_in: u32,
    size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_size_in: u32,
    context_size_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    padding: u32,
}

/// Runs a program on a frame; what it answers.
#[cfg(test)]
pub(super) fn test_run(program: RawFd, frame: &[u8]) -> Result<u32, Errno> {
    const PROG_TEST_RUN: usize = 10;
    let mut attr = TestRun {
        program: program as u32,
        verdict: 0,
        size_in: frame.len() as u32,
        size_out: 0,
        data_in: frame.as_ptr() as u64,
        data_out: 0,
        repeat: 1,
        duration: 0,
        context_size_in: 0,
        context_size_out: 0,
        context_in: 0,
        context_out: 0,
        flags: 0,
        cpu: 0,
        batch: 0,
        padding: 0,
    };
    // SAFETY: the frame is live and of the length given; nothing is written back but numbers.
    unsafe { bpf(PROG_TEST_RUN, &mut attr)? };
    Ok(attr.verdict)
}
