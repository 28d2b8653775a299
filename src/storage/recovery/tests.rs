use std::collections::BTreeMap;

use super::*;
use crate::clock::ManualClock;
use crate::random::SeededRandom;
use crate::sim::disk::{Keep, SimDisk};
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
