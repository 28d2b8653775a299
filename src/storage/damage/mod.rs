//! Damage that no crash explains, one row of `table.md` each.

mod ways;

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::ways::{DAMAGES, Damaged};
use crate::clock::ManualClock;
use crate::sim::disk::{Keep, SimDisk};
use crate::storage::crashes::{check_lookups, world};
use crate::storage::disk::{Disk, Open};
use crate::storage::log::{Log, ReadError};
use crate::storage::manager::{LogManager, ManagerError};
use crate::storage::testing::{Sender, World, batch_of, batches, client};
use crate::types::{LeaderEpoch, Offset};

const TABLE: &str = include_str!("table.md");

/// Cells of the table whose first heading is `first`.
fn rows(first: &str) -> Vec<Vec<&'static str>> {
    let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>();
    let mut lines = TABLE.lines().skip_while(|line| !line.starts_with(&format!("| {first} |")));
    assert!(lines.next().is_some(), "no table begins with {first}");
    lines.skip(1).take_while(|line| line.starts_with('|')).map(cells).collect()
}

/// How the broker ended before the damage.
#[derive(Clone, Copy, Debug)]
enum End {
    Killed,
    KilledAfterFlush,
    Stopped,
}

const ENDS: [End; 3] = [End::Killed, End::KilledAfterFlush, End::Stopped];

/// Twelve batches of two records by producer 5 in segments 0, 8 and 16; epoch 1 from offset 12 on.
fn twelve_batches(end: End) -> (SimDisk, World, Vec<(Offset, Vec<u8>)>) {
    let disk = SimDisk::new(Arc::new(ManualClock::at(1_000_000)));
    let world = world(&disk, -1);
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    for n in 0..12 {
        let sender = Sender { id: 5, epoch: 0, sequence: 2 * n, transactional: false };
        let mut bytes = batch_of(2, 1001 + i64::from(n), 20, Some(sender));
        log.append_as_leader(&mut bytes, client(i32::from(n >= 6), 1_000_000)).unwrap();
    }
    log.set_high_watermark(Offset(24));
    let written = batches(&log);
    match end {
        End::Killed => {}
        End::KilledAfterFlush => {
            log.flush().unwrap();
            world.clock.advance(400_000);
            manager.run_all_due_tasks();
        }
        End::Stopped => manager.close(),
    }
    disk.crash(Keep::Everything);
    (disk, world, written)
}

/// What a cell says becomes of the log.
#[derive(Debug, Default)]
struct Expected {
    end: i64,
    start: i64,
    as_it_lies: Option<i64>,
    unreadable: Option<i64>,
    skipped: Option<i64>,
    producers_forgotten: bool,
}

/// `24`, `24 from 5`, `24, 22 as it lies`, `24, 14 unreadable`, `24, 14 skipped`, `24, producers forgotten`.
fn expected(cell: &str) -> Expected {
    let number = |text: &str| text.trim().parse::<i64>().unwrap_or_else(|_| panic!("{cell}"));
    let (end, more) = cell.split_once(',').unwrap_or((cell, ""));
    let (end, start) = end.split_once(" from ").unwrap_or((end, "0"));
    Expected {
        end: number(end),
        start: number(start),
        as_it_lies: more.strip_suffix("as it lies").map(number),
        unreadable: more.strip_suffix("unreadable").map(number),
        skipped: more.strip_suffix("skipped").map(number),
        producers_forgotten: more.trim() == "producers forgotten",
    }
}

fn check(log: &Log, written: &[(Offset, Vec<u8>)], expected: &Expected, what: &str) {
    let offsets = log.offsets();
    assert_eq!((offsets.log_start.0, offsets.log_end.0), (expected.start, expected.end), "{what}");
    if let Some(at) = expected.unreadable {
        let read = log.read(Offset(at), offsets.log_end, 1, true);
        assert!(matches!(read, Err(ReadError::Damaged { .. })), "{what}: {read:?}");
        assert!(log.is_online(), "{what}");
        for offset in (0..at).chain(16..24) {
            assert!(log.read(Offset(offset), offsets.log_end, 1, true).unwrap().slice.is_some(), "{what} at {offset}");
        }
        return;
    }
    if let Some(at) = expected.skipped {
        let slice = log.read(Offset(at), offsets.log_end, 1, true).unwrap().slice.unwrap();
        let mut bytes = vec![0; slice.len];
        slice.file.read_exact_at(&mut bytes, slice.position).unwrap();
        assert!(written.contains(&(Offset(16), bytes)), "{what}");
        return;
    }
    let found = batches(log);
    let mut sound = found.iter().filter(|(base, _)| expected.as_it_lies != Some(base.0));
    assert!(sound.all(|batch| written.contains(batch)), "{what}: other bytes than were written");
    let covered = found.iter().map(|(base, _)| base.0).collect::<Vec<_>>();
    let all: Vec<i64> = (expected.start / 2 * 2..expected.end).step_by(2).collect();
    assert_eq!(covered, all, "{what}");
    if expected.as_it_lies.is_some() {
        return;
    }
    check_lookups(log, &found, what);
    if !found.is_empty() {
        let epochs = [(LeaderEpoch(0), Offset(expected.start)), (LeaderEpoch(1), Offset(12))];
        let known = |start: Offset| start.0 < expected.end;
        let held = epochs.into_iter().filter(|(_, start)| known(*start)).collect::<Vec<_>>();
        assert_eq!(log.epochs.read().entries(), held, "{what}");
        let producers = log.producers();
        let last = producers.first().map(|(_, state)| state.last_sequence());
        assert_eq!(last, (!expected.producers_forgotten).then_some(expected.end as i32 - 1), "{what}");
    }
}

fn cell_holds(end: End, name: &str, damage: fn(&Damaged<'_>), cell: &str) {
    let what = format!("{name}, {end:?}");
    let (disk, world, written) = twelve_batches(end);
    damage(&Damaged(&disk));
    match (cell, world.start()) {
        ("refused", Err(ManagerError::Refused(_))) | ("offline", Err(ManagerError::Io { .. })) => {}
        ("refused" | "offline", other) => panic!("{what}: {other:?}"),
        (_, Err(e)) => panic!("{what}: {e}"),
        (_, Ok(manager)) => {
            let log = manager.get(&crate::types::TopicPartition::new("t", 0)).unwrap_or_else(|| panic!("{what}: gone"));
            check(&log, &written, &expected(cell), &what);
            goes_on(&world, &manager, &log, &what);
        }
    }
}

/// The log can be written to, and an orderly stop keeps what there is.
fn goes_on(world: &World, manager: &LogManager, log: &Log, what: &str) {
    let before = log.offsets();
    log.append_as_leader(&mut batch_of(1, 2000, 20, None), client(2, 1_000_000)).unwrap();
    manager.close();
    assert!(!manager.any_offline(), "{what}");
    let manager = world.start().unwrap_or_else(|e| panic!("{what}, then stopped: {e}"));
    let after = world.log(&manager, "t").unwrap().offsets();
    assert_eq!((after.log_start, after.log_end), (before.log_start, before.log_end + 1), "{what}, then stopped");
}

#[test]
fn damage_costs_what_the_table_says() {
    let rows = rows("damaged");
    let mut wrong = 0;
    for row in &rows {
        let [name, cells @ ..] = row.as_slice() else { panic!("{row:?}") };
        let known = DAMAGES.iter().find(|(known, _)| known == name);
        let (_, damage) = known.unwrap_or_else(|| panic!("{name} is not done"));
        for (end, cell) in ENDS.iter().zip(cells) {
            // Every cell that is wrong is shown, not the first alone.
            wrong += usize::from(catch_unwind(|| cell_holds(*end, name, *damage, cell)).is_err());
        }
    }
    assert_eq!(wrong, 0, "cells of the table are wrong");
    assert_eq!(rows.len(), DAMAGES.len(), "a damage without a row");
}

#[test]
fn strangers_in_a_log_directory_stay_as_the_table_says() {
    for row in rows("name") {
        let [name, at_start, later, ..] = row.as_slice() else { panic!("{row:?}") };
        let (disk, world, _) = twelve_batches(End::Stopped);
        let dir = Path::new("/logs").join(name);
        disk.create_dir_all(&dir).unwrap();
        disk.open(&dir.join("00000000000000000000.log"), Open::Create).unwrap();
        let manager = world.start().unwrap();
        assert_eq!(disk.info(&dir).is_ok(), *at_start == "there", "{name} after the start");
        assert_eq!(world.log(&manager, "t").unwrap().offsets().log_end, Offset(24), "{name}");
        world.clock.advance(400_000);
        manager.run_all_due_tasks();
        assert_eq!(disk.info(&dir).is_ok(), *later == "there", "{name} later");
        assert!(manager.get(&crate::types::TopicPartition::new("other", 0)).is_none());
    }
}

#[test]
fn a_partition_in_two_directories_is_refused_and_both_are_kept() {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let disk = SimDisk::new(clock.clone());
    let paths = ["/a/t-0", "/b/t-0"].map(PathBuf::from);
    for path in &paths {
        disk.create_dir_all(path).unwrap();
        disk.open(&path.join("00000000000000000000.log"), Open::Create).unwrap();
    }
    let world = World::new(Arc::new(disk.clone()), "/a", clock);
    let config = crate::config::BrokerConfig { log_dirs: vec!["/a".into(), "/b".into()], ..world.config() };
    let random = Arc::new(crate::random::SeededRandom::new(1));
    let manager = LogManager::open(world.disk.clone(), world.clock.clone(), random, Arc::new(config)).unwrap();
    let loaded = manager.load(&|_| Some((crate::storage::testing::TOPIC_ID, Arc::default())));
    let Err(ManagerError::Refused(sentence)) = loaded else { panic!("{loaded:?}") };
    assert!(sentence.contains("t-0 lies in two log directories, /a and /b"), "{sentence}");
    assert!(paths.iter().all(|path| disk.info(path).is_ok()));
}

#[test]
fn an_empty_log_goes_on_whatever_its_helpers_hold() {
    let helpers = ["index", "timeindex", "txnindex", "snapshot"];
    for (helper, stopped) in helpers.into_iter().flat_map(|helper| [(helper, true), (helper, false)]) {
        let disk = SimDisk::new(Arc::new(ManualClock::at(1_000_000)));
        let world = world(&disk, -1);
        let manager = world.start().unwrap();
        world.log(&manager, "t").unwrap();
        if stopped {
            manager.close();
        }
        drop(manager);
        disk.crash(Keep::Everything);
        let path = Path::new("/logs/t-0").join(format!("{:020}.{helper}", 0));
        disk.open(&path, Open::Create).unwrap().write_all_at(&[0x55; 22], 0).unwrap();
        let manager = world.start().unwrap();
        let log = world.log(&manager, "t").unwrap();
        goes_on(&world, &manager, &log, &format!("{helper}, stopped in order: {stopped}"));
    }
}

/// Reads mend indexes, a walk at the start as well: here an append is the first to ask for them.
#[test]
fn a_last_segment_with_room_is_written_to_whatever_its_indexes_hold() {
    for (index, bytes) in
        ["index", "timeindex"].into_iter().flat_map(|index| [(index, None), (index, Some([0x55; 24]))])
    {
        let what = format!("{index}, {}", if bytes.is_some() { "garbage" } else { "missing" });
        let disk = SimDisk::new(Arc::new(ManualClock::at(1_000_000)));
        let world = world(&disk, -1);
        let manager = world.start().unwrap();
        let log = world.log(&manager, "t").unwrap();
        log.append_as_leader(&mut batch_of(1, 1001, 20, None), client(0, 1_000_000)).unwrap();
        manager.close();
        drop((log, manager));
        disk.crash(Keep::Everything);
        let name = format!("{:020}.{index}", 0);
        match bytes {
            None => Damaged(&disk).remove(&name),
            Some(bytes) => Damaged(&disk).write(&name, &bytes),
        }
        let manager = world.start().unwrap();
        let log = world.log(&manager, "t").unwrap();
        goes_on(&world, &manager, &log, &what);
        let manager = world.start().unwrap();
        let log = world.log(&manager, "t").unwrap();
        check_lookups(&log, &batches(&log), &what);
    }
}
