//! Devices: one for each interface that the settings name. `struct ibv_device` is what an
//! application sees of it; it lives from the list it was found in until the list is freed and
//! every context opened from it is closed.

use crate::abi::{IBV_NODE_CA, IBV_NODE_RNIC, IBV_TRANSPORT_IB, IBV_TRANSPORT_IWARP, ibv_device};
use crate::handle::{self, Header, Object};
use crate::interfaces::{self, Link};
use crate::wire::Interface;
use crate::{directory, settings, strict};
use core::ffi::c_int;
use parking_lot::Mutex;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// One device.
#[repr(C)]
pub(crate) struct Device {
    abi: ibv_device,
    header: Header,
    /// The interface it stands on.
    pub(crate) interface: Interface,
    /// Lists and contexts that hold it.
    holders: AtomicU32,
}

// SAFETY: `abi` comes first, and nothing of the device changes but atomics.
unsafe impl Sync for Device {}

// SAFETY: repr(C) with `abi` first; shared by threads as said above.
unsafe impl Object for Device {
    type Abi = ibv_device;
    const NAME: &'static str = "device";
    const KIND: u16 = 1;
    fn header(&self) -> &Header {
        &self.header
    }
}

static DEVICES: Mutex<Vec<&'static Device>> = Mutex::new(Vec::new());

/// Devices, by the address of the list that was handed out.
static LISTS: Mutex<BTreeMap<usize, Vec<&'static Device>>> = Mutex::new(BTreeMap::new());

impl Device {
    fn new(link: &Link, directory: &Path) -> Self {
        let settings = settings::get();
        let (node, transport) = if settings.iwarp {
            (IBV_NODE_RNIC, IBV_TRANSPORT_IWARP)
        } else {
            (IBV_NODE_CA, IBV_TRANSPORT_IB)
        };
        let interface = link.interface.clone();
        let path = directory.as_os_str().as_encoded_bytes();
        Self {
            abi: ibv_device {
                pad_ops: [core::ptr::null_mut(); 2],
                node_type: node as c_int,
                transport_type: transport as c_int,
                name: text(format!("softverbs_{}", interface.name).as_bytes()),
                dev_name: text(format!("softverbs{}", interface.index).as_bytes()),
                dev_path: text(path),
                ibdev_path: text(path),
            },
            header: Header::new(),
            interface,
            holders: AtomicU32::new(0),
        }
    }

    /// Its name, ended by a zero.
    pub(crate) fn name(&self) -> *const u8 {
        self.abi.name.as_ptr()
    }

    /// EUI-64 of the hardware address, as it lies in memory.
    pub(crate) fn guid(&self) -> u64 {
        let a = self.interface.address;
        u64::from_ne_bytes([a[0] ^ 2, a[1], a[2], 0xff, 0xfe, a[3], a[4], a[5]])
    }

    /// One more holder.
    pub(crate) fn hold(&self) {
        self.holders.fetch_add(1, Ordering::Relaxed);
    }

    /// One holder less.
    pub(crate) fn release(&self) {
        self.holders.fetch_sub(1, Ordering::Relaxed);
    }

    /// The device behind a pointer, while somebody holds it.
    ///
    /// # Errors
    /// `EINVAL`.
    pub(crate) fn find(pointer: *mut ibv_device) -> Result<&'static Self, Errno> {
        let device: &'static Self = handle::find(pointer)?;
        if device.holders.load(Ordering::Relaxed) == 0 {
            let rule = format_args!("device used after free_device_list");
            return Err(strict::violated(Errno::INVAL, rule));
        }
        Ok(device)
    }
}

fn text<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut field = [0; N];
    let length = bytes.len().min(N - 1);
    field[..length].copy_from_slice(&bytes[..length]);
    field
}

/// Looks for devices and returns an array of them that ends with null, and their number.
///
/// # Errors
/// Those of the system calls that list interfaces and make directories.
pub(crate) fn list() -> Result<(*mut *mut ibv_device, usize), Errno> {
    let settings = settings::get();
    let mut found = Vec::new();
    for link in interfaces::links()? {
        let wanted = match &settings.interfaces {
            Some(names) => names.contains(&link.interface.name),
            None => link.kind == "veth",
        };
        if wanted {
            let directory = directory::make(&link.interface, link.running, settings)?;
            found.push(known(&link, &directory));
        }
    }
    let mut array: Vec<*mut ibv_device> = found.iter().map(|d| d.pointer()).collect();
    array.push(core::ptr::null_mut());
    let count = found.len();
    let array = Box::leak(array.into_boxed_slice()).as_mut_ptr();
    found.iter().for_each(|d| d.hold());
    LISTS.lock().insert(array.addr(), found);
    Ok((array, count))
}

/// The device of an interface, the same as long as the interface is.
fn known(link: &Link, directory: &Path) -> &'static Device {
    let mut devices = DEVICES.lock();
    let path: [u8; 256] = text(directory.as_os_str().as_encoded_bytes());
    let same = |d: &&&'static Device| {
        d.abi.ibdev_path == path
            && d.interface.index == link.interface.index
            && d.interface.address == link.interface.address
            && d.interface.mtu == link.interface.mtu
    };
    if let Some(device) = devices.iter().find(same) {
        return device;
    }
    let device = handle::publish(Device::new(link, directory));
    devices.push(device);
    device
}

/// Frees an array that [`list`] returned.
///
/// # Errors
/// `EINVAL` for any other pointer.
pub(crate) fn free_list(array: *mut *mut ibv_device) -> Result<(), Errno> {
    let Some(devices) = LISTS.lock().remove(&array.addr()) else {
        let rule = format_args!("free_device_list: {array:p} is no list, or was freed before");
        return Err(strict::violated(Errno::INVAL, rule));
    };
    devices.iter().for_each(|d| d.release());
    let slice = core::ptr::slice_from_raw_parts_mut(array, devices.len() + 1);
    // SAFETY: `list` leaked a boxed slice of this length at this address, freed only here.
    drop(unsafe { Box::from_raw(slice) });
    Ok(())
}
