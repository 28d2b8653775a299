//! Transactional ids on a bench: time that moves when told, a log that takes or refuses, markers that are kept until somebody
//! says what became of them.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::*;
use crate::coordinator::cores::{Append, RequestId};
use crate::coordinator::loader::Replay;
use crate::types::TopicPartition;

pub const ID: &str = "tx";
pub const TIMEOUT_MS: i32 = 60_000;
pub const EXPIRATION_MS: i64 = 1_000_000;

pub struct Bench {
    pub transactions: Transactions,
    pub now: Now,
    pub told: BTreeMap<u64, Answer>,
    /// Appends the log has not answered yet.
    pub held: Vec<Append>,
    /// Everything in the log, record by record.
    pub log: Vec<(Bytes, Option<Bytes>)>,
    /// Markers nobody has answered for.
    pub markings: Vec<Marking>,
    /// Appends wait for [`Bench::release`].
    pub hold: bool,
    pub next_producer_id: i64,
    pub epoch: i32,
    next_request: u64,
}

pub fn settings() -> Settings {
    Settings { id_expiration_ms: EXPIRATION_MS }
}

pub fn at(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

impl Default for Bench {
    fn default() -> Bench {
        Bench {
            transactions: Transactions::new(settings(), 0),
            now: Now { monotonic_ms: 1_000, wall_ms: 1_700_000_000_000 },
            told: BTreeMap::new(),
            held: Vec::new(),
            log: Vec::new(),
            markings: Vec::new(),
            hold: false,
            next_producer_id: 1_000,
            epoch: 0,
            next_request: 0,
        }
    }
}

impl Bench {
    pub fn request(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }

    /// Does what the core asks for.
    pub fn settle(&mut self) {
        loop {
            let effects = self.transactions.take_effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                match effect {
                    Effect::Answer(request, answer) => {
                        let twice = self.told.insert(request.0, answer);
                        assert_eq!(twice, None, "request {} is answered twice", request.0);
                    }
                    Effect::Append(append) if self.hold => self.held.push(append),
                    Effect::Append(append) => self.take(append),
                    Effect::Task(marking) => self.markings.push(marking),
                }
            }
        }
    }

    fn take(&mut self, append: Append) {
        let first = Offset(self.log.len() as i64);
        self.log.extend(append.records);
        self.transactions.appended(self.now, append.id, Ok(first));
    }

    /// The log takes, or refuses, the oldest append that is held.
    pub fn release(&mut self, outcome: Result<(), ErrorCode>) {
        let append = self.held.remove(0);
        match outcome {
            Ok(()) => self.take(append),
            Err(error) => self.transactions.appended(self.now, append.id, Err(error)),
        }
        self.settle();
    }

    /// Lets `ms` pass, timer by timer.
    pub fn pass(&mut self, ms: i64) {
        let until_ms = self.now.monotonic_ms + ms;
        while let Some(due_ms) = self.transactions.next_due_ms().filter(|due_ms| *due_ms <= until_ms) {
            self.advance((due_ms - self.now.monotonic_ms).max(0));
            self.transactions.tick(self.now);
            self.settle();
        }
        self.advance(until_ms - self.now.monotonic_ms);
    }

    fn advance(&mut self, ms: i64) {
        self.now.monotonic_ms += ms;
        self.now.wall_ms += ms;
    }

    pub fn init_as(&mut self, id: &str, expected: Option<(i64, i16)>) -> RequestId {
        let request = self.request();
        let init = Init { request, transactional_id: id.into(), timeout_ms: TIMEOUT_MS, expected };
        let next = &mut self.next_producer_id;
        self.transactions.init(self.now, init, || {
            *next += 1;
            Ok(*next - 1)
        });
        self.settle();
        request
    }

    /// Id and epoch.
    pub fn init(&mut self, expected: Option<(i64, i16)>) -> Result<(i64, i16), ErrorCode> {
        let request = self.init_as(ID, expected);
        match self.told.get(&request.0) {
            Some(Answer::Initialized(outcome)) => *outcome,
            other => panic!("request {} is not an init that was answered: {other:?}", request.0),
        }
    }

    pub fn add_as(&mut self, id: &str, producer: (i64, i16), partitions: &[TopicPartition]) -> RequestId {
        let request = self.request();
        let (producer_id, producer_epoch) = producer;
        let partitions = partitions.to_vec();
        let add = AddPartitions { request, transactional_id: id.into(), producer_id, producer_epoch, partitions };
        self.transactions.add_partitions(self.now, add);
        self.settle();
        request
    }

    pub fn add(&mut self, producer: (i64, i16), partitions: &[TopicPartition]) -> ErrorCode {
        let request = self.add_as(ID, producer, partitions);
        self.done(request)
    }

    pub fn end_as(&mut self, id: &str, producer: (i64, i16), commit: bool) -> RequestId {
        let request = self.request();
        let (producer_id, producer_epoch) = producer;
        let end = End { request, transactional_id: id.into(), producer_id, producer_epoch, commit };
        self.transactions.end(self.now, end);
        self.settle();
        request
    }

    pub fn end(&mut self, producer: (i64, i16), commit: bool) -> ErrorCode {
        let request = self.end_as(ID, producer, commit);
        self.done(request)
    }

    pub fn done(&self, request: RequestId) -> ErrorCode {
        match self.told.get(&request.0) {
            Some(Answer::Done(code)) => *code,
            other => panic!("request {} is not answered: {other:?}", request.0),
        }
    }

    /// A producer with one partition in its transaction.
    pub fn ongoing(&mut self) -> (i64, i16) {
        let producer = self.init(None).expect("an id");
        assert_eq!(self.add(producer, &[at("t", 0)]), ErrorCode::None);
        producer
    }

    /// What became of the oldest markers, the same in every partition.
    pub fn marked(&mut self, outcome: Result<(), ErrorCode>) {
        let marking = self.markings.remove(0);
        let outcomes: Vec<_> = marking.partitions.iter().map(|at| (at.clone(), outcome)).collect();
        self.transactions.marked(self.now, &marking, &outcomes);
        self.settle();
    }

    pub fn state(&self) -> State {
        self.transactions.describe(ID).expect("it is known").state
    }

    /// Whoever becomes the coordinator takes over what is in the log. Who waits is told.
    pub fn elsewhere(&mut self) {
        let mut loading = Loading::default();
        for (at, (key, value)) in self.log.iter().enumerate() {
            loading.replay(Offset(at as i64), None, key, value.as_deref()).expect("a record of ours");
        }
        self.epoch += 1;
        let loaded = loading.finish(self.now, settings(), self.epoch);
        let before = std::mem::replace(&mut self.transactions, loaded);
        self.held.clear();
        self.markings.clear();
        for effect in before.resign() {
            if let Effect::Answer(request, answer) = effect {
                self.told.insert(request.0, answer);
            }
        }
        self.settle();
    }
}
