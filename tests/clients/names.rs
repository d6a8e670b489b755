//! Name servers, asked by dnsperf: every question answered, with the same answers.

use crate::rig::{BOTH, End, Scratch, carried, carried_or, conversation};
use engine::error::Reason;
use std::fmt::Write as _;
use tests::preload::Finished;
use tests::require;
use tests::topology::{Lab, NEAR};

const NAMES: usize = 200;
const RUNS: usize = 20;

/// Names that are there and names that are not.
fn questions() -> String {
    let mut text = String::new();
    for i in 0..NAMES {
        let kind = if i % 4 == 3 { "no" } else { "host" };
        let _ = writeln!(text, "{kind}{i}.test A");
    }
    text
}

/// What dnsperf says of the exchange, without the times.
fn verdict(run: &Finished) -> Vec<String> {
    let wanted = [
        "Queries sent",
        "Queries completed",
        "Queries lost",
        "Response codes",
    ];
    let lines = run.stdout.lines().map(str::trim);
    let lines: Vec<_> = lines
        .filter(|l| wanted.iter().any(|w| l.starts_with(w)))
        .map(str::to_owned)
        .collect();
    assert_eq!(lines.len(), wanted.len(), "{}\n{}", run.stdout, run.stderr);
    lines
}

fn ask(what: &str, server: impl Fn(&Scratch) -> (String, Vec<String>), reason: Reason) {
    if !require::program("dnsperf") {
        return;
    }
    let scratch = Scratch::new(what);
    let list = scratch.file("questions", &questions());
    let runs = RUNS.to_string();
    let mut native = None;
    for mode in BOTH {
        let said = conversation(
            53,
            |lab: &Lab| {
                let (program, args) = server(&scratch);
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                End::new(&lab.near, mode, &program, &args)
            },
            |lab: &Lab| {
                let args = ["-s", NEAR, "-d", &list, "-n", &runs, "-q", "20", "-t", "5"];
                End::new(&lab.far, mode, "dnsperf", &args)
            },
        );
        let Some(said) = said else { return };
        let lines = verdict(&said.client);
        let Some(native) = &native else {
            assert!(lines[2].contains(" 0 "), "lost natively: {lines:?}");
            native = Some(lines);
            continue;
        };
        assert_eq!(&lines, native, "{}", said.client.stdout);
        let all = (NAMES * RUNS) as u64;
        carried("dnsperf", &said.seen, all * 9 / 10, all * 9 / 10);
        carried_or(what, &said.server, reason, all * 9 / 10, all * 9 / 10);
    }
}

#[test]
fn unbound() {
    if !require::program("unbound") {
        return;
    }
    let server = |scratch: &Scratch| {
        let mut conf = format!(
            "server:\n interface: {NEAR}\n access-control: 0.0.0.0/0 allow\n do-daemonize: no\n \
             chroot: \"\"\n username: \"\"\n directory: \"{}\"\n pidfile: \"\"\n use-syslog: no\n \
             num-threads: 1\n module-config: \"iterator\"\n local-zone: \"test.\" static\n",
            scratch.path().display()
        );
        for i in 0..NAMES {
            let _ = writeln!(conf, " local-data: \"host{i}.test. A 10.9.0.{i}\"");
        }
        let conf = scratch.file("unbound.conf", &conf);
        (
            "unbound".to_owned(),
            vec!["-d".to_owned(), "-c".to_owned(), conf],
        )
    };
    ask("unbound", server, Reason::SharedPort);
}

#[test]
fn dnsmasq() {
    if !require::program("dnsmasq") {
        return;
    }
    let server = |scratch: &Scratch| {
        let mut hosts = String::new();
        for i in 0..NAMES {
            let _ = writeln!(hosts, "10.9.0.{i} host{i}.test");
        }
        let hosts = scratch.file("hosts", &hosts);
        let args = [
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--no-resolv",
            "--no-hosts",
            "--user=root",
            "--pid-file=",
            "--local=/test/",
            "--bind-interfaces",
            &format!("--listen-address={NEAR}"),
            &format!("--addn-hosts={hosts}"),
        ];
        ("dnsmasq".to_owned(), args.map(str::to_owned).to_vec())
    };
    ask("dnsmasq", server, Reason::SharedPort);
}
