//! Requests in few words.

use bytes::Bytes;
use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    AlterClientQuotasRequest, BrokerId, CreateTopicsRequest, FetchRequest, IncrementalAlterConfigsRequest,
    ListOffsetsRequest, ProduceRequest, RequestKind, TopicName, TransactionalId,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

pub fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub fn topic_name(name: &str) -> TopicName {
    TopicName(text(name))
}

pub fn metadata_topic(name: StrBytes) -> MetadataRequestTopic {
    MetadataRequestTopic::default().with_name(Some(TopicName(name)))
}

/// A topic with counts.
pub fn counted(name: &str, partitions: i32, replication: i16) -> CreatableTopic {
    CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(partitions)
        .with_replication_factor(replication)
}

/// A topic with replicas per partition.
pub fn assigned(name: &str, assignment: &[(i32, &[i32])]) -> CreatableTopic {
    let assignment = assignment.iter().map(|(partition, brokers)| {
        CreatableReplicaAssignment::default()
            .with_partition_index(*partition)
            .with_broker_ids(brokers.iter().map(|&id| BrokerId(id)).collect())
    });
    counted(name, -1, -1).with_assignments(assignment.collect())
}

pub fn with_configs(topic: CreatableTopic, configs: &[(&str, Option<&str>)]) -> CreatableTopic {
    let configs = configs
        .iter()
        .map(|(name, value)| CreatableTopicConfig::default().with_name(text(name)).with_value(value.map(text)));
    topic.with_configs(configs.collect())
}

pub fn create(topics: Vec<CreatableTopic>) -> CreateTopicsRequest {
    CreateTopicsRequest::default().with_topics(topics).with_timeout_ms(10_000)
}

/// `(topic, partition, records)`; partitions of one topic stand together.
pub fn produce(acks: i16, parts: &[(&str, i32, Option<Vec<u8>>)]) -> ProduceRequest {
    let mut topics: Vec<TopicProduceData> = Vec::new();
    for (topic, partition, records) in parts {
        let data =
            PartitionProduceData::default().with_index(*partition).with_records(records.clone().map(Bytes::from));
        match topics.last_mut() {
            Some(last) if *last.name == text(topic) => last.partition_data.push(data),
            _ => topics.push(TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(vec![data])),
        }
    }
    ProduceRequest::default().with_acks(acks).with_timeout_ms(10_000).with_topic_data(topics)
}

pub fn produce_one(topic: &str, partition: i32, records: Vec<u8>) -> RequestKind {
    RequestKind::Produce(produce(-1, &[(topic, partition, Some(records))]))
}

pub fn transactional(request: ProduceRequest, id: &str) -> RequestKind {
    RequestKind::Produce(request.with_transactional_id(Some(TransactionalId(text(id)))))
}

/// A partition at an offset, with room for a MiB.
pub fn at(partition: i32, offset: i64) -> FetchPartition {
    FetchPartition::default().with_partition(partition).with_fetch_offset(offset).with_partition_max_bytes(1 << 20)
}

pub fn fetch_topic(name: &str, id: Uuid, version: i16, partitions: Vec<FetchPartition>) -> FetchTopic {
    let topic = FetchTopic::default().with_partitions(partitions);
    if version >= 13 { topic.with_topic_id(id) } else { topic.with_topic(topic_name(name)) }
}

/// Answered at once unless changed: no waiting, one byte is enough.
pub fn fetch(version: i16, topics: Vec<FetchTopic>) -> FetchRequest {
    let request = FetchRequest::default().with_max_wait_ms(0).with_min_bytes(1).with_topics(topics);
    let request = if version >= 3 { request.with_max_bytes(10 << 20) } else { request };
    if version >= 15 { request } else { request.with_replica_id(BrokerId(-1)) }
}

/// `(partition, timestamp)` of one topic.
pub fn list_offsets(topic: &str, wanted: &[(i32, i64)]) -> ListOffsetsRequest {
    let partitions = wanted.iter().map(|&(partition, timestamp)| {
        ListOffsetsPartition::default()
            .with_partition_index(partition)
            .with_timestamp(timestamp)
            .with_max_num_offsets(1)
    });
    let topic = ListOffsetsTopic::default().with_name(topic_name(topic)).with_partitions(partitions.collect());
    ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic])
}

/// Operations of IncrementalAlterConfigs.
pub const SET: i8 = 0;
pub const DELETE: i8 = 1;

pub fn incremental(resources: &[(i8, &str, &[(&str, i8, Option<&str>)])], validate_only: bool) -> RequestKind {
    let resources = resources.iter().map(|(kind, name, configs)| {
        let configs = configs.iter().map(|(key, operation, value)| {
            AlterableConfig::default()
                .with_name(text(key))
                .with_config_operation(*operation)
                .with_value(value.map(text))
        });
        AlterConfigsResource::default()
            .with_resource_type(*kind)
            .with_resource_name(text(name))
            .with_configs(configs.collect())
    });
    let request = IncrementalAlterConfigsRequest::default().with_resources(resources.collect());
    RequestKind::IncrementalAlterConfigs(request.with_validate_only(validate_only))
}

/// Type and name; `None` is the default.
pub type Entity<'a> = &'a [(&'a str, Option<&'a str>)];
/// Key and value; `None` removes.
pub type Ops<'a> = &'a [(&'a str, Option<f64>)];

pub fn alter_quotas(changes: &[(Entity, Ops)], validate_only: bool) -> RequestKind {
    let entries = changes.iter().map(|(entity, ops)| {
        let entity = entity
            .iter()
            .map(|(kind, name)| EntityData::default().with_entity_type(text(kind)).with_entity_name(name.map(text)));
        let ops = ops.iter().map(|(key, value)| {
            OpData::default().with_key(text(key)).with_value(value.unwrap_or(0.0)).with_remove(value.is_none())
        });
        EntryData::default().with_entity(entity.collect()).with_ops(ops.collect())
    });
    RequestKind::AlterClientQuotas(
        AlterClientQuotasRequest::default().with_entries(entries.collect()).with_validate_only(validate_only),
    )
}
