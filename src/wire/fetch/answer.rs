//! The answer to a fetch as a follower reads it: flat, its records left where they arrived.
//!
//! The layout is [`FetchResponse`](super::FetchResponse)'s.

use std::ops::Range;

use smallvec::SmallVec;

use super::DivergingEpoch;
use super::request::{TopicRef, read_topics};
use crate::types::{LeaderEpoch, Offset};
use crate::wire::error_code::ErrorCode;
use crate::wire::reader::{ReadError, Reader};

/// A fetch answer, names borrowed from its frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchAnswer<'a> {
    /// Of the whole request.
    pub error: ErrorCode,
    /// 0 when the leader keeps no session.
    pub session_id: i32,
    pub topics: SmallVec<[TopicRef<'a>; 1]>,
    pub partitions: SmallVec<[PartitionAnswer; 1]>,
}

/// One partition of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionAnswer {
    /// Index into [`FetchAnswer::topics`].
    pub topic: u32,
    pub partition: i32,
    pub error: ErrorCode,
    pub high_watermark: Offset,
    /// -1 where the version does not tell.
    pub log_start_offset: Offset,
    /// Where the records lie in the frame; empty for none.
    pub records: Range<usize>,
    pub diverging: Option<DivergingEpoch>,
}

impl<'a> FetchAnswer<'a> {
    /// Reads the body that begins at byte `at` of `frame`. A code that no error has is UNKNOWN_SERVER_ERROR.
    pub fn decode(frame: &'a [u8], at: usize, version: i16) -> Result<FetchAnswer<'a>, ReadError> {
        let mut reader = Reader::new(frame, at, version >= super::FIRST_FLEXIBLE);
        if version >= 1 {
            reader.i32("throttle_time_ms")?;
        }
        let mut answer =
            FetchAnswer { error: ErrorCode::None, session_id: 0, topics: SmallVec::new(), partitions: SmallVec::new() };
        if version >= 7 {
            answer.error = error_code(&mut reader)?;
            answer.session_id = reader.i32("session_id")?;
        }
        let FetchAnswer { topics, partitions, .. } = &mut answer;
        read_topics(&mut reader, "responses", version, topics, |reader, topic| {
            partitions.push(PartitionAnswer::decode(reader, topic, version)?);
            Ok(())
        })?;
        reader.skip_tags()?;
        Ok(answer)
    }

    /// The topic of a partition of this answer.
    pub fn topic(&self, index: u32) -> Option<TopicRef<'a>> {
        self.topics.get(index as usize).copied()
    }
}

impl PartitionAnswer {
    fn decode(reader: &mut Reader<'_>, topic: u32, version: i16) -> Result<PartitionAnswer, ReadError> {
        let mut answer = PartitionAnswer {
            topic,
            partition: reader.i32("partition_index")?,
            error: error_code(reader)?,
            high_watermark: Offset(reader.i64("high_watermark")?),
            log_start_offset: Offset::NONE,
            records: 0..0,
            diverging: None,
        };
        if version >= 4 {
            reader.i64("last_stable_offset")?;
        }
        if version >= 5 {
            answer.log_start_offset = Offset(reader.i64("log_start_offset")?);
        }
        if version >= 4 {
            for _ in 0..reader.nullable_array_len("aborted_transactions")?.unwrap_or(0) {
                reader.i64("producer_id")?;
                reader.i64("first_offset")?;
                reader.skip_tags()?;
            }
        }
        if version >= 11 {
            reader.i32("preferred_read_replica")?;
        }
        answer.records = reader.nullable_bytes_range("records")?.unwrap_or(0..0);
        reader.tags(|tag, field| {
            if tag == 0 {
                let epoch = LeaderEpoch(field.i32("diverging epoch")?);
                answer.diverging = Some(DivergingEpoch { epoch, end_offset: Offset(field.i64("end_offset")?) });
            }
            Ok(())
        })?;
        // Sent with its defaults it says nothing.
        answer.diverging = answer.diverging.filter(|diverging| diverging.epoch.0 >= 0);
        Ok(answer)
    }
}

fn error_code(reader: &mut Reader<'_>) -> Result<ErrorCode, ReadError> {
    Ok(ErrorCode::answered(reader.i16("error_code")?))
}
