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
        Effect::NotYet => "effect: none",
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
        if !row.idle.is_empty() {
            let _ = writeln!(out, "    because: {}", row.idle);
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
    let names = |rows: Vec<&Row>| {
        let names: Vec<_> = rows.iter().map(|r| format!("`{}`", r.name)).collect();
        names.join(", ")
    };
    let of = |effect| rows().filter(move |r| r.effect == effect);
    let mut reasons: Vec<&str> = Vec::new();
    for row in of(Effect::NotYet) {
        if !reasons.contains(&row.idle) {
            reasons.push(row.idle);
        }
    }
    let _ = writeln!(
        out,
        "\nAccepted and checked, without effect, and why:\n\n| Variables | Why |\n|---|---|"
    );
    for why in reasons {
        let rows = of(Effect::NotYet).filter(|r| r.idle == why).collect();
        let _ = writeln!(out, "| {} | {why} |", names(rows));
    }
    let _ = writeln!(
        out,
        "\nAccepted without effect, for TCP stays with the kernel: {}.",
        names(of(Effect::Tcp).collect())
    );
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
