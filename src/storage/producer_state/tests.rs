//! Verification (KIP-890): what begins a transaction in a log must have been asked about, and nothing since.

use std::sync::Arc;

use super::*;
use crate::clock::ManualClock;
use crate::sim::disk::SimDisk;
use crate::storage::log::{AppendError, AppendParams, Log, Origin};
use crate::storage::testing::{Sender, World, batch_of, client, marker};

fn world() -> World {
    let clock = Arc::new(ManualClock::at(1_000_000));
    World::new(Arc::new(SimDisk::new(clock.clone())), "/logs", clock)
}

fn append(log: &Log, epoch: i16, sequence: i32, shown: Option<VerificationGuard>) -> Result<Offset, ErrorCode> {
    let sender = Sender { id: 7, epoch, sequence, transactional: true };
    let params = AppendParams { verification: Verification::Required(shown), ..client(0, 1000) };
    let outcome = log.append_as_leader(&mut batch_of(1, 1000, 5, Some(sender)), params);
    outcome.map(|info| info.first_offset).map_err(|error| match error {
        AppendError::Refused { code, .. } => code,
        other => panic!("{other}"),
    })
}

fn end(log: &Log, epoch: i16) {
    let by = AppendParams { origin: Origin::Coordinator, ..client(0, 1000) };
    log.append_as_leader(&mut marker(7, epoch, false, 1), by).unwrap();
}

#[test]
fn a_transaction_begins_with_the_guard_of_its_verification_and_goes_on_without() {
    let world = world();
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    assert_eq!(append(&log, 0, 0, None), Err(ErrorCode::InvalidTxnState), "nobody asked");
    let guard = log.begin_verification(7, 0, 0, 1000);
    assert!(guard.is_some());
    assert_eq!(append(&log, 0, 0, None), Err(ErrorCode::InvalidTxnState));
    assert_eq!(log.begin_verification(8, 0, 0, 1000).map(|other| Some(other) == guard), Some(false));
    assert_eq!(log.begin_verification(7, 0, 0, 1000), guard, "asked again, about the same");
    assert_eq!(append(&log, 0, 0, guard), Ok(Offset(0)));
    assert_eq!(log.begin_verification(7, 0, 1, 1000), None, "it is open");
    assert_eq!(append(&log, 0, 1, None), Ok(Offset(1)));
    assert_eq!(append(&log, 0, 0, None), Ok(Offset(0)), "a duplicate needs none");
}

/// The coordinator said yes, then the transaction was ended, then the batch came: nobody would ever end it.
#[test]
fn a_marker_makes_an_answer_about_the_transaction_before_it_worthless() {
    let world = world();
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    let late = log.begin_verification(7, 0, 0, 1000);
    end(&log, 0);
    assert_eq!(append(&log, 0, 0, late), Err(ErrorCode::InvalidTxnState));
    // Also when the next one is being verified.
    let next = log.begin_verification(7, 0, 0, 1000);
    assert_ne!(late, next);
    assert_eq!(append(&log, 0, 0, late), Err(ErrorCode::InvalidTxnState));
    assert_eq!(append(&log, 0, 0, next), Ok(Offset(1)));
}

#[test]
fn whoever_names_a_later_epoch_is_not_let_into_an_open_transaction() {
    let world = world();
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    let guard = log.begin_verification(7, 0, 0, 1000);
    assert_eq!(append(&log, 0, 0, guard), Ok(Offset(0)));
    assert!(log.begin_verification(7, 5, 0, 1000).is_some(), "the coordinator is asked about that epoch");
    assert_eq!(append(&log, 5, 0, None), Err(ErrorCode::InvalidTxnState));
    end(&log, 0);
    log.set_high_watermark(Offset(2));
    assert_eq!(log.offsets().last_stable, Offset(2), "its marker is written");
}

/// Of two batches the first one's verification fails and is tried again: the second must not pass it.
#[test]
fn a_batch_does_not_pass_one_that_is_being_verified() {
    let world = world();
    let manager = world.start().unwrap();
    let log = world.log(&manager, "t").unwrap();
    let guard = log.begin_verification(7, 0, 0, 1000);
    assert_eq!(log.begin_verification(7, 0, 1, 1000), guard);
    assert_eq!(append(&log, 0, 1, guard), Err(ErrorCode::OutOfOrderSequenceNumber));
    assert_eq!(append(&log, 0, 0, guard), Ok(Offset(0)));
    assert_eq!(append(&log, 0, 1, None), Ok(Offset(1)));
    // A later epoch begins anew.
    end(&log, 1);
    log.begin_verification(7, 1, 5, 1000);
    let guard = log.begin_verification(7, 2, 0, 1000);
    assert_eq!(append(&log, 2, 0, guard), Ok(Offset(3)));
}

#[test]
fn what_is_never_appended_is_forgotten() {
    let mut states = ProducerStates::default();
    let guard = states.begin_verification(7, 0, 0, 1_000);
    states.expire(1_099, 100);
    assert_eq!(states.begin_verification(7, 0, 0, 1_000), guard);
    states.expire(1_100, 100);
    let later = states.begin_verification(7, 0, 0, 1_100);
    assert_ne!(later, guard);
    states.clear();
    assert_ne!(states.begin_verification(7, 0, 0, 1_100), guard, "no guard comes twice");
}
