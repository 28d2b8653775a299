//! What each replica holds after a run, put down as part of its history.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use history::event::{Event, Partition, Replica, Stored};
use kafka_protocol::messages::{ApiKey, RequestKind, ResponseKind};

use super::chronicle::Chronicle;
use super::stage::Stage;
use crate::cluster::{self, Cluster};
use crate::raw::Connection;
use crate::records;
use crate::twin::requests::list_offsets;
use crate::wait::until;

/// Until followers have all of their leader's log: long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);
const LATEST: i64 = -1;
/// Where a batch has its checksum.
const CRC: std::ops::Range<usize> = 17..21;

/// What a leader shows as the end of each of these partitions: its high watermark.
pub fn ends(cluster: &Cluster, topic: &str, partitions: i32) -> Result<BTreeMap<i32, i64>> {
    let mut ends = BTreeMap::new();
    for partition in 0..partitions {
        let end = until(&format!("the end of {topic}-{partition}"), PATIENCE, || {
            let leader = cluster.address(cluster.leader(topic, partition)?)?;
            let request = RequestKind::ListOffsets(list_offsets(topic, &[(partition, LATEST)]));
            let answer = Connection::open(&leader)?.ask(ApiKey::ListOffsets, 2, &request)?;
            let ResponseKind::ListOffsets(answer) = answer else { bail!("no ListOffsets response") };
            let one = answer.topics.first().and_then(|topic| topic.partitions.first()).context("no partition")?;
            ensure!(one.error_code == 0, "error {}", one.error_code);
            Ok(one.offset)
        })?;
        ends.insert(partition, end);
    }
    Ok(ends)
}

/// All replicas of a topic to which nobody writes any more. They are put down as they are, also when they do not become
/// equally long: how they differ is for the checks to tell.
pub fn put_down(chronicle: &Chronicle, stage: &Stage, topic: &str, partitions: i32) -> Result<()> {
    for partition in 0..partitions {
        let at = Partition { topic: topic.to_owned(), partition };
        let brokers = stage.cluster.running();
        let _ = until("replicas of one length", PATIENCE, || {
            let logs: Vec<Vec<Stored>> = brokers.iter().map(|&id| log(stage, id, &at)).collect::<Result<_>>()?;
            let ends: Vec<Option<i64>> = logs.iter().map(|log| log.last().map(|record| record.offset)).collect();
            ensure!(ends.windows(2).all(|pair| pair[0] == pair[1]), "{at}: they end at {ends:?}");
            Ok(())
        });
        let leader = stage.cluster.leader(topic, partition)?;
        let shown = ends(&stage.cluster, topic, partition + 1)?.get(&partition).copied().unwrap_or_default();
        for id in brokers {
            let records = log(stage, id, &at)?;
            let end = records.last().map_or(0, |record| record.offset + 1);
            chronicle.write(&Event::Replica(Replica {
                broker: id,
                at: at.clone(),
                leader: id == leader,
                log_start_offset: records.first().map_or(0, |record| record.offset),
                high_watermark: shown.min(end),
                records,
            }));
        }
    }
    Ok(())
}

/// The records of a replica, from its files.
fn log(stage: &Stage, broker: i32, at: &Partition) -> Result<Vec<Stored>> {
    let bytes = cluster::log(&stage.replica(broker, &at.to_string())?)?;
    let mut stored = Vec::new();
    for batch in records::batches(&bytes) {
        let crc = batch.get(CRC).and_then(<[u8]>::first_chunk::<4>).map(|crc| u32::from_be_bytes(*crc));
        for one in records::read(batch).with_context(|| format!("{at} on broker {broker}"))? {
            let control = one.attributes & 1 << 5 != 0;
            let value = |value: Option<Vec<u8>>| String::from_utf8_lossy(&value.unwrap_or_default()).into_owned();
            stored.extend(one.records.into_iter().map(|record| Stored {
                offset: record.offset,
                epoch: one.leader_epoch,
                value: (!control).then(|| value(record.value)),
                key: None,
                crc,
            }));
        }
    }
    Ok(stored)
}
