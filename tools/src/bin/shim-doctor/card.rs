//! The card of an interface: libibverbs and its provider, device, port, capabilities.

use crate::report::Report;
use engine::device;
use engine::sys::verbs::DeviceLimits;
use std::collections::BTreeSet;
use std::fs;

/// Devices that no card has made: the tests' own, and those of Linux.
const SOFTWARE: [&str; 3] = ["softverbs", "rxe", "siw"];
/// For mlx4: flow steering is on when this is negative.
const MLX4_STEERING: &str = "/sys/module/mlx4_core/parameters/log_num_mgm_entry_size";

fn is_software(device: &str) -> bool {
    SOFTWARE.iter().any(|prefix| device.starts_with(prefix))
}

/// The libraries of this process that have to do with RDMA, by their files.
fn libraries(maps: &str) -> Vec<String> {
    let of_rdma = |path: &&str| {
        let file = path.rsplit('/').next().unwrap_or(path);
        ["libibverbs", "libmlx", "-rdmav", "libefa"]
            .iter()
            .any(|part| file.contains(part))
    };
    let paths = maps.lines().filter_map(|l| l.split_whitespace().nth(5));
    let found: BTreeSet<&str> = paths.filter(of_rdma).collect();
    found
        .into_iter()
        .map(|path| {
            let real = fs::canonicalize(path).unwrap_or_else(|_| path.into());
            real.display().to_string()
        })
        .collect()
}

/// Looks at the card; true: software plays it.
pub(crate) fn examine(interface: &str, report: &mut Report) -> bool {
    let found = device::examine(interface);
    if !found.library {
        report.note("libibverbs", "not installed: no card can be used");
        return false;
    }
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    report.good("libibverbs", &libraries(&maps).join(" "));
    let devices = if found.devices.is_empty() {
        "none".to_owned()
    } else {
        found.devices.join(" ")
    };
    report.note("RDMA devices", &devices);
    let card = match found.card {
        Ok(card) => card,
        Err(reason) => {
            report.note("card", &format!("no: {reason}"));
            return false;
        }
    };
    let software = is_software(&card.name);
    let place = format!("{} port {}", card.name, card.port);
    if software {
        report.warn("card", &format!("{place}: SOFTWARE, not a card"));
    } else {
        report.good("card", &place);
    }
    let attribute = |name: &str| fs::read_to_string(format!("{}/{name}", card.path)).ok();
    for (name, what) in [("fw_ver", "firmware"), ("board_id", "board")] {
        if let Some(text) = attribute(name) {
            report.note(what, text.trim());
        }
    }
    if card.iwarp {
        report.fail("transport", "iWARP: no raw packets");
    }
    match card.link {
        Ok(link) if !link.ethernet => report.fail(
            "link layer",
            "InfiniBand: mlxconfig set LINK_TYPE_P1=2 makes it Ethernet",
        ),
        Ok(link) if link.active => report.good("link layer", "Ethernet, active"),
        Ok(_) => report.warn("link layer", "Ethernet, no link: cable or switch"),
        Err(error) => report.fail("link layer", &format!("cannot be asked: {error}")),
    }
    match card.limits {
        Ok(limits) => capabilities(&limits, report),
        Err(error) => report.fail("capabilities", &format!("cannot be asked: {error}")),
    }
    if card.name.starts_with("mlx4") {
        let value = fs::read_to_string(MLX4_STEERING).unwrap_or_default();
        if !value.trim().starts_with('-') {
            report.fail(
                "mlx4 steering",
                "options mlx4_core log_num_mgm_entry_size=-1",
            );
        }
    }
    software
}

fn capabilities(limits: &DeviceLimits, report: &mut Report) {
    match limits.raw_packet_caps {
        Some(_) => report.good("raw packets", "the library knows them"),
        None => report.note("raw packets", "an old library: found out by trying"),
    }
    if limits.flow_steering {
        report.good("flow steering", "on");
    } else {
        report.fail("flow steering", "the device steers no flows");
    }
    let less = |report: &mut Report, what, there, without: &str| {
        if there {
            report.good(what, "by the card");
        } else {
            report.note(what, without);
        }
    };
    less(report, "checksums", limits.checksums, "by the processor");
    less(
        report,
        "time stamps",
        limits.stamps,
        "by the moment of the look",
    );
    let text = format!(
        "{} queue pairs, {} requests, {} completions a queue",
        limits.max_qp, limits.max_qp_wr, limits.max_cqe
    );
    report.note("limits", &text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_is_told_by_its_name() {
        assert!(is_software("softverbs_eth0") && is_software("rxe0"));
        assert!(!is_software("mlx5_0"));
    }

    #[test]
    fn libraries_of_a_process() {
        let line = |path: &str| format!("7f00-7f01 r-xp 0000 08:01 5 {path}\n");
        let maps = [
            line("/nowhere/libibverbs.so.1"),
            line("/nowhere/libmlx5-rdmav34.so"),
            line("/nowhere/libc.so.6"),
            line("/nowhere/libibverbs.so.1"),
        ];
        let found = libraries(&maps.concat());
        let expected = ["/nowhere/libibverbs.so.1", "/nowhere/libmlx5-rdmav34.so"];
        assert_eq!(found, expected);
    }
}
