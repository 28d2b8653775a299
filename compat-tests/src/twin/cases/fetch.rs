//! Fetch without sessions.

use anyhow::Result;
use kafka_protocol::messages::fetch_request::{FetchPartition, ReplicaState};
use kafka_protocol::messages::{ApiKey, BrokerId, RequestKind};
use uuid::Uuid;

use super::super::requests::{at, fetch, fetch_topic, produce_one};
use super::super::script::Script;
use super::produce::topic;
use crate::records::{Batch, GZIP, LZ4, NONE, Record, SNAPPY, ZSTD};

const API: ApiKey = ApiKey::Fetch;

pub fn run(script: &mut Script) -> Result<()> {
    let name = topic(script, "t", 3, &[])?;
    for stamps in [&[1000, 1005][..], &[1001], &[2000, 2001, 2002]] {
        script.ask("records", ApiKey::Produce, 7, |_| produce_one(&name, 0, Batch::stamped(stamps).encode()))?;
    }
    let ask = |version: i16, id: Uuid, name: &str, partitions: Vec<FetchPartition>| {
        RequestKind::Fetch(fetch(version, vec![fetch_topic(name, id, version, partitions)]))
    };
    for version in script.versions(API) {
        for offset in [0, 1, 2, 3, 5, 6, 7, 100, -1, i64::MIN, i64::MAX] {
            script.ask(&format!("offset {offset}"), API, version, |side| {
                ask(version, side.id(&name), &name, vec![at(0, offset)])
            })?;
        }
        script.ask("an empty partition", API, version, |side| ask(version, side.id(&name), &name, vec![at(1, 0)]))?;
        script.ask("three, one unknown", API, version, |side| {
            ask(version, side.id(&name), &name, vec![at(1, 0), at(0, 3), at(7, 0)])
        })?;
        script.ask("an unknown topic", API, version, |_| {
            ask(version, Uuid::from_u128(0x99), "nowhere", vec![at(0, 0)])
        })?;
        script.ask("no id", API, version, |_| ask(version, Uuid::nil(), &name, vec![at(0, 0)]))?;
        script.ask("no topics", API, version, |_| RequestKind::Fetch(fetch(version, vec![])))?;
        script.ask("a partition twice", API, version, |side| {
            ask(version, side.id(&name), &name, vec![at(0, 0), at(0, 3)])
        })?;
        for isolation in [1, 2, -1] {
            script.ask(&format!("isolation {isolation}"), API, version, |side| {
                let topics = vec![fetch_topic(&name, side.id(&name), version, vec![at(0, 0)])];
                RequestKind::Fetch(fetch(version, topics).with_isolation_level(isolation))
            })?;
        }
        for epoch in [-1, 0, 1, 99, -2] {
            script.ask(&format!("leader epoch {epoch}"), API, version, |side| {
                ask(version, side.id(&name), &name, vec![at(0, 0).with_current_leader_epoch(epoch)])
            })?;
        }
        for (epoch, offset) in [(0, 6), (0, 3), (-1, 0), (5, 3), (0, 9)] {
            script.ask(&format!("last fetched epoch {epoch} at {offset}"), API, version, |side| {
                ask(
                    version,
                    side.id(&name),
                    &name,
                    vec![at(0, offset).with_last_fetched_epoch(epoch).with_current_leader_epoch(0)],
                )
            })?;
        }
        script.ask("from a rack", API, version, |side| {
            let topics = vec![fetch_topic(&name, side.id(&name), version, vec![at(0, 0)])];
            let request = fetch(version, topics);
            RequestKind::Fetch(if version >= 11 { request.with_rack_id("r1".into()) } else { request })
        })?;
        for replica in [-2, -3, 1, 7] {
            script.ask(&format!("replica {replica}"), API, version, |side| {
                let request = fetch(version, vec![fetch_topic(&name, side.id(&name), version, vec![at(0, 6)])]);
                RequestKind::Fetch(if version >= 15 {
                    request.with_replica_state(
                        ReplicaState::default().with_replica_id(BrokerId(replica)).with_replica_epoch(-1),
                    )
                } else {
                    request.with_replica_id(BrokerId(replica))
                })
            })?;
        }
        script.ask("waits in vain", API, version, |side| {
            let topics = vec![fetch_topic(&name, side.id(&name), version, vec![at(0, 6)])];
            RequestKind::Fetch(fetch(version, topics).with_max_wait_ms(30))
        })?;
        script.ask("one out of range ends the wait", API, version, |side| {
            let topics = vec![fetch_topic(&name, side.id(&name), version, vec![at(1, 0), at(0, 99)])];
            RequestKind::Fetch(fetch(version, topics).with_max_wait_ms(5000))
        })?;
        script.ask("needs more than there is", API, version, |side| {
            let topics = vec![fetch_topic(&name, side.id(&name), version, vec![at(0, 0)])];
            RequestKind::Fetch(fetch(version, topics).with_max_wait_ms(30).with_min_bytes(1_000_000))
        })?;
        // One that is unknown does not end the wait for the others.
        script.ask("waits though one is unknown", API, version, |side| {
            let topics = vec![fetch_topic(&name, side.id(&name), version, vec![at(1, 0), at(9, 0)])];
            RequestKind::Fetch(fetch(version, topics).with_max_wait_ms(30))
        })?;
    }
    Ok(())
}

/// Byte limits of request and partition, and the first batch that comes in spite of them.
pub fn limits(script: &mut Script) -> Result<()> {
    let name = topic(script, "t", 3, &[])?;
    let other = topic(script, "u", 1, &[])?;
    let record = |bytes: usize| Record { timestamp: 5, value: Some(vec![b'x'; bytes]), ..Record::default() };
    for partition in 0..3 {
        for bytes in [1000, 10, 300] {
            let batch = Batch::new(vec![record(bytes)]).encode();
            script.ask("records", ApiKey::Produce, 7, |_| produce_one(&name, partition, batch.clone()))?;
        }
    }
    script.ask("records", ApiKey::Produce, 7, |_| produce_one(&other, 0, Batch::new(vec![record(700)]).encode()))?;
    for version in script.versions(API) {
        for (total, each) in [
            (10 << 20, 0),
            (10 << 20, 1),
            (10 << 20, 100),
            (10 << 20, 1068),
            (10 << 20, 1200),
            (0, 1 << 20),
            (1, 1 << 20),
            (1500, 1 << 20),
            (2000, 1100),
            (3000, 1100),
            (i32::MAX, i32::MAX),
            (-1, -1),
            (1500, -1),
        ] {
            script.ask(&format!("{total} bytes in all, {each} each"), API, version, |side| {
                let partitions = [2, 0, 1].map(|partition| at(partition, 0).with_partition_max_bytes(each)).to_vec();
                let topics = vec![
                    fetch_topic(&name, side.id(&name), version, partitions),
                    fetch_topic(&other, side.id(&other), version, vec![at(0, 0).with_partition_max_bytes(each)]),
                ];
                let request = fetch(version, topics);
                RequestKind::Fetch(if version >= 3 { request.with_max_bytes(total) } else { request })
            })?;
        }
        script.ask("from the middle, the empty first", API, version, |side| {
            let partitions = vec![at(0, 3), at(1, 1).with_partition_max_bytes(10), at(2, 2)];
            let request = fetch(version, vec![fetch_topic(&name, side.id(&name), version, partitions)]);
            RequestKind::Fetch(if version >= 3 { request.with_max_bytes(10) } else { request })
        })?;
    }
    Ok(())
}

/// Stored batches of every codec, in every version: the new ones untouched, the old ones converted.
pub fn codecs(script: &mut Script) -> Result<()> {
    for codec in [NONE, GZIP, SNAPPY, LZ4, ZSTD] {
        let name = topic(script, &format!("c{codec}"), 1, &[])?;
        let mut batch = Batch::stamped(&[1000, 1005, 1001]).codec(codec);
        batch.records[1].headers.push((b"h".to_vec(), Some(b"x".to_vec())));
        batch.records[2].value = None;
        for _ in 0..2 {
            script.ask("records", ApiKey::Produce, 7, |_| produce_one(&name, 0, batch.encode()))?;
        }
        for version in script.versions(API) {
            for offset in [0, 1, 3, 5] {
                script.ask(&format!("codec {codec} from {offset}"), API, version, |side| {
                    RequestKind::Fetch(fetch(
                        version,
                        vec![fetch_topic(&name, side.id(&name), version, vec![at(0, offset)])],
                    ))
                })?;
            }
        }
        for version in 0..4 {
            script.ask(&format!("codec {codec}, 30 bytes"), API, version, |side| {
                let partition = at(0, 0).with_partition_max_bytes(30);
                RequestKind::Fetch(fetch(version, vec![fetch_topic(&name, side.id(&name), version, vec![partition])]))
            })?;
        }
    }
    Ok(())
}
