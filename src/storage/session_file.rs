//! `klamm-session`: the metastore session in which the broker of a log directory registered last, and where it ran.
//!
//! ```text
//! session=144115188075855873
//! lock.device=66306
//! lock.inode=3146
//! boot.id=0e0e5ab3-8b1a-4a2f-9c62-6c7f4c8d5f7e
//! machine.id=5f0c7d9e0b1a4c55a3a1d2f60f4b8e21
//! ```
//! Whoever holds the directory's `.lock` and finds itself named here knows that the process which wrote this is dead: it
//! held that lock. A copy of the directory has another `.lock`; one that was carried to another machine names the first.

use std::io;
use std::path::Path;

use super::atomic_file;
use super::disk::{Disk, FileIdentity};
use super::machine::Machine;
use crate::config::properties;

pub const NAME: &str = "klamm-session";

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFile {
    pub session: i64,
    /// The `.lock` beside it.
    pub lock: FileIdentity,
    pub machine: Machine,
}

impl SessionFile {
    pub fn read(disk: &dyn Disk, dir: &Path) -> io::Result<Option<SessionFile>> {
        let path = dir.join(NAME);
        let Some(bytes) = atomic_file::read_if_there(disk, &path)? else { return Ok(None) };
        let bad = |what: String| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()));
        let mut keys = properties::parse(&bytes).map_err(|error| bad(error.to_string()))?;
        let session = number(keys.get("session")).ok_or_else(|| bad("no session".to_owned()))?;
        let device = number(keys.get("lock.device")).ok_or_else(|| bad("no lock.device".to_owned()))?;
        let inode = number(keys.get("lock.inode")).ok_or_else(|| bad("no lock.inode".to_owned()))?;
        let machine = Machine { boot: keys.remove("boot.id"), id: keys.remove("machine.id") };
        Ok(Some(SessionFile { session, lock: FileIdentity { device, inode }, machine }))
    }

    /// Durably, for its owner alone.
    pub fn write(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        let (session, device) = (self.session.to_string(), self.lock.device.to_string());
        let inode = self.lock.inode.to_string();
        let entries = [
            ("session", Some(session.as_str())),
            ("lock.device", Some(&device)),
            ("lock.inode", Some(&inode)),
            ("boot.id", self.machine.boot.as_deref()),
            ("machine.id", self.machine.id.as_deref()),
        ];
        let entries = entries.into_iter().filter_map(|(key, value)| Some((key, value?)));
        atomic_file::replace_private(disk, &dir.join(NAME), properties::write(&[], entries).as_bytes())
    }

    /// Whether its writer is dead, to the holder of `lock` on `machine`.
    pub fn is_of_the_dead(&self, lock: FileIdentity, machine: &Machine) -> bool {
        self.lock == lock && machine.was(&self.machine)
    }
}

fn number<T: std::str::FromStr>(text: Option<&String>) -> Option<T> {
    text?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::storage::disk_real::RealDisk;

    fn machine(boot: Option<&str>, id: Option<&str>) -> Machine {
        Machine { boot: boot.map(str::to_owned), id: id.map(str::to_owned) }
    }

    fn file() -> SessionFile {
        let lock = FileIdentity { device: u64::MAX, inode: 7 };
        SessionFile { session: -5, lock, machine: machine(Some("b1"), Some("m1")) }
    }

    #[test]
    fn is_read_as_it_was_written_and_nobody_elses() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(SessionFile::read(&RealDisk, dir.path()).unwrap(), None);
        for written in [file(), SessionFile { session: i64::MIN, machine: Machine::default(), ..file() }] {
            written.write(&RealDisk, dir.path()).unwrap();
            assert_eq!(SessionFile::read(&RealDisk, dir.path()).unwrap(), Some(written));
        }
        let mode = std::fs::metadata(dir.path().join(NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_cannot_be_read_says_what_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "session=x\nlock.device=1\nlock.inode=1\n", "session=1\nlock.device=-1\nlock.inode=1\n"] {
            std::fs::write(dir.path().join(NAME), text).unwrap();
            let error = SessionFile::read(&RealDisk, dir.path()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{text:?}");
        }
    }

    #[test]
    fn only_the_same_lock_on_the_same_machine_tells_a_death() {
        let (file, same) = (file(), FileIdentity { device: u64::MAX, inode: 7 });
        for (boot, id, dead) in [
            (Some("b1"), Some("m1"), true),
            (Some("b2"), Some("m1"), true),
            (Some("b1"), None, true),
            (Some("b2"), None, false),
            (Some("b2"), Some("m2"), false),
            (None, None, false),
        ] {
            assert_eq!(file.is_of_the_dead(same, &machine(boot, id)), dead, "{boot:?} {id:?}");
        }
        for other in [FileIdentity { inode: 8, ..same }, FileIdentity { device: 1, ..same }] {
            assert!(!file.is_of_the_dead(other, &file.machine), "{other:?}");
        }
        let nowhere = SessionFile { machine: Machine::default(), ..file };
        assert!(!nowhere.is_of_the_dead(same, &Machine::default()), "nobody knows where it ran");
    }
}
