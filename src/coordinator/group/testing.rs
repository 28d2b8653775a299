//! Groups on a bench: time that moves when told, a log that takes or refuses, answers kept by request.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::coordinator::loader::Replay;
use crate::types::{LeaderEpoch, Offset};

pub const GROUP: &str = "g";

/// What a request was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    Join(JoinAnswer),
    Sync(SyncAnswer),
    Commit(Vec<ErrorCode>),
}

pub struct Bench {
    pub groups: Groups,
    pub now: Now,
    pub told: BTreeMap<u64, Told>,
    /// Appends the log has not answered yet.
    pub held: Vec<Append>,
    /// Everything in the log, offset by offset.
    pub log: Vec<(Bytes, Option<Bytes>)>,
    /// Appends wait for [`Bench::release`].
    pub hold: bool,
    next_request: u64,
}

pub fn settings() -> Settings {
    Settings {
        min_session_timeout_ms: 10,
        max_session_timeout_ms: 60_000,
        initial_rebalance_delay_ms: 0,
        max_size: usize::MAX,
        offset_metadata_max: 8,
        offsets_retention_ms: 1_000_000,
    }
}

impl Default for Bench {
    fn default() -> Bench {
        Bench::new(settings())
    }
}

impl Bench {
    pub fn new(settings: Settings) -> Bench {
        Bench {
            groups: Groups::new(settings),
            now: Now { monotonic_ms: 1_000, wall_ms: 1_700_000_000_000 },
            told: BTreeMap::new(),
            held: Vec::new(),
            log: Vec::new(),
            hold: false,
            next_request: 0,
        }
    }

    pub fn request(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }

    /// Does what the core asks for.
    pub fn settle(&mut self) {
        loop {
            let effects = self.groups.take_effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                let (request, told) = match effect {
                    Effect::Joined(request, answer) => (request, Told::Join(answer)),
                    Effect::Synced(request, answer) => (request, Told::Sync(answer)),
                    Effect::Committed(request, errors) => (request, Told::Commit(errors)),
                    Effect::Append(append) => {
                        self.append(append);
                        continue;
                    }
                };
                let twice = self.told.insert(request.0, told);
                assert_eq!(twice, None, "request {} is answered twice", request.0);
            }
        }
    }

    fn append(&mut self, append: Append) {
        if self.hold && append.replicated {
            self.held.push(append);
        } else {
            self.take(append);
        }
    }

    fn take(&mut self, append: Append) {
        let first = Offset(self.log.len() as i64);
        self.log.extend(append.records);
        self.groups.appended(self.now, append.id, Ok(first));
    }

    /// The log takes, or refuses, the oldest append that is held.
    pub fn release(&mut self, outcome: Result<(), ErrorCode>) {
        let append = self.held.remove(0);
        match outcome {
            Ok(()) => self.take(append),
            Err(error) => self.groups.appended(self.now, append.id, Err(error)),
        }
        self.settle();
    }

    /// Lets `ms` pass, timer by timer.
    pub fn pass(&mut self, ms: i64) {
        let until_ms = self.now.monotonic_ms + ms;
        while let Some(due_ms) = self.groups.next_due_ms().filter(|due_ms| *due_ms <= until_ms) {
            let step_ms = (due_ms - self.now.monotonic_ms).max(0);
            self.now.monotonic_ms += step_ms;
            self.now.wall_ms += step_ms;
            self.groups.tick(self.now);
            self.settle();
        }
        let rest_ms = until_ms - self.now.monotonic_ms;
        self.now.monotonic_ms += rest_ms;
        self.now.wall_ms += rest_ms;
    }

    /// A join of a consumer, not answered yet perhaps.
    pub fn join(&mut self, change: impl FnOnce(&mut Join)) -> RequestId {
        let request = self.request();
        let mut join = Join {
            request,
            group: GROUP.into(),
            member_id: "".into(),
            fresh_member_id: format!("m{}", request.0).into(),
            group_instance_id: None,
            client_id: "client".into(),
            client_host: "/127.0.0.1".into(),
            session_timeout_ms: 1_000,
            rebalance_timeout_ms: 5_000,
            protocol_type: "consumer".into(),
            protocols: protocols(&["range"]),
            require_known_member_id: false,
            may_skip_assignment: false,
        };
        change(&mut join);
        self.groups.join(self.now, join);
        self.settle();
        self.pass(0);
        request
    }

    pub fn joined(&self, request: RequestId) -> &JoinAnswer {
        match self.told.get(&request.0) {
            Some(Told::Join(answer)) => answer,
            other => panic!("request {} is not a join that was answered: {other:?}", request.0),
        }
    }

    pub fn sync(&mut self, member_id: &str, generation: i32, assignments: &[(&str, &str)]) -> RequestId {
        let request = self.request();
        let sync = Sync {
            request,
            group: GROUP.into(),
            speaker: speaker(generation, member_id),
            protocol_type: None,
            protocol: None,
            assignments: assignments
                .iter()
                .map(|(id, bytes)| ((*id).into(), Bytes::copy_from_slice(bytes.as_bytes())))
                .collect(),
        };
        self.groups.sync(self.now, sync);
        self.settle();
        request
    }

    pub fn synced(&self, request: RequestId) -> &SyncAnswer {
        match self.told.get(&request.0) {
            Some(Told::Sync(answer)) => answer,
            other => panic!("request {} is not a sync that was answered: {other:?}", request.0),
        }
    }

    /// The only member, of a generation without assignments yet.
    pub fn member(&mut self) -> Arc<str> {
        let join = self.join(|_| {});
        self.joined(join).member_id.clone()
    }

    /// One member, stable in generation 1.
    pub fn stable(&mut self) -> Arc<str> {
        let member_id = self.member();
        let sync = self.sync(&member_id, 1, &[(&*member_id, "all")]);
        assert_eq!(self.synced(sync).error, ErrorCode::None);
        member_id
    }

    pub fn heartbeat(&mut self, member_id: &str, generation: i32) -> ErrorCode {
        let outcome = self.groups.heartbeat(self.now, GROUP, &speaker(generation, member_id));
        self.settle();
        outcome
    }

    pub fn leave(&mut self, member_id: &str) -> ErrorCode {
        let leaving = Leaving { member_id: member_id.into(), group_instance_id: None };
        let outcome = self.groups.leave(self.now, GROUP, &[leaving]);
        self.settle();
        outcome[0]
    }

    pub fn commit(&mut self, speaker: Speaker, topic: &str, offset: i64) -> RequestId {
        self.commit_with(speaker, topic, offset, "")
    }

    pub fn commit_with(&mut self, speaker: Speaker, topic: &str, offset: i64, metadata: &str) -> RequestId {
        let request = self.request();
        let partition = CommitPartition {
            topic: topic.into(),
            partition: 0,
            offset: Offset(offset),
            leader_epoch: LeaderEpoch::NONE,
            metadata: metadata.into(),
            commit_timestamp_ms: None,
        };
        let commit = Commit {
            request,
            group: GROUP.into(),
            speaker,
            retention_ms: None,
            transaction: None,
            partitions: vec![partition],
        };
        self.groups.commit(self.now, commit);
        self.settle();
        request
    }

    pub fn committed(&self, request: RequestId) -> ErrorCode {
        match self.told.get(&request.0) {
            Some(Told::Commit(errors)) => errors[0],
            other => panic!("request {} is not a commit that was answered: {other:?}", request.0),
        }
    }

    pub fn offset(&self, topic: &str) -> Option<i64> {
        let fetched = self.groups.fetch(GROUP, &[(topic.into(), 0)], false);
        fetched[0].offset.clone().expect("stable").map(|value| value.offset.0)
    }

    pub fn state(&self) -> State {
        self.groups.describe(GROUP).state
    }

    /// The groups that a broker would load from the log as it is now.
    pub fn reloaded(&self) -> Groups {
        let mut loading = Loading::default();
        for (at, (key, value)) in self.log.iter().enumerate() {
            loading.replay(Offset(at as i64), None, key, value.as_deref()).expect("a record of ours");
        }
        loading.finish(self.now, settings())
    }
}

pub fn speaker(generation: i32, member_id: &str) -> Speaker {
    Speaker { generation, member_id: member_id.into(), group_instance_id: None }
}

/// Outside of any generation.
pub fn nobody() -> Speaker {
    speaker(-1, "")
}

pub fn protocols(names: &[&str]) -> Vec<(Arc<str>, Bytes)> {
    // A subscription to "topic".
    let subscription = Bytes::from_static(b"\0\0\0\0\0\x01\0\x05topic\xff\xff\xff\xff");
    names.iter().map(|name| ((*name).into(), subscription.clone())).collect()
}
