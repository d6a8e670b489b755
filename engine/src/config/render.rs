//! The option table as text: a listing for the terminal, tables for the README.

use super::option::{Effect, Row, Value};
use super::{Opt, Profile};
use std::fmt::Write;

fn default_text(row: &Row) -> String {
    let text = row.render(&Value::from(row.default));
    if text.is_empty() {
        "(empty)".to_owned()
    } else {
        text
    }
}

fn effect_text(effect: Effect) -> &'static str {
    match effect {
        Effect::Yes => "",
        Effect::NotYet => "effect: none yet",
        Effect::Tcp => "effect: none, TCP stays with the kernel",
        Effect::Deprecated => "deprecated",
    }
}

fn range_text(row: &Row) -> String {
    let mut range = row.range();
    if !row.unit.is_empty() {
        let _ = write!(range, " ({})", row.unit);
    }
    range
}

/// Every option with its values, default and meaning.
#[must_use]
pub fn listing() -> String {
    let mut out = String::new();
    for row in Opt::ALL.iter().map(|o| o.row()) {
        let _ = writeln!(out, "{}={}", row.name, default_text(row));
        let _ = writeln!(out, "    {}", row.help);
        let _ = writeln!(out, "    values: {}", range_text(row));
        if !row.former.is_empty() {
            let _ = writeln!(out, "    formerly: {}", row.former.join(", "));
        }
        if row.effect != Effect::Yes {
            let _ = writeln!(out, "    {}", effect_text(row.effect));
        }
    }
    out
}

/// The options that act as a Markdown table, then the names of the others.
#[must_use]
pub fn markdown() -> String {
    let mut out = String::from("| Variable | Default | Values | Meaning |\n|---|---|---|---|\n");
    let rows = || Opt::ALL.iter().map(|o| o.row());
    for row in rows().filter(|r| matches!(r.effect, Effect::Yes | Effect::Deprecated)) {
        let deprecated = if row.effect == Effect::Deprecated {
            " Deprecated."
        } else {
            ""
        };
        let default = default_text(row);
        let cell = |s: &str| s.replace('|', "\\|");
        let (values, help) = (cell(&range_text(row)), cell(row.help));
        let _ = writeln!(
            out,
            "| `{}` | `{default}` | {values} | {help}{deprecated} |",
            row.name
        );
    }
    for (effect, title) in [
        (Effect::NotYet, "Accepted and checked, without effect yet"),
        (
            Effect::Tcp,
            "Accepted without effect, for TCP stays with the kernel",
        ),
    ] {
        let of_it = rows().filter(|r| r.effect == effect);
        let names: Vec<_> = of_it.map(|r| format!("`{}`", r.name)).collect();
        let _ = writeln!(out, "\n{title}: {}.", names.join(", "));
    }
    out
}

/// The profiles as a Markdown table.
#[must_use]
pub fn profiles_markdown() -> String {
    let mut out = String::from("| `VMA_SPEC` | Changes |\n|---|---|\n");
    for profile in Profile::ALL {
        let names: Vec<_> = profile.names().iter().map(|n| format!("`{n}`")).collect();
        let setting = |(opt, preset): &(Opt, super::Preset)| {
            format!("{}={}", opt.name(), opt.row().render(&Value::from(*preset)))
        };
        let changes: Vec<_> = profile.settings().iter().map(setting).collect();
        let changes = if changes.is_empty() {
            "nothing".to_owned()
        } else {
            changes.join(", ")
        };
        let _ = writeln!(out, "| {} | {changes} |", names.join(", "));
    }
    out
}
