//! The backend of an interface: the first of the configuration's that can open it.

use super::{Backend, Memory, Opened, Packet, Port, QueueOptions, Verbs};
use crate::config::BackendChoice;
use crate::error::Reason;

/// What SHIM_BACKEND leaves to be tried, in this order.
#[derive(Clone, Copy, Debug)]
pub struct Candidates {
    backends: &'static [&'static dyn Backend],
    /// The choice as configured.
    choice: &'static str,
}

/// An interface that a backend has opened.
#[derive(Debug)]
pub struct Chosen {
    /// Whose it is.
    pub backend: &'static dyn Backend,
    /// Its queue.
    pub opened: Opened,
    /// Why this backend, in words.
    pub why: String,
}

/// No backend can open the interface.
#[derive(Debug)]
pub struct Refused {
    /// What the last one said.
    pub reason: Reason,
    /// What each one said, in words.
    pub why: String,
}

const AUTO: &[&dyn Backend] = &[&Verbs, &Packet];

/// The backends for SHIM_BACKEND.
///
/// # Errors
/// A backend that this build does not have, or `off`.
pub fn candidates(choice: BackendChoice) -> Result<Candidates, Reason> {
    let (backends, choice): (&'static [&'static dyn Backend], _) = match choice {
        BackendChoice::Off => return Err(Reason::SwitchedOff),
        BackendChoice::Xdp => return Err(Reason::NoBackend),
        BackendChoice::Verbs => (&[&Verbs], "SHIM_BACKEND=verbs"),
        BackendChoice::Packet => (&[&Packet], "SHIM_BACKEND=packet"),
        BackendChoice::Memory => (&[&Memory], "SHIM_BACKEND=memory"),
        BackendChoice::Auto => (AUTO, "auto"),
    };
    Ok(Candidates { backends, choice })
}

impl Candidates {
    /// Opens an interface.
    ///
    /// # Errors
    /// Why none of the backends can serve it.
    pub fn open(&self, port: Port<'_>, options: QueueOptions) -> Result<Chosen, Refused> {
        self.first(|backend| backend.open(port, options))
    }

    /// Opens an interface for sending alone.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_transmit(&self, port: Port<'_>, options: QueueOptions) -> Result<Chosen, Refused> {
        self.first(|backend| backend.open_transmit(port, options))
    }

    fn first(
        &self,
        open: impl Fn(&dyn Backend) -> Result<Opened, Reason>,
    ) -> Result<Chosen, Refused> {
        let mut why = self.choice.to_owned();
        let mut reason = Reason::NoBackend;
        for backend in self.backends {
            match open(*backend) {
                Ok(opened) => {
                    return Ok(Chosen {
                        backend: *backend,
                        opened,
                        why,
                    });
                }
                Err(refusal) => {
                    reason = refusal;
                    why.push_str(&format!("; {}: {reason}", backend.name()));
                }
            }
        }
        Err(Refused { reason, why })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Delivery;
    use super::*;

    #[derive(Debug)]
    struct Refuses(&'static str, Reason);

    impl Backend for Refuses {
        fn name(&self) -> &'static str {
            self.0
        }

        fn delivery(&self) -> Delivery {
            Delivery::Tap
        }

        fn open(&self, _: Port<'_>, _: QueueOptions) -> Result<Opened, Reason> {
            Err(self.1)
        }
    }

    const PORT: Port<'_> = Port {
        index: 2,
        name: "eth0",
        mtu: 1500,
        mac: [0; 6],
    };

    fn open(backends: &'static [&'static dyn Backend]) -> Result<Chosen, Refused> {
        let candidates = Candidates {
            backends,
            choice: "auto",
        };
        let options = QueueOptions {
            slots: 64,
            ..QueueOptions::default()
        };
        candidates.open(PORT, options)
    }

    #[test]
    fn the_first_that_can_takes_it_and_refusals_are_told() {
        let chosen = open(&[&Refuses("first", Reason::NoPermission), &Memory, &Packet])
            .expect("memory opens anywhere");
        assert_eq!(chosen.backend.name(), "memory");
        assert_eq!(chosen.why, "auto; first: missing CAP_NET_RAW");
    }

    #[test]
    fn the_last_refusal_is_the_interfaces() {
        let refused = open(&[
            &Refuses("first", Reason::NoBackend),
            &Refuses("second", Reason::NoPermission),
        ])
        .expect_err("both refuse");
        assert_eq!(refused.reason, Reason::NoPermission);
        assert!(refused.why.ends_with("; second: missing CAP_NET_RAW"));
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let refusal = |choice| candidates(choice).map(drop);
        assert_eq!(refusal(BackendChoice::Off), Err(Reason::SwitchedOff));
        assert_eq!(refusal(BackendChoice::Xdp), Err(Reason::NoBackend));
        assert_eq!(refusal(BackendChoice::Auto), Ok(()));
    }
}
