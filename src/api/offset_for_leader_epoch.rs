//! OffsetForLeaderEpoch (23), versions 0-4: where a leader epoch ends in the leader's log (KIP-101, KIP-320).
//!
//! Epoch and end offset are -1 where the leader knows no epoch at or below the asked one. v2+ may say which epoch the asker
//! believes to be current: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.

use kafka_protocol::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use kafka_protocol::messages::offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};
use kafka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

use super::context::RequestContext;
use super::serve::Close;
use crate::types::{LeaderEpoch, Offset};
use crate::wire::error_code::ErrorCode;

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: OffsetForLeaderEpochRequest,
) -> Result<OffsetForLeaderEpochResponse, Close> {
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|asked| {
            let answer = EpochEndOffset::default().with_partition(asked.partition);
            match find(ctx, &topic.topic, asked) {
                Ok(Some((epoch, end))) => answer.with_leader_epoch(epoch.0).with_end_offset(end.0),
                Ok(None) => answer,
                Err(code) => answer.with_error_code(code.code()),
            }
        });
        OffsetForLeaderTopicResult::default().with_topic(topic.topic.clone()).with_partitions(partitions.collect())
    });
    Ok(OffsetForLeaderEpochResponse::default().with_topics(topics.collect()))
}

fn find(
    ctx: &RequestContext<'_>,
    topic: &str,
    asked: &OffsetForLeaderPartition,
) -> Result<Option<(LeaderEpoch, Offset)>, ErrorCode> {
    let partition = ctx.partition(topic, asked.partition)?;
    partition.check(LeaderEpoch(asked.current_leader_epoch), true)?;
    partition.end_offset_for_epoch(LeaderEpoch(asked.leader_epoch))
}
