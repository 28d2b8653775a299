//! WriteTxnMarkers (27), versions 0-1: a transaction coordinator ends transactions in the partitions led here.
//!
//! Each marker is one control batch per partition, written as with acks=all and waited for at most `request.timeout.ms`.
//! Checks per partition, in order: no log here (UNKNOWN_TOPIC_OR_PARTITION), NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS,
//! an older epoch than the producer's (INVALID_PRODUCER_EPOCH), an older coordinator than the last marker's
//! (TRANSACTION_COORDINATOR_FENCED). A producer that is not known here gets its marker too. Markers of one producer share
//! an entry of the answer, where the last one's code stands. A marker without a producer refuses the whole request with
//! UNKNOWN_SERVER_ERROR. Markers in `__consumer_offsets` end what the groups have open of that transaction.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use kafka_protocol::messages::write_txn_markers_request::WritableTxnMarker;
use kafka_protocol::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use kafka_protocol::messages::{ProducerId, TopicName, WriteTxnMarkersRequest, WriteTxnMarkersResponse};
use tokio::time::{Instant, timeout_at};

use super::context::RequestContext;
use super::serve::Close;
use crate::cluster::internal_topics::GROUP_METADATA;
use crate::replication::partition::Partition;
use crate::storage::log::{AppendParams, Origin};
use crate::types::{Acks, LeaderEpoch, Offset};
use crate::wire::batch::{Marker, marker_batch};
use crate::wire::compression::DECOMPRESSED_MAX;
use crate::wire::error_code::ErrorCode;

/// What became of one marker in one partition.
struct Outcome<'a> {
    producer: ProducerId,
    topic: &'a TopicName,
    index: i32,
    commit: bool,
    code: ErrorCode,
    /// The in-sync replicas must be waited for, up to that offset.
    pending: Option<(Arc<Partition>, Offset)>,
}

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: WriteTxnMarkersRequest,
) -> Result<WriteTxnMarkersResponse, Close> {
    let nobody = request.markers.iter().any(|marker| marker.producer_id.0 < 0 || marker.producer_epoch < 0);
    let mut outcomes = Vec::new();
    for marker in &request.markers {
        for (topic, index) in partitions(marker) {
            let written = if nobody { Err(ErrorCode::UnknownServerError) } else { write(ctx, marker, topic, index) };
            let (code, pending) = match written {
                Ok(pending) => (ErrorCode::None, pending),
                Err(code) => (code, None),
            };
            let (producer, commit) = (marker.producer_id, marker.transaction_result);
            outcomes.push(Outcome { producer, topic, index, commit, code, pending });
        }
    }
    let wait = u64::try_from(ctx.services.config.request_timeout_ms).unwrap_or(0);
    let deadline = Instant::now() + Duration::from_millis(wait);
    let pending = outcomes.iter_mut().filter_map(|outcome| Some((outcome.pending.take()?, &mut outcome.code)));
    join_all(pending.map(|((partition, end), code)| async move {
        *code = match timeout_at(deadline, partition.committed(end)).await {
            Ok(Ok(())) => ErrorCode::None,
            Ok(Err(error)) => error.code(),
            Err(_) => ErrorCode::RequestTimedOut,
        };
    }))
    .await;
    let in_groups = |outcome: &&Outcome| outcome.code == ErrorCode::None && outcome.topic.as_str() == GROUP_METADATA;
    for outcome in outcomes.iter().filter(in_groups) {
        ctx.services.groups.transaction_ended(outcome.index, outcome.producer.0, outcome.commit);
    }
    Ok(answer(outcomes))
}

/// Each partition that a marker names, once.
fn partitions(marker: &WritableTxnMarker) -> Vec<(&TopicName, i32)> {
    let topics = marker.topics.iter();
    let mut named: Vec<(&TopicName, i32)> =
        topics.flat_map(|topic| topic.partition_indexes.iter().map(|index| (&topic.name, *index))).collect();
    named.sort_unstable();
    named.dedup();
    named
}

/// Appends the marker. `Some` when the in-sync replicas must be waited for, up to that offset.
fn write(
    ctx: &RequestContext<'_>,
    marker: &WritableTxnMarker,
    topic: &str,
    index: i32,
) -> Result<Option<(Arc<Partition>, Offset)>, ErrorCode> {
    let partition = ctx.services.partitions.get(topic, index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    partition.log().map_err(|_| ErrorCode::UnknownTopicOrPartition)?;
    let now_ms = ctx.services.clock.wall_ms();
    let ends = Marker { commit: marker.transaction_result, coordinator_epoch: marker.coordinator_epoch };
    let mut batch = marker_batch(marker.producer_id.0, marker.producer_epoch, ends, now_ms).map_err(|error| {
        tracing::error!(%error, "end marker not built");
        ErrorCode::UnknownServerError
    })?;
    let params = AppendParams {
        origin: Origin::Coordinator,
        leader_epoch: LeaderEpoch::NONE,
        now_ms,
        decompressed_max: DECOMPRESSED_MAX,
    };
    let append = partition.append_to_leader(&mut batch, Acks::All, params).map_err(|error| error.code())?;
    Ok(append.committed_at.map(|end| (partition, end)))
}

/// Grouped by producer and topic.
fn answer(mut outcomes: Vec<Outcome<'_>>) -> WriteTxnMarkersResponse {
    // Stable: of several markers for one producer and partition the last one's outcome stays last.
    outcomes.sort_by_key(|outcome| (outcome.producer, outcome.topic, outcome.index));
    let mut markers: Vec<WritableTxnMarkerResult> = Vec::new();
    for (at, outcome) in outcomes.iter().enumerate() {
        let place = (outcome.producer, outcome.topic, outcome.index);
        if outcomes.get(at + 1).is_some_and(|next| (next.producer, next.topic, next.index) == place) {
            continue;
        }
        let result = WritableTxnMarkerPartitionResult::default()
            .with_partition_index(outcome.index)
            .with_error_code(outcome.code.code());
        let producer = match markers.pop_if(|last| last.producer_id == outcome.producer) {
            Some(last) => last,
            None => WritableTxnMarkerResult::default().with_producer_id(outcome.producer),
        };
        markers.push(with_result(producer, outcome.topic, result));
    }
    WriteTxnMarkersResponse::default().with_markers(markers)
}

fn with_result(
    mut producer: WritableTxnMarkerResult,
    topic: &TopicName,
    result: WritableTxnMarkerPartitionResult,
) -> WritableTxnMarkerResult {
    match producer.topics.last_mut().filter(|last| last.name == *topic) {
        Some(last) => last.partitions.push(result),
        None => producer
            .topics
            .push(WritableTxnMarkerTopicResult::default().with_name(topic.clone()).with_partitions(vec![result])),
    }
    producer
}
