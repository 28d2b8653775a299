//! WriteTxnMarkers (27), versions 0-1: a transaction coordinator ends transactions in the partitions led here.
//!
//! Each marker is one control batch per partition ([`MarkerWriter`](crate::coordinator::markers::MarkerWriter)), waited for at
//! most `request.timeout.ms`. Markers of one producer share an entry of the answer, where the last one's code stands. A
//! marker without a producer refuses the whole request with UNKNOWN_SERVER_ERROR.

use std::sync::Arc;

use kafka_protocol::messages::write_txn_markers_request::WritableTxnMarker;
use kafka_protocol::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use kafka_protocol::messages::{ProducerId, TopicName, WriteTxnMarkersRequest, WriteTxnMarkersResponse};

use super::context::RequestContext;
use super::group_member::text;
use super::serve::Close;
use crate::coordinator::markers::EndMarker;
use crate::types::TopicPartition;
use crate::wire::error_code::ErrorCode;

/// What became of one marker in one partition.
struct Outcome {
    producer: i64,
    at: TopicPartition,
    code: ErrorCode,
}

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: WriteTxnMarkersRequest,
) -> Result<WriteTxnMarkersResponse, Close> {
    let nobody = request.markers.iter().any(|marker| marker.producer_id.0 < 0 || marker.producer_epoch < 0);
    let markers: Vec<EndMarker> = request.markers.iter().map(end_marker).collect();
    let codes = match nobody {
        true => markers.iter().map(|marker| vec![ErrorCode::UnknownServerError; marker.partitions.len()]).collect(),
        false => ctx.services.markers.write(&markers).await,
    };
    let outcomes = markers.into_iter().zip(codes).flat_map(|(marker, codes)| {
        let producer = marker.producer_id;
        marker.partitions.into_iter().zip(codes).map(move |(at, code)| Outcome { producer, at, code })
    });
    Ok(answer(outcomes.collect()))
}

/// With each partition that it names once.
fn end_marker(marker: &WritableTxnMarker) -> EndMarker {
    let mut partitions: Vec<TopicPartition> = Vec::new();
    for topic in &marker.topics {
        let name: Arc<str> = topic.name.as_str().into();
        partitions.extend(topic.partition_indexes.iter().map(|index| TopicPartition::new(name.clone(), *index)));
    }
    partitions.sort_unstable();
    partitions.dedup();
    EndMarker {
        producer_id: marker.producer_id.0,
        producer_epoch: marker.producer_epoch,
        commit: marker.transaction_result,
        coordinator_epoch: marker.coordinator_epoch,
        partitions,
    }
}

/// Grouped by producer and topic.
fn answer(mut outcomes: Vec<Outcome>) -> WriteTxnMarkersResponse {
    // Stable: of several markers for one producer and partition the last one's outcome stays last.
    outcomes.sort_by(|a, b| (a.producer, &a.at).cmp(&(b.producer, &b.at)));
    let mut markers: Vec<WritableTxnMarkerResult> = Vec::new();
    for (nth, outcome) in outcomes.iter().enumerate() {
        let place = (outcome.producer, &outcome.at);
        if outcomes.get(nth + 1).is_some_and(|next| (next.producer, &next.at) == place) {
            continue;
        }
        let result = WritableTxnMarkerPartitionResult::default()
            .with_partition_index(outcome.at.partition)
            .with_error_code(outcome.code.code());
        let producer = match markers.pop_if(|last| last.producer_id.0 == outcome.producer) {
            Some(last) => last,
            None => WritableTxnMarkerResult::default().with_producer_id(ProducerId(outcome.producer)),
        };
        markers.push(with_result(producer, &outcome.at.topic, result));
    }
    WriteTxnMarkersResponse::default().with_markers(markers)
}

fn with_result(
    mut producer: WritableTxnMarkerResult,
    topic: &str,
    result: WritableTxnMarkerPartitionResult,
) -> WritableTxnMarkerResult {
    match producer.topics.last_mut().filter(|last| *last.name == *topic) {
        Some(last) => last.partitions.push(result),
        None => producer.topics.push(
            WritableTxnMarkerTopicResult::default().with_name(TopicName(text(topic))).with_partitions(vec![result]),
        ),
    }
    producer
}
