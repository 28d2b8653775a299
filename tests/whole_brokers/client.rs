//! A client that speaks Kafka's protocol, knows who leads from the last metadata, and takes every failure as it comes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use klamm::random::{Random, SeededRandom};
use klamm::sim::brokers::World;
use klamm::types::BrokerId as Way;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{sleep, timeout};

use crate::stage::Stage;

pub fn text(of: &str) -> StrBytes {
    StrBytes::from_string(of.to_owned())
}

pub fn topic_name(of: &str) -> TopicName {
    TopicName(text(of))
}

/// Who leads a partition, in which epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    pub broker: i32,
    pub epoch: i32,
}

pub struct Client {
    pub stage: Arc<Stage>,
    pub name: String,
    pub random: SeededRandom,
    /// As whom the network knows it.
    way: Way,
    links: BTreeMap<i32, Link>,
    /// Of the topics that were last asked for.
    pub leaders: BTreeMap<(String, i32), Leader>,
    pub controller: i32,
}

struct Link {
    stream: DuplexStream,
    correlation: i32,
}

/// Before something is tried again.
const BACK_OFF: Duration = Duration::from_millis(100);

impl Client {
    /// The `nth` client of a stage.
    pub fn new(stage: &Arc<Stage>, name: &str, nth: i32) -> Client {
        Client {
            stage: stage.clone(),
            name: name.to_owned(),
            random: stage.random(1_000 + u64::from(nth.unsigned_abs())),
            way: Stage::client_way(nth),
            links: BTreeMap::new(),
            leaders: BTreeMap::new(),
            controller: -1,
        }
    }

    pub async fn back_off(&self) {
        sleep(BACK_OFF).await;
    }

    /// `None` when no answer comes within `patience_ms`, for whatever reason.
    pub async fn ask<R: Request>(
        &mut self,
        broker: i32,
        version: i16,
        request: &R,
        patience_ms: u64,
    ) -> Option<R::Response> {
        let mut link = match self.links.remove(&broker) {
            Some(link) => link,
            None => {
                let stream = self.stage.world.net.connect_on_way(self.way, World::port(broker)).ok()?;
                Link { stream, correlation: 0 }
            }
        };
        let answer = timeout(Duration::from_millis(patience_ms), link.ask(version, request)).await.ok()??;
        self.links.insert(broker, link);
        Some(answer)
    }

    pub fn any_broker(&self) -> i32 {
        1 + i32::try_from(self.random.below(u64::from(self.stage.brokers.unsigned_abs()))).expect("few")
    }

    /// Asks any broker for `topics`, or all. False when it does not answer.
    pub async fn look_around(&mut self, topics: Option<&[&str]>) -> bool {
        let broker = self.any_broker();
        let named = |name: &&str| MetadataRequestTopic::default().with_name(Some(topic_name(name)));
        let request = MetadataRequest::default()
            .with_topics(topics.map(|topics| topics.iter().map(named).collect()))
            .with_allow_auto_topic_creation(false);
        let Some(told) = self.ask(broker, 12, &request, 2_000).await else { return false };
        self.controller = told.controller_id.0;
        for topic in &told.topics {
            let Some(name) = &topic.name else { continue };
            for partition in &topic.partitions {
                let key = (name.to_string(), partition.partition_index);
                if partition.leader_id.0 < 0 {
                    continue;
                }
                let leader = Leader { broker: partition.leader_id.0, epoch: partition.leader_epoch };
                self.stage.chronicle.leads(topic.topic_id, partition.partition_index, leader.epoch, leader.broker);
                // Some brokers are told later than others.
                let known = self.leaders.entry(key).or_insert(leader);
                if known.epoch < leader.epoch {
                    *known = leader;
                }
            }
        }
        true
    }

    /// The leader as far as it is known, looked for where it is not.
    pub async fn leader(&mut self, topic: &str, partition: i32) -> Option<Leader> {
        let key = (topic.to_owned(), partition);
        if !self.leaders.contains_key(&key) {
            self.look_around(Some(&[topic])).await;
        }
        self.leaders.get(&key).copied()
    }

    /// That was not the leader: it is looked for after a while.
    pub async fn look_again(&mut self, topic: &str) {
        self.back_off().await;
        self.look_around(Some(&[topic])).await;
    }
}

impl Link {
    async fn ask<R: Request>(&mut self, version: i16, request: &R) -> Option<R::Response> {
        self.correlation += 1;
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation)
            .with_client_id(Some(StrBytes::from_static_str("whole")));
        let mut frame = BytesMut::new();
        frame.put_u32(0);
        header.encode(&mut frame, R::header_version(version)).expect("a header");
        request.encode(&mut frame, version).expect("a request");
        let size = u32::try_from(frame.len() - 4).expect("short");
        frame[..4].copy_from_slice(&size.to_be_bytes());
        self.stream.write_all(&frame).await.ok()?;
        let size = self.stream.read_u32().await.ok()?;
        let mut answer = vec![0; size as usize];
        self.stream.read_exact(&mut answer).await.ok()?;
        let mut answer = Bytes::from(answer);
        let header = ResponseHeader::decode(&mut answer, R::Response::header_version(version)).expect("a header");
        assert_eq!(header.correlation_id, self.correlation, "another request's answer");
        let response = R::Response::decode(&mut answer, version).expect("a response");
        assert!(!answer.has_remaining(), "bytes behind an answer");
        Some(response)
    }
}
