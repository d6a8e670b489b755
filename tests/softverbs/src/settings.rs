//! The variables that shape the software card, read once. A value that makes no sense ends the
//! process with a message: a test that asked for something else than it got would prove nothing.

use crate::strict;
use std::ffi::OsString;
use std::sync::OnceLock;

/// Which wire carries the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireChoice {
    /// AF_PACKET on the interface of the same name.
    Packet,
    /// Shared memory between processes.
    Switch,
    /// Within this process only; for this library's own tests.
    Loopback,
}

/// What the card says it is and can, and how many of each thing it has.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `SOFTVERBS_WIRE`.
    pub wire: WireChoice,
    /// `SOFTVERBS_SWITCH`: name of the switch.
    pub switch: String,
    /// `SOFTVERBS_INTERFACES`, or none for every veth.
    pub interfaces: Option<Vec<String>>,
    /// `SOFTVERBS_STRICT=abort`.
    pub abort: bool,
    /// `SOFTVERBS_TRACE`.
    pub trace: Option<OsString>,
    /// `SOFTVERBS_FAULTS`.
    pub faults: Option<String>,
    /// `SOFTVERBS_CONTROL`.
    pub control: Option<OsString>,
    /// `SOFTVERBS_TRACE_DATA=1`: posts and polls get their line too.
    pub trace_data: bool,
    /// `SOFTVERBS_LINK_LAYER=infiniband`.
    pub infiniband: bool,
    /// `SOFTVERBS_TRANSPORT=iwarp`.
    pub iwarp: bool,
    /// Not `SOFTVERBS_NO_RAW_PACKET=1`: raw-packet queue pairs exist.
    pub raw_packet: bool,
    /// Not `SOFTVERBS_NO_FLOW_STEERING=1`.
    pub flow_steering: bool,
    /// Not `SOFTVERBS_NO_IP_CSUM=1`: checksums are computed and verified.
    pub ip_checksum: bool,
    /// Not `SOFTVERBS_NO_TIMESTAMP=1`: completions carry the clock.
    pub timestamp: bool,
    /// Not `SOFTVERBS_NO_CQ_EX=1`: extended completion queues exist.
    pub extended_cq: bool,
    /// `RDMAV_FORK_SAFE` or `IBV_FORK_SAFE`, as the real library reads them: `ibv_fork_init` at once.
    pub fork_safe: bool,
    /// `SOFTVERBS_MAX_QP`.
    pub max_qp: u32,
    /// `SOFTVERBS_MAX_CQ`.
    pub max_cq: u32,
    /// `SOFTVERBS_MAX_CQE`.
    pub max_cqe: u32,
    /// `SOFTVERBS_MAX_MR`.
    pub max_mr: u32,
    /// `SOFTVERBS_MAX_PD`.
    pub max_pd: u32,
    /// `SOFTVERBS_MAX_FLOWS`.
    pub max_flows: u32,
    /// `SOFTVERBS_MAX_WR`: work requests a queue.
    pub max_wr: u32,
    /// `SOFTVERBS_MAX_SGE`.
    pub max_sge: u32,
    /// `SOFTVERBS_MAX_INLINE`: bytes.
    pub max_inline: u32,
}

/// The process's settings.
pub fn get() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| read(&|name| std::env::var_os(name)))
}

fn read(variable: &dyn Fn(&str) -> Option<OsString>) -> Settings {
    let text = |name: &str| variable(name).map(|v| v.to_string_lossy().into_owned());
    let number = |name: &str, default: u32| {
        text(name).map_or(default, |v| {
            v.parse()
                .unwrap_or_else(|_| strict::give_up(format_args!("{name}={v}: not a number")))
        })
    };
    let flag = |name: &str| match text(name).as_deref() {
        None | Some("0" | "") => false,
        Some("1") => true,
        Some(v) => strict::give_up(format_args!("{name}={v}: 0 or 1")),
    };
    let choice = |name: &str, usual: &str, other: &str| match text(name).as_deref() {
        None => false,
        Some(v) if v == usual => false,
        Some(v) if v == other => true,
        Some(v) => strict::give_up(format_args!("{name}={v}: {usual} or {other}")),
    };
    Settings {
        wire: match text("SOFTVERBS_WIRE").as_deref() {
            None | Some("packet") => WireChoice::Packet,
            Some("switch") => WireChoice::Switch,
            Some("loopback") => WireChoice::Loopback,
            Some(v) => strict::give_up(format_args!(
                "SOFTVERBS_WIRE={v}: packet, switch or loopback"
            )),
        },
        switch: text("SOFTVERBS_SWITCH").unwrap_or_else(|| "default".into()),
        interfaces: text("SOFTVERBS_INTERFACES").map(|v| {
            v.split(',')
                .map(str::trim)
                .filter(|n| !n.is_empty())
                .map(str::to_owned)
                .collect()
        }),
        abort: choice("SOFTVERBS_STRICT", "errno", "abort"),
        trace: variable("SOFTVERBS_TRACE").filter(|v| !v.is_empty()),
        faults: text("SOFTVERBS_FAULTS").filter(|v| !v.is_empty()),
        control: variable("SOFTVERBS_CONTROL").filter(|v| !v.is_empty()),
        trace_data: flag("SOFTVERBS_TRACE_DATA"),
        infiniband: choice("SOFTVERBS_LINK_LAYER", "ethernet", "infiniband"),
        iwarp: choice("SOFTVERBS_TRANSPORT", "ib", "iwarp"),
        raw_packet: !flag("SOFTVERBS_NO_RAW_PACKET"),
        flow_steering: !flag("SOFTVERBS_NO_FLOW_STEERING"),
        ip_checksum: !flag("SOFTVERBS_NO_IP_CSUM"),
        timestamp: !flag("SOFTVERBS_NO_TIMESTAMP"),
        extended_cq: !flag("SOFTVERBS_NO_CQ_EX"),
        fork_safe: ["RDMAV_FORK_SAFE", "IBV_FORK_SAFE"]
            .iter()
            .any(|name| variable(name).is_some()),
        max_qp: number("SOFTVERBS_MAX_QP", 1024),
        max_cq: number("SOFTVERBS_MAX_CQ", 1024),
        max_cqe: number("SOFTVERBS_MAX_CQE", (1 << 18) - 1),
        max_mr: number("SOFTVERBS_MAX_MR", 4096),
        max_pd: number("SOFTVERBS_MAX_PD", 1024),
        max_flows: number("SOFTVERBS_MAX_FLOWS", 4096),
        max_wr: number("SOFTVERBS_MAX_WR", 32768),
        max_sge: number("SOFTVERBS_MAX_SGE", 30),
        max_inline: number("SOFTVERBS_MAX_INLINE", 1024),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Settings {
        read(&|name| {
            pairs
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| (*v).into())
        })
    }

    #[test]
    fn nothing_set_is_an_ethernet_card_on_the_packet_wire() {
        let s = with(&[]);
        assert_eq!(s.wire, WireChoice::Packet);
        assert!(!s.abort && !s.infiniband && !s.iwarp && s.raw_packet && s.ip_checksum);
        assert_eq!(s.interfaces, None);
    }

    #[test]
    fn variables_are_read() {
        let s = with(&[
            ("SOFTVERBS_WIRE", "switch"),
            ("SOFTVERBS_SWITCH", "blue"),
            ("SOFTVERBS_INTERFACES", "a, b,"),
            ("SOFTVERBS_STRICT", "abort"),
            ("SOFTVERBS_LINK_LAYER", "infiniband"),
            ("SOFTVERBS_TRANSPORT", "iwarp"),
            ("SOFTVERBS_NO_RAW_PACKET", "1"),
            ("SOFTVERBS_MAX_QP", "3"),
        ]);
        assert_eq!((s.wire, s.switch.as_str()), (WireChoice::Switch, "blue"));
        assert_eq!(s.interfaces, Some(vec!["a".to_owned(), "b".to_owned()]));
        assert!(s.abort && s.infiniband && s.iwarp && !s.raw_packet);
        assert_eq!(s.max_qp, 3);
    }
}
