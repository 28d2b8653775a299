use std::path::Path;

use super::*;
use crate::clock::ManualClock;
use crate::sim::disk::{Keep, SimDisk};
use crate::storage::disk::Disk;
use crate::storage::log::{AppendParams, Origin};
use crate::storage::testing::{Sender, World, batch_of, client, marker};

const LOG: &str = "/logs/t-0/00000000000000000000.log";
const CHECKPOINT: &str = "/logs/recovery-point-offset-checkpoint";
/// Bytes of a record: enough of them fill more than is checked before the recovery point.
const VALUE: usize = 100_000;

/// A log that was stopped in order and then went on until it was killed, an aborted transaction on either side of the stop,
/// all in one segment. Also the log ends at the stop and at the kill.
fn killed() -> (SimDisk, World, Offset, Offset) {
    let disk = SimDisk::new(Arc::new(ManualClock::at(1_000_000)));
    let world = World::new(Arc::new(disk.clone()), "/logs", Arc::new(ManualClock::at(1_000_000)));
    let (mut sequence, mut ends) = (0, Vec::new());
    for (epoch, batches) in [(0, 20), (1, 3)] {
        let manager = world.start().unwrap();
        let log = world.log(&manager, "t").unwrap();
        for _ in 0..batches {
            let sender = Sender { id: 5, epoch: 0, sequence, transactional: false };
            let mut bytes = batch_of(1, 1000 + i64::from(sequence * 7 % 50), VALUE, Some(sender));
            log.append_as_leader(&mut bytes, client(epoch, 1_000_000)).unwrap();
            sequence += 1;
        }
        let open = Sender { id: 9, epoch: epoch as i16, sequence: 0, transactional: true };
        log.append_as_leader(&mut batch_of(3, 1000, 5, Some(open)), client(epoch, 1_000_000)).unwrap();
        let by = AppendParams { origin: Origin::Coordinator, ..client(epoch, 1_000_000) };
        log.append_as_leader(&mut marker(9, epoch as i16, false, epoch), by).unwrap();
        log.set_high_watermark(log.log_end());
        ends.push(log.log_end());
        if epoch == 0 {
            manager.close();
        }
    }
    disk.crash(Keep::Everything);
    (disk, world, ends[0], ends[1])
}

/// Everything a start makes of a log.
fn known(world: &World) -> impl PartialEq + std::fmt::Debug + use<> {
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    let segment = log.active().unwrap();
    let mut producers = log.producers();
    producers.sort_by_key(|(id, _)| *id);
    (
        log.log_end(),
        (segment.offsets.all().unwrap(), segment.times.all().unwrap(), segment.max_timestamp_and_offset().unwrap()),
        segment.txns.all().unwrap(),
        log.epochs.read().entries().to_vec(),
        format!("{producers:?}"),
    )
}

fn log_end(world: &World) -> Offset {
    world.log(&world.start().unwrap(), "t").unwrap().log_end()
}

#[test]
fn a_body_well_below_the_recovery_point_is_not_read_again() {
    // Bytes that no crash can have torn: only one who reads the body notices.
    let (disk, world, _, end) = killed();
    disk.edit(Path::new(LOG), |bytes| bytes[VALUE / 2] ^= 1).unwrap();
    assert_eq!(log_end(&world), end);
}

#[test]
fn what_lies_behind_the_recovery_point_is_checked() {
    let (disk, world, _, end) = killed();
    disk.edit(Path::new(LOG), |bytes| *bytes.last_mut().unwrap() ^= 1).unwrap();
    assert_eq!(log_end(&world), end + -1, "the marker alone is lost");
}

#[test]
fn a_disk_that_forgot_what_it_promised_to_keep_is_not_trusted_at_all() {
    let (disk, world, stopped, _) = killed();
    // The last record before the stop that is not of a transaction, and the very first.
    for position in [19 * VALUE, VALUE / 2] {
        disk.edit(Path::new(LOG), |bytes| bytes[position] ^= 1).unwrap();
        let first_lost = if position < VALUE { Offset::ZERO } else { Offset(18) };
        assert!(first_lost < stopped);
        let (copy, clock) = (disk.fork(), Arc::new(ManualClock::at(1_000_000)));
        assert_eq!(log_end(&World::new(Arc::new(copy), "/logs", clock)), first_lost, "damage at byte {position}");
    }
    drop(world);
}

#[test]
fn a_start_that_trusts_knows_what_one_that_reads_everything_does() {
    let (_, world, ..) = killed();
    let trusting = known(&world);
    let (disk, world, ..) = killed();
    disk.remove_file(Path::new(CHECKPOINT)).unwrap();
    assert_eq!(trusting, known(&world));
}

#[test]
fn a_log_shorter_than_its_recovery_point_ends_with_its_last_whole_batch() {
    let (disk, world, ..) = killed();
    disk.edit(Path::new(LOG), |bytes| bytes.truncate(10 * VALUE)).unwrap();
    assert_eq!(log_end(&world), Offset(9));
}
