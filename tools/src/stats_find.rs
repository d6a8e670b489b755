//! Which process is meant where no pid is given: the first live one with a statistics
//! file in the directory. Also tidies up: a killed process leaves its file behind.

use engine::stats::{ReadError, Reader, file_path};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The pids that a directory has statistics files of, ascending.
#[must_use]
pub fn candidates(directory: &str) -> Vec<u32> {
    let directory = if directory.is_empty() { "." } else { directory };
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let pid = |entry: std::fs::DirEntry| -> Option<u32> {
        entry
            .file_name()
            .to_str()?
            .strip_prefix("vmastat.")?
            .parse()
            .ok()
    };
    let mut pids: Vec<u32> = entries.flatten().filter_map(pid).collect();
    pids.sort_unstable();
    pids
}

/// Whether a program is called by this name: whole, or without its directory.
#[must_use]
pub fn is_called(program: &str, name: &str) -> bool {
    program == name || program.rsplit('/').next() == Some(name)
}

/// All processes that can be read, by pid. With `clean`, files of finished processes
/// are removed; only their owner can.
#[must_use]
pub fn running(directory: &str, name: Option<&str>, clean: bool) -> Vec<Reader> {
    let mut found = Vec::new();
    for pid in candidates(directory) {
        match Reader::open(directory, pid) {
            Ok(reader) => {
                let called = |name| {
                    reader
                        .snapshot()
                        .is_ok_and(|seen| is_called(&seen.program, name))
                };
                if name.is_none_or(called) {
                    found.push(reader);
                }
            }
            Err(ReadError::Finished(_)) if clean => {
                if let Some(path) = file_path(directory, pid) {
                    let path = std::ffi::OsStr::from_bytes(path.as_bytes());
                    let _ = std::fs::remove_file(Path::new(path));
                }
            }
            Err(_) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::stats::Publisher;

    #[test]
    fn names() {
        assert!(is_called("/usr/bin/java", "java"));
        assert!(is_called("java", "java"));
        assert!(!is_called("javac", "java"));
    }

    #[test]
    fn finds_the_living_and_removes_the_dead() {
        let directory = std::env::temp_dir().join(format!("find-test-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).unwrap();
        let text = directory.to_str().unwrap();
        let (own, warning) = Publisher::create(text, std::process::id(), "/bin/tester", 1);
        assert_eq!(warning, None);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let (_, warning) = Publisher::create(text, child.id(), "gone", 1);
        assert_eq!(warning, None);
        child.wait().unwrap();
        std::fs::write(directory.join("vmastat.x"), "").unwrap();
        std::fs::write(directory.join("vmastat.1"), "not one of ours").unwrap();

        let pids = |name, clean| -> Vec<u32> {
            running(text, name, clean).iter().map(|r| r.pid()).collect()
        };
        assert_eq!(candidates(text).len(), 3);
        assert_eq!(pids(None, false), [std::process::id()]);
        assert_eq!(candidates(text).len(), 3);
        assert_eq!(pids(Some("tester"), true), [std::process::id()]);
        assert!(pids(Some("other"), true).is_empty());
        assert_eq!(
            candidates(text),
            [1, std::process::id()],
            "what is damaged is not ours"
        );
        own.remove();
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
