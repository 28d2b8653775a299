//! The markers that end transactions in the partitions led here: each is a control batch, written as with acks=all. Those in
//! `__consumer_offsets` end what the groups have open of that transaction.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout_at};

use super::group_coordinator::GroupCoordinator;
use crate::clock::Clock;
use crate::cluster::internal_topics::GROUP_METADATA;
use crate::replication::partition::Partition;
use crate::replication::table::PartitionTable;
use crate::storage::log::{AppendParams, Origin, Verification};
use crate::types::{Acks, LeaderEpoch, Offset, TopicPartition};
use crate::wire::batch::{Marker, marker_batch};
use crate::wire::compression::DECOMPRESSED_MAX;
use crate::wire::error_code::ErrorCode;

/// The end of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndMarker {
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub commit: bool,
    pub coordinator_epoch: i32,
    /// Each once.
    pub partitions: Vec<TopicPartition>,
}

/// Writes markers on this broker.
#[derive(Clone)]
pub struct MarkerWriter {
    /// Which knows those who lead in it, this one's owner among them.
    pub partitions: Weak<PartitionTable>,
    pub groups: Arc<GroupCoordinator>,
    pub clock: Arc<dyn Clock>,
    /// How long the in-sync replicas are waited for.
    pub timeout: Duration,
}

/// What became of one marker in one partition, so far.
struct Written {
    code: ErrorCode,
    /// The in-sync replicas must be waited for, up to that offset.
    pending: Option<(Arc<Partition>, Offset)>,
}

impl MarkerWriter {
    /// A code for each partition of each marker, in order, when its replicas have it.
    ///
    /// First failing check: no log here (UNKNOWN_TOPIC_OR_PARTITION), NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, an older
    /// epoch than the producer's (INVALID_PRODUCER_EPOCH), an older coordinator than the last marker's
    /// (TRANSACTION_COORDINATOR_FENCED). A producer that is not known here gets its marker too.
    pub async fn write(&self, markers: &[EndMarker]) -> Vec<Vec<ErrorCode>> {
        let mut written = Vec::new();
        for marker in markers {
            for at in &marker.partitions {
                written.push(match self.append(marker, at) {
                    Ok(pending) => Written { code: ErrorCode::None, pending },
                    Err(code) => Written { code, pending: None },
                });
            }
        }
        let deadline = Instant::now() + self.timeout;
        let pending = written.iter_mut().filter_map(|one| Some((one.pending.take()?, &mut one.code)));
        join_all(pending.map(|((partition, end), code)| async move {
            *code = match timeout_at(deadline, partition.committed(end)).await {
                Ok(Ok(())) => ErrorCode::None,
                Ok(Err(error)) => error.code(),
                Err(_) => ErrorCode::RequestTimedOut,
            };
        }))
        .await;
        let mut codes = written.into_iter().map(|one| one.code);
        let outcomes = markers.iter().map(|marker| {
            let codes: Vec<ErrorCode> = codes.by_ref().take(marker.partitions.len()).collect();
            for (at, code) in marker.partitions.iter().zip(&codes) {
                if *code == ErrorCode::None && &*at.topic == GROUP_METADATA {
                    self.groups.transaction_ended(at.partition, marker.producer_id, marker.commit);
                }
            }
            codes
        });
        outcomes.collect()
    }

    /// `Some` when the in-sync replicas must be waited for, up to that offset.
    fn append(&self, marker: &EndMarker, at: &TopicPartition) -> Result<Option<(Arc<Partition>, Offset)>, ErrorCode> {
        let partitions = self.partitions.upgrade().ok_or(ErrorCode::NotLeaderOrFollower)?;
        let partition = partitions.get(&at.topic, at.partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        partition.log().map_err(|_| ErrorCode::UnknownTopicOrPartition)?;
        let now_ms = self.clock.wall_ms();
        let ends = Marker { commit: marker.commit, coordinator_epoch: marker.coordinator_epoch };
        let mut batch = marker_batch(marker.producer_id, marker.producer_epoch, ends, now_ms).map_err(|error| {
            tracing::error!(%error, "end marker not built");
            ErrorCode::UnknownServerError
        })?;
        let params = AppendParams {
            origin: Origin::Coordinator,
            verification: Verification::NotAsked,
            leader_epoch: LeaderEpoch::NONE,
            now_ms,
            decompressed_max: DECOMPRESSED_MAX,
        };
        let append = partition.append_to_leader(&mut batch, Acks::All, params).map_err(|error| error.code())?;
        Ok(append.committed_at.map(|end| (partition, end)))
    }
}
