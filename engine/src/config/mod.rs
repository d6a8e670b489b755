//! Options: what the environment asks for, checked, with what is wrong said once.
//!
//! Owns the option table, the profiles and the rules file's grammar. Never fails and never reads
//! the environment or a file by itself (but for [`Config::from_process`]): texts are arguments.
//! Order of precedence: variable, then profile (`VMA_SPEC`), then the table's default.
//!
//! Source: libvma 9.8's parameters; Linux where libvma deviates from it.

mod option;
mod profile;
mod render;
mod rules;
mod suggest;
mod table;
#[cfg(test)]
mod tests;

pub use option::{Bad, Choice, Effect, Kind, Preset, Row, Show, Value};
pub use profile::Profile;
pub use render::{listing, markdown, profiles_markdown};
pub use rules::{Role, Rules, Transport};
pub use table::Opt;

use profile::FOREIGN;
use std::fmt;

/// One complete line for the log: which variable, what is wrong, what is used instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(pub String);

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `VMA_THREAD_MODE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadMode {
    /// One thread: no locks.
    Single,
    /// Spin locks.
    Spin,
    /// Mutexes.
    Mutex,
    /// Spin locks that yield: more threads than cores.
    Yield,
}

/// `VMA_TRACELEVEL`, from silence to everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TraceLevel {
    /// Nothing.
    None,
    /// What ends the process.
    Panic,
    /// Errors.
    Error,
    /// Warnings.
    Warn,
    /// The banner, and what else a user should see.
    Info,
    /// The whole configuration.
    Details,
    /// Calls and decisions.
    Debug,
    /// Packets.
    Fine,
    /// Everything.
    Finer,
}

impl TraceLevel {
    /// The filter of the log crate. It has no level for `details`, which is the banner's alone,
    /// and none above error, so `panic` is silence.
    #[must_use]
    pub fn filter(self) -> log::LevelFilter {
        match self {
            Self::None | Self::Panic => log::LevelFilter::Off,
            Self::Error => log::LevelFilter::Error,
            Self::Warn => log::LevelFilter::Warn,
            Self::Info | Self::Details => log::LevelFilter::Info,
            Self::Debug => log::LevelFilter::Debug,
            Self::Fine | Self::Finer => log::LevelFilter::Trace,
        }
    }
}

impl From<TraceLevel> for log::LevelFilter {
    fn from(level: TraceLevel) -> Self {
        level.filter()
    }
}

/// `SHIM_BACKEND`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendChoice {
    /// The first that works.
    Auto,
    /// Raw packet queue pairs.
    Verbs,
    /// AF_XDP.
    Xdp,
    /// AF_PACKET.
    Packet,
    /// In-process, for tests.
    Memory,
    /// Nothing is accelerated.
    Off,
}

/// `SHIM_BANNER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BannerMode {
    /// Once for a program and the children that inherit the library from it.
    Auto,
    /// In every process.
    Always,
    /// Nowhere.
    Never,
}

/// `SHIM_MIXED_HOST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MixedHost {
    /// Share a flow while the host has another subscriber.
    Auto,
    /// Never share.
    Steer,
    /// Always share.
    Share,
}

/// The options in effect.
#[derive(Clone, Debug)]
pub struct Config {
    values: Vec<Value>,
    set: Vec<bool>,
    interfaces: Vec<String>,
}

impl Config {
    /// The table's defaults.
    #[must_use]
    pub fn default_config() -> Self {
        Self {
            values: Opt::ALL.iter().map(|o| o.row().default.into()).collect(),
            set: vec![false; Opt::ALL.len()],
            interfaces: Vec::new(),
        }
    }

    /// The process's environment; what is not UTF-8 is read with replacement characters.
    #[must_use]
    pub fn from_process() -> (Self, Vec<Warning>) {
        Self::from_env(std::env::vars_os().map(|(name, value)| {
            (
                name.to_string_lossy().into_owned(),
                value.to_string_lossy().into_owned(),
            )
        }))
    }

    /// Reads variables. Names that begin with neither `VMA_` nor `SHIM_` are not ours; of a name
    /// that occurs twice the first counts, as with getenv.
    pub fn from_env<I>(vars: I) -> (Self, Vec<Warning>)
    where
        I: IntoIterator<Item = (String, String)>,
    {
        let mut vars: Vec<_> = vars
            .into_iter()
            .filter(|(name, _)| name.starts_with("VMA_") || name.starts_with("SHIM_"))
            .collect();
        // The order of an environment is nobody's intention; that of the names can be tested.
        vars.sort_by(|a, b| a.0.cmp(&b.0));
        vars.dedup_by(|later, first| later.0 == first.0);

        let mut config = Self::default_config();
        let mut warnings = Vec::new();
        if let Some(at) = vars.iter().position(|(name, _)| name == Opt::Spec.name()) {
            let (_, value) = vars.remove(at);
            config.take_profile(value.trim(), &mut warnings);
        }
        // Former names last, so that a present name wins over them.
        let former = |name: &str| Opt::find(name).is_some_and(|o| o.name() != name);
        vars.sort_by_key(|(name, _)| former(name));
        for (name, value) in &vars {
            match Opt::find(name) {
                Some(opt) => config.take(opt, name, value.trim(), &mut warnings),
                None => warnings.push(unknown(name)),
            }
        }
        config.settle();
        (config, warnings)
    }

    fn take_profile(&mut self, raw: &str, warnings: &mut Vec<Warning>) {
        if FOREIGN.iter().any(|name| name.eq_ignore_ascii_case(raw)) {
            let name = Opt::Spec.name();
            warnings.push(Warning(format!(
                "{name}={raw:?} is a profile of libxlio that changes nothing here; \
                 using the default none"
            )));
            return;
        }
        self.take(Opt::Spec, Opt::Spec.name(), raw, warnings);
        for &(opt, preset) in self.profile().settings() {
            self.values[opt as usize] = preset.into();
        }
    }

    fn take(&mut self, opt: Opt, name: &str, raw: &str, warnings: &mut Vec<Warning>) {
        let row = opt.row();
        if name != row.name {
            let instead = row.name;
            if self.was_set(opt) {
                warnings.push(Warning(format!(
                    "{name} is a former name of {instead}, which is set too; {name} is ignored"
                )));
                return;
            }
            warnings.push(Warning(format!("{name} is a former name, use {instead}")));
        } else if row.effect == Effect::Deprecated {
            let help = row.help;
            warnings.push(Warning(format!("{name} is deprecated: {help}")));
        }
        match row.parse(raw) {
            Ok(value) => {
                self.values[opt as usize] = value;
                self.set[opt as usize] = true;
            }
            Err(bad) => {
                let kept = match row.render(self.value(opt)) {
                    empty if empty.is_empty() => "the empty text".to_owned(),
                    text => text,
                };
                let whose = if self.is_default(opt) {
                    "the default "
                } else {
                    "the profile's "
                };
                let raw = shorten(raw);
                warnings.push(Warning(format!(
                    "{name}={raw:?} {bad}; using {whose}{kept}"
                )));
            }
        }
    }

    /// What follows from other options.
    fn settle(&mut self) {
        if self.flag(Opt::SelectPollOsForce) {
            for opt in [Opt::SelectPollOsRatio, Opt::SelectSkipOs] {
                if !self.was_set(opt) {
                    self.values[opt as usize] = Value::Int(1);
                }
            }
        }
        // One poll at least, or a receive would never look at the ring.
        if self.int(Opt::RxPoll) == 0 {
            self.values[Opt::RxPoll as usize] = Value::Int(1);
        }
        let spins = self.int(Opt::RxPoll) < 0 || self.int(Opt::SelectPoll) < 0;
        if spins && !self.was_set(Opt::CqModeration) {
            self.values[Opt::CqModeration as usize] = Value::Int(0);
        }
        if !self.flag(Opt::CqModeration) && !self.was_set(Opt::CqAimInterval) {
            self.values[Opt::CqAimInterval as usize] = Value::Int(0);
        }
        let names = option::names(self.text(Opt::Interfaces));
        self.interfaces = names.into_iter().map(str::to_owned).collect();
    }

    /// `VMA_SPEC`.
    #[must_use]
    pub fn profile(&self) -> Profile {
        Profile::from_value(self.int(Opt::Spec))
    }

    /// `VMA_THREAD_MODE`.
    #[must_use]
    pub fn thread_mode(&self) -> ThreadMode {
        match self.int(Opt::ThreadMode) {
            0 => ThreadMode::Single,
            2 => ThreadMode::Mutex,
            3 => ThreadMode::Yield,
            _ => ThreadMode::Spin,
        }
    }

    /// `VMA_TRACELEVEL`.
    #[must_use]
    pub fn trace_level(&self) -> TraceLevel {
        match self.int(Opt::TraceLevel) {
            0 => TraceLevel::None,
            1 => TraceLevel::Panic,
            2 => TraceLevel::Error,
            3 => TraceLevel::Warn,
            5 => TraceLevel::Details,
            6 => TraceLevel::Debug,
            7 => TraceLevel::Fine,
            8 | 9 => TraceLevel::Finer,
            _ => TraceLevel::Info,
        }
    }

    /// `SHIM_BACKEND`.
    #[must_use]
    pub fn backend(&self) -> BackendChoice {
        match self.int(Opt::Backend) {
            1 => BackendChoice::Verbs,
            2 => BackendChoice::Xdp,
            3 => BackendChoice::Packet,
            4 => BackendChoice::Memory,
            5 => BackendChoice::Off,
            _ => BackendChoice::Auto,
        }
    }

    /// `SHIM_BANNER`.
    #[must_use]
    pub fn banner(&self) -> BannerMode {
        match self.int(Opt::Banner) {
            1 => BannerMode::Always,
            2 => BannerMode::Never,
            _ => BannerMode::Auto,
        }
    }

    /// `SHIM_MIXED_HOST`.
    #[must_use]
    pub fn mixed_host(&self) -> MixedHost {
        match self.int(Opt::MixedHost) {
            1 => MixedHost::Steer,
            2 => MixedHost::Share,
            _ => MixedHost::Auto,
        }
    }

    /// `SHIM_INTERFACES`; empty: every usable one but loopback.
    #[must_use]
    pub fn interfaces(&self) -> &[String] {
        &self.interfaces
    }

    /// A number, a switch (0 or 1), or the value of a choice; 0 for a text.
    #[must_use]
    pub fn int(&self, option: Opt) -> i64 {
        match self.value(option) {
            Value::Int(n) => *n,
            Value::Text(_) => {
                debug_assert!(false, "{} is a text", option.name());
                0
            }
        }
    }

    /// A text, path or list; empty for a number.
    #[must_use]
    pub fn text(&self, option: Opt) -> &str {
        match self.value(option) {
            Value::Text(s) => s,
            Value::Int(_) => {
                debug_assert!(false, "{} is a number", option.name());
                ""
            }
        }
    }

    /// Whether a switch is on.
    #[must_use]
    pub fn flag(&self, option: Opt) -> bool {
        self.int(option) != 0
    }

    /// The value, of whatever kind.
    #[must_use]
    pub fn value(&self, option: Opt) -> &Value {
        &self.values[option as usize]
    }

    /// Whether the value is the table's default, whoever chose it.
    #[must_use]
    pub fn is_default(&self, option: Opt) -> bool {
        *self.value(option) == option.row().default.into()
    }

    /// Whether the environment gave a usable value.
    #[must_use]
    pub fn was_set(&self, option: Opt) -> bool {
        self.set[option as usize]
    }

    /// Options that were set although they do nothing in this build, by effect.
    pub fn set_without_effect(&self, effect: Effect) -> impl Iterator<Item = Opt> {
        let idle = move |o: &Opt| o.row().effect == effect && effect != Effect::Yes;
        Opt::ALL
            .iter()
            .copied()
            .filter(move |o| idle(o) && self.was_set(*o))
    }
}

/// Replaces the first `%d` of a file name by the process id.
#[must_use]
pub fn expand_pid(name: &str, pid: u32) -> String {
    name.replacen("%d", &pid.to_string(), 1)
}

fn unknown(name: &str) -> Warning {
    if let Some((_, why)) = table::REMOVED.iter().find(|(removed, _)| *removed == name) {
        return Warning(format!(
            "{name} was removed from libvma and is ignored: {why}"
        ));
    }
    let name = shorten(name);
    let known = Opt::ALL.iter().map(|o| o.name());
    Warning(match suggest::nearest_variable(&name, known) {
        Some(near) => format!("{name} is not a known option and is ignored; did you mean {near}?"),
        None => format!("{name} is not a known option and is ignored"),
    })
}

/// A text of somebody else's, short enough for a line.
fn shorten(text: &str) -> String {
    let end: String = text.chars().take(100).collect();
    if end.len() < text.len() {
        format!("{end}…")
    } else {
        end
    }
}
