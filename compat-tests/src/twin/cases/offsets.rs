//! ListOffsets and OffsetForLeaderEpoch.

use anyhow::Result;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_protocol::messages::{ApiKey, BrokerId, ListOffsetsRequest, OffsetForLeaderEpochRequest, RequestKind};

use super::super::requests::{list_offsets, produce_one, topic_name};
use super::super::script::Script;
use super::produce::topic;
use crate::records::{Batch, GZIP};

pub fn list(script: &mut Script) -> Result<()> {
    const API: ApiKey = ApiKey::ListOffsets;
    let (even, odd) = (topic(script, "even", 2, &[])?, topic(script, "unsorted", 1, &[])?);
    let rolled = topic(script, "rolled", 1, &[("segment.bytes", "200")])?;
    for stamp in [2, 4, 6, 8] {
        script.ask("records", ApiKey::Produce, 7, |_| produce_one(&even, 0, Batch::stamped(&[stamp]).encode()))?;
        let batch = Batch::stamped(&[stamp * 10, stamp * 10 + 5]).codec(GZIP).encode();
        script.ask("records", ApiKey::Produce, 7, |_| produce_one(&rolled, 0, batch.clone()))?;
    }
    let unsorted = Batch { max_timestamp: Some(-1), ..Batch::stamped(&[5, 1, 9, 3, 9]) }.encode();
    script.ask("records", ApiKey::Produce, 7, |_| produce_one(&odd, 0, unsorted.clone()))?;
    script.ask("records", ApiKey::Produce, 7, |_| produce_one(&odd, 0, Batch::stamped(&[-1, 4]).encode()))?;
    let ask = |request: ListOffsetsRequest| RequestKind::ListOffsets(request);
    for version in script.versions(API) {
        for time in [-1, -2, -3, -4, -5, -6, i64::MIN, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, i64::MAX] {
            script.ask(&format!("time {time}"), API, version, |_| ask(list_offsets(&even, &[(0, time)])))?;
        }
        for time in [-1, -2, -3, 5, 6, 9, 10] {
            script.ask(&format!("time {time}, unsorted"), API, version, |_| ask(list_offsets(&odd, &[(0, time)])))?;
        }
        for time in [-1, -2, -3, 20, 24, 25, 41, 66, 85, 86] {
            script.ask(&format!("time {time}, several segments"), API, version, |_| {
                ask(list_offsets(&rolled, &[(0, time)]))
            })?;
        }
        for time in [-1, -2, -3, -4, 5] {
            script.ask(&format!("time {time}, empty"), API, version, |_| ask(list_offsets(&even, &[(1, time)])))?;
        }
        script.ask("unknown ones", API, version, |_| ask(list_offsets(&even, &[(7, -1), (-1, -1)])))?;
        script.ask("an unknown topic", API, version, |_| ask(list_offsets("nowhere", &[(0, -1), (1, -3)])))?;
        script
            .ask("an unknown partition and a strange time", API, version, |_| ask(list_offsets(&even, &[(7, -9)])))?;
        script.ask("one twice", API, version, |_| ask(list_offsets(&even, &[(0, -1), (0, -2), (1, -1)])))?;
        script.ask("nothing", API, version, |_| ask(ListOffsetsRequest::default().with_replica_id(BrokerId(-1))))?;
        script.ask("read committed", API, version, |_| {
            ask(list_offsets(&even, &[(0, -1), (1, -2)]).with_isolation_level(1))
        })?;
        for replica in [-2, 1, 9] {
            script.ask(&format!("replica {replica}"), API, version, |_| {
                ask(list_offsets(&even, &[(0, -1)]).with_replica_id(BrokerId(replica)))
            })?;
        }
        for epoch in [-1, 0, 1, 99] {
            script.ask(&format!("leader epoch {epoch}"), API, version, |_| {
                let partition = ListOffsetsPartition::default()
                    .with_timestamp(-1)
                    .with_max_num_offsets(1)
                    .with_current_leader_epoch(epoch);
                let topic = ListOffsetsTopic::default().with_name(topic_name(&even)).with_partitions(vec![partition]);
                ask(ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic]))
            })?;
        }
    }
    for most in [0, 1, 2, 10, -1] {
        for time in [-1, -2, 5, 50, i64::MAX] {
            script.ask(&format!("at most {most} before {time}"), API, 0, |_| {
                let partition = ListOffsetsPartition::default().with_timestamp(time).with_max_num_offsets(most);
                let topic = ListOffsetsTopic::default().with_name(topic_name(&rolled)).with_partitions(vec![partition]);
                ask(ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic]))
            })?;
        }
    }
    Ok(())
}

pub fn epochs(script: &mut Script) -> Result<()> {
    const API: ApiKey = ApiKey::OffsetForLeaderEpoch;
    let name = topic(script, "t", 2, &[])?;
    script.ask("records", ApiKey::Produce, 7, |_| produce_one(&name, 0, Batch::stamped(&[1, 2, 3]).encode()))?;
    let ask = |partition: i32, current: i32, wanted: i32, version: i16| {
        let part = OffsetForLeaderPartition::default().with_partition(partition).with_leader_epoch(wanted);
        let part = part.with_current_leader_epoch(current);
        let topic = OffsetForLeaderTopic::default().with_topic(topic_name(&name)).with_partitions(vec![part]);
        let request = OffsetForLeaderEpochRequest::default().with_topics(vec![topic]);
        RequestKind::OffsetForLeaderEpoch(if version >= 3 { request.with_replica_id(BrokerId(-1)) } else { request })
    };
    for version in script.versions(API) {
        for partition in [0, 1, 9] {
            for current in [-1, 0, 1, 99, -2] {
                for wanted in [-1, 0, 1, 99, -2] {
                    let step = format!("partition {partition}, current {current}, wanted {wanted}");
                    script.ask(&step, API, version, |_| ask(partition, current, wanted, version))?;
                }
            }
        }
        script.ask("nothing", API, version, |_| {
            RequestKind::OffsetForLeaderEpoch(OffsetForLeaderEpochRequest::default())
        })?;
        script.ask("an unknown topic and one twice", API, version, |_| {
            let parts = vec![OffsetForLeaderPartition::default(), OffsetForLeaderPartition::default()];
            let topics = ["nowhere", &name].map(|name| {
                OffsetForLeaderTopic::default().with_topic(topic_name(name)).with_partitions(parts.clone())
            });
            RequestKind::OffsetForLeaderEpoch(OffsetForLeaderEpochRequest::default().with_topics(topics.to_vec()))
        })?;
    }
    Ok(())
}
