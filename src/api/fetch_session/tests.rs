use super::*;

impl Payload for usize {
    fn len(&self) -> Option<usize> {
        Some(*self)
    }
}

type Answers = Vec<(ResponseTopic, PartitionResponse<usize>)>;

fn topic(name: &str) -> ResponseTopic {
    ResponseTopic { name: name.into(), id: TopicId::ZERO }
}

fn asked(name: &str, partition: i32, offset: i64) -> Asked {
    Asked {
        topic: topic(name),
        partition,
        current_leader_epoch: LeaderEpoch::NONE,
        fetch_offset: Offset(offset),
        last_fetched_epoch: LeaderEpoch::NONE,
        log_start_offset: Offset::NONE,
        max_bytes: 1,
    }
}

fn answer(
    name: &str,
    partition: i32,
    high_watermark: i64,
    records: usize,
) -> (ResponseTopic, PartitionResponse<usize>) {
    let failed = PartitionResponse::failed(partition, ErrorCode::None);
    let answer =
        PartitionResponse { high_watermark: Offset(high_watermark), log_start_offset: Offset::ZERO, records, ..failed };
    (topic(name), answer)
}

fn request(id: i32, epoch: i32) -> SessionRequest {
    SessionRequest { id, epoch, uses_topic_ids: false, is_follower: false }
}

fn shown(answers: &Answers) -> Vec<i32> {
    answers.iter().map(|(_, answer)| answer.partition).collect()
}

fn order(context: &mut Context) -> Vec<i32> {
    context.take_partitions().iter().map(|asked| asked.partition).collect()
}

/// A session of `partitions` partitions of topic t, none with records; ids count up.
fn open(sessions: &FetchSessions, partitions: i32, is_follower: bool, now_ms: i64, next: &mut i32) -> i32 {
    let request = SessionRequest { is_follower, ..request(0, 0) };
    let all = (0..partitions).map(|partition| asked("t", partition, 0)).collect();
    let context = sessions.begin(request, all, &[], now_ms).expect("full requests begin");
    let mut answers: Answers = (0..partitions).map(|partition| answer("t", partition, 5, 0)).collect();
    let random_id = || {
        *next += 1;
        *next
    };
    sessions.end(context, &mut answers, now_ms, random_id).expect("full requests end")
}

#[test]
fn an_incremental_answer_holds_only_what_changed() {
    let sessions = FetchSessions::new(10);
    let id = open(&sessions, 3, false, 0, &mut 0);
    assert_eq!(id, 1);
    let mut context = sessions.begin(request(id, 1), vec![], &[], 0).expect("the next epoch");
    assert_eq!(order(&mut context), [0, 1, 2]);
    let mut answers = vec![answer("t", 0, 5, 9), answer("t", 1, 6, 0), answer("t", 2, 5, 0)];
    assert_eq!(sessions.end(context, &mut answers, 0, || 0), Ok(id));
    assert_eq!(shown(&answers), [0, 1], "records, a new high watermark, nothing");
    // The one with records went to the end.
    let mut context = sessions.begin(request(id, 2), vec![], &[], 0).expect("the next epoch");
    assert_eq!(order(&mut context), [1, 2, 0]);
    let mut answers = vec![answer("t", 1, 6, 0), answer("t", 2, 5, 0), answer("t", 0, 5, 0)];
    assert_eq!(sessions.end(context, &mut answers, 0, || 0), Ok(id));
    assert!(answers.is_empty());
}

#[test]
fn after_an_error_the_partition_is_told_again() {
    let sessions = FetchSessions::new(10);
    let id = open(&sessions, 1, false, 0, &mut 0);
    for (epoch, error, told) in
        [(1, true, true), (2, true, true), (3, false, true), (4, false, false), (5, true, true), (6, false, true)]
    {
        let context = sessions.begin(request(id, epoch), vec![], &[], 0).expect("the next epoch");
        let mut answers = vec![answer("t", 0, 5, 0)];
        if error {
            answers = vec![(topic("t"), PartitionResponse::failed(0, ErrorCode::NotLeaderOrFollower))];
        }
        sessions.end(context, &mut answers, 0, || 0).expect("in order");
        assert_eq!(answers.len(), usize::from(told), "epoch {epoch}");
    }
}

#[test]
fn partitions_are_added_changed_and_forgotten() {
    let sessions = FetchSessions::new(10);
    let id = open(&sessions, 2, false, 0, &mut 0);
    let changes = vec![asked("t", 1, 77), asked("u", 0, 3)];
    let mut context = sessions.begin(request(id, 1), changes, &[Key::new(&topic("t"), 0)], 0).expect("the next epoch");
    let offsets: Vec<_> =
        context.take_partitions().iter().map(|one| (one.topic.name.to_string(), one.fetch_offset)).collect();
    assert_eq!(offsets, [("t".to_owned(), Offset(77)), ("u".to_owned(), Offset(3))]);
    assert_eq!(sessions.sizes(), (1, 2));
    // A session left empty is closed.
    let gone = [Key::new(&topic("t"), 1), Key::new(&topic("u"), 0)];
    let context = sessions.begin(request(id, 2), vec![], &gone, 0).expect("the next epoch");
    assert_eq!(sessions.end(context, &mut Answers::new(), 0, || 0), Ok(0));
    assert_eq!(sessions.sizes(), (0, 0));
}

#[test]
fn wrong_epochs_and_ids_leave_the_session_usable() {
    let sessions = FetchSessions::new(10);
    let id = open(&sessions, 1, false, 0, &mut 0);
    let begin = |request| sessions.begin(request, vec![], &[], 0).map(|_| ());
    for epoch in [2, 5, -2, i32::MAX] {
        assert_eq!(begin(request(id, epoch)), Err(ErrorCode::InvalidFetchSessionEpoch), "{epoch}");
    }
    assert_eq!(begin(request(id + 1, 1)), Err(ErrorCode::FetchSessionIdNotFound));
    assert_eq!(begin(request(0, 1)), Err(ErrorCode::FetchSessionIdNotFound));
    let crossed = SessionRequest { uses_topic_ids: true, ..request(id, 1) };
    assert_eq!(begin(crossed), Err(ErrorCode::FetchSessionTopicIdError));
    assert_eq!(begin(request(id, 1)), Ok(()));
    // Closed by a full request, with or without a new session.
    assert_eq!(begin(request(id, -1)), Ok(()));
    assert_eq!(begin(request(id, 2)), Err(ErrorCode::FetchSessionIdNotFound));
}

#[test]
fn two_requests_of_one_epoch_cannot_both_be_answered() {
    let sessions = FetchSessions::new(10);
    let id = open(&sessions, 1, false, 0, &mut 0);
    let slow = sessions.begin(request(id, 1), vec![], &[], 0).expect("the next epoch");
    let _fast = sessions.begin(request(id, 2), vec![], &[], 0).expect("the next epoch");
    let ended = sessions.end(slow, &mut vec![answer("t", 0, 5, 1)], 0, || 0);
    assert_eq!(ended, Err(ErrorCode::InvalidFetchSessionEpoch));
}

#[test]
fn epochs_go_round_without_0() {
    assert_eq!((next_epoch(1), next_epoch(i32::MAX)), (2, 1));
}

#[test]
fn a_full_cache_gives_way_to_idle_then_to_smaller_then_to_followers() {
    let sessions = FetchSessions::new(2);
    let next = &mut 0;
    let small = open(&sessions, 1, false, 0, next);
    let large = open(&sessions, 5, false, 0, next);
    assert_eq!(open(&sessions, 9, false, 60_000, next), 0, "both are young");
    let follower = open(&sessions, 1, true, 60_000, next);
    assert_ne!(follower, 0, "a follower takes the place of the smallest consumer");
    assert!(sessions.begin(request(small, 1), vec![], &[], 60_000).is_err());
    // Used at 100 s, alive since 0: old enough to give way to a larger one at 130 s, not to a smaller.
    assert!(sessions.begin(request(large, 1), vec![], &[], 100_000).is_ok());
    assert_eq!(open(&sessions, 4, false, 130_000, next), 0);
    let larger = open(&sessions, 6, false, 130_000, next);
    assert_ne!(larger, 0);
    assert!(sessions.begin(request(large, 2), vec![], &[], 130_000).is_err());
    // The follower was last seen at 60 s: idle for more than two minutes at 181 s.
    assert_ne!(open(&sessions, 1, false, 181_000, next), 0);
    let gone = SessionRequest { is_follower: true, ..request(follower, 1) };
    assert!(sessions.begin(gone, vec![], &[], 181_000).is_err());
}

#[test]
fn no_slots_no_sessions() {
    let sessions = FetchSessions::new(0);
    assert_eq!(open(&sessions, 1, false, 0, &mut 0), 0);
}

#[test]
fn what_sessions_hold_is_bounded() {
    let one = asked("t", 0, 0).held();
    let sessions = FetchSessions::new(10).holding_at_most(5 * one);
    let mut ids = 0;
    let first = open(&sessions, 2, false, 0, &mut ids);
    let second = open(&sessions, 3, false, 0, &mut ids);
    assert!(first > 0 && second > 0);
    assert_eq!(open(&sessions, 1, false, 0, &mut ids), 0, "a third finds no room");
    // Changing what is there takes no room, one partition more does.
    assert!(sessions.begin(request(first, 1), vec![asked("t", 1, 7)], &[], 0).is_ok());
    let grown = sessions.begin(request(first, 2), vec![asked("t", 2, 7)], &[], 0);
    assert_eq!(grown.map(drop), Err(ErrorCode::FetchSessionIdNotFound));
    assert_eq!(sessions.sizes(), (1, 3));
    // What was forgotten is given back.
    assert!(sessions.begin(request(second, 1), vec![], &[Key::new(&topic("t"), 0)], 0).is_ok());
    assert!(open(&sessions, 3, false, 0, &mut ids) > 0);
}

#[test]
fn a_session_is_large_by_all_it_has_whoever_made_it_so() {
    let sessions = FetchSessions::new(10);
    let of = |partitions: i32| -> (Vec<Asked>, Answers) {
        let partitions = 0..partitions;
        (partitions.clone().map(|p| asked("t", p, 0)).collect(), partitions.map(|p| answer("t", p, 0, 0)).collect())
    };
    let begin = |partitions, id| {
        let (asked, mut answers) = of(partitions);
        let context = sessions.begin(request(0, 0), asked, &[], 0).expect("begun");
        assert_eq!(sessions.end(context, &mut answers, 0, || id), Ok(id));
    };
    begin(MANY as i32, 1);
    assert_eq!((sessions.may_be_large(), sessions.is_large(1)), (false, false));
    begin(MANY as i32 + 1, 2);
    assert_eq!((sessions.may_be_large(), sessions.is_large(1), sessions.is_large(2)), (true, false, true));
    // One more that a small request adds.
    sessions.begin(request(1, 1), vec![asked("another", 0, 0)], &[], 0).expect("the next");
    assert!(sessions.is_large(1));
    assert!(!sessions.is_large(3), "nobody has it");
}
