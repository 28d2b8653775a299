//! LeaderAndIsr (4), versions 0 to 7; written from 5 on.
//!
//! ```text
//! 1  is_new                     5  topic ids; the answer goes by them
//! 2  broker epoch, by topic     6  recovery state
//! 3  adding, removing replicas  7  whether a KRaft controller speaks
//! ```

use std::collections::HashMap;

use kafka_protocol::messages::leader_and_isr_request::{
    LeaderAndIsrLiveLeader, LeaderAndIsrPartitionState, LeaderAndIsrTopicState,
};
use kafka_protocol::messages::leader_and_isr_response::{LeaderAndIsrPartitionError, LeaderAndIsrTopicError};
use kafka_protocol::messages::{BrokerId as WireId, LeaderAndIsrRequest, LeaderAndIsrResponse};

use super::{by_topic, endpoint, from_wire, text, to_wire, topic_name, topic_of};
use crate::controller::message::{ControlAnswer, ControlBody, ControlRequest, LeadershipUpdate};
use crate::replication::table::LeaderAndIsr;
use crate::types::{BrokerId, LeaderEpoch, TopicId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// First version whose answer names topics by id alone.
const ANSWER_BY_ID: i16 = 5;

/// `listener` is where brokers reach each other: that of the leaders is told.
pub fn request(from: &ControlRequest, update: &LeadershipUpdate, version: i16, listener: &str) -> LeaderAndIsrRequest {
    let state = |change: &LeaderAndIsr| {
        let recovering = change.recovering && version >= 6;
        LeaderAndIsrPartitionState::default()
            .with_partition_index(change.tp.partition)
            .with_controller_epoch(change.controller_epoch)
            .with_leader(WireId(change.leader.0))
            .with_leader_epoch(change.leader_epoch.0)
            .with_isr(to_wire(&change.isr))
            .with_partition_epoch(change.partition_epoch)
            .with_replicas(to_wire(&change.replicas))
            .with_adding_replicas(to_wire(&change.adding_replicas))
            .with_removing_replicas(to_wire(&change.removing_replicas))
            .with_is_new(change.is_new)
            .with_leader_recovery_state(i8::from(recovering))
    };
    let topics = by_topic(&update.partitions, |change| &change.tp).filter_map(|changes| {
        let first = changes.first()?;
        let topic = LeaderAndIsrTopicState::default()
            .with_topic_name(topic_name(&first.tp.topic))
            .with_topic_id(first.topic_id.0)
            .with_partition_states(changes.iter().map(state).collect());
        Some(topic)
    });
    let leaders = update.leaders.iter().filter_map(|broker| {
        let at = endpoint(broker, listener)?;
        let leader = LeaderAndIsrLiveLeader::default()
            .with_broker_id(WireId(broker.id.0))
            .with_host_name(text(&at.host))
            .with_port(i32::from(at.port));
        Some(leader)
    });
    LeaderAndIsrRequest::default()
        .with_controller_id(WireId(from.controller.0))
        .with_controller_epoch(from.controller_epoch)
        .with_broker_epoch(from.broker_epoch)
        .with_topic_states(topics.collect())
        .with_live_leaders(leaders.collect())
}

/// Of any version.
pub fn read(request: &LeaderAndIsrRequest) -> ControlRequest {
    let change = |tp: TopicPartition, topic_id: TopicId, state: &LeaderAndIsrPartitionState| LeaderAndIsr {
        tp,
        topic_id,
        controller_epoch: state.controller_epoch,
        leader: BrokerId(state.leader.0),
        leader_epoch: LeaderEpoch(state.leader_epoch),
        isr: from_wire(&state.isr),
        partition_epoch: state.partition_epoch,
        replicas: from_wire(&state.replicas),
        adding_replicas: from_wire(&state.adding_replicas),
        removing_replicas: from_wire(&state.removing_replicas),
        is_new: state.is_new,
        recovering: state.leader_recovery_state == 1,
    };
    let ungrouped = request.ungrouped_partition_states.iter().map(|state| {
        change(TopicPartition::new(topic_of(&state.topic_name), state.partition_index), TopicId::ZERO, state)
    });
    let grouped = request.topic_states.iter().flat_map(|topic| {
        let name = topic_of(&topic.topic_name);
        topic.partition_states.iter().map(move |state| {
            change(TopicPartition::new(name.clone(), state.partition_index), TopicId(topic.topic_id), state)
        })
    });
    let partitions = ungrouped.chain(grouped).collect();
    ControlRequest {
        controller: BrokerId(request.controller_id.0),
        controller_epoch: request.controller_epoch,
        broker_epoch: request.broker_epoch,
        body: ControlBody::LeaderAndIsr(LeadershipUpdate { partitions, leaders: Vec::new() }),
    }
}

/// The answer to `asked`, whose topics name the ids that it goes by.
pub fn response(answer: &ControlAnswer, asked: &LeaderAndIsrRequest, version: i16) -> LeaderAndIsrResponse {
    let error = |partition: i32, code: i16| {
        LeaderAndIsrPartitionError::default().with_partition_index(partition).with_error_code(code)
    };
    let response = LeaderAndIsrResponse::default().with_error_code(answer.error.code());
    if version < ANSWER_BY_ID {
        let errors = answer
            .partitions
            .iter()
            .map(|(tp, code)| error(tp.partition, code.code()).with_topic_name(topic_name(&tp.topic)));
        return response.with_partition_errors(errors.collect());
    }
    let ids: HashMap<&str, TopicId> =
        asked.topic_states.iter().map(|topic| (topic.topic_name.as_str(), TopicId(topic.topic_id))).collect();
    let topics = by_topic(&answer.partitions, |(tp, _)| tp).filter_map(|errors| {
        let (first, _) = errors.first()?;
        let topic = LeaderAndIsrTopicError::default()
            .with_topic_id(ids.get(&*first.topic)?.0)
            .with_partition_errors(errors.iter().map(|(tp, code)| error(tp.partition, code.code())).collect());
        Some(topic)
    });
    response.with_topics(topics.collect())
}

/// What a broker answered to `asked`. Partitions of topics that were not asked about are left out.
pub fn read_response(response: &LeaderAndIsrResponse, asked: &LeadershipUpdate) -> ControlAnswer {
    let names: HashMap<TopicId, _> =
        asked.partitions.iter().map(|change| (change.topic_id, change.tp.topic.clone())).collect();
    let named = response.partition_errors.iter().map(|error| {
        (TopicPartition::new(topic_of(&error.topic_name), error.partition_index), ErrorCode::answered(error.error_code))
    });
    let by_id = response.topics.iter().flat_map(|topic| {
        let name = names.get(&TopicId(topic.topic_id));
        topic.partition_errors.iter().filter_map(move |error| {
            let tp = TopicPartition::new(name?.clone(), error.partition_index);
            Some((tp, ErrorCode::answered(error.error_code)))
        })
    });
    ControlAnswer { error: ErrorCode::answered(response.error_code), partitions: named.chain(by_id).collect() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::recorded;
    use super::*;
    use crate::cluster::Broker;
    use crate::types::Endpoint;
    use crate::wire::error_code::ErrorCode;

    const RECORDED: &str = include_str!("recorded/leader_and_isr.txt");

    /// The live leaders of a request, as a controller knows them.
    fn leaders(request: &LeaderAndIsrRequest) -> Vec<Broker> {
        let broker = |leader: &LeaderAndIsrLiveLeader| Broker {
            id: BrokerId(leader.broker_id.0),
            rack: None,
            endpoints: [("IN".to_owned(), Endpoint { host: Arc::from(&*leader.host_name), port: leader.port as u16 })]
                .into(),
            epoch: 5,
        };
        request.live_leaders.iter().map(broker).collect()
    }

    fn update(request: &ControlRequest) -> LeadershipUpdate {
        match &request.body {
            ControlBody::LeaderAndIsr(update) => update.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_a_live_kafka_sent_is_what_is_written() {
        for recorded in recorded::read::<LeaderAndIsrRequest>(RECORDED).iter().filter(|it| it.version >= 5) {
            let value = read(&recorded.request);
            let update = LeadershipUpdate { leaders: leaders(&recorded.request), ..update(&value) };
            recorded.assert_request(&request(&value, &update, recorded.version, "IN"));
        }
    }

    #[test]
    fn what_a_live_kafka_answered_is_what_is_written_and_read() {
        for recorded in recorded::read::<LeaderAndIsrRequest>(RECORDED) {
            let asked = update(&read(&recorded.request));
            let answer = read_response(&recorded.response, &asked);
            assert_eq!(answer.partitions.len(), asked.partitions.len(), "every partition is answered");
            recorded.assert_response(&response(&answer, &recorded.request, recorded.version));
        }
    }

    #[test]
    fn every_field_is_read() {
        let all = recorded::read::<LeaderAndIsrRequest>(RECORDED);
        let changes = |n: usize| update(&read(&all[n].request)).partitions;
        let first = read(&all[0].request);
        assert_eq!((first.controller, first.controller_epoch, first.broker_epoch), (BrokerId(2), 1, 83));
        let created = changes(0);
        let leaders: Vec<(i32, i32)> = created.iter().map(|one| (one.tp.partition, one.leader.0)).collect();
        assert_eq!(leaders, [(2, 3), (1, 1), (0, 2)]);
        assert!(created.iter().all(|one| one.is_new && !one.recovering && &*one.tp.topic == "t1"));
        assert_eq!(created[0].topic_id.to_string(), "UG0qwWnhRQm27MlSR4Qc4g");
        let returned = changes(1);
        assert_eq!((returned[3].partition_epoch, returned[3].leader_epoch), (4, LeaderEpoch(1)));
        let moved = &changes(2)[0];
        assert_eq!(
            (&moved.adding_replicas[..], &moved.removing_replicas[..]),
            (&[BrokerId(3)][..], &[BrokerId(2)][..])
        );
        let unclean = &changes(3)[0];
        assert!(unclean.recovering && !unclean.is_new);
        assert_eq!((unclean.controller_epoch, &unclean.isr[..]), (2, &[BrokerId(1)][..]));
        let older = &changes(4)[0];
        assert_eq!((older.tp.to_string(), older.topic_id), ("o1-0".to_owned(), TopicId::ZERO));
    }

    #[test]
    fn the_oldest_version_lists_partitions_without_their_topics() {
        let state = LeaderAndIsrPartitionState::default()
            .with_topic_name(topic_name("t"))
            .with_partition_index(4)
            .with_leader(WireId(1))
            .with_replicas(to_wire(&[BrokerId(1), BrokerId(2)]));
        let old = LeaderAndIsrRequest::default().with_controller_epoch(3).with_ungrouped_partition_states(vec![state]);
        let value = read(&old);
        assert_eq!((value.broker_epoch, value.controller_epoch), (-1, 3), "no broker epoch to check");
        let change = &update(&value).partitions[0];
        assert_eq!((change.tp.to_string(), &change.replicas[..]), ("t-4".into(), &[BrokerId(1), BrokerId(2)][..]));
        let answer = ControlAnswer {
            error: ErrorCode::None,
            partitions: vec![(change.tp.clone(), ErrorCode::KafkaStorageError)],
        };
        let response = response(&answer, &old, 0);
        assert_eq!((response.topics.len(), response.partition_errors[0].error_code), (0, 56));
        assert_eq!(&*response.partition_errors[0].topic_name.0, "t");
    }

    #[test]
    fn a_release_without_recovery_states_is_not_told_of_them() {
        let mut value = read(&recorded::read::<LeaderAndIsrRequest>(RECORDED)[3].request);
        value.controller_epoch = 9;
        let request = request(&value, &update(&value), 5, "IN");
        assert_eq!(request.topic_states[0].partition_states[0].leader_recovery_state, 0);
        assert_eq!(request.controller_epoch, 9);
    }
}
