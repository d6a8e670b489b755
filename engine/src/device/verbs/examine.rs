//! What a person wants to know of an interface's card, whether or not it can be used.
//! For the doctor; nothing of a data path.

use super::probe;
use crate::error::{Errno, Reason};
use crate::sys::verbs::{self, DeviceLimits, DeviceList, PortInfo};

/// The card of an interface.
#[derive(Clone, Debug)]
pub struct Card {
    /// As in /sys/class/infiniband.
    pub name: String,
    /// Its directory there.
    pub path: String,
    /// The interface's port, from 1.
    pub port: u8,
    /// iWARP instead of InfiniBand's transport.
    pub iwarp: bool,
    /// What the device can do, or why it does not say.
    pub limits: Result<DeviceLimits, Errno>,
    /// What the port is, or why it does not say.
    pub link: Result<PortInfo, Errno>,
}

/// What there is.
#[derive(Clone, Debug)]
pub struct Examination {
    /// libibverbs.so.1 can be loaded.
    pub library: bool,
    /// Every RDMA device of the host.
    pub devices: Vec<String>,
    /// The interface's, or why it has none.
    pub card: Result<Card, Reason>,
}

/// Looks at an interface; makes no queue.
#[must_use]
pub fn examine(interface: &str) -> Examination {
    let without = |library, reason| Examination {
        library,
        devices: Vec::new(),
        card: Err(reason),
    };
    let Some(library) = verbs::library(false) else {
        return without(false, Reason::NoVerbsLibrary);
    };
    let Ok(list) = DeviceList::get(library) else {
        return without(true, Reason::NoRdmaDevice);
    };
    let names = list.names();
    let card = probe::find(&names, interface).and_then(|place| {
        let name = &names[place.device];
        let context = list.open(place.device).map_err(probe::open_reason)?;
        Ok(Card {
            name: name.name.clone(),
            path: name.path.to_string_lossy().into_owned(),
            port: place.port,
            iwarp: name.iwarp,
            limits: context.limits(),
            link: context.port(place.port),
        })
    });
    Examination {
        library: true,
        devices: names.into_iter().map(|n| n.name).collect(),
        card,
    }
}
