//! libibverbs, found at run time: where it is missing nothing is lost but this device.
//!
//! Owns the one handle of the library (never closed: its devices may outlive anybody) and
//! the addresses of its functions. Source: dlopen(3), rdma-core's libibverbs/verbs.h.

use super::abi::WorkCompletion;
use crate::sys::foreign;
use ibverbs_sys as ibv;
use once_cell::sync::OnceCell;
use std::ffi::{CStr, c_char, c_int, c_void};

/// The name under which every distribution installs it.
const NAME: &CStr = c"libibverbs.so.1";

macro_rules! functions {
    ($($name:ident: fn($($arg:ty),*) $(-> $ret:ty)?;)+) => {
        /// Addresses of the library's functions.
        #[derive(Debug)]
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)+
        }

        impl Functions {
            fn resolve(handle: *mut c_void) -> Option<Self> {
                Some(Self { $(
                    $name: {
                        let name = concat!(stringify!($name), "\0");
                        // SAFETY: a handle of dlopen and a name that ends with a zero.
                        let at = unsafe { libc::dlsym(handle, name.as_ptr().cast::<c_char>()) };
                        if at.is_null() {
                            return None;
                        }
                        // SAFETY: the function of this name has this type (verbs.h).
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($arg),*) $(-> $ret)?,
                            >(at)
                        }
                    },
                )+ })
            }
        }
    };
}

functions! {
    ibv_get_device_list: fn(*mut c_int) -> *mut *mut ibv::ibv_device;
    ibv_free_device_list: fn(*mut *mut ibv::ibv_device);
    ibv_open_device: fn(*mut ibv::ibv_device) -> *mut ibv::ibv_context;
    ibv_close_device: fn(*mut ibv::ibv_context) -> c_int;
    ibv_query_device: fn(*mut ibv::ibv_context, *mut ibv::ibv_device_attr) -> c_int;
    ibv_query_port: fn(*mut ibv::ibv_context, u8, *mut ibv::ibv_port_attr) -> c_int;
    ibv_alloc_pd: fn(*mut ibv::ibv_context) -> *mut ibv::ibv_pd;
    ibv_dealloc_pd: fn(*mut ibv::ibv_pd) -> c_int;
    ibv_reg_mr: fn(*mut ibv::ibv_pd, *mut c_void, usize, c_int) -> *mut ibv::ibv_mr;
    ibv_dereg_mr: fn(*mut ibv::ibv_mr) -> c_int;
    ibv_create_comp_channel: fn(*mut ibv::ibv_context) -> *mut ibv::ibv_comp_channel;
    ibv_destroy_comp_channel: fn(*mut ibv::ibv_comp_channel) -> c_int;
    ibv_create_cq: fn(*mut ibv::ibv_context, c_int, *mut c_void, *mut ibv::ibv_comp_channel, c_int) -> *mut ibv::ibv_cq;
    ibv_destroy_cq: fn(*mut ibv::ibv_cq) -> c_int;
    ibv_get_cq_event: fn(*mut ibv::ibv_comp_channel, *mut *mut ibv::ibv_cq, *mut *mut c_void) -> c_int;
    ibv_ack_cq_events: fn(*mut ibv::ibv_cq, u32);
    ibv_create_qp: fn(*mut ibv::ibv_pd, *mut ibv::ibv_qp_init_attr) -> *mut ibv::ibv_qp;
    ibv_modify_qp: fn(*mut ibv::ibv_qp, *mut ibv::ibv_qp_attr, c_int) -> c_int;
    ibv_destroy_qp: fn(*mut ibv::ibv_qp) -> c_int;
    ibv_get_async_event: fn(*mut ibv::ibv_context, *mut ibv::ibv_async_event) -> c_int;
    ibv_ack_async_event: fn(*mut ibv::ibv_async_event);
    ibv_fork_init: fn() -> c_int;
}

/// `ops.poll_cq` of a context.
pub(super) type PollCq =
    unsafe extern "C" fn(*mut ibv::ibv_cq, c_int, *mut WorkCompletion) -> c_int;

/// The library, loaded.
#[derive(Debug)]
pub struct Library {
    pub(super) functions: Functions,
}

static LIBRARY: OnceCell<Option<Library>> = OnceCell::new();

/// Loads the library at the first call; None for good where it is missing or lacks a
/// function. `fork`: children of this process must not disturb it (VMA_FORK).
pub fn library(fork: bool) -> Option<&'static Library> {
    LIBRARY
        .get_or_init(|| {
            let _inside = foreign::enter();
            // SAFETY: the name ends with a zero; the library's constructors need nothing
            // of us. Local: its names stay out of the program's way.
            let handle = unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            if handle.is_null() {
                return None;
            }
            let functions = Functions::resolve(handle)?;
            if fork {
                // The frames' memory never gets into a child (MADV_DONTFORK, `memory`).
                // The rings of work requests and completions are the library's own:
                // without this a kernel before 5.12 would move them under the card when
                // the parent writes to them after a fork. Newer kernels copy pinned pages
                // for the child, and the call does nothing there.
                // SAFETY: no argument; called before anything is registered.
                let _ = unsafe { (functions.ibv_fork_init)() };
            }
            Some(Library { functions })
        })
        .as_ref()
}
