//! chrony: a server that is its own reference, and a client that asks once for the time.

use crate::rig::{BOTH, End, Scratch, carried_or, conversation};
use engine::error::Reason;
use tests::require;
use tests::topology::{Lab, NEAR};

/// Both hosts have the same clock; what is left are delays of a shared machine.
const OFF_BY: f64 = 0.02;

#[test]
fn chrony() {
    if !require::program("chronyd") {
        return;
    }
    let scratch = Scratch::new("chrony");
    let conf = |name: &str, more: &str| {
        let pid = scratch.path().join(name).display().to_string();
        let text = format!("cmdport 0\nbindcmdaddress /\npidfile {pid}.pid\n{more}\n");
        scratch.file(name, &text)
    };
    let server = conf("server", "local stratum 3\nallow all");
    let polls = "iburst minpoll -6 maxpoll -6 maxsamples 4";
    let client = conf("client", &format!("server {NEAR} {polls}"));
    for mode in BOTH {
        let said = conversation(
            123,
            |lab: &Lab| {
                let args = ["-d", "-x", "-u", "root", "-f", &server];
                End::new(&lab.near, mode, "chronyd", &args)
            },
            |lab: &Lab| {
                let args = ["-Q", "-t", "20", "-u", "root", "-f", &client];
                End::new(&lab.far, mode, "chronyd", &args)
            },
        );
        let Some(said) = said else { return };
        let text = format!("{}{}", said.client.stdout, said.client.stderr);
        assert_eq!(said.client.code(), 0, "{mode:?}: {text}");
        let offset = text
            .split("System clock wrong by ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
        let offset = offset.unwrap_or_else(|| panic!("{mode:?}: no offset in {text}"));
        assert!(offset.abs() < OFF_BY, "{mode:?}: {text}");
        if mode != BOTH[0] {
            // It asks for transmit time stamps: the kernel sends.
            carried_or("chronyd, client", &said.seen, Reason::SharedPort, 3, 0);
            carried_or("chronyd, server", &said.server, Reason::SharedPort, 3, 0);
        }
    }
}
