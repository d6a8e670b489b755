//! Two hosts on one link: programs with raw-packet queue pairs talk to each other and to kernel
//! sockets, on both wires.

use crate::build::{library, program};
use crate::support::{Link, PATIENCE, enter};
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const COUNT: u32 = 500;

/// A running program that is ended with its value.
struct Host {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Host {
    /// Starts one in a namespace and waits until it is ready.
    fn start(namespace: &str, role: &str, wait: &str, variables: &[(&str, &str)]) -> Self {
        Self::counting(namespace, role, COUNT, wait, variables)
    }

    fn counting(
        namespace: &str,
        role: &str,
        count: u32,
        wait: &str,
        variables: &[(&str, &str)],
    ) -> Self {
        let host = program("host");
        let mut child = Command::new("ip")
            .args(["netns", "exec", namespace])
            .arg(host)
            .args([role, &count.to_string(), wait])
            .env("LD_LIBRARY_PATH", library())
            .env("SOFTVERBS_STRICT", "abort")
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("ip(8) is installed");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let mut host = Self { child, out };
        if host.line() != "ready" {
            host.good();
        }
        host
    }

    /// The next line it prints.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("readable");
        line.trim_end().to_owned()
    }

    /// Waits for its end, which has to be good.
    fn good(&mut self) {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait().expect("a child of this process") {
                Some(status) => break status,
                None if Instant::now() > end => panic!("a host does not end"),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let mut errors = String::new();
        let stderr = self.child.stderr.as_mut().expect("piped");
        stderr.read_to_string(&mut errors).expect("text");
        assert!(status.success() && errors.is_empty(), "{status}: {errors}");
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PACKET: [(&str, &str); 1] = [("SOFTVERBS_WIRE", "packet")];

fn kernel(namespace: &str, address: Ipv4Addr, port: u16) -> UdpSocket {
    std::thread::scope(|scope| {
        let made = scope.spawn(|| {
            enter(namespace);
            let socket = UdpSocket::bind((address, port)).expect("free");
            socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
            socket
        });
        made.join().expect("no panic")
    })
}

#[test]
fn a_queue_pair_asks_a_kernel_socket() {
    for wait in ["spin", "sleep"] {
        let link = Link::new();
        let socket = kernel(&link.b, Ipv4Addr::new(10, 77, 0, 2), 7);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut bytes = [0; 2048];
                for _ in 0..COUNT {
                    let (size, from) = socket.recv_from(&mut bytes).expect("a question");
                    socket.send_to(&bytes[..size], from).expect("sent");
                }
            });
            Host::start(&link.a, "ask", wait, &PACKET).good();
        });
    }
}

#[test]
fn a_kernel_socket_asks_a_queue_pair() {
    for wait in ["spin", "sleep"] {
        let link = Link::new();
        let mut host = Host::start(&link.b, "answer", wait, &PACKET);
        let socket = kernel(&link.a, Ipv4Addr::new(10, 77, 0, 1), 5000);
        for n in 0..COUNT {
            let question = vec![n as u8; 4 + n as usize % 1400];
            socket.send_to(&question, "10.77.0.2:7").expect("sent");
            let mut bytes = [0; 2048];
            let size = socket.recv(&mut bytes).expect("an answer");
            assert!(bytes[..size] == question[..], "datagram {n}");
        }
        host.good();
    }
}

#[test]
fn queue_pairs_on_both_ends() {
    for wait in ["spin", "sleep"] {
        let link = Link::new();
        let switch = [("SOFTVERBS_WIRE", "switch"), ("SOFTVERBS_SWITCH", &*link.a)];
        for wire in [&PACKET[..], &switch] {
            let mut answers = Host::start(&link.b, "answer", wait, wire);
            Host::start(&link.a, "ask", wait, wire).good();
            answers.good();
        }
    }
}

/// The files of a switch, removed with their value.
struct Switch(String);

impl Drop for Switch {
    fn drop(&mut self) {
        let name = format!("softverbs.{}", self.0);
        for file in std::fs::read_dir("/dev/shm")
            .into_iter()
            .flatten()
            .flatten()
        {
            if file.file_name().to_string_lossy().starts_with(&name) {
                let _ = std::fs::remove_file(file.path());
            }
        }
    }
}

#[test]
fn queue_pairs_through_shared_memory() {
    for wait in ["spin", "sleep", "alone"] {
        let link = Link::new();
        // The name of one link is nobody else's.
        let files = Switch(link.a.clone());
        let switch = [("SOFTVERBS_WIRE", "switch"), ("SOFTVERBS_SWITCH", &files.0)];
        let mut answers = Host::start(&link.b, "answer", wait, &switch);
        Host::start(&link.a, "ask", wait, &switch).good();
        answers.good();
    }
}

#[test]
fn the_port_follows_the_carrier() {
    let link = Link::new();
    let mut host = Host::counting(&link.a, "watch", 2, "spin", &PACKET);
    link.ip(&format!("-n {} link set b0 down", link.b));
    assert_eq!(host.line(), "port error, now down");
    link.ip(&format!("-n {} link set b0 up", link.b));
    assert_eq!(host.line(), "port active, now active");
    host.good();
}
