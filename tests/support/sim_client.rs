//! A client of a simulated broker.

#![allow(dead_code)]

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use klamm::sim::brokers::{Trace, World};
use klamm::wire::batch::{BatchBuilder, BatchOptions, Batches};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use uuid::Uuid;

/// Runs what is to have ended within an hour.
pub fn run(scenario: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        // A wait for what never happens ends at once: the clock is paused.
        tokio::time::timeout(Duration::from_secs(3_600), scenario).await.expect("an end within an hour");
    });
}

pub fn text(of: &str) -> StrBytes {
    StrBytes::from_string(of.to_owned())
}

/// A client of one broker that writes down every byte.
pub struct Client {
    pub stream: DuplexStream,
    /// As the next requests name it.
    pub client_id: &'static str,
    broker: i32,
    correlation: i32,
    trace: Trace,
}

impl Client {
    /// Waits until the broker listens.
    pub async fn connect(world: &World, broker: i32) -> Client {
        Client::connect_from(world, broker, Ipv4Addr::LOCALHOST.into()).await
    }

    /// As [`Client::connect`], with a client id.
    pub async fn connect_as(world: &World, broker: i32, id: &'static str) -> Client {
        Client { client_id: id, ..Client::connect_from(world, broker, Ipv4Addr::LOCALHOST.into()).await }
    }

    /// As [`Client::connect`], from a machine of this address.
    pub async fn connect_from(world: &World, broker: i32, peer: IpAddr) -> Client {
        for _ in 0..60_000 {
            if let Ok(stream) = world.net.connect_from(peer, World::port(broker)) {
                let trace = world.trace.clone();
                return Client { stream, client_id: "two-brokers", broker, correlation: 0, trace };
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("broker {broker} does not listen");
    }

    pub async fn ask<R: Request>(&mut self, version: i16, request: R) -> R::Response {
        self.send(version, request).await;
        self.answer::<R>(version).await
    }

    /// The answer to the last request.
    pub async fn answer<R: Request>(&mut self, version: i16) -> R::Response {
        let size = self.stream.read_u32().await.expect("a size");
        let mut answer = vec![0; size as usize];
        self.stream.read_exact(&mut answer).await.expect("an answer");
        let mut answer = Bytes::from(answer);
        self.trace.note(format_args!("from {}: {answer:?}", self.broker));
        let header = ResponseHeader::decode(&mut answer, R::Response::header_version(version)).expect("a header");
        assert_eq!(header.correlation_id, self.correlation);
        let response = R::Response::decode(&mut answer, version).expect("a response");
        assert!(!answer.has_remaining());
        response
    }

    /// Sends a request and does not wait for its answer.
    pub async fn send<R: Request>(&mut self, version: i16, request: R) {
        self.correlation += 1;
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation)
            .with_client_id(Some(StrBytes::from_static_str(self.client_id)));
        let mut frame = BytesMut::new();
        header.encode(&mut frame, R::header_version(version)).expect("a header");
        request.encode(&mut frame, version).expect("a request");
        self.trace.note(format_args!("to {}: {frame:?}", self.broker));
        let mut bytes = BytesMut::new();
        bytes.put_u32(u32::try_from(frame.len()).expect("short"));
        bytes.put_slice(&frame);
        self.stream.write_all(&bytes).await.expect("written");
    }

    /// Waits until the broker closes, which it must do without another word.
    pub async fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]).await, Ok(0) | Err(_))
    }

    pub async fn metadata(&mut self) -> MetadataResponse {
        self.ask(12, MetadataRequest::default().with_topics(None)).await
    }

    /// Asks until `wanted` is so.
    pub async fn metadata_until(&mut self, wanted: impl Fn(&MetadataResponse) -> bool) -> MetadataResponse {
        for _ in 0..6_000 {
            let metadata = self.metadata().await;
            if wanted(&metadata) {
                return metadata;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the metadata of broker {} never became as wanted", self.broker);
    }

    /// Has a topic auto-created and waits for its leader. The broker asked must be the only one: it gets the partition.
    pub async fn create(&mut self, name: &'static str) -> Uuid {
        for _ in 0..1_000 {
            let topic = MetadataRequestTopic::default().with_name(Some(TopicName(StrBytes::from_static_str(name))));
            let request =
                MetadataRequest::default().with_topics(Some(vec![topic])).with_allow_auto_topic_creation(true);
            let response = self.ask(12, request).await;
            let topic = &response.topics[0];
            if topic.error_code == 0 && topic.partitions[0].leader_id == BrokerId(self.broker) {
                return topic.topic_id;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("topic {name} never had a leader");
    }

    pub async fn produce(&mut self, topic: &'static str, value: &[u8]) -> i64 {
        self.try_produce(topic, value).await.expect("written")
    }

    /// With acks=all; the offset or the error code.
    pub async fn try_produce(&mut self, topic: &'static str, value: &[u8]) -> Result<i64, i16> {
        self.try_produce_at(topic, value, 1_700_000_000_000).await
    }

    /// As [`Client::try_produce`], with a timestamp in ms.
    pub async fn try_produce_at(&mut self, topic: &'static str, value: &[u8], timestamp: i64) -> Result<i64, i16> {
        self.try_send(topic, None, Some(value), timestamp).await
    }

    /// One record with acks=all, whatever it has; the offset or the error code.
    pub async fn try_send(
        &mut self,
        topic: &'static str,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        timestamp: i64,
    ) -> Result<i64, i16> {
        let mut batch = BatchBuilder::new(BatchOptions::default()).expect("a batch");
        batch.append(timestamp, key, value, &[]).expect("room");
        let records = batch.finish().expect("a batch");
        let data = PartitionProduceData::default().with_index(0).with_records(Some(records.into()));
        let topic = TopicProduceData::default()
            .with_name(TopicName(StrBytes::from_static_str(topic)))
            .with_partition_data(vec![data]);
        let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(5_000).with_topic_data(vec![topic]);
        let response = self.ask(9, request).await;
        let partition = &response.responses[0].partition_responses[0];
        match partition.error_code {
            0 => Ok(partition.base_offset),
            code => Err(code),
        }
    }

    /// Values of the whole log.
    pub async fn fetch(&mut self, topic: Uuid) -> Vec<Vec<u8>> {
        self.fetch_from(topic, 0, 500).await.expect("no error")
    }

    /// A fetch whose answer is not waited for.
    pub async fn send_fetch(&mut self, topic: Uuid, offset: i64, max_wait_ms: i32) {
        self.send(16, fetch(topic, offset, max_wait_ms)).await;
    }

    /// Values from `offset` on, or the error code.
    pub async fn fetch_from(&mut self, topic: Uuid, offset: i64, max_wait_ms: i32) -> Result<Vec<Vec<u8>>, i16> {
        let request = fetch(topic, offset, max_wait_ms);
        let response = self.ask(16, request).await;
        let partition = &response.responses[0].partitions[0];
        if partition.error_code != 0 {
            return Err(partition.error_code);
        }
        let records = partition.records.clone().unwrap_or_default();
        let mut values = Vec::new();
        for batch in Batches::new(&records) {
            let batch = batch.expect("a batch").v2().expect("magic 2");
            assert!(batch.crc_matches());
            for record in batch.records() {
                values.push(record.expect("a record").value.expect("a value").to_vec());
            }
        }
        Ok(values)
    }
}

/// Of partition 0, from `offset` on.
pub fn fetch(topic: Uuid, offset: i64, max_wait_ms: i32) -> FetchRequest {
    let partition = FetchPartition::default().with_partition_max_bytes(1 << 20).with_fetch_offset(offset);
    let topic = FetchTopic::default().with_topic_id(topic).with_partitions(vec![partition]);
    FetchRequest::default().with_max_wait_ms(max_wait_ms).with_min_bytes(1).with_topics(vec![topic])
}
