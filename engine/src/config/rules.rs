//! The rules file (`VMA_CONFIG_FILE`, `/etc/libvma.conf`): which sockets stay with the kernel.
//!
//! Owns the grammar and the matching. Never opens the file: its text is an argument.
//!
//! ```text
//! application-id PROGRAM-GLOB USER-ID
//! use TRANSPORT ROLE ADDRESS:PORTS[:ADDRESS:PORTS]
//! ```
//!
//! Only the first block that matches program and user id is consulted, and in it the first rule
//! of the role that matches decides. Nothing matches: accelerate. Source: libvma's shipped
//! configuration file and its behaviour.

use super::{Config, Opt, Warning};
use crate::error::Errno;
use memchr::memchr;
use std::net::{Ipv4Addr, SocketAddrV4};

/// What a socket wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// TCP, listening.
    TcpServer,
    /// TCP, connecting.
    TcpClient,
    /// Sends to `remote`.
    UdpSender,
    /// Receives at `local`; for multicast, the group and its port.
    UdpReceiver,
    /// Connects to `remote`.
    UdpConnect,
}

/// Who serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The kernel.
    Os,
    /// The engine.
    Vma,
}

/// The rules of one file; the default is none: accelerate everything.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    blocks: Vec<Block>,
}

#[derive(Clone, Debug)]
struct Block {
    program: String,
    user_id: String,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    transport: Transport,
    role: Role,
    first: Endpoint,
    second: Option<Endpoint>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Endpoint {
    network: u32,
    mask: u32,
    low: u16,
    high: u16,
}

impl Rules {
    /// Reads a text. A line that is not understood is ignored, with a warning.
    #[must_use]
    pub fn parse(text: &str) -> (Self, Vec<Warning>) {
        let mut rules = Self::default();
        let mut warnings = Vec::new();
        let (mut rest, mut number) = (text, 0);
        while !rest.is_empty() {
            let end = memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len());
            let line = &rest[..end];
            rest = rest.get(end + 1..).unwrap_or("");
            number += 1;
            if let Err(why) = rules.line(line) {
                let line = super::shorten(line.trim());
                warnings.push(Warning(format!(
                    "rules line {number}: {why}; ignored: {line:?}"
                )));
            }
        }
        (rules, warnings)
    }

    /// The rules that a configuration asks for; `read` returns the content of a file. Only a
    /// missing default file is silent.
    pub fn load<F>(config: &Config, pid: u32, read: F) -> (Self, Vec<Warning>)
    where
        F: FnOnce(&str) -> Result<Vec<u8>, Errno>,
    {
        let (option, user_id) = (Opt::ConfigFile, config.text(Opt::ApplicationId));
        let path = super::expand_pid(config.text(option), pid);
        let (rules, mut warnings) = match read(&path) {
            Ok(bytes) => Self::parse(&String::from_utf8_lossy(&bytes)),
            Err(Errno(libc::ENOENT)) if config.is_default(option) => Default::default(),
            Err(error) => {
                let name = option.name();
                let text = format!("{name}: {path:?} cannot be read ({error}); no rules apply");
                (Self::default(), vec![Warning(text)])
            }
        };
        let named = |b: &Block| b.user_id == user_id;
        if config.was_set(Opt::ApplicationId) && !rules.blocks.iter().any(named) {
            let name = Opt::ApplicationId.name();
            warnings.push(Warning(format!(
                "{name}={user_id:?} does not occur in {path:?}"
            )));
        }
        (rules, warnings)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line
            .split_whitespace()
            .take_while(|word| !word.starts_with('#'))
            .collect();
        let keyword = words.first().map(|w| w.to_ascii_lowercase());
        match (keyword.as_deref(), words.get(1..).unwrap_or(&[])) {
            (None, _) => Ok(()),
            (Some("application-id"), [program, user_id]) => {
                self.open(program, user_id);
                Ok(())
            }
            (Some("application-id"), _) => Err("a program and a user id are wanted".to_owned()),
            (Some("use"), [transport, role, endpoints]) => {
                let rule = rule(transport, role, endpoints)?;
                // Rules before the first application-id are everybody's.
                if self.blocks.is_empty() {
                    self.open("*", "*");
                }
                if let Some(block) = self.blocks.last_mut() {
                    block.rules.push(rule);
                }
                Ok(())
            }
            (Some("use"), _) => Err("a transport, a role and an address are wanted".to_owned()),
            (Some("log"), _) => Err("the log is set by VMA_LOG_FILE and VMA_TRACELEVEL".to_owned()),
            (Some(_), _) => Err("neither application-id nor use".to_owned()),
        }
    }

    fn open(&mut self, program: &str, user_id: &str) {
        let (program, user_id) = (program.to_owned(), user_id.to_owned());
        self.blocks.push(Block {
            program,
            user_id,
            rules: Vec::new(),
        });
    }

    fn block(&self, program: &str, user_id: &str) -> &[Rule] {
        let program = program.rsplit('/').next().unwrap_or(program);
        let any = |id: &str| id == "*";
        let ours = |b: &&Block| {
            (any(&b.user_id) || any(user_id) || b.user_id == user_id)
                && glob(b.program.as_bytes(), program.as_bytes())
        };
        self.blocks.iter().find(ours).map_or(&[], |b| &b.rules)
    }

    /// Who serves a socket of `program` in this role. `local` is what it is bound to (0.0.0.0:0
    /// when not bound); a role that looks at `remote` is the engine's as long as there is none.
    #[must_use]
    pub fn lookup(
        &self,
        program: &str,
        user_id: &str,
        role: Role,
        local: SocketAddrV4,
        remote: Option<SocketAddrV4>,
    ) -> Transport {
        let (first, second) = match role {
            Role::TcpServer | Role::UdpReceiver => (local, None),
            Role::UdpSender | Role::UdpConnect | Role::TcpClient => match remote {
                Some(remote) if role == Role::UdpSender => (remote, None),
                Some(remote) => (remote, Some(local)),
                None => return Transport::Vma,
            },
        };
        let matching = |r: &&Rule| {
            let pair = r
                .second
                .zip(second)
                .is_none_or(|(rule, address)| rule.has(address));
            r.role == role && r.first.has(first) && pair
        };
        let found = self.block(program, user_id).iter().find(matching);
        found.map_or(Transport::Vma, |r| r.transport)
    }

    /// Whether every UDP socket of the program stays with the kernel, whatever its addresses, so
    /// that nothing need be kept for it.
    #[must_use]
    pub fn never_udp(&self, program: &str, user_id: &str) -> bool {
        let block = self.block(program, user_id);
        [Role::UdpSender, Role::UdpReceiver]
            .into_iter()
            .all(|role| {
                let mut of_role = block.iter().filter(|r| r.role == role);
                // An earlier rule for the engine is an exception to a later one for the kernel.
                let decides = |r: &&Rule| r.transport == Transport::Vma || r.first == Endpoint::ANY;
                of_role
                    .find(decides)
                    .is_some_and(|r| r.transport == Transport::Os)
            })
    }
}

fn rule(transport: &str, role: &str, endpoints: &str) -> Result<Rule, String> {
    let transport = match transport.to_ascii_lowercase().as_str() {
        "os" => Transport::Os,
        // The others named transports that are gone; they never meant the kernel.
        "vma" | "sdp" | "sa" | "*" => Transport::Vma,
        _ => return Err(format!("unknown transport {transport:?}")),
    };
    let role = match role.to_ascii_lowercase().as_str() {
        "tcp_server" => Role::TcpServer,
        "tcp_client" => Role::TcpClient,
        "udp_sender" => Role::UdpSender,
        "udp_receiver" => Role::UdpReceiver,
        "udp_connect" => Role::UdpConnect,
        _ => return Err(format!("unknown role {role:?}")),
    };
    let parts: Vec<&str> = endpoints.split(':').collect();
    let (first, second) = match parts[..] {
        [address, ports] => (Endpoint::parse(address, ports)?, None),
        [address, ports, local, local_ports] => (
            Endpoint::parse(address, ports)?,
            Some(Endpoint::parse(local, local_ports)?),
        ),
        _ => return Err("ADDRESS:PORTS or ADDRESS:PORTS:ADDRESS:PORTS is wanted".to_owned()),
    };
    Ok(Rule {
        transport,
        role,
        first,
        second,
    })
}

impl Endpoint {
    const ANY: Self = Self {
        network: 0,
        mask: 0,
        low: 0,
        high: u16::MAX,
    };

    fn parse(address: &str, ports: &str) -> Result<Self, String> {
        let (network, mask) = match address {
            "*" => (0, 0),
            _ => {
                let (host, length) = address.split_once('/').unwrap_or((address, "32"));
                let host = host.parse::<Ipv4Addr>();
                let length = length.parse::<u32>().ok().filter(|n| *n <= 32);
                let (Ok(host), Some(length)) = (host, length) else {
                    return Err(format!("{address:?} is not an IPv4 address"));
                };
                let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
                (u32::from(host) & mask, mask)
            }
        };
        let range = match ports.split_once('-') {
            _ if ports == "*" => Ok((0, u16::MAX)),
            Some((low, high)) => low.parse().and_then(|l| high.parse().map(|h| (l, h))),
            None => ports.parse().map(|p| (p, p)),
        };
        match range {
            Ok((low, high)) if low <= high => Ok(Self {
                network,
                mask,
                low,
                high,
            }),
            _ => Err(format!("{ports:?} is not a port or a range of ports")),
        }
    }

    fn has(self, address: SocketAddrV4) -> bool {
        let ports = self.low..=self.high;
        u32::from(*address.ip()) & self.mask == self.network && ports.contains(&address.port())
    }
}

/// fnmatch(3) without flags: `*`, `?`, `[set]`, `[!set]` and backslash. On a mismatch only the
/// last star is tried again, so the time is at most the product of the lengths.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, n));
            p += 1;
            continue;
        }
        let step = name.get(n).and_then(|&byte| one(&pattern[p..], byte));
        match (step, star) {
            (Some(width), _) => {
                p += width;
                n += 1;
            }
            _ if p == pattern.len() && n == name.len() => return true,
            (None, Some((after, from))) if from < name.len() => {
                star = Some((after, from + 1));
                (p, n) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

/// How many bytes of the pattern match `byte`.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (escaped == byte).then_some(2),
        [b'[', ref rest @ ..] => match set(rest, byte) {
            Some((true, width)) => Some(width + 1),
            Some((false, _)) => None,
            None => (byte == b'[').then_some(1),
        },
        [plain, ..] => (plain == byte).then_some(1),
    }
}

/// Whether a bracket expression holds the byte, and its width without the opening bracket;
/// nothing if it is never closed.
fn set(expression: &[u8], byte: u8) -> Option<(bool, usize)> {
    let negated = matches!(expression.first(), Some(b'!' | b'^'));
    let start = usize::from(negated);
    let (mut at, mut held) = (start, false);
    loop {
        let low = *expression.get(at)?;
        if low == b']' && at > start {
            return Some((held != negated, at + 1));
        }
        match (expression.get(at + 1), expression.get(at + 2)) {
            (Some(b'-'), Some(&high)) if high != b']' => {
                held |= (low..=high).contains(&byte);
                at += 3;
            }
            _ => {
                held |= low == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "VMA_DEFAULT_APPLICATION_ID";

    fn rules(text: &str) -> Rules {
        let (rules, warnings) = Rules::parse(text);
        assert_eq!(warnings, []);
        rules
    }

    fn at(text: &str) -> SocketAddrV4 {
        text.parse().unwrap()
    }

    fn receiver(rules: &Rules, program: &str, id: &str, local: &str) -> Transport {
        rules.lookup(program, id, Role::UdpReceiver, at(local), None)
    }

    #[test]
    fn nothing_means_accelerate() {
        assert_eq!(receiver(&rules(""), "a", ID, "1.2.3.4:5"), Transport::Vma);
        assert_eq!(
            receiver(&rules("# c\n\n   # d"), "a", ID, "1.2.3.4:5"),
            Transport::Vma
        );
    }

    #[test]
    fn the_shipped_file_leaves_name_service_to_the_kernel() {
        let rules = rules("# comment\napplication-id * *\nuse os udp_connect *:53 # names\n");
        let connect =
            |to: &str| rules.lookup("java", ID, Role::UdpConnect, at("0.0.0.0:0"), Some(at(to)));
        assert_eq!(connect("8.8.8.8:53"), Transport::Os);
        assert_eq!(connect("8.8.8.8:54"), Transport::Vma);
        let sender = rules.lookup(
            "a",
            ID,
            Role::UdpSender,
            at("0.0.0.0:0"),
            Some(at("8.8.8.8:53")),
        );
        assert_eq!(sender, Transport::Vma, "a rule is for its role alone");
    }

    #[test]
    fn the_first_rule_of_the_role_decides() {
        let rules = rules(
            "use vma udp_receiver 224.0.0.0/8:5000-6000\r\nuse os udp_receiver *:*\nuse vma udp_receiver *:*",
        );
        assert_eq!(receiver(&rules, "a", ID, "224.9.9.9:5000"), Transport::Vma);
        assert_eq!(receiver(&rules, "a", ID, "224.9.9.9:6000"), Transport::Vma);
        assert_eq!(receiver(&rules, "a", ID, "224.9.9.9:6001"), Transport::Os);
        assert_eq!(receiver(&rules, "a", ID, "225.9.9.9:5000"), Transport::Os);
    }

    #[test]
    fn only_the_first_matching_block_is_consulted() {
        let rules = rules(
            "application-id ja?a one\nuse os udp_receiver *:1\napplication-id java *\nuse os udp_receiver *:2\n\
             application-id * *\nuse os udp_receiver *:3",
        );
        let os = |program, id, port| {
            receiver(&rules, program, id, &format!("1.1.1.1:{port}")) == Transport::Os
        };
        assert!(os("/usr/bin/java", "one", 1) && !os("java", "one", 2) && !os("java", "one", 3));
        assert!(!os("java", ID, 1) && os("java", ID, 2) && !os("java", ID, 3));
        assert!(os("java", "*", 1), "a user id of * matches every block");
        assert!(!os("perl", ID, 1) && !os("perl", ID, 2) && os("perl", ID, 3));
    }

    #[test]
    fn pairs_look_at_remote_then_local() {
        let rules = rules("use os udp_connect 10.0.0.0/24:7:192.168.0.1:9");
        let connect =
            |to: &str, from: &str| rules.lookup("a", ID, Role::UdpConnect, at(from), Some(at(to)));
        assert_eq!(connect("10.0.0.5:7", "192.168.0.1:9"), Transport::Os);
        assert_eq!(connect("10.0.0.5:7", "192.168.0.1:8"), Transport::Vma);
        assert_eq!(connect("10.0.1.5:7", "192.168.0.1:9"), Transport::Vma);
        let unknown = rules.lookup("a", ID, Role::UdpConnect, at("192.168.0.1:9"), None);
        assert_eq!(unknown, Transport::Vma);
    }

    #[test]
    fn a_whole_program_on_the_kernel() {
        let both = "use os udp_sender *:*\nuse os udp_receiver *:*";
        assert!(rules(both).never_udp("a", ID));
        assert!(!rules("use os udp_sender *:*").never_udp("a", ID));
        assert!(!rules(&format!("use vma udp_sender 1.2.3.4:5\n{both}")).never_udp("a", ID));
        assert!(rules(&format!("use os udp_sender 1.2.3.4:5\n{both}")).never_udp("a", ID));
        assert!(!rules("").never_udp("a", ID));
    }

    #[test]
    fn bad_lines_are_named_and_ignored() {
        let text = "use os udp_receiver *:1\nuse os\nuse tcp udp_sender *:1\nuse os udp *:1\n\
                    use os udp_sender *\nuse os udp_sender 1.2.3:1\nuse os udp_sender 1.2.3.4/33:1\n\
                    use os udp_sender *:9-8\nuse os udp_sender *:70000\nuse os udp_sender *:*:*\n\
                    log min-level 3\napplication-id a\nfoo\n";
        let (rules, warnings) = Rules::parse(text);
        assert_eq!(warnings.len(), 12);
        for (index, warning) in warnings.iter().enumerate() {
            let start = format!("rules line {}: ", index + 2);
            assert!(warning.0.starts_with(&start), "{warning}");
        }
        assert_eq!(receiver(&rules, "a", ID, "1.1.1.1:1"), Transport::Os);
    }

    #[test]
    fn globs() {
        for (pattern, name, matches) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("java", "java", true),
            ("java", "javac", false),
            ("java*", "javac", true),
            ("*a*c", "javac", true),
            ("*a*d", "javac", false),
            ("j?va", "java", true),
            ("j?va", "jva", false),
            ("[a-j]ava", "java", true),
            ("[!a-j]ava", "java", false),
            ("[]x]", "]", true),
            ("[ab", "[ab", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("a[*]b", "a*b", true),
        ] {
            assert_eq!(
                glob(pattern.as_bytes(), name.as_bytes()),
                matches,
                "{pattern} {name}"
            );
        }
        let long = "a".repeat(5_000);
        assert!(!glob(b"*a*a*a*a*a*a*a*a*b", long.as_bytes()));
    }

    #[test]
    fn files() {
        let from = |vars: &[(&str, &str)]| {
            Config::from_env(vars.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))).0
        };
        let missing = |_: &str| Err(Errno(libc::ENOENT));
        assert_eq!(Rules::load(&from(&[]), 1, missing).1, []);
        let (_, warnings) = Rules::load(&from(&[]), 1, |_| Err(Errno(libc::EACCES)));
        assert_eq!(warnings.len(), 1);
        let own = from(&[("VMA_CONFIG_FILE", "/x/%d.conf")]);
        let (_, warnings) = Rules::load(&own, 7, missing);
        assert!(warnings[0].0.contains("/x/7.conf"), "{warnings:?}");
        let named = from(&[("VMA_APPLICATION_ID", "me")]);
        let file = |text: &'static str| move |_: &str| Ok(text.as_bytes().to_vec());
        assert_eq!(Rules::load(&named, 1, file("application-id * me")).1, []);
        assert_eq!(
            Rules::load(&named, 1, file("application-id * you")).1.len(),
            1
        );
        let (rules, _) = Rules::load(&from(&[]), 1, file("use os udp_receiver *:5"));
        assert_eq!(receiver(&rules, "a", ID, "1.1.1.1:5"), Transport::Os);
    }
}
