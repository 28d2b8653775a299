//! Fetch sessions driven by any sequence of requests, beside a plain model of what each session must read.
#![no_main]

use std::collections::HashMap;
use std::sync::Arc;

use klamm::api::fetch_session::{Asked, Context, FetchSessions, Key, SessionRequest};
use klamm::types::{LeaderEpoch, Offset, TopicId};
use klamm::wire::error_code::ErrorCode;
use klamm::wire::fetch::{PartitionResponse, Payload, ResponseTopic};
use libfuzzer_sys::fuzz_target;

const SLOTS: usize = 3;

/// So many bytes are present at a partition.
#[derive(Clone, Copy, Debug, Default)]
struct Records(usize);

impl Payload for Records {
    fn len(&self) -> Option<usize> {
        Some(self.0)
    }
}

/// A session as its client knows it.
struct Known {
    next_epoch: i32,
    uses_topic_ids: bool,
    /// Topic and partition to fetch offset.
    partitions: HashMap<(u8, i32), i64>,
}

fuzz_target!(|bytes: &[u8]| {
    let sessions = FetchSessions::new(SLOTS);
    let mut known: HashMap<i32, Known> = HashMap::new();
    let mut last_id = 0;
    let mut now_ms = 0;
    let (steps, _) = bytes.as_chunks::<6>();
    for [what, id, topic, partition, offset, more] in steps.iter().copied() {
        now_ms += i64::from(more) * 1000;
        let uses_topic_ids = what & 8 != 0;
        let id = if id & 7 == 0 { 0 } else { i32::from(id & 7) };
        let epoch = match (what & 3, known.get(&id)) {
            (0, _) => 0,
            (1, _) => -1,
            (2, Some(session)) => session.next_epoch,
            _ => i32::from(offset),
        };
        let wanted: Vec<(u8, i32)> =
            (0..=more & 3).map(|n| (topic & 1, i32::from(partition & 3) + i32::from(n))).collect();
        let asked: Vec<Asked> = wanted.iter().map(|at| ask(*at, uses_topic_ids, offset)).collect();
        let forgets = what & 4 != 0 && epoch > 0;
        let gone: Vec<(u8, i32)> =
            if forgets { vec![(topic >> 1 & 1, i32::from(partition >> 2 & 3))] } else { Vec::new() };
        let forgotten: Vec<Key> = gone.iter().map(|at| Key::new(&named(at.0, uses_topic_ids), at.1)).collect();
        let request = SessionRequest { id, epoch, uses_topic_ids, is_follower: what & 16 != 0 };
        let begun = sessions.begin(request, asked, &forgotten, now_ms);
        if (-1..=0).contains(&epoch) {
            known.remove(&id);
        }
        let mut context = match begun {
            Ok(context) => context,
            Err(error) => {
                refused(error, request, known.get(&id));
                if error == ErrorCode::FetchSessionIdNotFound {
                    known.remove(&id);
                }
                continue;
            }
        };
        let reads = context.take_partitions();
        let incremental = matches!(context, Context::Incremental { .. });
        if epoch > 0 {
            let session = known.get_mut(&id).expect("an epoch is right only in a session");
            assert_eq!((session.next_epoch, session.uses_topic_ids), (epoch, uses_topic_ids));
            session.partitions.extend(wanted.iter().map(|at| (*at, i64::from(offset))));
            session.partitions.retain(|at, _| !gone.contains(at));
            session.next_epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
            if session.partitions.is_empty() {
                assert!(!incremental, "a session of nothing");
                known.remove(&id);
            } else {
                assert!(incremental);
                let read: HashMap<(u8, i32), i64> = reads
                    .iter()
                    .map(|asked| ((topic_of(&asked.topic), asked.partition), asked.fetch_offset.0))
                    .collect();
                assert_eq!((&read, reads.len()), (&session.partitions, session.partitions.len()));
            }
        }
        let mut answers: Vec<_> = reads.iter().map(|asked| answer(asked, what)).collect();
        let all = answers.len();
        let ended = sessions.end(context, &mut answers, now_ms, || {
            last_id = last_id % 7 + 1;
            last_id
        });
        let granted = ended.expect("nobody else uses the session");
        assert!(answers.len() <= all && (incremental || answers.len() == all));
        if epoch == 0 && granted != 0 {
            let partitions = wanted.iter().map(|at| (*at, i64::from(offset))).collect();
            known.insert(granted, Known { next_epoch: 1, uses_topic_ids, partitions });
        }
        let (slots, _) = sessions.sizes();
        assert!(slots <= SLOTS);
    }
});

/// An error is told only where there is a reason for it.
fn refused(error: ErrorCode, request: SessionRequest, session: Option<&Known>) {
    match error {
        // Evicted, closed, or never there: the client cannot know which.
        ErrorCode::FetchSessionIdNotFound => {}
        ErrorCode::InvalidFetchSessionEpoch => {
            assert_ne!(session.map(|session| session.next_epoch), Some(request.epoch));
        }
        ErrorCode::FetchSessionTopicIdError => {
            assert_ne!(session.map(|session| session.uses_topic_ids), Some(request.uses_topic_ids));
        }
        other => panic!("{other:?} says nothing about sessions"),
    }
}

fn named(topic: u8, by_id: bool) -> ResponseTopic {
    let id = if by_id { uuid::Uuid::from_u128(u128::from(topic) + 1) } else { uuid::Uuid::nil() };
    ResponseTopic { name: Arc::from(if topic == 0 { "a" } else { "b" }), id: TopicId(id) }
}

fn topic_of(topic: &ResponseTopic) -> u8 {
    u8::from(&*topic.name == "b")
}

fn ask((topic, partition): (u8, i32), by_id: bool, offset: u8) -> Asked {
    Asked {
        topic: named(topic, by_id),
        partition,
        current_leader_epoch: LeaderEpoch::NONE,
        fetch_offset: Offset(offset.into()),
        last_fetched_epoch: LeaderEpoch::NONE,
        log_start_offset: Offset::NONE,
        max_bytes: 1 << 20,
    }
}

fn answer(asked: &Asked, what: u8) -> (ResponseTopic, PartitionResponse<Records>) {
    let error = if what & 32 != 0 { ErrorCode::NotLeaderOrFollower } else { ErrorCode::None };
    let mut answer = PartitionResponse::failed(asked.partition, error);
    answer.high_watermark = Offset(i64::from(what >> 6));
    answer.records = Records(usize::from(what & 64));
    (asked.topic.clone(), answer)
}
