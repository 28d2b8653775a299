//! The answer to a produce request.
//!
//! ```text
//! [ topic  [ index i32  error i16  base_offset i64  log_append_time i64 (2+)  log_start_offset i64 (5+)
//!            record_errors (8+)  error_message (8+)  tag 0 current_leader (10+) ] ]
//! throttle_ms i32 (1+)  tag 0 node_endpoints (10+)
//! ```

use crate::wire::error_code::ErrorCode;
use crate::wire::leader::{CurrentLeader, NodeEndpoint, write_endpoints};
use crate::wire::writer::Writer;

/// What became of one partition's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionResponse {
    pub error: ErrorCode,
    /// -1 on error.
    pub base_offset: i64,
    /// -1 unless the topic has LogAppendTime.
    pub log_append_time_ms: i64,
    pub log_start_offset: i64,
    /// Rarely there.
    pub errors: Option<Box<RecordErrors>>,
    /// Where the leader went, with NOT_LEADER_OR_FOLLOWER.
    pub current_leader: Option<CurrentLeader>,
}

/// Which records of the batch are refused, and why (KIP-467).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordErrors {
    /// Index in the batch and, perhaps, a sentence.
    pub records: Vec<(i32, Option<String>)>,
    pub message: Option<String>,
}

/// A whole response: one entry per partition, neighbours of the same topic under one name.
#[derive(Debug)]
pub struct ProduceResponse<'a> {
    pub throttle_ms: i32,
    /// Name, partition index, outcome.
    pub partitions: &'a [(&'a str, i32, PartitionResponse)],
    pub node_endpoints: &'a [NodeEndpoint],
}

impl ProduceResponse<'_> {
    /// Writes the body.
    pub fn encode(&self, out: &mut Writer, version: i16) {
        let topics = self.partitions.chunk_by(|a, b| a.0 == b.0);
        out.len(topics.clone().count());
        for topic in topics {
            out.string(topic.first().map_or("", |first| first.0));
            out.len(topic.len());
            for (_, index, outcome) in topic {
                outcome.encode(*index, out, version);
            }
            out.no_tags();
        }
        if version >= 1 {
            out.i32(self.throttle_ms);
        }
        write_endpoints(out, self.node_endpoints, version >= 10);
    }
}

impl PartitionResponse {
    fn encode(&self, index: i32, out: &mut Writer, version: i16) {
        out.i32(index);
        out.i16(self.error.code());
        out.i64(self.base_offset);
        if version >= 2 {
            out.i64(self.log_append_time_ms);
        }
        if version >= 5 {
            out.i64(self.log_start_offset);
        }
        if version >= 8 {
            let records = self.errors.as_ref().map_or(&[][..], |errors| &errors.records);
            out.len(records.len());
            for (batch_index, message) in records {
                out.i32(*batch_index);
                out.nullable_string(message.as_deref());
                out.no_tags();
            }
            out.nullable_string(self.errors.as_ref().and_then(|errors| errors.message.as_deref()));
        }
        match self.current_leader.filter(|leader| version >= 10 && !leader.is_default()) {
            None => out.no_tags(),
            Some(leader) => {
                out.tag_count(1);
                out.tag(0, |out| leader.encode(out));
            }
        }
    }
}
