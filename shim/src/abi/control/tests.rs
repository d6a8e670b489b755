use super::*;

/// Control messages as a program builds them with CMSG_SPACE.
#[derive(Default)]
struct Control(Vec<u8>);

impl Control {
    fn with(mut self, level: c_int, kind: c_int, data: &[u8]) -> Self {
        self.0.extend((HEADER + data.len()).to_ne_bytes());
        self.0.extend(level.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(data);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self
    }

    fn decode(&self) -> Option<SendControl> {
        // SAFETY: a slice is readable for its length.
        unsafe { decode(self.0.as_ptr().cast(), self.0.len()) }
    }
}

const IP: c_int = libc::IPPROTO_IP;

fn info(ifindex: u32, source: [u8; 4]) -> Vec<u8> {
    [ifindex.to_ne_bytes(), source, [9, 9, 9, 9]].concat()
}

#[test]
fn everything_known_at_once() {
    let control = Control::default()
        .with(IP, libc::IP_PKTINFO, &info(3, [192, 0, 2, 1]))
        .with(IP, libc::IP_TTL, &5_i32.to_ne_bytes())
        .with(IP, libc::IP_TOS, &[0xb8])
        .with(libc::SOL_UDP, libc::UDP_SEGMENT, &1400_u16.to_ne_bytes());
    let found = control.decode().unwrap();
    assert_eq!(found.ifindex, Some(3));
    assert_eq!(found.source, Some(Ipv4Addr::new(192, 0, 2, 1)));
    assert_eq!(
        (found.ttl, found.tos, found.segment),
        (Some(5), Some(0xb8), Some(1400))
    );
}

#[test]
fn forms_and_empty_values() {
    let tos = Control::default().with(IP, libc::IP_TOS, &0x10_i32.to_ne_bytes());
    assert_eq!(tos.decode().unwrap().tos, Some(0x10));
    let none = Control::default().with(IP, libc::IP_PKTINFO, &info(0, [0; 4]));
    let none = none.decode().unwrap();
    assert_eq!((none.ifindex, none.source), (None, None));
    let empty = Control::default().decode().unwrap();
    assert_eq!((empty.ttl, empty.tos, empty.segment), (None, None, None));
}

#[test]
fn what_the_kernel_has_to_answer() {
    let one = |kind, data: &[u8]| Control::default().with(IP, kind, data).decode();
    assert!(
        one(libc::IP_TTL, &0_i32.to_ne_bytes()).is_none(),
        "TTL 0 is refused"
    );
    assert!(one(libc::IP_TTL, &256_i32.to_ne_bytes()).is_none());
    assert!(one(libc::IP_TTL, &[5]).is_none(), "a TTL is an int");
    assert!(one(libc::IP_TOS, &256_i32.to_ne_bytes()).is_none());
    assert!(one(libc::IP_PKTINFO, &[0; 11]).is_none());
    assert!(one(libc::IP_RETOPTS, &[1]).is_none(), "unknown");
    let rights = Control::default().with(libc::SOL_SOCKET, libc::SCM_RIGHTS, &[0; 4]);
    assert!(rights.decode().is_none());
    let mut broken = Control::default().with(IP, libc::IP_TTL, &5_i32.to_ne_bytes());
    broken.0[0] = 200;
    assert!(broken.decode().is_none(), "longer than the buffer");
    broken.0[0] = 15;
    assert!(broken.decode().is_none(), "shorter than its header");
    // SAFETY: null.
    let null = unsafe { decode(std::ptr::null(), 16) };
    assert!(null.is_none(), "EFAULT is the kernel's");
}

#[test]
fn rights_are_found_among_others() {
    let fds = [7_i32, 9, -1].map(i32::to_ne_bytes);
    let control = Control::default()
        .with(libc::SOL_SOCKET, libc::SCM_CREDENTIALS, &[0; 12])
        .with(libc::SOL_SOCKET, libc::SCM_RIGHTS, fds.as_flattened());
    let mut header = super::super::send::empty_header();
    header.msg_control = control.0.as_ptr().cast_mut().cast();
    header.msg_controllen = control.0.len();
    let mut found = Vec::new();
    // SAFETY: a header on the stack around a live buffer.
    unsafe { for_each_right(&raw const header, |fd| found.push(fd)) };
    assert_eq!(found, [7, 9, -1]);
    // SAFETY: null.
    unsafe { for_each_right(std::ptr::null(), |_| unreachable!()) };
}
