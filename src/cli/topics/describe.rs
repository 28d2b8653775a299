//! `--describe`: kafka-topics' table, and beside it how each partition is.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::ExitCode;

use kafka_protocol::messages::BrokerId;
use kafka_protocol::messages::metadata_response::MetadataResponsePartition;

use super::health::{Health, Summary};
use super::{Args, Style};
use crate::types::TopicId;

/// A topic as it is shown.
pub struct Topic {
    pub name: String,
    /// `None` for a topic of old tools that no controller has seen yet.
    pub id: Option<TopicId>,
    /// `name=value`.
    pub overrides: Vec<String>,
    /// `min.insync.replicas`.
    pub min_isr: usize,
    /// By index.
    pub partitions: Vec<Partition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    pub index: i32,
    /// -1 = none.
    pub leader: i32,
    /// The first is the preferred leader.
    pub replicas: Vec<i32>,
    pub isr: Vec<i32>,
}

impl From<&MetadataResponsePartition> for Partition {
    fn from(told: &MetadataResponsePartition) -> Partition {
        let ids = |ids: &[BrokerId]| ids.iter().map(|id| id.0).collect();
        Partition {
            index: told.partition_index,
            leader: told.leader_id.0,
            replicas: ids(&told.replica_nodes),
            isr: ids(&told.isr_nodes),
        }
    }
}

impl Partition {
    pub fn is_led_as_preferred(&self) -> bool {
        self.replicas.first() == Some(&self.leader)
    }
}

/// Prints what the flags leave. The exit code tells of all partitions, shown or not; as Kafka's tool it is 0.
pub fn print(args: &Args, style: Style, topics: &[Topic], live: &BTreeSet<i32>) -> ExitCode {
    let mut summary = Summary::default();
    for topic in topics {
        let unwanted = args.topics_with_overrides && topic.overrides.is_empty();
        if !args.shows_partitions_alone() && !unwanted {
            println!("{}", topic_line(topic));
        }
        if args.topics_with_overrides {
            continue;
        }
        for partition in &topic.partitions {
            let health = Health::of(partition, live);
            summary.count(&health);
            if is_shown(args, topic, partition, live) {
                let line = partition_line(args, &topic.name, partition);
                match style {
                    Style::Kafka => println!("{line}"),
                    Style::Klamm => println!("{line}\tHealth: {health}"),
                }
            }
        }
    }
    if style == Style::Kafka || args.topics_with_overrides {
        return ExitCode::SUCCESS;
    }
    println!("{}: {summary}", summary.state());
    summary.state().exit_code()
}

fn is_shown(args: &Args, topic: &Topic, partition: &Partition, live: &BTreeSet<i32>) -> bool {
    let isr = partition.isr.len();
    !args.shows_partitions_alone()
        || (args.under_replicated_partitions && isr < partition.replicas.len())
        || (args.unavailable_partitions && !live.contains(&partition.leader))
        || (args.under_min_isr_partitions && isr < topic.min_isr)
        || (args.at_min_isr_partitions && isr == topic.min_isr)
        || (args.not_preferred && !partition.is_led_as_preferred())
}

fn topic_line(topic: &Topic) -> String {
    let mut line = format!("Topic: {}", topic.name);
    if let Some(id) = topic.id {
        let _ = write!(line, "\tTopicId: {id}");
    }
    let replicas = topic.partitions.first().map_or(0, |partition| partition.replicas.len());
    let (partitions, configs) = (topic.partitions.len(), topic.overrides.join(","));
    let _ = write!(line, "\tPartitionCount: {partitions}\tReplicationFactor: {replicas}\tConfigs: {configs}");
    line
}

fn partition_line(args: &Args, topic: &str, partition: &Partition) -> String {
    let ids = |ids: &[i32]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let mut line = format!("\tTopic: {topic}\tPartition: {}\tLeader: ", partition.index);
    let _ = match partition.leader {
        ..0 => line.write_str("none"),
        leader => write!(line, "{leader}"),
    };
    let _ = write!(line, "\tReplicas: {}\tIsr: {}", ids(&partition.replicas), ids(&partition.isr));
    // Older than those columns.
    if args.zookeeper.is_none() {
        line.push_str("\tElr: N/A\tLastKnownElr: N/A");
    }
    line
}
