//! Rules of the classic protocol, one by one: what a live 3.9.1 does.

use super::testing::{Bench, GROUP, nobody, protocols, settings, speaker};
use super::*;
use crate::coordinator::loader::Replay;
use crate::wire::error_code::ErrorCode as E;

#[test]
fn a_member_joins_syncs_and_beats() {
    let mut bench = Bench::default();
    let join = bench.join(|_| {});
    let joined = bench.joined(join).clone();
    assert_eq!((joined.error, joined.generation, &*joined.leader), (E::None, 1, &*joined.member_id));
    assert_eq!(joined.members.len(), 1);
    assert_eq!(bench.state(), State::CompletingRebalance);
    assert_eq!(bench.heartbeat(&joined.member_id, 1), E::None);
    let sync = bench.sync(&joined.member_id, 1, &[(&*joined.member_id, "all")]);
    assert_eq!(&bench.synced(sync).assignment[..], b"all");
    assert_eq!(bench.state(), State::Stable);
    assert_eq!(bench.heartbeat(&joined.member_id, 2), E::IllegalGeneration);
    assert_eq!(bench.heartbeat("stranger", 1), E::UnknownMemberId);
}

#[test]
fn a_dynamic_member_learns_its_id_first_from_version_4_on() {
    let mut bench = Bench::default();
    let join = bench.join(|join| join.require_known_member_id = true);
    let told = bench.joined(join).clone();
    assert_eq!((told.error, &*told.member_id), (E::MemberIdRequired, "m1"));
    assert_eq!(bench.state(), State::Empty);
    let join = bench.join(|join| {
        join.require_known_member_id = true;
        join.member_id = told.member_id.clone();
    });
    assert_eq!(bench.joined(join).error, E::None);
    assert_eq!(bench.joined(join).member_id, told.member_id);
}

#[test]
fn a_member_id_that_is_not_used_is_forgotten_and_holds_nobody_up() {
    let mut bench = Bench::default();
    let first = bench.stable();
    let told = bench.join(|join| join.require_known_member_id = true);
    let pending = bench.joined(told).member_id.clone();
    let again = bench.join(|join| join.member_id = first.clone());
    assert_eq!(bench.state(), State::PreparingRebalance, "the one with the id is waited for");
    bench.pass(1_001);
    assert_eq!(bench.joined(again).generation, 2);
    let late = bench.join(|join| join.member_id = pending.clone());
    assert_eq!(bench.joined(late).error, E::UnknownMemberId);
}

#[test]
fn refusals_come_in_order() {
    let mut bench = Bench::default();
    let refused = |bench: &mut Bench, change: &dyn Fn(&mut Join)| {
        let join = bench.join(|join| change(join));
        bench.joined(join).error
    };
    assert_eq!(refused(&mut bench, &|join| join.session_timeout_ms = 9), E::InvalidSessionTimeout);
    assert_eq!(refused(&mut bench, &|join| join.session_timeout_ms = 60_001), E::InvalidSessionTimeout);
    assert_eq!(refused(&mut bench, &|join| join.member_id = "who".into()), E::UnknownMemberId);
    assert_eq!(refused(&mut bench, &|join| join.protocols.clear()), E::InconsistentGroupProtocol);
    assert_eq!(bench.groups.list().map(|group| group.state).collect::<Vec<_>>(), [State::Empty], "as Kafka has it");
    let member = bench.stable();
    assert_eq!(refused(&mut bench, &|join| join.protocol_type = "connect".into()), E::InconsistentGroupProtocol);
    assert_eq!(refused(&mut bench, &|join| join.protocols = protocols(&["other"])), E::InconsistentGroupProtocol);
    assert_eq!(refused(&mut bench, &|join| join.member_id = "who".into()), E::UnknownMemberId);
    assert_eq!(bench.heartbeat(&member, 1), E::None, "refusals disturb nobody");
}

/// Of other brokers it was reported that they take any timeout, or refuse those at the bounds.
#[test]
fn both_bounds_of_the_session_timeout_are_allowed() {
    for (timeout_ms, error) in
        [(9, E::InvalidSessionTimeout), (10, E::None), (60_000, E::None), (60_001, E::InvalidSessionTimeout)]
    {
        let mut bench = Bench::default();
        let join = bench.join(|join| join.session_timeout_ms = timeout_ms);
        assert_eq!(bench.joined(join).error, error, "{timeout_ms} ms");
        assert_eq!(bench.groups.list().count(), usize::from(error == E::None), "a refusal makes no group");
    }
}

#[test]
fn a_second_member_makes_the_first_join_again() {
    let mut bench = Bench::default();
    let first = bench.stable();
    let join = bench.join(|_| {});
    assert_eq!(bench.heartbeat(&first, 1), E::RebalanceInProgress);
    let again = bench.join(|join| join.member_id = first.clone());
    let (second, first_told) = (bench.joined(join).clone(), bench.joined(again).clone());
    assert_eq!((second.generation, first_told.generation), (2, 2));
    assert_eq!((first_told.members.len(), second.members.len()), (2, 0), "the leader alone is told who is there");
    let waits = bench.sync(&second.member_id, 2, &[]);
    assert!(!bench.told.contains_key(&waits.0));
    let leads = bench.sync(&first, 2, &[(&*second.member_id, "half"), ("stranger", "half")]);
    assert_eq!(&bench.synced(waits).assignment[..], b"half");
    assert_eq!(&bench.synced(leads).assignment[..], b"", "forgotten by its own assignment");
}

#[test]
fn an_empty_group_waits_for_more_as_long_as_more_come() {
    let mut bench = Bench::new(Settings { initial_rebalance_delay_ms: 3_000, ..settings() });
    let first = bench.join(|_| {});
    bench.pass(2_000);
    let second = bench.join(|_| {});
    bench.pass(1_000);
    assert!(bench.told.is_empty(), "the second one begins a new wait");
    // The longest wait is the rebalance timeout, 5 s: 2 s more.
    bench.pass(1_999);
    assert!(bench.told.is_empty());
    bench.pass(1);
    assert_eq!((bench.joined(first).generation, bench.joined(second).generation), (1, 1));
}

#[test]
fn a_member_that_does_not_come_back_is_left_behind() {
    let mut bench = Bench::default();
    let first = bench.stable();
    let join = bench.join(|_| {});
    // It beats, so its session lives; it does not join.
    for _ in 0..9 {
        bench.pass(500);
        assert_eq!(bench.heartbeat(&first, 1), E::RebalanceInProgress);
    }
    bench.pass(500);
    let told = bench.joined(join).clone();
    assert_eq!((told.generation, &told.leader), (2, &told.member_id));
    assert_eq!(bench.heartbeat(&first, 1), E::UnknownMemberId);
}

#[test]
fn a_silent_member_is_removed_and_one_that_waits_is_not() {
    let mut bench = Bench::default();
    let first = bench.stable();
    bench.pass(900);
    assert_eq!(bench.heartbeat(&first, 1), E::None);
    bench.pass(900);
    assert_eq!(bench.state(), State::Stable);
    bench.pass(101);
    assert_eq!(bench.state(), State::Empty);
    // Waiting for others is no silence: the second joins, the first is away until the phase ends.
    let mut bench = Bench::default();
    let first = bench.stable();
    let join = bench.join(|_| {});
    for _ in 0..4 {
        bench.pass(900);
        bench.heartbeat(&first, 1);
    }
    assert!(!bench.told.contains_key(&join.0));
    bench.join(|join| join.member_id = first.clone());
    assert_eq!(bench.joined(join).error, E::None);
}

#[test]
fn members_that_join_and_never_sync_are_removed() {
    let mut bench = Bench::default();
    let member_id = bench.member();
    for _ in 0..9 {
        bench.pass(500);
        assert_eq!(bench.heartbeat(&member_id, 1), E::None);
    }
    bench.pass(501);
    assert_eq!(bench.heartbeat(&member_id, 1), E::UnknownMemberId);
    assert_eq!(bench.state(), State::Empty);
}

#[test]
fn an_assignment_counts_once_it_is_written() {
    let mut bench = Bench::default();
    let member_id = bench.member();
    bench.hold = true;
    let sync = bench.sync(&member_id, 1, &[(&*member_id, "all")]);
    assert!(!bench.told.contains_key(&sync.0));
    assert_eq!(bench.state(), State::CompletingRebalance);
    bench.release(Err(E::NotEnoughReplicas));
    assert_eq!(bench.synced(sync).error, E::CoordinatorNotAvailable);
    assert_eq!(bench.state(), State::PreparingRebalance);
}

#[test]
fn an_assignment_written_too_late_is_nobodys() {
    let mut bench = Bench::default();
    let member_id = bench.member();
    bench.hold = true;
    let sync = bench.sync(&member_id, 1, &[(&*member_id, "all")]);
    let second = bench.join(|_| {});
    assert_eq!(bench.synced(sync).error, E::RebalanceInProgress);
    bench.release(Ok(()));
    assert_eq!(bench.state(), State::PreparingRebalance);
    bench.join(|join| join.member_id = member_id.clone());
    assert_eq!(bench.joined(second).generation, 2);
}

#[test]
fn leaving_is_not_waited_for() {
    let mut bench = Bench::default();
    let first = bench.stable();
    assert_eq!(bench.leave("stranger"), E::UnknownMemberId);
    assert_eq!(bench.leave(&first), E::None);
    assert_eq!(bench.state(), State::Empty);
    let described = bench.groups.describe(GROUP);
    assert_eq!((&*described.protocol_type, described.members.len()), ("consumer", 0));
}

#[test]
fn a_static_member_that_comes_back_keeps_its_place_and_its_partitions() {
    for may_skip_assignment in [false, true] {
        let mut bench = Bench::default();
        let come = |bench: &mut Bench| {
            bench.join(|join| {
                join.group_instance_id = Some("i".into());
                join.may_skip_assignment = may_skip_assignment;
            })
        };
        let first = come(&mut bench);
        let old = bench.joined(first).member_id.clone();
        bench.sync(&old, 1, &[(&*old, "all")]);
        let again = come(&mut bench);
        let told = bench.joined(again).clone();
        assert_ne!(told.member_id, old);
        assert_eq!((told.error, told.generation), (E::None, 1), "no rebalance");
        assert_eq!(told.skip_assignment, may_skip_assignment);
        assert_eq!(told.leader, if may_skip_assignment { told.member_id.clone() } else { old.clone() });
        let sync = bench.sync(&told.member_id, 1, &[]);
        assert_eq!(&bench.synced(sync).assignment[..], b"all");
        let fenced = Speaker { group_instance_id: Some("i".into()), ..speaker(1, &old) };
        assert_eq!(bench.groups.heartbeat(bench.now, GROUP, &fenced), E::FencedInstanceId);
        assert_eq!(bench.groups.heartbeat(bench.now, GROUP, &speaker(1, &old)), E::UnknownMemberId);
    }
}

#[test]
fn a_static_member_whose_new_id_is_not_written_keeps_the_old_one() {
    let mut bench = Bench::default();
    let come = |bench: &mut Bench| bench.join(|join| join.group_instance_id = Some("i".into()));
    let first = come(&mut bench);
    let old = bench.joined(first).member_id.clone();
    bench.sync(&old, 1, &[(&*old, "all")]);
    bench.hold = true;
    let again = come(&mut bench);
    bench.release(Err(E::NotLeaderOrFollower));
    assert_eq!(bench.joined(again).error, E::NotCoordinator);
    assert_eq!(bench.heartbeat(&old, 1), E::None);
}

#[test]
fn an_administrator_removes_a_static_member_by_its_instance() {
    let mut bench = Bench::default();
    bench.join(|join| join.group_instance_id = Some("i".into()));
    let leaving = |instance: &str| Leaving { member_id: "".into(), group_instance_id: Some(instance.into()) };
    let told = bench.groups.leave(bench.now, GROUP, &[leaving("other"), leaving("i")]);
    bench.settle();
    bench.pass(0);
    assert_eq!(told, [E::UnknownMemberId, E::None]);
    assert_eq!(bench.state(), State::Empty);
}

#[test]
fn the_protocol_most_members_prefer_is_chosen() {
    let mut bench = Bench::new(Settings { initial_rebalance_delay_ms: 100, ..settings() });
    let likes = [&["a", "b"][..], &["b", "a", "c"], &["c", "b", "a"], &["b", "c", "a"]];
    let joins: Vec<_> = likes.iter().map(|names| bench.join(|join| join.protocols = protocols(names))).collect();
    bench.pass(200);
    for join in joins {
        // `c` is not everyone's.
        assert_eq!(bench.joined(join).protocol.as_deref(), Some("b"));
    }
}

#[test]
fn a_full_group_takes_nobody() {
    let mut bench = Bench::new(Settings { max_size: 1, ..settings() });
    let first = bench.stable();
    let second = bench.join(|_| {});
    assert_eq!(bench.joined(second).error, E::GroupMaxSizeReached);
    assert_eq!(bench.heartbeat(&first, 1), E::None);
}

#[test]
fn an_offset_is_seen_when_it_is_replicated() {
    let mut bench = Bench::default();
    bench.hold = true;
    let commit = bench.commit(nobody(), "topic", 5);
    assert_eq!((bench.offset("topic"), bench.told.len()), (None, 0));
    bench.release(Ok(()));
    assert_eq!((bench.offset("topic"), bench.committed(commit)), (Some(5), E::None));
    for (log, client) in [
        (E::NotEnoughReplicasAfterAppend, E::CoordinatorNotAvailable),
        (E::NotLeaderOrFollower, E::NotCoordinator),
        (E::RecordListTooLarge, E::InvalidCommitOffsetSize),
        (E::RequestTimedOut, E::RequestTimedOut),
    ] {
        let commit = bench.commit(nobody(), "topic", 6);
        bench.release(Err(log));
        assert_eq!((bench.offset("topic"), bench.committed(commit)), (Some(5), client));
    }
}

#[test]
fn who_may_commit() {
    let mut bench = Bench::default();
    let commit = bench.commit(speaker(0, "who"), "topic", 1);
    assert_eq!(bench.committed(commit), E::IllegalGeneration, "a generation of a group that is not there");
    let member = bench.stable();
    for (who, told) in [
        (speaker(1, &member), E::None),
        (speaker(0, &member), E::IllegalGeneration),
        (speaker(1, "who"), E::UnknownMemberId),
        (nobody(), E::UnknownMemberId),
    ] {
        let commit = bench.commit(who, "topic", 1);
        assert_eq!(bench.committed(commit), told);
    }
    let commit = bench.commit_with(speaker(1, &member), "topic", 9, "too long!");
    assert_eq!((bench.committed(commit), bench.offset("topic")), (E::OffsetMetadataTooLarge, Some(1)));
    let join = bench.join(|_| {});
    let commit = bench.commit(speaker(1, &member), "topic", 2);
    assert_eq!(bench.committed(commit), E::None, "while the group prepares, the old generation may still commit");
    bench.join(|join| join.member_id = member.clone());
    assert_eq!(bench.joined(join).generation, 2);
    let commit = bench.commit(speaker(2, &member), "topic", 3);
    assert_eq!(bench.committed(commit), E::RebalanceInProgress);
}

#[test]
fn what_was_committed_before_a_deletion_does_not_come_back() {
    let mut bench = Bench::default();
    let commit = bench.commit(nobody(), "topic", 5);
    assert_eq!(bench.committed(commit), E::None);
    bench.hold = true;
    bench.commit(nobody(), "topic", 6);
    assert_eq!(bench.groups.delete(bench.now, GROUP), Ok(()));
    bench.settle();
    // A group of the same name, before the commit to the old one is through.
    bench.commit(nobody(), "other", 1);
    bench.release(Ok(()));
    assert_eq!(bench.offset("topic"), None);
    bench.release(Ok(()));
    assert_eq!(bench.offset("other"), Some(1));

    let commit = bench.commit(nobody(), "topic", 7);
    let deleted = bench.groups.delete_offsets(bench.now, GROUP, &[("topic".into(), 0), ("never".into(), 0)]);
    assert_eq!(deleted, Ok(vec![E::None, E::None]));
    bench.settle();
    bench.release(Ok(()));
    assert_eq!((bench.committed(commit), bench.offset("topic")), (E::None, None));
}

#[test]
fn deletion_is_for_groups_without_members() {
    let mut bench = Bench::default();
    assert_eq!(bench.groups.delete(bench.now, GROUP), Err(E::GroupIdNotFound));
    let member = bench.stable();
    let commit = bench.commit(speaker(1, &member), "topic", 5);
    assert_eq!(bench.committed(commit), E::None);
    assert_eq!(bench.groups.delete(bench.now, GROUP), Err(E::NonEmptyGroup));
    let asked = [("topic".into(), 0), ("other".into(), 0)];
    let told = bench.groups.delete_offsets(bench.now, GROUP, &asked);
    assert_eq!(told, Ok(vec![E::GroupSubscribedToTopic, E::None]));
    bench.leave(&member);
    assert_eq!(bench.groups.delete(bench.now, GROUP), Ok(()));
    bench.settle();
    assert_eq!((bench.state(), bench.offset("topic")), (State::Dead, None));
    assert_eq!(bench.reloaded().list().count(), 0, "tombstones stand behind everything that was written");
}

#[test]
fn offsets_expire_by_what_the_group_is() {
    let retention_ms = settings().offsets_retention_ms;
    let expire = |bench: &mut Bench| {
        bench.groups.expire(bench.now);
        bench.settle();
    };
    // No protocol: from the commit on.
    let mut bench = Bench::default();
    bench.commit(nobody(), "topic", 5);
    bench.pass(retention_ms - 1);
    expire(&mut bench);
    assert_eq!(bench.offset("topic"), Some(5));
    bench.pass(1);
    expire(&mut bench);
    assert_eq!((bench.offset("topic"), bench.state()), (None, State::Dead));
    assert_eq!(bench.reloaded().list().count(), 0);
    // Members: what they subscribe to stays for good, the rest goes.
    let mut bench = Bench::default();
    let member = bench.stable();
    bench.commit(speaker(1, &member), "topic", 5);
    bench.commit(speaker(1, &member), "other", 6);
    for _ in 0..3_000 {
        bench.pass(500);
        assert_eq!(bench.heartbeat(&member, 1), E::None);
    }
    expire(&mut bench);
    assert_eq!((bench.offset("topic"), bench.offset("other")), (Some(5), None));
    // The last one left: from then on.
    bench.leave(&member);
    bench.pass(retention_ms - 1);
    expire(&mut bench);
    assert_eq!(bench.offset("topic"), Some(5));
    bench.pass(1);
    expire(&mut bench);
    assert_eq!((bench.offset("topic"), bench.state()), (None, State::Dead));
    assert_eq!(bench.reloaded().list().count(), 0, "the group's own record is taken back as well");
}

#[test]
fn a_commit_with_a_time_of_its_own_expires_by_it() {
    let mut bench = Bench::default();
    let request = bench.request();
    let partition = |topic: &str| CommitPartition {
        topic: topic.into(),
        partition: 0,
        offset: Offset(1),
        leader_epoch: crate::types::LeaderEpoch::NONE,
        metadata: "".into(),
        commit_timestamp_ms: None,
    };
    let (group, speaker, partitions) = (GROUP.into(), nobody(), vec![partition("topic")]);
    bench
        .groups
        .commit(bench.now, Commit { request, group, speaker, retention_ms: Some(100), transaction: None, partitions });
    bench.settle();
    bench.pass(99);
    bench.groups.expire(bench.now);
    assert_eq!(bench.offset("topic"), Some(1));
    bench.pass(1);
    bench.groups.expire(bench.now);
    assert_eq!(bench.offset("topic"), None);
}

#[test]
fn a_coordinator_that_takes_over_has_members_assignments_and_offsets() {
    let mut bench = Bench::default();
    let member = bench.stable();
    bench.commit(speaker(1, &member), "topic", 5);
    let mut loaded = bench.reloaded();
    assert_eq!(loaded.describe(GROUP), bench.groups.describe(GROUP));
    assert_eq!(loaded.heartbeat(bench.now, GROUP, &speaker(1, &member)), E::None);
    let fetched = loaded.fetch_all(GROUP, true);
    assert_eq!(fetched.len(), 1);
    // Its session begins with the load.
    loaded.tick(Now { monotonic_ms: bench.now.monotonic_ms + 1_001, ..bench.now });
    assert_eq!(loaded.describe(GROUP).members.len(), 0);
}

#[test]
fn whoever_waits_is_told_when_the_groups_go_elsewhere() {
    let mut bench = Bench::default();
    let first = bench.stable();
    bench.hold = true;
    let join = bench.join(|_| {});
    let commit = bench.commit(speaker(1, &first), "topic", 1);
    let groups = std::mem::replace(&mut bench.groups, Groups::new(settings()));
    let effects = groups.resign();
    let told: Vec<_> = effects
        .iter()
        .map(|effect| match effect {
            Effect::Joined(request, answer) => (*request, answer.error),
            Effect::Committed(request, errors) => (*request, errors[0]),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, [(join, E::NotCoordinator), (commit, E::NotCoordinator)]);
}

#[test]
fn offsets_of_an_open_transaction_are_unstable_until_its_marker() {
    let value = |offset| {
        let value = crate::coordinator::records::OffsetValue {
            offset: Offset(offset),
            leader_epoch: crate::types::LeaderEpoch::NONE,
            metadata: "".into(),
            commit_timestamp_ms: 0,
            expire_timestamp_ms: None,
        };
        value.encode()
    };
    let key = crate::coordinator::records::Key::Offset { group: GROUP.into(), topic: "topic".into(), partition: 0 };
    let key = key.encode();
    let load = |end: Option<bool>, later: bool| {
        let mut loading = Loading::default();
        loading.replay(Offset(0), None, &key, Some(&value(1))).expect("a record");
        loading.replay(Offset(1), Some(7), &key, Some(&value(2))).expect("a record");
        if later {
            loading.replay(Offset(2), None, &key, Some(&value(3))).expect("a record");
        }
        if let Some(commit) = end {
            loading.end_transaction(7, commit);
        }
        let groups = loading.finish(Now::default(), settings());
        let asked = [("topic".into(), 0)];
        let stable = groups.fetch(GROUP, &asked, true).remove(0).offset.map(|value| value.map(|v| v.offset.0));
        let any = groups.fetch(GROUP, &asked, false).remove(0).offset.map(|value| value.map(|v| v.offset.0));
        (stable, any)
    };
    assert_eq!(load(None, false), (Err(E::UnstableOffsetCommit), Ok(Some(1))));
    assert_eq!(load(Some(true), false), (Ok(Some(2)), Ok(Some(2))));
    assert_eq!(load(Some(false), false), (Ok(Some(1)), Ok(Some(1))));
    assert_eq!(load(Some(true), true), (Ok(Some(3)), Ok(Some(3))), "of two commits the later record wins");
}

/// The timeout is a client's word: with none, or less than none, the wait for static members that are away must not
/// begin again within the same moment for ever.
#[test]
fn static_members_without_a_rebalance_timeout_are_waited_for_until_their_sessions_end() {
    for rebalance_timeout_ms in [0, -1, i32::MIN] {
        let mut bench = Bench::default();
        let dynamic = bench.stable();
        let fixed = bench.join(|join| {
            join.group_instance_id = Some("i".into());
            join.rebalance_timeout_ms = rebalance_timeout_ms;
        });
        bench.join(|join| join.member_id = dynamic.clone());
        let fixed = bench.joined(fixed).member_id.clone();
        bench.sync(&dynamic, 2, &[]);
        bench.sync(&fixed, 2, &[]);
        assert_eq!(bench.state(), State::Stable);
        assert_eq!(bench.leave(&dynamic), E::None);
        bench.pass(500);
        assert_eq!(bench.state(), State::PreparingRebalance);
        bench.pass(1_000);
        assert_eq!(bench.state(), State::Empty);
    }
}

/// The group waits for the newcomer, so it is not empty, and there is nobody whose protocols could differ.
#[test]
fn who_was_given_an_id_may_join_when_all_others_have_gone() {
    let mut bench = Bench::default();
    let old = bench.stable();
    let told = bench.join(|join| join.require_known_member_id = true);
    let newcomer = bench.joined(told).member_id.clone();
    assert_eq!(bench.leave(&old), E::None);
    assert_eq!(bench.state(), State::PreparingRebalance);
    let join = bench.join(|join| {
        join.require_known_member_id = true;
        join.member_id = newcomer.clone();
    });
    assert_eq!((bench.joined(join).error, &bench.joined(join).leader), (E::None, &newcomer));
}

/// A TxnOffsetCommit of producer 7.
fn commit_in_transaction(bench: &mut Bench, speaker: Speaker, offset: i64) -> RequestId {
    let request = bench.request();
    let partition = CommitPartition {
        topic: "topic".into(),
        partition: 0,
        offset: Offset(offset),
        leader_epoch: crate::types::LeaderEpoch::NONE,
        metadata: "".into(),
        commit_timestamp_ms: None,
    };
    let verification = crate::storage::log::Verification::NotAsked;
    let transaction = Some(InTransaction { producer_id: 7, producer_epoch: 0, verification });
    let (group, partitions) = (GROUP.into(), vec![partition]);
    bench.groups.commit(bench.now, Commit { request, group, speaker, retention_ms: None, transaction, partitions });
    bench.settle();
    request
}

fn stable_offset(bench: &Bench) -> Result<Option<i64>, E> {
    let fetched = bench.groups.fetch(GROUP, &[("topic".into(), 0)], true).remove(0);
    fetched.offset.map(|value| value.map(|value| value.offset.0))
}

#[test]
fn what_a_transaction_commits_is_pending_from_its_append_to_its_marker() {
    for (commit, after) in [(true, Some(2)), (false, Some(1))] {
        let mut bench = Bench::default();
        bench.commit(nobody(), "topic", 1);
        bench.hold = true;
        let request = commit_in_transaction(&mut bench, nobody(), 2);
        assert_eq!(stable_offset(&bench), Err(E::UnstableOffsetCommit), "it is on its way");
        bench.release(Ok(()));
        assert_eq!(bench.committed(request), E::None);
        assert_eq!(stable_offset(&bench), Err(E::UnstableOffsetCommit));
        assert_eq!(bench.offset("topic"), Some(1));
        bench.groups.end_transaction(8, commit);
        assert_eq!(stable_offset(&bench), Err(E::UnstableOffsetCommit), "somebody else's marker");
        bench.groups.end_transaction(7, commit);
        assert_eq!(stable_offset(&bench), Ok(after));
    }
}

#[test]
fn a_marker_that_is_heard_of_before_the_commit_in_front_of_it_ends_that_too() {
    for (commit, after) in [(true, Some(2)), (false, Some(1))] {
        let mut bench = Bench::default();
        bench.commit(nobody(), "topic", 1);
        bench.hold = true;
        commit_in_transaction(&mut bench, nobody(), 2);
        bench.groups.end_transaction(7, commit);
        bench.release(Ok(()));
        assert_eq!(stable_offset(&bench), Ok(after));
    }
}

#[test]
fn a_commit_in_a_transaction_that_is_not_written_leaves_nothing_pending() {
    let mut bench = Bench::default();
    bench.hold = true;
    let request = commit_in_transaction(&mut bench, nobody(), 2);
    bench.release(Err(E::InvalidTxnState));
    assert_eq!(bench.committed(request), E::InvalidTxnState);
    assert_eq!(stable_offset(&bench), Ok(None));
    bench.groups.end_transaction(7, true);
    assert_eq!(stable_offset(&bench), Ok(None));
}

/// KIP-447, and those of before it, who name no member.
#[test]
fn who_names_a_member_must_be_one_and_who_names_none_may_commit_in_a_transaction() {
    let mut bench = Bench::default();
    let request = commit_in_transaction(&mut bench, speaker(1, ""), 1);
    assert_eq!(bench.committed(request), E::UnknownMemberId, "nobody is in it");
    let member_id = bench.stable();
    for (who, told) in [
        (nobody(), E::None),
        (speaker(1, &member_id), E::None),
        (speaker(0, &member_id), E::IllegalGeneration),
        (speaker(1, "stranger"), E::UnknownMemberId),
    ] {
        let request = commit_in_transaction(&mut bench, who.clone(), 2);
        assert_eq!(bench.committed(request), told, "{who:?}");
    }
}

#[test]
fn an_offset_of_an_open_transaction_keeps_its_group() {
    let mut bench = Bench::default();
    commit_in_transaction(&mut bench, nobody(), 2);
    bench.pass(2_000_000);
    bench.groups.expire(bench.now);
    bench.settle();
    bench.groups.end_transaction(7, true);
    assert_eq!(bench.offset("topic"), Some(2));
    commit_in_transaction(&mut bench, nobody(), 3);
    bench.groups.forget_topic(bench.now, "topic");
    bench.settle();
    bench.groups.end_transaction(7, true);
    assert_eq!(bench.offset("topic"), None, "its topic is gone");
}
