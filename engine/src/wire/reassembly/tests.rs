use super::*;
use proptest::prelude::*;

const SECOND: Nanos = 1_000_000_000;

fn piece(offset: u16, more: bool, payload: &[u8]) -> Fragment<'_> {
    Fragment {
        src: Ipv4Addr::new(10, 0, 0, 1),
        dst: Ipv4Addr::new(10, 0, 0, 2),
        id: 77,
        offset,
        more,
        tos: 0,
        ttl: 9,
        payload,
    }
}

fn reassembler() -> Reassembler {
    Reassembler::new(1 << 16, 4)
}

#[test]
fn out_of_order() {
    let mut r = reassembler();
    assert_eq!(r.push(&piece(16, false, b"ccc"), 0), None);
    assert_eq!(r.push(&piece(0, true, b"aaaaaaaa"), 0), None);
    assert_eq!(r.len(), 1);
    let whole = r.push(&piece(8, true, b"bbbbbbbb"), 0).unwrap();
    assert_eq!(whole.payload, b"aaaaaaaabbbbbbbbccc");
    assert_eq!(
        (whole.src, whole.dst),
        (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
    );
    assert_eq!(whole.ttl, 9);
    assert!(r.is_empty());
    assert_eq!(r.bytes(), 0);
}

#[test]
fn datagrams_are_kept_apart() {
    let mut r = reassembler();
    assert_eq!(r.push(&piece(0, true, b"aaaaaaaa"), 0), None);
    let other_id = Fragment {
        id: 78,
        ..piece(8, false, b"b")
    };
    let other_src = Fragment {
        src: Ipv4Addr::new(10, 0, 0, 3),
        ..piece(8, false, b"b")
    };
    let other_dst = Fragment {
        dst: Ipv4Addr::new(10, 0, 0, 3),
        ..piece(8, false, b"b")
    };
    for other in [other_id, other_src, other_dst] {
        assert_eq!(r.push(&other, 0), None);
    }
    assert_eq!(r.len(), 4);
    assert!(r.push(&piece(8, false, b"c"), 0).is_some());
}

#[test]
fn duplicates_are_ignored() {
    let mut r = reassembler();
    assert_eq!(r.push(&piece(0, true, b"aaaaaaaa"), 0), None);
    assert_eq!(r.push(&piece(0, true, b"xxxxxxxx"), 0), None);
    assert_eq!(r.push(&piece(8, true, b"bbbbbbbb"), 0), None);
    // Within what came in order.
    assert_eq!(r.push(&piece(0, true, b"xxxxxxxxxxxxxxxx"), 0), None);
    let whole = r.push(&piece(16, false, b"c"), 0).unwrap();
    assert_eq!(whole.payload, b"aaaaaaaabbbbbbbbc");
}

#[test]
fn overlap_ends_the_datagram() {
    for overlap in [piece(8, true, &[b'x'; 16]), piece(0, true, &[b'x'; 24])] {
        let mut r = reassembler();
        assert_eq!(r.push(&piece(0, true, &[b'a'; 16]), 0), None);
        assert_eq!(r.push(&piece(40, false, b"e"), 0), None);
        assert_eq!(r.push(&overlap, 0), None);
        assert!(r.is_empty(), "{overlap:?}");
        assert_eq!(r.bytes(), 0);
        // What comes later starts anew and cannot complete.
        assert_eq!(r.push(&piece(16, true, &[b'b'; 24]), 0), None);
        assert_eq!(r.len(), 1);
    }
}

#[test]
fn ends_that_contradict() {
    let start = piece(0, true, b"aaaaaaaa");
    let last = piece(16, false, b"cc");
    for bad in [
        piece(16, false, b"ccc"),
        piece(8, false, b"bbbb"),
        piece(24, true, b"dddddddd"),
        piece(8, true, b""),
        piece(8, true, b"short"),
        piece(65528, true, b"dddddddd"),
    ] {
        let mut r = reassembler();
        assert_eq!(r.push(&start, 0), None);
        assert_eq!(r.push(&last, 0), None);
        assert_eq!(r.push(&bad, 0), None);
        assert!(r.is_empty(), "{bad:?}");
    }
}

#[test]
fn largest_datagram() {
    let mut r = Reassembler::new(1 << 20, 4);
    let data = vec![7; 65515];
    assert_eq!(r.push(&piece(0, true, &data[..65512]), 0), None);
    assert_eq!(
        r.push(&piece(65512, false, &data[65512..]), 0)
            .unwrap()
            .payload,
        data
    );
    assert_eq!(r.push(&piece(65512, false, b"four"), 0), None);
    assert!(r.is_empty());
}

#[test]
fn old_pieces_go() {
    let mut r = reassembler();
    assert_eq!(r.push(&piece(0, true, b"aaaaaaaa"), 5 * SECOND), None);
    assert_eq!(r.expire(35 * SECOND - 1), 0);
    assert_eq!(r.expire(35 * SECOND), 1);
    assert!(r.is_empty());
    assert_eq!(r.bytes(), 0);
    // Also without anybody calling expire.
    assert_eq!(r.push(&piece(0, true, b"aaaaaaaa"), 40 * SECOND), None);
    assert_eq!(r.push(&piece(8, false, b"b"), 70 * SECOND), None);
    assert_eq!(r.len(), 1);
}

#[test]
fn bounded() {
    let mut r = reassembler();
    for id in 0..100 {
        assert_eq!(
            r.push(
                &Fragment {
                    id,
                    ..piece(0, true, b"aaaaaaaa")
                },
                0
            ),
            None
        );
    }
    assert_eq!(r.len(), 4);
    // The old ones keep their place, and make room when their time is over.
    assert!(
        r.push(
            &Fragment {
                id: 0,
                ..piece(8, false, b"b")
            },
            1
        )
        .is_some()
    );
    assert_eq!(
        r.push(
            &Fragment {
                id: 200,
                ..piece(0, true, b"aaaaaaaa")
            },
            TIMEOUT
        ),
        None
    );
    assert_eq!(
        r.push(
            &Fragment {
                id: 201,
                ..piece(0, true, b"aaaaaaaa")
            },
            TIMEOUT
        ),
        None
    );
    assert_eq!(r.len(), 2);
    let mut r = Reassembler::new(4096, 1000);
    for id in 0..1000 {
        assert_eq!(
            r.push(
                &Fragment {
                    id,
                    ..piece(60000, true, b"aaaaaaaa")
                },
                0
            ),
            None
        );
        assert!(r.bytes() <= 4096);
    }
}

#[test]
fn congestion_marks() {
    let ecn = |a: u8, b: u8| {
        let mut r = reassembler();
        let first = Fragment {
            tos: 0xb8 | a,
            ..piece(0, true, b"aaaaaaaa")
        };
        assert_eq!(r.push(&first, 0), None);
        let tos = r
            .push(
                &Fragment {
                    tos: b,
                    ..piece(8, false, b"b")
                },
                0,
            )
            .map(|whole| whole.tos);
        assert!(r.is_empty());
        tos
    };
    assert_eq!(ecn(0, 0), Some(0xb8));
    assert_eq!(ecn(2, 2), Some(0xba));
    assert_eq!(ecn(2, 3), Some(0xbb));
    assert_eq!(ecn(3, 1), Some(0xbb));
    assert_eq!(ecn(0, 3), None);
    assert_eq!(ecn(2, 0), None);
}

proptest! {
    #[test]
    fn any_pieces(
        pieces in proptest::collection::vec((0u16..12, any::<bool>(), 0usize..40, 0u16..3), 0..60),
    ) {
        let mut r = Reassembler::new(2000, 3);
        let data = [0x5a; 40];
        for (at, (eighths, more, length, id)) in pieces.into_iter().enumerate() {
            let fragment = Fragment { id, ..piece(eighths * 8, more, &data[..length]) };
            if let Some(whole) = r.push(&fragment, at as Nanos) {
                prop_assert!(whole.payload.iter().all(|b| *b == 0x5a), "a hole was delivered");
            }
            prop_assert!(r.len() <= 3 && r.bytes() <= 2000);
        }
        r.expire(TIMEOUT * 2);
        prop_assert_eq!((r.len(), r.bytes()), (0, 0));
    }

    #[test]
    fn any_order(order in Just((0..10u16).collect::<Vec<_>>()).prop_shuffle()) {
        let data: Vec<u8> = (0..77).collect();
        let mut r = reassembler();
        let mut out = None;
        for at in order {
            let start = usize::from(at) * 8;
            let end = (start + 8).min(data.len());
            prop_assert!(out.is_none());
            out = r.push(&piece(at * 8, at < 9, &data[start..end]), 0);
        }
        prop_assert_eq!(out.unwrap().payload, data);
    }
}
