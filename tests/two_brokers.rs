//! Two whole brokers in one current-thread runtime, over in-memory streams, disks and tree: no thread is started, and
//! the same seed gives the same run to the byte.

use std::fs;
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

/// A client of one broker that writes down every byte.
struct Client {
    stream: DuplexStream,
    broker: i32,
    correlation: i32,
    trace: Trace,
}

impl Client {
    /// Waits until the broker listens.
    async fn connect(world: &World, broker: i32) -> Client {
        for _ in 0..1_000 {
            if let Ok(stream) = world.net.connect(World::port(broker)) {
                return Client { stream, broker, correlation: 0, trace: world.trace.clone() };
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("broker {broker} does not listen");
    }

    async fn ask<R: Request>(&mut self, version: i16, request: R) -> R::Response {
        self.correlation += 1;
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation)
            .with_client_id(Some(StrBytes::from_static_str("two-brokers")));
        let mut frame = BytesMut::new();
        header.encode(&mut frame, R::header_version(version)).expect("a header");
        request.encode(&mut frame, version).expect("a request");
        self.trace.note(format_args!("to {}: {frame:?}", self.broker));
        let mut bytes = BytesMut::new();
        bytes.put_u32(u32::try_from(frame.len()).expect("short"));
        bytes.put_slice(&frame);
        self.stream.write_all(&bytes).await.expect("written");

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

    async fn metadata(&mut self) -> MetadataResponse {
        self.ask(12, MetadataRequest::default().with_topics(None)).await
    }

    /// Asks until `wanted` is so.
    async fn metadata_until(&mut self, wanted: impl Fn(&MetadataResponse) -> bool) -> MetadataResponse {
        for _ in 0..1_000 {
            let metadata = self.metadata().await;
            if wanted(&metadata) {
                return metadata;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the metadata of broker {} never became as wanted", self.broker);
    }

    /// Has a topic auto-created and waits for its leader. The broker asked must be the only one: it gets the partition.
    async fn create(&mut self, name: &'static str) -> Uuid {
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

    async fn produce(&mut self, topic: &'static str, value: &[u8]) -> i64 {
        let mut batch = BatchBuilder::new(BatchOptions::default()).expect("a batch");
        batch.append(1_700_000_000_000, None, Some(value), &[]).expect("room");
        let records = batch.finish().expect("a batch");
        let data = PartitionProduceData::default().with_index(0).with_records(Some(records.into()));
        let topic = TopicProduceData::default()
            .with_name(TopicName(StrBytes::from_static_str(topic)))
            .with_partition_data(vec![data]);
        let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(5_000).with_topic_data(vec![topic]);
        let response = self.ask(9, request).await;
        let partition = &response.responses[0].partition_responses[0];
        assert_eq!(partition.error_code, 0, "{partition:?}");
        partition.base_offset
    }

    /// Values of the whole log.
    async fn fetch(&mut self, topic: Uuid) -> Vec<Vec<u8>> {
        let partition = FetchPartition::default().with_partition_max_bytes(1 << 20);
        let topic = FetchTopic::default().with_topic_id(topic).with_partitions(vec![partition]);
        let request = FetchRequest::default().with_max_wait_ms(500).with_min_bytes(1).with_topics(vec![topic]);
        let response = self.ask(16, request).await;
        let partition = &response.responses[0].partitions[0];
        assert_eq!(partition.error_code, 0, "{partition:?}");
        let records = partition.records.clone().unwrap_or_default();
        let mut values = Vec::new();
        for batch in Batches::new(&records) {
            let batch = batch.expect("a batch").v2().expect("magic 2");
            assert!(batch.crc_matches());
            for record in batch.records() {
                values.push(record.expect("a record").value.expect("a value").to_vec());
            }
        }
        values
    }
}

async fn scenario(seed: u64) -> String {
    let world = World::new(seed);
    let one = world.start(1, None, &[]).expect("a configuration");
    let mut client = Client::connect(&world, 1).await;
    let versions = client.ask(3, software()).await;
    assert!(versions.api_keys.iter().any(|api| api.api_key == 0));
    client.metadata_until(|metadata| metadata.controller_id == 1).await;

    let topic = client.create("first").await;

    let two = world.start(2, None, &[]).expect("a configuration");
    let mut other = Client::connect(&world, 2).await;
    other.ask(3, software()).await;
    let both = client.metadata_until(|metadata| metadata.brokers.len() == 2).await;
    assert_eq!(both.controller_id, 1);

    assert_eq!(client.produce("first", b"a").await, 0);
    assert_eq!(client.produce("first", b"b").await, 1);
    assert_eq!(client.fetch(topic).await, [b"a", b"b"]);

    // The controller goes, the other broker takes over.
    drop(client);
    one.stop().await.expect("no panic").expect("an orderly end");
    let alone = other.metadata_until(|metadata| metadata.controller_id == 2 && metadata.brokers.len() == 1).await;
    assert_eq!(alone.brokers[0].port, i32::from(World::port(2)));
    let topic = other.create("second").await;
    assert_eq!(other.produce("second", b"c").await, 0);
    assert_eq!(other.fetch(topic).await, [b"c"]);
    drop(other);
    two.stop().await.expect("no panic").expect("an orderly end");
    world.trace.text()
}

fn software() -> ApiVersionsRequest {
    ApiVersionsRequest::default()
        .with_client_software_name(StrBytes::from_static_str("two-brokers"))
        .with_client_software_version(StrBytes::from_static_str("1"))
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").expect("procfs").count()
}

/// One test in this file: it counts the threads of the process.
#[test]
fn the_same_seed_gives_the_same_run_without_a_thread() {
    let before = threads();
    let run = |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let trace = scenario(seed).await;
            assert_eq!(threads(), before, "a thread was started");
            trace
        })
    };
    let (first, again, other) = (run(1), run(1), run(2));
    if first != again {
        let differs = first.lines().zip(again.lines()).find(|(a, b)| a != b);
        panic!("two runs of one seed differ: {differs:#?}");
    }
    assert_ne!(first, other, "the seed decides ids");
    assert!(first.lines().count() > 50, "{first}");
}
