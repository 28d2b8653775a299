//! What a script did to a log, and what every disk after it must still hold.

use std::collections::{BTreeMap, BTreeSet};

use crate::storage::append::control_marker;
use crate::storage::entry::{Entry, Parsed};
use crate::storage::log::Log;
use crate::storage::testing::{Stored, batches, records_in};
use crate::types::{LeaderEpoch, Offset};

/// Whole batches in order, by base offset.
type Batches = Vec<(Offset, Vec<u8>)>;

/// The log as the script knows it.
#[derive(Clone, Default, Hash)]
pub struct Model {
    /// What was acknowledged, less what was to be cut.
    pub acknowledged: Batches,
    /// What was acknowledged when the last fsync that was reported done began, less what was to be cut since.
    flushed: Batches,
    /// What the log held before each cut, and with each batch whose write failed.
    branches: Vec<Batches>,
    /// No log start below this is right.
    least_start: Offset,
    /// Nor one above this.
    greatest_start: Offset,
    high_watermarks: Vec<Offset>,
    /// Records may have given way to later ones of their keys.
    compacted: bool,
    /// The leader's.
    pub epoch: i32,
    appended: i64,
}

fn entry(bytes: &[u8]) -> Entry {
    match Entry::parse(bytes) {
        Parsed::Entry(entry) => entry,
        other => panic!("{other:?}"),
    }
}

impl Model {
    /// A later batch has a later timestamp, so that each can be found by it.
    pub fn next_timestamp(&mut self) -> i64 {
        self.appended += 1;
        1000 + self.appended
    }

    pub fn sees(&mut self, log: &Log) {
        self.high_watermarks.push(log.offsets().high_watermark);
    }

    pub fn is_appended(&mut self, at: Offset, bytes: Vec<u8>, result: Result<(), String>) -> Result<(), String> {
        match result {
            Ok(()) => self.acknowledged.push((at, bytes)),
            Err(_) => {
                self.branches.push(self.acknowledged.clone());
                self.branches.extend(self.branches.last().cloned().map(|mut branch| {
                    branch.push((at, bytes));
                    branch
                }));
            }
        }
        result
    }

    pub fn is_flushed(&mut self) {
        self.flushed.clone_from(&self.acknowledged);
    }

    pub fn is_compacted(&mut self) {
        self.compacted = true;
    }

    pub fn replicated_to(&mut self, high_watermark: Offset) {
        self.high_watermarks.push(high_watermark);
    }

    /// From here on either outcome is right.
    pub fn will_be_cut(&mut self, to: Offset) {
        self.branches.push(self.acknowledged.clone());
        for batches in [&mut self.acknowledged, &mut self.flushed] {
            batches.retain(|(_, bytes)| entry(bytes).last_offset < to);
        }
        // The checkpoint is lowered first.
        self.high_watermarks.extend(self.acknowledged.last().map(|(_, bytes)| entry(bytes).last_offset + 1));
    }

    pub fn will_restart(&mut self, at: Offset) {
        self.is_forgotten();
        self.least_start = self.least_start.min(at);
        self.may_start_at(at);
        self.high_watermarks.push(at);
    }

    /// The partition is deleted.
    pub fn is_forgotten(&mut self) {
        self.branches.push(std::mem::take(&mut self.acknowledged));
        self.flushed.clear();
        self.least_start = Offset::ZERO;
    }

    pub fn may_start_at(&mut self, start: Offset) {
        self.greatest_start = self.greatest_start.max(start);
    }

    pub fn is_checkpointed(&mut self, log: &Log) {
        self.least_start = log.offsets().log_start;
    }

    /// The process died, the machine did not: what was acknowledged counts.
    pub fn killed(&self) -> Model {
        let mut model = self.clone();
        model.is_flushed();
        model
    }

    /// The log was recovered: what is in it now is what there is.
    pub fn goes_on_with(&self, log: &Log) -> Model {
        let mut model = self.clone();
        model.acknowledged = batches(log);
        model.flushed = model.acknowledged.clone();
        model.branches.clear();
        model.may_start_at(log.offsets().log_start);
        model
    }

    /// The log must hold a beginning of what was appended, all that was flushed, and nothing that contradicts it.
    pub fn check(&self, log: &Log, what: &str) {
        let found = batches(log);
        let offsets = log.offsets();
        let start = offsets.log_start;
        assert!(
            self.least_start <= start && start <= self.greatest_start,
            "{what}: log start {start}, not in {}..={}",
            self.least_start,
            self.greatest_start
        );
        assert!(start <= offsets.last_stable && offsets.last_stable <= offsets.high_watermark, "{what}: {offsets:?}");
        assert!(offsets.high_watermark <= offsets.log_end, "{what}: {offsets:?}");
        assert!(log.recovery_point() <= offsets.log_end, "{what}: recovery point {}", log.recovery_point());
        let high_watermark = offsets.high_watermark;
        assert!(
            high_watermark == start
                || high_watermark == offsets.log_end
                || self.high_watermarks.contains(&high_watermark),
            "{what}: high watermark {high_watermark} was never one"
        );
        if self.compacted {
            self.check_selection(&found, offsets.log_end, what);
            for (base, bytes) in &found {
                assert_eq!(log.epoch_for_offset(*base), entry(bytes).leader_epoch, "{what}: epoch at {base}");
            }
        } else {
            self.check_batches(&found, start, offsets.log_end, what);
            check_epochs(log, &found, what);
        }
        check_producers(log, &found, self.compacted, what);
        check_lookups(log, &found, what);
    }

    /// In order, nothing that was not appended, of each key the last record, and all that reaches beyond what was flushed.
    fn check_selection(&self, found: &Batches, end: Offset, what: &str) {
        let mut next = Offset::ZERO;
        for (base, bytes) in found {
            assert!(*base >= next, "{what}: {base} where {next} was due");
            next = entry(bytes).last_offset + 1;
        }
        let least = self.flushed.last().map_or(Offset::ZERO, |(_, bytes)| entry(bytes).last_offset + 1);
        assert!(end >= least, "{what}: flushed up to {least}, and the log ends at {end}");
        let there = found.iter().flat_map(|(_, bytes)| data(bytes)).collect::<BTreeSet<_>>();
        let is_selection = |whole: &&Batches| {
            let whole: Vec<_> = whole.iter().filter(|(_, bytes)| entry(bytes).last_offset < end).cloned().collect();
            let all: BTreeSet<_> = whole.iter().flat_map(|(_, bytes)| data(bytes)).collect();
            let mut last = BTreeMap::new();
            for stored in visible(&whole) {
                last.insert(stored.key.clone(), stored);
            }
            there.is_subset(&all) && last.into_values().all(|stored| there.contains(&stored))
        };
        let known = self.branches.iter().chain([&self.acknowledged]).find(is_selection);
        assert!(known.is_some(), "{what}: {} are no selection of what was appended", shown(found));
    }

    fn check_batches(&self, found: &Batches, start: Offset, end: Offset, what: &str) {
        let mut next = start;
        for (base, bytes) in found {
            let batch = entry(bytes);
            assert!(*base == next || *base < start && *base <= next, "{what}: {base} where {next} was due");
            next = batch.last_offset + 1;
        }
        assert_eq!(next, end, "{what}: log end");
        let begins = |whole: &&Batches| {
            let from = whole.partition_point(|(_, bytes)| entry(bytes).last_offset < start);
            whole[from..].starts_with(found)
        };
        let known = self.branches.iter().chain([&self.acknowledged]).find(begins);
        assert!(known.is_some(), "{what}: {} are no beginning of what was appended", shown(found));
        for (base, bytes) in self.flushed.iter().filter(|(_, bytes)| entry(bytes).last_offset >= start) {
            let there = found.iter().any(|(at, found)| at == base && found == bytes);
            assert!(there, "{what}: the flushed batch at {base} is gone, {} are left", shown(found));
        }
    }
}

/// Records that are no marker.
fn data(bytes: &[u8]) -> Vec<Stored> {
    if entry(bytes).batch.is_some_and(|batch| batch.is_control()) { Vec::new() } else { records_in(bytes) }
}

/// The records of `whole` that are not in an aborted transaction.
fn visible(whole: &Batches) -> Vec<Stored> {
    let (mut kept, mut open) = (Vec::new(), Vec::new());
    for (_, bytes) in whole {
        let Some(batch) = entry(bytes).batch else { continue };
        match control_marker(&batch, bytes) {
            Some(marker) if marker.commit => kept.append(&mut open),
            Some(_) => open.clear(),
            None if batch.is_transactional() => open.extend(data(bytes)),
            None => kept.extend(data(bytes)),
        }
    }
    kept.append(&mut open);
    kept.sort_by_key(|stored| stored.offset);
    kept
}

fn shown(found: &Batches) -> String {
    let each = found.iter().map(|(base, bytes)| format!("{base}/{}", entry(bytes).leader_epoch));
    format!("[{}]", each.collect::<Vec<_>>().join(" "))
}

/// Every epoch that has records, where the first of them is.
fn check_epochs(log: &Log, found: &Batches, what: &str) {
    let mut expected: Vec<(LeaderEpoch, Offset)> = Vec::new();
    for (base, bytes) in found {
        let epoch = entry(bytes).leader_epoch;
        if expected.last().is_none_or(|(last, _)| *last != epoch) {
            expected.push((epoch, (*base).max(log.offsets().log_start)));
        }
    }
    let cache = log.epochs.read();
    let with_records: Vec<_> =
        cache.entries().iter().copied().filter(|(_, start)| *start < log.offsets().log_end).collect();
    assert_eq!(with_records, expected, "{what}: epochs");
}

/// Each producer stands where its last batch left it, and what is aborted is known as such.
fn check_producers(log: &Log, found: &Batches, compacted: bool, what: &str) {
    let producers: BTreeMap<_, _> = log.producers().into_iter().collect();
    let (mut last, mut open, mut aborted) = (BTreeMap::new(), None, Vec::new());
    for (base, bytes) in found {
        let batch = entry(bytes).batch.expect("magic 2");
        if batch.is_control() {
            let commits = control_marker(&batch, bytes).is_some_and(|marker| marker.commit);
            aborted.extend(open.take().filter(|_| !commits));
        } else if batch.has_producer() {
            last.insert(batch.producer_id, batch.base_sequence + batch.last_offset_delta);
            if batch.is_transactional() {
                open.get_or_insert(*base);
            }
        }
    }
    for (id, sequence) in last {
        let known = producers.get(&id).map(|state| state.last_sequence());
        assert_eq!(known, Some(sequence), "{what}: last sequence of producer {id}");
    }
    let offsets = log.offsets();
    if let Some(first) = open {
        assert!(offsets.last_stable <= first.max(offsets.log_start), "{what}: {offsets:?}, open since {first}");
    }
    for first in aborted.into_iter().filter(|first| *first >= offsets.log_start) {
        let read = log.read(first, offsets.log_end, 1 << 20, true).expect("readable");
        let listed = log.aborted_transactions(first, &read).expect("readable");
        // Compaction may have taken its first batches.
        let is_it = |begins: Offset| begins == first || compacted && begins <= first;
        assert!(listed.iter().any(|txn| is_it(txn.first_offset)), "{what}: {listed:?} lacks the abort from {first}");
    }
}

/// Every offset and every timestamp is found where it is.
pub fn check_lookups(log: &Log, found: &Batches, what: &str) {
    let (start, end) = (log.offsets().log_start, log.offsets().log_end);
    for (base, bytes) in found {
        let batch = entry(bytes);
        for offset in base.0.max(start.0)..=batch.last_offset.0 {
            let read = log.read(Offset(offset), end, 1, true).expect("readable");
            let slice = read.slice.unwrap_or_else(|| panic!("{what}: nothing at {offset}"));
            let mut there = vec![0; slice.len];
            slice.file.read_exact_at(&mut there, slice.position).expect("readable");
            assert_eq!(&there, bytes, "{what}: read at {offset}");
        }
        if batch.batch.is_some_and(|batch| batch.is_control()) {
            continue;
        }
        // Of one time and whole, where nothing was compacted: then it may as well be damaged.
        let first = match batch.batch.filter(|batch| batch.base_timestamp == batch.max_timestamp) {
            Some(batch) => Some((batch.max_timestamp, (*base).max(start))),
            None => {
                let first = records_in(bytes).into_iter().find(|stored| stored.offset >= start);
                first.map(|stored| (stored.timestamp_ms, stored.offset))
            }
        };
        if let Some((timestamp_ms, offset)) = first {
            let by_time = log.offset_for_timestamp(timestamp_ms, end).expect("readable");
            let by_time = by_time.map(|found| found.offset);
            assert_eq!(by_time, Some(offset), "{what}: by timestamp {timestamp_ms}");
        }
    }
}
