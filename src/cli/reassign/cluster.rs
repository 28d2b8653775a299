//! What is asked of the brokers.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{anyhow, bail};
use kafka_protocol::messages::alter_partition_reassignments_request::{ReassignablePartition, ReassignableTopic};
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics;
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, BrokerId, IncrementalAlterConfigsRequest, ListPartitionReassignmentsRequest,
};
use kafka_protocol::protocol::StrBytes;

use super::plan::Assignment;
use crate::cli::admin::{Admin, by_topic, topic_name};
use crate::cli::client::Caller;
use crate::cli::refusal::{exception, words};
use crate::types::TopicPartition;
use crate::wire::error_code::ErrorCode;

/// How long the controller may take to write what it was asked for.
const TIMEOUT_MS: i32 = 30_000;
/// `AlterConfigOp.OpType`.
const SET: i8 = 0;
const DELETE: i8 = 1;

/// A partition on its way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ongoing {
    /// Those it had, and those it is getting.
    pub replicas: Vec<i32>,
    pub adding: Vec<i32>,
    pub removing: Vec<i32>,
}

/// Whose configs are changed.
#[derive(Clone, Debug)]
pub enum Entity {
    Topic(String),
    Broker(i32),
}

/// Names and values; `None` takes one away.
pub type Settings = Vec<(&'static str, Option<String>)>;

pub struct Cluster {
    pub admin: Admin,
}

impl Cluster {
    pub fn connect(bootstrap: &str, caller: Caller) -> anyhow::Result<Cluster> {
        Ok(Cluster { admin: Admin::connect(bootstrap, caller)? })
    }

    /// Live brokers, with their racks.
    pub fn brokers(&mut self) -> anyhow::Result<BTreeMap<i32, Option<String>>> {
        let brokers = self.admin.cluster()?.brokers;
        let rack = |rack: StrBytes| rack.to_string();
        Ok(brokers.into_iter().map(|broker| (broker.node_id.0, broker.rack.map(rack))).collect())
    }

    /// Of these partitions, or of all.
    pub fn ongoing(&mut self, of: Option<&Assignment>) -> anyhow::Result<BTreeMap<TopicPartition, Ongoing>> {
        let topics = of.map(|of| {
            let topic = |(name, partitions): (&str, Vec<i32>)| {
                ListPartitionReassignmentsTopics::default()
                    .with_name(topic_name(name))
                    .with_partition_indexes(partitions)
            };
            by_topic(of.keys().map(|of| (of, of.partition))).into_iter().map(topic).collect()
        });
        let request = ListPartitionReassignmentsRequest::default().with_topics(topics).with_timeout_ms(TIMEOUT_MS);
        let answer = self.admin.of_controller(&request, |answer| answer.error_code)?;
        let answer = answer.map_err(|code| anyhow!("{}", exception(code, None)))?;
        let mut ongoing = BTreeMap::new();
        for topic in answer.topics {
            for partition in topic.partitions {
                let on_its_way = Ongoing {
                    replicas: ids(&partition.replicas),
                    adding: ids(&partition.adding_replicas),
                    removing: ids(&partition.removing_replicas),
                };
                ongoing.insert(TopicPartition::new(topic.name.as_str(), partition.partition_index), on_its_way);
            }
        }
        Ok(ongoing)
    }

    /// All partitions of those of the topics that exist.
    pub fn assignment(&mut self, topics: &BTreeSet<&str>) -> anyhow::Result<Assignment> {
        let mut assignment = Assignment::new();
        for topic in self.admin.topics(topics)? {
            let name = topic.name.as_ref().map_or("", |name| name.as_str());
            match ErrorCode::answered(topic.error_code) {
                ErrorCode::None | ErrorCode::UnknownTopicOrPartition => {}
                code => bail!("{}", exception(code, None)),
            }
            for partition in &topic.partitions {
                assignment.insert(TopicPartition::new(name, partition.partition_index), ids(&partition.replica_nodes));
            }
        }
        Ok(assignment)
    }

    /// As [`Cluster::assignment`]; an error when a topic is not there.
    pub fn assignment_of_all(&mut self, topics: &BTreeSet<&str>) -> anyhow::Result<Assignment> {
        let assignment = self.assignment(topics)?;
        let absent = topics.iter().find(|topic| !assignment.keys().any(|of| &*of.topic == **topic));
        match absent {
            None => Ok(assignment),
            Some(topic) => {
                let words = StrBytes::from_string(format!("Topic {topic} not found."));
                bail!("{}", exception(ErrorCode::UnknownTopicOrPartition, Some(&words)))
            }
        }
    }

    /// Starts moving partitions, or with `None` stops it. Answers which could not be, and why.
    pub fn reassign(
        &mut self,
        wanted: &BTreeMap<TopicPartition, Option<Vec<i32>>>,
    ) -> anyhow::Result<BTreeMap<TopicPartition, String>> {
        let partition = |of: &TopicPartition, replicas: &Option<Vec<i32>>| {
            let replicas = replicas.as_ref().map(|replicas| replicas.iter().copied().map(BrokerId).collect());
            ReassignablePartition::default().with_partition_index(of.partition).with_replicas(replicas)
        };
        let topics = by_topic(wanted.iter().map(|(of, replicas)| (of, partition(of, replicas))));
        let topic =
            |(name, partitions)| ReassignableTopic::default().with_name(topic_name(name)).with_partitions(partitions);
        let request = AlterPartitionReassignmentsRequest::default()
            .with_topics(topics.into_iter().map(topic).collect())
            .with_timeout_ms(TIMEOUT_MS);
        let answer = match self.admin.of_controller(&request, |answer| answer.error_code)? {
            Ok(answer) => answer,
            // It is every partition's.
            Err(code) => return Ok(wanted.keys().map(|of| (of.clone(), code.name().to_owned())).collect()),
        };
        let mut errors = BTreeMap::new();
        for topic in answer.responses {
            for partition in topic.partitions {
                let code = ErrorCode::answered(partition.error_code);
                if code.is_error() {
                    let words = words(code, partition.error_message.as_ref());
                    errors.insert(TopicPartition::new(topic.name.as_str(), partition.partition_index), words);
                }
            }
        }
        Ok(errors)
    }

    /// A broker's are changed by itself.
    pub fn configure(&mut self, entity: &Entity, settings: &Settings) -> anyhow::Result<()> {
        let (kind, name) = match entity {
            Entity::Topic(name) => (2, name.clone()),
            Entity::Broker(id) => (4, id.to_string()),
        };
        let config = |(name, value): &(&'static str, Option<String>)| {
            AlterableConfig::default()
                .with_name(StrBytes::from_static_str(name))
                .with_config_operation(if value.is_some() { SET } else { DELETE })
                .with_value(value.clone().map(StrBytes::from_string))
        };
        let resource = AlterConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(StrBytes::from_string(name))
            .with_configs(settings.iter().map(config).collect());
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        let answer = match entity {
            Entity::Topic(_) => self.admin.ask(&request)?,
            Entity::Broker(id) => self.admin.ask_broker(BrokerId(*id), &request)?,
        };
        for response in answer.responses {
            let code = ErrorCode::answered(response.error_code);
            if code.is_error() {
                bail!("{}", exception(code, response.error_message.as_ref()));
            }
        }
        Ok(())
    }
}

fn ids(ids: &[BrokerId]) -> Vec<i32> {
    ids.iter().map(|id| id.0).collect()
}
