//! Which RDMA device and port an interface belongs to, and what an error number means.
//!
//! Reads each device's own directory (`ibdev_path`; sysfs of a card,
//! Documentation/ABI/stable/sysfs-class-infiniband): never the class directory, which
//! another library need not have.

use crate::error::{Errno, Reason};
use crate::sys::file;
use crate::sys::verbs::{DeviceLimits, DeviceName, list};
use std::ffi::{CStr, CString};

/// Where the kernel lists what is built on top of other interfaces.
const VLANS: &CStr = c"/proc/net/vlan";
const BONDS: &CStr = c"/proc/net/bonding";

/// A device of the list and its port, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) device: usize,
    pub(super) port: u8,
}

/// The device of an interface.
///
/// # Errors
/// It has none, or is built on top of one that has.
pub(super) fn find(devices: &[DeviceName], interface: &str) -> Result<Place, Reason> {
    if has(VLANS, interface) {
        return Err(Reason::Vlan);
    }
    if has(BONDS, interface) {
        return Err(Reason::Bonded);
    }
    // The card's function lists its own interfaces; the address tables of its ports also
    // those on top of them.
    let own = devices.iter().enumerate().find_map(|(device, name)| {
        let port = own_port(&name.path, interface)?;
        Some(Place { device, port })
    });
    let by_address = || {
        devices.iter().enumerate().find_map(|(device, name)| {
            let port = addressed_port(&name.path, interface)?;
            Some(Place { device, port })
        })
    };
    own.or_else(by_address).ok_or(Reason::NoRdmaDevice)
}

fn join(path: &CStr, parts: &[&[u8]]) -> CString {
    let mut bytes = path.to_bytes().to_vec();
    for part in parts {
        bytes.push(b'/');
        bytes.extend_from_slice(part);
    }
    CString::new(bytes).unwrap_or_default()
}

fn has(directory: &CStr, name: &str) -> bool {
    list(directory)
        .iter()
        .any(|entry| entry.to_bytes() == name.as_bytes())
}

/// Text of a small file, without the white space at its end.
fn content(path: &CStr) -> Option<String> {
    let bytes = file::read(path, 256).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

fn ports(path: &CStr) -> Vec<u8> {
    let mut ports: Vec<u8> = list(&join(path, &[b"ports"]))
        .iter()
        .filter_map(|name| name.to_str().ok()?.parse().ok())
        .collect();
    ports.sort_unstable();
    ports
}

/// By `device/net/IF`, with `dev_port` (from 0) where the device has several ports.
fn own_port(path: &CStr, interface: &str) -> Option<u8> {
    let net = join(path, &[b"device/net"]);
    if !has(&net, interface) {
        return None;
    }
    let ports = ports(path);
    let port = content(&join(&net, &[interface.as_bytes(), b"dev_port"]))
        .and_then(|text| text.parse::<u8>().ok())
        .map_or(1, |n| n.saturating_add(1));
    if ports.contains(&port) {
        Some(port)
    } else {
        addressed_port(path, interface).or(ports.first().copied())
    }
}

/// By `ports/N/gid_attrs/ndevs/*`.
fn addressed_port(path: &CStr, interface: &str) -> Option<u8> {
    ports(path).into_iter().find(|port| {
        let number = port.to_string();
        let table = join(path, &[b"ports", number.as_bytes(), b"gid_attrs/ndevs"]);
        list(&table).iter().any(|entry| {
            content(&join(&table, &[entry.to_bytes()])).is_some_and(|name| name == interface)
        })
    })
}

/// A counter of a port; None where the device has no such one.
pub(super) fn counter(path: &CStr, port: u8, name: &str) -> Option<u64> {
    let number = port.to_string();
    let parts: [&[u8]; 4] = [b"ports", number.as_bytes(), b"hw_counters", name.as_bytes()];
    content(&join(path, &parts))?.parse().ok()
}

/// Why a device could not be opened.
pub(super) fn open_reason(error: Errno) -> Reason {
    match error.0 {
        libc::EMFILE | libc::ENFILE | libc::ENOMEM => Reason::NoResources,
        _ => Reason::NoRdmaDevice,
    }
}

/// Why memory could not be registered; `limited`: RLIMIT_MEMLOCK has a value.
pub(super) fn memory_reason(error: Errno, limited: bool) -> Reason {
    match error.0 {
        libc::ENOMEM | libc::EAGAIN | libc::EPERM if limited => Reason::LockedMemory,
        _ => Reason::NoResources,
    }
}

/// Why a queue pair or a completion queue could not be made.
pub(super) fn queue_reason(error: Errno, limits: &DeviceLimits) -> Reason {
    match error.0 {
        libc::EPERM | libc::EACCES => Reason::NoPermission,
        libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS | libc::EPROTONOSUPPORT => {
            no_raw_packets(limits)
        }
        libc::EMFILE | libc::ENFILE => Reason::NoResources,
        _ => Reason::NoQueuePairs,
    }
}

/// A device that refuses raw packets: one that steers flows all the same is a card of
/// which something is switched off.
pub(super) fn no_raw_packets(limits: &DeviceLimits) -> Reason {
    if limits.flow_steering || limits.raw_packet_caps.is_some_and(|caps| caps != 0) {
        Reason::NoRawPacket
    } else {
        Reason::RoceOnly
    }
}

/// Why a flow rule could not be made.
pub(super) fn rule_reason(error: Errno) -> Reason {
    match error.0 {
        libc::EPERM | libc::EACCES => Reason::NoPermission,
        libc::ENOMEM | libc::ENOSPC | libc::EBUSY | libc::EAGAIN | libc::EEXIST => {
            Reason::NoFlowRules
        }
        _ => Reason::NoFlowSteering,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::{Path, PathBuf};

    /// A directory that looks like sysfs.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("verbs-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn device(&self, name: &str) -> DeviceName {
            let path: &Path = &self.0.join(name);
            DeviceName {
                name: name.to_owned(),
                path: CString::new(path.to_str().unwrap()).unwrap(),
                iwarp: false,
            }
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn an_interface_belongs_to_the_function_that_lists_it() {
        let tree = Tree::new("own");
        // A function with two ports and an interface on each.
        tree.write("mlx4_0/ports/1/state", "4: ACTIVE\n");
        tree.write("mlx4_0/ports/2/state", "4: ACTIVE\n");
        tree.write("mlx4_0/device/net/ens1/dev_port", "0\n");
        tree.write("mlx4_0/device/net/ens1d1/dev_port", "1\n");
        // One port each; the second function calls its only port by another number.
        tree.write("mlx5_0/ports/1/gid_attrs/ndevs/0", "ens2f0np0\n");
        tree.write("mlx5_0/ports/1/gid_attrs/ndevs/1", "ens2f0np0.7\n");
        tree.write("mlx5_0/device/net/ens2f0np0/dev_port", "0\n");
        tree.write("mlx5_1/ports/1/gid_attrs/ndevs/0", "ens2f1np1\n");
        tree.write("mlx5_1/device/net/ens2f1np1/dev_port", "1\n");
        let devices = ["mlx4_0", "mlx5_0", "mlx5_1"].map(|name| tree.device(name));
        let place = |interface| find(&devices, interface).map(|p| (p.device, p.port));
        assert_eq!(place("ens1"), Ok((0, 1)));
        assert_eq!(place("ens1d1"), Ok((0, 2)));
        assert_eq!(place("ens2f0np0"), Ok((1, 1)));
        assert_eq!(place("ens2f1np1"), Ok((2, 1)));
        assert_eq!(place("eth9"), Err(Reason::NoRdmaDevice));
        assert_eq!(
            place("ens2f0"),
            Err(Reason::NoRdmaDevice),
            "no prefix counts"
        );
    }

    #[test]
    fn without_a_function_the_address_table_tells() {
        let tree = Tree::new("gid");
        tree.write("soft_0/ports/1/gid_attrs/ndevs/0", "other0\n");
        tree.write("soft_0/ports/2/gid_attrs/ndevs/3", "veth7\n");
        let devices = [tree.device("soft_0")];
        assert_eq!(find(&devices, "veth7"), Ok(Place { device: 0, port: 2 }));
        assert_eq!(find(&[], "veth7"), Err(Reason::NoRdmaDevice));
    }

    #[test]
    fn counters_are_read_where_there_are_any() {
        let tree = Tree::new("counter");
        tree.write("mlx5_0/ports/1/hw_counters/out_of_buffer", "17\n");
        let path = tree.device("mlx5_0").path;
        assert_eq!(counter(&path, 1, "out_of_buffer"), Some(17));
        assert_eq!(counter(&path, 2, "out_of_buffer"), None);
    }

    #[test]
    fn an_error_number_means_something_at_each_step() {
        let soft = DeviceLimits::default();
        let card = DeviceLimits {
            flow_steering: true,
            ..soft
        };
        let errno = Errno;
        assert_eq!(
            queue_reason(errno(libc::EPERM), &card),
            Reason::NoPermission
        );
        assert_eq!(
            queue_reason(errno(libc::EINVAL), &card),
            Reason::NoRawPacket
        );
        assert_eq!(
            queue_reason(errno(libc::EOPNOTSUPP), &soft),
            Reason::RoceOnly
        );
        assert_eq!(
            queue_reason(errno(libc::ENOMEM), &card),
            Reason::NoQueuePairs
        );
        assert_eq!(
            queue_reason(errno(libc::ENOSPC), &card),
            Reason::NoQueuePairs
        );
        assert_eq!(
            queue_reason(errno(libc::EMFILE), &card),
            Reason::NoResources
        );
        assert_eq!(
            memory_reason(errno(libc::ENOMEM), true),
            Reason::LockedMemory
        );
        assert_eq!(
            memory_reason(errno(libc::ENOMEM), false),
            Reason::NoResources
        );
        assert_eq!(rule_reason(errno(libc::ENOSPC)), Reason::NoFlowRules);
        assert_eq!(rule_reason(errno(libc::EOPNOTSUPP)), Reason::NoFlowSteering);
        assert_eq!(rule_reason(errno(libc::EPERM)), Reason::NoPermission);
        assert_eq!(open_reason(errno(libc::EMFILE)), Reason::NoResources);
        assert_eq!(open_reason(errno(libc::ENODEV)), Reason::NoRdmaDevice);
    }
}
