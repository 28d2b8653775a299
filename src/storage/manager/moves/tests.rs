use std::sync::atomic::{AtomicBool, AtomicUsize};

use super::*;
use crate::clock::ManualClock;
use crate::sim::crash::{at_every_change, outcomes};
use crate::sim::disk::{Keep, SimDisk, Stop};
use crate::storage::checkpoint::REPLICATION_OFFSET;
use crate::storage::disk::Disk;
use crate::storage::testing::{Sender, World, batch_of, batches, client};
use crate::types::{LeaderEpoch, Offset};

/// Two log directories; four batches fill a segment.
fn world(disk: &SimDisk) -> World {
    let mut world = World::new(Arc::new(disk.clone()), "/a", Arc::new(ManualClock::at(1_000_000)));
    world.other = Some("/b".into());
    world.topic.segment_bytes = 500;
    world
}

fn disk() -> SimDisk {
    SimDisk::new(Arc::new(ManualClock::at(1_000_000)))
}

fn tp() -> TopicPartition {
    TopicPartition::new("t", 0)
}

fn append(log: &Log, count: i32, epoch: i32) {
    for _ in 0..count {
        let known = log.producers().into_iter().next();
        let sequence = known.map_or(0, |(_, state)| state.last_sequence() + 1);
        let sender = Sender { id: 5, epoch: 0, sequence, transactional: false };
        let mut bytes = batch_of(2, 1_000, 20, Some(sender));
        log.append_as_leader(&mut bytes, client(epoch, 1_000_000)).unwrap();
    }
}

/// `t-0` in `/a`, with records of two epochs, all fsynced, and a log start inside the first segment.
fn begun(disk: &SimDisk) -> (World, LogManager, Arc<Log>) {
    let world = world(disk);
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    append(&log, 3, 0);
    log.assign_epoch(LeaderEpoch(1)).unwrap();
    append(&log, 6, 1);
    log.set_high_watermark(log.log_end());
    log.raise_log_start(Offset(3));
    log.flush().unwrap();
    assert_eq!(log.dir(), Path::new("/a"));
    (world, manager, log)
}

fn moves(manager: &LogManager) {
    assert!(manager.begin_moves());
    assert_eq!(manager.work_on_moves(), None);
}

/// Directories of the partition, whatever they are called.
fn directories(disk: &SimDisk) -> Vec<String> {
    let of = |dir: &str| {
        let entries = disk.list(Path::new(dir)).unwrap();
        let ours = entries.into_iter().filter(|entry| entry.name.starts_with("t-0"));
        ours.map(|entry| {
            let suffix = entry.name.rsplit_once('-').map_or("", |(_, suffix)| suffix).to_owned();
            format!("{dir} {suffix}")
        })
        .collect::<Vec<_>>()
    };
    ["/a", "/b"].into_iter().flat_map(of).collect()
}

#[test]
fn a_log_moves_with_all_it_holds_and_goes_on() {
    let disk = disk();
    let (world, manager, log) = begun(&disk);
    let (before, offsets, producers) = (batches(&log), log.offsets(), log.producers());
    assert!(manager.move_log(&tp(), Path::new("/b")).unwrap());
    assert!(!manager.move_log(&tp(), Path::new("/b")).unwrap(), "it is on its way");
    assert_eq!(directories(&disk), ["/a 0", "/b future"]);
    moves(&manager);
    assert_eq!(directories(&disk), ["/a delete", "/b 0"]);
    assert_eq!(log.dir(), Path::new("/b"));
    assert!(manager.futures().is_empty());
    assert_eq!((batches(&log), log.offsets(), log.producers()), (before.clone(), offsets, producers));
    append(&log, 5, 1);
    log.flush().unwrap();
    let after = batches(&log);
    assert_eq!(after[..before.len()], before);
    world.clock.advance(400_000);
    manager.run_all_due_tasks();
    assert_eq!(directories(&disk), ["/b 0"]);
    drop((manager, log));
    let manager = world.start().unwrap();
    let log = manager.get(&tp()).unwrap();
    assert_eq!((batches(&log), log.dir()), (after, PathBuf::from("/b")));
    assert_eq!(log.end_offset_for_epoch(LeaderEpoch(0)), Some((LeaderEpoch(0), Offset(6))));
}

/// What a move that is cut short may not lose.
struct Held {
    batches: Vec<(Offset, Vec<u8>)>,
    log_start: Offset,
    log_end: Offset,
    /// Of producers without records a crash may leave nothing.
    producers: usize,
}

impl Held {
    fn by(log: &Log) -> Held {
        let (offsets, batches) = (log.offsets(), batches(log));
        let producers = if batches.is_empty() { 0 } else { log.producers().len() };
        Held { batches, log_start: offsets.log_start, log_end: offsets.log_end, producers }
    }
}

#[test]
fn nothing_is_lost_wherever_a_move_is_cut_short() {
    cut_short(|_, _| {});
}

/// Until the timer writes the checkpoint of the new directory, records that were deleted long ago would come back.
#[test]
fn records_deleted_after_they_were_copied_do_not_come_back() {
    cut_short(|manager, log| {
        assert!(manager.move_log(&tp(), Path::new("/b")).unwrap());
        let future = manager.future(&tp()).unwrap();
        while future.log_end() < Offset(11) {
            copy(log, &future, &mut Vec::new()).unwrap();
        }
        log.raise_log_start(Offset(9));
    });
}

/// It has no records that tell where it begins.
#[test]
fn a_log_without_records_keeps_its_place_wherever_its_move_is_cut_short() {
    cut_short(|_, log| log.raise_log_start(log.log_end()));
}

fn cut_short(first: impl Fn(&LogManager, &Log)) {
    for (stop, power_lost) in [(Stop::PowerLost, true), (Stop::PowerLost, false), (Stop::Error, false)] {
        let start = disk();
        let (before, manager, log) = begun(&start);
        first(&manager, &log);
        before.clock.advance(400_000);
        manager.run_all_due_tasks();
        let held = Held::by(&log);
        drop((manager, log));
        // What came before the move is as safe as it can be: this is about the move.
        let start = start.after_crash(Keep::Everything);
        let script = |disk: &SimDisk| {
            let Ok(manager) = world(disk).start() else { return };
            let Some(log) = manager.get(&tp()) else { return };
            // The first record of an empty log would vouch for the directory.
            if log.size() > 0 {
                let mut bytes = batch_of(2, 2_000, 20, None);
                let _ = log.append_as_leader(&mut bytes, client(1, 1_000_000)).map(|_| log.flush());
            }
            let _ = manager.move_log(&tp(), Path::new("/b"));
            if manager.begin_moves() {
                assert_eq!(manager.work_on_moves(), None);
            }
        };
        let changes = at_every_change(&start, stop, script, |at, stopped, ()| {
            let left = match power_lost {
                true => outcomes(stopped, 1),
                false => vec![("everything is left".to_owned(), stopped.fork())],
            };
            for (outcome, disk) in left {
                let what = format!("{stop:?} at {at}, {outcome}");
                holds(&disk.fork(), &held, &what);
                // And the start after it, cut short in turn.
                let again = |disk: &SimDisk| drop(world(disk).start());
                if at % 5 == 0 {
                    at_every_change(&disk, Stop::PowerLost, again, |next, stopped, ()| {
                        holds(&stopped.fork(), &held, &format!("{what}, then at {next}"));
                    });
                }
            }
        });
        assert!(changes > 20, "{changes} changes");
    }
}

/// A start finds all records once, and a move that is not done ends.
fn holds(disk: &SimDisk, held: &Held, what: &str) {
    let manager = world(disk).start().unwrap_or_else(|error| panic!("{what}: {error}"));
    let log = manager.get(&tp()).unwrap_or_else(|| panic!("{what}: gone"));
    let found = batches(&log);
    assert!(found.starts_with(&held.batches), "{what}: {} batches of {}", found.len(), held.batches.len());
    assert!(found.len() <= held.batches.len() + 1, "{what}: {} batches", found.len());
    assert_eq!(log.offsets().log_start, held.log_start, "{what}");
    assert!(log.log_end() >= held.log_end, "{what}: {}", log.log_end());
    assert!(log.producers().len() >= held.producers, "{what}");
    let unfinished = !manager.futures().is_empty();
    if unfinished {
        moves(&manager);
        assert_eq!(log.dir(), Path::new("/b"), "{what}");
    }
    append(&log, 1, 1);
    assert_eq!(batches(&log).len(), found.len() + 1, "{what}");
    let serving: Vec<_> = directories(disk).into_iter().filter(|name| name.ends_with(" 0")).collect();
    assert_eq!(serving, [format!("{} 0", log.dir().display())], "{what}");
}

#[test]
fn a_copy_is_given_up_for_another_place_and_with_the_partition() {
    let disk = disk();
    let (_, manager, log) = begun(&disk);
    assert!(manager.move_log(&tp(), Path::new("/b")).unwrap());
    assert!(!manager.move_log(&tp(), Path::new("/a")).unwrap(), "it stays where it is");
    assert_eq!(directories(&disk), ["/a 0", "/b delete"]);
    assert_eq!(manager.work_on_moves(), None);
    assert_eq!(log.dir(), Path::new("/a"));
    assert!(manager.move_log(&tp(), Path::new("/b")).unwrap());
    manager.delete(&tp()).unwrap();
    moves(&manager);
    assert!(manager.futures().is_empty());
    assert_eq!(directories(&disk), ["/a delete", "/b delete", "/b delete"]);
}

#[test]
fn what_the_log_lost_is_not_in_the_copy() {
    let disk = disk();
    let (_, manager, log) = begun(&disk);
    assert!(manager.move_log(&tp(), Path::new("/b")).unwrap());
    let future = manager.future(&tp()).unwrap();
    let mut buffer = Vec::new();
    while future.log_end() < log.log_end() {
        copy(&log, &future, &mut buffer).unwrap();
    }
    // The log of a follower: its end was never committed, and others stand there now.
    log.truncate_to(Offset(8)).unwrap();
    log.assign_epoch(LeaderEpoch(2)).unwrap();
    append(&log, 8, 2);
    moves(&manager);
    assert_eq!(log.dir(), Path::new("/b"));
    let epochs: Vec<_> =
        (0..3).map(|epoch| log.end_offset_for_epoch(LeaderEpoch(epoch)).map(|(_, end)| end.0)).collect();
    assert_eq!(epochs, [Some(6), Some(8), Some(24)]);
    assert_eq!(batches(&log).last().map(|(base, _)| *base), Some(Offset(22)));
}

#[test]
fn records_deleted_while_they_are_copied_are_passed_over() {
    let disk = disk();
    let (_, manager, log) = begun(&disk);
    assert!(manager.move_log(&tp(), Path::new("/b")).unwrap());
    log.raise_log_start(Offset(15));
    moves(&manager);
    assert_eq!((log.dir(), log.offsets().log_start, log.log_end()), (PathBuf::from("/b"), Offset(15), Offset(18)));
    append(&log, 1, 1);
    assert_eq!(log.log_end(), Offset(20));
}

#[test]
fn producers_whose_records_are_deleted_move_too() {
    let disk = disk();
    let (world, manager, log) = begun(&disk);
    log.raise_log_start(log.log_end());
    world.clock.advance(400_000);
    manager.run_all_due_tasks();
    assert!(manager.move_log(&tp(), Path::new("/b")).unwrap());
    moves(&manager);
    manager.close();
    drop((manager, log));
    let log = world.start().unwrap().get(&tp()).unwrap();
    let producers: Vec<_> = log.producers().into_iter().map(|(id, state)| (id, state.last_sequence())).collect();
    assert_eq!((log.dir(), producers), (PathBuf::from("/b"), vec![(5, 17)]));
}

/// Nobody asked for a copy of what cannot be read; the disk of neither is at fault.
#[test]
fn a_damaged_log_stays_where_it_is() {
    let disk = disk();
    let (_, manager, log) = begun(&disk);
    let segment = log.view.load().segments[1].clone();
    disk.edit(&segment.log().path(), |bytes| bytes[70] ^= 1).unwrap();
    assert!(manager.move_log(&tp(), Path::new("/b")).unwrap());
    moves(&manager);
    assert_eq!((log.dir(), manager.any_offline(), manager.futures().len()), (PathBuf::from("/a"), false, 0));
    assert_eq!(directories(&disk), ["/a 0", "/b delete"]);
    append(&log, 1, 1);
}

/// A topic that was deleted is not written about for ever.
#[test]
fn checkpoints_are_written_when_they_change() {
    let disk = disk();
    let (world, manager, log) = begun(&disk);
    world.clock.advance(400_000);
    manager.run_all_due_tasks();
    manager.move_log(&tp(), Path::new("/b")).unwrap();
    moves(&manager);
    manager.delete(&tp()).unwrap();
    drop(log);
    let mut changes = [0; 3];
    for at in &mut changes {
        world.clock.advance(400_000);
        manager.run_all_due_tasks();
        *at = disk.changes();
    }
    assert_eq!(changes[1], changes[2]);
    let written: Vec<_> = disk.tree().into_iter().filter(|(path, _)| path.ends_with(REPLICATION_OFFSET)).collect();
    assert_eq!(written.len(), 2, "{written:?}");
    assert!(written.iter().all(|(_, says)| says == b"0\n0\n"), "{written:?}");
}

#[test]
fn a_log_is_made_where_it_was_wanted() {
    let disk = disk();
    let world = world(&disk);
    let manager = world.start().unwrap();
    assert!(matches!(manager.move_log(&tp(), Path::new("/b")), Err(MoveError::NoLog)));
    assert_eq!(world.log(&manager, "t").unwrap().dir(), Path::new("/b"));
}

#[test]
fn what_cannot_be_is_refused() {
    let disk = disk();
    let (_, manager, _log) = begun(&disk);
    assert!(matches!(manager.move_log(&tp(), Path::new("/c")), Err(MoveError::NoSuchDirectory(_))));
    let long = TopicPartition::new("t".repeat(220), 0);
    assert!(matches!(manager.move_log(&long, Path::new("/b")), Err(MoveError::NameTooLong)));
    manager.dirs[1].dir.fail(&io::Error::other("gone"), "a test");
    assert!(matches!(manager.move_log(&tp(), Path::new("/b")), Err(MoveError::Offline(_))));
}

/// Open or shut.
#[derive(Debug, Default)]
struct Gate {
    is_open: AtomicBool,
    copied: AtomicUsize,
}

impl CopyLimit for Gate {
    fn copied(&self, bytes: usize, _: i64) {
        self.copied.fetch_add(bytes, Ordering::SeqCst);
    }

    fn is_exceeded(&self, _: i64) -> bool {
        !self.is_open.load(Ordering::SeqCst)
    }
}

#[test]
fn a_copy_that_is_behind_waits_for_the_limit() {
    let disk = disk();
    let (_, manager, log) = begun(&disk);
    let gate = Arc::new(Gate::default());
    manager.limit_copies_with(gate.clone());
    assert!(manager.move_log(&tp(), Path::new("/b")).unwrap());
    assert!(manager.begin_moves());
    for _ in 0..3 {
        assert_eq!(manager.work_on_moves(), Some(1_000), "replica.fetch.backoff.ms");
        assert!(!manager.begin_moves(), "who is told to come again is at work on it");
    }
    assert_eq!((log.dir(), gate.copied.load(Ordering::SeqCst)), (PathBuf::from("/a"), 0));
    gate.is_open.store(true, Ordering::SeqCst);
    assert_eq!(manager.work_on_moves(), None);
    assert_eq!(log.dir(), Path::new("/b"));
    assert_eq!(gate.copied.load(Ordering::SeqCst) as u64, log.size());
}

#[test]
fn a_copy_that_has_everything_waits_for_no_limit() {
    let disk = disk();
    let (_, manager, log) = begun(&disk);
    manager.limit_copies_with(Arc::new(Gate::default()));
    assert!(manager.move_log(&tp(), Path::new("/b")).unwrap());
    let future = manager.future(&tp()).unwrap();
    while future.log_end() < log.log_end() {
        copy(&log, &future, &mut Vec::new()).unwrap();
    }
    moves(&manager);
    assert_eq!(log.dir(), Path::new("/b"));
}

/// It holds up neither the stop nor the move after the next start.
#[test]
fn a_stop_ends_a_move_that_waits_for_the_limit() {
    let disk = disk();
    let (world, manager, log) = begun(&disk);
    manager.limit_copies_with(Arc::new(Gate::default()));
    assert!(manager.move_log(&tp(), Path::new("/b")).unwrap());
    assert!(manager.begin_moves());
    assert!(manager.work_on_moves().is_some());
    manager.close();
    assert_eq!(manager.work_on_moves(), None);
    drop((manager, log));
    let manager = world.start().unwrap();
    moves(&manager);
    assert_eq!(manager.get(&tp()).unwrap().dir(), Path::new("/b"));
}
