//! Records of `__transaction_state`, byte for byte Kafka's (`TransactionLogKey`, `TransactionLogValue`).
//!
//! Key: i16 version 0, transactional id. Value: version 0 is written; 1 has the same fields, flexible, and is read: a broker
//! with `transaction.version` 1 writes it. A null value is a tombstone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::State;
use crate::coordinator::records::BadRecord;
use crate::types::TopicPartition;
use crate::wire::reader::Reader;
use crate::wire::writer::Writer;

/// What a record is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    TransactionalId(Arc<str>),
    /// Of a later protocol; skipped.
    Unknown(i16),
}

/// A transactional id as it is after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub timeout_ms: i32,
    pub state: State,
    /// Kafka writes the topics in the order of its hashes.
    pub partitions: BTreeSet<TopicPartition>,
    /// Wall ms.
    pub updated_ms: i64,
    /// Wall ms; -1 = none was begun.
    pub started_ms: i64,
}

const KEY: i16 = 0;
const VALUE: i16 = 0;
const FLEXIBLE_VALUE: i16 = 1;

impl Key {
    pub fn encode(&self) -> Bytes {
        let mut w = Writer::new(BytesMut::new(), false);
        match self {
            Key::TransactionalId(id) => {
                w.i16(KEY);
                w.string(id);
            }
            Key::Unknown(version) => w.i16(*version),
        }
        w.buf.freeze()
    }

    pub fn decode(bytes: &[u8]) -> Result<Key, BadRecord> {
        let mut r = Reader::new(bytes, 0, false);
        Ok(match r.i16("key version")? {
            KEY => Key::TransactionalId(r.string("transactional id")?.into()),
            version => Key::Unknown(version),
        })
    }
}

impl Value {
    pub fn encode(&self) -> Bytes {
        let mut w = Writer::new(BytesMut::new(), false);
        w.i16(VALUE);
        w.i64(self.producer_id);
        w.i16(self.producer_epoch);
        w.i32(self.timeout_ms);
        w.i8(self.state.id());
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for at in &self.partitions {
            topics.entry(&at.topic).or_default().push(at.partition);
        }
        w.nullable_len((self.state != State::Empty).then_some(topics.len()));
        for (topic, partitions) in topics {
            w.string(topic);
            w.len(partitions.len());
            partitions.into_iter().for_each(|partition| w.i32(partition));
        }
        w.i64(self.updated_ms);
        w.i64(self.started_ms);
        w.buf.freeze()
    }

    pub fn decode(bytes: &[u8]) -> Result<Value, BadRecord> {
        let version = Reader::new(bytes, 0, false).i16("value version")?;
        if !(VALUE..=FLEXIBLE_VALUE).contains(&version) {
            return Err(BadRecord::Version(version));
        }
        let mut r = Reader::new(bytes, 2, version >= FLEXIBLE_VALUE);
        let producer_id = r.i64("producer id")?;
        let producer_epoch = r.i16("producer epoch")?;
        let timeout_ms = r.i32("timeout")?;
        let id = r.i8("state")?;
        let state = State::of_record(id).ok_or(BadRecord::State(id))?;
        let mut partitions = BTreeSet::new();
        for _ in 0..r.nullable_array_len("partitions")?.unwrap_or(0) {
            let topic: Arc<str> = r.string("topic")?.into();
            for _ in 0..r.array_len("partition ids")? {
                partitions.insert(TopicPartition { topic: topic.clone(), partition: r.i32("partition id")? });
            }
            r.skip_tags()?;
        }
        if state == State::Empty {
            partitions.clear();
        }
        let (updated_ms, started_ms) = (r.i64("last update")?, r.i64("start")?);
        r.skip_tags()?;
        Ok(Value { producer_id, producer_epoch, timeout_ms, state, partitions, updated_ms, started_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
    }

    /// Of one record: its bytes, state and partitions.
    type Recorded = (&'static str, State, &'static [(&'static str, i32)]);

    /// Written by a live 3.9.1, in the order of its log.
    const RECORDED: &[Recorded] = &[
        ("000000000000000003ed00000000ea6000ffffffff000001a22859d0b1ffffffffffffffff", State::Empty, &[]),
        (
            "000000000000000003ed00000000ea600100000001000374786e0000000100000000000001a22859d38a000001a22859d38a",
            State::Ongoing,
            &[("txn", 0)],
        ),
        (
            "000000000000000003ed00000000ea60010000000200125f5f636f6e73756d65725f6f666673657473000000010000000000037478\
             6e0000000100000000000001a22859d8a8000001a22859d38a",
            State::Ongoing,
            &[("__consumer_offsets", 0), ("txn", 0)],
        ),
        (
            "000000000000000003ed00000000ea60020000000200125f5f636f6e73756d65725f6f666673657473000000010000000000037478\
             6e0000000100000000000001a22859d999000001a22859d38a",
            State::PrepareCommit,
            &[("__consumer_offsets", 0), ("txn", 0)],
        ),
        (
            "000000000000000003ee00000000ea600300000001000374786e0000000100000000000001a22859da09000001a22859d7e6",
            State::PrepareAbort,
            &[("txn", 0)],
        ),
        ("000000000000000003ed00000000ea600400000000000001a22859d9aa000001a22859d38a", State::CompleteCommit, &[]),
        ("000000000000000003ee00000000ea600500000000000001a22859da2b000001a22859d7e6", State::CompleteAbort, &[]),
    ];

    #[test]
    fn recorded_records_read_and_write_the_same() {
        let key = hex("0000000474782d61");
        assert_eq!(Key::decode(&key), Ok(Key::TransactionalId("tx-a".into())));
        assert_eq!(Key::decode(&key).expect("a key").encode(), key);
        for (text, state, partitions) in RECORDED {
            let bytes = hex(&text.replace([' ', '\n'], ""));
            let value = Value::decode(&bytes).expect("a value");
            let named: Vec<(&str, i32)> = value.partitions.iter().map(|at| (&*at.topic, at.partition)).collect();
            assert_eq!((value.state, &*named), (*state, *partitions));
            assert_eq!((value.timeout_ms, value.started_ms == -1), (60_000, *state == State::Empty));
            assert_eq!(value.encode(), bytes);
        }
    }

    #[test]
    fn a_flexible_value_says_the_same() {
        let mut w = Writer::new(BytesMut::new(), true);
        w.i16(FLEXIBLE_VALUE);
        w.i64(7);
        w.i16(3);
        w.i32(1_000);
        w.i8(1);
        w.len(1);
        w.string("t");
        w.len(2);
        w.i32(4);
        w.i32(5);
        w.no_tags();
        w.i64(20);
        w.i64(10);
        w.no_tags();
        let value = Value::decode(&w.buf).expect("a value");
        let expected = Value {
            producer_id: 7,
            producer_epoch: 3,
            timeout_ms: 1_000,
            state: State::Ongoing,
            partitions: [TopicPartition::new("t", 4), TopicPartition::new("t", 5)].into(),
            updated_ms: 20,
            started_ms: 10,
        };
        assert_eq!(value, expected);
        assert_eq!(Value::decode(&value.encode()), Ok(expected));
    }

    #[test]
    fn what_is_damaged_or_newer_is_told_apart() {
        assert_eq!(Key::decode(&hex("00010003616263")), Ok(Key::Unknown(1)));
        assert_eq!(Value::decode(&hex("0002")), Err(BadRecord::Version(2)));
        let whole = hex(&RECORDED[3].0.replace([' ', '\n'], ""));
        for end in 0..whole.len() {
            assert!(Value::decode(&whole[..end]).is_err(), "{end} bytes");
        }
        // States that are never written.
        for state in [6, 7, 8, 0xff] {
            let mut bytes = whole.clone();
            bytes[16] = state;
            assert_eq!(Value::decode(&bytes), Err(BadRecord::State(state as i8)));
        }
    }
}
