//! A produce request as places in its frame.
//!
//! ```text
//! transactional_id (3+)  acks i16  timeout_ms i32  [ topic  [ index i32  records ] ]
//! ```
//! Records and names stay where they were received: the handler stamps offsets into the same bytes.

use std::ops::Range;

use bytes::BytesMut;
use smallvec::SmallVec;

use crate::wire::reader::{ReadError, Reader};

/// Partitions that one request may name: more than a broker has, and each is looked for.
const PARTITIONS_MAX: usize = 50_000;

/// Everything but the records' bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceRequest {
    pub transactional_id: Option<String>,
    pub acks: i16,
    pub timeout_ms: i32,
    /// In the order of the request. A topic without partitions leaves no trace, as in Kafka's answer.
    pub partitions: SmallVec<[PartitionData; 1]>,
}

/// One partition's records. Places are bytes of the frame; a frame is smaller than 2 GiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionData {
    topic: Range<u32>,
    pub index: i32,
    records: Option<Range<u32>>,
}

impl PartitionData {
    /// The topic's name in the frame that the request was read from.
    pub fn topic<'f>(&self, frame: &'f [u8]) -> &'f str {
        let bytes = frame.get(wide(&self.topic)).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// Whether both stand under the same topic entry of the request.
    pub fn same_topic(&self, other: &PartitionData) -> bool {
        self.topic == other.topic
    }

    /// The records' place in the frame; `None` when they are null.
    pub fn records(&self) -> Option<Range<usize>> {
        self.records.as_ref().map(wide)
    }
}

impl ProduceRequest {
    /// Reads the body that begins at byte `at` of `frame`. Bytes behind it are ignored.
    pub fn decode(frame: &[u8], at: usize, version: i16) -> Result<ProduceRequest, ReadError> {
        let mut reader = Reader::new(frame, at, version >= super::FIRST_FLEXIBLE);
        let transactional_id =
            if version >= 3 { reader.nullable_string("transactional_id")?.map(str::to_owned) } else { None };
        let acks = reader.i16("acks")?;
        let timeout_ms = reader.i32("timeout_ms")?;
        let mut partitions = SmallVec::new();
        for _ in 0..reader.array_len("topic_data")? {
            let topic = narrow(reader.string_range("name")?);
            for _ in 0..reader.array_len("partition_data")? {
                let index = reader.i32("index")?;
                let records = reader.nullable_bytes_range("records")?.map(narrow);
                reader.skip_tags()?;
                if partitions.len() == PARTITIONS_MAX {
                    let field = "partition_data";
                    return Err(ReadError::Length { field, length: PARTITIONS_MAX as i64 + 1 });
                }
                partitions.push(PartitionData { topic: topic.clone(), index, records });
            }
            reader.skip_tags()?;
        }
        reader.skip_tags()?;
        Ok(ProduceRequest { transactional_id, acks, timeout_ms, partitions })
    }

    /// Forgets the records: what is returned stands in for `frame` from here on and holds the names alone.
    pub fn without_records(&mut self, frame: &[u8]) -> BytesMut {
        let mut names = BytesMut::new();
        let mut last: Option<(Range<u32>, Range<u32>)> = None;
        for data in &mut self.partitions {
            data.records = None;
            data.topic = match &last {
                Some((before, after)) if *before == data.topic => after.clone(),
                _ => {
                    let from = names.len();
                    names.extend_from_slice(frame.get(wide(&data.topic)).unwrap_or_default());
                    let after = narrow(from..names.len());
                    last = Some((data.topic.clone(), after.clone()));
                    after
                }
            };
        }
        names
    }
}

fn narrow(range: Range<usize>) -> Range<u32> {
    range.start as u32..range.end as u32
}

fn wide(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}
