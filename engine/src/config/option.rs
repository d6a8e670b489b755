//! What an option is: how its text is read, checked and shown.
//!
//! Owns the shape of one row; the rows are in `table`. Pure: no environment, no file.

use super::suggest;
use std::fmt;

/// A value fixed in a table: a default or a profile's setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// A number, a switch (0 or 1), or the value of a choice.
    Int(i64),
    /// Text, a path or a list.
    Text(&'static str),
}

/// A value in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number, a switch (0 or 1), or the value of a choice.
    Int(i64),
    /// Text, a path or a list.
    Text(String),
}

impl From<Preset> for Value {
    fn from(preset: Preset) -> Self {
        match preset {
            Preset::Int(n) => Self::Int(n),
            Preset::Text(s) => Self::Text(s.to_owned()),
        }
    }
}

/// One value of an enumeration.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// What the program sees.
    pub value: i64,
    /// Accepted spellings, case-insensitive; the first is the canonical one.
    pub names: &'static [&'static str],
    /// What the banner says.
    pub shown: &'static str,
}

/// How the text of a variable is read.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A decimal number from `min` to `max`, or `also`.
    Int {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
        /// One value outside the range that has its own meaning.
        also: Option<i64>,
    },
    /// A hexadecimal number, `0x` optional.
    Hex,
    /// 0/1, off/on, no/yes, false/true, disable(d)/enable(d).
    Switch,
    /// One of several names.
    Choice(&'static [Choice]),
    /// Any text. `empty` says that the empty string is a value of its own.
    Text {
        /// Whether `""` means something.
        empty: bool,
    },
    /// Names separated by commas or blanks.
    List,
    /// -1, a hexadecimal mask, or a list of processors such as `0,4-7`.
    Cpus,
}

/// How the banner shows a value.
#[derive(Clone, Copy, Debug)]
pub enum Show {
    /// As it is.
    Plain,
    /// Enabled or Disabled.
    Switch,
    /// Words instead of the number 0.
    Zero(&'static str),
    /// The number, then words: the first for 0, the second for the rest.
    Note(&'static str, &'static str),
    /// The words of the choice.
    Named,
    /// The number, then the words of the choice.
    NumberNamed,
}

/// Whether setting the option changes anything in this build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It does.
    Yes,
    /// Accepted and checked, not acted upon yet.
    NotYet,
    /// Concerns TCP, which stays with the kernel.
    Tcp,
    /// Marked in libvma as superseded; still translated here.
    Deprecated,
}

/// One row of the option table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Environment variable.
    pub name: &'static str,
    /// Former names, still accepted with a warning.
    pub former: &'static [&'static str],
    /// How it is read.
    pub kind: Kind,
    /// Value when nothing says otherwise.
    pub default: Preset,
    /// Unit of a number, or empty.
    pub unit: &'static str,
    /// How the banner shows the value.
    pub show: Show,
    /// Label in the banner; empty: not in the banner.
    pub label: &'static str,
    /// Whether it does anything.
    pub effect: Effect,
    /// Of one without effect: why nothing follows from it.
    pub idle: &'static str,
    /// One sentence.
    pub help: &'static str,
}

const fn row(kind: Kind, default: Preset, show: Show) -> Row {
    Row {
        name: "",
        former: &[],
        kind,
        default,
        unit: "",
        show,
        label: "",
        effect: Effect::NotYet,
        idle: "",
        help: "",
    }
}

/// A number from `min` to `max`.
pub(super) const fn int(default: i64, min: i64, max: i64) -> Row {
    row(
        Kind::Int {
            min,
            max,
            also: None,
        },
        Preset::Int(default),
        Show::Plain,
    )
}

/// A number without an upper limit of its own.
pub(super) const fn count(default: i64) -> Row {
    int(default, 0, i32::MAX as i64)
}

/// A number from `min` to `max`, or 0.
pub(super) const fn int_or_zero(default: i64, min: i64, max: i64) -> Row {
    row(
        Kind::Int {
            min,
            max,
            also: Some(0),
        },
        Preset::Int(default),
        Show::Plain,
    )
}

/// A hexadecimal number.
pub(super) const fn hex(default: i64) -> Row {
    row(Kind::Hex, Preset::Int(default), Show::Plain)
}

/// On or off.
pub(super) const fn switch(default: bool) -> Row {
    row(Kind::Switch, Preset::Int(default as i64), Show::Switch)
}

/// One of several names.
pub(super) const fn choice(default: i64, choices: &'static [Choice]) -> Row {
    row(Kind::Choice(choices), Preset::Int(default), Show::Named)
}

/// Text that must not be empty.
pub(super) const fn text(default: &'static str) -> Row {
    row(
        Kind::Text { empty: false },
        Preset::Text(default),
        Show::Plain,
    )
}

/// Text whose empty value has a meaning.
pub(super) const fn text_or_empty(default: &'static str) -> Row {
    row(
        Kind::Text { empty: true },
        Preset::Text(default),
        Show::Plain,
    )
}

/// A list of names.
pub(super) const fn list(default: &'static str) -> Row {
    row(Kind::List, Preset::Text(default), Show::Plain)
}

/// A set of processors.
pub(super) const fn cpus(default: &'static str) -> Row {
    row(Kind::Cpus, Preset::Text(default), Show::Plain)
}

impl Row {
    pub(super) const fn former(mut self, names: &'static [&'static str]) -> Self {
        self.former = names;
        self
    }

    pub(super) const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    pub(super) const fn show(mut self, show: Show) -> Self {
        self.show = show;
        self
    }

    pub(super) const fn label(mut self, label: &'static str) -> Self {
        self.label = label;
        self
    }

    pub(super) const fn acts(mut self) -> Self {
        self.effect = Effect::Yes;
        self
    }

    /// Does nothing here, for this reason.
    pub(super) const fn idle(mut self, why: &'static str) -> Self {
        self.idle = why;
        self
    }

    pub(super) const fn tcp(mut self) -> Self {
        self.effect = Effect::Tcp;
        self
    }

    pub(super) const fn deprecated(mut self) -> Self {
        self.effect = Effect::Deprecated;
        self
    }

    pub(super) const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    /// Reads a trimmed text.
    ///
    /// # Errors
    /// What is wrong with it, fit to follow `NAME="text" `.
    pub fn parse(&self, raw: &str) -> Result<Value, Bad> {
        match self.kind {
            Kind::Text { empty: true } => return Ok(Value::Text(raw.to_owned())),
            Kind::List => return Ok(Value::Text(names(raw).join(","))),
            _ if raw.is_empty() => return Err(Bad("is empty".to_owned())),
            _ => {}
        }
        let bad = |what: &str| Bad(format!("is not {what}"));
        match self.kind {
            Kind::Int { min, max, also } => {
                let digits = raw.strip_prefix(['-', '+']).unwrap_or(raw);
                if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(bad(&format!("a number ({})", self.range())));
                }
                match raw.parse::<i64>() {
                    Ok(n) if (min..=max).contains(&n) || also == Some(n) => Ok(Value::Int(n)),
                    _ => Err(Bad(format!("is out of range ({})", self.range()))),
                }
            }
            Kind::Hex => {
                let digits = raw.strip_prefix("0x").or_else(|| raw.strip_prefix("0X"));
                let digits = digits.unwrap_or(raw);
                // No sign: what it would read as cannot be written again.
                let number = digits.bytes().all(|b| b.is_ascii_hexdigit());
                let number = number.then(|| i64::from_str_radix(digits, 16).ok());
                number
                    .flatten()
                    .map(Value::Int)
                    .ok_or_else(|| bad("a hexadecimal number"))
            }
            Kind::Switch => match raw.to_ascii_lowercase().as_str() {
                "0" | "off" | "no" | "false" | "disable" | "disabled" => Ok(Value::Int(0)),
                "1" | "on" | "yes" | "true" | "enable" | "enabled" => Ok(Value::Int(1)),
                _ => Err(bad("a switch (0 or 1)")),
            },
            Kind::Choice(choices) => {
                let known = |c: &&Choice| c.names.iter().any(|n| n.eq_ignore_ascii_case(raw));
                if let Some(found) = choices.iter().find(known) {
                    return Ok(Value::Int(found.value));
                }
                // Numbers and short names are all near each other; a guess would mislead.
                let words = |name: &&str| raw.len() > 2 && name.len() > 2;
                let spellings = choices
                    .iter()
                    .flat_map(|c| c.names.iter().copied())
                    .filter(words);
                Err(
                    match suggest::nearest(&raw.to_ascii_lowercase(), spellings) {
                        Some(near) => Bad(format!("is not known, did you mean {near}?")),
                        None => bad(&format!("one of {}", self.range())),
                    },
                )
            }
            Kind::Text { .. } | Kind::List => Ok(Value::Text(raw.to_owned())),
            Kind::Cpus if is_cpus(raw) => Ok(Value::Text(raw.to_owned())),
            Kind::Cpus => Err(bad("-1, a hexadecimal mask or a list of processors")),
        }
    }

    /// The text that parses to this value: what one would write in the environment.
    #[must_use]
    pub fn render(&self, value: &Value) -> String {
        match (value, self.kind) {
            (Value::Int(n), Kind::Choice(_)) => match self.chosen(*n) {
                Some(choice) => choice.names.first().copied().unwrap_or_default().to_owned(),
                None => n.to_string(),
            },
            (Value::Int(n), Kind::Hex) => format!("{n:#x}"),
            (Value::Int(n), _) => n.to_string(),
            (Value::Text(s), _) => s.clone(),
        }
    }

    /// The text of the banner's value column, without padding.
    #[must_use]
    pub fn shown(&self, value: &Value) -> String {
        let n = match value {
            Value::Int(n) => *n,
            Value::Text(s) => return s.clone(),
        };
        let words = self.chosen(n).map_or("", |c| c.shown);
        match self.show {
            Show::Switch => if n != 0 { "Enabled" } else { "Disabled" }.to_owned(),
            Show::Zero(words) if n == 0 => words.to_owned(),
            Show::Note(words, _) if n == 0 => format!("{n:<2}{words}"),
            Show::Note(_, words) if !words.is_empty() => format!("{n:<2}{words}"),
            Show::Named => words.to_owned(),
            Show::NumberNamed => format!("{n:<2}{words}"),
            Show::Plain | Show::Zero(_) | Show::Note(..) => n.to_string(),
        }
    }

    /// The accepted values, for people.
    #[must_use]
    pub fn range(&self) -> String {
        match self.kind {
            Kind::Int { min, max, also } => {
                let upto = if max == i64::from(i32::MAX) {
                    format!("{min} or more")
                } else {
                    format!("{min} to {max}")
                };
                also.map_or(upto.clone(), |n| format!("{n}, or {upto}"))
            }
            Kind::Hex => "hexadecimal".to_owned(),
            Kind::Switch => "0 or 1".to_owned(),
            Kind::Choice(choices) => {
                let first = choices.iter().filter_map(|c| c.names.first().copied());
                first.collect::<Vec<_>>().join(", ")
            }
            Kind::Text { .. } => "text".to_owned(),
            Kind::List => "comma list".to_owned(),
            Kind::Cpus => "-1, hexadecimal mask or list".to_owned(),
        }
    }

    fn chosen(&self, value: i64) -> Option<&'static Choice> {
        match self.kind {
            Kind::Choice(choices) => choices.iter().find(|c| c.value == value),
            _ => None,
        }
    }
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad(pub(super) String);

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Splits a list at commas and blanks.
pub(super) fn names(raw: &str) -> Vec<&str> {
    raw.split(|c: char| c == ',' || c.is_whitespace())
        .filter(|s| !s.is_empty())
        .collect()
}

fn is_cpus(raw: &str) -> bool {
    if raw == "-1" {
        return true;
    }
    if let Some(mask) = raw.strip_prefix("0x").or_else(|| raw.strip_prefix("0X")) {
        return !mask.is_empty() && mask.bytes().all(|b| b.is_ascii_hexdigit());
    }
    raw.split(',').all(|part| match part.split_once('-') {
        Some((low, high)) => match (low.parse::<u16>(), high.parse::<u16>()) {
            (Ok(low), Ok(high)) => low <= high,
            _ => false,
        },
        None => part.parse::<u16>().is_ok(),
    })
}
