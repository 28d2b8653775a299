//! What is meant for the controller, asked of a broker that is not it.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use kafka_protocol::messages::alter_partition_reassignments_request::{ReassignablePartition, ReassignableTopic};
use kafka_protocol::messages::alter_partition_request::{PartitionData, TopicData};
use kafka_protocol::messages::alter_user_scram_credentials_request::ScramCredentialDeletion;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics;
use kafka_protocol::messages::update_features_request::FeatureUpdateKey;
use kafka_protocol::messages::*;
use uuid::Uuid;

use crate::raw::Connection;
use crate::twin::requests::{counted, create, text, topic_name};

const TOPIC: &str = "nobody-made-this";

/// Each request in each of its versions with what the broker at `address` answers.
pub fn ask(address: &str, broker: i32) -> Result<BTreeMap<String, String>> {
    let mut answers = BTreeMap::new();
    for (api, versions, request) in requests() {
        for version in versions {
            let request = request(version, broker);
            let answer = Connection::open(address)?
                .ask(api, version, &request)
                .with_context(|| format!("{api:?} v{version} asked of broker {broker}"))?;
            answers.insert(format!("{api:?} v{version}"), without_words(&format!("{answer:?}")));
        }
    }
    Ok(answers)
}

/// Whether there are words is compared, not which.
fn without_words(answer: &str) -> String {
    const WORDS: &str = "error_message: Some(\"";
    let mut parts = answer.split(WORDS);
    let mut same = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (words, rest) = part.split_once("\")").unwrap_or((part, ""));
        same += &format!("{WORDS}{}\"){rest}", if words.is_empty() { "" } else { "..." });
    }
    same
}

type Asked = fn(i16, i32) -> RequestKind;

fn requests() -> Vec<(ApiKey, std::ops::RangeInclusive<i16>, Asked)> {
    vec![
        (ApiKey::CreateTopics, 2..=7, |_, _| RequestKind::CreateTopics(create(vec![counted(TOPIC, 1, 1)]))),
        (ApiKey::DeleteTopics, 1..=6, |version, _| {
            let request = DeleteTopicsRequest::default().with_timeout_ms(1_000);
            RequestKind::DeleteTopics(match version {
                6.. => request.with_topics(vec![DeleteTopicState::default().with_name(Some(topic_name(TOPIC)))]),
                _ => request.with_topic_names(vec![topic_name(TOPIC)]),
            })
        }),
        (ApiKey::CreatePartitions, 0..=3, |_, _| {
            let topic =
                CreatePartitionsTopic::default().with_name(topic_name(TOPIC)).with_count(3).with_assignments(None);
            let request = CreatePartitionsRequest::default().with_topics(vec![topic]).with_timeout_ms(1_000);
            RequestKind::CreatePartitions(request)
        }),
        (ApiKey::ElectLeaders, 0..=2, |_, _| {
            let one = TopicPartitions::default().with_topic(topic_name(TOPIC)).with_partitions(vec![0]);
            let request = ElectLeadersRequest::default().with_topic_partitions(Some(vec![one]));
            RequestKind::ElectLeaders(request.with_timeout_ms(1_000))
        }),
        (ApiKey::AlterPartitionReassignments, 0..=0, |_, broker| {
            let to = Some(vec![BrokerId(broker)]);
            let partition = ReassignablePartition::default().with_partition_index(0).with_replicas(to);
            let topic = ReassignableTopic::default().with_name(topic_name(TOPIC)).with_partitions(vec![partition]);
            let request = AlterPartitionReassignmentsRequest::default().with_topics(vec![topic]);
            RequestKind::AlterPartitionReassignments(request.with_timeout_ms(1_000))
        }),
        (ApiKey::ListPartitionReassignments, 0..=0, |_, _| {
            let topic = ListPartitionReassignmentsTopics::default()
                .with_name(topic_name(TOPIC))
                .with_partition_indexes(vec![0]);
            let request = ListPartitionReassignmentsRequest::default().with_topics(Some(vec![topic]));
            RequestKind::ListPartitionReassignments(request.with_timeout_ms(1_000))
        }),
        (ApiKey::AlterUserScramCredentials, 0..=0, |_, _| {
            let deletion = ScramCredentialDeletion::default().with_name(text("nobody")).with_mechanism(1);
            let request = AlterUserScramCredentialsRequest::default().with_deletions(vec![deletion]);
            RequestKind::AlterUserScramCredentials(request)
        }),
        (ApiKey::UpdateFeatures, 0..=1, |version, _| {
            let update = FeatureUpdateKey::default().with_feature(text("nothing")).with_max_version_level(1);
            let update = if version == 0 { update } else { update.with_upgrade_type(1) };
            RequestKind::UpdateFeatures(UpdateFeaturesRequest::default().with_feature_updates(vec![update]))
        }),
        (ApiKey::AlterPartition, 0..=3, |version, broker| {
            let partition = PartitionData::default();
            let partition = match version {
                3.. => partition.with_new_isr_with_epochs(vec![
                    alter_partition_request::BrokerState::default().with_broker_id(BrokerId(broker)),
                ]),
                _ => partition.with_new_isr(vec![BrokerId(broker)]),
            };
            let topic = TopicData::default().with_partitions(vec![partition]);
            let topic = match version {
                2.. => topic.with_topic_id(Uuid::from_u128(1)),
                _ => topic.with_topic_name(topic_name(TOPIC)),
            };
            let request = AlterPartitionRequest::default().with_broker_id(BrokerId(broker)).with_topics(vec![topic]);
            RequestKind::AlterPartition(request)
        }),
        (ApiKey::AllocateProducerIds, 0..=0, |_, broker| {
            RequestKind::AllocateProducerIds(AllocateProducerIdsRequest::default().with_broker_id(BrokerId(broker)))
        }),
        (ApiKey::ControlledShutdown, 0..=3, |_, broker| {
            RequestKind::ControlledShutdown(ControlledShutdownRequest::default().with_broker_id(BrokerId(broker)))
        }),
    ]
}
