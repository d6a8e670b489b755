//! iperf3 and socat: datagrams counted, and echoed by children of a fork.

use crate::rig::{BOTH, End, carried, carried_or, conversation};
use engine::error::Reason;
use tests::preload::Mode;
use tests::require;
use tests::topology::{Lab, NEAR};

/// `iperf3 -u` at a rate that both kernels bear; `reverse`: the server sends.
fn iperf3(reverse: bool) {
    if !require::program("iperf3") {
        return;
    }
    let mut sent = Vec::new();
    for mode in BOTH {
        let lab = Lab::open();
        let Some(lab) = lab else { return };
        let server = End::new(&lab.near, mode, "iperf3", &["-s", "-1"]).serve(5201);
        let mut args = vec![
            "-c", NEAR, "-u", "-b", "20M", "-l", "1000", "-k", "2000", "-J",
        ];
        if reverse {
            args.push("-R");
        }
        let (client, seen) = End::new(&lab.far, mode, "iperf3", &args).run();
        let client = client.success("iperf3");
        let (_, serving) = server.wait();
        let report: serde_json::Value =
            serde_json::from_str(&client.stdout).expect("iperf3 -J prints JSON");
        let total = &report["end"]["sum"];
        let number = |name: &str| total[name].as_u64().unwrap_or(u64::MAX);
        let drops = lab.near.udp_buffer_drops() + lab.far.udp_buffer_drops();
        assert!(
            number("lost_packets") <= drops,
            "{mode:?}: {total} with {drops} dropped for want of room"
        );
        sent.push(number("packets"));
        if mode == Mode::Native {
            continue;
        }
        let (sender, receiver) = if reverse {
            (&serving, &seen)
        } else {
            (&seen, &serving)
        };
        carried("iperf3, sender", sender, 0, 1900);
        carried_or("iperf3, receiver", receiver, Reason::SharedPort, 1900, 0);
    }
    assert!(sent.iter().all(|s| (2000..2100).contains(s)), "{sent:?}");
}

#[test]
fn iperf3_to_the_server() {
    iperf3(false);
}

#[test]
fn iperf3_from_the_server() {
    iperf3(true);
}

/// Sends lines to a server, one at a time, and wants them back.
fn echo(server: &str, client: &str, rx: u64, tx: u64) {
    if !require::program("socat") {
        return;
    }
    let script = format!(
        "for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.05; done | socat -t 1 - {client}"
    );
    for mode in BOTH {
        let said = conversation(
            5000,
            |lab: &Lab| End::new(&lab.near, mode, "socat", &[server, "EXEC:cat"]),
            |lab: &Lab| End::new(&lab.far, mode, "bash", &["-c", &script]),
        );
        let Some(said) = said else { return };
        let mut lines: Vec<&str> = said.client.stdout.lines().collect();
        // Each line may have a child of its own to answer it.
        lines.sort_unstable();
        let all: Vec<String> = (1..=8).map(|i| format!("line {i}")).collect();
        assert_eq!(lines, all, "{mode:?}: {}", said.client.stderr);
        if mode != Mode::Native {
            // The first ones may be under way before the ring and the route are known.
            carried("socat, client", &said.seen, rx, tx);
        }
    }
}

/// The server connects the socket that took the first datagram, and forks.
#[test]
fn socat_listen() {
    echo("UDP4-LISTEN:5000,fork", "UDP4:10.78.0.1:5000", 5, 5);
}

/// A child a datagram answers by the socket that it shares with its parent.
#[test]
fn socat_recvfrom() {
    echo(
        "UDP4-RECVFROM:5000,fork",
        "UDP4-DATAGRAM:10.78.0.1:5000",
        5,
        5,
    );
}
