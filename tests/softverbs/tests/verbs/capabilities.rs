//! The device under the variables that change what it is, its directory, and the trace.

use crate::build::{program, run};
use crate::rules::holds;
use std::fs::read_to_string;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

#[test]
fn each_variable_changes_what_it_says() {
    let program = program("capabilities");
    let cases: [(&str, &[(&str, &str)]); 14] = [
        ("usual", &[]),
        ("old_port_query", &[]),
        ("other_queue_pairs", &[]),
        ("infiniband", &[("SOFTVERBS_LINK_LAYER", "infiniband")]),
        ("iwarp", &[("SOFTVERBS_TRANSPORT", "iwarp")]),
        ("no_raw_packet", &[("SOFTVERBS_NO_RAW_PACKET", "1")]),
        ("three_queue_pairs", &[("SOFTVERBS_MAX_QP", "3")]),
        ("two_flows", &[("SOFTVERBS_MAX_FLOWS", "2")]),
        ("one_region", &[("SOFTVERBS_MAX_MR", "1")]),
        ("short_inline", &[("SOFTVERBS_MAX_INLINE", "60")]),
        ("no_flow_steering", &[("SOFTVERBS_NO_FLOW_STEERING", "1")]),
        ("no_checksums", &[("SOFTVERBS_NO_IP_CSUM", "1")]),
        ("no_timestamps", &[("SOFTVERBS_NO_TIMESTAMP", "1")]),
        ("no_extended_queues", &[("SOFTVERBS_NO_CQ_EX", "1")]),
    ];
    for (case, variables) in cases {
        holds(&program, case, variables);
    }
}

#[test]
fn a_variable_that_makes_no_sense_ends_the_process() {
    let program = program("capabilities");
    let out = run(&program, &["usual"], &[("SOFTVERBS_MAX_QP", "many")]);
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success());
    assert_eq!(errors, "softverbs: SOFTVERBS_MAX_QP=many: not a number\n");
}

/// A directory of this test's own.
fn temporary(name: &str) -> PathBuf {
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("the target directory is writable");
    path
}

#[test]
fn the_directory_looks_like_the_kernels_and_stays() {
    let program = program("capabilities");
    let place = temporary("directory");
    let inside = place.display().to_string();
    let show = |more: &[(&str, &str)]| {
        let mut variables = vec![("TMPDIR", inside.as_str())];
        variables.extend(more);
        let out = run(&program, &["directory"], &variables);
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let text = show(&[]);
    let mut lines = text.lines();
    let device = PathBuf::from(lines.next().unwrap());
    assert_eq!(lines.next(), Some("softverbs_lo"));
    assert!(device.starts_with(&place), "{}", device.display());
    let file = |name: &str| read_to_string(device.join(name)).unwrap();
    assert_eq!(file("node_type"), "1: CA\n");
    assert_eq!(file("ports/1/link_layer"), "Ethernet\n");
    assert_eq!(file("ports/1/state"), "4: ACTIVE\n");
    assert_eq!(file("ports/1/gid_attrs/ndevs/0"), "lo\n");
    assert!(device.join("device/net/lo").is_dir());
    // For the owner alone.
    for path in device.ancestors().take_while(|p| *p != place) {
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", path.display());
    }
    // The same place again, brought up to date.
    assert_eq!(show(&[("SOFTVERBS_LINK_LAYER", "infiniband")]), text);
    assert_eq!(file("ports/1/link_layer"), "InfiniBand\n");
    let strays = std::fs::read_dir(device.join("ports/1")).unwrap();
    assert!(
        strays
            .flatten()
            .all(|f| !f.file_name().to_string_lossy().starts_with('.')),
        "a file was left half-written"
    );
    std::fs::remove_dir_all(place).unwrap();
}

#[test]
fn a_directory_of_somebody_else_is_not_used() {
    let program = program("capabilities");
    let place = temporary("foreign");
    let root = place.join(format!("softverbs-{}", rustix::process::geteuid().as_raw()));
    std::fs::create_dir(&root).unwrap();
    std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o777)).unwrap();
    let variables = [("TMPDIR", place.to_str().unwrap())];
    let out = run(&program, &["directory"], &variables);
    assert!(
        !out.status.success(),
        "others could have written what is in there"
    );
    std::fs::remove_dir_all(place).unwrap();
}

#[test]
fn the_trace_has_a_line_for_every_call() {
    let place = temporary("trace");
    let file = place.join("lines");
    let name = file.to_str().unwrap();
    let queues = program("queues");
    holds(&queues, "states", &[("SOFTVERBS_TRACE", name)]);
    let text = read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let expected = [
        "get_device_list devices=1 = ok",
        "open_device interface=lo = ok",
        "alloc_pd = ok",
        "create_cq cqe=32 = ok",
        "reg_mr length=131072 access=0x1 lkey=0x101 = ok",
        "violated: modify_qp: no change of state 0 to 2",
        "= EINVAL",
    ];
    for wanted in expected {
        assert!(
            lines.iter().any(|l| l.ends_with(wanted)),
            "{wanted}: {text}"
        );
    }
    let created = lines.iter().find(|l| l.starts_with("create_qp ")).unwrap();
    assert!(
        created.ends_with("send_wr=8 recv_wr=8 inline=128 = ok"),
        "{created}"
    );
    assert!(
        !text.contains("post_send"),
        "the data path is quiet unless asked"
    );
    // Another process appends.
    let variables = [("SOFTVERBS_TRACE", name), ("SOFTVERBS_TRACE_DATA", "1")];
    holds(&queues, "ping", &variables);
    let text = read_to_string(&file).unwrap();
    assert_eq!(text.matches("get_device_list").count(), 2);
    assert_eq!(text.matches("post_send qp=").count(), 20);
    assert_eq!(text.matches("post_recv qp=").count(), 20);
    let flow = "create_flow qp=5 priority=0 dont_trap=false mac=02:00:00:00:00:02 \
                dst=10.0.0.2:7 = ok";
    assert!(text.contains(flow), "{text}");
    std::fs::remove_dir_all(place).unwrap();
}
