//! Subscriptions and assignments, as consumers write them for each other: an i16 version, then a message of it.

use anyhow::bail;
use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::ConsumerProtocolAssignment;
use kafka_protocol::protocol::Encodable;

use crate::types::TopicPartition;
use crate::wire::guard;

/// What a consumer of 3.9 writes.
const VERSION: i16 = 3;

/// A message of the consumer protocol behind its version.
pub fn prefixed(message: &impl Encodable) -> anyhow::Result<Bytes> {
    let mut out = BytesMut::new();
    out.put_i16(VERSION);
    message.encode(&mut out, VERSION)?;
    Ok(out.freeze())
}

/// The partitions of an assignment in order, whatever its version; none of an empty one.
pub fn assigned(mut assignment: Bytes) -> anyhow::Result<Vec<TopicPartition>> {
    if assignment.is_empty() {
        return Ok(Vec::new());
    }
    if assignment.len() < 2 {
        bail!("an assignment of {} byte", assignment.len());
    }
    let version = i16::from_be_bytes([assignment[0], assignment[1]]).clamp(0, VERSION);
    let assignment: ConsumerProtocolAssignment = guard::decode(assignment.split_off(2), version)?;
    let mut all = Vec::new();
    for topic in assignment.assigned_partitions {
        all.extend(topic.partitions.iter().map(|partition| TopicPartition::new(topic.topic.as_str(), *partition)));
    }
    all.sort();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_of_any_version_are_read_and_garbage_is_an_error() {
        for version in [b"\0\x00", b"\0\x03", b"\0\x63"] {
            let body = [&version[..], b"\0\0\0\x01\0\x01a\0\0\0\x01\0\0\0\x07\xff\xff\xff\xff"].concat();
            assert_eq!(assigned(body.into()).unwrap(), [TopicPartition::new("a", 7)]);
        }
        assert_eq!(assigned(Bytes::new()).unwrap(), []);
        for garbage in [&b"\0"[..], b"\0\x01\x7f\xff\xff\xff"] {
            assert!(assigned(Bytes::from_static(garbage)).is_err());
        }
    }
}
