//! UpdateMetadata (6), versions 0 to 8; written from 7 on.
//!
//! ```text
//! 0  one endpoint a broker      5  broker epoch, by topic
//! 1  several, by protocol       7  topic ids
//! 2  rack                       8  whether a KRaft controller speaks
//! 3  listener names
//! 4  offline replicas
//! ```
//! Below version 3 a listener is named as its protocol. No version carries the epochs of the brokers listed.

use std::sync::Arc;

use kafka_protocol::messages::update_metadata_request::{
    UpdateMetadataBroker, UpdateMetadataEndpoint, UpdateMetadataPartitionState, UpdateMetadataTopicState,
};
use kafka_protocol::messages::{BrokerId as WireId, UpdateMetadataRequest, UpdateMetadataResponse};

use super::{by_topic, from_wire, text, to_wire, topic_name, topic_of};
use crate::cluster::{Broker, PartitionMeta};
use crate::controller::message::{ControlAnswer, ControlBody, ControlRequest, MetadataUpdate, PartitionUpdate};
use crate::types::{BrokerId, Endpoint, LeaderEpoch, TopicId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// Security protocols by their number, which is also what listeners are called below version 3.
const PROTOCOLS: [&str; 4] = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"];

/// PLAINTEXT, the only protocol there is here.
const PLAINTEXT: i16 = 0;

pub fn request(from: &ControlRequest, update: &MetadataUpdate) -> UpdateMetadataRequest {
    let state = |partition: &PartitionUpdate| {
        let meta = &partition.meta;
        UpdateMetadataPartitionState::default()
            .with_partition_index(partition.tp.partition)
            .with_controller_epoch(partition.controller_epoch)
            .with_leader(WireId(meta.leader.0))
            .with_leader_epoch(meta.leader_epoch.0)
            .with_isr(to_wire(&meta.isr))
            .with_zk_version(meta.partition_epoch)
            .with_replicas(to_wire(&meta.replicas))
            .with_offline_replicas(to_wire(&meta.offline_replicas))
    };
    let topics = by_topic(&update.partitions, |partition| &partition.tp).filter_map(|partitions| {
        let first = partitions.first()?;
        let topic = UpdateMetadataTopicState::default()
            .with_topic_name(topic_name(&first.tp.topic))
            .with_topic_id(first.topic_id.0)
            .with_partition_states(partitions.iter().map(state).collect());
        Some(topic)
    });
    let endpoint = |(listener, at): (&String, &Endpoint)| {
        UpdateMetadataEndpoint::default()
            .with_port(i32::from(at.port))
            .with_host(text(&at.host))
            .with_listener(text(listener))
            .with_security_protocol(PLAINTEXT)
    };
    let brokers = update.brokers.iter().map(|broker| {
        UpdateMetadataBroker::default()
            .with_id(WireId(broker.id.0))
            .with_endpoints(broker.endpoints.iter().map(endpoint).collect())
            .with_rack(broker.rack.as_deref().map(text))
    });
    UpdateMetadataRequest::default()
        .with_controller_id(WireId(from.controller.0))
        .with_controller_epoch(from.controller_epoch)
        .with_broker_epoch(from.broker_epoch)
        .with_topic_states(topics.collect())
        .with_live_brokers(brokers.collect())
}

/// Of any version. An endpoint that no connection can be made to is left out.
pub fn read(request: &UpdateMetadataRequest, version: i16) -> ControlRequest {
    let partition = |tp: TopicPartition, topic_id: TopicId, state: &UpdateMetadataPartitionState| PartitionUpdate {
        tp,
        topic_id,
        controller_epoch: state.controller_epoch,
        meta: PartitionMeta {
            leader: BrokerId(state.leader.0),
            leader_epoch: LeaderEpoch(state.leader_epoch),
            partition_epoch: state.zk_version,
            replicas: from_wire(&state.replicas),
            isr: from_wire(&state.isr),
            offline_replicas: from_wire(&state.offline_replicas),
        },
    };
    let ungrouped = request.ungrouped_partition_states.iter().map(|state| {
        partition(TopicPartition::new(topic_of(&state.topic_name), state.partition_index), TopicId::ZERO, state)
    });
    let grouped = request.topic_states.iter().flat_map(|topic| {
        let name = topic_of(&topic.topic_name);
        topic.partition_states.iter().map(move |state| {
            partition(TopicPartition::new(name.clone(), state.partition_index), TopicId(topic.topic_id), state)
        })
    });
    let update = MetadataUpdate {
        partitions: ungrouped.chain(grouped).collect(),
        brokers: request.live_brokers.iter().map(|broker| broker_of(broker, version)).collect(),
    };
    ControlRequest {
        controller: BrokerId(request.controller_id.0),
        controller_epoch: request.controller_epoch,
        broker_epoch: request.broker_epoch,
        body: ControlBody::UpdateMetadata(Arc::new(update)),
    }
}

fn broker_of(broker: &UpdateMetadataBroker, version: i16) -> Broker {
    let protocol = |number: i16| usize::try_from(number).ok().and_then(|at| PROTOCOLS.get(at).copied());
    let at = |listener: &str, host: &str, port: i32| {
        Some((listener.to_owned(), Endpoint { host: Arc::from(host), port: u16::try_from(port).ok()? }))
    };
    let endpoints = broker.endpoints.iter().filter_map(|endpoint| {
        let listener = if version < 3 { protocol(endpoint.security_protocol)? } else { endpoint.listener.as_str() };
        at(listener, &endpoint.host, endpoint.port)
    });
    let only = if version == 0 { at(PROTOCOLS[0], &broker.v0_host, broker.v0_port) } else { None };
    Broker {
        id: BrokerId(broker.id.0),
        rack: broker.rack.as_deref().map(Arc::from),
        endpoints: endpoints.chain(only).collect(),
        epoch: -1,
    }
}

pub fn response(answer: &ControlAnswer) -> UpdateMetadataResponse {
    UpdateMetadataResponse::default().with_error_code(answer.error.code())
}

pub fn read_response(response: &UpdateMetadataResponse) -> ControlAnswer {
    ControlAnswer { error: ErrorCode::answered(response.error_code), partitions: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::super::recorded;
    use super::*;
    use crate::controller::message::DURING_DELETE;

    const RECORDED: &str = include_str!("recorded/update_metadata.txt");

    fn update(request: &ControlRequest) -> &MetadataUpdate {
        match &request.body {
            ControlBody::UpdateMetadata(update) => update,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_a_live_kafka_sent_and_answered_is_what_is_written() {
        for recorded in recorded::read::<UpdateMetadataRequest>(RECORDED) {
            let value = read(&recorded.request, recorded.version);
            recorded.assert_request(&request(&value, update(&value)));
            recorded.assert_response(&response(&read_response(&recorded.response)));
        }
    }

    #[test]
    fn every_field_is_read() {
        let all = recorded::read::<UpdateMetadataRequest>(RECORDED);
        let value = read(&all[0].request, 8);
        assert_eq!((value.controller, value.controller_epoch, value.broker_epoch), (BrokerId(2), 1, 59));
        let at = Endpoint { host: "127.0.0.1".into(), port: 24002 };
        let expected = Broker {
            id: BrokerId(2),
            rack: Some("dc1".into()),
            endpoints: [("PLAINTEXT".to_owned(), at)].into(),
            epoch: -1,
        };
        assert_eq!(update(&value), &MetadataUpdate { partitions: Vec::new(), brokers: vec![expected] });
        let dead = read(&all[2].request, 8);
        let without_leader = &update(&dead).partitions[2];
        assert_eq!(without_leader.tp.to_string(), "u1-0");
        assert_eq!((without_leader.meta.leader, without_leader.controller_epoch), (BrokerId(-1), 2));
        assert_eq!(without_leader.meta.offline_replicas, [BrokerId(1), BrokerId(3)]);
        assert_eq!((without_leader.meta.leader_epoch, without_leader.meta.partition_epoch), (LeaderEpoch(2), 2));
        let deleted = read(&all[3].request, 8);
        assert!(update(&deleted).partitions.iter().all(|one| one.meta.leader == DURING_DELETE));
    }

    #[test]
    fn older_versions_name_listeners_by_protocol_and_list_partitions_without_topics() {
        let endpoint = |protocol: i16, port: i32| {
            UpdateMetadataEndpoint::default().with_host(text("h")).with_port(port).with_security_protocol(protocol)
        };
        let broker = UpdateMetadataBroker::default()
            .with_id(WireId(7))
            .with_v0_host(text("old"))
            .with_v0_port(9)
            .with_endpoints(vec![endpoint(0, 1), endpoint(3, 2), endpoint(9, 3), endpoint(1, -1), endpoint(2, 70_000)]);
        let listeners = |version| {
            let broker = broker_of(&broker, version);
            broker.endpoints.iter().map(|(name, at)| format!("{name}={}:{}", at.host, at.port)).collect::<Vec<_>>()
        };
        assert_eq!(listeners(1), ["PLAINTEXT=h:1", "SASL_SSL=h:2"], "no such protocol, no such ports");
        let oldest = broker.clone().with_endpoints(Vec::new());
        let oldest = broker_of(&oldest, 0);
        assert_eq!(oldest.endpoints["PLAINTEXT"], Endpoint { host: "old".into(), port: 9 });
        let state = UpdateMetadataPartitionState::default().with_topic_name(topic_name("t")).with_partition_index(2);
        let old = UpdateMetadataRequest::default().with_ungrouped_partition_states(vec![state]);
        let value = read(&old, 4);
        assert_eq!((update(&value).partitions[0].tp.to_string(), value.broker_epoch), ("t-2".to_owned(), -1));
    }
}
