//! What is printed at load: libvma's layout with this library's name in it.
//!
//! Owns the text and nothing else: where it goes, and whether, is the caller's business. Never
//! writes, never reads the environment. Source: libvma 9.8's start-up output; scripts that look
//! for a parameter's line in it find the same label, padding and variable here.

use engine::config::{Config, Effect, Opt, Profile, TraceLevel, Value, Warning};

/// Width of the rules above, between and below.
const RULE: usize = 75;

/// Longest command line that is shown.
const COMMAND: usize = 2048;

/// The banner that the configuration's own log level asks for; nothing below info.
pub(crate) fn lines(config: &Config, version: &str, cmdline: &str) -> Vec<String> {
    lines_at(config, version, cmdline, config.trace_level())
}

/// The banner of a given level: info has the parameters that differ from their default, details
/// has all of them.
pub(crate) fn lines_at(
    config: &Config,
    version: &str,
    cmdline: &str,
    level: TraceLevel,
) -> Vec<String> {
    let mut out = Lines {
        level,
        lines: Vec::new(),
    };
    let rule = "-".repeat(RULE);
    out.info(&rule);
    out.info(&format!("VMA_VERSION: libshim {version}"));
    out.info(&format!("Cmd Line: {}", one_line(cmdline)));
    out.at(
        TraceLevel::Debug,
        &format!("Pid: {:>5}", std::process::id()),
    );
    out.at(
        TraceLevel::Debug,
        &format!("Architecture: {}", std::env::consts::ARCH),
    );
    out.info(&rule);
    if config.profile() != Profile::None {
        out.info(&parameter(config, Opt::Spec));
        if config.profile().has_params() {
            out.info(&parameter(config, Opt::SpecParam1));
            out.info(&parameter(config, Opt::SpecParam2));
        }
    }
    let apart = [Opt::Spec, Opt::SpecParam1, Opt::SpecParam2];
    for &opt in Opt::ALL.iter().filter(|opt| !apart.contains(opt)) {
        parameter_line(config, opt, &mut out);
    }
    out.info(&rule);
    for note in notes(config) {
        out.info(&note);
    }
    if level >= TraceLevel::Debug {
        let stars = "*".repeat(RULE);
        out.at(TraceLevel::Warn, &stars);
        let text = "This log level slows the program down; it is meant for looking for faults.";
        out.at(TraceLevel::Warn, text);
        out.at(TraceLevel::Warn, &stars);
    }
    out.lines
}

/// The line that says what serves an interface from now on.
pub(crate) fn accelerated_line(interface: &str, backend: &str, why: &str) -> String {
    line(
        TraceLevel::Info,
        &format!("Interface {interface} is accelerated by {backend}: {why}"),
    )
}

/// The line of a configuration warning.
pub(crate) fn warning_line(warning: &Warning) -> String {
    line(TraceLevel::Warn, &warning.0)
}

struct Lines {
    level: TraceLevel,
    lines: Vec<String>,
}

impl Lines {
    fn at(&mut self, level: TraceLevel, text: &str) {
        // The banner as a whole needs info, whatever its lines are.
        if self.level >= level.max(TraceLevel::Info) {
            self.lines.push(line(level, text));
        }
    }

    fn info(&mut self, text: &str) {
        self.at(TraceLevel::Info, text);
    }
}

pub(crate) fn line(level: TraceLevel, text: &str) -> String {
    let word = match level {
        TraceLevel::None | TraceLevel::Panic => "PANIC",
        TraceLevel::Error => "ERROR",
        TraceLevel::Warn => "WARNING",
        TraceLevel::Info => "INFO",
        TraceLevel::Details => "DETAILS",
        TraceLevel::Debug => "DEBUG",
        TraceLevel::Fine => "FINE",
        TraceLevel::Finer => "FINER",
    };
    format!(" VMA {word}: {text}")
}

fn columns(label: &str, value: &str, name: &str) -> String {
    format!("{label:<30} {value:<26} [{name}]")
}

fn parameter(config: &Config, opt: Opt) -> String {
    let row = opt.row();
    columns(row.label, &row.shown(config.value(opt)), row.name)
}

fn parameter_line(config: &Config, opt: Opt, out: &mut Lines) {
    let never_drained = [Opt::ProgressInterval, Opt::ProgressMax];
    let off = |label| columns(label, "Disabled", opt.name());
    match opt {
        _ if opt.row().label.is_empty() => {}
        // What follows is said at info whatever the default is.
        Opt::TraceLevel => out.info(&parameter(config, opt)),
        Opt::ProgressInterval | Opt::ProgressMax
            if never_drained.iter().any(|&o| config.int(o) == 0) =>
        {
            if opt == Opt::ProgressInterval {
                out.info(&off("CQ Drain Thread"));
            }
        }
        Opt::CqAimInterval if config.int(opt) == 0 => out.info(&off("CQ Adaptive Moderation")),
        _ if config.is_default(opt) => out.at(TraceLevel::Details, &parameter(config, opt)),
        _ => out.info(&parameter(config, opt)),
    }
}

/// What the parameters do not say: which of them change nothing.
fn notes(config: &Config) -> Vec<String> {
    let mut notes = Vec::new();
    for opt in [Opt::RingLogicTx, Opt::RingLogicRx] {
        if *config.value(opt) == Value::Int(11) {
            notes.push(format!(
                "Note: {}=11: no user ids without libvma's programming interface; one ring per interface",
                opt.name()
            ));
        }
    }
    for (effect, text) in [
        (Effect::NotYet, "set, but without effect in this build"),
        (
            Effect::Tcp,
            "set, but without effect, for TCP stays with the kernel",
        ),
    ] {
        let idle = config.set_without_effect(effect);
        let names: Vec<_> = idle.map(Opt::name).collect();
        if !names.is_empty() {
            notes.push(format!("Note: {text}: {}", names.join(", ")));
        }
    }
    notes
}

/// A command line may hold a whole script; the banner has one line for it.
fn one_line(text: &str) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(COMMAND).map(visible).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DASHES: &str =
        "---------------------------------------------------------------------------";

    fn config(vars: &[(&str, &str)]) -> Config {
        let vars = vars.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        let (config, warnings) = Config::from_env(vars);
        assert_eq!(warnings, []);
        config
    }

    fn banner(vars: &[(&str, &str)]) -> String {
        lines(&config(vars), "0.1.0", "app -x").join("\n")
    }

    #[test]
    fn default_run_is_short() {
        let want = format!(
            " VMA INFO: {DASHES}
 VMA INFO: VMA_VERSION: libshim 0.1.0
 VMA INFO: Cmd Line: app -x
 VMA INFO: {DASHES}
 VMA INFO: Log Level                      INFO                       [VMA_TRACELEVEL]
 VMA INFO: {DASHES}"
        );
        assert_eq!(banner(&[]), want);
    }

    #[test]
    fn the_usual_command_line() {
        let want = format!(
            " VMA INFO: {DASHES}
 VMA INFO: VMA_VERSION: libshim 0.1.0
 VMA INFO: Cmd Line: app -x
 VMA INFO: {DASHES}
 VMA INFO: VMA Spec                       Latency                    [VMA_SPEC]
 VMA INFO: Log Level                      INFO                       [VMA_TRACELEVEL]
 VMA INFO: Ring allocation logic TX       20(Ring per thread)        [VMA_RING_ALLOCATION_LOGIC_TX]
 VMA INFO: Ring On Device Memory TX       16384                      [VMA_RING_DEV_MEM_TX]
 VMA INFO: Tx QP WRE                      256                        [VMA_TX_WRE]
 VMA INFO: Tx QP WRE Batching             4                          [VMA_TX_WRE_BATCHING]
 VMA INFO: Rx QP WRE                      256                        [VMA_RX_WRE]
 VMA INFO: Rx QP WRE Batching             4                          [VMA_RX_WRE_BATCHING]
 VMA INFO: Rx Poll Loops                  -1                         [VMA_RX_POLL]
 VMA INFO: Rx Prefetch Bytes Before Poll  256                        [VMA_RX_PREFETCH_BYTES_BEFORE_POLL]
 VMA INFO: GRO max streams                0                          [VMA_GRO_STREAMS_MAX]
 VMA INFO: Select Poll (usec)             -1                         [VMA_SELECT_POLL]
 VMA INFO: Select Poll OS Ratio           1                          [VMA_SELECT_POLL_OS_RATIO]
 VMA INFO: Select Skip OS                 1                          [VMA_SELECT_SKIP_OS]
 VMA INFO: CQ Drain Interval (msec)       100                        [VMA_PROGRESS_ENGINE_INTERVAL]
 VMA INFO: CQ Interrupts Moderation       Disabled                   [VMA_CQ_MODERATION_ENABLE]
 VMA INFO: CQ Adaptive Moderation         Disabled                   [VMA_CQ_AIM_INTERVAL_MSEC]
 VMA INFO: CQ Keeps QP Full               Disabled                   [VMA_CQ_KEEP_QP_FULL]
 VMA INFO: TCP nodelay                    1                          [VMA_TCP_NODELAY]
 VMA INFO: Internal Thread Affinity       0                          [VMA_INTERNAL_THREAD_AFFINITY]
 VMA INFO: Thread mode                    Multi more threads than cores [VMA_THREAD_MODE]
 VMA INFO: Mem Allocate type              2 (Huge Pages)             [VMA_MEM_ALLOC_TYPE]
 VMA INFO: MTU                            4096                       [VMA_MTU]
 VMA INFO: {DASHES}"
        );
        let got = banner(&[
            ("VMA_SPEC", "latency"),
            ("VMA_MTU", "4096"),
            ("VMA_RING_ALLOCATION_LOGIC_TX", "20"),
            ("VMA_THREAD_MODE", "3"),
        ]);
        assert_eq!(got, want);
    }

    #[test]
    fn details_show_every_parameter_once_in_order() {
        let got = banner(&[("VMA_TRACELEVEL", "details")]);
        for line in [
            " VMA INFO: Log Level                      DETAILS                    [VMA_TRACELEVEL]",
            " VMA DETAILS: Log Details                    0                          [VMA_LOG_DETAILS]",
            " VMA DETAILS: Log File                                                  [VMA_LOG_FILE]",
            " VMA DETAILS: Ring allocation logic TX       0 (Ring per interface)     [VMA_RING_ALLOCATION_LOGIC_TX]",
            " VMA DETAILS: Ring limit per interface       0 (no limit)               [VMA_RING_LIMIT_PER_INTERFACE]",
            " VMA DETAILS: Rx Poll Yield                  Disabled                   [VMA_RX_POLL_YIELD]",
            " VMA DETAILS: CQ AIM Interrupts Rate (per sec) 5000                       [VMA_CQ_AIM_INTERRUPTS_RATE_PER_SEC]",
            " VMA DETAILS: TCP control thread             0 (Disabled)               [VMA_TCP_CTL_THREAD]",
            " VMA DETAILS: Exception handling mode        -1(just log debug message) [VMA_EXCEPTION_HANDLING]",
            " VMA DETAILS: Thread mode                    Multi spin lock            [VMA_THREAD_MODE]",
            " VMA DETAILS: Buffer batching mode           1 (Batch and reclaim buffers) [VMA_BUFFER_BATCHING_MODE]",
            " VMA DETAILS: MTU                            0 (follow actual MTU)      [VMA_MTU]",
            " VMA DETAILS: MSS                            0 (follow VMA_MTU)         [VMA_MSS]",
            " VMA DETAILS: TCP CC Algorithm               0 (LWIP)                   [VMA_TCP_CC_ALGO]",
        ] {
            assert!(got.lines().any(|l| l == line), "missing: {line}\n{got}");
        }
        let apart = [Opt::Spec, Opt::SpecParam1, Opt::SpecParam2];
        let labelled = |o: &&Opt| !o.row().label.is_empty() && !apart.contains(o);
        let want: Vec<_> = Opt::ALL.iter().filter(labelled).map(|o| o.name()).collect();
        let name = |l: &str| Some(l.rsplit_once('[')?.1.trim_end_matches(']').to_owned());
        assert_eq!(got.lines().filter_map(name).collect::<Vec<_>>(), want);
        assert!(!got.contains("DEBUG"));
    }

    #[test]
    fn silent_below_info() {
        for level in ["warn", "error", "panic", "none"] {
            assert_eq!(banner(&[("VMA_TRACELEVEL", level), ("VMA_BF", "0")]), "");
        }
        assert_eq!(
            banner(&[("VMA_SPEC", "7750")]),
            "",
            "that profile logs warnings only"
        );
        let quiet = config(&[("VMA_TRACELEVEL", "none")]);
        assert!(!lines_at(&quiet, "0", "", TraceLevel::Info).is_empty());
    }

    #[test]
    fn debug_adds_the_process_and_a_warning() {
        let got = banner(&[("VMA_TRACELEVEL", "debug")]);
        let pid = format!(" VMA DEBUG: Pid: {:>5}", std::process::id());
        assert!(got.lines().any(|l| l == pid), "{got}");
        assert!(
            got.lines()
                .last()
                .is_some_and(|l| l.starts_with(" VMA WARNING: ***"))
        );
    }

    #[test]
    fn lines_that_depend_on_their_value() {
        let got = banner(&[
            ("VMA_PROGRESS_ENGINE_INTERVAL", "0"),
            ("VMA_RX_UDP_POLL_OS_RATIO", "0"),
            ("VMA_TCP_MAX_SYN_RATE", "9"),
            ("VMA_RING_LIMIT_PER_INTERFACE", "3"),
            ("VMA_TX_NONBLOCKED_EAGAINS", "0"),
        ]);
        for line in [
            "CQ Drain Thread                Disabled                   [VMA_PROGRESS_ENGINE_INTERVAL]",
            "Rx UDP Poll OS Ratio           Disabled                   [VMA_RX_UDP_POLL_OS_RATIO]",
            "TCP max syn rate               9 (per sec)                [VMA_TCP_MAX_SYN_RATE]",
            "Ring limit per interface       3                          [VMA_RING_LIMIT_PER_INTERFACE]",
            "Tx non-blocked eagains         Disabled                   [VMA_TX_NONBLOCKED_EAGAINS]",
        ] {
            assert!(got.contains(line), "missing: {line}\n{got}");
        }
        assert!(!got.contains("VMA_PROGRESS_ENGINE_WCE_MAX"));
        let params = banner(&[("VMA_SPEC", "29west")]);
        assert!(
            params.contains("VMA Spec                       29West LBM Logic"),
            "{params}"
        );
        assert!(params.contains(
            "Param 1:                       5000                       [VMA_SPEC_PARAM1]"
        ));
    }

    #[test]
    fn notes_name_what_does_nothing() {
        let got = banner(&[
            ("VMA_BF", "1"),
            ("VMA_CLOSE_ON_DUP2", "0"),
            ("VMA_TCP_QUICKACK", "1"),
            ("VMA_RING_ALLOCATION_LOGIC_RX", "0"),
            ("VMA_RX_POLL", "5"),
        ]);
        assert!(got.ends_with(
            "\n VMA INFO: Note: set, but without effect in this build: VMA_BF, VMA_CLOSE_ON_DUP2\n \
             VMA INFO: Note: set, but without effect, for TCP stays with the kernel: VMA_TCP_QUICKACK"
        ), "{got}");
        let by_user = banner(&[("VMA_RING_ALLOCATION_LOGIC_RX", "11")]);
        assert_eq!(
            by_user.matches("one ring per interface").count(),
            1,
            "{by_user}"
        );
        let profile = banner(&[("VMA_SPEC", "mcd")]);
        assert!(!profile.contains("without effect"));
    }

    #[test]
    fn a_command_line_stays_one_line() {
        let script = format!("sh -c 'a\nb\x1b[1m'{}", "x".repeat(10_000));
        let got = lines(&config(&[]), "0.1.0", &script);
        assert!(
            got.iter()
                .all(|l| !l.contains(['\n', '\x1b']) && l.len() < 2100)
        );
    }

    #[test]
    fn other_lines() {
        assert_eq!(
            accelerated_line("eth0", "packet", "AF_PACKET works"),
            " VMA INFO: Interface eth0 is accelerated by packet: AF_PACKET works"
        );
        assert_eq!(warning_line(&Warning("x".to_owned())), " VMA WARNING: x");
    }
}
