//! Members and leaders that vanish, lie or come in thousands: nobody waits for ever, nothing is taken over that was not given.

use bytes::Bytes;

use super::testing::{Bench, GROUP, nobody, settings, speaker};
use super::*;
use crate::random::{Random, SeededRandom};
use crate::wire::error_code::ErrorCode as E;

/// `count` members of generation 1, the leader first; nobody has synced.
fn joined(bench: &mut Bench, count: usize) -> Vec<Arc<str>> {
    let joins: Vec<RequestId> = (0..count).map(|_| bench.join(|_| {})).collect();
    bench.pass(200);
    let answers: Vec<&JoinAnswer> = joins.iter().map(|join| bench.joined(*join)).collect();
    assert!(answers.iter().all(|answer| (answer.error, answer.generation) == (E::None, 1)));
    let leader = answers[0].leader.clone();
    let mut ids: Vec<Arc<str>> = answers.iter().map(|answer| answer.member_id.clone()).collect();
    ids.sort_by_key(|id| *id != leader);
    ids
}

fn crowded() -> Bench {
    Bench::new(Settings { initial_rebalance_delay_ms: 100, ..settings() })
}

#[test]
fn a_leader_that_assigns_nothing_leaves_everybody_with_nothing() {
    let mut bench = crowded();
    let ids = joined(&mut bench, 3);
    let waits: Vec<RequestId> = ids[1..].iter().map(|id| bench.sync(id, 1, &[])).collect();
    let leads = bench.sync(&ids[0], 1, &[]);
    for sync in waits.iter().chain([&leads]) {
        assert_eq!((bench.synced(*sync).error, bench.synced(*sync).assignment.len()), (E::None, 0));
    }
    assert_eq!(bench.state(), State::Stable);
}

#[test]
fn what_a_leader_gives_to_strangers_is_dropped_and_of_two_the_last_counts() {
    let mut bench = crowded();
    let ids = joined(&mut bench, 2);
    let waits = bench.sync(&ids[1], 1, &[(&*ids[1], "what a follower wants is not asked")]);
    let garbage = "\u{0}\u{ffff}\u{fffd}";
    let given = [("stranger", "all"), (&*ids[1], "first"), ("", "all"), (&*ids[1], "last"), (&*ids[0], garbage)];
    let leads = bench.sync(&ids[0], 1, &given);
    assert_eq!(&bench.synced(waits).assignment[..], b"last");
    assert_eq!(&bench.synced(leads).assignment[..], garbage.as_bytes());
    let described = bench.groups.describe(GROUP);
    assert_eq!(described.members.len(), 2);
    assert_eq!(bench.reloaded().describe(GROUP), described, "a strange assignment is written as it is");
}

#[test]
fn a_leader_that_vanishes_before_it_assigns_holds_nobody_up_for_ever() {
    let mut bench = crowded();
    let ids = joined(&mut bench, 2);
    let waits = bench.sync(&ids[1], 1, &[]);
    assert!(!bench.told.contains_key(&waits.0));
    // It sends nothing any more: its session, 1 s, ends before the phase does.
    bench.pass(1_001);
    assert_eq!(bench.synced(waits).error, E::RebalanceInProgress);
    assert_eq!(bench.heartbeat(&ids[0], 1), E::UnknownMemberId);
    let again = bench.join(|join| join.member_id = ids[1].clone());
    let told = bench.joined(again).clone();
    assert_eq!((told.error, told.generation, &told.leader), (E::None, 2, &ids[1]), "the one that is left leads");
    let sync = bench.sync(&ids[1], 2, &[(&*ids[1], "all")]);
    assert_eq!(&bench.synced(sync).assignment[..], b"all");
}

#[test]
fn a_member_that_vanishes_while_others_join_is_left_out() {
    let mut bench = Bench::default();
    let first = bench.stable();
    let joins = [bench.join(|_| {}), bench.join(|_| {})];
    assert_eq!(bench.state(), State::PreparingRebalance);
    bench.pass(1_001);
    for join in joins {
        assert_eq!((bench.joined(join).error, bench.joined(join).generation), (E::None, 2));
    }
    assert_eq!(bench.heartbeat(&first, 2), E::UnknownMemberId);
}

#[test]
fn ten_thousand_joins_from_one_address_leave_nothing_behind() {
    let mut bench = Bench::new(Settings { max_size: 50, ..settings() });
    let member = bench.stable();
    // Ids that are asked for and never used.
    for _ in 0..10_000 {
        let join = bench.join(|join| join.require_known_member_id = true);
        assert_eq!(bench.joined(join).error, E::MemberIdRequired);
    }
    assert_eq!(bench.heartbeat(&member, 1), E::None, "they are no members yet: nobody is disturbed");
    // Members: no more than the group holds.
    let joins: Vec<RequestId> = (0..10_000).map(|_| bench.join(|_| {})).collect();
    let refused = joins.iter().filter(|join| {
        matches!(bench.told.get(&join.0), Some(super::testing::Told::Join(told)) if told.error == E::GroupMaxSizeReached)
    });
    assert_eq!(refused.count(), 10_000 - 50);
    bench.pass(600_000);
    assert!(joins.iter().all(|join| bench.told.contains_key(&join.0)), "every join is answered");
    assert_eq!(bench.groups.describe(GROUP).members.len(), 0);
    assert_eq!(bench.groups.next_due_ms(), None, "no timer is left");
    // Who comes now has the group.
    let join = bench.join(|_| {});
    assert_eq!((bench.joined(join).error, bench.joined(join).members.len()), (E::None, 1));
}

/// Text and bytes of any kind and length that a request can carry.
fn anything(random: &SeededRandom) -> (String, Bytes) {
    let length = [0, 1, 7, 300, 32_700][random.below(5) as usize];
    let of = |_| char::from_u32(random.below(0x11_0000) as u32).unwrap_or('\u{0}');
    let mut text: String = (0..length).map(of).collect();
    while text.len() > 32_767 {
        text.pop();
    }
    let bytes = (0..length).map(|_| random.next_u64() as u8).collect::<Vec<u8>>();
    (text, bytes.into())
}

#[test]
fn names_and_metadata_of_any_bytes_come_back_as_they_were() {
    for seed in 0..200 {
        let random = SeededRandom::new(seed);
        let mut bench = Bench::new(Settings { offset_metadata_max: 32_767, ..settings() });
        let (group, metadata) = anything(&random);
        let group: Arc<str> = group.into();
        let ((topic, assignment), (protocol, _), (client, _)) =
            (anything(&random), anything(&random), anything(&random));
        let join = bench.join(|join| {
            join.group = group.clone();
            join.client_id = client.into();
            join.protocols = vec![(protocol.clone().into(), metadata)];
        });
        let told = bench.joined(join).clone();
        assert_eq!((told.error, told.protocol.as_deref()), (E::None, Some(&*protocol)), "seed {seed}");
        let request = bench.request();
        let assignments = vec![(told.member_id.clone(), assignment)];
        let speaker = speaker(1, &told.member_id);
        let sync = Sync {
            request,
            group: group.clone(),
            speaker: speaker.clone(),
            protocol_type: None,
            protocol: None,
            assignments,
        };
        bench.groups.sync(bench.now, sync);
        bench.settle();
        let request = bench.request();
        let partition = CommitPartition {
            topic: topic.clone().into(),
            partition: i32::MAX,
            offset: Offset(i64::MAX),
            leader_epoch: crate::types::LeaderEpoch(i32::MAX),
            metadata: topic.clone().into(),
            commit_timestamp_ms: None,
        };
        let commit = Commit {
            request,
            group: group.clone(),
            speaker,
            retention_ms: None,
            transaction: None,
            partitions: vec![partition],
        };
        bench.groups.commit(bench.now, commit);
        bench.settle();
        assert_eq!(bench.committed(request), E::None, "seed {seed}");
        let loaded = bench.reloaded();
        let described = bench.groups.describe(&group);
        assert_eq!((described.state, described.members.len()), (State::Stable, 1), "seed {seed}");
        assert_eq!(loaded.describe(&group), described, "seed {seed}");
        let fetched = loaded.fetch_all(&group, true);
        assert_eq!(fetched, bench.groups.fetch_all(&group, true), "seed {seed}");
        assert_eq!((&*fetched[0].topic, fetched[0].partition), (&*topic, i32::MAX), "seed {seed}");
    }
}

#[test]
fn a_commit_of_a_member_that_was_removed_is_refused_until_the_group_is_empty() {
    let mut bench = Bench::default();
    let member = bench.stable();
    let commit = bench.commit(speaker(1, &member), "topic", 5);
    assert_eq!(bench.committed(commit), E::None);
    bench.pass(1_001);
    assert_eq!(bench.state(), State::Empty);
    let late = bench.commit(speaker(1, &member), "topic", 6);
    assert_eq!(bench.committed(late), E::UnknownMemberId);
    let by_hand = bench.commit(nobody(), "topic", 7);
    assert_eq!((bench.committed(by_hand), bench.offset("topic")), (E::None, Some(7)));
}
