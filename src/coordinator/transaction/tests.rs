//! One transactional id, request by request, as a live 3.9.1 answers.

use super::testing::{Bench, EXPIRATION_MS, ID, TIMEOUT_MS, at};
use super::*;
use crate::wire::error_code::ErrorCode as E;

#[test]
fn a_producer_begins_with_epoch_0_and_the_next_one_fences_it() {
    let mut bench = Bench::default();
    assert_eq!(bench.init(None), Ok((1_000, 0)));
    assert_eq!(bench.init(None), Ok((1_000, 1)));
    assert_eq!(bench.add((1_000, 0), &[at("t", 0)]), E::ProducerFenced);
    assert_eq!(bench.end((1_000, 0), true), E::ProducerFenced);
    assert_eq!(bench.add((1_000, 2), &[at("t", 0)]), E::ProducerFenced, "from the future");
    assert_eq!(bench.add((7, 1), &[at("t", 0)]), E::InvalidProducerIdMapping);
    assert_eq!(bench.end((7, 1), true), E::InvalidProducerIdMapping);
    assert_eq!(bench.add((1_000, 1), &[at("t", 0)]), E::None);
}

#[test]
fn a_commit_is_answered_when_decided_and_complete_when_every_leader_knows() {
    let mut bench = Bench::default();
    let producer = bench.init(None).unwrap();
    assert_eq!(bench.add(producer, &[at("t", 0)]), E::None);
    assert_eq!(bench.add(producer, &[at("u", 3)]), E::None);
    let records = bench.log.len();
    assert_eq!(bench.add(producer, &[at("u", 3), at("t", 0)]), E::None);
    assert_eq!(bench.log.len(), records, "nothing new is not written");
    bench.hold = true;
    let end = bench.end_as(ID, producer, true);
    assert!(!bench.told.contains_key(&end.0) && bench.markings.is_empty(), "it is not decided yet");
    bench.hold = false;
    bench.release(Ok(()));
    assert_eq!(bench.done(end), E::None);
    assert_eq!(bench.state(), State::PrepareCommit);
    let marking = bench.markings[0].clone();
    assert_eq!((marking.producer_id, marking.producer_epoch, marking.commit), (1_000, 0, true));
    assert_eq!(marking.partitions, [at("t", 0), at("u", 3)]);
    // One leader knows, the other one does not answer.
    let outcomes = [(at("t", 0), Ok(())), (at("u", 3), Err(E::NotLeaderOrFollower))];
    bench.markings.clear();
    bench.transactions.marked(bench.now, &marking, &outcomes);
    bench.settle();
    assert_eq!(bench.state(), State::PrepareCommit);
    assert_eq!(bench.markings[0].partitions, [at("u", 3)]);
    assert!(bench.markings[0].again);
    assert_eq!(bench.add(producer, &[at("t", 0)]), E::ConcurrentTransactions);
    assert_eq!(bench.end(producer, true), E::ConcurrentTransactions);
    assert_eq!(bench.init(None), Err(E::ConcurrentTransactions));
    bench.marked(Ok(()));
    assert_eq!(bench.state(), State::CompleteCommit);
    assert_eq!(bench.end(producer, true), E::None, "asked for again");
    assert_eq!(bench.end(producer, false), E::InvalidTxnState);
    assert_eq!(bench.add(producer, &[at("t", 0)]), E::None, "the next one, in the same epoch");
    assert_eq!(bench.state(), State::Ongoing);
}

#[test]
fn an_end_of_nothing_is_refused() {
    let mut bench = Bench::default();
    assert_eq!(bench.end((1_000, 0), true), E::InvalidProducerIdMapping);
    let producer = bench.init(None).unwrap();
    assert_eq!(bench.end(producer, true), E::InvalidTxnState);
    assert_eq!(bench.end(producer, false), E::InvalidTxnState);
}

#[test]
fn who_takes_over_waits_until_the_open_transaction_is_aborted() {
    let mut bench = Bench::default();
    let old = bench.ongoing();
    assert_eq!(bench.init(None), Err(E::ConcurrentTransactions));
    assert_eq!(bench.state(), State::PrepareAbort);
    assert_eq!((bench.markings[0].producer_epoch, bench.markings[0].commit), (1, false), "the epoch is raised");
    assert_eq!(bench.end(old, true), E::ProducerFenced);
    assert_eq!(bench.init(None), Err(E::ConcurrentTransactions));
    bench.marked(Ok(()));
    assert_eq!(bench.init(None), Ok((1_000, 2)), "as a live 3.9.1: 0, 1 for the abort, 2");
}

#[test]
fn a_producer_that_recovers_gets_the_next_epoch_and_is_answered_the_same_when_it_asks_again() {
    let mut bench = Bench::default();
    assert_eq!(bench.init(Some((77, 5))), Ok((1_000, 0)), "one that nobody knows any more is new");
    assert_eq!(bench.init(Some((1_000, 0))), Ok((1_000, 1)));
    assert_eq!(bench.init(Some((1_000, 0))), Ok((1_000, 1)), "its answer was lost");
    assert_eq!(bench.init(None), Ok((1_000, 2)));
    assert_eq!(bench.init(Some((1_000, 1))), Err(E::ProducerFenced), "somebody else began meanwhile");
    assert_eq!(bench.init(Some((1_000, 3))), Err(E::ProducerFenced));
    assert_eq!(bench.init(Some((999, 2))), Err(E::ProducerFenced));
}

#[test]
fn epochs_that_are_used_up_make_another_producer_id() {
    let mut bench = Bench::default();
    for epoch in 0..=i16::MAX - 1 {
        assert_eq!(bench.init(None), Ok((1_000, epoch)));
    }
    let last = (1_000, i16::MAX - 1);
    assert_eq!(bench.init(Some(last)), Ok((1_001, 0)));
    assert_eq!(bench.init(Some(last)), Ok((1_001, 0)), "its answer was lost");
    assert_eq!(bench.init(None), Ok((1_001, 1)));
    // The last epoch of all is left to fence with.
    let mut bench = Bench::default();
    for _ in 0..i16::MAX - 1 {
        bench.init(None).unwrap();
    }
    let last = bench.ongoing();
    assert_eq!(last.1, i16::MAX - 1);
    assert_eq!(bench.init(None), Err(E::ConcurrentTransactions));
    assert_eq!(bench.markings[0].producer_epoch, i16::MAX);
    bench.marked(Ok(()));
    assert_eq!(bench.init(None), Ok((1_001, 0)));
}

#[test]
fn what_takes_too_long_is_aborted_and_its_producer_fenced() {
    let mut bench = Bench::default();
    let producer = bench.ongoing();
    bench.pass(TIMEOUT_MS.into());
    bench.transactions.abort_timed_out(bench.now);
    bench.settle();
    assert_eq!(bench.state(), State::Ongoing, "not before its time");
    bench.pass(1);
    bench.transactions.abort_timed_out(bench.now);
    bench.settle();
    assert_eq!(bench.state(), State::PrepareAbort);
    assert_eq!(bench.end(producer, true), E::ProducerFenced);
    bench.marked(Ok(()));
    assert_eq!(bench.state(), State::CompleteAbort);
    bench.transactions.abort_timed_out(bench.now);
    assert!(bench.transactions.take_effects().is_empty());
    assert_eq!(bench.init(None), Ok((1_000, 2)));
}

#[test]
fn a_step_that_is_not_written_is_not_taken() {
    for (error, told) in [
        (E::NotEnoughReplicas, E::CoordinatorNotAvailable),
        (E::RequestTimedOut, E::CoordinatorNotAvailable),
        (E::NotLeaderOrFollower, E::NotCoordinator),
        (E::MessageTooLarge, E::UnknownServerError),
    ] {
        let mut bench = Bench::default();
        let producer = bench.ongoing();
        bench.hold = true;
        let end = bench.end_as(ID, producer, true);
        bench.release(Err(error));
        assert_eq!(bench.done(end), told);
        assert_eq!(bench.state(), State::Ongoing);
        assert!(bench.markings.is_empty());
        bench.hold = false;
        assert_eq!(bench.end(producer, false), E::None, "either end is open still");
    }
}

#[test]
fn a_fence_that_is_not_written_raises_the_epoch_once() {
    let mut bench = Bench::default();
    let producer = bench.ongoing();
    for _ in 0..3 {
        bench.hold = true;
        let init = bench.init_as(ID, None);
        bench.release(Err(E::NotEnoughReplicas));
        assert_eq!(bench.told[&init.0], Answer::Initialized(Err(E::CoordinatorNotAvailable)));
        bench.hold = false;
    }
    assert_eq!(bench.end(producer, true), E::ProducerFenced, "nobody has its epoch any more");
    assert_eq!(bench.init(None), Err(E::ConcurrentTransactions));
    assert_eq!(bench.markings[0].producer_epoch, 1);
    bench.marked(Ok(()));
    assert_eq!(bench.init(None), Ok((1_000, 2)));
}

#[test]
fn a_completion_that_is_not_written_is_written_again() {
    let mut bench = Bench::default();
    let producer = bench.ongoing();
    assert_eq!(bench.end(producer, true), E::None);
    bench.hold = true;
    bench.marked(Ok(()));
    bench.release(Err(E::NotEnoughReplicas));
    assert_eq!(bench.state(), State::PrepareCommit);
    assert_eq!(bench.add(producer, &[at("t", 0)]), E::ConcurrentTransactions);
    bench.hold = false;
    bench.pass(100);
    assert_eq!(bench.state(), State::CompleteCommit);
    // Not where another broker has the log.
    let mut bench = Bench::default();
    let producer = bench.ongoing();
    assert_eq!(bench.end(producer, true), E::None);
    bench.hold = true;
    bench.marked(Ok(()));
    bench.release(Err(E::NotLeaderOrFollower));
    bench.pass(10_000);
    assert!(bench.held.is_empty());
}

#[test]
fn what_was_decided_is_gone_on_with_wherever_it_is_coordinated_then() {
    for commit in [true, false] {
        let mut bench = Bench::default();
        let producer = bench.ongoing();
        assert_eq!(bench.end(producer, commit), E::None);
        bench.elsewhere();
        let marking = &bench.markings[0];
        assert_eq!((marking.commit, marking.coordinator_epoch, &*marking.partitions), (commit, 1, &[at("t", 0)][..]));
        assert_eq!(bench.end(producer, commit), E::ConcurrentTransactions);
        bench.marked(Ok(()));
        let complete = if commit { State::CompleteCommit } else { State::CompleteAbort };
        assert_eq!(bench.state(), complete);
        bench.elsewhere();
        assert!(bench.markings.is_empty());
        assert_eq!(bench.state(), complete);
        assert_eq!(bench.end(producer, commit), E::None);
    }
}

#[test]
fn a_later_coordinator_stops_an_earlier_one_and_a_later_epoch_is_no_obstacle() {
    let mut bench = Bench::default();
    let producer = bench.ongoing();
    assert_eq!(bench.add(producer, &[at("u", 0)]), E::None);
    assert_eq!(bench.end(producer, true), E::None);
    let whole = bench.markings.remove(0);
    let fenced = [(at("t", 0), Err(E::TransactionCoordinatorFenced))];
    bench.transactions.marked(bench.now, &whole, &fenced);
    bench.transactions.marked(bench.now, &whole, &[(at("u", 0), Err(E::NotLeaderOrFollower))]);
    bench.settle();
    assert!(bench.markings.is_empty(), "nothing is sent any more");
    assert_eq!(bench.state(), State::PrepareCommit);
    let mut bench = Bench::default();
    let producer = bench.ongoing();
    assert_eq!(bench.end(producer, true), E::None);
    bench.marked(Err(E::InvalidProducerEpoch));
    assert_eq!(bench.state(), State::CompleteCommit, "a partition nobody wrote to in this epoch");
}

#[test]
fn leaders_are_told_what_is_in_a_transaction() {
    let mut bench = Bench::default();
    let producer = bench.ongoing();
    let partitions = [at("t", 0), at("t", 1)];
    let verify = |bench: &Bench, id: i64, epoch| bench.transactions.verify(ID, id, epoch, &partitions);
    assert_eq!(verify(&bench, producer.0, 0), Ok(vec![E::None, E::TransactionAbortable]));
    assert_eq!(verify(&bench, producer.0, 1), Err(E::ProducerFenced));
    assert_eq!(verify(&bench, 7, 0), Err(E::InvalidProducerIdMapping));
    assert_eq!(bench.transactions.verify("who", producer.0, 0, &partitions), Err(E::InvalidProducerIdMapping));
    assert_eq!(bench.end(producer, true), E::None);
    assert_eq!(verify(&bench, producer.0, 0), Err(E::ConcurrentTransactions));
    bench.marked(Ok(()));
    assert_eq!(verify(&bench, producer.0, 0), Ok(vec![E::TransactionAbortable; 2]));
}

#[test]
fn an_id_that_is_idle_for_long_is_forgotten_and_an_open_one_never() {
    let mut bench = Bench::default();
    bench.ongoing();
    bench.init_as("idle", None);
    bench.pass(EXPIRATION_MS - 1);
    bench.transactions.expire(bench.now);
    bench.settle();
    assert!(bench.transactions.describe("idle").is_some());
    bench.pass(1);
    bench.hold = true;
    bench.transactions.expire(bench.now);
    bench.settle();
    let init = bench.init_as("idle", None);
    assert_eq!(bench.told[&init.0], Answer::Initialized(Err(E::ConcurrentTransactions)));
    bench.release(Err(E::NotEnoughReplicas));
    assert!(bench.transactions.describe("idle").is_some(), "the tombstone is not written");
    bench.transactions.expire(bench.now);
    bench.settle();
    bench.release(Ok(()));
    bench.hold = false;
    assert_eq!(bench.transactions.describe("idle"), None);
    assert_eq!(bench.state(), State::Ongoing);
    bench.elsewhere();
    assert_eq!(bench.transactions.describe("idle"), None, "a tombstone is in the log");
}

#[test]
fn filters_choose_who_is_listed() {
    let mut bench = Bench::default();
    bench.ongoing();
    bench.init_as("other", None);
    bench.pass(500);
    let listed = |bench: &Bench, filter: Filter| -> Vec<String> {
        let listed = bench.transactions.list(bench.now, &filter);
        listed.iter().map(|one| format!("{} {} {}", one.transactional_id, one.producer_id, one.state.name())).collect()
    };
    let (tx, other) = ("tx 1000 Ongoing", "other 1001 Empty");
    assert_eq!(listed(&bench, Filter::default()), [other, tx]);
    assert_eq!(listed(&bench, Filter { producer_ids: [1_000, 7].into(), ..Filter::default() }), [tx]);
    let empty = Some([State::Empty].into());
    assert_eq!(listed(&bench, Filter { states: empty, ..Filter::default() }), [other]);
    assert!(
        listed(&bench, Filter { states: Some(std::collections::BTreeSet::new()), ..Filter::default() }).is_empty(),
        "states nobody knows"
    );
    let older = |ms| Filter { longer_than_ms: Some(ms), ..Filter::default() };
    assert_eq!(listed(&bench, older(499)), [other, tx], "one that began nothing is as old as time");
    assert_eq!(listed(&bench, older(500)), [other]);
}
