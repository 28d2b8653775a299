//! What follows when a log directory fails.
//!
//! ```text
//! last one, or the first while it holds the metastore ── the broker halts
//! one of several ── its partitions answer KAFKA_STORAGE_ERROR, whoever waits on them is answered,
//!                   /log_dir_event_notification/log_dir_event_ tells the controller
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::halt::Halt;
use crate::cluster::{Session, until_known};
use crate::metastore::CreateMode;
use crate::metastore::schema::{LogDirEvent, paths};
use crate::replication::table::PartitionTable;
use crate::spawn::Spawner;
use crate::storage::manager::LogManager;
use crate::types::BrokerId;

/// Between attempts to tell the controller.
const BACK_OFF: Duration = Duration::from_millis(200);

/// Directories that failed, those before [`watch`] too.
pub struct Failures(mpsc::UnboundedReceiver<PathBuf>);

/// Watches from now on. `metastore` is the directory that holds the embedded metastore, if it is ours.
pub fn watch(logs: &LogManager, metastore: Option<PathBuf>, halt: Halt) -> Failures {
    let (failed, failures) = mpsc::unbounded_channel();
    let to_tell = failed.clone();
    logs.watch_offline(move |path, last| {
        match fatal(path, last, metastore.as_deref()) {
            Some(sentence) => halt.because(sentence),
            // Nobody listens any more when the broker ends.
            None => drop(to_tell.send(path.to_path_buf())),
        }
    });
    // After the watcher is set: one that fails in between is told twice, which does no harm.
    for dir in logs.dirs().into_iter().filter(|dir| !dir.online) {
        let _ = failed.send(dir.path);
    }
    Failures(failures)
}

fn fatal(path: &Path, last: bool, metastore: Option<&Path>) -> Option<String> {
    let shown = path.display();
    if last {
        return Some(format!("log directory {shown} failed, and none is left online: the broker halts"));
    }
    (metastore == Some(path))
        .then(|| format!("log directory {shown} failed, and with it the metastore that it holds: the broker halts"))
}

impl Failures {
    /// Deals with each failure on the control thread. The broker is registered by now.
    pub fn handle(mut self, spawner: &dyn Spawner, table: Arc<PartitionTable>, session: Arc<Session>, me: BrokerId) {
        spawner.control(Box::pin(async move {
            while let Some(path) = self.0.recv().await {
                let lost = table.directory_failed(&path);
                tracing::error!("{lost} partitions are offline with log directory {}", path.display());
                tell(&session, me).await;
            }
        }));
    }
}

/// Has the controller ask this broker for all its replicas. Told twice is no harm; a new session may be needed.
async fn tell(session: &Session, me: BrokerId) {
    let (path, event) = (paths::new_log_dir_event(), LogDirEvent(me).encode());
    loop {
        let store = session.store();
        let create = || store.create(&path, Some(event.clone()), CreateMode::PersistentSequential);
        match until_known(&*store, create).await {
            Ok(_) => return,
            Err(error) => tracing::warn!(%error, "the controller does not know yet of a failed log directory"),
        }
        tokio::time::sleep(BACK_OFF).await;
    }
}
