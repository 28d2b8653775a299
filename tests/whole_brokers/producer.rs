//! Producers: idempotent ones with acks=all that try again until they know, and one that asks its leader alone, once.

use std::collections::BTreeMap;
use std::time::Duration;

use history::event::{Acks, Event, Outcome, Partition, Send};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::*;
use klamm::random::Random;
use klamm::wire::batch::{BatchBuilder, BatchOptions};
use klamm::wire::error_code::ErrorCode;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::client::Client;
use crate::stage::{PARTITIONS, TOPIC};

/// How long a batch is tried.
const DELIVERY: Duration = Duration::from_secs(30);

pub struct Producer {
    client: Client,
    acks: Acks,
    idempotent: bool,
    number: u64,
    producer_id: i64,
    producer_epoch: i16,
    /// By partition.
    sequences: BTreeMap<i32, i32>,
    begun: Instant,
}

/// What became of a try.
enum Told {
    Stored(i64),
    StoredBefore,
    /// It cannot be stored by this try.
    NotStored,
    Perhaps,
    /// By a leader that does not know what came before.
    OutOfOrder(ErrorCode),
}

impl Producer {
    pub fn new(client: Client, acks: Acks, idempotent: bool) -> Producer {
        Producer {
            client,
            acks,
            idempotent,
            number: 0,
            producer_id: -1,
            producer_epoch: -1,
            sequences: BTreeMap::new(),
            begun: Instant::now(),
        }
    }

    /// Writes to the topic until it is to end.
    pub async fn run(mut self, mut end: watch::Receiver<bool>) {
        while !*end.borrow_and_update() {
            let partition = i32::try_from(self.client.random.below(u64::from(PARTITIONS.unsigned_abs()))).expect("few");
            self.write(TOPIC, partition).await;
            sleep(Duration::from_millis(self.client.random.below(400))).await;
        }
    }

    /// One batch. Answers whether it is stored for certain.
    pub async fn write(&mut self, topic: &str, partition: i32) -> bool {
        let records = 1 + self.client.random.below(3);
        let first = self.number;
        self.number += records;
        let values: Vec<String> = (first..self.number).map(|number| format!("{}-{number}", self.client.name)).collect();
        let deadline = Instant::now() + DELIVERY;
        if self.idempotent && !self.has_id(deadline).await {
            return false;
        }
        let from_us = self.client.stage.chronicle.now_us();
        let outcome = self.deliver(topic, partition, &values, deadline).await;
        let chronicle = &self.client.stage.chronicle;
        let span = chronicle.since(from_us);
        for (nth, value) in (0..).zip(values) {
            let outcome = match outcome {
                Outcome::Stored { offset } => Outcome::Stored { offset: offset + nth },
                other => other,
            };
            let at = Partition { topic: topic.to_owned(), partition };
            if let (Outcome::Stored { offset }, Acks::Leader) = (outcome, self.acks) {
                chronicle.acknowledged_by_leader(&at, offset, &value);
            }
            chronicle.write(&Event::Send(Send {
                client: self.client.name.clone(),
                number: first + u64::try_from(nth).expect("few"),
                span,
                at,
                key: None,
                value,
                acks: self.acks,
                idempotent: self.idempotent,
                transaction: None,
                input: None,
                outcome,
            }));
        }
        let is_stored = matches!(outcome, Outcome::Stored { .. } | Outcome::StoredBefore);
        chronicle.count(|counts| match is_stored {
            true => counts.acknowledged += records,
            false => counts.unknown += records,
        });
        is_stored
    }

    async fn has_id(&mut self, deadline: Instant) -> bool {
        while self.producer_id < 0 {
            if Instant::now() >= deadline {
                return false;
            }
            let request = InitProducerIdRequest::default()
                .with_transactional_id(None)
                .with_transaction_timeout_ms(60_000)
                .with_producer_id(ProducerId(-1))
                .with_producer_epoch(-1);
            let broker = self.client.any_broker();
            match self.client.ask(broker, 4, &request, 2_000).await {
                Some(answer) if answer.error_code == 0 => {
                    (self.producer_id, self.producer_epoch) = (answer.producer_id.0, answer.producer_epoch);
                    self.sequences.clear();
                }
                _ => self.client.back_off().await,
            }
        }
        true
    }

    /// Tries until it is known, or for too long.
    async fn deliver(&mut self, topic: &str, partition: i32, values: &[String], deadline: Instant) -> Outcome {
        let mut may_be_stored = false;
        loop {
            let mut out_of_order = None;
            if let Some(leader) = self.client.leader(topic, partition).await {
                match self.attempt(leader.broker, topic, partition, values).await {
                    Told::Stored(offset) => {
                        *self.sequences.entry(partition).or_default() += i32::try_from(values.len()).expect("few");
                        return Outcome::Stored { offset };
                    }
                    Told::StoredBefore => {
                        *self.sequences.entry(partition).or_default() += i32::try_from(values.len()).expect("few");
                        return Outcome::StoredBefore;
                    }
                    // One that was replaced and does not know it yet says so, too.
                    Told::OutOfOrder(code) => out_of_order = Some(code),
                    Told::NotStored => {}
                    Told::Perhaps => may_be_stored = true,
                }
            }
            // One without idempotence would store it twice.
            let gives_up = may_be_stored && !self.idempotent;
            if gives_up || Instant::now() >= deadline {
                if let Some(code) = out_of_order {
                    let name = &self.client.name;
                    self.client.stage.chronicle.wrong(format_args!(
                        "{name} is told {code:?} for {values:?} to the end, though all before was acknowledged"
                    ));
                }
                self.producer_id = -1;
                return if may_be_stored { Outcome::Unknown } else { Outcome::Refused };
            }
            self.client.leaders.remove(&(topic.to_owned(), partition));
            self.client.look_again(topic).await;
        }
    }

    async fn attempt(&mut self, leader: i32, topic: &str, partition: i32, values: &[String]) -> Told {
        let options = match self.idempotent {
            true => BatchOptions {
                producer_id: self.producer_id,
                producer_epoch: self.producer_epoch,
                base_sequence: *self.sequences.entry(partition).or_default(),
                ..BatchOptions::default()
            },
            false => BatchOptions::default(),
        };
        let mut batch = BatchBuilder::new(options).expect("a batch");
        let since = i64::try_from(self.begun.elapsed().as_millis()).expect("short");
        for value in values {
            batch.append(1_700_000_000_000 + since, None, Some(value.as_bytes()), &[]).expect("room");
        }
        let records = batch.finish().expect("a batch").into();
        let data = PartitionProduceData::default().with_index(partition).with_records(Some(records));
        let data =
            TopicProduceData::default().with_name(crate::client::topic_name(topic)).with_partition_data(vec![data]);
        let acks = if self.acks == Acks::All { -1 } else { 1 };
        let request = ProduceRequest::default().with_acks(acks).with_timeout_ms(3_000).with_topic_data(vec![data]);
        let Some(answer) = self.client.ask(leader, 9, &request, 4_000).await else { return Told::Perhaps };
        let told = &answer.responses[0].partition_responses[0];
        let code = ErrorCode::answered(told.error_code);
        if code.is_error() {
            let name = &self.client.name;
            self.client
                .stage
                .chronicle
                .note(format_args!("{name} is told {code:?} by {leader} of {topic}-{partition}"));
        }
        match code {
            ErrorCode::None => Told::Stored(told.base_offset),
            ErrorCode::DuplicateSequenceNumber => Told::StoredBefore,
            ErrorCode::NotEnoughReplicas | ErrorCode::UnknownTopicOrPartition => Told::NotStored,
            code @ (ErrorCode::OutOfOrderSequenceNumber | ErrorCode::UnknownProducerId) => Told::OutOfOrder(code),
            _ => Told::Perhaps,
        }
    }
}
