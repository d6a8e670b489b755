//! A program that takes a line and answers with lines, the last of which is ".".

use crate::preload::{self, Program};
use crate::stats;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Such a program; killed when dropped.
#[derive(Debug)]
pub struct Talk {
    child: Child,
    to: ChildStdin,
    lines: Receiver<String>,
    err: File,
}

impl Talk {
    /// Starts it.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(program: &Program) -> Self {
        let (err, err_reader) = preload::capture();
        let mut child = program
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(err)
            .spawn()
            .expect("ip and env can be started");
        let to = child.stdin.take().expect("asked for");
        let from = BufReader::new(child.stdout.take().expect("asked for"));
        let (sender, lines) = channel();
        // Ends with the program, or with its reader.
        std::thread::spawn(move || {
            for line in from.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            to,
            lines,
            err: err_reader,
        }
    }

    /// Its pid (the launchers exec, they do not fork).
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Says a line; the answer is awaited by [`Self::answer`].
    pub fn say(&mut self, line: &str) {
        // A program that has ended shows in the answer.
        let _ = writeln!(self.to, "{line}").and_then(|()| self.to.flush());
    }

    /// The answer to the last line.
    ///
    /// # Errors
    /// What it had answered when it ended or did not answer in time.
    pub fn answer(&mut self, limit: Duration) -> Result<String, String> {
        let mut text = String::new();
        loop {
            match self.lines.recv_timeout(limit) {
                Ok(line) if line == "." => return Ok(text),
                Ok(line) => {
                    text.push_str(&line);
                    text.push('\n');
                }
                Err(why) => {
                    let status = self.child.try_wait();
                    let err = preload::text(&mut self.err);
                    return Err(format!("{text}NO ANSWER: {why}, {status:?}\n{err}"));
                }
            }
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A killed program cannot remove its statistics.
        let file = format!("vmastat.{}", self.child.id());
        let _ = std::fs::remove_file(Path::new(stats::DIRECTORY).join(file));
    }
}
