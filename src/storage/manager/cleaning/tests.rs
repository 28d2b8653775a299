use std::path::Path;
use std::sync::Arc;

use crate::clock::ManualClock;
use crate::config::{BrokerConfig, CleanerConfig};
use crate::sim::disk::SimDisk;
use crate::storage::atomic_file;
use crate::storage::log::Log;
use crate::storage::manager::{CleanOutcome, LogManager};
use crate::storage::testing::{World, batches, client, keyed, records_in};
use crate::types::{Offset, TopicPartition};
use crate::wire::batch::BatchOptions;

fn compacted() -> (SimDisk, World) {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let disk = SimDisk::new(clock.clone());
    let mut world = World::new(Arc::new(disk.clone()), "/logs", clock);
    world.topic.cleanup_compact = true;
    world.topic.cleanup_delete = false;
    world.topic.segment_bytes = 500;
    world.topic.min_cleanable_dirty_ratio = 0.0;
    (disk, world)
}

/// So many records, of three keys in turn; five fill a segment.
fn send(log: &Log, count: i64) {
    for _ in 0..count {
        let key = format!("key {}", log.log_end().0 % 3);
        let value = format!("value {:010}", log.log_end().0);
        let mut bytes = keyed(&[(key, Some(value))], 1000 + log.log_end().0, BatchOptions::default());
        log.append_as_leader(&mut bytes, client(0, 1_000_000)).unwrap();
    }
    log.set_high_watermark(log.log_end());
}

fn offsets(log: &Log) -> Vec<i64> {
    batches(log).iter().flat_map(|(_, bytes)| records_in(bytes)).map(|stored| stored.offset.0).collect()
}

fn checkpoint(disk: &SimDisk, dir: &str) -> String {
    let bytes = atomic_file::read_if_there(disk, &Path::new(dir).join("cleaner-offset-checkpoint")).unwrap();
    String::from_utf8(bytes.unwrap_or_default()).unwrap()
}

fn active_base(log: &Log) -> i64 {
    log.view.load().active().unwrap().base().0
}

fn until_nothing_is_left(manager: &LogManager) -> usize {
    (0..100).take_while(|_| manager.clean_dirtiest() == CleanOutcome::Cleaned).count()
}

#[test]
fn the_dirtiest_is_cleaned_first_and_the_checkpoint_says_how_far() {
    let (disk, world) = compacted();
    let manager = world.start().unwrap();
    let (few, many) = (world.log(&manager, "tf").unwrap(), world.log(&manager, "tm").unwrap());
    send(&few, 12);
    assert_eq!(manager.clean_dirtiest(), CleanOutcome::Cleaned);
    send(&few, 6);
    send(&many, 30);
    assert_eq!(manager.clean_dirtiest(), CleanOutcome::Cleaned);
    let said = checkpoint(&disk, "/logs");
    assert!(said.contains(&format!("tm 0 {}", active_base(&many))), "{said}");
    assert!(!said.contains(&format!("tf 0 {}", active_base(&few))), "{said}");
    assert_eq!(until_nothing_is_left(&manager), 1);
    assert!(checkpoint(&disk, "/logs").contains(&format!("tf 0 {}", active_base(&few))));
    assert_eq!(manager.clean_dirtiest(), CleanOutcome::NothingToDo);
    drop((few, many, manager));
    // The next start goes on from there.
    let manager = world.start().unwrap();
    assert_eq!(manager.clean_dirtiest(), CleanOutcome::NothingToDo);
}

#[test]
fn replaced_files_go_after_their_time_and_no_snapshot_is_left_of_them() {
    let (disk, world) = compacted();
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    send(&log, 30);
    let count = |suffix: &str| disk.tree().keys().filter(|path| path.to_string_lossy().ends_with(suffix)).count();
    let logs = count(".log");
    assert_eq!(manager.clean_dirtiest(), CleanOutcome::Cleaned);
    assert_eq!((count(".log"), count(".log.deleted")), (logs, logs - 1), "full ones are not joined");
    // What is left of them is: headers of four.
    send(&log, 6);
    assert_eq!(count(".log"), logs + 2);
    assert_eq!(manager.clean_dirtiest(), CleanOutcome::Cleaned);
    assert_eq!(count(".log"), logs + 2 - 3);
    assert_eq!((count(".cleaned"), count(".swap")), (0, 0));
    assert_eq!(count(".snapshot"), count(".log") - 1, "at each base but the first");
    assert_eq!(offsets(&log)[..3], [active_base(&log) - 3, active_base(&log) - 2, active_base(&log) - 1]);
    world.clock.advance(60_000);
    manager.run_all_due_tasks();
    assert_eq!(count(".deleted"), 0);
    send(&log, 1);
}

#[test]
fn a_cut_makes_what_comes_after_it_dirty() {
    let (disk, world) = compacted();
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    send(&log, 30);
    assert_eq!(manager.clean_dirtiest(), CleanOutcome::Cleaned);
    log.truncate_to(Offset(active_base(&log) - 1)).unwrap();
    let said: i64 = checkpoint(&disk, "/logs").trim().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(said <= log.log_end().0, "{said}");
    send(&log, 12);
    assert_eq!(until_nothing_is_left(&manager), 1);
    let clean = offsets(&log).into_iter().filter(|offset| *offset < active_base(&log)).count();
    assert_eq!(clean, 3);
}

/// Done to a log while it is cleaned.
type Act<'a> = &'a dyn Fn(&LogManager, &Log);

#[test]
fn a_pass_gives_up_when_its_log_is_cut_deleted_or_moved() {
    use crate::storage::cleaner::pass::{Means, Pace, PassError};
    use crate::storage::cleaner::range::Range;
    /// Does something once so many bytes were read or written.
    struct Meanwhile<'a>(std::cell::Cell<i64>, &'a dyn Fn());
    impl Pace for Meanwhile<'_> {
        fn spent(&self, bytes: usize) {
            let left = self.0.get();
            self.0.set(left - bytes as i64);
            if left > 0 && left <= bytes as i64 {
                (self.1)();
            }
        }
        fn is_wanted(&self) -> bool {
            true
        }
    }
    let means = Means { map_bytes: 2400, load_factor: 0.9, buffer_bytes: 100, secret: (1, 2) };
    let acts: [(&str, Act<'_>); 4] = [
        ("cut", &|_, log| log.truncate_to(Offset(12)).unwrap()),
        ("cut and written again", &|_, log| {
            log.truncate_to(Offset(12)).unwrap();
            send(log, 30);
        }),
        ("begun anew", &|_, log| log.truncate_fully_and_start_at(Offset(3)).unwrap()),
        ("deleted", &|manager, log| manager.delete(log.topic_partition()).unwrap()),
    ];
    for (name, act) in acts {
        for after in (100..6000).step_by(150) {
            let (disk, world) = compacted();
            let manager = world.start().unwrap();
            let log = world.log(&manager, "t").unwrap();
            send(&log, 30);
            let range = Range { first_dirty: Offset(0), first_uncleanable: Offset(active_base(&log)) };
            let done = std::cell::Cell::new(false);
            let meanwhile = || {
                act(&manager, &log);
                done.set(true);
            };
            let pace = Meanwhile(std::cell::Cell::new(after), &meanwhile);
            let mut gone = Vec::new();
            let result = log.clean(range, &means, 1_000_000, &pace, &mut gone);
            if !done.get() {
                assert!(result.is_ok(), "{name} after {after}: {result:?}");
                break;
            }
            assert!(matches!(result, Err(PassError::GivenUp)), "{name} after {after}: {result:?}");
            assert!(!manager.any_offline(), "{name} after {after}");
            let left = disk.tree().into_keys().find(|path| path.to_string_lossy().ends_with(".cleaned"));
            assert_eq!(left, None, "{name} after {after}");
            if name == "deleted" {
                continue;
            }
            let there = offsets(&log);
            assert!(there.is_sorted_by(|a, b| a < b) && there.iter().all(|at| *at < log.log_end().0));
            // What came after the cut was not looked at.
            let new: Vec<i64> = there.iter().copied().filter(|at| *at >= 12).collect();
            let expected: Vec<i64> = if name.contains("again") { (12..42).collect() } else { Vec::new() };
            assert_eq!(new, expected, "{name} after {after}");
            drop((gone, log, manager));
            let manager = world.start().unwrap();
            assert_eq!(offsets(&manager.get(&TopicPartition::new("t", 0)).unwrap()), there, "{name} after {after}");
        }
    }
}

#[test]
fn what_is_moved_is_not_cleaned_before_it_is_there_and_is_as_clean_there() {
    let (disk, mut world) = compacted();
    world.other = Some("/other".into());
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    send(&log, 30);
    assert_eq!(manager.clean_dirtiest(), CleanOutcome::Cleaned);
    send(&log, 20);
    let to = if log.dir() == Path::new("/logs") { "/other" } else { "/logs" };
    assert!(manager.move_log(log.topic_partition(), Path::new(to)).unwrap());
    assert_eq!(manager.clean_dirtiest(), CleanOutcome::NothingToDo);
    let before = batches(&log);
    assert_eq!(manager.work_on_moves(), None);
    assert_eq!((log.dir().as_path(), batches(&log) == before), (Path::new(to), true));
    let said = checkpoint(&disk, to);
    assert!(said.contains("t 0 "), "{said}");
    assert_eq!(manager.clean_dirtiest(), CleanOutcome::Cleaned);
    assert_eq!(offsets(&log).into_iter().filter(|offset| *offset < active_base(&log)).count(), 3);
}

#[test]
fn segments_of_a_topic_that_also_deletes_go_by_retention_when_a_cleaner_comes_by() {
    let (_, mut world) = compacted();
    world.topic.cleanup_delete = true;
    world.topic.retention_ms = 10_000;
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    send(&log, 30);
    assert_eq!(manager.clean_dirtiest(), CleanOutcome::Cleaned);
    assert_eq!(
        log.log_start(),
        Offset::ZERO,
        "of the first segment a header is left, which goes by the age of its file"
    );
    world.clock.advance(10_001);
    assert_eq!(manager.clean_dirtiest(), CleanOutcome::NothingToDo);
    assert_eq!(offsets(&log), [] as [i64; 0], "their timestamps are long past");
    assert_eq!(log.log_start(), log.log_end());
}

#[test]
fn no_more_is_read_and_written_than_may_be_and_a_stop_ends_the_rest() {
    let (_, world) = compacted();
    let manager = world.start().unwrap();
    let cleaner = CleanerConfig { io_max_bytes_per_second: 1.0, ..CleanerConfig::default() };
    manager.set_config(Arc::new(BrokerConfig { cleaner, ..world.config() }));
    let log = world.log(&manager, "t").unwrap();
    send(&log, 30);
    std::thread::scope(|scope| {
        let cleaning = scope.spawn(|| manager.clean_dirtiest());
        manager.stop_cleaning();
        let outcome = cleaning.join().unwrap();
        assert!(matches!(outcome, CleanOutcome::GivenUp | CleanOutcome::NothingToDo), "{outcome:?}");
    });
    assert_eq!(offsets(&log).len(), 30);
    assert_eq!(manager.clean_dirtiest(), CleanOutcome::NothingToDo, "it stays stopped");
}
