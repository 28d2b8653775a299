//! Batches and managers for tests.

use std::path::PathBuf;
use std::sync::Arc;

use super::disk::Disk;
use super::entry::entries;
use super::log::{AppendParams, Log, Origin, Verification};
use super::manager::{LogManager, ManagerError};
use crate::clock::ManualClock;
use crate::config::{BrokerConfig, TopicConfig};
use crate::random::SeededRandom;
use crate::types::{BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition};
use crate::wire::batch::{Batch, BatchBuilder, BatchOptions, HEADER_LEN, LOG_OVERHEAD, Records, stamp};
use crate::wire::compression::{Codec, DECOMPRESSED_MAX, Scratch, decompress};
use crate::wire::legacy::{InnerMessages, Message};

/// Who sends a batch: producer id, epoch, base sequence.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    pub id: i64,
    pub epoch: i16,
    pub sequence: i32,
    pub transactional: bool,
}

/// A batch of `count` small records with timestamp 1000, as a producer without idempotence sends it.
pub fn batch(count: i32) -> Vec<u8> {
    batch_of(count, 1000, 10, None)
}

/// A batch of `count` records with values of `value_len` bytes.
pub fn batch_of(count: i32, timestamp_ms: i64, value_len: usize, sender: Option<Sender>) -> Vec<u8> {
    let mut records = Vec::new();
    for at in 0..count {
        let mut body = vec![0];
        varint(&mut body, 0);
        varint(&mut body, at.into());
        varint(&mut body, -1);
        varint(&mut body, value_len as i64);
        body.extend((0..value_len).map(|n| b'a' + ((n + at as usize) % 26) as u8));
        varint(&mut body, 0);
        varint(&mut records, body.len() as i64);
        records.extend(body);
    }
    finish(count, timestamp_ms, &records, sender, false)
}

/// Key, and value unless it is a tombstone.
pub type Row = (String, Option<String>);

/// A batch of records with keys, each with a header of its own; timestamps rise by one.
pub fn keyed(rows: &[Row], timestamp_ms: i64, options: BatchOptions) -> Vec<u8> {
    let mut batch = BatchBuilder::new(options).unwrap();
    for (at, (key, value)) in (0..).zip(rows) {
        let value = value.as_ref().map(|value| value.as_bytes());
        let of = format!("{key}@{at}");
        batch.append(timestamp_ms + at, Some(key.as_bytes()), value, &[(b"of", Some(of.as_bytes()))]).unwrap();
    }
    batch.finish().unwrap()
}

/// A record as a log holds it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stored {
    pub offset: Offset,
    pub timestamp_ms: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// The records in one batch or message, whatever its magic and codec.
pub fn records_in(bytes: &[u8]) -> Vec<Stored> {
    let owned = |field: Option<&[u8]>| field.map(<[u8]>::to_vec);
    let of_message = |message: &Message<'_>| Stored {
        offset: message.offset,
        timestamp_ms: message.timestamp,
        key: owned(message.key),
        value: owned(message.value),
        headers: Vec::new(),
    };
    if bytes[16] < 2 {
        let message = Message::parse(bytes).unwrap();
        if message.codec().unwrap() == Codec::None {
            return vec![of_message(&message)];
        }
        let (mut scratch, mut found) = (Scratch::default(), Vec::new());
        let mut inner = InnerMessages::new(message, &mut scratch).unwrap();
        while let Some(message) = inner.next_message().unwrap() {
            found.push(of_message(&message));
        }
        return found;
    }
    let batch = Batch::parse(bytes).unwrap();
    assert!(batch.crc_matches());
    let mut payload = Vec::new();
    let codec = batch.header.codec().unwrap();
    decompress(codec, 2, batch.payload(), DECOMPRESSED_MAX, &mut Scratch::default(), &mut payload).unwrap();
    let records = Records::new(&batch.header, &payload).map(|record| record.unwrap());
    records
        .map(|record| Stored {
            offset: record.offset(&batch.header),
            timestamp_ms: record.timestamp(&batch.header),
            key: owned(record.key),
            value: owned(record.value),
            headers: record.headers().map(|header| (header.key.to_vec(), owned(header.value))).collect(),
        })
        .collect()
}

/// An end marker.
pub fn marker(id: i64, epoch: i16, commit: bool, coordinator_epoch: i32) -> Vec<u8> {
    let mut body = vec![0];
    varint(&mut body, 0);
    varint(&mut body, 0);
    varint(&mut body, 4);
    body.extend([0, 0, 0, u8::from(commit)]);
    varint(&mut body, 6);
    body.extend([0, 0]);
    body.extend(coordinator_epoch.to_be_bytes());
    varint(&mut body, 0);
    let mut records = Vec::new();
    varint(&mut records, body.len() as i64);
    records.extend(body);
    finish(1, 1000, &records, Some(Sender { id, epoch, sequence: -1, transactional: true }), true)
}

fn finish(count: i32, timestamp_ms: i64, records: &[u8], sender: Option<Sender>, control: bool) -> Vec<u8> {
    let mut out = vec![0; HEADER_LEN];
    out.extend(records);
    let length = (out.len() - LOG_OVERHEAD) as i32;
    let sender = sender.unwrap_or(Sender { id: -1, epoch: -1, sequence: -1, transactional: false });
    let attributes = i16::from(sender.transactional) << 4 | i16::from(control) << 5;
    out[8..12].copy_from_slice(&length.to_be_bytes());
    out[12..16].copy_from_slice(&(-1_i32).to_be_bytes());
    out[16] = 2;
    out[21..23].copy_from_slice(&attributes.to_be_bytes());
    out[23..27].copy_from_slice(&(count - 1).to_be_bytes());
    out[27..35].copy_from_slice(&timestamp_ms.to_be_bytes());
    out[35..43].copy_from_slice(&timestamp_ms.to_be_bytes());
    out[43..51].copy_from_slice(&sender.id.to_be_bytes());
    out[51..53].copy_from_slice(&sender.epoch.to_be_bytes());
    out[53..57].copy_from_slice(&sender.sequence.to_be_bytes());
    out[57..61].copy_from_slice(&count.to_be_bytes());
    stamp::set_checksum(&mut out);
    out
}

fn varint(out: &mut Vec<u8>, value: i64) {
    let mut left = (value << 1 ^ value >> 63) as u64;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// A manager over any disk with one log directory, `/logs` on a simulated one, or two.
pub struct World {
    pub disk: Arc<dyn Disk>,
    pub path: PathBuf,
    /// A second log directory.
    pub other: Option<PathBuf>,
    pub clock: Arc<ManualClock>,
    pub topic: TopicConfig,
}

pub const TOPIC_ID: TopicId = TopicId(uuid::Uuid::from_u128(77));

impl World {
    pub fn new(disk: Arc<dyn Disk>, path: impl Into<PathBuf>, clock: Arc<ManualClock>) -> World {
        World { disk, path: path.into(), other: None, clock, topic: TopicConfig::default() }
    }

    pub fn config(&self) -> BrokerConfig {
        let log_dirs = [Some(self.path.clone()), self.other.clone()].into_iter().flatten().collect();
        BrokerConfig { log_dirs, ..BrokerConfig::default() }
    }

    /// Opened, nothing loaded.
    pub fn open(&self) -> Result<LogManager, ManagerError> {
        let random = Arc::new(SeededRandom::new(1));
        LogManager::open(self.disk.clone(), self.clock.clone(), random, Arc::new(self.config()))
    }

    /// Opened, claimed, and every topic whose name begins with `t` loaded.
    pub fn start(&self) -> Result<LogManager, ManagerError> {
        let manager = self.open()?;
        manager.claim(BrokerId(1), "cluster-a")?;
        manager.load(&|name| name.starts_with('t').then(|| (TOPIC_ID, Arc::new(self.topic.clone()))))?;
        Ok(manager)
    }

    pub fn log(&self, manager: &LogManager, topic: &str) -> Result<Arc<Log>, ManagerError> {
        manager.get_or_create(&TopicPartition::new(topic, 0), TOPIC_ID, Arc::new(self.topic.clone()))
    }
}

pub fn client(epoch: i32, now_ms: i64) -> AppendParams {
    AppendParams {
        origin: Origin::Client { produce_version: 9 },
        verification: Verification::NotAsked,
        leader_epoch: LeaderEpoch(epoch),
        now_ms,
        decompressed_max: DECOMPRESSED_MAX,
    }
}

/// Every whole batch from the log start to the log end, by base offset.
pub fn batches(log: &Log) -> Vec<(Offset, Vec<u8>)> {
    let offsets = log.offsets();
    let mut at = offsets.log_start;
    let mut found = Vec::new();
    while at < offsets.log_end {
        let Some(slice) = log.read(at, offsets.log_end, 1 << 20, true).unwrap().slice else { break };
        let mut bytes = vec![0; slice.len];
        slice.file.read_exact_at(&mut bytes, slice.position).unwrap();
        for (position, entry) in entries(&bytes) {
            found.push((entry.base_offset, bytes[position..position + entry.size as usize].to_vec()));
            at = entry.last_offset + 1;
        }
    }
    found
}
