//! DeleteRecords.

use anyhow::Result;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::{ApiKey, DeleteRecordsRequest, RequestKind};

use super::super::requests::{list_offsets, produce_one, topic_name};
use super::super::script::Script;
use super::produce::{read_back, topic};
use crate::records::Batch;

pub fn run(script: &mut Script) -> Result<()> {
    const API: ApiKey = ApiKey::DeleteRecords;
    for version in script.versions(API) {
        let name = topic(script, &format!("v{version}"), 2, &[])?;
        let compacted = topic(script, &format!("compacted{version}"), 1, &[("cleanup.policy", "compact")])?;
        let both = topic(script, &format!("both{version}"), 1, &[("cleanup.policy", "compact,delete")])?;
        for topic in [&name, &compacted, &both] {
            for stamps in [&[1, 2, 3][..], &[4, 5, 6], &[7, 8, 9, 10]] {
                script
                    .ask("records", ApiKey::Produce, 7, |_| produce_one(topic, 0, Batch::stamped(stamps).encode()))?;
            }
        }
        let ask = |topics: &[(&str, &[(i32, i64)])]| {
            let topics = topics.iter().map(|(name, partitions)| {
                let partitions = partitions.iter().map(|&(partition, offset)| {
                    DeleteRecordsPartition::default().with_partition_index(partition).with_offset(offset)
                });
                DeleteRecordsTopic::default().with_name(topic_name(name)).with_partitions(partitions.collect())
            });
            RequestKind::DeleteRecords(
                DeleteRecordsRequest::default().with_timeout_ms(5000).with_topics(topics.collect()),
            )
        };
        script.ask("before 4, inside a batch", API, version, |_| ask(&[(&name, &[(0, 4)])]))?;
        script.ask("the start now", ApiKey::ListOffsets, 5, |_| {
            RequestKind::ListOffsets(list_offsets(&name, &[(0, -2), (1, -2)]))
        })?;
        read_back(script, &name, 0)?;
        script.ask("before 2, already gone", API, version, |_| ask(&[(&name, &[(0, 2)])]))?;
        for offset in [11, -2, i64::MAX] {
            script.ask(&format!("before {offset}"), API, version, |_| ask(&[(&name, &[(0, offset)])]))?;
        }
        script.ask("an empty partition", API, version, |_| ask(&[(&name, &[(1, 0)])]))?;
        script.ask("an empty partition to its end", API, version, |_| ask(&[(&name, &[(1, -1)])]))?;
        script.ask("everything", API, version, |_| ask(&[(&name, &[(0, -1)])]))?;
        read_back(script, &name, 0)?;
        script.ask("compacted only", API, version, |_| ask(&[(&compacted, &[(0, 4)])]))?;
        script.ask("compacted and deleted", API, version, |_| ask(&[(&both, &[(0, 4)])]))?;
        script.ask("unknown ones among known", API, version, |_| {
            ask(&[(&name, &[(0, -1), (7, 0)]), ("nowhere", &[(0, 0)])])
        })?;
        script.ask("nothing", API, version, |_| ask(&[]))?;
        script.ask("more records", ApiKey::Produce, 7, |_| produce_one(&name, 0, Batch::stamped(&[11]).encode()))?;
    }
    Ok(())
}
