//! The tables of `shim-stats`, as text. Views, rows and columns are those that users
//! of vma_stats know; what the engine adds stands at the end of a row.

use crate::stats_json::{family, reason};
use engine::stats::Snapshot;
use engine::stats::read::{IomuxSnapshot, RingSnapshot, SocketSnapshot};
use engine::stats::table::{Info, Kind};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};

/// Which tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Two rows a socket.
    Basic,
    /// Basic, with the receive queue.
    Medium,
    /// A block for each socket, poll object and ring.
    Full,
    /// Who listens to which group.
    Multicast,
}

/// How to show a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Tables.
    pub view: View,
    /// Counters are a difference over this time and shown by the second; `None` for totals.
    pub seconds: Option<f64>,
}

/// Ends a cycle.
pub const SEPARATOR: &str =
    "-------------------------------------------------------------------------------";

impl Style {
    fn number(&self, value: u64) -> u64 {
        match self.seconds {
            // A cast from float saturates.
            Some(seconds) if seconds > 0.0 => (value as f64 / seconds).round() as u64,
            _ => value,
        }
    }

    fn kilobytes(&self, bytes: u64) -> u64 {
        self.number(bytes) / 1024
    }

    fn unit(&self, name: &str) -> String {
        format!("{name}{}", if self.seconds.is_some() { "/s" } else { "" })
    }

    /// The lines above the rows of the first two views; nothing for the others.
    #[must_use]
    pub fn heading(&self) -> String {
        if !matches!(self.view, View::Basic | View::Medium) {
            return String::new();
        }
        let [pkt, kbyte, eagain, error] = ["pkt", "Kbyte", "eagain", "error"].map(|n| self.unit(n));
        let mut first = format!(
            "{:<6} {:<3} {:-^51}  {:-^43}",
            "fd", "", " total offloaded ", " total os "
        );
        let mut second = format!(
            "{:<6} {:<3} {pkt:>10} {kbyte:>10} {eagain:>9} {error:>9} {:>9}  {pkt:>10} {kbyte:>10} {eagain:>10} {error:>10}",
            "", "", "poll%"
        );
        if self.view == View::Medium {
            let _ = write!(first, "  {:-^26}", " queue pkt ");
            let _ = write!(
                second,
                "  {:>8} {:>8} {:>8}",
                "cur",
                "max",
                self.unit("drop")
            );
        }
        format!("{first}\n{second}\n")
    }

    /// Everything of one cycle but the heading.
    #[must_use]
    pub fn render(&self, snapshot: &Snapshot) -> String {
        let mut out = String::new();
        match self.view {
            View::Basic | View::Medium => {
                for socket in &snapshot.sockets {
                    self.rows(&mut out, socket);
                }
                if snapshot.sockets.is_empty() {
                    out.push_str("no open UDP socket\n");
                }
                for iomux in &snapshot.iomuxes {
                    self.iomux_line(&mut out, iomux);
                }
                let unlisted = snapshot.process.sockets_unlisted;
                if unlisted > 0 {
                    let _ = writeln!(
                        out,
                        "{unlisted} sockets found no room in the statistics: raise VMA_STATS_FD_NUM"
                    );
                }
            }
            View::Full => {
                for socket in &snapshot.sockets {
                    self.socket_block(&mut out, socket);
                }
                for iomux in &snapshot.iomuxes {
                    self.iomux_block(&mut out, iomux);
                }
                for ring in &snapshot.rings {
                    self.ring_block(&mut out, ring);
                }
                let _ = writeln!(out, "{:=<79}\nProcess", "");
                self.lines(&mut out, "", snapshot.process.each());
            }
            View::Multicast => multicast(&mut out, snapshot),
        }
        out
    }

    fn rows(&self, out: &mut String, socket: &SocketSnapshot) {
        let row = |out: &mut String,
                   fd: &str,
                   way: &str,
                   engine: [u64; 4],
                   poll: &str,
                   os: [u64; 4]| {
            let [packets, bytes, eagain, errors] = engine;
            let [os_packets, os_bytes, os_eagain, os_errors] = os;
            let _ = write!(
                out,
                "{fd:<6} {way:<3} {:>10} {:>10} {:>9} {:>9} {poll:>9}  {:>10} {:>10} {:>10} {:>10}",
                self.number(packets),
                self.kilobytes(bytes),
                self.number(eagain),
                self.number(errors),
                self.number(os_packets),
                self.kilobytes(os_bytes),
                self.number(os_eagain),
                self.number(os_errors),
            );
        };
        let (rx, os) = (&socket.rx, &socket.rx_os);
        let poll = share(rx.poll_hit, rx.poll_miss);
        row(
            out,
            &socket.fd.to_string(),
            "Rx:",
            [rx.packets, rx.bytes, rx.eagain, rx.errors],
            &poll,
            [os.packets, os.bytes, os.eagain, os.errors],
        );
        if self.view == View::Medium {
            let queue = &socket.queue;
            let drops = self.number(queue.drop_packets);
            let _ = write!(
                out,
                "  {:>8} {:>8} {drops:>8}",
                queue.packets, queue.max_packets
            );
        }
        let _ = writeln!(out, "  {}", status(socket));
        let (tx, os) = (&socket.tx, &socket.tx_os);
        row(
            out,
            "",
            "Tx:",
            [tx.packets, tx.bytes, tx.eagain, tx.errors],
            "",
            [os.packets, os.bytes, os.eagain, os.errors],
        );
        if self.view == View::Medium {
            let _ = write!(out, "  {:26}", "");
        }
        let _ = write!(out, "  {}", address(socket.local));
        if socket.peer.is_some() {
            let _ = write!(out, " -> {}", address(socket.peer));
        }
        out.push('\n');
    }

    fn iomux_line(&self, out: &mut String, iomux: &IomuxSnapshot) {
        let events = &iomux.events;
        let _ = writeln!(
            out,
            "{} Rx Ready:{}/{} [os/offload] Timeouts:{} Errors:{} Poll:{}%",
            iomux_name(iomux),
            self.number(events.os_ready),
            self.number(events.offload_ready),
            self.number(events.timeouts),
            self.number(events.errors),
            share(events.poll_hit, events.poll_miss),
        );
    }

    fn socket_block(&self, out: &mut String, socket: &SocketSnapshot) {
        let blocking = if socket.blocking {
            "Blocked"
        } else {
            "Non-blocked"
        };
        let mc_loop = if socket.mc_loop {
            "Enabled"
        } else {
            "Disabled"
        };
        let _ = writeln!(out, "{:=<79}\nFd=[{}]", "", socket.fd);
        let kind = family(socket.family);
        let _ = writeln!(
            out,
            "- UDP, {kind}, {blocking}, MC Loop {mc_loop}, inode {}",
            socket.inode
        );
        let _ = writeln!(out, "- Served by: {}", status(socket));
        if socket.local.is_some() {
            let _ = writeln!(out, "- Local Address   = [{}]", address(socket.local));
        }
        if socket.peer.is_some() {
            let _ = writeln!(out, "- Foreign Address = [{}]", address(socket.peer));
        }
        for (group, ifindex) in &socket.groups {
            let _ = writeln!(out, "- Member of = [{group}] on interface {ifindex}");
        }
        let more = (socket.group_count as usize).saturating_sub(socket.groups.len());
        if more > 0 {
            let _ = writeln!(out, "- and of {more} more groups");
        }
        let before = out.len();
        for (title, [packets, bytes, eagain, errors]) in [
            (
                "Tx Offload",
                [
                    socket.tx.packets,
                    socket.tx.bytes,
                    socket.tx.eagain,
                    socket.tx.errors,
                ],
            ),
            (
                "Tx OS info",
                [
                    socket.tx_os.packets,
                    socket.tx_os.bytes,
                    socket.tx_os.eagain,
                    socket.tx_os.errors,
                ],
            ),
            (
                "Rx Offload",
                [
                    socket.rx.packets,
                    socket.rx.bytes,
                    socket.rx.eagain,
                    socket.rx.errors,
                ],
            ),
            (
                "Rx OS info",
                [
                    socket.rx_os.packets,
                    socket.rx_os.bytes,
                    socket.rx_os.eagain,
                    socket.rx_os.errors,
                ],
            ),
        ] {
            if packets > 0 || eagain > 0 || errors > 0 {
                let _ = writeln!(
                    out,
                    "{title}: {} / {} / {} / {} [{}/{}/{}/{}]",
                    self.kilobytes(bytes),
                    self.number(packets),
                    self.number(eagain),
                    self.number(errors),
                    self.unit("kilobytes"),
                    self.unit("packets"),
                    self.unit("eagains"),
                    self.unit("errors"),
                );
            }
        }
        let queue = &socket.queue;
        if queue.max_bytes > 0 || queue.drop_packets > 0 {
            let _ = writeln!(
                out,
                "Rx byte: cur {} / max {} / dropped {} / limit {}",
                queue.bytes,
                queue.max_bytes,
                self.number(queue.drop_bytes),
                queue.limit_bytes
            );
            let _ = writeln!(
                out,
                "Rx pkt : cur {} / max {} / dropped {}",
                queue.packets,
                queue.max_packets,
                self.number(queue.drop_packets)
            );
        }
        let (hit, miss) = (socket.rx.poll_hit, socket.rx.poll_miss);
        if hit > 0 || miss > 0 {
            let (misses, hits) = (self.number(miss), self.number(hit));
            let _ = writeln!(
                out,
                "Rx poll: {misses} / {hits} ({}%) [miss/hit]",
                share(hit, miss)
            );
        }
        self.lines(out, "", socket.life.each());
        if out.len() == before {
            out.push_str("Rx and Tx were not active\n");
        }
    }

    fn iomux_block(&self, out: &mut String, iomux: &IomuxSnapshot) {
        let _ = writeln!(out, "{:=<79}", "");
        self.iomux_line(out, iomux);
    }

    fn ring_block(&self, out: &mut String, ring: &RingSnapshot) {
        let _ = writeln!(out, "{:=<79}\nRING_ETH=[{}]", "", ring.slot);
        let on = if ring.device.is_empty() { "" } else { " on " };
        let _ = writeln!(
            out,
            "- Interface {} (index {}), backend {}{on}{}, of {}, slots: rx {}, tx {}",
            ring.interface,
            ring.ifindex,
            ring.backend,
            ring.device,
            ring.key,
            ring.rx_slots,
            ring.tx_slots
        );
        self.lines(out, "Rx ", ring.rx.each());
        self.lines(out, "", ring.upkeep.each());
        self.lines(out, "Tx ", ring.tx.each());
    }

    /// What is not zero, by the name it has in the table.
    fn lines(
        &self,
        out: &mut String,
        prefix: &str,
        values: impl Iterator<Item = (&'static Info, u64)>,
    ) {
        for (info, value) in values.filter(|(_, value)| *value != 0) {
            let name = format!("{prefix}{}", info.name.replace('_', " "));
            if info.kind == Kind::Count {
                let _ = writeln!(
                    out,
                    "{name}: {} [{}]",
                    self.number(value),
                    self.unit(info.unit)
                );
            } else {
                let _ = writeln!(out, "{name}: {value} [{}]", info.unit);
            }
        }
    }
}

fn share(hit: u64, miss: u64) -> String {
    let all = hit.saturating_add(miss);
    if all == 0 {
        return "0.00".to_owned();
    }
    format!("{:.2}", hit as f64 * 100.0 / all as f64)
}

/// "accelerated", or the reason why not, or why in one direction only.
#[must_use]
pub fn status(socket: &SocketSnapshot) -> String {
    match reason(socket) {
        None => "accelerated".to_owned(),
        Some(reason) if socket.accelerated => format!("sends accelerated, rx os: {reason}"),
        Some(reason) => format!("os: {reason}"),
    }
}

fn address(address: Option<SocketAddr>) -> String {
    address.map_or("-".to_owned(), |a| a.to_string())
}

fn iomux_name(iomux: &IomuxSnapshot) -> String {
    let kind = iomux.kind.text();
    iomux
        .epfd
        .map_or(kind.to_owned(), |fd| format!("{kind}[{fd}]"))
}

fn multicast(out: &mut String, snapshot: &Snapshot) {
    let mut members: BTreeMap<Ipv4Addr, Vec<i32>> = BTreeMap::new();
    let mut unlisted = 0;
    for socket in &snapshot.sockets {
        for (group, _) in &socket.groups {
            let fds = members.entry(*group).or_default();
            if fds.last() != Some(&socket.fd) {
                fds.push(socket.fd);
            }
        }
        unlisted += (socket.group_count as usize).saturating_sub(socket.groups.len());
    }
    out.push_str("Multicast groups information\n");
    let _ = writeln!(out, "{:<20} | fd number", "Group");
    let _ = writeln!(out, "{SEPARATOR}");
    for (group, fds) in members {
        let group = format!("[{group}]");
        let fds: Vec<String> = fds.iter().map(i32::to_string).collect();
        let _ = writeln!(out, "{group:<20} | {}", fds.join(" "));
    }
    if unlisted > 0 {
        let _ = writeln!(out, "and {unlisted} more memberships");
    }
}

#[cfg(test)]
pub(crate) mod tests;
