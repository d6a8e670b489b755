//! `shim-doctor`: whether this host's interfaces can be accelerated, by what, and if not by
//! a card, why not; then, if asked, whether datagrams really pass.
//!
//! It must never change anything on the host: what it opens goes with it. The last line is
//! the verdict, the exit status says the same.
#![forbid(unsafe_code)]

mod card;
mod host;
mod live;
mod peer;
mod report;

use clap::Parser;
use engine::config::Config;
use engine::device::{self, Port, QueueOptions, VerbsOptions};
use engine::net::{Interface, LinkKind, Monitor, Tables, usable};
use report::{Report, Verdict};
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::process::ExitCode;

/// Tells what libshim would use on this host and why, and tries it if asked.
///
/// Exit status: 0 a card works; 1 something failed; 3 it works on SOFTWARE that stands in for
/// a card; 4 no card, the packet device serves. The variables of the library count here too.
#[derive(Debug, Parser)]
#[command(name = "shim-doctor", version)]
struct Options {
    /// Interfaces to look at; all that can be used if none is given
    interfaces: Vec<String>,
    /// Exchange frames between the interface and this one, which a cable or switch joins
    #[arg(long, value_name = "INTERFACE", conflicts_with = "peer")]
    second: Option<String>,
    /// Exchange datagrams with a host on which `shim-doctor --answer PORT` runs
    #[arg(long, value_name = "ADDRESS:PORT")]
    peer: Option<SocketAddrV4>,
    /// Frames or datagrams to exchange
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// The library, for --peer; by default the one beside this program
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// Be the peer: send every datagram back, through kernel sockets
    #[arg(long, value_name = "PORT", conflicts_with_all = ["second", "peer"])]
    answer: Option<u16>,
    /// How long to be the peer
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    seconds: u64,
    /// The inside of --peer
    #[arg(long, hide = true)]
    exchange: Option<SocketAddrV4>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(port) = options.answer {
        return peer::answer(port, options.seconds);
    }
    if let Some(to) = options.exchange {
        return peer::exchange(to, options.count);
    }
    let mut report = Report;
    let verdict = examine(&options, &mut report);
    report.conclude(&verdict)
}

fn examine(options: &Options, report: &mut Report) -> Verdict {
    let (config, warnings) = Config::from_env(std::env::vars());
    for warning in warnings {
        report.warn("environment", &warning.to_string());
    }
    host::examine(report);
    let tables = match interfaces() {
        Ok(tables) => tables,
        Err(error) => return Verdict::Failed(format!("no netlink: {error}")),
    };
    let named = |i: &&Interface| options.interfaces.contains(&i.name);
    let candidate = |i: &&Interface| i.kind == LinkKind::Ethernet && usable(&config, i).is_ok();
    let chosen: Vec<&Interface> = if options.interfaces.is_empty() {
        tables.interfaces().filter(candidate).collect()
    } else {
        tables.interfaces().filter(named).collect()
    };
    if chosen.len() < options.interfaces.len() || chosen.is_empty() {
        return Verdict::Failed("no such interface, or none that can be used".into());
    }
    let mut best = None;
    for interface in chosen {
        let verdict = one(options, &config, &tables, interface, report);
        if best
            .as_ref()
            .is_none_or(|b: &Verdict| verdict.rank() < b.rank())
        {
            best = Some(verdict);
        }
    }
    best.unwrap_or_else(|| Verdict::Failed("nothing was looked at".into()))
}

fn interfaces() -> Result<Tables, engine::error::Errno> {
    let mut tables = Tables::new();
    Monitor::open_without_group_events()?.dump(&mut tables)?;
    Ok(tables)
}

/// How this program opens an interface: as the library would, the common ring.
fn queue_options(config: &Config) -> QueueOptions {
    QueueOptions {
        slots: u32::try_from(config.int(engine::config::Opt::RxWre)).unwrap_or(0),
        verbs: VerbsOptions::of(config),
        ..QueueOptions::default()
    }
}

fn port(interface: &Interface) -> Port<'_> {
    Port {
        index: interface.index,
        name: &interface.name,
        mtu: interface.mtu,
        mac: interface.mac,
    }
}

/// An interface, from what it is to whether frames pass.
fn one(
    options: &Options,
    config: &Config,
    tables: &Tables,
    interface: &Interface,
    report: &mut Report,
) -> Verdict {
    let name = &interface.name;
    report.heading(&format!("interface {name}"));
    host::interface(interface, report);
    if let Err(reason) = usable(config, interface) {
        report.fail("interface", reason.text());
        return Verdict::Failed(format!("{name}: {reason}"));
    }
    let software = card::examine(name, report);
    let opened = device::candidates(config.backend())
        .map_err(|reason| reason.to_string())
        .and_then(|c| {
            let opened = c.open(port(interface), queue_options(config));
            opened.map_err(|refused| refused.why)
        });
    let opened = match opened {
        Ok(opened) => opened,
        Err(why) => {
            report.fail("would use", &format!("kernel sockets ({why})"));
            return Verdict::Failed(format!("{name}: not accelerated: {why}"));
        }
    };
    let backend = opened.backend.name();
    let on = opened.opened.device.clone();
    let with = if on.is_empty() {
        String::new()
    } else {
        format!(" on {on}")
    };
    report.good("would use", &format!("{backend}{with} ({})", opened.why));
    drop(opened);
    let tried = match (&options.second, options.peer) {
        (Some(second), _) => Some(match tables.interface_by_name(second) {
            Some(second) => live::between(config, interface, second, options.count),
            None => Err(format!("there is no interface {second}")),
        }),
        (None, Some(peer)) => Some(peer::meet(
            options.library.as_deref(),
            name,
            backend,
            peer,
            options.count,
        )),
        (None, None) => None,
    };
    let live = match tried {
        Some(Ok(outcome)) => {
            report.good("live test", &outcome);
            "datagrams pass"
        }
        Some(Err(what)) => {
            report.fail("live test", &what);
            return Verdict::Failed(format!("{name}: {backend}{with}: {what}"));
        }
        None => {
            report.note("live test", "not asked for: --second or --peer");
            "no live test"
        }
    };
    let text = format!("{name}: {backend}{with}, {live}");
    match backend {
        "verbs" if software => Verdict::Software(text),
        "verbs" => Verdict::Card(text),
        _ => Verdict::NoCard(text),
    }
}
