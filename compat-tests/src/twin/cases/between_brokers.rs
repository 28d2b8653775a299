//! What a controller says to brokers, and brokers to a controller, from who is neither: refused, so that nothing changes.

use anyhow::Result;
use kafka_protocol::messages::alter_partition_request::{PartitionData, TopicData};
use kafka_protocol::messages::leader_and_isr_request::{LeaderAndIsrPartitionState, LeaderAndIsrTopicState};
use kafka_protocol::messages::stop_replica_request::{
    StopReplicaPartitionState, StopReplicaPartitionV0, StopReplicaTopicState, StopReplicaTopicV1,
};
use kafka_protocol::messages::*;
use uuid::Uuid;

use super::super::requests::topic_name;
use super::super::script::Script;
use crate::broker::BROKER_ID;

const NOBODYS: &str = "nobodys";

/// Of a controller before the first, and to an earlier life of the receiver where the version says which.
pub fn controllers_of_before(script: &mut Script) -> Result<()> {
    for (step, broker_epoch) in [("no life in particular", -1), ("an earlier life", 0)] {
        for partitions in [false, true] {
            let step = format!("to {step}, {}", if partitions { "a partition" } else { "no partitions" });
            script
                .ask_all(&step, ApiKey::LeaderAndIsr, |version, _| leader_and_isr(version, broker_epoch, partitions))?;
            script.ask_all(&step, ApiKey::StopReplica, |version, _| stop_replica(version, broker_epoch, partitions))?;
        }
        script.ask_all(step, ApiKey::UpdateMetadata, |version, _| {
            let request = UpdateMetadataRequest::default().with_controller_id(BrokerId(BROKER_ID));
            let request = request.with_controller_epoch(0);
            RequestKind::UpdateMetadata(if version >= 5 { request.with_broker_epoch(broker_epoch) } else { request })
        })?;
    }
    Ok(())
}

fn leader_and_isr(version: i16, broker_epoch: i64, partition: bool) -> RequestKind {
    let request = LeaderAndIsrRequest::default().with_controller_id(BrokerId(BROKER_ID)).with_controller_epoch(0);
    let request = if version >= 2 { request.with_broker_epoch(broker_epoch) } else { request };
    if !partition {
        return RequestKind::LeaderAndIsr(request);
    }
    let state = LeaderAndIsrPartitionState::default()
        .with_leader(BrokerId(BROKER_ID))
        .with_isr(vec![BrokerId(BROKER_ID)])
        .with_replicas(vec![BrokerId(BROKER_ID)]);
    RequestKind::LeaderAndIsr(match version {
        0..=1 => request.with_ungrouped_partition_states(vec![state.with_topic_name(topic_name(NOBODYS))]),
        _ => request.with_topic_states(vec![
            LeaderAndIsrTopicState::default()
                .with_topic_name(topic_name(NOBODYS))
                .with_topic_id(if version >= 5 { Uuid::from_u128(7) } else { Uuid::nil() })
                .with_partition_states(vec![state]),
        ]),
    })
}

fn stop_replica(version: i16, broker_epoch: i64, partition: bool) -> RequestKind {
    let request = StopReplicaRequest::default().with_controller_id(BrokerId(BROKER_ID)).with_controller_epoch(0);
    let request = if version >= 1 { request.with_broker_epoch(broker_epoch) } else { request };
    if !partition {
        return RequestKind::StopReplica(request);
    }
    RequestKind::StopReplica(match version {
        0 => request
            .with_ungrouped_partitions(vec![StopReplicaPartitionV0::default().with_topic_name(topic_name(NOBODYS))]),
        1..=2 => request.with_topics(vec![
            StopReplicaTopicV1::default().with_name(topic_name(NOBODYS)).with_partition_indexes(vec![0]),
        ]),
        _ => request.with_topic_states(vec![
            StopReplicaTopicState::default()
                .with_topic_name(topic_name(NOBODYS))
                .with_partition_states(vec![StopReplicaPartitionState::default()]),
        ]),
    })
}

/// Of brokers that are not registered, or were before.
pub fn strangers(script: &mut Script) -> Result<()> {
    for (step, broker, epoch) in [("an unknown broker", 9, 0), ("no broker", -1, -1), ("an earlier life", BROKER_ID, 0)]
    {
        script.ask_all(step, ApiKey::ControlledShutdown, |version, _| {
            let request = ControlledShutdownRequest::default().with_broker_id(BrokerId(broker));
            // Without an epoch the broker itself would be taken at its word.
            let broker = if version < 2 && broker == BROKER_ID { 8 } else { broker };
            let request = request.with_broker_id(BrokerId(broker));
            RequestKind::ControlledShutdown(if version >= 2 { request.with_broker_epoch(epoch) } else { request })
        })?;
        for partition in [false, true] {
            let step = format!("{step}, {}", if partition { "a partition" } else { "no partitions" });
            script.ask_all(&step, ApiKey::AlterPartition, |version, _| {
                let request =
                    AlterPartitionRequest::default().with_broker_id(BrokerId(broker)).with_broker_epoch(epoch);
                let topic = TopicData::default().with_partitions(vec![PartitionData::default()]);
                let topic = match version {
                    0..=1 => topic.with_topic_name(topic_name(NOBODYS)),
                    _ => topic.with_topic_id(Uuid::from_u128(7)),
                };
                RequestKind::AlterPartition(request.with_topics(if partition { vec![topic] } else { Vec::new() }))
            })?;
        }
    }
    Ok(())
}
