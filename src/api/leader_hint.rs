//! Where a partition's leader went, for answers that send the client away (KIP-951).

use crate::cluster::Snapshot;
use crate::types::{BrokerId, LeaderEpoch};
use crate::wire::leader::{CurrentLeader, NodeEndpoint};

/// Collects the addresses of the leaders that one response names.
#[derive(Debug, Default)]
pub struct LeaderHints {
    pub endpoints: Vec<NodeEndpoint>,
}

impl LeaderHints {
    /// The leader of `topic`-`partition` as this broker knows it; its address on `listener` is collected.
    pub fn add(&mut self, snapshot: &Snapshot, listener: &str, topic: &str, partition: i32) -> CurrentLeader {
        let Some(meta) = snapshot.partition(topic, partition) else {
            return CurrentLeader { id: BrokerId::NONE, epoch: LeaderEpoch::NONE };
        };
        let broker = snapshot.brokers.get(&meta.leader);
        if let Some((broker, endpoint)) = broker.and_then(|broker| Some((broker, broker.endpoints.get(listener)?)))
            && !self.endpoints.iter().any(|known| known.id == broker.id)
        {
            self.endpoints.push(NodeEndpoint {
                id: broker.id,
                host: endpoint.host.to_string(),
                port: endpoint.port.into(),
                rack: broker.rack.as_deref().map(str::to_owned),
            });
        }
        CurrentLeader { id: meta.leader, epoch: meta.leader_epoch }
    }
}
