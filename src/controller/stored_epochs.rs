//! The leader epochs of state nodes, for brokers that doubt whether they lead still.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};

use super::fence::IN_FLIGHT;
use crate::cluster::Session;
use crate::metastore::schema::{PartitionState, paths};
use crate::replication::leader_checks::StoredEpochs;
use crate::types::{LeaderEpoch, TopicPartition};

/// Reads them in this broker's session.
pub struct StateNodes(pub Arc<Session>);

#[async_trait]
impl StoredEpochs for StateNodes {
    async fn leader_epochs(&self, of: &[TopicPartition]) -> Vec<Option<LeaderEpoch>> {
        let store = self.0.store();
        // The server this broker is connected to may be behind.
        if store.sync(paths::BROKER_IDS).await.is_err() {
            return Vec::new();
        }
        let read = |path: String| {
            let store = &store;
            async move {
                let (data, _) = store.get(&path).await.ok()?;
                PartitionState::decode(&path, &data).ok().map(|state| state.leader_epoch)
            }
        };
        let reads: Vec<_> = of.iter().map(|tp| read(paths::partition_state(&tp.topic, tp.partition))).collect();
        stream::iter(reads).buffered(IN_FLIGHT).collect().await
    }
}
