use super::*;
use crate::stats::Publisher;
use crate::stats::publish::tests::Scratch;
use proptest::prelude::*;

fn own() -> u32 {
    std::process::id()
}

/// A valid file with some content, as bytes.
fn valid(scratch: &Scratch) -> Vec<u8> {
    let (publisher, _) = Publisher::create(scratch.text(), own(), "tester", 3);
    publisher
        .socket(3)
        .set_local(Some("10.0.0.1:4000".parse().unwrap()));
    publisher
        .ring()
        .describe("eth0", 2, "packet", "mlx5_0", 512, 64);
    let _ = publisher.iomux(IomuxKind::Epoll, 4);
    let bytes = std::fs::read(scratch.file()).unwrap();
    publisher.remove();
    bytes
}

fn open(scratch: &Scratch, bytes: &[u8]) -> Result<Snapshot, ReadError> {
    std::fs::write(scratch.file(), bytes).unwrap();
    Reader::open(scratch.text(), own())?.snapshot()
}

fn patched(bytes: &[u8], at: usize, value: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + value.len()].copy_from_slice(value);
    bytes
}

#[test]
fn every_refusal_has_its_reason() {
    let scratch = Scratch::new("refusals");
    let open_pid = |pid| Reader::open(scratch.text(), pid).unwrap_err();
    assert_eq!(open_pid(0x3fff_ffff), ReadError::NoSuchProcess(0x3fff_ffff));
    assert_eq!(
        open_pid(1),
        ReadError::NoStatistics(1, scratch.text().to_owned())
    );

    let bytes = valid(&scratch);
    assert_eq!(open(&scratch, &bytes).unwrap().sockets.len(), 1);
    let offset = |field| std::mem::offset_of!(Header, version) + field;
    let refused = |bytes: &[u8]| open(&scratch, bytes).unwrap_err();
    assert!(matches!(refused(b"short"), ReadError::Damaged(..)));
    assert!(matches!(
        refused(&vec![0; bytes.len()]),
        ReadError::Damaged(..)
    ));
    assert!(matches!(
        refused(&bytes[..bytes.len() - 1]),
        ReadError::Damaged(..)
    ));
    let other = ReadError::OtherLayout {
        pid: own(),
        found: VERSION + 1,
    };
    assert_eq!(
        refused(&patched(&bytes, offset(0), &(VERSION + 1).to_ne_bytes())),
        other
    );
    let at = std::mem::offset_of!(Header, alive);
    assert_eq!(
        refused(&patched(&bytes, at, &[0; 4])),
        ReadError::Finished(own())
    );
    // A process with our pid that started at another time: it is not us.
    let at = std::mem::offset_of!(Header, start_ticks);
    assert_eq!(
        refused(&patched(&bytes, at, &[1; 8])),
        ReadError::Finished(own())
    );
    let at = std::mem::offset_of!(Header, pid);
    assert!(matches!(
        refused(&patched(&bytes, at, &[9; 4])),
        ReadError::Damaged(..)
    ));
    std::fs::remove_file(scratch.file()).unwrap();
    std::fs::create_dir(scratch.file()).unwrap();
    assert!(matches!(open_pid(own()), ReadError::Damaged(..)));
}

#[test]
fn messages_are_one_line() {
    for error in [
        ReadError::NoSuchProcess(1),
        ReadError::NoStatistics(1, "/tmp/".into()),
        ReadError::Permission(1),
        ReadError::OtherLayout {
            pid: 1,
            found: VERSION,
        },
        ReadError::OtherLayout { pid: 1, found: 9 },
        ReadError::Finished(1),
        ReadError::Damaged(1, "it is too short"),
        ReadError::System(1, Errno::BADF),
    ] {
        let text = error.to_string();
        assert!(
            text.contains(" 1") && !text.contains('\n') && !text.contains("  "),
            "{text}"
        );
    }
}

#[test]
fn a_file_cut_short_while_open_is_an_error() {
    let scratch = Scratch::new("cut");
    let (publisher, _) = Publisher::create(scratch.text(), own(), "tester", 3);
    let reader = Reader::open(scratch.text(), own()).unwrap();
    assert!(reader.snapshot().is_ok());
    let file = std::fs::File::options()
        .write(true)
        .open(scratch.file())
        .unwrap();
    file.set_len(100).unwrap();
    assert_eq!(
        reader.snapshot().unwrap_err(),
        ReadError::Damaged(own(), "it is too short")
    );
    // The writer's pages beyond the end are gone: it must not touch them any more.
    drop(publisher);
}

#[test]
fn a_state_is_never_a_mixture() {
    let scratch = Scratch::new("mixture");
    let (publisher, _) = Publisher::create(scratch.text(), own(), "tester", 3);
    let block = publisher.socket(3);
    let address = |n: u32| Some(SocketAddr::new(Ipv4Addr::from_bits(n).into(), n as u16));
    block.set_local(address(0));
    block.set_peer(address(0));
    let stop = std::sync::atomic::AtomicBool::new(false);
    let reader = Reader::open(scratch.text(), own()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..u32::MAX {
                block.update(|state| {
                    state.local.set(address(n));
                    state.peer.set(address(n));
                });
                if stop.load(Relaxed) {
                    break;
                }
                // A control plane pauses between its changes.
                std::thread::sleep(std::time::Duration::from_micros(300));
            }
        });
        let whole = (0..200).all(|_| {
            let seen = reader.snapshot().unwrap();
            seen.sockets[0].local == seen.sockets[0].peer
        });
        // Before the verdict: the scope waits for the writer.
        stop.store(true, Relaxed);
        assert!(whole);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..4096)) {
        let scratch = Scratch::new("random");
        prop_assert!(open(&scratch, &bytes).is_err());
    }

    #[test]
    fn random_bytes_behind_a_valid_header_never_panic(seed in any::<[u8; 32]>()) {
        let scratch = Scratch::new("behind");
        let mut bytes = valid(&scratch);
        for (n, byte) in bytes[size_of::<Header>()..].iter_mut().enumerate() {
            *byte = seed[n % 31].wrapping_mul(seed[n % 32]).wrapping_add(n as u8);
        }
        // All blocks in use, so that all of them are read.
        let mut lines = size_of::<Header>();
        for _ in 0..3 {
            let at = lines + core::mem::offset_of!(SocketBlock, state);
            bytes[at..at + 4].copy_from_slice(&LIVE.to_ne_bytes());
            lines += size_of::<SocketBlock>();
        }
        let seen = open(&scratch, &bytes);
        prop_assert_eq!(seen.unwrap().sockets.len(), 3);
    }

    #[test]
    fn any_changed_header_never_panics(at in 0..size_of::<Header>(), value in any::<u8>()) {
        let scratch = Scratch::new("header");
        let bytes = valid(&scratch);
        let _ = open(&scratch, &patched(&bytes, at, &[value]));
    }
}
