//! Draws sequences of steps. proptest draws numbers; [`Model`] makes steps of them that make
//! sense where they stand: a socket that is to be used is open, an epoll set exists.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Numbers of one step: its kind, and what it takes to fill it in.
type Raw = (u32, [u16; 10]);

/// The numbers of a step, taken one by one.
struct Numbers<'a>(std::slice::Iter<'a, u16>);

impl Numbers<'_> {
    fn below(&mut self, limit: usize) -> usize {
        self.0.next().map_or(0, |&n| usize::from(n)) % limit.max(1)
    }

    fn of<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[self.below(list.len())]
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }
}

const SLOTS: usize = 5;
const GROUPS: [&str; 2] = ["239.78.0.1", "239.78.0.2"];
const SOURCES: [&str; 4] = ["10.78.0.2", "10.78.0.2", "10.78.0.12", "10.78.0.99"];
const RECV: [&str; 6] = ["recvfrom", "recv", "recvmsg", "recvmmsg", "read", "readv"];

type Kind = (&'static str, u32, fn(&mut Model, &mut Numbers));

/// Kinds of steps and how often they come.
const KINDS: &[Kind] = &[
    ("names", 2, Model::names),
    ("get", 3, Model::get),
    ("arrive", 30, Model::arrive),
    ("recv", 26, Model::recv),
    ("send", 14, Model::send),
    ("open", 4, Model::open),
    ("close", 3, Model::close),
    ("bind", 3, Model::bind),
    ("connect", 4, Model::connect),
    ("unconnect", 2, Model::unconnect),
    ("member", 9, Model::member),
    ("set", 9, Model::set),
    ("nonblock", 2, Model::nonblock),
    ("fionread", 3, Model::fionread),
    ("shutdown", 1, Model::shutdown),
    ("dup", 1, Model::dup),
    ("dup2", 1, Model::dup2),
    ("poll", 5, Model::poll),
    ("select", 3, Model::select),
    ("ctl", 8, Model::ctl),
    ("wait", 8, Model::wait),
    ("epoll_close", 1, Model::epoll_close),
    ("reader", 2, Model::reader),
    ("fork", 1, Model::fork),
    ("child", 1, Model::child),
    ("in", 3, Model::in_child),
    ("reap", 1, Model::reap),
    ("pass", 1, Model::pass),
    ("exec", 1, Model::exec),
    ("filter", 1, Model::filter),
    ("bpf", 1, Model::bpf),
    ("nest", 1, Model::nest),
    ("ip", 1, Model::ip),
    ("burst", 3, Model::burst),
];

/// Names of all kinds.
pub(crate) fn kinds() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.0)
}

/// A sequence: its steps, and the kinds that they came of.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    pub(crate) steps: Vec<String>,
    pub(crate) kinds: Vec<&'static str>,
}

/// The sequence of this number.
pub(crate) fn sequence(seed: u64) -> Sequence {
    let total = KINDS.iter().map(|kind| kind.1).sum::<u32>();
    let step = (0..total, any::<[u16; 10]>());
    let strategy = proptest::collection::vec(step, 12..=60);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    let raw = strategy
        .new_tree(&mut runner)
        .expect("nothing is filtered out")
        .current();
    concrete(&raw)
}

fn concrete(raw: &[Raw]) -> Sequence {
    let mut model = Model::default();
    let mut kinds = Vec::new();
    for (position, numbers) in raw {
        let mut left = *position;
        let chosen = KINDS.iter().find(|kind| {
            let here = left < kind.1;
            left = left.wrapping_sub(kind.1);
            here
        });
        let Some((name, _, make)) = chosen else {
            continue;
        };
        kinds.push(*name);
        make(&mut model, &mut Numbers(numbers.iter()));
    }
    Sequence {
        steps: model.steps,
        kinds,
    }
}

#[derive(Clone, Copy, Default)]
struct Slot {
    open: bool,
    nonblock: bool,
}

/// What is known of the sockets while steps are made.
#[derive(Default)]
struct Model {
    slots: [Slot; SLOTS],
    sets: [bool; 2],
    tags: usize,
    /// What may wait in the sockets came by the kernel (true) or by a ring: between these two
    /// the order is not kept (README), so that one is taken before the other comes.
    waiting: Option<bool>,
    child: bool,
    steps: Vec<String>,
}

impl Model {
    fn push(&mut self, step: String) {
        self.steps.push(step);
    }

    fn comes_by(&mut self, kernel: bool) {
        if self.waiting.replace(kernel) == Some(!kernel) {
            self.push("drain".to_owned());
        }
    }

    fn tag(&mut self) -> String {
        self.tags += 1;
        format!("<{}>", self.tags)
    }

    /// A slot whose socket is open, opened if need be.
    fn used(&mut self, n: &mut Numbers) -> usize {
        // The first ones most of the time, so that things happen to the same socket.
        let slot = [0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 3, 4][n.below(12)];
        if !self.slots[slot].open {
            self.open_slot(slot, n);
        }
        slot
    }

    fn open_slot(&mut self, slot: usize, n: &mut Numbers) {
        let choice = n.below(60);
        let (v6, nonblock) = (choice % 3 == 2, !choice.is_multiple_of(5));
        self.slots[slot] = Slot {
            open: true,
            nonblock,
        };
        let family = if v6 { 6 } else { 4 };
        self.push(format!("open {slot} {family} {}", u8::from(nonblock)));
        if choice % 11 == 10 {
            self.push(format!("set {slot} reuseaddr 1"));
        }
        if choice % 4 != 3 {
            self.bind_slot(slot, n);
        }
    }

    fn bind_slot(&mut self, slot: usize, n: &mut Numbers) {
        let address = n.of(&[
            "0.0.0.0",
            "0.0.0.0",
            "0.0.0.0",
            "0.0.0.0",
            "0.0.0.0",
            "0.0.0.0",
            "0.0.0.0",
            "0.0.0.0",
            "10.78.0.1",
            "10.78.0.1",
            "10.78.0.1",
            "10.78.0.1",
            "10.78.0.1",
            "10.78.0.1",
            GROUPS[0],
            "10.78.0.11",
            GROUPS[0],
            GROUPS[1],
            "127.0.0.1",
            "10.78.0.255",
            "10.78.0.2",
            "::",
            "::",
            "raw:0.0.0.0",
            "fd78::1",
        ]);
        let port = n.of(&["5000", "5000", "5000", "5001", "5001", "5002", "0"]);
        self.push(format!("bind {slot} {address} {port}"));
    }

    fn open(&mut self, n: &mut Numbers) {
        let slot = n.below(SLOTS);
        if !self.slots[slot].open {
            self.open_slot(slot, n);
        }
    }

    fn close(&mut self, n: &mut Numbers) {
        let slot = n.below(SLOTS);
        if self.slots[slot].open {
            self.slots[slot].open = false;
            self.push(format!("close {slot}"));
        }
    }

    fn bind(&mut self, n: &mut Numbers) {
        let slot = self.used(n);
        self.bind_slot(slot, n);
    }

    fn connect(&mut self, n: &mut Numbers) {
        let slot = self.used(n);
        let other = n.below(SLOTS);
        let address = match n.below(12) {
            0..4 => "10.78.0.2 7000".to_owned(),
            4 | 5 => "10.78.0.12 7001".to_owned(),
            6 => "10.78.0.2 7009".to_owned(),
            7 => format!("{} 5000", GROUPS[0]),
            8 => format!("10.78.0.1 @{other}"),
            9 => format!("127.0.0.1 @{other}"),
            10 => "192.0.2.1 7000".to_owned(),
            _ => "fd78::2 7000".to_owned(),
        };
        self.push(format!("connect {slot} {address}"));
    }

    fn unconnect(&mut self, n: &mut Numbers) {
        let slot = self.used(n);
        self.push(format!("unconnect {slot}"));
    }

    fn member(&mut self, n: &mut Numbers) {
        let slot = self.used(n);
        let form = n.of(&["index", "any", "address", "default"]);
        let verb = n.of(&[
            "join",
            "join",
            "join",
            "join",
            "leave",
            "leave",
            "source_join",
            "source_join",
            "source_leave",
            "block",
            "unblock",
        ]);
        let group = n.of(&[GROUPS[0], GROUPS[0], GROUPS[1]]);
        let source = n.of(&SOURCES);
        self.push(format!("member {slot} {form} {verb} {group} {source}"));
    }

    fn set(&mut self, n: &mut Numbers) {
        let slot = self.used(n);
        let option = n.of(&[
            "pktinfo 1",
            "pktinfo 0",
            "recvttl 1",
            "recvtos 1",
            "recverr 1",
            "recverr 0",
            "origdst 1",
            "mc_all 0",
            "mc_all 1",
            "mc_loop 0",
            "mc_loop 1",
            "mc_ttl 4",
            "mc_if 10.78.0.1",
            "mc_if 10.78.0.11",
            "ttl 9",
            "tos 16",
            "broadcast 1",
            "reuseaddr 1",
            "reuseport 1",
            "rcvtimeo 3000",
            "rcvtimeo 0",
            "timestamp 1",
            "timestampns 1",
            "device veth0",
            "device lo",
            "device none",
            "rcvlowat 10",
            "priority 3",
            "v6pktinfo 1",
            "v6hops 1",
            "v6tclass 1",
            "v6recverr 1",
            "v6mc_loop 0",
            "v6only 1",
            "mtu_discover 0",
            "mtu_discover 2",
            "dontroute 1",
            "rcvbuf 300000",
            "minttl 5",
            "minttl 0",
            "peek_off 0",
            "cork 1",
            "cork 0",
            "segment 5",
            "segment 0",
            "recvopts 1",
            "freebind 1",
            "no_check 1",
            "v6ttl 7",
            "v6mc_all 0",
        ]);
        if option == "peek_off 0" {
            // What is queued then is peeked from its beginning each time (README).
            self.emptied();
        }
        self.push(format!("set {slot} {option}"));
    }

    fn get(&mut self, n: &mut Numbers) {
        let slot = self.used(n);
        let option = n.of(&[
            "error",
            "error",
            "error",
            "type",
            "domain",
            "pktinfo",
            "mc_all",
            "mc_loop",
            "mc_ttl",
            "mc_if",
            "ttl",
            "tos",
            "rcvbuf",
            "sndbuf",
            "reuseaddr",
            "device",
            "rcvtimeo",
            "recverr",
            "v6only",
            "broadcast",
            "timestamp",
        ]);
        self.push(format!("get {slot} {option}"));
    }

    fn names(&mut self, n: &mut Numbers) {
        let slot = self.used(n);
        self.push(format!("names {slot}"));
    }

    fn nonblock(&mut self, n: &mut Numbers) {
        let slot = self.used(n);
        let on = n.one_in(2);
        self.slots[slot].nonblock = on;
        self.push(format!("nonblock {slot} {} {}", u8::from(on), n.below(2)));
    }

    fn fionread(&mut self, n: &mut Numbers) {
        let slot = self.used(n);
        self.push(format!("fionread {slot}"));
    }

    fn shutdown(&mut self, n: &mut Numbers) {
        let slot = self.used(n);
        self.push(format!("shutdown {slot} {}", n.below(3)));
    }

    fn dup(&mut self, n: &mut Numbers) {
        let slot = self.used(n);
        let other = n.below(SLOTS);
        if !self.slots[other].open {
            self.slots[other] = self.slots[slot];
            self.push(format!("dup {slot} {other}"));
        }
    }

    fn dup2(&mut self, n: &mut Numbers) {
        let slot = self.used(n);
        let other = n.below(SLOTS);
        if self.slots[other].open {
            self.slots[other] = self.slots[slot];
            self.push(format!("dup2 {slot} {other}"));
        }
    }

    /// A datagram from the far host.
    fn arrive(&mut self, n: &mut Numbers) {
        let slot = self.used(n);
        let times = if n.one_in(4) { 2 } else { 1 };
        for _ in 0..times {
            let tag = self.tag();
            let from = n.of(&["0", "0", "0", "1", "2"]);
            let length = n.of(&["10", "10", "10", "0", "4", "100", "1472", "1473", "4000"]);
            let to = match n.below(16) {
                0..8 => format!("10.78.0.1 @{slot}"),
                8 => format!("10.78.0.11 @{slot}"),
                9 | 10 => format!("{} @{slot}", GROUPS[0]),
                11 => format!("{} @{slot}", GROUPS[1]),
                12 => format!("{} 5000", GROUPS[0]),
                13 => format!("10.78.0.255 @{slot}"),
                14 => format!("255.255.255.255 @{slot}"),
                _ => "10.78.0.1 5001".to_owned(),
            };
            self.comes_by(to.contains("255"));
            self.push(format!("far send {from} sendto {tag} {length} - {to}"));
        }
    }

    fn recv_words(&mut self, slot: usize, n: &mut Numbers) -> String {
        let form = n.of(&RECV);
        let wait = n.one_in(6) || form.starts_with("read");
        let flags = n.of(&["", "", "", "", "p", "t", "pt", "e", "w", "o"]);
        let room = n.of(&["2000", "2000", "2000", "2000", "5", "0", "65536"]);
        let wait = if wait || self.slots[slot].nonblock && n.one_in(2) {
            "-"
        } else {
            "d"
        };
        format!("{slot} {form} {wait}{flags} {room}")
    }

    fn recv(&mut self, n: &mut Numbers) {
        let slot = self.used(n);
        let words = self.recv_words(slot, n);
        self.push(format!("recv {words}"));
    }

    fn send_words(&mut self, slot: usize, n: &mut Numbers) -> String {
        let tag = self.tag();
        let other = n.below(SLOTS);
        let form = n.of(&[
            "sendto", "send", "sendmsg", "sendmmsg", "write", "writev", "sendto", "sendmsg",
        ]);
        let length = n.of(&[
            "10", "10", "10", "10", "0", "100", "1472", "1473", "4000", "65507", "65508",
        ]);
        let flags = n.of(&["-", "-", "-", "-", "-", "d", "n", "c", "r"]);
        let to = match n.below(18) {
            0..6 => "10.78.0.2 7000".to_owned(),
            6 => "10.78.0.12 7001".to_owned(),
            7 => "10.78.0.2 7009".to_owned(),
            8 | 9 => format!("{} 5000", GROUPS[0]),
            10 => format!("{} 5001", GROUPS[1]),
            11 => format!("10.78.0.1 @{other}"),
            12 => format!("127.0.0.1 @{other}"),
            13 => "10.78.0.255 5000".to_owned(),
            14 => "192.0.2.1 7000".to_owned(),
            15 => "fd78::2 7000".to_owned(),
            16 => "10.78.0.2 0".to_owned(),
            _ => String::new(),
        };
        let mut words = format!("{slot} {form} {tag} {length} {flags}");
        if !matches!(form, "send" | "write" | "writev") && !to.is_empty() {
            words = format!("{words} {to}");
            if form.starts_with("sendm") {
                let control = n.of(&[
                    "",
                    "",
                    "ttl 5",
                    "tos 8",
                    "pktinfo 10.78.0.11",
                    "pktinfo 10.78.0.1 ttl 3",
                    "ttl 0",
                    "pktinfo 10.78.0.77",
                ]);
                words = format!("{words} {control}");
            }
        }
        // To this host, or looped back.
        if !words.contains(" 10.78.0.2 ") && !words.contains(" 10.78.0.12 ") {
            self.comes_by(true);
        }
        words.trim_end().to_owned()
    }

    fn send(&mut self, n: &mut Numbers) {
        let slot = self.used(n);
        let words = self.send_words(slot, n);
        self.push(format!("send {words}"));
    }

    fn poll(&mut self, n: &mut Numbers) {
        let events = n.of(&["i", "io", "o", "-"]);
        let timeout = n.of(&["0", "0", "0", "2"]);
        self.push(format!("poll {events} {timeout}"));
    }

    fn select(&mut self, n: &mut Numbers) {
        let sets = n.of(&["i", "io", "ioe", "e"]);
        let timeout = n.of(&["0", "0", "0", "2"]);
        self.push(format!("select {sets} {timeout}"));
    }

    fn set_used(&mut self, n: &mut Numbers) -> usize {
        let set = usize::from(n.one_in(4));
        if !std::mem::replace(&mut self.sets[set], true) {
            self.push(format!("epoll {set}"));
        }
        set
    }

    fn ctl(&mut self, n: &mut Numbers) {
        let set = self.set_used(n);
        let slot = self.used(n);
        let verb = n.of(&["add", "add", "add", "mod", "del"]);
        let events = n.of(&["i", "i", "io", "ie", "ioe", "i1", "ie1", "o", "oe", "ix"]);
        self.push(format!("ctl {set} {verb} {slot} {events}"));
    }

    fn wait(&mut self, n: &mut Numbers) {
        let set = self.set_used(n);
        let timeout = n.of(&["0", "0", "0", "2"]);
        let room = n.of(&["8", "8", "8", "1"]);
        self.push(format!("wait {set} {timeout} {room}"));
    }

    fn epoll_close(&mut self, n: &mut Numbers) {
        let set = n.below(2);
        if std::mem::take(&mut self.sets[set]) {
            self.push(format!("epoll_close {set}"));
        }
    }

    /// A thread that waits in a receive while something happens to its socket.
    fn reader(&mut self, n: &mut Numbers) {
        let slot = self.used(n);
        let form = n.of(&RECV);
        self.push(format!("reader {slot} {form} - 2000"));
        let tag = self.tag();
        match n.below(8) {
            0..4 => {
                self.comes_by(false);
                self.push(format!("far send 0 sendto {tag} 10 - 10.78.0.1 @{slot}"));
            }
            4 => self.push(format!("shutdown {slot} 0")),
            5 => {
                self.slots[slot].open = false;
                self.push(format!("close {slot}"));
            }
            6 => self.push(format!("connect {slot} 10.78.0.2 7000")),
            _ => {}
        }
        self.push("collect".to_owned());
    }

    fn fork(&mut self, n: &mut Numbers) {
        let slot = self.used(n);
        let step = match n.below(5) {
            0 | 1 => format!("recv {slot} recvfrom d 2000"),
            2 => format!("send {}", self.send_words(slot, n)),
            3 => format!("close {slot}"),
            _ => "poll i 0".to_owned(),
        };
        self.push(format!("fork {step}"));
    }

    /// What the engine has queued does not go with a socket that it hands over (README).
    fn emptied(&mut self) {
        self.push("drain".to_owned());
        self.waiting = None;
    }

    /// A child that stays, and has all sockets too.
    fn child(&mut self, _: &mut Numbers) {
        if !std::mem::replace(&mut self.child, true) {
            // What the engine has queued stays with the parent until the child's first use.
            self.emptied();
            self.push("child".to_owned());
            self.push("in drain".to_owned());
        }
    }

    fn in_child(&mut self, n: &mut Numbers) {
        if !self.child {
            return;
        }
        let slot = self.used(n);
        let step = match n.below(8) {
            0..3 => format!("recv {}", self.recv_words(slot, n)),
            3 => format!("send {}", self.send_words(slot, n)),
            4 => format!("close {slot}"),
            5 => "poll i 0".to_owned(),
            6 => format!("fionread {slot}"),
            _ => format!("names {slot}"),
        };
        self.push(format!("in {step}"));
    }

    fn reap(&mut self, _: &mut Numbers) {
        if std::mem::take(&mut self.child) {
            self.push("reap".to_owned());
        }
    }

    fn pass(&mut self, n: &mut Numbers) {
        let slot = self.used(n);
        let other = n.below(SLOTS);
        if !self.slots[other].open {
            self.slots[other] = self.slots[slot];
            self.emptied();
            self.push(format!("pass {slot} {other}"));
        }
    }

    fn exec(&mut self, n: &mut Numbers) {
        if n.one_in(3) {
            self.push("reap".to_owned());
            self.child = false;
            self.emptied();
            self.push("exec".to_owned());
        }
    }

    fn filter(&mut self, n: &mut Numbers) {
        let slot = self.used(n);
        let mode = n.of(&["include", "exclude"]);
        let group = n.of(&GROUPS);
        let sources = n.of(&[
            "",
            "10.78.0.2",
            "10.78.0.12 10.78.0.99",
            "10.78.0.2 10.78.0.12",
        ]);
        let step = format!("filter {slot} {mode} {group} {sources}");
        self.push(step.trim_end().to_owned());
    }

    fn bpf(&mut self, n: &mut Numbers) {
        let slot = self.used(n);
        let room = n.of(&["65535", "20", "0", "0"]);
        self.push(format!("bpf {slot} {room}"));
    }

    fn nest(&mut self, n: &mut Numbers) {
        for set in 0..2 {
            if !std::mem::replace(&mut self.sets[set], true) {
                self.push(format!("epoll {set}"));
            }
        }
        let verb = n.of(&["add", "add", "add", "mod", "del"]);
        let events = n.of(&["i", "i", "ie", "i1"]);
        self.push(format!("nest {verb} {events}"));
    }

    /// The near host's network changes.
    fn ip(&mut self, n: &mut Numbers) {
        let change = n.of(&[
            "addr del 10.78.0.11/24 dev veth0",
            "addr replace 10.78.0.11/24 dev veth0",
            "addr replace 10.78.0.21/24 dev veth0",
            "link set veth0 mtu 1400",
            "link set veth0 mtu 1500",
            "link set veth0 down",
            "link set veth0 up",
            "neigh flush dev veth0",
            "route replace 192.0.2.0/24 via 10.78.0.2",
            "route replace 10.78.0.12 dev veth0 src 10.78.0.11",
        ]);
        self.push(format!("ip {change}"));
    }

    /// Several at once. What pieces take of SO_RCVBUF is the driver's affair: never near that.
    fn burst(&mut self, n: &mut Numbers) {
        let slot = self.used(n);
        self.emptied();
        self.waiting = Some(false);
        let length = n.of(&["10", "100", "1000", "2500", "9000"]);
        for _ in 0..2 + n.below(4) {
            let tag = self.tag();
            self.push(format!(
                "far send 0 sendmmsg {tag} {length} - 10.78.0.1 @{slot}"
            ));
        }
    }
}
