use super::*;
use proptest::prelude::*;

/// "hello" from 10.9.0.1:4660 to 10.9.0.2:9, TOS 0x10, DF, as Linux sent it.
const HELLO: [u8; 47] = [
    0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x08, 0x00, //
    0x45, 0x10, 0x00, 0x21, 0x87, 0xb3, 0x40, 0x00, 0x40, 0x11, 0x9e, 0xf4, 0x0a, 0x09, 0x00, 0x01,
    0x0a, 0x09, 0x00, 0x02, //
    0x12, 0x34, 0x00, 0x09, 0x00, 0x0d, 0x95, 0xb0, //
    b'h', b'e', b'l', b'l', b'o',
];

fn hello() -> UdpFrame<'static> {
    UdpFrame {
        src: "10.9.0.1:4660".parse().unwrap(),
        dst: "10.9.0.2:9".parse().unwrap(),
        tos: 0x10,
        ttl: 64,
        payload: b"hello",
    }
}

/// The frame with its IPv4 header checksum put right.
fn fixed(mut frame: Vec<u8>, header_at: usize) -> Vec<u8> {
    let end = header_at + usize::from(frame[header_at] & 15) * 4;
    frame[header_at + 10..header_at + 12].fill(0);
    let check = Sum::ZERO.add_slice(&frame[header_at..end]).finish();
    frame[header_at + 10..header_at + 12].copy_from_slice(&check);
    frame
}

fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = HELLO.to_vec();
    change(&mut frame);
    fixed(frame, 14)
}

fn verify(frame: &[u8]) -> Parsed<'_> {
    parse(frame, Checksum::Verify)
}

#[test]
fn plain() {
    assert_eq!(verify(&HELLO), Parsed::Udp(hello()));
}

#[test]
fn padding_is_not_data() {
    let mut frame = HELLO.to_vec();
    frame.resize(60, 0xaa);
    assert_eq!(verify(&frame), Parsed::Udp(hello()));
}

#[test]
fn priority_tag_is_no_vlan() {
    let mut frame = HELLO.to_vec();
    frame.splice(12..12, [0x81, 0x00, 0xe0, 0x00]);
    assert_eq!(verify(&frame), Parsed::Udp(hello()));
    frame[15] = 1;
    assert_eq!(verify(&frame), Parsed::NotOurs);
    assert_eq!(verify(&frame[..17]), Parsed::Malformed);
}

#[test]
fn other_protocols() {
    let mut frame = HELLO;
    frame[12..14].copy_from_slice(&[0x86, 0xdd]);
    assert_eq!(verify(&frame), Parsed::NotOurs);
    assert_eq!(verify(&changed(|f| f[23] = 6)), Parsed::NotOurs);
    assert_eq!(verify(&HELLO[..13]), Parsed::Malformed);
    assert_eq!(verify(&[]), Parsed::Malformed);
}

#[test]
fn options() {
    let with = |options: &[u8]| {
        let mut frame = HELLO.to_vec();
        frame[14] = 0x45 + (options.len() / 4) as u8;
        frame[17] += options.len() as u8;
        frame.splice(34..34, options.iter().copied());
        fixed(frame, 14)
    };
    assert_eq!(verify(&with(&[1, 1, 1, 0])), Parsed::Udp(hello()));
    assert_eq!(verify(&with(&[148, 4, 0, 0])), Parsed::Udp(hello()));
    assert_eq!(verify(&with(&[1; 40])), Parsed::Udp(hello()));
    assert_eq!(verify(&with(&[7, 5, 0, 0])), Parsed::Malformed);
    assert_eq!(verify(&with(&[7, 1, 0, 0])), Parsed::Malformed);
    assert_eq!(verify(&with(&[1, 1, 1, 7])), Parsed::Malformed);
    assert_eq!(verify(&with(&[131, 3, 4, 0])), Parsed::NotOurs);
    let mut wrong = with(&[1, 1, 1, 0]);
    wrong[35] = 0;
    assert_eq!(verify(&wrong), Parsed::BadChecksum);
}

#[test]
fn lengths() {
    // Version, header length, total length.
    assert_eq!(verify(&changed(|f| f[14] = 0x65)), Parsed::Malformed);
    let mut short_header = HELLO;
    short_header[14] = 0x44;
    assert_eq!(verify(&short_header), Parsed::Malformed);
    assert_eq!(verify(&changed(|f| f[17] = 0x22)), Parsed::Malformed);
    assert_eq!(verify(&changed(|f| f[16] = 0xff)), Parsed::Malformed);
    assert_eq!(verify(&changed(|f| f[17] = 19)), Parsed::Malformed);
    assert_eq!(verify(&changed(|f| f[17] = 20)), Parsed::Malformed);
    assert_eq!(verify(&HELLO[..46]), Parsed::Malformed);
    assert_eq!(verify(&HELLO[..33]), Parsed::Malformed);
    // UDP length: below its own header, beyond the IP payload.
    assert_eq!(verify(&changed(|f| f[39] = 7)), Parsed::Malformed);
    assert_eq!(verify(&changed(|f| f[39] = 0)), Parsed::Malformed);
    assert_eq!(verify(&changed(|f| f[39] = 14)), Parsed::Malformed);
    assert_eq!(verify(&changed(|f| f[38] = 0xff)), Parsed::Malformed);
}

#[test]
fn udp_length_trims() {
    let trimmed = changed(|f| {
        f[39] = 8 + 2;
        f[40..42].fill(0);
    });
    let expected = UdpFrame {
        payload: b"he",
        ..hello()
    };
    assert_eq!(verify(&trimmed), Parsed::Udp(expected));
    let empty = changed(|f| {
        f[39] = 8;
        f[40..42].fill(0);
    });
    assert_eq!(
        verify(&empty),
        Parsed::Udp(UdpFrame {
            payload: b"",
            ..hello()
        })
    );
}

#[test]
fn checksums() {
    let mut frame = HELLO;
    frame[46] ^= 1;
    assert_eq!(verify(&frame), Parsed::BadChecksum);
    let Parsed::Udp(udp) = parse(&frame, Checksum::Trusted) else {
        panic!("trusted")
    };
    assert_eq!(udp.payload, b"helln");
    // None was computed.
    frame[40..42].fill(0);
    assert!(matches!(verify(&frame), Parsed::Udp(_)));
    // The IP header's is verified whatever the device says.
    let mut frame = HELLO;
    frame[22] = 63;
    assert_eq!(parse(&frame, Checksum::Trusted), Parsed::BadChecksum);
}

#[test]
fn fragments() {
    let first = changed(|f| f[20] = 0x20);
    let expected = Fragment {
        src: Ipv4Addr::new(10, 9, 0, 1),
        dst: Ipv4Addr::new(10, 9, 0, 2),
        id: 0x87b3,
        offset: 0,
        more: true,
        tos: 0x10,
        ttl: 64,
        payload: &HELLO[34..],
    };
    assert_eq!(verify(&first), Parsed::Fragment(expected));
    let last = changed(|f| f[20..22].copy_from_slice(&[0x1f, 0xff]));
    let expected = Fragment {
        offset: 65528,
        more: false,
        ..expected
    };
    assert_eq!(verify(&last), Parsed::Fragment(expected));
    assert_eq!(
        verify(&changed(|f| {
            f[20] = 0x20;
            f[23] = 6;
        })),
        Parsed::NotOurs
    );
}

#[test]
fn impossible_sources() {
    let from = |src: [u8; 4], dst: [u8; 4]| {
        changed(|f| {
            f[26..30].copy_from_slice(&src);
            f[30..34].copy_from_slice(&dst);
            f[40..42].fill(0);
        })
    };
    let us = [10, 9, 0, 2];
    for src in [[224, 0, 0, 1], [239, 255, 255, 255], [255; 4], [0; 4]] {
        assert_eq!(verify(&from(src, us)), Parsed::NotOurs, "{src:?}");
    }
    for (src, dst) in [
        ([0; 4], [255; 4]),
        ([0; 4], [224, 0, 0, 251]),
        ([0; 4], [0; 4]),
    ] {
        assert!(
            matches!(verify(&from(src, dst)), Parsed::Udp(_)),
            "{src:?} {dst:?}"
        );
    }
    for src in [
        [0, 1, 2, 3],
        [1, 0, 0, 1],
        [223, 255, 255, 255],
        [240, 0, 0, 1],
        [127, 0, 0, 1],
    ] {
        assert!(matches!(verify(&from(src, us)), Parsed::Udp(_)), "{src:?}");
    }
    assert_eq!(verify(&from([0; 4], [239, 0, 0, 1])), Parsed::NotOurs);
}

/// The fast path must say what the general one says.
fn both_ways(frame: &[u8], checksum: Checksum) {
    assert_eq!(
        parse(frame, checksum),
        parse_general(frame, checksum),
        "{frame:02x?}"
    );
}

proptest! {
    #[test]
    fn random_bytes(frame in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = verify(&frame);
        let _ = parse_udp((Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST), 0, 0, &frame, Checksum::Verify);
    }

    #[test]
    fn damaged_frames(
        edits in proptest::collection::vec((12usize..47, any::<u8>()), 0..4),
        length in 0usize..60,
        fix in any::<bool>(),
        trusted in any::<bool>(),
    ) {
        let mut frame = HELLO.to_vec();
        for (at, value) in edits {
            frame[at] = value;
        }
        let options = 14 + usize::from(frame[14] & 15) * 4;
        if fix && (34..=47).contains(&options) {
            frame = fixed(frame, 14);
        }
        frame.resize(length, 0x55);
        // Which of two faults is named first may differ; that there is one may not.
        let checksum = if trusted { Checksum::Trusted } else { Checksum::Verify };
        match (parse(&frame, checksum), parse_general(&frame, checksum)) {
            (Parsed::Udp(a), b) => prop_assert_eq!(Parsed::Udp(a), b),
            (Parsed::Fragment(a), b) => prop_assert_eq!(Parsed::Fragment(a), b),
            (_, b) => prop_assert!(!matches!(b, Parsed::Udp(_) | Parsed::Fragment(_))),
        }
        // The shortcut may give less, never anything else.
        let ends = Plain::new(&HELLO).unwrap().ends();
        if let Some(payload) = ends.payload(&frame, trusted) {
            let Parsed::Udp(udp) = parse_general(&frame, checksum) else {
                panic!("a shortcut for what is no datagram: {frame:02x?}");
            };
            prop_assert_eq!((udp.payload, udp.src, udp.dst), (payload, hello().src, hello().dst));
        }
    }

    #[test]
    fn any_length(data in proptest::collection::vec(any::<u8>(), 0..300), flip in any::<(u16, u8)>()) {
        let udp_len = (8 + data.len()) as u16;
        let mut frame = HELLO[..42].to_vec();
        frame[16..18].copy_from_slice(&(20 + udp_len).to_be_bytes());
        frame[38..40].copy_from_slice(&udp_len.to_be_bytes());
        frame.extend_from_slice(&data);
        frame[40..42].fill(0);
        let src = Ipv4Addr::new(10, 9, 0, 1);
        let dst = Ipv4Addr::new(10, 9, 0, 2);
        let check = pseudo_header(src, dst, udp_len).add_slice(&frame[34..]).finish_udp();
        frame[40..42].copy_from_slice(&check);
        let mut frame = fixed(frame, 14);
        both_ways(&frame, Checksum::Verify);
        let expected = UdpFrame { payload: &data, ..hello() };
        prop_assert_eq!(verify(&frame), Parsed::Udp(expected));
        let ends = Plain::new(&frame).unwrap().ends();
        prop_assert_eq!(ends.payload(&frame, false), Some(&data[..]));
        // One flipped bit is never missed, unless the checksum itself becomes "none".
        let at = 34 + usize::from(flip.0) % (frame.len() - 34);
        frame[at] ^= 1 << (flip.1 % 8);
        if frame[40..42] != [0, 0] {
            prop_assert!(!matches!(verify(&frame), Parsed::Udp(_)));
            prop_assert_eq!(ends.payload(&frame, false), None);
        }
    }
}
