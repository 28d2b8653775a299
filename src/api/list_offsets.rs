//! ListOffsets (2), versions 0-9: offsets by time.
//!
//! | timestamp | meaning | from version |
//! |---|---|---|
//! | ≥ 0 | first record at or after it | 0 |
//! | -1 | what the asker may read up to: high watermark, last stable offset, or log end | 0 |
//! | -2 | log start | 0 |
//! | -3 | first record with the largest timestamp | 7 |
//! | -4 | log start on this broker's disk: the same, nothing is tiered | 8 |
//! | -5 | last offset in tiered storage: -1 | 9 |
//!
//! Another negative timestamp, or one above the request's version: UNSUPPORTED_VERSION for that partition. Nothing found:
//! offset and timestamp -1, no error. A partition that is named twice: INVALID_REQUEST (v1+).
//! v0 answers a list: bases of segments written before the timestamp, newest first, at most `max_num_offsets`.

use std::collections::HashSet;
use std::sync::Arc;

use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};

use super::context::RequestContext;
use super::serve::Close;
use crate::replication::partition::{Partition, Reader};
use crate::storage::log::TimestampOffset;
use crate::types::{IsolationLevel, LeaderEpoch, Offset};
use crate::wire::error_code::ErrorCode;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;

pub async fn handle(ctx: &RequestContext<'_>, request: ListOffsetsRequest) -> Result<ListOffsetsResponse, Close> {
    let reader = match (request.replica_id.0, request.isolation_level) {
        (-1, 0) => Ok(Reader::Consumer(IsolationLevel::ReadUncommitted)),
        (-1, 1) => Ok(Reader::Consumer(IsolationLevel::ReadCommitted)),
        (-1, _) => Err(ErrorCode::UnknownServerError),
        _ => Ok(Reader::Debugging),
    };
    let asker = Asker { ctx, reader, only_leader: request.replica_id.0 != -2 };
    let twice = named_twice(&request);
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|asked| {
            let twice = twice.contains(&(topic.name.as_str(), asked.partition_index));
            asker.answer(&topic.name, asked, twice)
        });
        ListOffsetsTopicResponse::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
    });
    Ok(ListOffsetsResponse::default().with_topics(topics.collect()))
}

fn named_twice(request: &ListOffsetsRequest) -> HashSet<(&str, i32)> {
    let all = request
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|partition| (topic.name.as_str(), partition.partition_index)));
    let mut seen = HashSet::new();
    all.filter(|one| !seen.insert(*one)).collect()
}

struct Asker<'a> {
    ctx: &'a RequestContext<'a>,
    /// Refused for an isolation level that does not exist.
    reader: Result<Reader, ErrorCode>,
    only_leader: bool,
}

impl Asker<'_> {
    fn answer(&self, topic: &str, asked: &ListOffsetsPartition, twice: bool) -> ListOffsetsPartitionResponse {
        let version = self.ctx.version();
        let answer = ListOffsetsPartitionResponse::default().with_partition_index(asked.partition_index);
        if version == 0 {
            return match self.bases(topic, asked) {
                Ok(offsets) => answer.with_old_style_offsets(offsets),
                Err(code) => answer.with_error_code(code.code()),
            };
        }
        let found = match twice {
            true => Err(ErrorCode::InvalidRequest),
            false => self.find(topic, asked),
        };
        match found {
            Ok(None) => answer,
            Ok(Some(found)) => {
                let answer = answer.with_timestamp(found.timestamp_ms).with_offset(found.offset.0);
                if version >= 4 { answer.with_leader_epoch(found.leader_epoch.0) } else { answer }
            }
            Err(ErrorCode::OffsetNotAvailable) if version < 5 => {
                answer.with_error_code(ErrorCode::LeaderNotAvailable.code())
            }
            Err(code) => answer.with_error_code(code.code()),
        }
    }

    fn find(&self, topic: &str, asked: &ListOffsetsPartition) -> Result<Option<TimestampOffset>, ErrorCode> {
        self.check_timestamp(asked.timestamp)?;
        let reader = self.reader?;
        let partition = self.ctx.partition(topic, asked.partition_index)?;
        partition.check(LeaderEpoch(asked.current_leader_epoch), self.only_leader)?;
        let at = |offset, leader_epoch| TimestampOffset { timestamp_ms: -1, offset, leader_epoch };
        match asked.timestamp {
            LATEST => Ok(Some(at(partition.upper_bound(reader)?, partition.leader_epoch()))),
            EARLIEST | EARLIEST_LOCAL => {
                let log = partition.log()?;
                let start = log.offsets().log_start;
                Ok(Some(at(start, log.epoch_for_offset(start))))
            }
            LATEST_TIERED => Ok(Some(at(Offset::NONE, LeaderEpoch::NONE))),
            MAX_TIMESTAMP => find_max(&partition, reader),
            timestamp_ms => partition.offset_for_timestamp(timestamp_ms, reader),
        }
    }

    fn check_timestamp(&self, timestamp: i64) -> Result<(), ErrorCode> {
        let first_version = match timestamp {
            LATEST | EARLIEST | 0.. => 0,
            MAX_TIMESTAMP => 7,
            EARLIEST_LOCAL => 8,
            LATEST_TIERED => 9,
            _ => return Err(ErrorCode::UnsupportedVersion),
        };
        if self.ctx.version() < first_version { Err(ErrorCode::UnsupportedVersion) } else { Ok(()) }
    }

    fn bases(&self, topic: &str, asked: &ListOffsetsPartition) -> Result<Vec<i64>, ErrorCode> {
        self.check_timestamp(asked.timestamp)?;
        let partition = self.ctx.partition(topic, asked.partition_index)?;
        partition.check(LeaderEpoch::NONE, self.only_leader)?;
        let log = partition.log()?;
        let wanted = usize::try_from(asked.max_num_offsets).map_err(|_| ErrorCode::UnknownServerError)?;
        let offsets = log.offsets();
        let readable = match self.reader? {
            Reader::Consumer(_) => offsets.high_watermark,
            _ => offsets.log_end,
        };
        let before = match asked.timestamp {
            EARLIEST => return Ok([offsets.log_start.0].into_iter().take(wanted).collect()),
            LATEST => i64::MAX,
            timestamp_ms => timestamp_ms,
        };
        let mut bases = Vec::new();
        let now_ms = self.ctx.services.clock.wall_ms();
        let segments = log.segments_modified().map_err(|_| ErrorCode::KafkaStorageError)?;
        let newest_has_records = segments.last().is_some_and(|(base, _)| *base < offsets.log_end);
        if newest_has_records && now_ms <= before {
            bases.push(offsets.log_end.0);
        }
        let older = segments.iter().rev().skip_while(|(_, modified_ms)| *modified_ms > before);
        bases.extend(older.map(|(base, _)| base.0.max(offsets.log_start.0)));
        bases.truncate(wanted);
        if bases.first().is_some_and(|newest| *newest > readable.0) {
            bases.retain(|base| *base <= readable.0);
            bases.insert(0, readable.0);
        }
        Ok(bases)
    }
}

/// The largest timestamp may belong to a record the asker may not see yet: then there is no answer.
fn find_max(partition: &Arc<Partition>, reader: Reader) -> Result<Option<TimestampOffset>, ErrorCode> {
    let found = partition.log()?.offset_of_max_timestamp().map_err(|_| ErrorCode::KafkaStorageError)?;
    let upper = partition.upper_bound(reader)?;
    Ok(found.filter(|found| found.offset < upper))
}
