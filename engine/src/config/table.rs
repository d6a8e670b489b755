//! The option table: every variable that is known, once.
//!
//! Parsing, the banner, the listing and the README are rendered from it; the order is the
//! banner's. `Opt` and its row come from the same line, so neither can exist without the other.
//! Names, defaults and labels are libvma's 9.8; where the default is Linux's instead, the help
//! says so.

use super::option::{
    Choice, Row, Show, choice, count, cpus, hex, int, int_or_zero, list, switch, text,
    text_or_empty,
};
use super::profile;

macro_rules! options {
    ($($opt:ident $name:literal = $row:expr;)+) => {
        /// An option; its row is [`Opt::row`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Opt {
            $(#[doc = concat!("`", $name, "`")] $opt,)+
        }

        impl Opt {
            /// Every option, in the order of the banner.
            pub const ALL: &'static [Opt] = &[$(Opt::$opt),+];
        }

        static TABLE: [Row; Opt::ALL.len()] = [$(Row { name: $name, ..$row }),+];
    };
}

impl Opt {
    /// Its row in the table.
    #[must_use]
    pub fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Its variable.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The option of a variable name, present or former.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        let is = |o: &&Opt| o.name() == name || o.row().former.contains(&name);
        Self::ALL.iter().find(is).copied()
    }
}

/// Variables that libvma once had; what to say when one is set.
pub(super) const REMOVED: &[(&str, &str)] = &[
    ("VMA_HUGETBL", "replaced by VMA_MEM_ALLOC_TYPE"),
    ("VMA_IPOIB", "InfiniBand interfaces are not accelerated"),
    ("VMA_TSO", "TCP stays with the kernel"),
];

const fn c(value: i64, names: &'static [&'static str], shown: &'static str) -> Choice {
    Choice {
        value,
        names,
        shown,
    }
}

// libvma's numbers skip `details`, so the values here are ranks, not those numbers.
const LEVELS: &[Choice] = &[
    c(0, &["none"], "NONE"),
    c(1, &["panic", "0"], "PANIC"),
    c(2, &["error", "1"], "ERROR"),
    c(3, &["warn", "warning", "2"], "WARNING"),
    c(4, &["info", "information", "3"], "INFO"),
    c(5, &["details"], "DETAILS"),
    c(6, &["debug", "4"], "DEBUG"),
    c(7, &["fine", "func", "5"], "FINE"),
    c(
        8,
        &["finer", "func+", "funcall", "func_all", "func-all", "6"],
        "FINER",
    ),
    c(9, &["all"], "ALL"),
];

const RING_LOGIC: &[Choice] = &[
    c(0, &["0"], "(Ring per interface)"),
    c(1, &["1"], "(Ring per ip)"),
    c(10, &["10"], "(Ring per socket)"),
    c(11, &["11"], "(Ring per user id)"),
    c(20, &["20"], "(Ring per thread)"),
    c(30, &["30"], "(Ring per core)"),
    c(31, &["31"], "(Ring per core - attach threads)"),
];

const THREAD_MODES: &[Choice] = &[
    c(0, &["0", "single"], "Single"),
    c(1, &["1", "spin"], "Multi spin lock"),
    c(2, &["2", "mutex"], "Multi mutex lock"),
    c(3, &["3", "plenty"], "Multi more threads than cores"),
];

const BATCHING: &[Choice] = &[
    c(0, &["0"], "(No batching buffers)"),
    c(1, &["1"], "(Batch and reclaim buffers)"),
    c(2, &["2"], "(Batch and don't reclaim buffers)"),
];

const MEMORY: &[Choice] = &[
    c(0, &["0", "anon"], "(Malloc)"),
    c(1, &["1", "contig"], "(Contig Pages)"),
    c(2, &["2", "hugepages"], "(Huge Pages)"),
];

const EXCEPTIONS: &[Choice] = &[
    c(-2, &["-2"], "(exit on failed startup)"),
    c(-1, &["-1"], "(just log debug message)"),
    c(0, &["0"], "(log debug and un-offload)"),
    c(1, &["1"], "(log error and un-offload)"),
    c(2, &["2"], "(log error and return error)"),
    c(3, &["3"], "(log error and abort)"),
];

const CONTROL_THREAD: &[Choice] = &[
    c(0, &["0"], "(Disabled)"),
    c(1, &["1"], "(With wakeup)"),
    c(2, &["2"], "(No wakeup)"),
];

const CONGESTION: &[Choice] = &[
    c(0, &["0"], "(LWIP)"),
    c(1, &["1"], "(CUBIC)"),
    c(2, &["2"], "(NONE)"),
];

const BACKENDS: &[Choice] = &[
    c(0, &["auto"], "auto"),
    c(1, &["verbs"], "verbs"),
    c(2, &["xdp"], "xdp"),
    c(3, &["packet"], "packet"),
    c(4, &["memory"], "memory"),
    c(5, &["off"], "off"),
];

const BANNER: &[Choice] = &[
    c(0, &["auto"], "auto"),
    c(1, &["always"], "always"),
    c(2, &["never"], "never"),
];

const MIXED_HOST: &[Choice] = &[
    c(0, &["auto"], "auto"),
    c(1, &["steer"], "steer"),
    c(2, &["share"], "share"),
];

/// Poll counts: -1 for ever.
const fn polls(default: i64) -> Row {
    int(default, -1, 100_000_000)
}

const INT_MAX: i64 = i32::MAX as i64;

options! {
    Spec "VMA_SPEC" = choice(0, profile::CHOICES).label("VMA Spec").acts()
        .help("Profile: a set of values for one kind of use. A variable that is set wins.");
    SpecParam1 "VMA_SPEC_PARAM1" = count(0).label("Param 1:").unit("µs")
        .idle("the values of these profiles are fixed")
        .help("First parameter of the profiles 29west and wombat_fh.");
    SpecParam2 "VMA_SPEC_PARAM2" = count(0).label("Param 2:")
        .idle("the values of these profiles are fixed")
        .help("Second parameter of the profiles 29west and wombat_fh.");

    TraceLevel "VMA_TRACELEVEL" = choice(4, LEVELS).label("Log Level").acts()
        .help("How much is logged; the banner appears from info on, everything in it from details on.");
    LogDetails "VMA_LOG_DETAILS" = int(0, 0, 3).label("Log Details")
        .idle("lines of the log have one form")
        .help("Log prefix: 1 thread, 2 process and thread, 3 time too.");
    LogColors "VMA_LOG_COLORS" = switch(true).label("Log Colors")
        .idle("the log has no colours")
        .help("Colours, if the log is a terminal.");
    LogFile "VMA_LOG_FILE" = text_or_empty("").label("Log File").acts()
        .help("Log here instead of standard error; %d becomes the process id.");
    LogCallback "VMA_LOG_CB_FUNC_PTR" = hex(0)
        .idle("libvma's programming interface is not here")
        .help("Address of a log function in the program.");
    StatsFile "VMA_STATS_FILE" = text_or_empty("").label("Stats File")
        .idle("shim-stats reads the statistics while the program runs")
        .help("Statistics of each socket are written here when it is closed; %d becomes the process id.");
    StatsDir "VMA_STATS_SHMEM_DIR" = text_or_empty("/tmp/").label("Stats shared memory directory").acts()
        .help("Directory of the shared statistics; empty: none.");
    NotifyDir "VMA_VMAD_NOTIFY_DIR" = text("/tmp/vma").label("SERVICE output directory")
        .idle("there is no service daemon")
        .help("Directory for libvma's service daemon.");
    StatsFdNum "VMA_STATS_FD_NUM" = int(100, 0, 1024).label("Stats FD Num (max)").unit("sockets").acts()
        .help("How many sockets have statistics.");
    ConfigFile "VMA_CONFIG_FILE" = text("/etc/libvma.conf").label("Conf File").acts()
        .help("File with rules that say which sockets stay with the kernel; %d becomes the process id.");
    ApplicationId "VMA_APPLICATION_ID" = text("VMA_DEFAULT_APPLICATION_ID").label("Application ID").acts()
        .help("Selects application-id blocks of the rules file.");
    CpuUsageStats "VMA_CPU_USAGE_STATS" = switch(false).label("Polling CPU idle usage")
        .idle("shim-stats shows how many polls found something")
        .help("Measure how busy the polling loops are.");
    HandleSigintr "VMA_HANDLE_SIGINTR" = switch(false).label("SigIntr Ctrl-C Handle")
        .idle("signals are the program's own")
        .help("Signals are the program's own here.");
    HandleSigsegv "VMA_HANDLE_SIGSEGV" = switch(false).label("SegFault Backtrace")
        .idle("signals are the program's own")
        .help("Signals are the program's own here.");

    RingLogicTx "VMA_RING_ALLOCATION_LOGIC_TX" = choice(0, RING_LOGIC).acts().show(Show::NumberNamed)
        .label("Ring allocation logic TX")
        .help("What gets a transmit ring of its own: 0 interface, 1 local address, 10 socket, 20 thread, 30 core, 31 core with pinning (each thread is bound to one).");
    RingLogicRx "VMA_RING_ALLOCATION_LOGIC_RX" = choice(0, RING_LOGIC).acts().show(Show::NumberNamed)
        .label("Ring allocation logic RX")
        .help("The same for receive rings.");
    RingMigrationTx "VMA_RING_MIGRATION_RATIO_TX" = int(100, -1, INT_MAX).acts().label("Ring migration ratio TX")
        .help("With rings per thread or core: sends between two looks at who makes them; the same stranger twice, and the socket gets his ring. -1 never.");
    RingMigrationRx "VMA_RING_MIGRATION_RATIO_RX" = int(100, -1, INT_MAX).acts().label("Ring migration ratio RX")
        .help("The same for receive calls.");
    RingLimit "VMA_RING_LIMIT_PER_INTERFACE" = count(0).acts().show(Show::Note("(no limit)", ""))
        .label("Ring limit per interface").unit("rings")
        .help("Most rings on one interface, then the least used is shared; 0: 64 in the process.");
    RingDevMemTx "VMA_RING_DEV_MEM_TX" = count(0).label("Ring On Device Memory TX").unit("bytes")
        .idle("memory on the card awaits a card to be tried on")
        .help("Memory on the card for each transmit ring.");
    TcpMaxSynRate "VMA_TCP_MAX_SYN_RATE" = int(0, 0, 100_000).show(Show::Note("(no limit)", "(per sec)"))
        .label("TCP max syn rate").unit("per s").tcp()
        .help("New connections per second and listener; 0 no limit.");
    TxSegsTcp "VMA_TX_SEGS_TCP" = count(1_000_000).label("Tx Mem Segs TCP").tcp()
        .help("TCP segments.");
    TxBufs "VMA_TX_BUFS" = count(200_000).label("Tx Mem Bufs").unit("buffers")
        .idle("buffers belong to rings: VMA_TX_WRE and VMA_RX_WRE say how many")
        .help("Transmit buffers of the process.");
    TxWre "VMA_TX_WRE" = count(2048).label("Tx QP WRE").acts()
        .help("Depth of a transmit ring of the verbs device.");
    TxWreBatching "VMA_TX_WRE_BATCHING" = int(64, 1, 64).label("Tx QP WRE Batching").acts()
        .help("Sends between two completions.");
    TxMaxInline "VMA_TX_MAX_INLINE" = int(204, 0, 884).label("Tx Max QP INLINE").unit("bytes").acts()
        .help("Largest frame put into the work request itself; 0 none.");
    TxMcLoopback "VMA_TX_MC_LOOPBACK" = switch(true).label("Tx MC Loopback").acts()
        .help("Initial IP_MULTICAST_LOOP.");
    TxNonblockedEagains "VMA_TX_NONBLOCKED_EAGAINS" = switch(true).label("Tx non-blocked eagains")
        .idle("always as its default: nothing is dropped silently")
        .help("A full ring is EAGAIN on a non-blocking socket, as Linux does it; 0 drops silently, libvma's default.");
    TxPrefetchBytes "VMA_TX_PREFETCH_BYTES" = int(256, 0, 65_535).label("Tx Prefetch Bytes").unit("bytes")
        .idle("a frame is read where the device has put it, nothing is fetched ahead")
        .help("Bytes fetched into the cache before sending.");
    RxBufs "VMA_RX_BUFS" = count(200_000).label("Rx Mem Bufs").unit("buffers")
        .idle("buffers belong to rings: VMA_TX_WRE and VMA_RX_WRE say how many")
        .help("Receive buffers of the process.");
    RxWre "VMA_RX_WRE" = count(16_000).label("Rx QP WRE").acts()
        .help("Depth of a receive ring; packet rings have 2048 to 8192 slots, verbs rings as many as fit 16 MiB (8192 at an MTU of 1500) unless it is set.");
    RxWreBatching "VMA_RX_WRE_BATCHING" = int(64, 1, 1024).label("Rx QP WRE Batching").acts()
        .help("Buffers given back to the card at a time.");
    RxBytesMin "VMA_RX_BYTES_MIN" = count(65_536).label("Rx Byte Min Limit").unit("bytes").acts()
        .help("Least receive limit of a socket, whatever SO_RCVBUF says; at the default SO_RCVBUF alone counts, as in Linux.");
    RxPoll "VMA_RX_POLL" = polls(100_000).label("Rx Poll Loops").unit("loops").acts()
        .help("Polls of a blocking receive before it sleeps; -1 for ever, 0 counts as 1.");
    RxPollInit "VMA_RX_POLL_INIT" = polls(0).label("Rx Poll Init Loops").unit("loops")
        .idle("a socket without a ring is the kernel's and does not poll")
        .help("The same for a socket without a ring.");
    RxUdpPollOsRatio "VMA_RX_UDP_POLL_OS_RATIO" = count(100).show(Show::Zero("Disabled"))
        .former(&["VMA_RX_POLL_OS_RATIO", "VMA_RX_SKIP_OS"]).label("Rx UDP Poll OS Ratio").unit("polls").acts()
        .help("Ring polls between two looks at the kernel socket; unset or 0: when the control thread says that it has something.");
    HwTsConversion "VMA_HW_TS_CONVERSION" = int(3, 0, 4).label("HW TS Conversion")
        .former(&["VMA_RX_UDP_HW_TS_CONVERSION"]).acts()
        .help("Time stamps of the card: 0 off, else its wall clock where it keeps this host's time.");
    RxPollYield "VMA_RX_POLL_YIELD" = count(0).show(Show::Zero("Disabled")).label("Rx Poll Yield")
        .unit("loops").acts()
        .help("Empty polls between two yields of the processor; 0 none.");
    RxPrefetchBytes "VMA_RX_PREFETCH_BYTES" = int(256, 32, 2044).label("Rx Prefetch Bytes").unit("bytes")
        .idle("a frame is read where the device has put it, nothing is fetched ahead")
        .help("Bytes of a received frame fetched into the cache.");
    RxPrefetchBeforePoll "VMA_RX_PREFETCH_BYTES_BEFORE_POLL" = int_or_zero(0, 32, 2044)
        .label("Rx Prefetch Bytes Before Poll").unit("bytes")
        .idle("a frame is read where the device has put it, nothing is fetched ahead")
        .help("The same before the poll; 0 none.");
    RxCqDrainRate "VMA_RX_CQ_DRAIN_RATE_NSEC" = count(0).show(Show::Zero("Disabled"))
        .label("Rx CQ Drain Rate").unit("ns")
        .idle("a receive call looks at its ring only when its queue is empty; the control thread empties the others")
        .help("Poll the ring although data is ready, this often; 0 never.");
    GroStreamsMax "VMA_GRO_STREAMS_MAX" = count(32).label("GRO max streams").tcp()
        .help("TCP streams that are merged.");
    Tcp3tRules "VMA_TCP_3T_RULES" = switch(false).label("TCP 3T rules").tcp()
        .help("Steer TCP by local address and port alone.");
    Udp3tRules "VMA_UDP_3T_RULES" = switch(true).label("UDP 3T rules").acts()
        .help("Steer connected UDP sockets by local address and port alone.");
    EthMcL2Only "VMA_ETH_MC_L2_ONLY_RULES" = switch(false).label("ETH MC L2 only rules").acts()
        .help("Steer multicast by its MAC address alone.");
    McForceFlowtag "VMA_MC_FORCE_FLOWTAG" = switch(false).label("Force Flowtag for MC")
        .idle("flow tags are not used")
        .help("Flow tags for multicast in spite of SO_REUSEADDR.");
    SelectPoll "VMA_SELECT_POLL" = polls(100_000).label("Select Poll (usec)").unit("µs").acts()
        .help("Time that select, poll and epoll_wait poll before they sleep; -1 for ever, 0 not at all.");
    SelectPollOsForce "VMA_SELECT_POLL_OS_FORCE" = switch(false).deprecated()
        .help("Sets VMA_SELECT_POLL_OS_RATIO and VMA_SELECT_SKIP_OS to 1.");
    SelectPollOsRatio "VMA_SELECT_POLL_OS_RATIO" = count(10).show(Show::Zero("Disabled"))
        .label("Select Poll OS Ratio").unit("polls").acts()
        .help("Ring polls between two looks at the kernel in that loop, in sets with other descriptors.");
    SelectSkipOs "VMA_SELECT_SKIP_OS" = count(4).show(Show::Zero("Disabled"))
        .label("Select Skip OS").unit("calls").acts()
        .help("Once in so many calls the kernel's descriptors are looked at first; 0 never.");
    ProgressInterval "VMA_PROGRESS_ENGINE_INTERVAL" = count(10).label("CQ Drain Interval (msec)").unit("ms")
        .idle("always 10 ms after the last poll")
        .help("Rings that nobody polls are drained this often; 0 never.");
    ProgressMax "VMA_PROGRESS_ENGINE_WCE_MAX" = count(10_000).label("CQ Drain WCE (max)").unit("frames")
        .idle("always 10 ms after the last poll")
        .help("Most frames drained at a time.");
    CqModeration "VMA_CQ_MODERATION_ENABLE" = switch(true).label("CQ Interrupts Moderation").acts()
        .help("Interrupt moderation; off when something polls for ever.");
    CqModerationCount "VMA_CQ_MODERATION_COUNT" = count(48).label("CQ Moderation Count").unit("frames").acts()
        .help("Frames that one interrupt announces.");
    CqModerationPeriod "VMA_CQ_MODERATION_PERIOD_USEC" = count(50).label("CQ Moderation Period (usec)").unit("µs").acts()
        .help("Longest delay of an interrupt.");
    CqAimMaxCount "VMA_CQ_AIM_MAX_COUNT" = count(560).label("CQ AIM Max Count").unit("frames")
        .idle("moderation is fixed: VMA_CQ_MODERATION_COUNT and _PERIOD_USEC")
        .help("Largest count of adaptive moderation.");
    CqAimMaxPeriod "VMA_CQ_AIM_MAX_PERIOD_USEC" = count(250).label("CQ AIM Max Period (usec)").unit("µs")
        .idle("moderation is fixed: VMA_CQ_MODERATION_COUNT and _PERIOD_USEC")
        .help("Longest period of adaptive moderation.");
    CqAimInterval "VMA_CQ_AIM_INTERVAL_MSEC" = count(250).label("CQ AIM Interval (msec)").unit("ms")
        .idle("moderation is fixed: VMA_CQ_MODERATION_COUNT and _PERIOD_USEC")
        .help("How often moderation adapts; 0 never.");
    CqAimRate "VMA_CQ_AIM_INTERRUPTS_RATE_PER_SEC" = count(5000).label("CQ AIM Interrupts Rate (per sec)").unit("per s")
        .idle("moderation is fixed: VMA_CQ_MODERATION_COUNT and _PERIOD_USEC")
        .help("Interrupt rate that it aims for.");
    CqPollBatchMax "VMA_CQ_POLL_BATCH_MAX" = int(16, 1, 128).label("CQ Poll Batch (max)").unit("frames").acts()
        .help("Most frames taken by one poll.");
    CqKeepQpFull "VMA_CQ_KEEP_QP_FULL" = switch(true).label("CQ Keeps QP Full")
        .idle("a buffer goes back to the card as soon as its datagram is copied: none are held, none are spare")
        .help("Rather drop a frame than leave the card without a buffer.");
    QpCompensation "VMA_QP_COMPENSATION_LEVEL" = count(256).label("QP Compensation Level").unit("buffers")
        .idle("a buffer goes back to the card as soon as its datagram is copied: none are held, none are spare")
        .help("Spare receive buffers of a ring.");
    OffloadedSockets "VMA_OFFLOADED_SOCKETS" = switch(true).label("Offloaded Sockets").acts()
        .help("Accelerate sockets; 0 leaves all to the kernel.");
    TimerResolution "VMA_TIMER_RESOLUTION_MSEC" = count(10).label("Timer Resolution (msec)").unit("ms")
        .idle("the control thread has no tick: it sleeps until something is due")
        .help("Tick of the control thread.");
    TcpTimerResolution "VMA_TCP_TIMER_RESOLUTION_MSEC" = count(100).label("TCP Timer Resolution (msec)")
        .unit("ms").tcp().help("Tick of TCP.");
    TcpCtlThread "VMA_TCP_CTL_THREAD" = choice(0, CONTROL_THREAD).show(Show::NumberNamed)
        .label("TCP control thread").tcp().help("TCP control in a thread.");
    TcpTimestamp "VMA_TCP_TIMESTAMP_OPTION" = int(0, 0, 2).label("TCP timestamp option").tcp()
        .help("0 off, 1 on, 2 as the kernel.");
    TcpNodelay "VMA_TCP_NODELAY" = switch(false).show(Show::Plain).label("TCP nodelay").tcp()
        .help("TCP_NODELAY from the start.");
    TcpQuickack "VMA_TCP_QUICKACK" = switch(false).show(Show::Plain).label("TCP quickack").tcp()
        .help("TCP_QUICKACK from the start.");
    ExceptionHandling "VMA_EXCEPTION_HANDLING" = choice(-1, EXCEPTIONS).show(Show::NumberNamed)
        .label("Exception handling mode")
        .idle("always the same: what the engine cannot do, the kernel does, with a reason")
        .help("What an unsupported option does in libvma; here such a socket goes to the kernel.");
    TcpAvoidSysCalls "VMA_AVOID_SYS_CALLS_ON_TCP_FD" = switch(false).label("Avoid sys-calls on tcp fd").tcp()
        .help("Answer options without the kernel.");
    AllowPrivilegedSockOpt "VMA_ALLOW_PRIVILEGED_SOCK_OPT" = switch(true).label("Allow privileged sock opt")
        .idle("the kernel decides on options, neighbours and descriptors")
        .help("Accept options for which the kernel wants a privilege.");
    WaitAfterJoin "VMA_WAIT_AFTER_JOIN_MSEC" = count(0).label("Delay after join (msec)").unit("ms")
        .idle("a join returns when its rule is made")
        .help("Sleep after joining a group.");
    ThreadAffinity "VMA_INTERNAL_THREAD_AFFINITY" = cpus("-1").label("Internal Thread Affinity")
        .idle("the control thread runs where the program may: taskset")
        .help("Processors of the control thread; -1 any.");
    ThreadCpuset "VMA_INTERNAL_THREAD_CPUSET" = text_or_empty("").label("Internal Thread Cpuset")
        .idle("the control thread runs where the program may: taskset")
        .help("Cpuset of the control thread; empty: the program's.");
    ThreadArmCq "VMA_INTERNAL_THREAD_ARM_CQ" = switch(false).label("Internal Thread Arm CQ")
        .idle("the control thread has no tick: it sleeps until something is due")
        .help("Wake the control thread for every frame.");
    ThreadMode "VMA_THREAD_MODE" = choice(1, THREAD_MODES).label("Thread mode").acts()
        .help("Locks: 0 none (one thread), 1 spin, 2 mutex, 3 spin and yield (more threads than cores).");
    BufferBatching "VMA_BUFFER_BATCHING_MODE" = choice(1, BATCHING).show(Show::NumberNamed)
        .label("Buffer batching mode")
        .idle("a buffer goes back to the card as soon as its datagram is copied: none are held, none are spare")
        .help("Buffers per socket: 0 one by one, 1 in batches, 2 in batches that are kept.");
    MemAllocType "VMA_MEM_ALLOC_TYPE" = choice(1, MEMORY).show(Show::NumberNamed).label("Mem Allocate type").acts()
        .help("Memory of buffers: 0 ordinary, 1 and 2 huge pages if there are any.");
    NeighUcArp "VMA_NEIGH_UC_ARP_QUATA" = count(3).label("Num of UC ARPs")
        .idle("the kernel decides on options, neighbours and descriptors")
        .help("Neighbours are the kernel's here.");
    NeighUcArpDelay "VMA_NEIGH_UC_ARP_DELAY_MSEC" = count(10_000).label("UC ARP delay (msec)").unit("ms")
        .idle("the kernel decides on options, neighbours and descriptors")
        .help("Neighbours are the kernel's here.");
    NeighErrRetries "VMA_NEIGH_NUM_ERR_RETRIES" = count(1).label("Num of neigh restart retries")
        .idle("the kernel decides on options, neighbours and descriptors")
        .help("Neighbours are the kernel's here.");
    NetlinkTimer "VMA_NETLINK_TIMER" = count(10_000).unit("ms")
        .idle("the control thread has no tick: it sleeps until something is due")
        .help("Netlink is followed by event here.");
    SocketXtreme "VMA_SOCKETXTREME" = switch(false).label("SocketXtreme mode")
        .idle("libvma's programming interface is not here")
        .help("libvma's programming interface for rings.");
    BlueFlame "VMA_BF" = switch(true).label("BF (Blue Flame)")
        .idle("the provider of libibverbs decides on doorbells: MLX5_SHUT_UP_BF")
        .help("Write-combined doorbells.");
    Fork "VMA_FORK" = switch(true).label("fork() support").acts()
        .help("Prepare verbs memory for fork.");
    CloseOnDup2 "VMA_CLOSE_ON_DUP2" = switch(true).label("close on dup2()")
        .idle("the kernel decides on options, neighbours and descriptors")
        .help("dup2 does here what Linux does.");
    Mtu "VMA_MTU" = int_or_zero(0, 68, 65_535).show(Show::Note("(follow actual MTU)", "")).label("MTU")
        .unit("bytes").acts()
        .help("Largest IP packet sent in one piece; 0 as the route and interface say, and never more.");
    Mss "VMA_MSS" = int(0, 0, 65_535).show(Show::Note("(follow VMA_MTU)", "")).label("MSS").unit("bytes").tcp()
        .help("Largest TCP segment.");
    TcpCcAlgo "VMA_TCP_CC_ALGO" = choice(0, CONGESTION).show(Show::NumberNamed).label("TCP CC Algorithm").tcp()
        .help("Congestion control.");
    DeferredClose "VMA_DEFERRED_CLOSE" = switch(false).label("Deferred close")
        .idle("the kernel decides on options, neighbours and descriptors")
        .help("Close the kernel's descriptor late.");
    RxPollOnTxTcp "VMA_RX_POLL_ON_TX_TCP" = switch(false).label("Polling Rx on Tx TCP").tcp()
        .help("Poll for acknowledgements while sending.");
    DummySendGetsockname "VMA_TRIGGER_DUMMY_SEND_GETSOCKNAME" = switch(false)
        .label("Trig dummy send getsockname()").tcp()
        .help("getsockname warms the send path.");
    DbgSendMcCounter "VMA_DBG_SEND_MCPKT_COUNTER" = count(0).unit("frames")
        .idle("libvma's debugging aids are not here")
        .help("libvma's debugging aid.");
    DbgSendMcGroup "VMA_DBG_SEND_MCPKT_MCGROUP" = text_or_empty("")
        .idle("libvma's debugging aids are not here")
        .help("libvma's debugging aid.");
    TimeMeasureSamples "VMA_TIME_MEASURE_NUM_SAMPLES" = count(10_000)
        .idle("libvma's debugging aids are not here")
        .help("libvma's debugging aid.");
    TimeMeasureFile "VMA_TIME_MEASURE_DUMP_FILE" = text_or_empty("")
        .idle("libvma's debugging aids are not here")
        .help("libvma's debugging aid.");

    Backend "SHIM_BACKEND" = choice(0, BACKENDS).label("Backend").acts()
        .help("Device interface: auto takes the first of verbs, xdp and packet that works; off leaves all to the kernel.");
    Interfaces "SHIM_INTERFACES" = list("").label("Interfaces").acts()
        .help("Interfaces to accelerate; empty: every usable one but loopback.");
    Banner "SHIM_BANNER" = choice(0, BANNER).label("Banner").acts()
        .help("auto: a child of a program that printed it stays silent.");
    MixedHost "SHIM_MIXED_HOST" = choice(0, MIXED_HOST).label("Mixed host").acts()
        .help("Whether kernel sockets of this host get their copy of steered multicast: auto while there are any, share always, steer never.");
}
