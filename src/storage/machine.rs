//! Which machine this is, and which start of it.

use std::fs;

/// A machine since its kernel started. `None` where it does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Another one after each start of the kernel.
    pub boot: Option<String>,
    /// Stays.
    pub id: Option<String>,
}

impl Machine {
    /// The one this process runs on: Linux's `boot_id` and systemd's `machine-id`.
    pub fn this() -> Machine {
        let first = |paths: &[&str]| {
            let texts = paths.iter().filter_map(|path| fs::read_to_string(path).ok());
            texts.map(|text| text.trim().to_owned()).find(|text| !text.is_empty())
        };
        Machine {
            boot: first(&["/proc/sys/kernel/random/boot_id"]),
            id: first(&["/etc/machine-id", "/var/lib/dbus/machine-id"]),
        }
    }

    /// Whether a process that ran on `other` can only have run on this machine: now, or before it was started last.
    pub fn was(&self, other: &Machine) -> bool {
        let same = |a: &Option<String>, b: &Option<String>| a.is_some() && a == b;
        same(&self.boot, &other.boot) || same(&self.id, &other.id)
    }
}
