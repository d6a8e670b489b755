//! The directory that stands for `/sys/class/infiniband/DEVICE`: how an application finds the
//! interface behind a device.
//!
//! It lies under the temporary directory, belongs to the user alone, and is named by the network
//! namespace, so that processes share it. A file is replaced as a whole and only when its text
//! changes; none is ever removed, since another process may be reading it.

use crate::descriptor::Descriptor;
use crate::settings::Settings;
use crate::wire::Interface;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Longest path that fits `struct ibv_device`, its end included.
const LONGEST: usize = 256;

/// Makes the directory, or brings what is there up to date.
pub(crate) fn make(
    interface: &Interface,
    running: bool,
    settings: &Settings,
) -> Result<PathBuf, Errno> {
    let temporary = std::env::var_os("TMPDIR").filter(|v| !v.is_empty());
    let temporary = PathBuf::from(temporary.unwrap_or_else(|| "/tmp".into()));
    let user = rustix::process::geteuid().as_raw();
    let root = temporary.join(format!("softverbs-{user}"));
    private(&root)?;
    let namespace = rustix::fs::stat("/proc/thread-self/ns/net").map_or(0, |s| s.st_ino);
    let place = root.join(namespace.to_string());
    private(&place)?;
    let device = place.join(format!("softverbs_{}", interface.name));
    if device.as_os_str().len() >= LONGEST {
        return Err(Errno::NAMETOOLONG);
    }
    for (path, text) in files(interface, running, settings) {
        write(&device.join(path), &text)?;
    }
    directories(&device.join("device/net").join(&interface.name))?;
    Ok(device)
}

/// What the kernel's files of the same names say.
fn files(interface: &Interface, running: bool, settings: &Settings) -> Vec<(String, String)> {
    let node = if settings.iwarp { "4: RNIC" } else { "1: CA" };
    let layer = if settings.infiniband {
        "InfiniBand"
    } else {
        "Ethernet"
    };
    let state = if running { "4: ACTIVE" } else { "1: DOWN" };
    let physical = if running { "5: LinkUp" } else { "3: Disabled" };
    let file = |path: &str, text: &str| (path.to_owned(), format!("{text}\n"));
    vec![
        file("node_type", node),
        file("node_desc", "software verbs, a test double"),
        file("ports/1/link_layer", layer),
        file("ports/1/state", state),
        file("ports/1/phys_state", physical),
        file("ports/1/gid_attrs/ndevs/0", &interface.name),
        file("ports/1/gid_attrs/types/0", "RoCE v2"),
        (
            format!("device/net/{}/ifindex", interface.name),
            format!("{}\n", interface.index),
        ),
    ]
}

/// A directory that belongs to this user alone: made so, or found so.
fn private(path: &Path) -> Result<(), Errno> {
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    let found = rustix::fs::statx(
        CWD,
        path,
        AtFlags::SYMLINK_NOFOLLOW,
        StatxFlags::BASIC_STATS,
    )?;
    let directory = FileType::from_raw_mode(u32::from(found.stx_mode)) == FileType::Directory;
    let open_to_others = found.stx_mode & 0o022 != 0;
    if !directory || found.stx_uid != rustix::process::geteuid().as_raw() || open_to_others {
        return Err(Errno::ACCESS);
    }
    Ok(())
}

fn directories(path: &Path) -> Result<(), Errno> {
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(Errno::NOENT) => {
            directories(path.parent().ok_or(Errno::NOENT)?)?;
            match rustix::fs::mkdir(path, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(errno) => Err(errno),
            }
        }
        Err(errno) => Err(errno),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let fd = Descriptor::from(rustix::fs::open(path, flags, Mode::empty())?);
    let mut text = [0u8; 128];
    let size = rustix::io::read(&fd, &mut text)?;
    Ok(text[..size].to_vec())
}

/// Writes the text under another name and renames it, unless it stands there already.
fn write(path: &Path, text: &str) -> Result<(), Errno> {
    if read(path).is_ok_and(|found| found == text.as_bytes()) {
        return Ok(());
    }
    directories(path.parent().ok_or(Errno::NOENT)?)?;
    let id = rustix::thread::gettid().as_raw_nonzero();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.{id}"));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let fd = Descriptor::from(rustix::fs::open(&new, flags, Mode::RUSR | Mode::WUSR)?);
    rustix::io::write(&fd, text.as_bytes())?;
    drop(fd);
    rustix::fs::rename(&new, path)
}
