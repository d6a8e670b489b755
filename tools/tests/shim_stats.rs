//! `shim-stats` as a person runs it. The watched process is a `sleep`, for which this
//! test publishes.
#![allow(clippy::unwrap_used, reason = "a test's helpers are tests too")]

use engine::error::Reason;
use engine::stats::Publisher;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

struct Watched {
    directory: PathBuf,
    process: Child,
    publisher: Publisher,
}

impl Watched {
    fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("shim-stats-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).unwrap();
        let process = Command::new("sleep").arg("100").spawn().unwrap();
        let (publisher, warning) =
            Publisher::create(directory.to_str().unwrap(), process.id(), "sleep", 4);
        assert_eq!(warning, None);
        Self {
            directory,
            process,
            publisher,
        }
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shim-stats"));
        command
            .arg("-k")
            .arg(&self.directory)
            .args(arguments.split_whitespace());
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &str) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn watch(&self, arguments: &str) -> Output {
        self.run(&format!("-p {} {arguments}", self.process.id()))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// One line on stderr, nothing on stdout, status 1.
fn refusal(output: &Output) -> &str {
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    let message = text(&output.stderr);
    assert!(
        message.starts_with("vmastat: ") && message.ends_with('\n'),
        "{message}"
    );
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

#[test]
fn one_cycle_shows_every_descriptor_and_why() {
    let watched = Watched::new("cycle");
    let socket = watched.publisher.socket(7);
    socket.set_reason(None);
    socket.rx.packets.add(12345);
    watched
        .publisher
        .socket(8)
        .set_reason(Some(Reason::Loopback));
    let output = watched.watch("-c 1");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stderr), "");
    let shown = text(&output.stdout);
    let first = format!("vmastat: application sleep, pid {}\n", watched.process.id());
    assert!(shown.starts_with(&first), "{shown}");
    assert!(
        shown.contains("12345") && shown.contains("  accelerated\n"),
        "{shown}"
    );
    assert!(
        shown.contains("  os: bound or connected to loopback\n"),
        "{shown}"
    );
    let shown = watched.watch("-c 1 -s 8");
    assert!(!text(&shown.stdout).contains("12345"));
    let shown = watched.run("-n sleep -c 1");
    assert!(text(&shown.stdout).starts_with(&first));
}

#[test]
fn json_is_one_document_a_cycle() {
    let watched = Watched::new("json");
    watched.publisher.socket(7).rx.packets.add(5);
    let output = watched.watch("-c 2 -i 0.05 --json");
    let documents: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(documents.len(), 2);
    assert_eq!(documents[1]["sockets"][0]["rx"]["packets"], 5);
    let output = watched.watch("-c 1 -i 0.05 -d 2 --json");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        document["sockets"][0]["rx"]["packets"], 0,
        "nothing came meanwhile"
    );
    assert!(document["delta_seconds"].as_f64().unwrap() >= 0.05);
}

#[test]
fn wrong_and_finished_pids_are_one_clear_line() {
    let mut watched = Watched::new("wrong");
    assert!(refusal(&watched.run("-p 1073741823")).contains("there is no process 1073741823"));
    let own = std::process::id();
    let output = watched.run(&format!("-p {own}"));
    assert!(refusal(&output).contains("does not run under libshim"));
    assert!(refusal(&watched.run("-n nothing")).contains("no running process of nothing"));
    watched.process.kill().unwrap();
    watched.process.wait().unwrap();
    assert!(refusal(&watched.watch("-c 1")).contains("has finished"));
}

#[test]
fn the_end_of_the_process_is_told_with_its_last_values() {
    for (name, json) in [("end", ""), ("end-json", "--json")] {
        let mut watched = Watched::new(name);
        let socket = watched.publisher.socket(7);
        let arguments = format!("-p {} -i 100 {json}", watched.process.id());
        let mut tool = watched
            .command(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut shown = BufReader::new(tool.stdout.take().unwrap());
        let mut line = String::new();
        // Until the first cycle is complete.
        while !line.contains("-----\n") && !line.contains("\"sockets\"") {
            line.clear();
            assert_ne!(shown.read_line(&mut line).unwrap(), 0);
        }
        socket.rx.packets.add(4711);
        watched.process.kill().unwrap();
        watched.process.wait().unwrap();
        let mut rest = String::new();
        shown.read_to_string(&mut rest).unwrap();
        let mut errors = String::new();
        tool.stderr
            .take()
            .unwrap()
            .read_to_string(&mut errors)
            .unwrap();
        assert_eq!(tool.wait().unwrap().code(), Some(0));
        assert!(rest.contains("4711"), "{rest}");
        let told = format!(
            "vmastat: process {} (sleep) has ended\n",
            watched.process.id()
        );
        assert!(format!("{rest}{errors}").ends_with(&told), "{rest}{errors}");
        assert_eq!(errors.is_empty(), json.is_empty());
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let watched = Watched::new("pipe");
    let mut tool = watched
        .command(&format!("-p {} -i 0.01", watched.process.id()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(tool.stdout.take());
    let mut errors = String::new();
    tool.stderr
        .take()
        .unwrap()
        .read_to_string(&mut errors)
        .unwrap();
    assert_eq!(tool.wait().unwrap().code(), Some(0));
    assert_eq!(errors, "");
}

#[test]
fn version_and_help() {
    let watched = Watched::new("help");
    let output = watched.run("-V");
    assert_eq!(
        text(&output.stdout),
        concat!("shim-stats ", env!("CARGO_PKG_VERSION"), "\n")
    );
    assert_eq!(output.status.code(), Some(0));
    let output = watched.run("-h");
    assert_eq!(output.status.code(), Some(0));
    for option in [
        "--pid",
        "--directory",
        "--interval",
        "--cycles",
        "--view",
        "--json",
    ] {
        assert!(text(&output.stdout).contains(option), "{option}");
    }
}
