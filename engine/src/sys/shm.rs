//! Memory that outlives nobody's handle: files for other processes to read, and
//! anonymous memory where no file can be had.
//!
//! A [`Mapping`] is never unmapped, so that references into it may be `'static`;
//! [`Mapping::detach`] replaces its pages in place instead. Must never use std's or
//! libc's file functions: in a preloaded process these are our own hooks (std's
//! `OwnedFd` closes through libc, hence [`File`]).
//! Source: open(2), fallocate(2), mmap(2), getrlimit(2).

use crate::error::Errno;
use core::ffi::{CStr, c_void};
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, FileType, Mode, OFlags, Stat};
use rustix::mm::{MapFlags, ProtFlags};

/// An open file that closes itself by system call.
#[derive(Debug)]
pub struct File(ManuallyDrop<OwnedFd>);

impl File {
    /// Opens an existing regular file for reading; follows no symbolic link at the
    /// end of the path and does not wait for a FIFO's writer.
    ///
    /// # Errors
    /// open(2)'s; `ELOOP` for a symbolic link, `EINVAL` for what is not a regular file.
    pub fn open(path: &CStr) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = Self::with_flags(path, flags)?;
        if FileType::from_raw_mode(file.stat()?.st_mode) != FileType::RegularFile {
            return Err(Errno::INVAL);
        }
        Ok(file)
    }

    /// Creates `path` for its owner alone, `len` bytes of zeros whose blocks exist:
    /// a store into the mapping cannot meet a full file system, which would be SIGBUS.
    ///
    /// # Errors
    /// open(2)'s, `EEXIST` among them; `EFBIG` where RLIMIT_FSIZE is lower (the write
    /// would be SIGXFSZ); fallocate(2)'s. Nothing is left behind on failure.
    pub fn create(path: &CStr, len: usize) -> Result<Self, Errno> {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        if limit.is_some_and(|limit| limit < len as u64) {
            return Err(Errno(libc::EFBIG));
        }
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = Self::with_flags(path, flags)?;
        if let Err(errno) = file.fill(len) {
            let _ = rustix::fs::unlink(path);
            return Err(errno);
        }
        Ok(file)
    }

    fn with_flags(path: &CStr, flags: OFlags) -> Result<Self, Errno> {
        let fd = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(Self(ManuallyDrop::new(fd)))
    }

    fn fill(&self, len: usize) -> Result<(), Errno> {
        // The umask may have taken the owner's bits.
        rustix::fs::fchmod(self, Mode::RUSR | Mode::WUSR)?;
        match rustix::fs::fallocate(self, FallocateFlags::empty(), 0, len as u64) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => self.write_zeros(len),
            Err(errno) => Err(errno.into()),
        }
    }

    fn write_zeros(&self, len: usize) -> Result<(), Errno> {
        let zeros = [0u8; 4096];
        let mut at = 0;
        while at < len {
            let part = &zeros[..zeros.len().min(len - at)];
            match rustix::io::pwrite(self, part, at as u64) {
                Ok(n) => at += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// fstat(2).
    ///
    /// # Errors
    /// fstat(2)'s.
    pub fn stat(&self) -> Result<Stat, Errno> {
        Ok(rustix::fs::fstat(self)?)
    }

    /// Copies from `offset` on until `buffer` is full or the file ends; returns the
    /// bytes copied. Unlike a mapping, a file cut short by somebody else is a short
    /// count here and not SIGBUS.
    ///
    /// # Errors
    /// pread(2)'s, but never `EINTR`.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let mut done = 0;
        while done < buffer.len() {
            match rustix::io::pread(self, &mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(done)
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let fd = self.0.as_raw_fd();
        // SAFETY: the descriptor is open and ours alone; `ManuallyDrop` keeps
        // `OwnedFd` from closing it again.
        unsafe { rustix::io::close(fd) };
    }
}

/// Readable and writable pages that stay mapped for the rest of the process.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the pages belong to no thread; whoever makes references of `base` answers
// for how they are shared.
unsafe impl Send for Mapping {}
// SAFETY: as above; the methods read the two fields and never write them.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of a file, shared.
    ///
    /// # Errors
    /// mmap(2)'s.
    pub fn shared(file: &File, len: usize) -> Result<Self, Errno> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a null hint without MAP_FIXED lets the kernel choose addresses that
        // nothing else uses.
        let base =
            unsafe { rustix::mm::mmap(ptr::null_mut(), len, prot, MapFlags::SHARED, file, 0) }?;
        Self::from_kernel(base, len)
    }

    /// Anonymous private memory, all zeros.
    ///
    /// # Errors
    /// mmap(2)'s.
    pub fn private(len: usize) -> Result<Self, Errno> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as in `shared`.
        let base =
            unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), len, prot, MapFlags::PRIVATE) }?;
        Self::from_kernel(base, len)
    }

    fn from_kernel(base: *mut c_void, len: usize) -> Result<Self, Errno> {
        let base = NonNull::new(base.cast()).ok_or(Errno::FAULT)?;
        Ok(Self { base, len })
    }

    /// First byte; page-aligned.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Length in bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "mmap refuses an empty mapping")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Puts a private copy of the pages in the place of the shared ones, at the same
    /// addresses: every reference into the mapping stays valid, and what is written
    /// from now on reaches no other process. For a forked child.
    ///
    /// # Errors
    /// mmap(2)'s, mremap(2)'s; the pages are then still the shared ones.
    pub fn detach(&self) -> Result<(), Errno> {
        let copy = Self::private(self.len)?;
        // SAFETY: both ranges are `len` bytes long, mapped, and distinct. Values that
        // other threads write meanwhile may be missed; all of them are atomics.
        unsafe { ptr::copy_nonoverlapping(self.base.as_ptr(), copy.base.as_ptr(), self.len) };
        // SAFETY: `copy` is ours and no reference into it exists. It replaces pages
        // that are ours in one step, with the same length and protection, so that
        // references into them keep pointing at mapped memory with the same values.
        unsafe {
            rustix::mm::mremap_fixed(
                copy.base.as_ptr().cast(),
                self.len,
                self.len,
                rustix::mm::MremapFlags::MAYMOVE,
                self.base.as_ptr().cast(),
            )
        }?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU8, Ordering::Relaxed};
    use std::ffi::CString;
    use std::os::unix::fs::PermissionsExt;

    fn scratch(name: &str) -> (std::path::PathBuf, CString) {
        let path = std::env::temp_dir().join(format!("shm-test-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let text = CString::new(path.to_str().unwrap()).unwrap();
        (path, text)
    }

    #[test]
    fn a_created_file_is_zeroed_private_and_new() {
        let (path, text) = scratch("create");
        let file = File::create(&text, 5000).unwrap();
        let meta = std::fs::metadata(&path).unwrap();
        assert_eq!(meta.len(), 5000);
        assert_eq!(meta.permissions().mode() & 0o7777, 0o600);
        assert_eq!(File::create(&text, 5000).unwrap_err(), Errno(libc::EEXIST));
        drop(file);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_symbolic_link_is_never_followed() {
        let (target, _) = scratch("target");
        let (path, text) = scratch("link");
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert_eq!(File::create(&text, 16).unwrap_err(), Errno(libc::EEXIST));
        assert!(!target.exists());
        std::fs::write(&target, "x").unwrap();
        assert_eq!(File::open(&text).unwrap_err(), Errno(libc::ELOOP));
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(&target).unwrap();
    }

    #[test]
    fn zeros_are_written_where_blocks_cannot_be_reserved() {
        let (path, text) = scratch("zeros");
        let file = File::create(&text, 1).unwrap();
        file.write_zeros(10_000).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), vec![0; 10_000]);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn stores_reach_the_file_until_the_mapping_is_detached() {
        let (path, text) = scratch("map");
        let file = File::create(&text, 8192).unwrap();
        let mapping = Mapping::shared(&file, 8192).unwrap();
        drop(file);
        // SAFETY: the mapping is 8192 bytes long.
        let at = unsafe { mapping.base().add(4100) };
        // SAFETY: the byte is mapped, and no other thread uses it.
        let cell = unsafe { AtomicU8::from_ptr(at.as_ptr()) };
        cell.store(7, Relaxed);
        assert_eq!(std::fs::read(&path).unwrap()[4100], 7);
        mapping.detach().unwrap();
        assert_eq!(cell.load(Relaxed), 7, "the copy keeps the values");
        cell.store(9, Relaxed);
        assert_eq!(
            std::fs::read(&path).unwrap()[4100],
            7,
            "and no longer reaches the file"
        );
        std::fs::remove_file(&path).unwrap();
    }
}
