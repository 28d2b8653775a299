//! Small requests for large work: counts that are only numbers, and the same question asked a hundred thousand times.

use anyhow::{Result, bail, ensure};
use bytes::Bytes;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::{
    ApiKey, CreatePartitionsRequest, CreateTopicsRequest, DescribeConfigsRequest, DescribeLogDirsRequest,
    MetadataRequest, RequestKind, ResponseKind,
};

use super::scene::{ATTACKED_PARTITION, Attack, PATIENCE, Scene, TOPIC};
use super::volley::volley;
use crate::broker::BROKER_ID;
use crate::lanes::load;
use crate::raw::{Connection, Heard, decode, frame};
use crate::records::{Batch, LZ4, Record};
use crate::twin::requests::{at, counted, create, fetch, fetch_topic, metadata_topic, produce, text, topic_name};

/// A topic of many partitions.
const WIDE: &str = "wide";
const WIDE_PARTITIONS: i32 = 100;

/// Partitions, few of which there are.
const MANY: i32 = 40_000;

/// How often a question stands in one request.
const TIMES: usize = 100_000;

pub fn run(scene: &mut Scene) -> Result<()> {
    load::create_topic(scene.address(), WIDE, WIDE_PARTITIONS)?;
    let families: [(&str, fn() -> Result<Vec<Bytes>>); 6] = [
        ("topics of 2^31 partitions", huge_topics),
        ("the same broker's configuration asked for 100,000 times", repeated_configs),
        ("the same topics asked for 100,000 times", repeated_topics),
        ("the same partition fetched 100,000 times", repeated_fetch),
        ("records that are each refused with a sentence", refused_records),
        ("no records for 40,000 partitions", no_records),
    ];
    for (name, frames) in families {
        scene.family(name, |attack| {
            volley(attack, &frames()?, PATIENCE, |frame, heard| {
                ensure!(heard != Heard::Silent, "no answer and no end after a frame of {} bytes", frame.len());
                Ok(())
            })
        });
    }
    scene.family("a session of 40,000 partitions, asked by one connection after another", |attack| {
        let mut id = 0;
        for epoch in 0..20 {
            id = in_session(attack, id, epoch)?;
            ensure!(id != 0, "no session was granted");
        }
        // It would be held for two minutes.
        in_session(attack, id, -1).map(|_| ())
    });
    Ok(())
}

/// The session's next request, on a connection of its own; answers the session's id.
fn in_session(attack: &Attack, id: i32, epoch: i32) -> Result<i32> {
    let named = if epoch == 0 { (0..MANY).map(|partition| at(partition, 0)).collect() } else { Vec::new() };
    let topics = if named.is_empty() { Vec::new() } else { vec![fetch_topic(TOPIC, uuid::Uuid::nil(), 7, named)] };
    let request = RequestKind::Fetch(fetch(7, topics).with_session_id(id).with_session_epoch(epoch));
    let bytes = frame(ApiKey::Fetch, 7, 1, &request)?;
    attack.count(bytes.len());
    let mut connection = Connection::open(attack.address)?;
    connection.send(&bytes);
    let Heard::Reply(bytes) = connection.hear(PATIENCE)? else { bail!("no answer") };
    let (_, ResponseKind::Fetch(answer)) = decode(ApiKey::Fetch, 7, bytes)? else { bail!("no Fetch response") };
    ensure!(answer.error_code == 0, "error {}", answer.error_code);
    Ok(answer.session_id)
}

fn no_records() -> Result<Vec<Bytes>> {
    let parts: Vec<_> = (0..MANY).map(|partition| (TOPIC, partition, None)).collect();
    Ok(vec![frame(ApiKey::Produce, 8, 1, &RequestKind::Produce(produce(-1, &parts)))?])
}

fn huge_topics() -> Result<Vec<Bytes>> {
    let mut frames = Vec::new();
    for count in [i32::MAX, 100_000_000] {
        for replicas in [1, i16::MAX] {
            for validate_only in [true, false] {
                let request: CreateTopicsRequest = create(vec![counted("too-large", count, replicas)]);
                let request = RequestKind::CreateTopics(request.with_validate_only(validate_only));
                frames.push(frame(ApiKey::CreateTopics, 5, 1, &request)?);
                let topic = CreatePartitionsTopic::default().with_name(topic_name(TOPIC)).with_count(count);
                let request = CreatePartitionsRequest::default().with_topics(vec![topic.with_assignments(None)]);
                let request = request.with_timeout_ms(1000).with_validate_only(validate_only);
                frames.push(frame(ApiKey::CreatePartitions, 1, 1, &RequestKind::CreatePartitions(request))?);
            }
        }
    }
    Ok(frames)
}

fn repeated_configs() -> Result<Vec<Bytes>> {
    let resource = |kind, name: &str| {
        let resource = DescribeConfigsResource::default().with_resource_type(kind).with_resource_name(text(name));
        let request =
            DescribeConfigsRequest::default().with_resources(vec![resource.with_configuration_keys(None); TIMES]);
        frame(ApiKey::DescribeConfigs, 1, 1, &RequestKind::DescribeConfigs(request.with_include_synonyms(true)))
    };
    Ok(vec![resource(4, &BROKER_ID.to_string())?, resource(2, TOPIC)?])
}

fn repeated_topics() -> Result<Vec<Bytes>> {
    let metadata = MetadataRequest::default().with_topics(Some(vec![metadata_topic(text(TOPIC)); TIMES]));
    let topic = DescribableLogDirTopic::default().with_topic(topic_name(TOPIC)).with_partitions(vec![0; 100]);
    let log_dirs = DescribeLogDirsRequest::default().with_topics(Some(vec![topic; TIMES / 100]));
    Ok(vec![
        frame(ApiKey::Metadata, 8, 1, &RequestKind::Metadata(metadata))?,
        frame(ApiKey::DescribeLogDirs, 1, 1, &RequestKind::DescribeLogDirs(log_dirs))?,
    ])
}

fn repeated_fetch() -> Result<Vec<Bytes>> {
    let topic = fetch_topic(TOPIC, uuid::Uuid::nil(), 4, vec![at(0, 0); TIMES]);
    let several = vec![fetch_topic(TOPIC, uuid::Uuid::nil(), 4, vec![at(0, 0)]); TIMES];
    let fetches = [vec![topic], several].map(|topics| RequestKind::Fetch(fetch(4, topics)));
    fetches.iter().map(|request| frame(ApiKey::Fetch, 4, 1, request)).collect()
}

/// Thousands of records with impossible times in a few bytes, in many partitions of one request.
fn refused_records() -> Result<Vec<Bytes>> {
    let record = Record { timestamp: i64::MAX / 2, ..Record::default() };
    let batch = Batch::new(vec![record; 20_000]).codec(LZ4).encode();
    let parts: Vec<_> = (0..WIDE_PARTITIONS).map(|partition| (WIDE, partition, Some(batch.clone()))).collect();
    let one = [(TOPIC, ATTACKED_PARTITION, Some(batch.clone()))];
    Ok(vec![
        frame(ApiKey::Produce, 8, 1, &RequestKind::Produce(produce(-1, &one)))?,
        frame(ApiKey::Produce, 8, 1, &RequestKind::Produce(produce(-1, &parts)))?,
    ])
}
