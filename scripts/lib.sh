# shellcheck shell=bash disable=SC2034 # variables are read by the scripts that source this file
# What the scripts share: packages, privileges, and the two hosts on one machine.
# Sourced, never run. Callers have `set -euo pipefail` and call lab_down from an EXIT trap.

root_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target_dir=${CARGO_TARGET_DIR:-$root_dir/target}
readonly root_dir target_dir
host_a=() host_b=()
export LC_ALL=C NO_COLOR=1 CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}

say() { printf '%s\n' "$*"; }
warn() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() {
    warn "$*"
    exit 1
}

# as_root CMD...: directly as root, else through sudo. In a terminal sudo may ask for a password.
as_root() {
    if [[ $(id -u) == 0 ]]; then
        "$@"
    elif command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
        sudo "$@"
    else
        return 126
    fi
}

# need COMMAND=PACKAGE...: installs the packages whose command (or file, with a slash) is not there.
need() {
    local item missing=()
    for item in "$@"; do
        case ${item%%=*} in
            */*) [[ -e ${item%%=*} ]] || missing+=("${item#*=}") ;;
            *) command -v "${item%%=*}" >/dev/null || missing+=("${item#*=}") ;;
        esac
    done
    ((${#missing[@]})) || return 0
    say "installing by apt: ${missing[*]}"
    command -v apt-get >/dev/null || die "no apt-get here; please install: ${missing[*]}"
    local log
    log=$(mktemp)
    if { as_root apt-get -q update && as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -y --no-install-recommends install "${missing[@]}"; } >"$log" 2>&1; then
        rm -f "$log"
    else
        tail -n 5 "$log" >&2
        rm -f "$log"
        die "could not install ${missing[*]}; as root: apt-get install ${missing[*]}"
    fi
}

need_lab() { need ip=iproute2 unshare=util-linux taskset=util-linux; }

# What ibverbs-sys needs to generate its bindings.
readonly build_packages=(
    cmake=cmake clang=clang pkg-config=pkg-config
    /usr/share/doc/libclang-dev=libclang-dev
    /usr/include/infiniband/verbs.h=libibverbs-dev
    /usr/include/libnl3/netlink/netlink.h=libnl-3-dev
    /usr/include/libnl3/netlink/route/link.h=libnl-route-3-dev
)

need_rust() {
    command -v cargo >/dev/null && return 0
    if [[ -x $HOME/.cargo/bin/cargo ]]; then
        PATH=$HOME/.cargo/bin:$PATH
        return 0
    fi
    die "cargo is not here: install Rust $(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root_dir/Cargo.toml") or newer (rustup.rs)"
}

# build_release: the library and the tools. The output is shown only when it fails.
build_release() {
    need_rust
    need cc=build-essential "${build_packages[@]}"
    say "building: cargo build --release"
    quietly cargo build --release --locked --manifest-path "$root_dir/Cargo.toml" -p shim -p tools
}

quietly() {
    local log
    log=$(mktemp)
    if "$@" >"$log" 2>&1; then
        rm -f "$log"
    else
        tail -n 40 "$log" >&2
        rm -f "$log"
        die "failed: $*"
    fi
}

# --- two hosts: network namespaces NAME-a (10.77.1.1) and NAME-b (10.77.1.2), joined by a veth pair.

readonly lab_ip_a=10.77.1.1 lab_ip_b=10.77.1.2 lab_group=239.77.1.1

# enter_lab_privileges SCRIPT ARGS...: makes sure that namespaces can be made. As a plain user it starts the
# script again inside a user namespace, whose root it is; everything in it ends with it.
enter_lab_privileges() {
    local userns=(unshare --user --map-root-user --net --mount)
    if [[ $(id -u) == 0 ]]; then
        [[ -n ${LAB_USERNS:-} ]] || return 0
        mkdir -p /run/netns 2>/dev/null && [[ -w /run/netns ]] && mount -t tmpfs tmpfs /run/netns ||
            { mount -t tmpfs tmpfs /run && mkdir /run/netns; } || die "cannot mount in the user namespace"
        return 0
    fi
    if "${userns[@]}" true 2>/dev/null; then
        say "plain user: the two hosts live in a user namespace"
        LAB_USERNS=1 exec "${userns[@]}" "$@"
    fi
    die "plain user, and this system allows no user namespaces: run it as root"
}

# lab_up NAME [MTU]: sets host_a and host_b, the command prefixes that run something on a host.
lab_up() {
    local name=$1 mtu=${2:-1500} side
    lab_sweep
    lab_names "$name"
    ip netns add "$name-a"
    ip netns add "$name-b"
    ip link add eth0 mtu "$mtu" netns "$name-a" type veth peer name eth0 mtu "$mtu" netns "$name-b"
    for side in a b; do
        local ns=$name-$side addr=lab_ip_$side
        ip -n "$ns" link set lo up
        ip -n "$ns" addr add "${!addr}/24" dev eth0
        ip -n "$ns" link set eth0 up
        ip -n "$ns" route add 224.0.0.0/4 dev eth0
    done
    lab_settle "$name"
}

# lab_names NAME: the prefixes alone, for hosts that are there already.
lab_names() {
    if [[ -n ${LAB_USERNS:-} ]]; then
        # `ip netns exec` mounts a fresh /sys, which a user namespace may not allow.
        host_a=(nsenter "--net=/run/netns/$1-a")
        host_b=(nsenter "--net=/run/netns/$1-b")
    else
        host_a=(ip netns exec "$1-a")
        host_b=(ip netns exec "$1-b")
    fi
}

# Both links must have their carrier before the first datagram.
lab_settle() {
    local side try
    for side in a b; do
        for try in {1..100}; do
            [[ $(ip -n "$1-$side" -o link show dev eth0) == *'state UP'* ]] && break
            ((try < 100)) || die "eth0 of $1-$side does not come up"
            sleep 0.02
        done
    done
}

# lab_mac HOST: the hardware address of its eth0.
lab_mac() { ip -n "$1" -o link show dev eth0 | sed -n 's|.*link/ether \([0-9a-f:]*\).*|\1|p'; }

# lab_down NAME: ends what still runs on the two hosts, then removes them. Harmless when there are none.
lab_down() {
    local name=$1 side pid
    for side in a b; do
        [[ -e /run/netns/$name-$side ]] || continue
        for pid in $(ip netns pids "$name-$side" 2>/dev/null); do
            [[ $pid == "$$" ]] || kill -KILL "$pid" 2>/dev/null || true
        done
        ip netns del "$name-$side" 2>/dev/null || true
    done
}

# lab_sweep: removes what a killed script has left (no trap sees SIGKILL): labs named after a process that is gone.
lab_sweep() {
    local path owner
    for path in /run/netns/shim-run-*-a; do
        owner=${path#/run/netns/shim-run-} owner=${owner%-a}
        [[ $owner =~ ^[0-9]+$ && ! -e /proc/$owner ]] || continue
        lab_down "shim-run-$owner"
    done
}

# wait_udp_port PID PORT: until the process' host has a UDP socket on the port; at most three seconds.
wait_udp_port() {
    local hex try
    printf -v hex ':%04X ' "$2"
    for try in {1..150}; do
        if grep -qs "$hex" "/proc/$1/net/udp" "/proc/$1/net/udp6"; then return 0; fi
        kill -0 "$1" 2>/dev/null || return 1
        ((try < 150)) && sleep 0.02
    done
    return 1
}

# stop PID [SIGNAL]: asks, waits two seconds, then kills. Status 1 when it had to be killed.
stop() {
    local pid=$1 try
    kill "-${2:-INT}" "$pid" 2>/dev/null || { wait "$pid" 2>/dev/null || true; return 0; }
    for try in {1..100}; do
        kill -0 "$pid" 2>/dev/null || { wait "$pid" 2>/dev/null || true; return 0; }
        ((try)) && sleep 0.02
    done
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    return 1
}

# not_accelerated PID: says why no socket of the process has received by the engine; silent and status 1 if one has.
not_accelerated() {
    local out
    if ! out=$("$target_dir/release/shim-stats" -p "$1" -c 1 --json 2>&1); then
        printf 'no statistics: %s\n' "$(head -n 1 <<<"$out")"
    elif ! grep -Eq '"accelerated":true.*"rx":\{[^}]*"packets":[1-9]' <<<"${out##*'"sockets":'}"; then
        printf 'not accelerated: %s\n' "$(grep -Eo '"reason":"[^"]*"' <<<"$out" | head -n 1 || true)"
    else
        return 1
    fi
}

# on_exit FUNCTION: runs it once, whatever ends the script.
on_exit() {
    # shellcheck disable=SC2064 # the name is meant to be expanded now
    trap "trap - EXIT; $1" EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
}
