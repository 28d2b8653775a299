//! The answer to a fetch request, written around its records.
//!
//! ```text
//! throttle_ms i32 (1+)  error i16  session_id i32 (7+)
//! [ topic (..12) or topic_id (13+)
//!   [ partition i32  error i16  high_watermark i64  last_stable_offset i64 (4+)  log_start_offset i64 (5+)
//!     aborted [ producer_id i64  first_offset i64 ] (4+, nullable)  preferred_read_replica i32 (11+)
//!     records  tag 0 diverging_epoch (12+)  tag 1 current_leader (12+) ] ]
//! tag 0 node_endpoints (16+)
//! ```
//! Of `records` only the length is written here; where the bytes belong is told by [`FetchResponse::encode`].

use std::sync::Arc;

use smallvec::SmallVec;

use crate::types::{LeaderEpoch, Offset, TopicId};
use crate::wire::error_code::ErrorCode;
use crate::wire::leader::{CurrentLeader, NodeEndpoint, write_endpoints};
use crate::wire::writer::Writer;

/// A topic as the answer names it: by name up to v12, by id after.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResponseTopic {
    pub name: Arc<str>,
    pub id: TopicId,
}

/// Where a follower's log parts from the leader's (KIP-595).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DivergingEpoch {
    pub epoch: LeaderEpoch,
    pub end_offset: Offset,
}

/// Records to be sent, wherever they lie.
pub trait Payload {
    /// Bytes; `None` is null.
    fn len(&self) -> Option<usize>;

    fn is_empty(&self) -> bool {
        self.len().is_none_or(|bytes| bytes == 0)
    }
}

/// One partition's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionResponse<R> {
    pub partition: i32,
    pub error: ErrorCode,
    pub high_watermark: Offset,
    pub last_stable_offset: Offset,
    pub log_start_offset: Offset,
    /// Producer id and first offset; `None` unless read_committed.
    pub aborted: Option<Vec<(i64, i64)>>,
    pub preferred_read_replica: i32,
    pub records: R,
    pub diverging: Option<DivergingEpoch>,
    pub current_leader: Option<CurrentLeader>,
}

/// A whole response: one entry per partition, neighbours of the same topic under one name.
#[derive(Clone, Debug)]
pub struct FetchResponse<'a, R> {
    pub throttle_ms: i32,
    pub error: ErrorCode,
    pub session_id: i32,
    pub partitions: &'a [(ResponseTopic, PartitionResponse<R>)],
    pub node_endpoints: &'a [NodeEndpoint],
}

impl<R: Payload> FetchResponse<'_, R> {
    /// Writes the body without the records' bytes. Returns where in `out` those of each partition belong, in order.
    pub fn encode(&self, out: &mut Writer, version: i16) -> SmallVec<[usize; 1]> {
        let mut cuts = SmallVec::with_capacity(self.partitions.len());
        if version >= 1 {
            out.i32(self.throttle_ms);
        }
        if version >= 7 {
            out.i16(self.error.code());
            out.i32(self.session_id);
        }
        let topics = self.partitions.chunk_by(|a, b| a.0 == b.0);
        out.len(topics.clone().count());
        for topic in topics {
            let Some((named, _)) = topic.first() else { continue };
            if version >= super::FIRST_WITH_IDS {
                out.topic_id(named.id);
            } else {
                out.string(&named.name);
            }
            out.len(topic.len());
            for (_, partition) in topic {
                cuts.push(partition.encode(out, version));
            }
            out.no_tags();
        }
        write_endpoints(out, self.node_endpoints, version >= 16);
        cuts
    }
}

impl<R: Payload> PartitionResponse<R> {
    /// No data: what every error carries.
    pub fn failed(partition: i32, error: ErrorCode) -> PartitionResponse<R>
    where
        R: Default,
    {
        PartitionResponse {
            partition,
            error,
            high_watermark: Offset::NONE,
            last_stable_offset: Offset::NONE,
            log_start_offset: Offset::NONE,
            aborted: None,
            preferred_read_replica: -1,
            records: R::default(),
            diverging: None,
            current_leader: None,
        }
    }

    fn encode(&self, out: &mut Writer, version: i16) -> usize {
        out.i32(self.partition);
        out.i16(self.error.code());
        out.i64(self.high_watermark.0);
        if version >= 4 {
            out.i64(self.last_stable_offset.0);
        }
        if version >= 5 {
            out.i64(self.log_start_offset.0);
        }
        if version >= 4 {
            out.nullable_len(self.aborted.as_ref().map(Vec::len));
            for (producer_id, first_offset) in self.aborted.iter().flatten() {
                out.i64(*producer_id);
                out.i64(*first_offset);
                out.no_tags();
            }
        }
        if version >= 11 {
            out.i32(self.preferred_read_replica);
        }
        out.nullable_len(self.records.len());
        let cut = out.buf.len();
        let leader = self.current_leader.filter(|leader| !leader.is_default());
        out.tag_count(usize::from(self.diverging.is_some()) + usize::from(leader.is_some()));
        if version >= super::FIRST_FLEXIBLE {
            if let Some(diverging) = self.diverging {
                out.tag(0, |out| {
                    out.i32(diverging.epoch.0);
                    out.i64(diverging.end_offset.0);
                    out.no_tags();
                });
            }
            if let Some(leader) = leader {
                out.tag(1, |out| leader.encode(out));
            }
        }
        cut
    }
}
