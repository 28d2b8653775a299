//! Directories that a live Kafka 3.9.1 wrote: after an orderly stop, and after `kill -9` with two things broken on purpose.
//!
//! Rows marked "rule" hold the record at offset o with a value `v<o>-` filled up with letters that follow from o.

use std::collections::BTreeMap;
use std::process::Command;

use super::*;
use crate::clock::ManualClock;
use crate::random::SeededRandom;
use crate::storage::disk_real::RealDisk;
use crate::storage::entry::Entry;
use crate::storage::log::AbortedTransaction;
use crate::storage::testing::batches;
use crate::types::Offset;
use crate::wire::batch::{Batch, RecordStream};
use crate::wire::compression::{Codec, DECOMPRESSED_MAX, Decompressor, Scratch};
use crate::wire::legacy::{InnerMessages, Message};

type Value = Option<Vec<u8>>;

struct Recorded {
    _home: tempfile::TempDir,
    path: PathBuf,
}

impl Recorded {
    fn unpack(name: &str) -> Recorded {
        let home = tempfile::tempdir().unwrap();
        let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.tar.gz"));
        let unpacked = Command::new("tar").arg("xzf").arg(&archive).arg("-C").arg(home.path()).status().unwrap();
        assert!(unpacked.success(), "{} does not unpack", archive.display());
        let path = home.path().join(name);
        Recorded { _home: home, path }
    }

    /// Loads every topic, with retention off and one setting of the recording broker.
    fn load(&self) -> LogManager {
        let config = BrokerConfig { log_dirs: vec![self.path.clone()], ..BrokerConfig::default() };
        // Long after the recording, yet before any producer expires.
        let clock = Arc::new(ManualClock::at(1_700_000_000_000));
        let manager =
            LogManager::open(Arc::new(RealDisk), clock, Arc::new(SeededRandom::new(1)), Arc::new(config)).unwrap();
        assert_eq!(manager.stored_broker_id(), Some(BrokerId(1)));
        assert_eq!(manager.stored_cluster_id().as_deref(), Some("YfD-6pUITVuXVain1RHbIw"));
        let topic = TopicConfig { index_interval_bytes: 512, ..TopicConfig::default() };
        let disk = RealDisk;
        manager
            .load(&|name| {
                let id = partition_metadata::read(&disk, &self.path.join(format!("{name}-0"))).unwrap();
                Some((id.unwrap_or_default(), Arc::new(topic.clone())))
            })
            .unwrap();
        manager
    }
}

fn log(manager: &LogManager, topic: &str) -> Arc<Log> {
    manager.get(&TopicPartition::new(topic, 0)).unwrap_or_else(|| panic!("{topic}-0 is not loaded"))
}

fn records(log: &Log) -> BTreeMap<i64, (Value, Value)> {
    let mut found = BTreeMap::new();
    let mut scratch = Scratch::default();
    for (_, bytes) in batches(log) {
        let crate::storage::entry::Parsed::Entry(entry) = Entry::parse(&bytes) else { panic!("no batch") };
        assert!(crate::storage::append::crc_fits(&bytes, &entry));
        let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        if entry.magic == 2 {
            let batch = Batch::parse(&bytes).unwrap();
            if batch.header.is_control() || batch.header.record_count == 0 {
                continue;
            }
            let codec = Codec::from_bits(batch.header.codec_bits()).unwrap();
            let payload = Decompressor::new(codec, 2, batch.payload(), DECOMPRESSED_MAX, &mut scratch).unwrap();
            let mut stream = RecordStream::new(&batch.header, payload).unwrap();
            let mut buffer = Vec::new();
            while let Some(record) = stream.next_record(&mut buffer).unwrap() {
                found.insert(record.offset(&batch.header).0, (owned(record.key), owned(record.value)));
            }
        } else {
            let message = Message::parse(&bytes).unwrap();
            if message.codec().unwrap() == Codec::None {
                found.insert(message.offset.0, (owned(message.key), owned(message.value)));
                continue;
            }
            let mut inner = InnerMessages::new(message, &mut scratch).unwrap();
            while let Some(message) = inner.next_message().unwrap() {
                found.insert(message.offset.0, (owned(message.key), owned(message.value)));
            }
        }
    }
    found
}

fn ruled(offset: i64, len: usize) -> Vec<u8> {
    let mut value = format!("v{offset}-").into_bytes();
    while value.len() < len {
        value.push(b'a' + ((offset + value.len() as i64) % 26) as u8);
    }
    value
}

/// Log start, log end and every value.
fn check_rule(manager: &LogManager, topic: &str, start: i64, end: i64, len: usize, key_mod: i64) {
    let log = log(manager, topic);
    let offsets = log.offsets();
    assert_eq!((offsets.log_start, offsets.log_end), (Offset(start), Offset(end)), "{topic}");
    assert_eq!(offsets.high_watermark, Offset(end), "{topic}");
    let found = records(&log);
    for offset in start..end {
        let key = format!("k{}", offset % key_mod).into_bytes();
        let expected = (Some(key), Some(ruled(offset, len)));
        assert_eq!(found.get(&offset), Some(&expected), "{topic} at {offset}");
    }
    assert!(found.keys().all(|offset| *offset < end));
}

#[test]
fn the_orderly_directory_is_read_as_kafka_wrote_it() {
    let recorded = Recorded::unpack("data-dir-3.9.1");
    let manager = recorded.load();
    for topic in ["old0", "old1", "old1gz", "old2"] {
        check_rule(&manager, topic, 0, 8, 40, 3);
    }
    check_rule(&manager, "plain", 0, 60, 150, 7);
    for topic in ["gzip", "snappy", "lz4", "zstd"] {
        check_rule(&manager, topic, 0, 10, 60, 4);
    }
    check_rule(&manager, "ret", 20, 40, 150, 5);
    check_rule(&manager, "delrec", 7, 20, 30, 5);
    check_rule(&manager, "lat", 0, 5, 30, 5);

    let plain = log(&manager, "plain");
    let bases: Vec<i64> = plain.view.load().segments.iter().map(|segment| segment.base().0).collect();
    assert_eq!(bases, [0, 20, 40]);
    let producers: BTreeMap<_, _> = plain.producers().into_iter().collect();
    assert_eq!((producers[&1000].epoch, producers[&1000].last_sequence()), (0, 59));
    for (topic, producer) in [("gzip", 1001), ("snappy", 1002), ("lz4", 1003), ("zstd", 1004)] {
        let producers = log(&manager, topic).producers();
        assert_eq!(
            producers.iter().map(|(id, state)| (*id, state.last_sequence())).collect::<Vec<_>>(),
            [(producer, 9)]
        );
    }

    let hdr = log(&manager, "hdr").offsets();
    assert_eq!((hdr.log_start, hdr.log_end), (Offset(4), Offset(4)));
    let latest = log(&manager, "hdr2").offset_of_max_timestamp().unwrap().unwrap();
    assert_eq!((latest.offset, latest.timestamp_ms), (Offset(2), 1_700_000_009_000));
    let at = |ms| log(&manager, "hdr2").offset_for_timestamp(ms, Offset(4)).unwrap().map(|found| found.offset.0);
    assert_eq!(at(1_700_000_001_000), Some(0));
    assert_eq!(at(1_700_000_005_001), Some(2));
    assert_eq!(at(1_700_000_009_001), None);
    assert_eq!(log(&manager, "ret").epochs.read().entries(), [(crate::types::LeaderEpoch(0), Offset(20))]);
    let old1 = log(&manager, "old1");
    assert_eq!(old1.view.load().segments[0].max_timestamp_and_offset().unwrap().1, Offset(6));
}

#[test]
fn the_compacted_log_has_its_gaps() {
    let recorded = Recorded::unpack("data-dir-3.9.1");
    let manager = recorded.load();
    let comp = log(&manager, "comp");
    assert_eq!((comp.offsets().log_start, comp.offsets().log_end), (Offset(0), Offset(72)));
    let found = records(&comp);
    let keys: Vec<i64> = found.keys().copied().collect();
    let expected: Vec<i64> = [34, 35, 36, 39, 40, 41].into_iter().chain(42..72).collect();
    assert_eq!(keys, expected);
    assert_eq!(found[&40], (Some(b"k1".to_vec()), None));
    assert_eq!(found[&41], (Some(b"k2".to_vec()), Some(b"new".to_vec())));
    assert_eq!(found[&71].0, Some(b"x29".to_vec()));
}

fn committed(log: &Log) -> Vec<i64> {
    let offsets = log.offsets();
    let read = log.read(offsets.log_start, offsets.last_stable, 1 << 20, true).unwrap();
    let aborted = log.aborted_transactions(offsets.log_start, &read).unwrap();
    let mut skipping: Vec<i64> = Vec::new();
    let mut visible = Vec::new();
    for (base, bytes) in batches(log) {
        let batch = Batch::parse(&bytes).unwrap().header;
        if base >= offsets.last_stable {
            break;
        }
        skipping.extend(aborted.iter().filter(|txn| txn.first_offset == base).map(|txn| txn.producer_id));
        if batch.is_control() {
            skipping.retain(|id| *id != batch.producer_id);
        } else if !(batch.is_transactional() && skipping.contains(&batch.producer_id)) {
            visible.extend(base.0..batch.next_offset().0);
        }
    }
    visible
}

#[test]
fn transactions_are_seen_as_their_markers_say() {
    let recorded = Recorded::unpack("data-dir-3.9.1");
    let manager = recorded.load();
    let txn = log(&manager, "txn");
    assert_eq!(txn.offsets().log_end, Offset(17));
    assert_eq!(txn.offsets().last_stable, Offset(17));
    let read = txn.read(Offset(0), Offset(17), 1 << 20, true).unwrap();
    let aborted = txn.aborted_transactions(Offset(0), &read).unwrap();
    assert_eq!(
        aborted,
        [
            AbortedTransaction { producer_id: 1006, first_offset: Offset(4) },
            AbortedTransaction { producer_id: 1005, first_offset: Offset(14) },
        ]
    );
    assert_eq!(committed(&txn), [0, 1, 2, 3, 6, 7, 8, 11, 12]);
    let values = records(&txn);
    assert_eq!(values[&5].0, Some(b"b1".to_vec()));
    assert_eq!(values[&12].0, Some(b"c1".to_vec()));
    let mut producers: Vec<i64> = txn.producers().iter().map(|(id, _)| *id).collect();
    producers.sort_unstable();
    assert_eq!(producers, [1000, 1005, 1006]);
}

fn check_recovered(manager: &LogManager, path: &Path) {
    for topic in ["old0", "old1", "old1gz", "old2"] {
        check_rule(manager, topic, 0, 8, 40, 3);
    }
    assert_eq!(log(manager, "plain").offsets().log_end, Offset(68));
    let len = std::fs::metadata(path.join("plain-0/00000000000000000062.log")).unwrap().len();
    assert_eq!(len, 1149);
    let found = records(&log(manager, "plain"));
    assert_eq!(found.len(), 68);
    assert_eq!(found[&59].1, Some(ruled(59, 150)));
    assert_eq!(found[&67].0.as_deref().map(|key| key[0]), Some(b'u'));
    assert_eq!(log(manager, "ret").offsets().log_end, Offset(45));
    let ret = log(manager, "ret");
    let active = ret.view.load().active().unwrap().clone();
    active.check_indexes().unwrap();
    assert!(active.offsets.in_memory() || path.join("ret-0/00000000000000000040.index").exists());
    let txn = log(manager, "txn");
    assert_eq!(txn.offsets().log_end, Offset(24));
    txn.set_high_watermark(Offset(24));
    assert_eq!(txn.offsets().last_stable, Offset(17));
    let open: Vec<_> = txn.producers().into_iter().filter(|(_, state)| state.txn_first_offset.is_some()).collect();
    assert_eq!(open.len(), 1);
    assert_eq!((open[0].0, open[0].1.txn_first_offset), (2000, Some(Offset(17))));
    assert_eq!(committed(&txn), [0, 1, 2, 3, 6, 7, 8, 11, 12]);
    assert_eq!(log(manager, "comp").offsets().log_end, Offset(77));
}

#[test]
fn the_killed_directory_is_recovered_as_kafka_recovers_it() {
    let recorded = Recorded::unpack("data-dir-3.9.1-unclean");
    let manager = recorded.load();
    check_recovered(&manager, &recorded.path);
    manager.close();
    drop(manager);
    let manager = recorded.load();
    assert!(manager.dirs[0].kept.lock().was_clean);
    check_recovered(&manager, &recorded.path);
}
