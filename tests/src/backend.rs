//! On which device the tests run: `SHIM_TEST_BACKEND=packet` (the default) or `verbs`.
//!
//! There is no card here: `verbs` runs on the software verbs library (`tests/softverbs`),
//! which the programs load in place of libibverbs.so.1.

use crate::victim;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A device under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// AF_PACKET.
    Packet,
    /// Queue pairs of the software verbs library, its wire on the interface.
    Verbs,
}

impl Backend {
    /// The one that this run is about.
    ///
    /// # Panics
    /// When `SHIM_TEST_BACKEND` is neither.
    #[must_use]
    pub fn current() -> Self {
        match std::env::var("SHIM_TEST_BACKEND").as_deref() {
            Err(_) | Ok("" | "packet") => Self::Packet,
            Ok("verbs") => Self::Verbs,
            Ok(other) => panic!("SHIM_TEST_BACKEND={other}: packet or verbs"),
        }
    }

    /// As in the statistics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Verbs => "verbs",
        }
    }

    /// What a program under the library is started with.
    #[must_use]
    pub fn variables(self) -> Vec<(String, String)> {
        match self {
            Self::Packet => Vec::new(),
            Self::Verbs => on_software("packet", &softverbs()),
        }
    }
}

/// The variables for the software verbs library in `directory`, with this wire.
#[must_use]
pub fn on_software(wire: &str, directory: &Path) -> Vec<(String, String)> {
    [
        ("LD_LIBRARY_PATH", directory.display().to_string().as_str()),
        ("SHIM_BACKEND", "verbs"),
        ("SOFTVERBS_WIRE", wire),
        ("SOFTVERBS_STRICT", "abort"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

/// A directory that holds the software verbs library as libibverbs.so.1.
///
/// # Panics
/// When it has not been built.
#[must_use]
pub fn softverbs() -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY
        .get_or_init(|| {
            let built = victim::target().join("release/libsoftverbs.so");
            assert!(
                built.is_file(),
                "{} is missing: cargo build --release -p softverbs first",
                built.display()
            );
            let directory = victim::target().join("softverbs");
            install(&built, &directory);
            directory
        })
        .clone()
}

/// Copies the library to where the dynamic linker looks for it. Atomic: programs of another
/// run may be about to load it.
///
/// # Panics
/// When the directory is not writable.
pub fn install(library: &Path, directory: &Path) {
    std::fs::create_dir_all(directory).expect("the directory is writable");
    let fresh = directory.join(format!("{}.tmp", std::process::id()));
    std::fs::copy(library, &fresh).expect("the library can be copied");
    std::fs::rename(&fresh, directory.join("libibverbs.so.1")).expect("in one directory");
}
