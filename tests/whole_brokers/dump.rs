//! What replicas hold, read from their disks.

use std::path::PathBuf;

use history::event::{Event, Partition, Replica, Stored as Record};
use klamm::sim::disk::SimDisk;
use klamm::storage::checkpoint::{REPLICATION_OFFSET, read_offsets};
use klamm::storage::disk::{Disk, Open};
use klamm::types::TopicPartition;
use klamm::wire::batch::{Batch, Batches};

use crate::cluster::Cluster;
use crate::stage::{Stage, Stored};

/// The segments of a partition, one behind the other.
fn segments(disk: &SimDisk, broker: i32, topic: &str, partition: i32) -> Vec<Vec<u8>> {
    let dir: PathBuf = Cluster::log_dir(broker).join(format!("{topic}-{partition}"));
    let mut names: Vec<String> = disk.list(&dir).unwrap_or_default().into_iter().map(|entry| entry.name).collect();
    names.retain(|name| name.ends_with(".log"));
    names.sort();
    let read = |name: &String| {
        let file = disk.open(&dir.join(name), Open::Read).ok()?;
        let mut bytes = vec![0; usize::try_from(file.len().ok()?).ok()?];
        let read = file.read_at(&mut bytes, 0).ok()?;
        bytes.truncate(read);
        Some(bytes)
    };
    names.iter().filter_map(read).collect()
}

fn batches(segment: &[u8]) -> impl Iterator<Item = Batch<'_>> {
    Batches::new(segment).map_while(|batch| batch.ok()?.v2().ok())
}

/// The offset behind the last record.
pub fn end(disk: &SimDisk, broker: i32, topic: &str, partition: i32) -> i64 {
    let segments = segments(disk, broker, topic, partition);
    let last = segments.iter().flat_map(|segment| batches(segment)).last();
    last.map_or(0, |batch| batch.header.next_offset().0)
}

fn records(disk: &SimDisk, broker: i32, topic: &str, partition: i32) -> Vec<Record> {
    let mut all = Vec::new();
    for segment in segments(disk, broker, topic, partition) {
        for batch in batches(&segment) {
            assert!(batch.crc_matches(), "a checksum of {topic}-{partition} on broker {broker}");
            for record in batch.records() {
                let record = record.expect("a record");
                let value = String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned();
                all.push(Record {
                    offset: record.offset(&batch.header).0,
                    epoch: batch.header.leader_epoch.0,
                    value: Some(value),
                    key: None,
                    crc: Some(batch.header.crc),
                });
            }
        }
    }
    all
}

/// All replicas of what clients wrote to, as the brokers left them that have ended; `led` says by whom.
pub fn put_down(stage: &Stage, cluster: &Cluster, led: &[Stored]) {
    for one in led.iter().filter(|one| !one.topic.starts_with("__")) {
        for id in &one.replicas {
            let Some(disk) = cluster.disk(id.0) else { continue };
            let checkpoint = Cluster::log_dir(id.0).join(REPLICATION_OFFSET);
            let marks = read_offsets(disk, &checkpoint).expect("a checkpoint");
            let is_leader = *id == one.state.leader;
            let records = records(disk, id.0, &one.topic, one.partition);
            let mark = marks.get(&TopicPartition::new(one.topic.as_str(), one.partition)).map_or(0, |mark| mark.0);
            if is_leader {
                stage.chronicle.holds(&one.topic, one.partition, &records);
            }
            stage.chronicle.write(&Event::Replica(Replica {
                broker: id.0,
                at: Partition { topic: one.topic.clone(), partition: one.partition },
                leader: is_leader,
                log_start_offset: records.first().map_or(0, |record| record.offset),
                high_watermark: mark,
                records,
            }));
        }
    }
}
