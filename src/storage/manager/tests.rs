use futures_util::FutureExt;

use super::*;
use crate::clock::ManualClock;
use crate::random::SeededRandom;
use crate::sim::disk::{Fault, Keep, SimDisk};
use crate::storage::atomic_file;
use crate::storage::disk_real::RealDisk;
use crate::storage::log::{AbortedTransaction, AppendError, AppendParams, Origin, ReadError};
use crate::storage::testing::{Sender, TOPIC_ID, World, batch, batch_of, batches, client, marker};
use crate::types::{LeaderEpoch, Offset};
use crate::wire::error_code::ErrorCode;

fn sim() -> (SimDisk, World) {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let disk = SimDisk::new(clock.clone());
    let world = World::new(Arc::new(disk.clone()), "/logs", clock);
    (disk, world)
}

#[test]
fn what_was_appended_is_there_after_a_stop_and_after_a_kill() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(Arc::new(RealDisk), home.path().join("logs"), Arc::new(ManualClock::at(1000)));
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    for at in 0..10 {
        let info = log.append_as_leader(&mut batch(3), client(0, 1000)).unwrap();
        assert_eq!(info.first_offset, Offset(3 * at));
    }
    log.set_high_watermark(Offset(30));
    let whole = log.read(Offset(4), Offset(30), 1 << 20, true).unwrap().slice.unwrap();
    assert_eq!(whole.position, batch(3).len() as u64);
    assert_eq!(whole.len, batch(3).len() * 9);
    manager.close();
    drop((manager, log));

    let manager = world.start().unwrap();
    assert_eq!(manager.stored_broker_id(), Some(BrokerId(1)));
    let log = world.log(&manager, "t").unwrap();
    assert_eq!(log.offsets().log_end, Offset(30));
    assert_eq!(log.offsets().high_watermark, Offset(30));
    log.append_as_leader(&mut batch(2), client(0, 1000)).unwrap();
    drop((manager, log));

    let manager = world.start().unwrap();
    let log = manager.get(&TopicPartition::new("t", 0)).unwrap();
    assert_eq!(log.offsets().log_end, Offset(32));
    assert_eq!(log.topic_id(), TOPIC_ID);
}

#[test]
fn a_partition_without_records_is_a_directory_and_nothing_else() {
    let (disk, world) = sim();
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    let in_home = || disk.list(Path::new("/logs/t-0")).unwrap().len();
    assert_eq!(in_home(), 0);
    log.assign_epoch(LeaderEpoch(3)).unwrap();
    log.flush().unwrap();
    world.clock.advance(400_000);
    manager.run_all_due_tasks();
    assert_eq!(log.segments_modified().unwrap(), [(Offset(0), 1_000_000)]);
    manager.close();
    assert_eq!((in_home(), manager.any_offline()), (0, false));

    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    // A follower may begin past a gap.
    let mut bytes = batch(2);
    crate::wire::batch::stamp::set_base_offset(&mut bytes, Offset(7));
    log.append_as_follower(&bytes, 1000).unwrap();
    log.flush().unwrap();
    let disk = disk.after_crash(Keep::Nothing);
    let world = World::new(Arc::new(disk), "/logs", Arc::new(ManualClock::at(1_000_000)));
    let log = world.log(&world.start().unwrap(), "t").unwrap();
    assert_eq!(batches(&log).len(), 1, "what was flushed is there with its names");
}

#[test]
fn a_directory_that_a_power_loss_took_is_made_again_with_its_topic_id() {
    let (disk, world) = sim();
    let manager = world.start().unwrap();
    assert_eq!(world.log(&manager, "t").unwrap().topic_id(), TOPIC_ID);
    disk.crash(Keep::Nothing);
    assert!(disk.info(Path::new("/logs/t-0")).is_err(), "nothing made it durable");
    let manager = world.start().unwrap();
    assert!(manager.get(&TopicPartition::new("t", 0)).is_none());
    let log = world.log(&manager, "t").unwrap();
    log.append_as_leader(&mut batch(1), client(0, 1000)).unwrap();
    log.flush().unwrap();
    disk.crash(Keep::Nothing);
    let told = crate::storage::partition_metadata::read(&disk, Path::new("/logs/t-0")).unwrap();
    assert_eq!(told, Some(TOPIC_ID), "durable with the first record");
    assert_eq!(world.log(&world.start().unwrap(), "t").unwrap().offsets().log_end, Offset(1));
}

#[test]
fn an_empty_partition_metadata_is_written_again() {
    let (disk, world) = sim();
    let manager = world.start().unwrap();
    world.log(&manager, "t").unwrap().append_as_leader(&mut batch(1), client(0, 1000)).unwrap();
    manager.close();
    let path = Path::new("/logs/t-0/partition.metadata");
    let told = atomic_file::read(&disk, path).unwrap();
    assert!(!told.is_empty());
    disk.edit(path, Vec::clear).unwrap();
    let manager = world.start().unwrap();
    world.log(&manager, "t").unwrap().append_as_leader(&mut batch(1), client(0, 1000)).unwrap();
    manager.flush_asked(0);
    assert_eq!(atomic_file::read(&disk, path).unwrap(), told);
}

#[test]
fn a_new_log_and_a_rolled_segment_ask_for_their_fsync_at_once() {
    let (disk, mut world) = sim();
    world.topic.segment_bytes = 200;
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    let asked = || manager.flush_is_asked(0).now_or_never().is_some();
    assert!(!asked());
    for (roll, batches) in [(false, 1), (true, 2)] {
        for _ in 0..batches {
            log.append_as_leader(&mut batch(3), client(0, 1000)).unwrap();
        }
        assert_eq!((asked(), asked()), (true, false));
        assert_eq!(log.view.load().segments.len() > 1, roll);
        manager.flush_asked(0);
    }
    assert!(log.recovery_point() >= log.active().unwrap().base());
    assert!(disk.info(Path::new("/logs/t-0/partition.metadata")).is_ok());
}

#[test]
fn an_orderly_stop_leaves_nothing_for_the_next_start_to_read() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(Arc::new(RealDisk), home.path().join("logs"), Arc::new(ManualClock::at(1000)));
    let snapshots = || {
        let names = std::fs::read_dir(home.path().join("logs/t-0")).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.retain(|name| name.ends_with(".snapshot"));
        names
    };
    // A start replays what lies behind the newest snapshot, also where no producer wrote any of it.
    for stop in 1..=3 {
        let manager = world.start().unwrap();
        let log = world.log(&manager, "t").unwrap();
        log.append_as_leader(&mut batch(3), client(0, 1000)).unwrap();
        manager.close();
        let at_log_end = format!("{:020}.snapshot", 3 * stop);
        assert!(snapshots().contains(&at_log_end), "{:?} and no {at_log_end}", snapshots());
    }
}

#[test]
fn an_aborted_transaction_is_listed_and_holds_the_last_stable_offset() {
    let (_, world) = sim();
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    let sender = Sender { id: 7, epoch: 0, sequence: 0, transactional: true };
    log.append_as_leader(&mut batch(2), client(0, 1000)).unwrap();
    log.append_as_leader(&mut batch_of(3, 1000, 5, Some(sender)), client(0, 1000)).unwrap();
    log.set_high_watermark(Offset(5));
    assert_eq!(log.offsets().last_stable, Offset(2));
    let by = AppendParams { origin: Origin::Coordinator, ..client(0, 1000) };
    assert_eq!(log.append_as_leader(&mut marker(7, 0, false, 1), by).unwrap().last_offset, Offset(5));
    assert_eq!(log.offsets().last_stable, Offset(2), "the marker is not below the high watermark yet");
    log.set_high_watermark(Offset(6));
    assert_eq!(log.offsets().last_stable, Offset(6));
    let read = log.read(Offset(0), Offset(6), 1 << 20, true).unwrap();
    let aborted = log.aborted_transactions(Offset(0), &read).unwrap();
    assert_eq!(aborted, [AbortedTransaction { producer_id: 7, first_offset: Offset(2) }]);
}

#[test]
fn what_was_read_of_a_segment_that_is_gone_since_still_names_its_aborted_transactions() {
    let (_, world) = sim();
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    let sender = Sender { id: 7, epoch: 0, sequence: 0, transactional: true };
    log.append_as_leader(&mut batch_of(3, 1000, 5, Some(sender)), client(0, 1000)).unwrap();
    let by = AppendParams { origin: Origin::Coordinator, ..client(0, 1000) };
    log.append_as_leader(&mut marker(7, 0, false, 1), by).unwrap();
    log.set_high_watermark(Offset(4));
    let read = log.read(Offset(0), Offset(4), 1 << 20, true).unwrap();
    log.raise_log_start(Offset(4));
    assert_eq!(log.apply_retention(1000).unwrap().len(), 1);
    let aborted = log.aborted_transactions(Offset(0), &read).unwrap();
    assert_eq!(aborted, [AbortedTransaction { producer_id: 7, first_offset: Offset(0) }]);
}

#[test]
fn a_transaction_that_begins_during_a_look_is_not_seen_as_decided() {
    let (_, world) = sim();
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    log.append_as_leader(&mut batch(2), client(0, 1000)).unwrap();
    log.set_high_watermark(Offset(2));
    let seen = log.offsets_while(|| {
        let sender = Sender { id: 7, epoch: 0, sequence: 0, transactional: true };
        log.append_as_leader(&mut batch_of(3, 1000, 5, Some(sender)), client(0, 1000)).unwrap();
        log.set_high_watermark(Offset(5));
    });
    assert_eq!(seen.last_stable, Offset(2));
    // A log start that rises meanwhile takes the others along.
    let seen = log.offsets_while(|| log.raise_log_start(Offset(4)));
    assert!(seen.log_start <= seen.last_stable && seen.last_stable <= seen.high_watermark, "{seen:?}");
}

fn refusal(result: Result<LogManager, ManagerError>) -> String {
    match result {
        Err(ManagerError::Refused(sentence)) => sentence,
        other => panic!("not refused: {other:?}"),
    }
}

fn write(disk: &SimDisk, path: &str, bytes: &str) {
    disk.create_dir_all(Path::new(path).parent().unwrap()).unwrap();
    atomic_file::replace(disk, Path::new(path), bytes.as_bytes()).unwrap();
}

#[test]
fn directories_of_others_are_refused_in_one_sentence_and_left_as_they_are() {
    let check = |meta: &str, expected: &str| {
        let (disk, world) = sim();
        write(&disk, "/logs/meta.properties", meta);
        let before = disk.list(Path::new("/logs")).unwrap();
        let sentence = refusal(world.start());
        assert!(sentence.contains(expected) && sentence.contains("/logs"), "{sentence}");
        let after = disk.list(Path::new("/logs")).unwrap();
        assert_eq!(before, after.into_iter().filter(|entry| entry.name != ".lock").collect::<Vec<_>>());
    };
    check("version=1\nnode.id=1\ncluster.id=cluster-a\n", "KRaft");
    check("version=0\nbroker.id=1\ncluster.id=other\n", "belongs to cluster other");
    check("version=0\nbroker.id=4\ncluster.id=cluster-a\n", "belongs to broker 4");
    check("version=seven\n", "version=seven");
    check("version=3\n", "unknown version 3");

    let (disk, world) = sim();
    write(&disk, "/logs", "a file");
    assert!(refusal(world.start()).contains("is not a directory"));

    let (_, world) = sim();
    let _running = world.start().unwrap();
    assert!(refusal(world.open()).contains("in use by another broker process"));
}

#[test]
fn a_second_process_is_told_from_the_first_on_a_real_disk() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(Arc::new(RealDisk), home.path().join("logs"), Arc::new(ManualClock::at(1000)));
    let running = world.start().unwrap();
    assert!(refusal(world.open()).contains("in use"));
    assert!(refusal(world.open()).contains("in use"), "being refused does not free the lock");
    running.close();
    drop(running);
    world.open().unwrap();
}

#[test]
fn what_is_not_wanted_is_left_alone() {
    let (disk, world) = sim();
    for name in ["lost+found", "data", "other-0", "t-x", "t-0.abc-delete", "remote-log-index-cache"] {
        disk.create_dir_all(&Path::new("/logs").join(name)).unwrap();
    }
    write(&disk, "/logs/other-0/00000000000000000000.log", "bytes");
    write(&disk, "/logs/klamm-metastore.journal", "ours");
    let manager = world.start().unwrap();
    assert!(manager.all().is_empty());
    manager.close();
    let names: Vec<String> = disk.list(Path::new("/logs")).unwrap().into_iter().map(|entry| entry.name).collect();
    for name in ["lost+found", "data", "other-0", "t-x", "t-0.abc-delete", "klamm-metastore.journal"] {
        assert!(names.iter().any(|there| there == name), "{name} is gone");
    }
    assert!(!names.contains(&".kafka_cleanshutdown".to_owned()), "other-0 was not checked: nothing vouches for it");
}

#[test]
fn a_directory_of_an_earlier_topic_of_that_name_is_moved_aside() {
    let (disk, world) = sim();
    write(&disk, "/logs/t-0/partition.metadata", "version: 0\ntopic_id: 4nxE6aMCSQqtqX9iMl2vtA");
    write(&disk, "/logs/t-0/00000000000000000000.log", "old bytes");
    let manager = world.start().unwrap();
    assert!(manager.all().is_empty());
    let log = world.log(&manager, "t").unwrap();
    assert_eq!(log.offsets().log_end, Offset(0));
    assert_eq!(strays(&disk, "/logs"), 1);
}

fn strays(disk: &SimDisk, dir: &str) -> usize {
    let entries = disk.list(Path::new(dir)).unwrap();
    entries.into_iter().filter(|entry| entry.name.ends_with("-stray")).count()
}

/// In another directory than the new one goes to, and in the same one when somebody puts it there while the broker runs.
#[test]
fn a_directory_that_is_there_already_is_moved_aside_wherever_it_is() {
    let (disk, mut world) = sim();
    world.other = Some("/other".into());
    write(&disk, "/other/t-0/partition.metadata", "version: 0\ntopic_id: 4nxE6aMCSQqtqX9iMl2vtA");
    let manager = world.start().unwrap();
    assert_eq!(world.log(&manager, "t").unwrap().dir(), Path::new("/logs"));
    assert_eq!((strays(&disk, "/logs"), strays(&disk, "/other")), (0, 1));
    write(&disk, "/other/u-0/00000000000000000000.log", "bytes of somebody");
    let log = world.log(&manager, "u").unwrap();
    assert_eq!((log.dir(), log.log_end()), (PathBuf::from("/other"), Offset(0)));
    assert_eq!(strays(&disk, "/other"), 2);
}

#[test]
fn a_deleted_log_goes_after_the_delay_and_leaves_no_checkpoint() {
    let (disk, world) = sim();
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    log.append_as_leader(&mut batch(5), client(0, 1000)).unwrap();
    log.set_high_watermark(Offset(5));
    log.raise_log_start(Offset(3));
    world.clock.advance(60_000);
    manager.run_all_due_tasks();
    manager.delete(log.topic_partition()).unwrap();
    assert!(log.append_as_leader(&mut batch(1), client(0, 1000)).is_err());
    let awaiting = || disk.list(Path::new("/logs")).unwrap().iter().any(|entry| entry.name.ends_with("-delete"));
    assert!(awaiting());
    let log = world.log(&manager, "t").unwrap();
    log.append_as_leader(&mut batch(1), client(0, 1000)).unwrap();
    world.clock.advance(60_000);
    manager.run_all_due_tasks();
    assert!(!awaiting());
    drop((manager, log));
    disk.crash(Keep::Everything);
    let manager = world.start().unwrap();
    let offsets = world.log(&manager, "t").unwrap().offsets();
    assert_eq!((offsets.log_start, offsets.log_end), (Offset(0), Offset(1)));
}

#[test]
fn what_an_orderly_stop_left_survives_a_power_loss() {
    let (disk, world) = sim();
    let manager = world.start().unwrap();
    let (restarted, written) = (world.log(&manager, "t1").unwrap(), world.log(&manager, "t2").unwrap());
    for log in [&restarted, &written] {
        log.append_as_leader(&mut batch(5), client(7, 1000)).unwrap();
    }
    restarted.flush().unwrap();
    restarted.truncate_fully_and_start_at(Offset(3)).unwrap();
    manager.close();
    disk.crash(Keep::Nothing);
    let manager = world.start().unwrap();
    let [restarted, written] = ["t1", "t2"].map(|topic| world.log(&manager, topic).unwrap());
    assert_eq!((restarted.offsets().log_start, restarted.offsets().log_end), (Offset(3), Offset(3)));
    assert_eq!((written.offsets().log_end, written.latest_epoch()), (Offset(5), Some(LeaderEpoch(7))));
}

#[test]
fn a_failed_write_or_fsync_takes_that_directory_offline_and_no_other() {
    for fault in [Fault::ShortWrite, Fault::WriteError, Fault::SyncError] {
        let (disk, world) = sim();
        let config = BrokerConfig { log_dirs: vec!["/a".into(), "/b".into()], ..BrokerConfig::default() };
        let random = Arc::new(SeededRandom::new(1));
        let manager = LogManager::open(world.disk.clone(), world.clock.clone(), random, Arc::new(config)).unwrap();
        manager.load(&|_| None).unwrap();
        let (sick, well) = (world.log(&manager, "t1").unwrap(), world.log(&manager, "t2").unwrap());
        assert_ne!(sick.dir(), well.dir());
        for log in [&sick, &well] {
            log.append_as_leader(&mut batch(2), client(0, 1000)).unwrap();
        }
        disk.fail_next(fault, "t1-0/00000000000000000000.log");
        let failed = match fault {
            Fault::SyncError => sick.flush().is_err(),
            _ => matches!(sick.append_as_leader(&mut batch(2), client(0, 1000)), Err(AppendError::Storage { .. })),
        };
        assert!(failed);
        assert!(manager.is_offline(&sick.dir()));
        assert!(sick.flush().is_err(), "an fsync that failed is not tried again");
        assert!(sick.append_as_leader(&mut batch(1), client(0, 1000)).is_err());
        assert!(sick.read(Offset(0), Offset(2), 100, true).is_err());
        well.append_as_leader(&mut batch(2), client(0, 1000)).unwrap();
        well.flush().unwrap();
        manager.close();
        let (ill, fine) = (sick.dir().join(".kafka_cleanshutdown"), well.dir().join(".kafka_cleanshutdown"));
        assert!(disk.info(&ill).is_err() && disk.info(&fine).is_ok());
    }
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let (disk, world) = sim();
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    let mut end = Offset(0);
    disk.set_capacity(10_000);
    loop {
        match log.append_as_leader(&mut batch_of(1, 1000, 500, None), client(0, 1000)) {
            Ok(info) => end = info.last_offset + 1,
            Err(AppendError::Storage { .. }) => break,
            Err(e) => panic!("{e}"),
        }
    }
    assert!(end > Offset(10));
    manager.close();
    drop(manager);
    disk.set_capacity(u64::MAX);
    disk.crash(Keep::Everything);
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    assert_eq!(log.offsets().log_end, end);
    log.append_as_leader(&mut batch(1), client(0, 1000)).unwrap();
}

#[test]
fn sequences_are_checked_as_kafka_does() {
    let (_, world) = sim();
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    let send = |id, epoch, sequence| {
        let sender = Sender { id, epoch, sequence, transactional: false };
        match log.append_as_leader(&mut batch_of(2, 1000, 5, Some(sender)), client(0, 1000)) {
            Ok(info) if info.duplicate => format!("again {}", info.first_offset),
            Ok(info) => format!("at {}", info.first_offset),
            Err(AppendError::Refused { code, .. }) => format!("{code:?}"),
            Err(e) => panic!("{e}"),
        }
    };
    assert_eq!(send(1, 0, 10), "at 0", "any sequence of an unknown producer");
    for n in 0..5 {
        assert_eq!(send(1, 0, 12 + 2 * n), format!("at {}", 2 + 2 * n));
    }
    assert_eq!(send(1, 0, 12), "again 2", "the oldest of five");
    assert_eq!(send(1, 0, 10), format!("{:?}", ErrorCode::OutOfOrderSequenceNumber), "older than five");
    assert_eq!(send(1, 0, 23), format!("{:?}", ErrorCode::OutOfOrderSequenceNumber));
    assert_eq!(send(1, 1, 1), format!("{:?}", ErrorCode::OutOfOrderSequenceNumber), "a new epoch begins with 0");
    assert_eq!(send(1, 1, 0), "at 12");
    assert_eq!(send(1, 0, 22), format!("{:?}", ErrorCode::InvalidProducerEpoch));
    assert_eq!(send(2, 0, i32::MAX - 1), "at 14");
    assert_eq!(send(2, 0, 0), "at 16", "0 comes after the greatest");
    assert_eq!(batches(&log).len(), 9);
}

#[test]
fn a_producer_is_known_after_a_kill_with_all_five_batches() {
    let (disk, world) = sim();
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    let mut bytes: Vec<Vec<u8>> = Vec::new();
    for n in 0..4 {
        let sender = Sender { id: 1, epoch: 0, sequence: n, transactional: false };
        bytes.push(batch_of(1, 1000, 5, Some(sender)));
        log.append_as_leader(&mut bytes[n as usize].clone(), client(0, 1000)).unwrap();
    }
    disk.crash(Keep::Everything);
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    for (n, bytes) in bytes.iter_mut().enumerate() {
        let info = log.append_as_leader(bytes, client(0, 1000)).unwrap();
        assert!(info.duplicate && info.first_offset == Offset(n as i64));
    }
}

#[test]
fn an_idle_producer_is_forgotten_unless_its_transaction_is_open() {
    let (_, world) = sim();
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    let append = |id, transactional| {
        let now_ms = world.clock.wall_ms();
        let sender = Sender { id, epoch: 0, sequence: 0, transactional };
        log.append_as_leader(&mut batch_of(1, now_ms, 10, Some(sender)), client(0, now_ms)).unwrap();
    };
    let known = || {
        manager.run_all_due_tasks();
        let mut known: Vec<i64> = log.producers_as(|id, _| id).expect("nobody appends");
        known.sort();
        known
    };
    append(5, false);
    append(6, true);
    let config = world.config();
    world.clock.advance(config.producer_id_expiration_ms - 1);
    append(7, false);
    assert_eq!(known(), [5, 6, 7]);
    world.clock.advance(config.producer_id_expiration_check_interval_ms.into());
    assert_eq!(known(), [6, 7]);
}

#[test]
fn readers_retention_and_a_writer_do_not_disturb_each_other() {
    let (_, mut world) = sim();
    world.topic.segment_bytes = 2000;
    world.topic.index_interval_bytes = 200;
    world.topic.retention_bytes = 10_000;
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..2_u64 {
            let (log, done) = (&log, &done);
            scope.spawn(move || {
                let random = SeededRandom::new(seed);
                let mut reads = 0;
                while !done.load(Ordering::Acquire) || reads == 0 {
                    let offsets = log.offsets();
                    let span = offsets.high_watermark - offsets.log_start;
                    if span <= 0 {
                        std::thread::yield_now();
                        continue;
                    }
                    let from = offsets.log_start + random.below(span as u64) as i64;
                    let read = match log.read(from, offsets.high_watermark, 300, true) {
                        Ok(read) => read,
                        Err(ReadError::OutOfRange { log_start, .. }) if from < log_start => continue,
                        Err(e) => panic!("{e}"),
                    };
                    let slice = read.slice.unwrap_or_else(|| panic!("nothing at {from}, below the high watermark"));
                    let mut bytes = vec![0; slice.len];
                    slice.file.read_exact_at(&mut bytes, slice.position).unwrap();
                    let header = crate::wire::batch::BatchHeader::parse(&bytes).unwrap();
                    assert!(header.base_offset <= from && from <= header.last_offset());
                    reads += 1;
                }
            });
        }
        for n in 0..1500 {
            let info = log.append_as_leader(&mut batch(1 + n % 3), client(0, 1000)).unwrap();
            log.set_high_watermark(info.last_offset + 1);
            if n % 100 == 99 {
                world.clock.advance(400_000);
                manager.run_all_due_tasks();
            }
        }
        done.store(true, Ordering::Release);
    });
    assert!(log.offsets().log_start > Offset(0), "retention took nothing");
}

#[test]
fn the_last_directory_to_fail_is_reported_as_such() {
    let (disk, world) = sim();
    let manager = world.start().unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let for_watcher = told.clone();
    manager.watch_offline(move |path, last| for_watcher.lock().push((path.to_path_buf(), last)));
    let log = world.log(&manager, "t").unwrap();
    log.append_as_leader(&mut batch(1), client(0, 1000)).unwrap();
    disk.fail_next(Fault::WriteError, ".log");
    assert!(log.append_as_leader(&mut batch(1), client(0, 1000)).is_err());
    assert_eq!(*told.lock(), [(PathBuf::from("/logs"), true)]);
}

/// Deletion, creation and what the timer does.
#[test]
fn a_directory_that_stands_still_holds_up_no_other() {
    let (disk, mut world) = sim();
    world.other = Some("/other".into());
    let manager = world.start().unwrap();
    for topic in ["a", "b"] {
        world.log(&manager, topic).unwrap().append_as_leader(&mut batch(3), client(0, 1000)).unwrap();
    }
    let (a, b) = (TopicPartition::new("a", 0), TopicPartition::new("b", 0));
    assert_eq!(manager.get(&b).unwrap().dir(), Path::new("/other"));
    disk.stall(Path::new("/logs"));
    let (done, over) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let deleting = scope.spawn(|| manager.delete(&a));
        scope.spawn(|| manager.run_due_tasks(0));
        scope.spawn(|| {
            // It is on its way to the disk.
            while manager.get(&a).is_some() {
                std::thread::yield_now();
            }
            manager.delete(&b).unwrap();
            // Where there are fewest.
            assert_eq!(world.log(&manager, "c").unwrap().dir(), Path::new("/other"));
            manager.run_due_tasks(1);
            done.send(()).unwrap();
        });
        let went_on = over.recv_timeout(std::time::Duration::from_secs(60));
        let still = !deleting.is_finished();
        disk.go_on();
        assert!(went_on.is_ok() && still);
    });
}

#[test]
fn a_place_is_kept_for_a_log_until_it_is_made_or_given_up() {
    let (disk, mut world) = sim();
    world.other = Some("/other".into());
    let manager = world.start().unwrap();
    let tp = |topic: &str| TopicPartition::new(topic, 0);
    assert_eq!(manager.dir_of(&tp("a")), None);
    let places = ["a", "b", "a", "c"].map(|topic| manager.place(&tp(topic)).unwrap());
    assert_eq!(places.each_ref().map(|place| place.to_str().unwrap()), ["/logs", "/other", "/logs", "/logs"]);
    // Made in another order than places were given, and with less there.
    for (topic, dir) in [("c", "/logs"), ("b", "/other"), ("a", "/logs")] {
        assert_eq!(manager.dir_of(&tp(topic)).unwrap(), Path::new(dir));
        assert_eq!(world.log(&manager, topic).unwrap().dir(), Path::new(dir));
    }
    // A log that is made is counted once.
    for (topic, dir) in [("d", "/other"), ("f", "/logs")] {
        assert_eq!(manager.place(&tp(topic)).unwrap(), Path::new(dir));
    }
    manager.give_places_up(["d", "f", "a"].map(tp).iter());
    assert_eq!((manager.dir_of(&tp("d")), manager.dir_of(&tp("a"))), (None, Some("/logs".into())));
    assert_eq!(manager.place(&tp("e")).unwrap(), Path::new("/other"), "as if the others had not been");
    // Its directory is lost before.
    let log = manager.get(&tp("b")).unwrap();
    disk.fail_next(Fault::WriteError, "/other/b-0");
    log.append_as_leader(&mut batch(1), client(0, 1000)).unwrap_err();
    assert_eq!(world.log(&manager, "e").unwrap().dir(), Path::new("/logs"));
}
