//! What is printed: a line for each thing looked at, and the verdict.

use std::io::Write as _;
use std::process::ExitCode;

/// How it ended for an interface, in one line.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// A card's queues serve it.
    Card(String),
    /// Queues serve it that no card has made.
    Software(String),
    /// No card, but accelerated.
    NoCard(String),
    /// Not accelerated, or what was tried did not work.
    Failed(String),
}

impl Verdict {
    /// 0 is best.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Self::Card(_) => 0,
            Self::Software(_) => 1,
            Self::NoCard(_) => 2,
            Self::Failed(_) => 3,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Card(what) => format!("{what}: a card works here"),
            Self::Software(what) => {
                format!("{what}: SOFTWARE that stands in for a card, no card was looked at")
            }
            Self::NoCard(what) => format!("{what}: works without a card (see above why)"),
            Self::Failed(what) => format!("FAILED: {what}"),
        }
    }

    fn code(&self) -> u8 {
        match self {
            Self::Card(_) => 0,
            Self::Failed(_) => 1,
            Self::Software(_) => 3,
            Self::NoCard(_) => 4,
        }
    }
}

/// Writes as it goes: where a step hangs, the ones before are seen.
#[derive(Debug)]
pub(crate) struct Report;

impl Report {
    pub(crate) fn heading(&mut self, text: &str) {
        self.print(&format!("\n{text}"));
    }

    /// As it should be.
    pub(crate) fn good(&mut self, what: &str, text: &str) {
        self.line("ok", what, text);
    }

    /// Neither good nor bad.
    pub(crate) fn note(&mut self, what: &str, text: &str) {
        self.line("note", what, text);
    }

    /// Works, with less.
    pub(crate) fn warn(&mut self, what: &str, text: &str) {
        self.line("warn", what, text);
    }

    /// Stands in the way.
    pub(crate) fn fail(&mut self, what: &str, text: &str) {
        self.line("FAIL", what, text);
    }

    fn line(&mut self, level: &str, what: &str, text: &str) {
        self.print(&format!("{level:<5} {what:<18} {text}"));
    }

    fn print(&mut self, line: &str) {
        // Nobody reads any more: the exit status still says it.
        let _ = writeln!(std::io::stdout(), "{line}");
    }

    /// The last line and the exit status.
    pub(crate) fn conclude(&mut self, verdict: &Verdict) -> ExitCode {
        self.print(&format!("\nVERDICT: {}", verdict.text()));
        ExitCode::from(verdict.code())
    }
}
