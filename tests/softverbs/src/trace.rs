//! A line for every call, in the file that `SOFTVERBS_TRACE` names: each appended by one write,
//! so that several processes may share the file.

use crate::descriptor::Descriptor;
use crate::{settings, strict};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fmt::Arguments;
use std::sync::OnceLock;

fn file() -> Option<&'static Descriptor> {
    static FILE: OnceLock<Option<Descriptor>> = OnceLock::new();
    FILE.get_or_init(|| {
        let path = settings::get().trace.as_ref()?;
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => Some(Descriptor::aside(fd)),
            Err(errno) => strict::give_up(format_args!("SOFTVERBS_TRACE: {path:?}: {errno}")),
        }
    })
    .as_ref()
}

/// Whether calls of the control plane are written.
pub(crate) fn on() -> bool {
    settings::get().trace.is_some()
}

/// Whether posts and polls are written too.
pub(crate) fn data() -> bool {
    settings::get().trace_data && on()
}

/// Appends one line, if there is a file.
pub(crate) fn line(text: Arguments) {
    if let Some(fd) = file() {
        let line = format!("{text}\n");
        // A full disk must not change what the traced program sees.
        let _ = rustix::io::write(fd, line.as_bytes());
    }
}

/// The name of an error number, for the lines.
pub(crate) fn errno_name(errno: Errno) -> String {
    let name = match errno {
        Errno::PERM => "EPERM",
        Errno::NOENT => "ENOENT",
        Errno::INTR => "EINTR",
        Errno::IO => "EIO",
        Errno::AGAIN => "EAGAIN",
        Errno::NOMEM => "ENOMEM",
        Errno::ACCESS => "EACCES",
        Errno::FAULT => "EFAULT",
        Errno::BUSY => "EBUSY",
        Errno::EXIST => "EEXIST",
        Errno::NODEV => "ENODEV",
        Errno::INVAL => "EINVAL",
        Errno::NFILE => "ENFILE",
        Errno::MFILE => "EMFILE",
        Errno::NOSPC => "ENOSPC",
        Errno::NOSYS => "ENOSYS",
        Errno::OPNOTSUPP => "EOPNOTSUPP",
        Errno::ADDRINUSE => "EADDRINUSE",
        other => return format!("errno {}", other.raw_os_error()),
    };
    name.to_owned()
}
