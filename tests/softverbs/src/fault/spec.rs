//! The items' text.

use crate::wire::Incident;
use rustix::io::Errno;

/// Which way a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Received.
    Rx,
    /// Sent.
    Tx,
}

/// What happens to every Nth frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Lost.
    Drop,
    /// A bit flipped.
    Corrupt,
    /// So many microseconds late.
    Delay(u64),
    /// After the next one.
    Reorder,
}

/// What an item asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Of every Nth frame; 0: no more.
    Every(Side, Trouble, u64),
    /// The Nth completion of a side gets a status.
    Error(Side, u64, u32),
    /// The Nth call of that name; none: every.
    Fail {
        /// Without `ibv_`.
        call: String,
        /// 0: no more.
        nth: Option<u64>,
        /// What it fails with.
        errno: Errno,
    },
    /// An asynchronous event after so many sends.
    Event(Incident, u64),
    /// Seed of what is random.
    Seed(u64),
}

/// One item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Interface, or all.
    interface: Option<String>,
    /// What is asked for.
    pub(super) action: Action,
}

impl Item {
    /// Whether it concerns an interface.
    pub(super) fn is_for(&self, interface: &str) -> bool {
        self.interface.as_ref().is_none_or(|name| name == interface)
    }

    /// Whether it is done once it has been done.
    pub(super) fn is_momentary(&self) -> bool {
        matches!(self.action, Action::Event(_, 0))
    }
}

/// All items of a text; those that make no sense as they are.
pub(super) fn parse(text: &str) -> impl Iterator<Item = Result<Item, &str>> {
    text.split(|c: char| c == ',' || c.is_whitespace())
        .filter(|word| !word.is_empty())
        .map(|word| item(word).ok_or(word))
}

fn item(word: &str) -> Option<Item> {
    let (interface, rest) = match word.split_once('/') {
        Some((name, rest)) => (Some(name.to_owned()), rest),
        None => (None, word),
    };
    let (name, value) = rest.split_once('=')?;
    let (side, name) = match name.split_once('.') {
        Some(("tx", name)) => (Side::Tx, name),
        Some(("rx", name)) => (Side::Rx, name),
        Some(_) => return None,
        None => (Side::Rx, name),
    };
    let number = |text: &str| text.parse::<u64>().ok();
    let action = match name {
        "drop" => Action::Every(side, Trouble::Drop, number(value)?),
        "corrupt" => Action::Every(side, Trouble::Corrupt, number(value)?),
        "reorder" if side == Side::Rx => Action::Every(side, Trouble::Reorder, number(value)?),
        "delay" if side == Side::Rx => {
            let (every, us) = value.split_once(':').unwrap_or((value, "0"));
            Action::Every(side, Trouble::Delay(number(us)?), number(every)?)
        }
        "error" => {
            let (nth, status) = value.split_once(':')?;
            let status = status.parse().ok().filter(|s| (1..=23).contains(s))?;
            Action::Error(side, number(nth).filter(|&n| n > 0)?, status)
        }
        "fail" => {
            let mut parts = value.splitn(3, ':');
            let call = parts.next()?;
            let nth = parts.next()?;
            Action::Fail {
                call: call.strip_prefix("ibv_").unwrap_or(call).to_owned(),
                nth: if nth == "*" { None } else { Some(number(nth)?) },
                errno: errno(parts.next()?)?,
            }
        }
        "event" => {
            let (kind, after) = value.split_once('@').unwrap_or((value, "0"));
            Action::Event(incident(kind)?, number(after)?)
        }
        "seed" => Action::Seed(number(value)?),
        _ => return None,
    };
    Some(Item { interface, action })
}

fn incident(kind: &str) -> Option<Incident> {
    Some(match kind {
        "port_up" => Incident::PortActive,
        "port_down" => Incident::PortDown,
        "device_fatal" => Incident::DeviceFatal,
        "qp_fatal" => Incident::QueuePairFatal,
        "cq_error" => Incident::CompletionQueueError,
        other => Incident::Other(other.parse().ok()?),
    })
}

fn errno(name: &str) -> Option<Errno> {
    Some(match name {
        "EPERM" => Errno::PERM,
        "ENOENT" => Errno::NOENT,
        "EINTR" => Errno::INTR,
        "EIO" => Errno::IO,
        "EAGAIN" => Errno::AGAIN,
        "ENOMEM" => Errno::NOMEM,
        "EACCES" => Errno::ACCESS,
        "EFAULT" => Errno::FAULT,
        "EBUSY" => Errno::BUSY,
        "EEXIST" => Errno::EXIST,
        "ENODEV" => Errno::NODEV,
        "EINVAL" => Errno::INVAL,
        "ENFILE" => Errno::NFILE,
        "EMFILE" => Errno::MFILE,
        "ENOSPC" => Errno::NOSPC,
        "ENOSYS" => Errno::NOSYS,
        "EOPNOTSUPP" => Errno::OPNOTSUPP,
        "ETIMEDOUT" => Errno::TIMEDOUT,
        number => {
            let number = number.parse().ok().filter(|n| (1..4096).contains(n))?;
            Errno::from_raw_os_error(number)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Option<Action> {
        item(text).map(|item| item.action)
    }

    #[test]
    fn items_are_understood() {
        let every = |side, trouble, n| Some(Action::Every(side, trouble, n));
        assert_eq!(one("drop=3"), every(Side::Rx, Trouble::Drop, 3));
        assert_eq!(one("tx.drop=0"), every(Side::Tx, Trouble::Drop, 0));
        assert_eq!(
            one("rx.delay=2:700"),
            every(Side::Rx, Trouble::Delay(700), 2)
        );
        assert_eq!(one("error=1:4"), Some(Action::Error(Side::Rx, 1, 4)));
        let fail = |call: &str, nth, errno| {
            let call = call.to_owned();
            Some(Action::Fail { call, nth, errno })
        };
        assert_eq!(
            one("fail=ibv_reg_mr:2:ENOMEM"),
            fail("reg_mr", Some(2), Errno::NOMEM)
        );
        assert_eq!(
            one("fail=create_qp:*:11"),
            fail("create_qp", None, Errno::AGAIN)
        );
        assert_eq!(
            one("event=port_down@7"),
            Some(Action::Event(Incident::PortDown, 7))
        );
        assert_eq!(one("event=19"), Some(Action::Event(Incident::Other(19), 0)));
    }

    #[test]
    fn nonsense_is_told() {
        for bad in [
            "drop",
            "drop=x",
            "up.drop=1",
            "tx.delay=1:1",
            "error=0:4",
            "error=1:0",
            "error=1:99",
            "fail=a:1",
            "fail=a:1:EWHAT",
            "fail=a:-1:EIO",
            "event=fire",
            "noise=1",
        ] {
            assert_eq!(item(bad), None, "{bad}");
        }
        let parsed: Vec<_> = parse("drop=1, what\n a0/seed=4,").collect();
        assert_eq!(parsed.len(), 3);
        assert_eq!(parsed[1], Err("what"));
        assert!(
            parsed[2]
                .as_ref()
                .is_ok_and(|i| i.is_for("a0") && !i.is_for("a1"))
        );
    }
}
