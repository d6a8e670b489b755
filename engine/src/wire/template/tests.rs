use super::*;
use crate::wire::{Checksum, Parsed, parse};
use proptest::prelude::*;

fn spec() -> TemplateSpec {
    TemplateSpec {
        src_mac: [2, 0, 0, 0, 0, 1],
        dst_mac: [2, 0, 0, 0, 0, 2],
        src: "10.9.0.1:4660".parse().unwrap(),
        dst: "10.9.0.2:9".parse().unwrap(),
        ttl: 64,
        tos: 0x10,
        dont_fragment: true,
        udp_checksum: true,
    }
}

/// What Linux sends for the same datagram.
const HELLO: [u8; 47] = [
    0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x08, 0x00, //
    0x45, 0x10, 0x00, 0x21, 0x87, 0xb3, 0x40, 0x00, 0x40, 0x11, 0x9e, 0xf4, 0x0a, 0x09, 0x00, 0x01,
    0x0a, 0x09, 0x00, 0x02, //
    0x12, 0x34, 0x00, 0x09, 0x00, 0x0d, 0x95, 0xb0, //
    b'h', b'e', b'l', b'l', b'o',
];

#[test]
fn byte_for_byte() {
    let template = HeaderTemplate::new(&spec());
    let mut out = [0xee; 64];
    assert_eq!(template.build(&mut out, &[&b"hello"[..]], 0x87b3), Some(47));
    assert_eq!(out[..47], HELLO);
    assert_eq!(out[47..], [0xee; 17], "nothing behind the frame is touched");
    for parts in [
        vec!["he", "llo"],
        vec!["h", "", "el", "lo"],
        vec!["hell", "o", ""],
    ] {
        let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        let mut out = [0xee; 47];
        assert_eq!(template.build(&mut out, &parts, 0x87b3), Some(47));
        assert_eq!(out, HELLO, "{parts:?}");
    }
}

#[test]
fn flags_and_no_checksum() {
    let template = HeaderTemplate::new(&TemplateSpec {
        dont_fragment: false,
        udp_checksum: false,
        ..spec()
    });
    for parts in [&[&b"hello"[..]][..], &[b"he", b"llo"]] {
        let mut out = [0xee; 47];
        assert_eq!(template.build(&mut out, parts, 0), Some(47));
        assert_eq!(out[20..22], [0, 0]);
        assert_eq!(out[40..42], [0, 0]);
        assert!(matches!(parse(&out, Checksum::Verify), Parsed::Udp(_)));
    }
}

#[test]
fn empty_datagram() {
    let template = HeaderTemplate::new(&spec());
    let none: [&[u8]; 0] = [];
    let (mut a, mut b) = ([0; 42], [0; 42]);
    assert_eq!(template.build(&mut a, &none, 1), Some(42));
    assert_eq!(template.build(&mut b, &[&b""[..]], 1), Some(42));
    assert_eq!(a, b);
    assert_eq!(a[38..40], [0, 8]);
}

#[test]
fn too_long() {
    let template = HeaderTemplate::new(&spec());
    let payload = vec![0; MAX_PAYLOAD + 1];
    let mut out = vec![0; 70000];
    assert_eq!(template.build(&mut out, &[&payload[..]], 0), None);
    assert_eq!(template.build(&mut out, &[&payload[..], &[]], 0), None);
    let frame_len = HEADERS_LEN + MAX_PAYLOAD;
    assert_eq!(
        template.build(&mut out, &[&payload[1..]], 0),
        Some(frame_len)
    );
    assert_eq!(
        template.build(&mut out[..frame_len - 1], &[&payload[1..]], 0),
        None
    );
    assert_eq!(template.build(&mut [0; 10], &[&b""[..]], 0), None);
    assert_eq!(template.build(&mut [0; 10], &[&b""[..], b""], 0), None);
}

#[test]
fn checksum_of_zero_is_sent_as_ones() {
    // The last two bytes make the sum come out as all ones.
    let template = HeaderTemplate::new(&spec());
    let mut out = [0; 46];
    let mut payload = [0; 4];
    assert_eq!(template.build(&mut out, &[&payload[..]], 0), Some(46));
    payload[2..].copy_from_slice(&out[40..42]);
    assert_eq!(template.build(&mut out, &[&payload[..]], 0), Some(46));
    assert_eq!(out[40..42], [0xff, 0xff]);
    assert!(matches!(parse(&out, Checksum::Verify), Parsed::Udp(_)));
}

#[test]
fn group_addresses() {
    assert_eq!(
        multicast_mac(Ipv4Addr::new(224, 0, 0, 1)),
        [1, 0, 0x5e, 0, 0, 1]
    );
    assert_eq!(
        multicast_mac(Ipv4Addr::new(239, 255, 1, 2)),
        [1, 0, 0x5e, 0x7f, 1, 2]
    );
    assert_eq!(
        multicast_mac(Ipv4Addr::new(239, 127, 1, 2)),
        [1, 0, 0x5e, 0x7f, 1, 2]
    );
}

proptest! {
    #[test]
    fn what_is_built_parses(
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..5),
        (src, dst, ports) in (any::<u32>(), any::<u32>(), any::<(u16, u16)>()),
        (ttl, tos, id) in any::<(u8, u8, u16)>(),
    ) {
        // A source that receivers take: 16.0.0.0 and up, below the groups.
        let src = SocketAddrV4::new(Ipv4Addr::from((src & 0x7fff_ffff) | 0x1000_0000), ports.0);
        let dst = SocketAddrV4::new(Ipv4Addr::from(dst), ports.1);
        let template = HeaderTemplate::new(&TemplateSpec { src, dst, ttl, tos, ..spec() });
        let whole = parts.concat();
        let mut out = vec![0; HEADERS_LEN + whole.len()];
        prop_assert_eq!(template.build(&mut out, &parts, id), Some(out.len()));
        prop_assert_eq!(&out[18..20], &id.to_be_bytes());
        match parse(&out, Checksum::Verify) {
            Parsed::Udp(udp) => {
                prop_assert_eq!((udp.src, udp.dst, udp.ttl, udp.tos), (src, dst, ttl, tos));
                prop_assert_eq!(udp.payload, &whole[..]);
            }
            other => prop_assert!(false, "{:?}", other),
        }
        let mut single = vec![0; out.len()];
        prop_assert_eq!(template.build(&mut single, &[&whole[..]], id), Some(out.len()));
        prop_assert_eq!(single, out);
    }
}
