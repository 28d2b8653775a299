//! The cleaner against a model: whatever is sent and whenever it is cleaned, the last record of each key is where it was.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::filter::{Buffers, Rules, filter};
use super::offset_map::OffsetMap;
use super::transactions::Transactions;
use crate::clock::ManualClock;
use crate::config::{BrokerConfig, CleanerConfig};
use crate::sim::disk::SimDisk;
use crate::storage::append::control_marker;
use crate::storage::entry::{Entry, Parsed};
use crate::storage::log::{AppendParams, Log, Origin};
use crate::storage::manager::{CleanOutcome, LogManager};
use crate::storage::testing::{Row, Stored, World, batches, client, keyed, marker, records_in};
use crate::types::{Offset, TopicPartition};
use crate::wire::batch::BatchOptions;
use crate::wire::compression::Codec;
use crate::wire::legacy::{MessageSetBuilder, SetOptions};

const DELETE_RETENTION_MS: i64 = 1000;

/// A log of a compacted topic, and all that was ever sent to it.
struct Run {
    disk: SimDisk,
    world: World,
    manager: LogManager,
    log: Arc<Log>,
    slots: i64,
    sent: BTreeMap<Offset, (Stored, Fate)>,
    /// Last sequence by producer, and the epoch.
    producers: BTreeMap<i64, i32>,
    /// Tombstones that were cleaned over, and when first.
    cleaned_ms: BTreeMap<Offset, i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Committed,
    Aborted,
    /// In the open transaction of a producer.
    Open(i64),
}

#[derive(Clone, Debug)]
enum Op {
    /// By a producer without transactions; 0 has no id.
    Send {
        producer: i64,
        codec: usize,
        rows: Vec<(u8, bool)>,
    },
    /// By one with.
    Transact {
        producer: i64,
        codec: usize,
        rows: Vec<(u8, bool)>,
    },
    End {
        producer: i64,
        commit: bool,
    },
    Clean,
    Wait(i64),
    Stop,
    Kill,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let rows = || proptest::collection::vec((0u8..6, proptest::bool::weighted(0.8)), 1..5);
    let op = prop_oneof![
        6 => (0i64..3, 0usize..5, rows()).prop_map(|(producer, codec, rows)| Op::Send { producer, codec, rows }),
        3 => (11i64..13, 0usize..5, rows()).prop_map(|(producer, codec, rows)| Op::Transact { producer, codec, rows }),
        3 => (11i64..13, any::<bool>()).prop_map(|(producer, commit)| Op::End { producer, commit }),
        3 => Just(Op::Clean),
        1 => (1i64..1500).prop_map(Op::Wait),
        1 => Just(Op::Stop),
        1 => Just(Op::Kill),
    ];
    proptest::collection::vec(op, 1..60)
}

fn world(disk: &SimDisk, clock: Arc<ManualClock>) -> World {
    let mut world = World::new(Arc::new(disk.clone()), "/logs", clock);
    world.topic.cleanup_compact = true;
    world.topic.cleanup_delete = false;
    world.topic.segment_bytes = 600;
    world.topic.index_interval_bytes = 100;
    world.topic.min_cleanable_dirty_ratio = 0.0;
    world.topic.delete_retention_ms = DELETE_RETENTION_MS;
    world
}

fn start(world: &World, slots: i64) -> (LogManager, Arc<Log>) {
    let manager = world.start().unwrap();
    let cleaner = CleanerConfig { dedupe_buffer_bytes: slots * 24, io_buffer_bytes: 200, ..CleanerConfig::default() };
    manager.set_config(Arc::new(BrokerConfig { cleaner, ..world.config() }));
    let log = world.log(&manager, "t").unwrap();
    log.set_high_watermark(log.log_end());
    (manager, log)
}

fn entry(bytes: &[u8]) -> Entry {
    match Entry::parse(bytes) {
        Parsed::Entry(entry) => entry,
        other => panic!("{other:?}"),
    }
}

fn is_control(bytes: &[u8]) -> bool {
    entry(bytes).batch.is_some_and(|batch| batch.is_control())
}

/// Records that a consumer with read_committed is shown, below the last stable offset.
fn committed(log: &Log) -> Vec<Stored> {
    let stable = log.offsets().last_stable;
    let (mut at, mut found) = (log.log_start(), Vec::new());
    while at < stable {
        let read = log.read(at, stable, 300, true).unwrap();
        let Some(slice) = read.slice.clone() else { break };
        let mut aborted = log.aborted_transactions(at, &read).unwrap();
        let mut bytes = vec![0; slice.len];
        slice.file.read_exact_at(&mut bytes, slice.position).unwrap();
        let mut skipped = BTreeSet::new();
        for (position, entry) in crate::storage::entry::entries(&bytes) {
            let whole = &bytes[position..position + entry.size as usize];
            aborted.retain(|txn| {
                let begun = txn.first_offset <= entry.last_offset;
                if begun {
                    skipped.insert(txn.producer_id);
                }
                !begun
            });
            let batch = entry.batch.unwrap();
            if batch.is_control() {
                if control_marker(&batch, whole).is_some_and(|marker| !marker.commit) {
                    skipped.remove(&batch.producer_id);
                }
            } else if !(batch.is_transactional() && skipped.contains(&batch.producer_id)) {
                found.extend(records_in(whole).into_iter().filter(|stored| stored.offset >= at));
            }
            at = entry.last_offset + 1;
        }
    }
    found
}

impl Run {
    fn begin(slots: i64) -> Run {
        let clock = Arc::new(ManualClock::at(1_000_000));
        let disk = SimDisk::new(clock.clone());
        let world = world(&disk, clock);
        let (manager, log) = start(&world, slots);
        let (sent, producers, cleaned_ms) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Run { disk, world, manager, log, slots, sent, producers, cleaned_ms }
    }

    fn now_ms(&self) -> i64 {
        self.manager.wall_ms()
    }

    fn send(&mut self, producer: i64, codec: usize, rows: &[(u8, bool)], transactional: bool) {
        let end = self.log.log_end();
        let row = |(at, (key, alive)): (i64, &(u8, bool))| -> Row {
            (format!("key {key}"), alive.then(|| format!("value {}", end + at)))
        };
        let rows: Vec<Row> = (0..).zip(rows).map(row).collect();
        let mut options = BatchOptions { codec: Codec::ALL[codec], transactional, ..BatchOptions::default() };
        if producer > 0 {
            let last = self.producers.entry(producer).or_insert(-1);
            options = BatchOptions { producer_id: producer, producer_epoch: 0, base_sequence: *last + 1, ..options };
            *last += rows.len() as i32;
        }
        let mut bytes = keyed(&rows, self.now_ms(), options);
        self.log.append_as_leader(&mut bytes, client(0, self.now_ms())).unwrap();
        let fate = if transactional { Fate::Open(producer) } else { Fate::Committed };
        for mut stored in records_in(&bytes) {
            stored.offset = end + (stored.offset - records_in(&bytes)[0].offset);
            self.sent.insert(stored.offset, (stored, fate));
        }
        self.log.set_high_watermark(self.log.log_end());
    }

    fn end(&mut self, producer: i64, commit: bool) {
        if !self.producers.contains_key(&producer) {
            return;
        }
        let by = AppendParams { origin: Origin::Coordinator, ..client(0, self.now_ms()) };
        self.log.append_as_leader(&mut marker(producer, 0, commit, 1), by).unwrap();
        for (_, fate) in self.sent.values_mut().filter(|(_, fate)| *fate == Fate::Open(producer)) {
            *fate = if commit { Fate::Committed } else { Fate::Aborted };
        }
        self.log.set_high_watermark(self.log.log_end());
    }

    /// Below it every key is there once.
    fn cleaned_to(&self) -> Offset {
        self.log.log_dir().checkpoints().cleaned.get(self.log.topic_partition()).unwrap_or(Offset::ZERO)
    }

    fn clean(&mut self) -> CleanOutcome {
        let outcome = self.manager.clean_dirtiest();
        let (to, now_ms) = (self.cleaned_to(), self.now_ms());
        for (offset, (stored, _)) in self.sent.range(..to) {
            if stored.value.is_none() {
                self.cleaned_ms.entry(*offset).or_insert(now_ms);
            }
        }
        outcome
    }

    fn start_again(&mut self) {
        let clock = self.world.clock.clone();
        self.disk = self.disk.fork();
        self.world = world(&self.disk, clock);
        (self.manager, self.log) = start(&self.world, self.slots);
    }

    fn play(&mut self, op: &Op) {
        match op {
            Op::Send { producer, codec, rows } => self.send(*producer, *codec, rows, false),
            Op::Transact { producer, codec, rows } => self.send(*producer, *codec, rows, true),
            Op::End { producer, commit } => self.end(*producer, *commit),
            Op::Wait(ms) => self.world.clock.advance(*ms),
            Op::Clean => {
                self.clean();
                self.check();
            }
            Op::Stop => {
                self.manager.close();
                self.start_again();
                self.check();
            }
            Op::Kill => {
                self.start_again();
                self.check();
            }
        }
    }

    fn check(&self) {
        let whole = batches(&self.log);
        let found: Vec<Stored> =
            whole.iter().filter(|(_, bytes)| !is_control(bytes)).flat_map(|(_, bytes)| records_in(bytes)).collect();
        assert!(found.windows(2).all(|pair| pair[0].offset < pair[1].offset), "order");
        for stored in &found {
            assert_eq!(self.sent.get(&stored.offset).map(|(sent, _)| sent), Some(stored), "as it was sent");
        }
        let there: BTreeSet<Offset> = found.iter().map(|stored| stored.offset).collect();
        let to = self.cleaned_to();
        let mut last_clean: BTreeMap<_, &Stored> = BTreeMap::new();
        for (offset, (stored, fate)) in &self.sent {
            match fate {
                Fate::Committed if *offset < to => drop(last_clean.insert(&stored.key, stored)),
                Fate::Aborted => assert!(*offset >= to || !there.contains(offset), "{offset} was aborted"),
                _ => assert!(there.contains(offset), "{offset} is gone, and not cleaned: {to}"),
            }
        }
        for stored in last_clean.values() {
            let offset = stored.offset;
            let over = |since| self.now_ms() >= since + DELETE_RETENTION_MS;
            let may_go = stored.value.is_none() && self.cleaned_ms.get(&offset).is_some_and(|since| over(*since));
            assert!(may_go || there.contains(&offset), "{offset} was the last of its key below {to}");
        }
        let clean: Vec<_> = found.iter().filter(|stored| stored.offset < to).map(|stored| &stored.key).collect();
        let once: BTreeSet<_> = clean.iter().collect();
        assert_eq!(clean.len(), once.len(), "a key is there twice below {to}");

        let shown: Vec<Offset> = committed(&self.log).iter().map(|stored| stored.offset).collect();
        let stable = self.log.offsets().last_stable;
        let is_committed = |offset: &Offset| self.sent[offset].1 == Fate::Committed && *offset < stable;
        let expected: Vec<Offset> = there.iter().copied().filter(is_committed).collect();
        assert_eq!(shown, expected, "what read_committed shows");

        for (id, sequence) in &self.producers {
            let known = self.log.producers().into_iter().find(|(known, _)| known == id);
            assert_eq!(known.map(|(_, state)| state.last_sequence()), Some(*sequence), "producer {id}");
        }
        for offset in 0..self.log.log_end().0 {
            let read = self.log.read(Offset(offset), self.log.log_end(), 1, true).unwrap().slice;
            let expected = whole.iter().find(|(_, bytes)| entry(bytes).last_offset >= Offset(offset));
            assert_eq!(read.map(|slice| slice.len), expected.map(|(_, bytes)| bytes.len()), "at {offset}");
        }
    }

    /// A follower of this log ends up with the same bytes.
    fn check_follower(&self) {
        let follower = self.world.log(&self.manager, "u").unwrap();
        for (_, bytes) in batches(&self.log) {
            follower.append_as_follower(&bytes, self.now_ms()).unwrap();
        }
        assert_eq!(batches(&follower), batches(&self.log));
        assert_eq!(follower.log_end(), self.log.log_end());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_last_record_of_each_key_stays_where_it_is(ops in ops(), slots in 3i64..40) {
        let mut run = Run::begin(slots);
        ops.iter().for_each(|op| run.play(op));
        // As long as something is dirty, a map of any size comes to its end.
        for _ in 0..200 {
            if run.clean() == CleanOutcome::NothingToDo {
                break;
            }
        }
        prop_assert_eq!(run.clean(), CleanOutcome::NothingToDo);
        run.check();
        run.check_follower();
    }
}

/// Sends single records until the segment they are in is sealed.
fn seal(run: &mut Run) {
    let sealed = run.log.log_end();
    while run.log.view.load().active().unwrap().base() < sealed {
        run.send(0, 0, &[(200, true)], false);
    }
}

fn offsets(run: &Run) -> Vec<i64> {
    let whole = batches(&run.log);
    whole.iter().flat_map(|(_, bytes)| records_in(bytes)).map(|stored| stored.offset.0).collect()
}

#[test]
fn a_tombstone_is_there_for_as_long_as_its_horizon_says_and_no_longer() {
    let mut run = Run::begin(1000);
    run.send(0, 0, &[(1, true)], false);
    run.send(0, 2, &[(1, false), (2, true)], false);
    seal(&mut run);
    assert_eq!(run.clean(), CleanOutcome::Cleaned);
    assert_eq!(offsets(&run)[..2], [1, 2]);
    let horizon = |run: &Run| {
        let whole = batches(&run.log);
        let batch = entry(&whole[0].1).batch.unwrap();
        (batch.has_delete_horizon(), batch.base_timestamp, batch.base_offset.0, batch.last_offset_delta)
    };
    assert_eq!(horizon(&run), (true, 1_000_000 + DELETE_RETENTION_MS, 1, 1));
    run.check();
    // A later pass before the horizon leaves it and its horizon alone.
    run.world.clock.advance(DELETE_RETENTION_MS - 1);
    seal(&mut run);
    assert_eq!(run.clean(), CleanOutcome::Cleaned);
    assert_eq!(horizon(&run).1, 1_000_000 + DELETE_RETENTION_MS);
    assert_eq!(offsets(&run)[..2], [1, 2]);
    run.world.clock.advance(1);
    seal(&mut run);
    assert_eq!(run.clean(), CleanOutcome::Cleaned);
    assert_eq!(offsets(&run)[0], 2);
    run.check();
}

/// Appends records of these keys and values.
type Append<'a> = &'a mut dyn FnMut(&mut Run, &[(&str, Option<&str>)]);

#[test]
fn messages_of_old_formats_are_compacted() {
    for (magic, codec) in [(0, Codec::None), (1, Codec::None), (0, Codec::Gzip), (1, Codec::Gzip), (1, Codec::Snappy)] {
        let mut run = Run::begin(1000);
        let mut append = |run: &mut Run, rows: &[(&str, Option<&str>)]| {
            let first = run.log.log_end();
            let options = SetOptions { magic, codec, base_offset: first, log_append_time_ms: None };
            let mut set = MessageSetBuilder::append_to(Vec::new(), options).unwrap();
            for (at, (key, value)) in (0..).zip(rows) {
                set.append(first + at, 500 + at, Some(key.as_bytes()), value.map(str::as_bytes)).unwrap();
            }
            run.log.append_as_follower(&set.finish().unwrap(), 1_000_000).unwrap();
            run.log.set_high_watermark(run.log.log_end());
        };
        append(&mut run, &[("a", Some("1")), ("b", Some("2")), ("c", Some("3"))]);
        append(&mut run, &[("a", None), ("d", Some("4")), ("b", Some("5"))]);
        let fill = |run: &mut Run, append: Append<'_>| {
            let sealed = run.log.log_end();
            let long = "x".repeat(100);
            while run.log.view.load().active().unwrap().base() < sealed {
                append(run, &[("e", Some(&long))]);
            }
        };
        fill(&mut run, &mut append);
        assert_eq!(run.clean(), CleanOutcome::Cleaned, "{magic} {codec}");
        let found = |run: &Run| -> Vec<(i64, Option<Vec<u8>>)> {
            let whole = batches(&run.log);
            let all = whole.iter().flat_map(|(_, bytes)| records_in(bytes));
            all.filter(|stored| stored.key.as_deref() != Some(b"e")).map(|s| (s.offset.0, s.value)).collect()
        };
        let value = |text: &str| Some(text.as_bytes().to_vec());
        let expected = [(2, value("3")), (3, None), (4, value("4")), (5, value("5"))];
        assert_eq!(found(&run), expected, "{magic} {codec}");
        run.start_again();
        assert_eq!(found(&run), expected, "{magic} {codec}");
    }
}

#[test]
fn tombstones_of_old_formats_go_by_the_age_of_their_file() {
    for codec in [Codec::None, Codec::Lz4] {
        let options = SetOptions { magic: 1, codec, base_offset: Offset(7), log_append_time_ms: None };
        let mut set = MessageSetBuilder::append_to(Vec::new(), options).unwrap();
        set.append(Offset(7), 1, Some(b"a"), None).unwrap();
        let bytes = set.finish().unwrap();
        let mut map = OffsetMap::new(1000, 0.9, 10, (1, 2));
        map.put(b"a", Offset(7)).unwrap();
        map.set_latest(Offset(9));
        let left = |keep_old_tombstones, last| {
            let producers = HashMap::new();
            let rules = Rules {
                map: &map,
                now_ms: 5,
                delete_retention_ms: 5,
                keep_old_tombstones,
                producers: &producers,
                last,
            };
            let mut out = Vec::new();
            let (mut transactions, mut buffers) = (Transactions::default(), Buffers::default());
            filter(&bytes, &entry(&bytes), &rules, &mut transactions, &mut buffers, &mut out).unwrap();
            out
        };
        assert_eq!(left(true, Offset(9)), bytes);
        assert_eq!(left(false, Offset(9)), Vec::<u8>::new());
        // The last one of a segment leaves its offset.
        let end = entry(&left(false, Offset(7)));
        assert_eq!((end.magic, end.base_offset, end.last_offset), (2, Offset(7), Offset(7)));
        assert_eq!(end.batch.map(|batch| batch.record_count), Some(0));
    }
}

#[test]
fn damage_is_not_made_sound_and_costs_the_log_nothing_but_its_compaction() {
    for at in [70, 9] {
        let mut run = Run::begin(1000);
        run.send(0, 0, &[(1, true), (2, true)], false);
        run.send(0, 0, &[(1, true), (3, true)], false);
        seal(&mut run);
        let path = Path::new("/logs/t-0/00000000000000000000.log");
        let file = crate::storage::disk::Disk::open(&run.disk, path, crate::storage::disk::Open::ReadWrite).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
        let before: Vec<_> = run.disk.tree().into_iter().filter(|(path, _)| path.starts_with("/logs/t-0")).collect();
        assert_eq!(run.clean(), CleanOutcome::GivenUp);
        let after: Vec<_> = run.disk.tree().into_iter().filter(|(path, _)| path.starts_with("/logs/t-0")).collect();
        assert!(before == after && !run.manager.any_offline());
        assert_eq!(run.clean(), CleanOutcome::NothingToDo, "said once");
        run.send(0, 0, &[(1, true)], false);
    }
}

#[test]
fn a_log_of_another_topic_of_the_same_name_is_not_taken_for_clean() {
    let mut run = Run::begin(1000);
    run.send(0, 0, &[(1, true), (1, true)], false);
    seal(&mut run);
    assert_eq!(run.clean(), CleanOutcome::Cleaned);
    assert!(run.cleaned_to() > Offset::ZERO);
    run.manager.delete(&TopicPartition::new("t", 0)).unwrap();
    run.log = run.world.log(&run.manager, "t").unwrap();
    assert_eq!(run.cleaned_to(), Offset::ZERO);
}
