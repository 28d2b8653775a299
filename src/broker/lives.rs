//! The broker's lives as its log directories know them: which of them are over, and the one that begins.

use std::sync::Arc;

use async_trait::async_trait;

use super::{RunError, blocking};
use crate::cluster::{SessionNotes, end_former_life};
use crate::metastore::Metastore;
use crate::spawn::Spawner;
use crate::storage::machine::Machine;
use crate::storage::manager::LogManager;
use crate::types::BrokerId;

/// Notes sessions in the log directories.
#[derive(Clone)]
pub struct Lives {
    pub logs: Arc<LogManager>,
    pub machine: Machine,
    pub spawner: Arc<dyn Spawner>,
}

impl std::fmt::Debug for Lives {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lives").field("machine", &self.machine).finish_non_exhaustive()
    }
}

impl Lives {
    /// Takes what earlier lives left in the metastore away, as far as they are certainly over. The directories are locked
    /// and belong to this cluster.
    pub async fn end_former_ones(&self, store: &dyn Metastore, broker: BrokerId) -> Result<(), RunError> {
        let (logs, machine) = (self.logs.clone(), self.machine.clone());
        for dead in blocking(&self.spawner, move || logs.dead_sessions(&machine)).await? {
            let ended = end_former_life(store, broker, dead).await;
            ended.map_err(RunError::metastore("what the last life left was removed"))?;
        }
        Ok(())
    }
}

#[async_trait]
impl SessionNotes for Lives {
    async fn note(&self, session: i64) {
        let (logs, machine) = (self.logs.clone(), self.machine.clone());
        // An error means that the broker ends.
        let _ = blocking(&self.spawner, move || logs.note_session(session, &machine)).await;
    }
}
