//! What the log directories know of the metastore sessions of this broker's lives.

use super::LogManager;
use crate::storage::machine::Machine;
use crate::storage::session_file::SessionFile;

impl LogManager {
    /// The sessions of earlier lives of this broker that are certainly over. The directories are locked.
    pub fn dead_sessions(&self, machine: &Machine) -> Vec<i64> {
        let mut dead = Vec::new();
        for dir in self.dirs.iter().map(|state| &state.dir).filter(|dir| dir.is_online()) {
            let told = SessionFile::read(&**dir.disk(), dir.path())
                .and_then(|file| file.map(|file| Ok((file, dir.lock_identity()?))).transpose());
            match told {
                Ok(Some((file, lock))) if file.is_of_the_dead(lock, machine) => dead.push(file.session),
                Ok(_) => {}
                // What it would have told is found out by waiting.
                Err(error) => tracing::warn!(dir = %dir.path().display(), %error, "the last session is not known"),
            }
        }
        dead.dedup();
        dead
    }

    /// Notes durably, in every directory, that this broker is about to register in `session`. Blocks.
    pub fn note_session(&self, session: i64, machine: &Machine) {
        for dir in self.dirs.iter().map(|state| &state.dir).filter(|dir| dir.is_online()) {
            let noted = dir.lock_identity().and_then(|lock| {
                SessionFile { session, lock, machine: machine.clone() }.write(&**dir.disk(), dir.path())
            });
            if let Err(error) = noted {
                dir.fail(&error, "the session cannot be noted");
            }
        }
    }
}
