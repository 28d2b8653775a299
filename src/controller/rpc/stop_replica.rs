//! StopReplica (5), versions 0 to 4; written from 3 on.
//!
//! Up to version 2 one flag says for all partitions whether they are deleted, and there are no leader epochs: -1 passes.

use kafka_protocol::messages::stop_replica_request::{StopReplicaPartitionState, StopReplicaTopicState};
use kafka_protocol::messages::stop_replica_response::StopReplicaPartitionError;
use kafka_protocol::messages::{BrokerId as WireId, StopReplicaRequest, StopReplicaResponse};

use super::{by_topic, topic_name, topic_of};
use crate::controller::message::{ControlAnswer, ControlBody, ControlRequest, StopReplica};
use crate::types::{BrokerId, LeaderEpoch, TopicPartition};
use crate::wire::error_code::ErrorCode;

pub fn request(from: &ControlRequest, stops: &[StopReplica]) -> StopReplicaRequest {
    let state = |stop: &StopReplica| {
        StopReplicaPartitionState::default()
            .with_partition_index(stop.tp.partition)
            .with_leader_epoch(stop.leader_epoch.0)
            .with_delete_partition(stop.delete)
    };
    let topics = by_topic(stops, |stop| &stop.tp).filter_map(|stops| {
        let topic = StopReplicaTopicState::default()
            .with_topic_name(topic_name(&stops.first()?.tp.topic))
            .with_partition_states(stops.iter().map(state).collect());
        Some(topic)
    });
    StopReplicaRequest::default()
        .with_controller_id(WireId(from.controller.0))
        .with_controller_epoch(from.controller_epoch)
        .with_broker_epoch(from.broker_epoch)
        .with_topic_states(topics.collect())
}

/// Of any version.
pub fn read(request: &StopReplicaRequest) -> ControlRequest {
    let old =
        |tp: TopicPartition| StopReplica { tp, leader_epoch: LeaderEpoch::NONE, delete: request.delete_partitions };
    let ungrouped = request
        .ungrouped_partitions
        .iter()
        .map(|one| old(TopicPartition::new(topic_of(&one.topic_name), one.partition_index)));
    let grouped = request.topics.iter().flat_map(|topic| {
        let name = topic_of(&topic.name);
        topic.partition_indexes.iter().map(move |index| old(TopicPartition::new(name.clone(), *index)))
    });
    let stated = request.topic_states.iter().flat_map(|topic| {
        let name = topic_of(&topic.topic_name);
        topic.partition_states.iter().map(move |state| StopReplica {
            tp: TopicPartition::new(name.clone(), state.partition_index),
            leader_epoch: LeaderEpoch(state.leader_epoch),
            delete: state.delete_partition,
        })
    });
    ControlRequest {
        controller: BrokerId(request.controller_id.0),
        controller_epoch: request.controller_epoch,
        broker_epoch: request.broker_epoch,
        body: ControlBody::StopReplica(ungrouped.chain(grouped).chain(stated).collect()),
    }
}

pub fn response(answer: &ControlAnswer) -> StopReplicaResponse {
    let errors = answer.partitions.iter().map(|(tp, code)| {
        StopReplicaPartitionError::default()
            .with_topic_name(topic_name(&tp.topic))
            .with_partition_index(tp.partition)
            .with_error_code(code.code())
    });
    StopReplicaResponse::default().with_error_code(answer.error.code()).with_partition_errors(errors.collect())
}

pub fn read_response(response: &StopReplicaResponse) -> ControlAnswer {
    let partitions = response.partition_errors.iter().map(|error| {
        (TopicPartition::new(topic_of(&error.topic_name), error.partition_index), ErrorCode::answered(error.error_code))
    });
    ControlAnswer { error: ErrorCode::answered(response.error_code), partitions: partitions.collect() }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::stop_replica_request::{StopReplicaPartitionV0, StopReplicaTopicV1};

    use super::super::recorded;
    use super::*;

    const RECORDED: &str = include_str!("recorded/stop_replica.txt");

    fn stops(request: &ControlRequest) -> &[StopReplica] {
        match &request.body {
            ControlBody::StopReplica(stops) => stops,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_a_live_kafka_sent_and_answered_is_what_is_written() {
        for recorded in recorded::read::<StopReplicaRequest>(RECORDED) {
            let value = read(&recorded.request);
            recorded.assert_request(&request(&value, stops(&value)));
            let answer = read_response(&recorded.response);
            assert!(answer.partitions.iter().all(|(_, code)| !code.is_error()));
            recorded.assert_response(&response(&answer));
        }
    }

    #[test]
    fn every_field_is_read() {
        let all = recorded::read::<StopReplicaRequest>(RECORDED);
        let show = |n: usize| {
            let value = read(&all[n].request);
            stops(&value)
                .iter()
                .map(|one| format!("{} {} {}", one.tp, one.leader_epoch, one.delete))
                .collect::<Vec<_>>()
        };
        assert_eq!(show(1), ["r1-0 3 true"]);
        assert_eq!(show(3), ["o1-0 1 false"]);
        assert!(show(2).iter().all(|one| one.ends_with(" -2 false")), "{:?}", show(2));
    }

    #[test]
    fn up_to_version_2_one_flag_is_for_all_partitions() {
        let ungrouped = StopReplicaPartitionV0::default().with_topic_name(topic_name("a")).with_partition_index(1);
        let grouped = StopReplicaTopicV1::default().with_name(topic_name("b")).with_partition_indexes(vec![2, 3]);
        for delete in [true, false] {
            let request = StopReplicaRequest::default().with_delete_partitions(delete);
            let oldest = read(&request.clone().with_ungrouped_partitions(vec![ungrouped.clone()]));
            let newer = read(&request.with_topics(vec![grouped.clone()]));
            let all = [stops(&oldest), stops(&newer)].concat();
            let shown: Vec<String> = all.iter().map(|one| one.tp.to_string()).collect();
            assert_eq!(shown, ["a-1", "b-2", "b-3"]);
            assert!(all.iter().all(|one| one.delete == delete && one.leader_epoch == LeaderEpoch::NONE));
        }
    }
}
