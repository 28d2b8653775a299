use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::*;
use crate::clock::ManualClock;
use crate::random::SeededRandom;
use crate::sim::disk::{Keep, SimDisk};
use crate::storage::disk::{Disk, Open};
use crate::storage::log::{AppendError, Origin};
use crate::storage::manager::LogManager;
use crate::storage::testing::{Sender, World, batch_of, batches, client, marker};
use crate::types::LeaderEpoch;

/// What a script did and what must survive.
#[derive(Default)]
struct Model {
    /// Everything ever written at an offset.
    written: BTreeMap<Offset, Vec<Vec<u8>>>,
    now: BTreeMap<Offset, Vec<u8>>,
    /// As of the last fsync that was reported done, less what was cut since.
    flushed: BTreeMap<Offset, Vec<u8>>,
    appended: i64,
}

fn world(disk: &SimDisk) -> World {
    let mut world = World::new(Arc::new(disk.clone()), "/logs", Arc::new(ManualClock::at(1_000_000)));
    world.topic.segment_bytes = 500;
    world.topic.index_interval_bytes = 100;
    world.topic.retention_bytes = 1600;
    world
}

impl Model {
    fn append(&mut self, log: &Log, epoch: i32, sender: Option<Sender>) -> Result<(), AppendError> {
        self.appended += 1;
        let mut bytes = batch_of(2, 1000 + self.appended, 20, sender);
        let info = log.append_as_leader(&mut bytes, client(epoch, 1_000_000))?;
        self.note(info.first_offset, bytes);
        Ok(())
    }

    fn note(&mut self, at: Offset, bytes: Vec<u8>) {
        self.written.entry(at).or_default().push(bytes.clone());
        self.now.insert(at, bytes);
    }

    fn flush(&mut self, log: &Log) -> io::Result<()> {
        log.flush()?;
        self.flushed = self.now.clone();
        Ok(())
    }

    fn truncate(&mut self, log: &Log, to: Offset) -> io::Result<()> {
        // From here on either outcome is right.
        self.flushed.split_off(&to);
        log.truncate_to(to)?;
        self.now.split_off(&to);
        Ok(())
    }

    /// Rolls, flushes, cuts, an aborted transaction, DeleteRecords, retention, checkpoints.
    fn script(&mut self, manager: &LogManager, world: &World) -> Result<(), String> {
        let text = |e: &dyn std::fmt::Display| e.to_string();
        let log = world.log(manager, "t").map_err(|e| text(&e))?;
        for n in 0..6 {
            self.append(&log, 0, None).map_err(|e| text(&e))?;
            if n == 3 {
                self.flush(&log).map_err(|e| text(&e))?;
            }
        }
        let open = Sender { id: 9, epoch: 0, sequence: 0, transactional: true };
        self.append(&log, 1, Some(open)).map_err(|e| text(&e))?;
        self.append(&log, 1, None).map_err(|e| text(&e))?;
        let mut end = marker(9, 0, false, 1);
        let by = super::super::log::AppendParams { origin: Origin::Coordinator, ..client(1, 1_000_000) };
        let info = log.append_as_leader(&mut end, by).map_err(|e| text(&e))?;
        self.note(info.first_offset, end);
        self.flush(&log).map_err(|e| text(&e))?;
        for _ in 0..4 {
            self.append(&log, 1, None).map_err(|e| text(&e))?;
        }
        self.truncate(&log, log.log_end() + -4).map_err(|e| text(&e))?;
        for _ in 0..6 {
            self.append(&log, 2, None).map_err(|e| text(&e))?;
        }
        self.flush(&log).map_err(|e| text(&e))?;
        log.set_high_watermark(log.log_end());
        log.raise_log_start(Offset(3));
        world.clock.advance(400_000);
        manager.run_due_tasks();
        for _ in 0..3 {
            self.append(&log, 2, None).map_err(|e| text(&e))?;
        }
        world.clock.advance(400_000);
        manager.run_due_tasks();
        Ok(())
    }

    fn check(&self, log: &Log, what: &str) {
        let found = batches(log);
        let offsets = log.offsets();
        let mut next = offsets.log_start;
        for (base, bytes) in &found {
            assert!(*base <= next, "{what}: a gap before {base}");
            let known = self.written.get(base).unwrap_or_else(|| panic!("{what}: nothing was written at {base}"));
            assert!(known.contains(bytes), "{what}: other bytes at {base} than were written");
            let header = Entry::parse(bytes);
            let Parsed::Entry(entry) = header else { panic!("{what}: no batch at {base}") };
            let epoch = log.epoch_for_offset(entry.base_offset.max(offsets.log_start));
            assert_eq!(epoch, entry.leader_epoch, "{what}: epoch cache at {base}");
            next = entry.last_offset + 1;
        }
        assert_eq!(next, offsets.log_end, "{what}: log end");
        for (base, bytes) in self.flushed.iter().filter(|(base, _)| **base >= offsets.log_start) {
            let there = found.iter().any(|(at, found)| at == base && found == bytes);
            assert!(there, "{what}: the flushed batch at {base} is gone, log end {}", offsets.log_end);
        }
    }
}

fn crash_everywhere(keep: impl Fn(&SimDisk, u64)) {
    let mut points = 0;
    for point in 0.. {
        let disk = SimDisk::new(Arc::new(ManualClock::at(1_000_000)));
        let world = world(&disk);
        let mut model = Model::default();
        disk.lose_power_after(point);
        let done = match world.start() {
            Ok(manager) => model.script(&manager, &world).is_ok(),
            Err(_) => false,
        };
        keep(&disk, point);
        let what = format!("power lost at change {point}");
        let manager = world.start().unwrap_or_else(|e| panic!("{what}: {e}"));
        let log = world.log(&manager, "t").unwrap();
        model.check(&log, &what);
        model.now = batches(&log).into_iter().collect();
        model.append(&log, 3, None).unwrap();
        model.flush(&log).unwrap();
        manager.close();
        drop((manager, log));
        let manager = world.start().unwrap();
        model.check(&world.log(&manager, "t").unwrap(), &format!("{what}, then an orderly stop"));
        points = point;
        if done {
            break;
        }
    }
    assert!(points > 100, "the script makes only {points} changes");
}

#[test]
fn nothing_flushed_is_lost_wherever_the_power_fails() {
    crash_everywhere(|disk, _| disk.crash(Keep::Nothing));
}

#[test]
fn nothing_flushed_is_lost_when_some_of_the_rest_survives() {
    for seed in 0..4 {
        crash_everywhere(|disk, point| disk.crash(Keep::Prefix(&SeededRandom::new(seed * 10_000 + point))));
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_dies() {
    let disk = SimDisk::new(Arc::new(ManualClock::at(1_000_000)));
    let world = world(&disk);
    let mut model = Model::default();
    let manager = world.start().unwrap();
    model.script(&manager, &world).unwrap();
    disk.crash(Keep::Everything);
    let manager = world.start().unwrap();
    model.flushed = model.now.clone();
    let log = world.log(&manager, "t").unwrap();
    model.check(&log, "killed");
    assert_eq!(log.latest_epoch(), Some(LeaderEpoch(2)));
}

/// Twelve batches of two records by producer 5 in segments 0, 8 and 16; epoch 1 from offset 12 on.
fn twelve_batches(disk: &SimDisk) -> (World, Model) {
    let mut world = world(disk);
    world.topic.retention_bytes = -1;
    let mut model = Model::default();
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    for n in 0..12 {
        let sender = Sender { id: 5, epoch: 0, sequence: 2 * n, transactional: false };
        model.append(&log, i32::from(n >= 6), Some(sender)).unwrap();
    }
    log.set_high_watermark(Offset(24));
    (world, model)
}

struct Files<'a>(&'a SimDisk);

impl Files<'_> {
    fn path(name: &str) -> PathBuf {
        match name.contains("checkpoint") && !name.contains("epoch") {
            true => Path::new("/logs").join(name),
            false => Path::new("/logs/t-0").join(name),
        }
    }
    fn bytes(&self, name: &str) -> Vec<u8> {
        atomic_file::read(self.0, &Files::path(name)).unwrap()
    }
    fn write(&self, name: &str, bytes: &[u8]) {
        let file = self.0.open(&Files::path(name), Open::Create).unwrap();
        file.set_len(0).unwrap();
        file.write_all_at(bytes, 0).unwrap();
    }
    fn cut(&self, name: &str, bytes: usize) {
        let old = self.bytes(name);
        self.write(name, &old[..old.len() - bytes]);
    }
    fn flip(&self, name: &str, at_end: usize) {
        let mut bytes = self.bytes(name);
        let at = bytes.len() - at_end;
        bytes[at] ^= 0x40;
        self.write(name, &bytes);
    }
    fn add(&self, name: &str, more: &[u8]) {
        let mut bytes = self.bytes(name);
        bytes.extend(more);
        self.write(name, &bytes);
    }
    fn remove(&self, name: &str) {
        self.0.remove_file(&Files::path(name)).unwrap();
    }
}

const LAST: &str = "00000000000000000016.log";

/// Damage done to a log of 24 records, and where the log ends after the next start.
#[allow(clippy::type_complexity)]
fn damages() -> Vec<(&'static str, i64, fn(&Files<'_>))> {
    vec![
        ("nothing", 24, |_| {}),
        ("torn last batch", 22, |files| files.cut(LAST, 7)),
        ("half a header", 22, |files| {
            let size = files.bytes(LAST).len() / 4;
            files.cut(LAST, size - 20);
        }),
        ("bad crc in the last batch", 22, |files| files.flip(LAST, 3)),
        ("zeros after the last batch", 24, |files| files.add(LAST, &[0; 4096])),
        ("half a batch after the last", 24, |files| {
            let half = files.bytes(LAST)[..80].to_vec();
            files.add(LAST, &half);
        }),
        ("the last batch twice", 24, |files| {
            let bytes = files.bytes(LAST);
            files.add(LAST, &bytes[bytes.len() * 3 / 4..]);
        }),
        ("a huge size", 24, |files| {
            let mut head = files.bytes(LAST)[..61].to_vec();
            head[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
            files.add(LAST, &head);
        }),
        ("bad crc in a sealed segment", 14, |files| files.flip("00000000000000000008.log", 3)),
        ("a sealed segment ends early", 14, |files| {
            let size = files.bytes("00000000000000000008.log").len() / 4;
            files.cut("00000000000000000008.log", size);
        }),
        ("the last segment is empty", 16, |files| files.write(LAST, &[])),
        ("sealed index missing", 24, |files| files.remove("00000000000000000000.index")),
        ("sealed index of zeros", 24, |files| files.write("00000000000000000000.index", &[0; 64])),
        ("sealed index of 5 bytes", 24, |files| files.write("00000000000000000000.index", &[1; 5])),
        ("sealed index of garbage", 24, |files| files.write("00000000000000000000.index", &[0x55; 24])),
        ("sealed time index missing", 24, |files| files.remove("00000000000000000000.timeindex")),
        ("sealed time index of zeros", 24, |files| files.write("00000000000000000000.timeindex", &[0; 120])),
        ("sealed time index of 5 bytes", 24, |files| files.write("00000000000000000000.timeindex", &[1; 5])),
        ("an index without a log", 24, |files| files.write("00000000000000000099.index", &[1; 8])),
        ("epochs missing", 24, |files| files.remove("leader-epoch-checkpoint")),
        ("epochs of garbage", 24, |files| files.write("leader-epoch-checkpoint", b"0\nmany\n\xff")),
        ("epochs of zeros", 24, |files| files.write("leader-epoch-checkpoint", &[0; 10])),
        ("snapshot of garbage", 24, |files| files.write("00000000000000000016.snapshot", &[9; 56])),
        ("snapshot missing", 24, |files| files.remove("00000000000000000016.snapshot")),
        ("snapshots beyond the end", 24, |files| files.write("00000000000000000077.snapshot", &[9; 56])),
        ("a txn index of garbage", 24, |files| files.write("00000000000000000008.txnindex", &[7; 33])),
        ("recovery points of garbage", 24, |files| files.write("recovery-point-offset-checkpoint", b"what")),
        ("deleted files left over", 24, |files| files.write("00000000000000000003.log.deleted", b"x")),
        ("a cleaned segment unfinished", 24, |files| {
            files.write("00000000000000000000.log.cleaned", b"x");
            files.write("00000000000000000000.log.swap", b"x");
        }),
        ("a cleaned segment complete", 24, |files| {
            let bytes = files.bytes("00000000000000000000.log");
            files.write("00000000000000000000.log.swap", &bytes);
        }),
    ]
}

fn check_damaged(clean: bool, name: &str, expected: i64, damage: fn(&Files<'_>)) {
    let disk = SimDisk::new(Arc::new(ManualClock::at(1_000_000)));
    let (world, model) = twelve_batches(&disk);
    if clean {
        let manager = {
            disk.crash(Keep::Everything);
            world.start().unwrap()
        };
        manager.close();
    } else {
        disk.crash(Keep::Everything);
    }
    damage(&Files(&disk));
    let manager = world.start().unwrap_or_else(|e| panic!("{name}: {e}"));
    let log = world.log(&manager, "t").unwrap();
    model.check(&log, name);
    assert_eq!(log.offsets().log_end, Offset(expected), "{name}");
    let epochs: &[(LeaderEpoch, Offset)] = &[(LeaderEpoch(0), Offset(0)), (LeaderEpoch(1), Offset(12))];
    assert_eq!(log.epochs.read().entries(), epochs, "{name}");
    assert_eq!(log.producers()[0].1.last_sequence(), expected as i32 - 1, "{name}");
    for offset in 0..expected {
        let read = log.read(Offset(offset), Offset(expected), 1, true).unwrap();
        let slice = read.slice.unwrap_or_else(|| panic!("{name}: nothing at {offset}"));
        let mut bytes = vec![0; slice.len];
        slice.file.read_exact_at(&mut bytes, slice.position).unwrap();
        let Parsed::Entry(entry) = Entry::parse(&bytes) else { panic!("{name}: no batch at {offset}") };
        assert_eq!(entry.base_offset, Offset(offset / 2 * 2), "{name}");
        let by_time = log.offset_for_timestamp(1001 + offset / 2, Offset(expected)).unwrap().unwrap();
        assert_eq!(by_time.offset, Offset(offset / 2 * 2), "{name} by time");
    }
}

#[test]
fn damage_after_a_kill_costs_only_what_is_damaged() {
    for (name, expected, damage) in damages() {
        check_damaged(false, name, expected, damage);
    }
}

#[test]
fn damaged_helpers_are_made_again_after_an_orderly_stop_too() {
    for (name, expected, damage) in damages().into_iter().filter(|(name, ..)| {
        ["nothing", "sealed", "epochs", "index", "left over", "cleaned"].iter().any(|part| name.contains(part))
            && !name.contains("crc")
            && !name.contains("ends early")
    }) {
        check_damaged(true, name, expected, damage);
    }
}
