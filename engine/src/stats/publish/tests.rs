use super::*;
use crate::stats::read::{ReadError, Reader};
use std::path::PathBuf;

/// A directory of its own for each test, removed at the end.
pub(in crate::stats) struct Scratch(pub(in crate::stats) PathBuf);

impl Scratch {
    pub(in crate::stats) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("stats-test-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(in crate::stats) fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }

    pub(in crate::stats) fn file(&self) -> PathBuf {
        self.0.join(format!("vmastat.{}", std::process::id()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn publish(scratch: &Scratch, sockets: usize) -> Publisher {
    let (publisher, warning) =
        Publisher::create(scratch.text(), std::process::id(), "tester", sockets);
    assert_eq!(warning, None);
    publisher
}

#[test]
fn what_is_written_can_be_read() {
    let scratch = Scratch::new("round");
    let publisher = publish(&scratch, 4);
    assert!(publisher.is_published());
    let block = publisher.socket(7);
    block.set_local(Some("10.0.0.1:4000".parse().unwrap()));
    block.set_peer(Some("[2001:db8::1]:53".parse().unwrap()));
    block.set_family(libc::AF_INET6);
    block.set_blocking(false);
    block.set_mc_loop(true);
    block.set_inode(99);
    block.set_groups((0..20).map(|n| ("239.1.1.1".parse().unwrap(), n)));
    block.rx.packets.add_exclusive(3);
    block.tx_os.bytes.add(5);
    publisher.socket(3).set_reason(None);
    let ring = publisher.ring();
    publisher.show_ring(ring);
    ring.describe("eth0", 2, "packet", "", 512, 64);
    ring.upkeep.kernel_drops.add(1);
    publisher.iomux(IomuxKind::Poll, 0).events.timeouts.add(2);
    publisher.iomux(IomuxKind::Epoll, 11).events.os_ready.add(4);

    let reader = Reader::open(scratch.text(), std::process::id()).unwrap();
    let seen = reader.snapshot().unwrap();
    assert!(!seen.ended);
    assert_eq!(
        (seen.program.as_str(), seen.pid),
        ("tester", std::process::id())
    );
    assert_eq!(
        seen.sockets.iter().map(|s| s.fd).collect::<Vec<_>>(),
        [3, 7]
    );
    assert!(seen.sockets[0].accelerated && seen.sockets[0].blocking);
    assert_eq!(seen.sockets[0].reason, None);
    let socket = &seen.sockets[1];
    assert!(!socket.accelerated && !socket.blocking && socket.mc_loop);
    assert_eq!(socket.reason, Some(Reason::NotBound));
    assert_eq!(socket.local, Some("10.0.0.1:4000".parse().unwrap()));
    assert_eq!(socket.peer, Some("[2001:db8::1]:53".parse().unwrap()));
    assert_eq!((socket.inode, socket.family), (99, libc::AF_INET6 as u32));
    assert_eq!((socket.group_count, socket.groups.len()), (20, 16));
    assert_eq!(socket.groups[15], ("239.1.1.1".parse().unwrap(), 15));
    assert_eq!((socket.rx.packets, socket.tx_os.bytes), (3, 5));
    let ring = &seen.rings[0];
    assert_eq!(
        (ring.interface.as_str(), ring.backend.as_str()),
        ("eth0", "packet")
    );
    assert_eq!((ring.ifindex, ring.rx_slots, ring.tx_slots), (2, 512, 64));
    assert_eq!(ring.upkeep.kernel_drops, 1);
    assert_eq!(seen.iomuxes.len(), 2);
    assert_eq!(
        (seen.iomuxes[0].kind, seen.iomuxes[0].events.timeouts),
        (IomuxKind::Poll, 2)
    );
    assert_eq!(
        (seen.iomuxes[1].epfd, seen.iomuxes[1].events.os_ready),
        (Some(11), 4)
    );
    assert_eq!(seen.process.sockets_opened, 2);

    publisher.remove();
    assert!(!scratch.file().exists());
    assert!(reader.snapshot().unwrap().ended);
}

#[test]
fn a_block_is_used_again_with_fresh_counters() {
    let scratch = Scratch::new("again");
    let publisher = publish(&scratch, 2);
    let first = publisher.socket(5);
    first.rx.packets.add(9);
    first.set_groups([("239.1.1.1".parse().unwrap(), 1)]);
    publisher.release_socket(first);
    let second = publisher.socket(6);
    assert!(core::ptr::eq(first, second));
    assert_eq!(second.rx.packets.get(), 0);
    assert_eq!(second.state.groups().count(), 0);
    assert_eq!(second.state.generation.load(Relaxed), 2);
}

#[test]
fn beyond_the_table_blocks_are_private_and_reused() {
    let scratch = Scratch::new("beyond");
    let publisher = publish(&scratch, 1);
    let listed = publisher.socket(3);
    let private = [publisher.socket(4), publisher.socket(5)];
    private[1].rx.packets.add(1);
    assert_eq!(publisher.process().totals.sockets_unlisted.get(), 2);
    assert!(!core::ptr::eq(private[0], private[1]));
    publisher.release_socket(private[0]);
    assert!(core::ptr::eq(publisher.socket(6), private[0]));
    let reader = Reader::open(scratch.text(), std::process::id()).unwrap();
    assert_eq!(reader.snapshot().unwrap().sockets.len(), 1);
    publisher.release_socket(listed);
    assert_eq!(reader.snapshot().unwrap().sockets.len(), 0);
    let rings: Vec<_> = (0..20)
        .map(|_| core::ptr::from_ref(publisher.ring()))
        .collect();
    let epolls: Vec<_> = (0..40)
        .map(|fd| core::ptr::from_ref(publisher.iomux(IomuxKind::Epoll, fd)))
        .collect();
    let distinct = |n: usize, all: std::collections::HashSet<usize>| assert_eq!(all.len(), n);
    distinct(20, rings.iter().map(|p| *p as usize).collect());
    distinct(40, epolls.iter().map(|p| *p as usize).collect());
}

#[test]
fn no_two_threads_get_one_block() {
    let scratch = Scratch::new("threads");
    let publisher = publish(&scratch, 8);
    std::thread::scope(|scope| {
        for fd in 0..4 {
            let publisher = &publisher;
            scope.spawn(move || {
                for _ in 0..500 {
                    let blocks = [0; 4].map(|_| publisher.socket(fd));
                    for block in blocks {
                        block.rx.packets.add_exclusive(1);
                    }
                    for block in blocks {
                        assert_eq!(block.rx.packets.get(), 1);
                        publisher.release_socket(block);
                    }
                }
            });
        }
    });
    assert_eq!(publisher.process().totals.sockets_opened.get(), 4 * 500 * 4);
}

#[test]
fn without_a_directory_the_program_runs_on() {
    for directory in ["", "/nonexistent/dir", "/proc", "a\0b"] {
        let (publisher, warning) = Publisher::create(directory, std::process::id(), "tester", 10);
        assert!(
            warning
                .unwrap()
                .contains("shim-stats cannot see this process")
        );
        assert!(!publisher.is_published());
        publisher.socket(3).rx.packets.add(1);
        publisher.remove();
        publisher.forget_in_child().unwrap();
    }
}

#[test]
fn a_stale_file_is_replaced_and_a_link_is_not_followed() {
    let scratch = Scratch::new("stale");
    std::fs::write(scratch.file(), "left behind").unwrap();
    let publisher = publish(&scratch, 1);
    assert!(Reader::open(scratch.text(), std::process::id()).is_ok());

    std::fs::remove_file(scratch.file()).unwrap();
    let target = scratch.0.join("precious");
    std::fs::write(&target, "precious").unwrap();
    std::os::unix::fs::symlink(&target, scratch.file()).unwrap();
    let (other, warning) = Publisher::create(scratch.text(), std::process::id(), "tester", 1);
    assert!(warning.is_some() && !other.is_published());
    publisher.remove();
    other.remove();
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "precious");
    assert!(scratch.file().is_symlink(), "what is not ours stays");
    let error = Reader::open(scratch.text(), std::process::id()).unwrap_err();
    assert!(matches!(error, ReadError::Damaged(..)), "{error}");
}

#[test]
fn a_child_neither_removes_nor_writes_the_parents_file() {
    let scratch = Scratch::new("fork");
    // The publisher believes to be made by another process, as one inherited over fork.
    let (mut publisher, _) = Publisher::create(scratch.text(), std::process::id(), "tester", 2);
    let block = publisher.socket(3);
    block.rx.packets.add(1);
    publisher.forget_in_child().unwrap();
    assert!(publisher.is_published(), "the maker forgets nothing");
    publisher.pid += 1;
    publisher.remove();
    assert!(scratch.file().exists());
    publisher.forget_in_child().unwrap();
    block.rx.packets.add(1);
    assert_eq!(block.rx.packets.get(), 2, "the child counts on");
    let reader = Reader::open(scratch.text(), std::process::id()).unwrap();
    assert_eq!(reader.snapshot().unwrap().sockets[0].rx.packets, 1);
    assert!(!publisher.is_published());
}

/// The engine may send for a socket whose datagrams the kernel receives.
#[test]
fn a_socket_that_only_sends_has_its_reason() {
    let scratch = Scratch::new("send-only");
    let publisher = publish(&scratch, 4);
    let block = publisher.socket(3);
    let told = || {
        let reader = Reader::open(scratch.text(), std::process::id()).unwrap();
        let socket = reader.snapshot().unwrap().sockets.remove(0);
        (socket.accelerated, socket.reason)
    };
    block.set_send_only(Reason::SharedPort);
    assert_eq!(told(), (true, Some(Reason::SharedPort)));
    block.set_reason(None);
    assert_eq!(told(), (true, None));
    block.set_reason(Some(Reason::SharedPort));
    assert_eq!(told(), (false, Some(Reason::SharedPort)));
}
