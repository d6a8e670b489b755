//! C programs under the library and valgrind's memcheck: no invalid access, no use of what was
//! never written, in the program's memory or the library's.

use std::time::Duration;
use tests::check::{Case, SLEEP};
use tests::require;

/// env(1) starts the program, so children are followed. A search for leaks reads all mappings,
/// and in a forked child the rings are not there.
const MEMCHECK: [&str; 6] = [
    "valgrind",
    "--quiet",
    "--error-exitcode=33",
    "--trace-children=yes",
    "--leak-check=no",
    "--vgdb=no",
];

fn clean(case: Case) {
    if !require::program("valgrind") {
        return;
    }
    // Spinning under valgrind would only be slow.
    case.wrapper(&MEMCHECK)
        .modes(&[SLEEP])
        .limit(Duration::from_secs(60))
        .run();
}

macro_rules! clean {
    ($($name:ident: $victim:literal $($arg:literal)*, rx $rx:literal tx $tx:literal;)+) => { $(
        #[test]
        fn $name() {
            clean(Case::new($victim).args(&[$($arg),*]).engine($rx, $tx));
        }
    )+ };
}

clean! {
    memcheck_calls: "echo" "recvmsg", rx 4 tx 3;
    memcheck_fragments: "fragments", rx 1 tx 0;
    memcheck_groups: "mc_several", rx 1 tx 0;
    memcheck_epoll: "epoll_oneshot", rx 1 tx 0;
    memcheck_fork: "fork_read", rx 1 tx 0;
}
