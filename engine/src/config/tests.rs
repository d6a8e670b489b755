use super::*;

fn from(vars: &[(&str, &str)]) -> (Config, Vec<Warning>) {
    Config::from_env(vars.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())))
}

fn quiet(vars: &[(&str, &str)]) -> Config {
    let (config, warnings) = from(vars);
    assert_eq!(warnings, [], "{vars:?}");
    config
}

fn complaint(vars: &[(&str, &str)]) -> (Config, String) {
    let (config, warnings) = from(vars);
    assert_eq!(warnings.len(), 1, "{vars:?}: {warnings:?}");
    (config, warnings[0].0.clone())
}

#[test]
fn every_default_survives_its_own_text() {
    for &opt in Opt::ALL {
        let row = opt.row();
        let default = Value::from(row.default);
        assert_eq!(
            row.parse(&row.render(&default)),
            Ok(default),
            "{}",
            row.name
        );
    }
}

#[test]
fn every_choice_survives_every_spelling() {
    for &opt in Opt::ALL {
        let Kind::Choice(choices) = opt.row().kind else {
            continue;
        };
        for choice in choices {
            for name in choice.names {
                for text in [(*name).to_owned(), name.to_uppercase()] {
                    assert_eq!(
                        opt.row().parse(&text),
                        Ok(Value::Int(choice.value)),
                        "{text}"
                    );
                }
            }
        }
    }
}

#[test]
fn names_are_unique_and_documented() {
    let mut names = Vec::new();
    for row in Opt::ALL.iter().map(|o| o.row()) {
        assert!(row.name.starts_with("VMA_") || row.name.starts_with("SHIM_"));
        assert!(row.help.ends_with('.'), "{}", row.name);
        assert!(row.label.len() <= 32, "{}", row.label);
        names.push(row.name);
        names.extend(row.former);
    }
    names.extend(table::REMOVED.iter().map(|(name, _)| name));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn defaults_without_environment() {
    let config = quiet(&[
        ("PATH", "/bin"),
        ("XLIO_RX_POLL", "7"),
        ("vma_rx_poll", "7"),
    ]);
    for &opt in Opt::ALL {
        assert!(config.is_default(opt), "{}", opt.name());
        assert!(!config.was_set(opt));
    }
    assert_eq!(config.thread_mode(), ThreadMode::Spin);
    assert_eq!(config.trace_level(), TraceLevel::Info);
    assert_eq!(config.backend(), BackendChoice::Auto);
    assert_eq!(config.banner(), BannerMode::Auto);
    assert_eq!(config.mixed_host(), MixedHost::Auto);
    assert!(config.interfaces().is_empty());
    assert!(config.flag(Opt::TxNonblockedEagains));
    assert_eq!(config.int(Opt::RxPoll), 100_000);
    assert_eq!(config.text(Opt::ConfigFile), "/etc/libvma.conf");
}

#[test]
fn the_usual_command_line() {
    let config = quiet(&[
        ("VMA_SPEC", "latency"),
        ("VMA_MTU", "4096"),
        ("VMA_RING_ALLOCATION_LOGIC_TX", "20"),
        ("VMA_THREAD_MODE", "3"),
    ]);
    assert_eq!(config.profile(), Profile::Latency);
    assert_eq!(
        config.thread_mode(),
        ThreadMode::Yield,
        "the variable wins over the profile"
    );
    assert_eq!(config.int(Opt::Mtu), 4096);
    assert_eq!(config.int(Opt::RingLogicTx), 20);
    assert_eq!(config.int(Opt::RxPoll), -1);
    assert!(config.was_set(Opt::Mtu) && !config.was_set(Opt::RxPoll));
    assert!(
        !config.flag(Opt::CqModeration),
        "pointless when something polls for ever"
    );
}

#[test]
fn every_profile_by_every_name() {
    for &profile in Profile::ALL {
        for name in profile.names() {
            let config = quiet(&[("VMA_SPEC", name)]);
            assert_eq!(config.profile(), profile, "{name}");
            for &(opt, preset) in profile.settings() {
                let raised = opt == Opt::RxPoll && preset == Preset::Int(0);
                let want = if raised { Value::Int(1) } else { preset.into() };
                assert_eq!(*config.value(opt), want, "{name} {}", opt.name());
                assert!(!config.was_set(opt));
                let row = opt.row();
                let text = row.render(&preset.into());
                assert_eq!(row.parse(&text), Ok(preset.into()), "{name} {}", row.name);
            }
        }
    }
}

#[test]
fn profiles_are_what_libvma_says() {
    let of = |name: &str| quiet(&[("VMA_SPEC", name)]);
    let latency = of("LATENCY");
    assert_eq!(latency.int(Opt::SelectPollOsRatio), 1);
    assert_eq!(latency.int(Opt::RxUdpPollOsRatio), 100);
    assert_eq!(latency.int(Opt::ProgressInterval), 100);
    assert_eq!(latency.thread_mode(), ThreadMode::Single);
    assert_eq!(of("10").int(Opt::RxUdpPollOsRatio), 0);
    assert_eq!(of("29west").int(Opt::SpecParam1), 5000);
    assert_eq!(of("wombat-fh").int(Opt::SelectSkipOs), 20);
    assert_eq!(of("mcd").int(Opt::RingLogicRx), 31);
    assert!(!of("mcd_irq").flag(Opt::CqModeration));
    assert_eq!(of("rti_783").int(Opt::RxPoll), -1);
    assert_eq!(of("7750").trace_level(), TraceLevel::Warn);
    assert_eq!(of("multi-ring-latency").int(Opt::RingLogicTx), 20);
    let config = quiet(&[("VMA_SPEC", "29"), ("VMA_SPEC_PARAM2", "7")]);
    assert_eq!(
        (config.int(Opt::SpecParam1), config.int(Opt::SpecParam2)),
        (5000, 7)
    );
}

#[test]
fn unknown_profiles() {
    let (config, text) = complaint(&[("VMA_SPEC", "latncy")]);
    assert_eq!(config.profile(), Profile::None);
    assert_eq!(
        text,
        "VMA_SPEC=\"latncy\" is not known, did you mean latency?; using the default none"
    );
    let (config, text) = complaint(&[("VMA_SPEC", "Nginx")]);
    assert_eq!(config.profile(), Profile::None);
    assert!(text.contains("libxlio") && text.contains("none"), "{text}");
    let (_, text) = complaint(&[("VMA_SPEC", "qqqqqqqqqqqq")]);
    assert!(
        text.contains("one of none, ultra-latency, latency"),
        "{text}"
    );
}

#[test]
fn misspelt_names() {
    for (wrong, right) in [
        ("VMA_RX_POL", "VMA_RX_POLL"),
        ("VMA_TRACE_LEVEL", "VMA_TRACELEVEL"),
        ("VMA_SPCE", "VMA_SPEC"),
        ("SHIM_MTU", "VMA_MTU"),
        ("SHIM_INTERFACE", "SHIM_INTERFACES"),
        ("VMA_THREADMODE", "VMA_THREAD_MODE"),
    ] {
        let (_, text) = complaint(&[(wrong, "1")]);
        assert_eq!(
            text,
            format!("{wrong} is not a known option and is ignored; did you mean {right}?")
        );
    }
    let (_, text) = complaint(&[("VMA_ZZZZZZZZ", "1")]);
    assert_eq!(text, "VMA_ZZZZZZZZ is not a known option and is ignored");
}

#[test]
fn bad_values_keep_what_was_there() {
    for (name, value, says) in [
        (
            "VMA_RX_POLL",
            "abc",
            "is not a number (-1 to 100000000); using the default 100000",
        ),
        (
            "VMA_RX_POLL",
            "12x",
            "is not a number (-1 to 100000000); using the default 100000",
        ),
        (
            "VMA_RX_POLL",
            "-2",
            "is out of range (-1 to 100000000); using the default 100000",
        ),
        ("VMA_RX_POLL", "99999999999999999999", "is out of range"),
        (
            "VMA_MTU",
            "67",
            "is out of range (0, or 68 to 65535); using the default 0",
        ),
        (
            "VMA_TX_WRE",
            "-1",
            "is out of range (0 or more); using the default 2048",
        ),
        (
            "VMA_TX_WRE_BATCHING",
            "65",
            "is out of range (1 to 64); using the default 64",
        ),
        (
            "VMA_THREAD_MODE",
            "4",
            "is not one of 0, 1, 2, 3; using the default 1",
        ),
        (
            "VMA_RING_ALLOCATION_LOGIC_RX",
            "2",
            "is not one of 0, 1, 10, 11, 20, 30, 31",
        ),
        (
            "VMA_TRACELEVEL",
            "debgu",
            "is not known, did you mean debug?; using the default info",
        ),
        (
            "VMA_BF",
            "maybe",
            "is not a switch (0 or 1); using the default 1",
        ),
        (
            "VMA_INTERNAL_THREAD_AFFINITY",
            "3-1",
            "using the default -1",
        ),
        (
            "VMA_LOG_CB_FUNC_PTR",
            "-1",
            "is not a hexadecimal number; using the default 0x0",
        ),
        (
            "VMA_LOG_CB_FUNC_PTR",
            "xyz",
            "is not a hexadecimal number; using the default 0x0",
        ),
        (
            "VMA_SELECT_POLL",
            "  ",
            "is empty; using the default 100000",
        ),
        (
            "VMA_CONFIG_FILE",
            "",
            "is empty; using the default /etc/libvma.conf",
        ),
        ("VMA_BF", "a\nb", "is not a switch"),
    ] {
        let (config, text) = complaint(&[(name, value)]);
        assert!(text.starts_with(name) && text.contains(says), "{text}");
        assert!(!text.contains('\n'));
        let opt = Opt::find(name).unwrap();
        assert!(config.is_default(opt) && !config.was_set(opt));
    }
    let (config, text) = complaint(&[("VMA_SPEC", "latency"), ("VMA_RX_POLL", "x")]);
    assert!(text.ends_with("using the profile's -1"), "{text}");
    assert_eq!(config.int(Opt::RxPoll), -1);
    let (_, text) = complaint(&[("VMA_BF", &"x".repeat(10_000))]);
    assert!(text.len() < 300);
}

#[test]
fn spaces_and_spellings() {
    let config = quiet(&[
        ("VMA_RX_POLL", " 5 \t"),
        ("VMA_TRACELEVEL", " FuncALL"),
        ("VMA_BF", "Off"),
        ("VMA_FORK", "no"),
        ("VMA_TX_MC_LOOPBACK", "FALSE"),
        ("VMA_SOCKETXTREME", "yes"),
        ("VMA_LOG_CB_FUNC_PTR", "0x7fff"),
        ("VMA_INTERNAL_THREAD_AFFINITY", "0,4-7"),
        ("VMA_STATS_SHMEM_DIR", ""),
        ("SHIM_INTERFACES", " eth0, eth1,,ens3f0 "),
        ("SHIM_BACKEND", "Packet"),
    ]);
    assert_eq!(config.int(Opt::RxPoll), 5);
    assert_eq!(config.trace_level(), TraceLevel::Finer);
    assert!(!config.flag(Opt::BlueFlame) && !config.flag(Opt::Fork));
    assert!(!config.flag(Opt::TxMcLoopback) && config.flag(Opt::SocketXtreme));
    assert_eq!(config.int(Opt::LogCallback), 0x7fff);
    assert_eq!(
        config.text(Opt::StatsDir),
        "",
        "empty switches publication off"
    );
    assert_eq!(config.interfaces(), ["eth0", "eth1", "ens3f0"]);
    assert_eq!(config.backend(), BackendChoice::Packet);
    assert_eq!(quiet(&[("VMA_RX_POLL", "0")]).int(Opt::RxPoll), 1);
}

#[test]
fn levels_have_libvmas_numbers() {
    for (text, level, filter) in [
        ("none", TraceLevel::None, log::LevelFilter::Off),
        ("0", TraceLevel::Panic, log::LevelFilter::Off),
        ("1", TraceLevel::Error, log::LevelFilter::Error),
        ("2", TraceLevel::Warn, log::LevelFilter::Warn),
        ("3", TraceLevel::Info, log::LevelFilter::Info),
        ("details", TraceLevel::Details, log::LevelFilter::Info),
        ("4", TraceLevel::Debug, log::LevelFilter::Debug),
        ("5", TraceLevel::Fine, log::LevelFilter::Trace),
        ("6", TraceLevel::Finer, log::LevelFilter::Trace),
        ("all", TraceLevel::Finer, log::LevelFilter::Trace),
    ] {
        let config = quiet(&[("VMA_TRACELEVEL", text)]);
        assert_eq!(config.trace_level(), level, "{text}");
        assert_eq!(level.filter(), filter);
    }
    assert!(TraceLevel::Details > TraceLevel::Info && TraceLevel::Debug > TraceLevel::Details);
}

#[test]
fn former_deprecated_and_removed_names() {
    let (config, text) = complaint(&[("VMA_RX_SKIP_OS", "7")]);
    assert_eq!(config.int(Opt::RxUdpPollOsRatio), 7);
    assert_eq!(
        text,
        "VMA_RX_SKIP_OS is a former name, use VMA_RX_UDP_POLL_OS_RATIO"
    );
    let both = [
        ("VMA_RX_POLL_OS_RATIO", "7"),
        ("VMA_RX_UDP_POLL_OS_RATIO", "8"),
    ];
    let (config, text) = complaint(&both);
    assert_eq!(config.int(Opt::RxUdpPollOsRatio), 8);
    assert!(text.contains("VMA_RX_POLL_OS_RATIO is ignored"), "{text}");
    let (config, text) = complaint(&[
        ("VMA_SELECT_POLL_OS_FORCE", "1"),
        ("VMA_SELECT_SKIP_OS", "9"),
    ]);
    assert!(text.contains("deprecated"), "{text}");
    assert_eq!(
        (
            config.int(Opt::SelectPollOsRatio),
            config.int(Opt::SelectSkipOs)
        ),
        (1, 9)
    );
    let (_, text) = complaint(&[("VMA_HUGETBL", "1")]);
    assert!(
        text.contains("removed") && text.contains("VMA_MEM_ALLOC_TYPE"),
        "{text}"
    );
}

#[test]
fn first_of_two_counts() {
    assert_eq!(
        quiet(&[("VMA_RX_POLL", "1"), ("VMA_RX_POLL", "2")]).int(Opt::RxPoll),
        1
    );
}

#[test]
fn idle_options_are_named_when_set() {
    let config = quiet(&[
        ("VMA_BF", "1"),
        ("VMA_TCP_NODELAY", "1"),
        ("VMA_RX_POLL", "9"),
    ]);
    let idle = |effect| config.set_without_effect(effect).collect::<Vec<_>>();
    assert_eq!(idle(Effect::NotYet), [Opt::BlueFlame]);
    assert_eq!(idle(Effect::Tcp), [Opt::TcpNodelay]);
    assert_eq!(idle(Effect::Yes), []);
}

#[test]
fn process_id_in_file_names() {
    assert_eq!(expand_pid("/tmp/vma.%d.log", 42), "/tmp/vma.42.log");
    assert_eq!(expand_pid("%d%d", 42), "42%d");
    assert_eq!(expand_pid("/tmp/x", 42), "/tmp/x");
}

#[test]
fn tables_name_every_option_and_profile() {
    let (table, list, profiles) = (markdown(), listing(), profiles_markdown());
    for row in Opt::ALL.iter().map(|o| o.row()) {
        assert!(table.contains(&format!("`{}`", row.name)), "{}", row.name);
        assert!(list.contains(&format!("{}=", row.name)), "{}", row.name);
    }
    for profile in Profile::ALL {
        assert!(profiles.contains(&format!("`{}`", profile.name())));
    }
    assert!(
        table
            .lines()
            .take_while(|l| l.starts_with('|'))
            .all(|l| l.matches('|').count() == 5)
    );
}

proptest::proptest! {
    /// Whatever is in the environment, the program runs, and every warning is one line that
    /// names its variable.
    #[test]
    fn no_environment_breaks_it(
        vars in proptest::collection::vec(("(VMA|SHIM)_[A-Z_]{0,6}", ".{0,12}"), 0..6),
        at in 0..Opt::ALL.len(),
        value in ".{0,24}|-?[0-9]{0,22}|0x[0-9a-f]{0,20}",
    ) {
        let opt = Opt::ALL[at];
        let mut vars = vars;
        vars.push((opt.name().to_owned(), value));
        let (config, warnings) = Config::from_env(vars.clone());
        for warning in warnings {
            assert!(vars.iter().any(|(name, _)| warning.0.starts_with(name.as_str())), "{warning}");
            assert!(!warning.0.contains('\n'));
        }
        // What is in effect is always something that could have been written.
        for &opt in Opt::ALL {
            let (row, value) = (opt.row(), config.value(opt));
            assert_eq!(row.parse(&row.render(value)).as_ref(), Ok(value), "{}", row.name);
        }
    }

    /// A rules file of any content is read; what cannot be understood costs one warning a line.
    #[test]
    fn no_rules_file_breaks_it(
        text in "((use|log|application-id)? ?(os|vma|\\*)? ?(udp_sender)? ?[0-9.*:/-]{0,9}.{0,3}\n?){0,5}",
    ) {
        let (rules, warnings) = Rules::parse(&text);
        assert!(warnings.len() <= text.matches('\n').count() + 1);
        let any = std::net::SocketAddrV4::new(std::net::Ipv4Addr::UNSPECIFIED, 0);
        let _ = rules.lookup("a", "*", Role::UdpSender, any, Some(any));
    }
}

#[test]
fn what_does_nothing_says_why() {
    for opt in Opt::ALL {
        let row = opt.row();
        let idle = row.effect == Effect::NotYet;
        assert_eq!(idle, !row.idle.is_empty(), "{}", row.name);
    }
}
