//! Names of values, and rates.

use core::ffi::{CStr, c_char, c_int};
use rustix::io::Errno;

/// The name of a value, or what stands for all others.
fn name(names: &[&'static CStr], value: u32, other: &'static CStr) -> *const c_char {
    names.get(value as usize).unwrap_or(&other).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn sv_wc_status_str(status: u32) -> *const c_char {
    const NAMES: [&CStr; 24] = [
        c"success",
        c"local length error",
        c"local QP operation error",
        c"local EE context operation error",
        c"local protection error",
        c"Work Request Flushed Error",
        c"memory management operation error",
        c"bad response error",
        c"local access error",
        c"remote invalid request error",
        c"remote access error",
        c"remote operation error",
        c"transport retry counter exceeded",
        c"RNR retry counter exceeded",
        c"local RDD violation error",
        c"remote invalid RD request",
        c"aborted error",
        c"invalid EE context number",
        c"invalid EE context state",
        c"fatal error",
        c"response timeout error",
        c"general error",
        c"TM error",
        c"TM software rendezvous",
    ];
    name(&NAMES, status, c"unknown")
}

#[unsafe(no_mangle)]
extern "C" fn sv_event_type_str(event: u32) -> *const c_char {
    const NAMES: [&CStr; 20] = [
        c"CQ error",
        c"local work queue catastrophic error",
        c"invalid request local work queue error",
        c"local access violation work queue error",
        c"communication established",
        c"send queue drained",
        c"path migrated",
        c"path migration request error",
        c"local catastrophic error",
        c"port active",
        c"port error",
        c"LID change",
        c"P_Key change",
        c"SM change",
        c"SRQ catastrophic error",
        c"SRQ limit reached",
        c"last WQE reached",
        c"client reregistration",
        c"GID table change",
        c"WQ fatal",
    ];
    name(&NAMES, event, c"unknown")
}

#[unsafe(no_mangle)]
extern "C" fn sv_port_state_str(state: u32) -> *const c_char {
    const NAMES: [&CStr; 6] = [
        c"no state change (NOP)",
        c"down",
        c"init",
        c"armed",
        c"active",
        c"active defer",
    ];
    name(&NAMES, state, c"invalid state")
}

#[unsafe(no_mangle)]
extern "C" fn sv_node_type_str(node: u32) -> *const c_char {
    const NAMES: [&CStr; 8] = [
        c"unknown",
        c"InfiniBand channel adapter",
        c"InfiniBand switch",
        c"InfiniBand router",
        c"iWARP NIC",
        c"usNIC",
        c"usNIC UDP",
        c"unspecified",
    ];
    name(&NAMES, node, c"unknown")
}

/// `enum ibv_rate`, multiple of 2.5 Gbit/s (or -1), Mbit/s.
const RATES: [(c_int, c_int, c_int); 24] = [
    (2, 1, 2500),
    (5, 2, 5000),
    (3, 4, 10000),
    (6, 8, 20000),
    (4, 12, 30000),
    (7, 16, 40000),
    (8, 24, 60000),
    (9, 32, 80000),
    (10, 48, 120_000),
    (11, -1, 14062),
    (12, -1, 56250),
    (13, -1, 112_500),
    (14, -1, 168_750),
    (15, -1, 25781),
    (16, -1, 103_125),
    (17, -1, 206_250),
    (18, -1, 309_375),
    (19, 11, 28125),
    (20, 20, 50000),
    (21, 160, 400_000),
    (22, 240, 600_000),
    (23, 320, 800_000),
    (24, 480, 1_200_000),
    (0, 0, 0),
];

#[unsafe(no_mangle)]
extern "C" fn sv_rate_to_mult(rate: c_int) -> c_int {
    let found = RATES.iter().find(|r| r.0 == rate && r.1 > 0);
    found.map_or(-1, |r| r.1)
}

#[unsafe(no_mangle)]
extern "C" fn sv_mult_to_rate(multiple: c_int) -> c_int {
    let found = RATES.iter().find(|r| r.1 == multiple && r.1 > 0);
    found.map_or(0, |r| r.0)
}

#[unsafe(no_mangle)]
extern "C" fn sv_rate_to_mbps(rate: c_int) -> c_int {
    let found = RATES.iter().find(|r| r.0 == rate && r.2 > 0);
    found.map_or(-1, |r| r.2)
}

#[unsafe(no_mangle)]
extern "C" fn sv_mbps_to_rate(mbps: c_int) -> c_int {
    let found = RATES.iter().find(|r| r.2 == mbps && r.2 > 0);
    found.map_or(0, |r| r.0)
}

/// A call that the card does not have and that returns an error number.
#[unsafe(no_mangle)]
extern "C" fn sv_unsupported_number() -> c_int {
    Errno::OPNOTSUPP.raw_os_error()
}

/// A call that the card does not have and that returns -1.
#[unsafe(no_mangle)]
extern "C" fn sv_unsupported_minus_one() -> c_int {
    crate::call::minus_one(Err(Errno::OPNOTSUPP))
}

/// A call that the card does not have and that returns a pointer.
#[unsafe(no_mangle)]
extern "C" fn sv_unsupported_pointer() -> *mut core::ffi::c_void {
    crate::call::pointer(Err(Errno::OPNOTSUPP))
}

/// A call that has nothing to do.
#[unsafe(no_mangle)]
extern "C" fn sv_zero() -> c_int {
    0
}
