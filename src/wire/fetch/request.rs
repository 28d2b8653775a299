//! A fetch request.
//!
//! ```text
//! replica_id i32 (..14)  max_wait_ms i32  min_bytes i32  max_bytes i32 (3+)  isolation_level i8 (4+)
//! session_id i32  session_epoch i32 (7+)
//! [ topic (..12) or topic_id (13+)
//!   [ partition i32  current_leader_epoch i32 (9+)  fetch_offset i64  last_fetched_epoch i32 (12+)
//!     log_start_offset i64 (5+)  max_bytes i32  tag 0 replica_directory_id (17+) ] ]
//! [ forgotten topic  [ partition i32 ] ] (7+)  rack_id (11+)
//! tag 0 cluster_id (12+)  tag 1 replica_state { replica_id i32  replica_epoch i64 } (15+)
//! ```

use smallvec::SmallVec;

use crate::types::{BrokerId, LeaderEpoch, Offset, TopicId};
use crate::wire::reader::{ReadError, Reader};
use crate::wire::writer::Writer;

/// A topic by the one way the request's version knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopicRef<'a> {
    Name(&'a str),
    Id(TopicId),
}

/// One partition that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionRequest {
    /// Index into [`FetchRequest::topics`].
    pub topic: u32,
    pub partition: i32,
    /// [`LeaderEpoch::NONE`] skips the check.
    pub current_leader_epoch: LeaderEpoch,
    pub fetch_offset: Offset,
    pub last_fetched_epoch: LeaderEpoch,
    /// Of the follower; -1 for consumers.
    pub log_start_offset: Offset,
    pub max_bytes: i32,
}

/// One partition that leaves its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForgottenPartition {
    /// Index into [`FetchRequest::topics`].
    pub topic: u32,
    pub partition: i32,
}

/// A fetch request, names borrowed from its frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequest<'a> {
    /// Consumers -1, the debugging consumer -2.
    pub replica_id: BrokerId,
    /// -1 unknown.
    pub replica_epoch: i64,
    pub max_wait_ms: i32,
    pub min_bytes: i32,
    /// `i32::MAX` where the version has no total limit.
    pub max_bytes: i32,
    pub isolation_level: i8,
    pub session_id: i32,
    pub session_epoch: i32,
    /// Topics of which at least one partition is asked for or forgotten.
    pub topics: SmallVec<[TopicRef<'a>; 1]>,
    pub partitions: SmallVec<[PartitionRequest; 1]>,
    pub forgotten: Vec<ForgottenPartition>,
    pub rack_id: &'a str,
}

/// The session that the request with this body belongs to, without a look at the rest of it.
pub fn session_id(body: &[u8], version: i16) -> Option<i32> {
    if version < 7 {
        return None;
    }
    // Behind replica_id (..14), max_wait_ms, min_bytes, max_bytes and isolation_level.
    let at = if version <= 14 { 4 } else { 0 } + 13;
    let id = body.get(at..at + 4)?.try_into().ok().map(i32::from_be_bytes)?;
    (id != 0).then_some(id)
}

impl<'a> FetchRequest<'a> {
    /// Reads the body that begins at byte `at` of `frame`. Bytes behind it are ignored.
    pub fn decode(frame: &'a [u8], at: usize, version: i16) -> Result<FetchRequest<'a>, ReadError> {
        let mut reader = Reader::new(frame, at, version >= super::FIRST_FLEXIBLE);
        let mut request = FetchRequest {
            replica_id: if version <= 14 { BrokerId(reader.i32("replica_id")?) } else { BrokerId::NONE },
            replica_epoch: -1,
            max_wait_ms: reader.i32("max_wait_ms")?,
            min_bytes: reader.i32("min_bytes")?,
            max_bytes: if version >= 3 { reader.i32("max_bytes")? } else { i32::MAX },
            isolation_level: if version >= 4 { reader.i8("isolation_level")? } else { 0 },
            session_id: if version >= 7 { reader.i32("session_id")? } else { 0 },
            session_epoch: if version >= 7 { reader.i32("session_epoch")? } else { -1 },
            topics: SmallVec::new(),
            partitions: SmallVec::new(),
            forgotten: Vec::new(),
            rack_id: "",
        };
        let FetchRequest { topics, partitions, forgotten, .. } = &mut request;
        read_topics(&mut reader, "topics", version, topics, |reader, topic| {
            partitions.push(PartitionRequest::decode(reader, topic, version)?);
            Ok(())
        })?;
        if version >= 7 {
            read_topics(&mut reader, "forgotten_topics_data", version, topics, |reader, topic| {
                forgotten.push(ForgottenPartition { topic, partition: reader.i32("partition")? });
                Ok(())
            })?;
        }
        if version >= 11 {
            request.rack_id = reader.string("rack_id")?;
        }
        reader.tags(|tag, field| {
            if tag == 1 && version >= 15 {
                request.replica_id = BrokerId(field.i32("replica_id")?);
                request.replica_epoch = field.i64("replica_epoch")?;
            }
            Ok(())
        })?;
        Ok(request)
    }

    /// Writes the body, as a follower asks. Neighbours of the same topic go under one name; what `version` has no
    /// field for is left out.
    pub fn encode(&self, out: &mut Writer, version: i16) {
        if version <= 14 {
            out.i32(self.replica_id.0);
        }
        out.i32(self.max_wait_ms);
        out.i32(self.min_bytes);
        if version >= 3 {
            out.i32(self.max_bytes);
        }
        if version >= 4 {
            out.i8(self.isolation_level);
        }
        if version >= 7 {
            out.i32(self.session_id);
            out.i32(self.session_epoch);
        }
        let topics = self.partitions.chunk_by(|a, b| a.topic == b.topic);
        out.len(topics.clone().count());
        for topic in topics {
            let Some(first) = topic.first() else { continue };
            self.topic(first.topic).encode(out, version);
            out.len(topic.len());
            topic.iter().for_each(|partition| partition.encode(out, version));
            out.no_tags();
        }
        if version >= 7 {
            let topics = self.forgotten.chunk_by(|a, b| a.topic == b.topic);
            out.len(topics.clone().count());
            for topic in topics {
                let Some(first) = topic.first() else { continue };
                self.topic(first.topic).encode(out, version);
                out.len(topic.len());
                topic.iter().for_each(|gone| out.i32(gone.partition));
                out.no_tags();
            }
        }
        if version >= 11 {
            out.string(self.rack_id);
        }
        if version < 15 {
            out.no_tags();
            return;
        }
        out.tag_count(1);
        out.tag(1, |out| {
            out.i32(self.replica_id.0);
            out.i64(self.replica_epoch);
            out.no_tags();
        });
    }

    /// The topic of a partition of this request.
    pub fn topic(&self, index: u32) -> TopicRef<'a> {
        self.topics.get(index as usize).copied().unwrap_or(TopicRef::Id(TopicId::ZERO))
    }
}

impl<'a> TopicRef<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>, version: i16) -> Result<TopicRef<'a>, ReadError> {
        if version >= super::FIRST_WITH_IDS {
            return reader.topic_id("topic_id").map(TopicRef::Id);
        }
        reader.string("topic").map(TopicRef::Name)
    }

    fn encode(self, out: &mut Writer, version: i16) {
        match self {
            TopicRef::Id(id) if version >= super::FIRST_WITH_IDS => out.topic_id(id),
            TopicRef::Name(name) if version < super::FIRST_WITH_IDS => out.string(name),
            // Nobody has a topic of that name or id: answered as unknown.
            TopicRef::Id(_) => out.string(""),
            TopicRef::Name(_) => out.topic_id(TopicId::ZERO),
        }
    }
}

/// Reads an array of topics with their partitions. Topics with at least one join `topics`; `partition` reads one, and is
/// given its topic's index there.
pub(super) fn read_topics<'a>(
    reader: &mut Reader<'a>,
    array: &'static str,
    version: i16,
    topics: &mut SmallVec<[TopicRef<'a>; 1]>,
    mut partition: impl FnMut(&mut Reader<'a>, u32) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    for _ in 0..reader.array_len(array)? {
        let topic = TopicRef::decode(reader, version)?;
        let count = reader.array_len("partitions")?;
        let index = topics.len() as u32;
        if count > 0 {
            topics.push(topic);
        }
        for _ in 0..count {
            partition(reader, index)?;
        }
        reader.skip_tags()?;
    }
    Ok(())
}

impl PartitionRequest {
    fn decode(reader: &mut Reader<'_>, topic: u32, version: i16) -> Result<PartitionRequest, ReadError> {
        let partition = PartitionRequest {
            topic,
            partition: reader.i32("partition")?,
            current_leader_epoch: LeaderEpoch(if version >= 9 { reader.i32("current_leader_epoch")? } else { -1 }),
            fetch_offset: Offset(reader.i64("fetch_offset")?),
            last_fetched_epoch: LeaderEpoch(if version >= 12 { reader.i32("last_fetched_epoch")? } else { -1 }),
            log_start_offset: Offset(if version >= 5 { reader.i64("log_start_offset")? } else { -1 }),
            max_bytes: reader.i32("partition_max_bytes")?,
        };
        reader.skip_tags()?;
        Ok(partition)
    }

    fn encode(&self, out: &mut Writer, version: i16) {
        out.i32(self.partition);
        if version >= 9 {
            out.i32(self.current_leader_epoch.0);
        }
        out.i64(self.fetch_offset.0);
        if version >= 12 {
            out.i32(self.last_fetched_epoch.0);
        }
        if version >= 5 {
            out.i64(self.log_start_offset.0);
        }
        out.i32(self.max_bytes);
        out.no_tags();
    }
}
