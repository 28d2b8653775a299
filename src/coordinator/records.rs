//! Records of `__consumer_offsets`, byte for byte Kafka's (`OffsetCommitKey` and the rest of its message definitions).
//!
//! ```text
//! key   i16 version: 0, 1 offset commit (1 is written)   2 group metadata   3.. other kinds of groups
//! value i16 version: offset commit 0-4 (3 is written; 1 with an expire timestamp)   group metadata 0-4 (3 is written)
//! ```
//! Keys are never flexible, values from version 4 on. A null value is a tombstone.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use crate::types::{LeaderEpoch, Offset};
use crate::wire::reader::{ReadError, Reader};
use crate::wire::writer::Writer;

/// What a record is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    Offset {
        group: Arc<str>,
        topic: Arc<str>,
        partition: i32,
    },
    Group {
        group: Arc<str>,
    },
    /// Of a later protocol; skipped.
    Unknown(i16),
}

/// An offset as it was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetValue {
    /// Next to be read.
    pub offset: Offset,
    pub leader_epoch: LeaderEpoch,
    pub metadata: Arc<str>,
    /// Wall ms.
    pub commit_timestamp_ms: i64,
    /// Wall ms, from commits of versions 2 to 4 with a retention time of their own.
    pub expire_timestamp_ms: Option<i64>,
}

/// A group as it was when its members got their assignments, or when the last one left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupValue {
    pub protocol_type: Arc<str>,
    pub generation: i32,
    pub protocol: Option<Arc<str>>,
    pub leader: Option<Arc<str>>,
    /// Wall ms; `None` before version 2.
    pub state_timestamp_ms: Option<i64>,
    pub members: Vec<MemberValue>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberValue {
    pub member_id: Arc<str>,
    pub group_instance_id: Option<Arc<str>>,
    pub client_id: Arc<str>,
    /// With a `/` in front, as Java prints an address.
    pub client_host: Arc<str>,
    pub rebalance_timeout_ms: i32,
    pub session_timeout_ms: i32,
    /// Metadata for the chosen protocol.
    pub subscription: Bytes,
    pub assignment: Bytes,
}

/// Why a record is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("value version {0} is not known")]
    Version(i16),
    #[error("no transaction can be in state {0}")]
    State(i8),
}

const OFFSET_KEY: i16 = 1;
const GROUP_KEY: i16 = 2;
const OFFSET_VALUE: i16 = 3;
/// The only version with an expire timestamp.
const OFFSET_VALUE_EXPIRING: i16 = 1;
const GROUP_VALUE: i16 = 3;
const FIRST_FLEXIBLE: i16 = 4;

impl Key {
    pub fn encode(&self) -> Bytes {
        let mut w = Writer::new(BytesMut::new(), false);
        match self {
            Key::Offset { group, topic, partition } => {
                w.i16(OFFSET_KEY);
                w.string(group);
                w.string(topic);
                w.i32(*partition);
            }
            Key::Group { group } => {
                w.i16(GROUP_KEY);
                w.string(group);
            }
            Key::Unknown(version) => w.i16(*version),
        }
        w.buf.freeze()
    }

    pub fn decode(bytes: &[u8]) -> Result<Key, BadRecord> {
        let mut r = Reader::new(bytes, 0, false);
        Ok(match r.i16("key version")? {
            0 | OFFSET_KEY => Key::Offset {
                group: r.string("group")?.into(),
                topic: r.string("topic")?.into(),
                partition: r.i32("partition")?,
            },
            GROUP_KEY => Key::Group { group: r.string("group")?.into() },
            version => Key::Unknown(version),
        })
    }
}

/// A reader behind the version of a value.
fn value(bytes: &[u8]) -> Result<(i16, Reader<'_>), BadRecord> {
    let version = Reader::new(bytes, 0, false).i16("value version")?;
    match version {
        0..=FIRST_FLEXIBLE => Ok((version, Reader::new(bytes, 2, version >= FIRST_FLEXIBLE))),
        _ => Err(BadRecord::Version(version)),
    }
}

impl OffsetValue {
    pub fn encode(&self) -> Bytes {
        let mut w = Writer::new(BytesMut::new(), false);
        let version = if self.expire_timestamp_ms.is_some() { OFFSET_VALUE_EXPIRING } else { OFFSET_VALUE };
        w.i16(version);
        w.i64(self.offset.0);
        if version >= 3 {
            w.i32(self.leader_epoch.0);
        }
        w.string(&self.metadata);
        w.i64(self.commit_timestamp_ms);
        if let Some(expire_timestamp_ms) = self.expire_timestamp_ms {
            w.i64(expire_timestamp_ms);
        }
        w.buf.freeze()
    }

    pub fn decode(bytes: &[u8]) -> Result<OffsetValue, BadRecord> {
        let (version, mut r) = value(bytes)?;
        Ok(OffsetValue {
            offset: Offset(r.i64("offset")?),
            leader_epoch: LeaderEpoch(if version >= 3 { r.i32("leader epoch")? } else { LeaderEpoch::NONE.0 }),
            metadata: r.string("metadata")?.into(),
            commit_timestamp_ms: r.i64("commit timestamp")?,
            expire_timestamp_ms: match version {
                OFFSET_VALUE_EXPIRING => Some(r.i64("expire timestamp")?).filter(|at| *at != -1),
                _ => None,
            },
        })
    }
}

impl GroupValue {
    pub fn encode(&self) -> Bytes {
        let mut w = Writer::new(BytesMut::new(), false);
        w.i16(GROUP_VALUE);
        w.string(&self.protocol_type);
        w.i32(self.generation);
        w.nullable_string(self.protocol.as_deref());
        w.nullable_string(self.leader.as_deref());
        w.i64(self.state_timestamp_ms.unwrap_or(-1));
        w.len(self.members.len());
        for member in &self.members {
            w.string(&member.member_id);
            w.nullable_string(member.group_instance_id.as_deref());
            w.string(&member.client_id);
            w.string(&member.client_host);
            w.i32(member.rebalance_timeout_ms);
            w.i32(member.session_timeout_ms);
            for bytes in [&member.subscription, &member.assignment] {
                w.len(bytes.len());
                w.buf.put_slice(bytes);
            }
        }
        w.buf.freeze()
    }

    pub fn decode(bytes: &[u8]) -> Result<GroupValue, BadRecord> {
        let (version, mut r) = value(bytes)?;
        let protocol_type = r.string("protocol type")?.into();
        let generation = r.i32("generation")?;
        let protocol = r.nullable_string("protocol")?.map(Arc::from);
        let leader = r.nullable_string("leader")?.map(Arc::from);
        let state_timestamp_ms =
            if version >= 2 { Some(r.i64("state timestamp")?).filter(|at| *at != -1) } else { None };
        let count = r.array_len("members")?;
        let members = (0..count).map(|_| MemberValue::read(&mut r, version, bytes)).collect::<Result<_, _>>()?;
        Ok(GroupValue { protocol_type, generation, protocol, leader, state_timestamp_ms, members })
    }
}

impl MemberValue {
    fn read(r: &mut Reader<'_>, version: i16, all: &[u8]) -> Result<MemberValue, BadRecord> {
        let member_id = r.string("member id")?.into();
        let group_instance_id =
            if version >= 3 { r.nullable_string("group instance id")?.map(Arc::from) } else { None };
        let client_id = r.string("client id")?.into();
        let client_host = r.string("client host")?.into();
        let rebalance_timeout_ms = if version >= 1 { Some(r.i32("rebalance timeout")?) } else { None };
        let session_timeout_ms = r.i32("session timeout")?;
        let mut bytes = |field| {
            let range = r.nullable_bytes_range(field)?.unwrap_or_default();
            Ok::<_, ReadError>(Bytes::copy_from_slice(&all[range]))
        };
        let (subscription, assignment) = (bytes("subscription")?, bytes("assignment")?);
        r.skip_tags()?;
        Ok(MemberValue {
            member_id,
            group_instance_id,
            client_id,
            client_host,
            // The first clients had one timeout for both.
            rebalance_timeout_ms: rebalance_timeout_ms.unwrap_or(session_timeout_ms),
            session_timeout_ms,
            subscription,
            assignment,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
    }

    /// Written by a live 3.9.1.
    #[test]
    fn recorded_offset_commits_read_and_write_the_same() {
        for (key, value, offset, metadata) in [
            ("00010004676f6c6400046f6c643100000000", "00030000000000000000ffffffff0000000001a22858f83e", 0, ""),
            (
                "000100076773696d706c650005706c61696e00000000",
                "00030000000000000005ffffffff00046d657461000001a22859f6fb",
                5,
                "meta",
            ),
        ] {
            let (key, value) = (hex(key), hex(value));
            assert_eq!(Key::decode(&key).expect("a key").encode(), key);
            let decoded = OffsetValue::decode(&value).expect("a value");
            assert_eq!((decoded.offset, &*decoded.metadata), (Offset(offset), metadata));
            assert_eq!(decoded.encode(), value);
        }
    }

    /// Written by a live 3.9.1.
    #[test]
    fn recorded_group_metadata_reads_and_writes_the_same() {
        let stable = "00030008636f6e73756d657200000001000572616e676500286369642d35316230396132302d313331632d346539352d3931\
                      32342d376366313434633839343763000001a22859e9320000000100286369642d35316230396132302d313331632d346539\
                      352d393132342d376366313434633839343763ffff0003636964000a2f3132372e302e302e31000493e00000afc80000001b\
                      0003000000010005706c61696effffffff00000000ffffffffffff000000190003000000010005706c61696e000000010000\
                      0000ffffffff";
        let empty = "00030008636f6e73756d657200000002ffffffff000001a22859f3cc00000000";
        for (text, members, leads) in [(stable, 1, true), (empty, 0, false)] {
            let bytes = hex(&text.replace([' ', '\n'], ""));
            let group = GroupValue::decode(&bytes).expect("a value");
            assert_eq!((group.members.len(), group.leader.is_some()), (members, leads));
            assert_eq!(group.encode(), bytes);
        }
    }

    #[test]
    fn every_version_of_a_value_is_read() {
        for version in 0..=4i16 {
            let mut w = Writer::new(BytesMut::new(), version >= 4);
            w.i16(version);
            w.i64(7);
            if version >= 3 {
                w.i32(2);
            }
            w.string("m");
            w.i64(10);
            if version == 1 {
                w.i64(20);
            }
            w.no_tags();
            let value = OffsetValue::decode(&w.buf).expect("an offset");
            assert_eq!(value.offset, Offset(7));
            assert_eq!(value.leader_epoch.0, if version >= 3 { 2 } else { -1 });
            assert_eq!(value.expire_timestamp_ms, (version == 1).then_some(20));

            let mut w = Writer::new(BytesMut::new(), version >= 4);
            w.i16(version);
            w.string("consumer");
            w.i32(3);
            w.nullable_string(Some("range"));
            w.nullable_string(Some("m-1"));
            if version >= 2 {
                w.i64(99);
            }
            w.len(1);
            w.string("m-1");
            if version >= 3 {
                w.nullable_string(None);
            }
            w.string("client");
            w.string("/127.0.0.1");
            if version >= 1 {
                w.i32(60_000);
            }
            w.i32(10_000);
            w.len(1);
            w.buf.put_u8(1);
            w.len(0);
            w.no_tags();
            w.no_tags();
            let value = GroupValue::decode(&w.buf).expect("a group");
            assert_eq!(value.state_timestamp_ms, (version >= 2).then_some(99));
            let member = &value.members[0];
            assert_eq!(member.rebalance_timeout_ms, if version >= 1 { 60_000 } else { 10_000 });
            assert_eq!(&member.subscription[..], [1]);
        }
    }

    #[test]
    fn what_is_damaged_or_newer_is_told_apart() {
        assert_eq!(Key::decode(&hex("000b0003616263")), Ok(Key::Unknown(11)));
        assert_eq!(OffsetValue::decode(&hex("0005")), Err(BadRecord::Version(5)));
        assert!(matches!(Key::decode(&hex("00010003616263")), Err(BadRecord::Read(_))));
        let value = hex("00030000000000000005ffffffff00046d657461000001a22859f6fb");
        for end in 0..value.len() {
            assert!(OffsetValue::decode(&value[..end]).is_err(), "{end} bytes");
        }
    }
}
