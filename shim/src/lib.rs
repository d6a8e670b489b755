//! libshim.so, the preload library: the edge between an unmodified program and the engine.
//!
//! The life of one intercepted call, `recvfrom(fd, …)`:
//!
//! 1. The dynamic linker has bound the program's `recvfrom` to [`hooks`]. The hook looks
//!    the number up in [`fdtable`]: two loads. Not ours ⇒ jump to libc's function.
//! 2. [`abi`] turns the C arguments into Rust types.
//! 3. [`ops`] holds the typed logic: it takes a counted reference to the object, asks the
//!    engine, and answers with a [`verdict`]: handled, pass through, or failed.
//! 4. The verdict becomes the C result; only failure writes `errno`.
//!
//! [`startup`] loads the configuration before main and starts the engine at the first UDP
//! socket; [`process`] follows fork and exec; [`guard`] lets the library's own calls through.
//!
//! Unsafe code is in `hooks`, `abi`, `process` and `fdtable` alone.
#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "reads and writes the application's arguments")]
mod abi;
#[allow(dead_code, reason = "the engine words its own lines so far")]
mod banner;
#[allow(unsafe_code, reason = "type-stable entries behind atomic pointers")]
mod fdtable;
mod guard;
#[allow(unsafe_code, reason = "C functions that the program calls")]
mod hooks;
mod ops;
#[allow(unsafe_code, reason = "fork handlers, symbol lookup, environment")]
mod process;
mod startup;
mod verdict;

/// Which descriptor numbers are ours.
static FDS: fdtable::FdTable = fdtable::FdTable::new();

/// Not the program's: a handler may have interrupted that.
#[global_allocator]
static HEAP: engine::sys::heap::Heap = engine::sys::heap::Heap;
