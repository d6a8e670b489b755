//! One receive call: where the datagram, its sender and its control messages go.
//!
//! Source: linux net/socket.c (`move_addr_to_user`, `____sys_recvmsg`), net/ipv4/udp.c
//! (`udp_recvmsg`): the payload is copied first, then the address; an error while
//! copying has consumed the datagram.

use super::kernel::{self, arg, forward};
use super::send::Outgoing;
use super::{control, encode_address, is_nowhere, vectors};
use crate::verdict::Verdict;
use engine::error::Errno;
use engine::socket::io::{Datagram, Delivery, Receive};
use libc::{c_int, c_void, iovec, msghdr, sockaddr_in, socklen_t};
use std::hint::cold_path;
use std::net::SocketAddrV4;
use std::os::fd::RawFd;
use std::ptr;

/// Arguments of read, recv, recvfrom: one buffer, no control messages.
pub(crate) struct Simple {
    buffer: *mut c_void,
    len: usize,
    flags: c_int,
    name: *mut c_void,
    name_len: *mut socklen_t,
}

impl Simple {
    /// # Safety
    /// `buffer`, `name` and `name_len` are null or valid as recvfrom(2) asks.
    #[inline(always)]
    pub(crate) unsafe fn new(
        buffer: *mut c_void,
        len: usize,
        flags: c_int,
        name: *mut c_void,
        name_len: *mut socklen_t,
    ) -> Self {
        Self {
            buffer,
            len,
            flags,
            name,
            name_len,
        }
    }

    /// The same call, field by field: a copy as a whole would pin the original to memory,
    /// and this is the hottest of calls.
    #[inline(always)]
    pub(crate) fn again(&self) -> Self {
        Self {
            buffer: self.buffer,
            len: self.len,
            flags: self.flags,
            name: self.name,
            name_len: self.name_len,
        }
    }

    /// The call's own flags.
    #[inline(always)]
    pub(crate) fn flags(&self) -> c_int {
        self.flags
    }
}

/// A read into a buffer of ours, made by `receive`; its verdict and what it received.
pub(crate) fn into_buffer(
    len: usize,
    receive: impl FnOnce(&Simple) -> Verdict,
) -> (Verdict, Vec<u8>) {
    let mut buffer = vec![0_u8; len];
    // SAFETY: the buffer outlives the call; no address.
    let call = unsafe {
        Simple::new(
            buffer.as_mut_ptr().cast(),
            len,
            0,
            ptr::null_mut(),
            ptr::null_mut(),
        )
    };
    let verdict = receive(&call);
    if let Verdict::Handled(count) = verdict {
        buffer.truncate(count);
    }
    (verdict, buffer)
}

impl Receive for Simple {
    const CONTROL: bool = false;

    #[inline(always)]
    fn deliver(&mut self, datagram: &Datagram<'_>, how: &Delivery) -> Result<usize, Errno> {
        let whole = datagram.payload.len();
        let len = self.len.min(whole);
        let result = if self.flags & libc::MSG_TRUNC != 0 {
            whole
        } else {
            len
        };
        if len != 0 {
            if is_nowhere(self.buffer) {
                cold_path();
                return Err(Errno::FAULT);
            }
            // SAFETY: the application's buffer, writable for `len` bytes by the promise at
            // construction; the payload is the engine's memory and does not overlap it.
            unsafe {
                self.buffer
                    .cast::<u8>()
                    .copy_from_nonoverlapping(datagram.payload.as_ptr(), len)
            };
        }
        // One comparison where there is an address, which is mostly.
        if !is_nowhere(self.name) {
            // SAFETY: by the promise at construction.
            unsafe { put_name(self.name, self.name_len, datagram.source, how.mapped) }?;
        } else if !self.name.is_null() {
            cold_path();
            return Err(Errno::FAULT);
        }
        Ok(result)
    }

    fn kernel(&mut self, fd: RawFd, extra: i32) -> Result<usize, Errno> {
        let args = [
            arg(fd),
            self.buffer.expose_provenance(),
            self.len,
            arg(self.flags | extra),
            self.name.expose_provenance(),
            self.name_len.expose_provenance(),
        ];
        // SAFETY: the application's recvfrom arguments.
        unsafe { kernel::recvfrom(args) }
    }
}

/// Writes the sender's address.
///
/// # Errors
/// As `move_addr_to_user`.
///
/// # Safety
/// `name` is not null; both are valid as recvfrom(2) asks.
#[inline(always)]
unsafe fn put_name(
    name: *mut c_void,
    name_len: *mut socklen_t,
    source: &SocketAddrV4,
    mapped: bool,
) -> Result<(), Errno> {
    if is_nowhere(name_len) {
        cold_path();
        return Err(Errno::FAULT);
    }
    if is_nowhere(name) {
        cold_path();
        return Err(Errno::FAULT);
    }
    // SAFETY: not null; valid by the caller's promise.
    let room = unsafe { name_len.read_unaligned() }.cast_signed();
    if mapped || room < size_of::<sockaddr_in>() as i32 {
        // SAFETY: passed on.
        return unsafe { put_name_slow(name, name_len, source, mapped) };
    }
    let whole = sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: source.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: source.ip().to_bits().to_be(),
        },
        sin_zero: [0; 8],
    };
    // SAFETY: writable for `room` bytes, which are enough; alignment is not assumed.
    unsafe { name.cast::<sockaddr_in>().write_unaligned(whole) };
    // SAFETY: as it was read.
    unsafe { name_len.write_unaligned(size_of::<sockaddr_in>() as socklen_t) };
    Ok(())
}

/// Any family, any room.
///
/// # Safety
/// As [`put_name`], and both pointers are somewhere.
#[inline(never)]
unsafe fn put_name_slow(
    name: *mut c_void,
    name_len: *mut socklen_t,
    source: &SocketAddrV4,
    mapped: bool,
) -> Result<(), Errno> {
    let (bytes, full) = encode_address(*source, mapped);
    // SAFETY: valid by the caller's promise.
    let room = unsafe { name_len.read_unaligned() };
    let room = usize::try_from(room.cast_signed()).map_err(|_| Errno::INVAL)?;
    // SAFETY: writable for `room` bytes; `bytes` holds `full`.
    unsafe {
        name.cast::<u8>()
            .copy_from_nonoverlapping(bytes.as_ptr(), room.min(full))
    };
    // SAFETY: as it was read.
    unsafe { name_len.write_unaligned(full as socklen_t) };
    Ok(())
}

/// Arguments of readv, recvmsg or one message of recvmmsg.
pub(crate) struct Incoming<'a> {
    vectors: &'a [iovec],
    flags: c_int,
    name: *mut c_void,
    name_len: *mut socklen_t,
    header: Option<&'a mut msghdr>,
}

impl<'a> Incoming<'a> {
    /// readv.
    ///
    /// # Safety
    /// The vectors' buffers, `name` and `name_len` are null or valid as recvfrom(2) asks.
    pub(crate) unsafe fn plain(
        vectors: &'a [iovec],
        flags: c_int,
        name: *mut c_void,
        name_len: *mut socklen_t,
    ) -> Self {
        Self {
            vectors,
            flags,
            name,
            name_len,
            header: None,
        }
    }

    /// recvmsg; None: the kernel refuses these arguments, let it.
    ///
    /// # Safety
    /// `header` is null or valid with everything it points to, as recvmsg(2) asks.
    pub(crate) unsafe fn message(header: *mut msghdr, flags: c_int) -> Option<Self> {
        if is_nowhere(header) {
            return None;
        }
        // SAFETY: valid for the call, by the caller's promise.
        let header = unsafe { header.as_mut() }?;
        if !header.msg_name.is_null() && header.msg_namelen > i32::MAX as u32 {
            return None;
        }
        // SAFETY: by the caller's promise; the kernel takes the count as a size_t too.
        let vectors = unsafe { vectors(header.msg_iov, header.msg_iovlen) }?;
        let name = header.msg_name;
        let name_len = &raw mut header.msg_namelen;
        Some(Self {
            vectors,
            flags,
            name,
            name_len,
            header: Some(header),
        })
    }

    /// The call's own flags.
    pub(crate) fn flags(&self) -> c_int {
        self.flags
    }

    /// Copies as much of the payload as the vectors hold.
    #[inline]
    fn copy_payload(&self, mut payload: &[u8]) -> Result<usize, Errno> {
        let whole = payload.len();
        for vector in self.vectors {
            let len = vector.iov_len.min(payload.len());
            if len == 0 {
                continue;
            }
            if is_nowhere(vector.iov_base) {
                return Err(Errno::FAULT);
            }
            let (now, later) = payload.split_at(len);
            // SAFETY: the application's buffer, writable for iov_len bytes; the payload
            // is the engine's memory and does not overlap it.
            unsafe {
                vector
                    .iov_base
                    .cast::<u8>()
                    .copy_from_nonoverlapping(now.as_ptr(), len)
            };
            payload = later;
        }
        Ok(whole - payload.len())
    }
}

impl Receive for Incoming<'_> {
    const CONTROL: bool = true;

    #[inline]
    fn deliver(&mut self, datagram: &Datagram<'_>, how: &Delivery) -> Result<usize, Errno> {
        let copied = self.copy_payload(datagram.payload)?;
        let whole = datagram.payload.len();
        if !self.name.is_null() {
            // SAFETY: by the promise at construction.
            unsafe { put_name(self.name, self.name_len, datagram.source, how.mapped) }?;
        }
        if let Some(header) = &mut self.header {
            let mut out = self.flags & libc::MSG_CMSG_CLOEXEC;
            if copied < whole {
                out |= libc::MSG_TRUNC;
            }
            let mut used = 0;
            if how.wanted != 0 {
                // SAFETY: the caller's control buffer, valid by the promise at construction.
                let mut writer =
                    unsafe { control::Writer::new(header.msg_control, header.msg_controllen) };
                writer.put_all(datagram, how);
                used = writer.used();
                if writer.truncated {
                    out |= libc::MSG_CTRUNC;
                }
            }
            header.msg_flags = out;
            header.msg_controllen = used;
        }
        Ok(if self.flags & libc::MSG_TRUNC != 0 {
            whole
        } else {
            copied
        })
    }

    fn kernel(&mut self, fd: RawFd, extra: i32) -> Result<usize, Errno> {
        let flags = self.flags | extra;
        if let Some(header) = &mut self.header {
            let header = ptr::from_mut::<msghdr>(header).expose_provenance();
            // SAFETY: the application's recvmsg arguments.
            return unsafe { kernel::recvmsg(fd, header, flags) };
        }
        if let [one] = self.vectors {
            let args = [
                arg(fd),
                one.iov_base.expose_provenance(),
                one.iov_len,
                arg(flags),
                self.name.expose_provenance(),
                self.name_len.expose_provenance(),
            ];
            // SAFETY: the application's recvfrom arguments.
            return unsafe { kernel::recvfrom(args) };
        }
        // readv
        let mut header = super::send::empty_header();
        header.msg_iov = self.vectors.as_ptr().cast_mut();
        header.msg_iovlen = self.vectors.len();
        let address = (&raw mut header).expose_provenance();
        // SAFETY: a header of our own around the application's vectors.
        unsafe { kernel::recvmsg(fd, address, flags) }
    }

    #[cold]
    fn correct_drops(&mut self, drops: u32) {
        if let Some(header) = &mut self.header {
            // SAFETY: the caller's control buffer, as the kernel has just filled it.
            let used =
                unsafe { control::correct_drops(header.msg_control, header.msg_controllen, drops) };
            header.msg_controllen = used;
        }
    }
}

/// The vector of a recvmmsg or sendmmsg.
pub(crate) struct Many<'a>(&'a mut [libc::mmsghdr]);

impl<'a> Many<'a> {
    /// None: the kernel answers.
    ///
    /// # Safety
    /// `messages` is null or valid for `count` elements with all that they point to, as
    /// recvmmsg(2) or sendmmsg(2) asks, for `'a`.
    pub(crate) unsafe fn new(messages: *mut libc::mmsghdr, count: libc::c_uint) -> Option<Self> {
        if is_nowhere(messages) || !messages.is_aligned() {
            return None;
        }
        // SAFETY: not null, aligned, valid for `count` elements.
        Some(Self(unsafe {
            std::slice::from_raw_parts_mut(messages, count as usize)
        }))
    }

    /// How many messages there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Their headers.
    pub(crate) fn headers(&self) -> impl Iterator<Item = &msghdr> {
        self.0.iter().map(|message| &message.msg_hdr)
    }

    /// The receive call of one message; None: the kernel refuses its header.
    pub(crate) fn incoming(&mut self, index: usize, flags: c_int) -> Option<Incoming<'_>> {
        let header = &raw mut self.0.get_mut(index)?.msg_hdr;
        // SAFETY: by the promise at construction.
        unsafe { Incoming::message(header, flags) }
    }

    /// The send call of one message; None: the kernel answers.
    pub(crate) fn outgoing(&self, index: usize, flags: c_int) -> Option<Outgoing<'_>> {
        let header = &raw const self.0.get(index)?.msg_hdr;
        // SAFETY: by the promise at construction.
        unsafe { Outgoing::message(header, flags) }
    }

    /// The kernel's sendmsg of one message.
    pub(crate) fn kernel_send(
        &self,
        index: usize,
        fd: RawFd,
        flags: c_int,
    ) -> Result<usize, Errno> {
        let header = self
            .0
            .get(index)
            .map_or(ptr::null(), |m| &raw const m.msg_hdr);
        let args = [arg(fd), header.expose_provenance(), arg(flags), 0, 0, 0];
        // SAFETY: the application's sendmsg arguments, by the promise at construction.
        unsafe { forward(libc::SYS_sendmsg, args) }
    }

    /// Writes `msg_len`.
    pub(crate) fn set_len(&mut self, index: usize, len: usize) {
        if let Some(message) = self.0.get_mut(index) {
            message.msg_len = libc::c_uint::try_from(len).unwrap_or(libc::c_uint::MAX);
        }
    }
}

#[cfg(test)]
mod tests;
