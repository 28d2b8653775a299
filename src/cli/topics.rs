//! `klamm topics`: kafka-topics' flags and output, and how each partition is. Called as `kafka-topics` or
//! `kafka-topics.sh`, exactly what that tool prints.

mod describe;
mod health;
mod znodes;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::Parser;
use kafka_protocol::messages::create_partitions_request::{CreatePartitionsAssignment, CreatePartitionsTopic};
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::{
    BrokerId, CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, DescribeConfigsRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;

pub use self::describe::{Partition, Topic};
pub use self::health::{Health, State, Summary};
pub use self::znodes::read_tree;
use super::admin::Admin;
use super::client::Caller;
use super::command_config;
use super::include_list::include_list;
use super::refusal::refuse;
use crate::cluster::internal_topics;
use crate::types::TopicId;
use crate::wire::error_code::ErrorCode;

/// `ConfigResource.Type` of a topic.
const TOPIC_RESOURCE: i8 = 2;
/// `config_source` of a value that nobody set.
const DEFAULT_CONFIG: i8 = 5;
const TIMEOUT_MS: i32 = 60_000;

/// Creates, lists, describes, grows and deletes topics
#[derive(Debug, Parser)]
pub struct Args {
    /// host:port,host:port of brokers to connect to
    #[arg(long, required_unless_present = "zookeeper")]
    bootstrap_server: Option<String>,
    /// host:port,host:port/chroot of ZooKeeper: with --list and --describe, read its nodes instead of asking a broker
    #[arg(long, conflicts_with = "bootstrap_server")]
    zookeeper: Option<String>,
    #[arg(long)]
    create: bool,
    #[arg(long)]
    list: bool,
    #[arg(long)]
    describe: bool,
    /// Adds partitions
    #[arg(long)]
    alter: bool,
    #[arg(long)]
    delete: bool,
    /// A name; except with --create a regular expression for whole names
    #[arg(long)]
    topic: Option<String>,
    /// With --describe
    #[arg(long)]
    topic_id: Option<String>,
    #[arg(long)]
    partitions: Option<i32>,
    #[arg(long)]
    replication_factor: Option<i16>,
    /// Broker ids: replicas of a partition joined by colons, partitions by commas
    #[arg(long)]
    replica_assignment: Option<String>,
    /// name=value; may be repeated
    #[arg(long)]
    config: Vec<String>,
    /// No error when there is no such topic
    #[arg(long)]
    if_exists: bool,
    /// No error when the topic is there
    #[arg(long)]
    if_not_exists: bool,
    #[arg(long)]
    exclude_internal: bool,
    /// Only partitions that miss an in-sync replica
    #[arg(long)]
    under_replicated_partitions: bool,
    /// Only partitions without a live leader
    #[arg(long)]
    unavailable_partitions: bool,
    /// Only partitions with fewer in-sync replicas than min.insync.replicas
    #[arg(long)]
    under_min_isr_partitions: bool,
    /// Only partitions with as many in-sync replicas as min.insync.replicas
    #[arg(long)]
    at_min_isr_partitions: bool,
    /// Only partitions that are not led by their first replica
    #[arg(long)]
    not_preferred: bool,
    /// Only topics that override a config, without their partitions
    #[arg(long)]
    topics_with_overrides: bool,
    /// A file of client properties
    #[arg(long)]
    command_config: Option<PathBuf>,
}

impl Args {
    fn shows_partitions_alone(&self) -> bool {
        self.under_replicated_partitions
            || self.unavailable_partitions
            || self.under_min_isr_partitions
            || self.at_min_isr_partitions
            || self.not_preferred
    }
}

/// Whose output it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Klamm,
    /// That of kafka-topics, byte by byte.
    Kafka,
}

/// Prints as kafka-topics does. The exit code is 1 after an error; of --describe see [`describe::print`].
pub fn main(args: Args, style: Style) -> ExitCode {
    let actions = [args.create, args.list, args.describe, args.alter, args.delete];
    if actions.iter().filter(|chosen| **chosen).count() != 1 {
        eprintln!("Command must include exactly one action: --list, --describe, --create, --alter or --delete");
        return ExitCode::FAILURE;
    }
    if args.topic.is_none() && (args.create || args.alter || args.delete) {
        eprintln!("Missing required argument \"[topic]\"");
        return ExitCode::FAILURE;
    }
    match run(&args, style) {
        Ok(code) => code,
        Err(error) => {
            println!("Error while executing topic command : {error}");
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args, style: Style) -> anyhow::Result<ExitCode> {
    if let Some(connect) = &args.zookeeper {
        return read_znodes(args, style, connect);
    }
    let bootstrap = args.bootstrap_server.as_deref().unwrap_or_default();
    let mut admin = Admin::connect(bootstrap, command_config::caller(args.command_config.as_deref())?)?;
    match () {
        () if args.create => create(args, &mut admin),
        () if args.list => list(args, &mut admin),
        () if args.describe => return describe(args, style, &mut admin),
        () if args.alter => alter(args, &mut admin),
        () => delete(args, &mut admin),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn read_znodes(args: &Args, style: Style, connect: &str) -> anyhow::Result<ExitCode> {
    if !args.list && !args.describe {
        bail!("--zookeeper reads: what is changed, a broker changes (--bootstrap-server)");
    }
    let pattern = args.topic.as_deref().map(include_list).transpose()?;
    let wanted = |name: &str| {
        let internal = args.exclude_internal && internal_topics::is_internal(name);
        !internal && pattern.as_ref().is_none_or(|pattern| pattern.is_match(name))
    };
    let (mut topics, live) = znodes::read(connect, wanted)?;
    if let Some(id) = &args.topic_id {
        topics.retain(|topic| topic.id.is_some_and(|known| known.to_string() == *id));
    }
    if args.list {
        topics.iter().for_each(|topic| println!("{}", topic.name));
        return Ok(ExitCode::SUCCESS);
    }
    refuse_absent(args, topics.is_empty())?;
    Ok(describe::print(args, style, &topics, &live))
}

fn create(args: &Args, admin: &mut Admin) -> anyhow::Result<()> {
    let name = args.topic.as_deref().unwrap_or_default();
    if name.contains(['.', '_']) {
        println!(
            "WARNING: in metric names '.' and '_' are the same: topics that differ only in them cannot both be created. \
             Use one of the two throughout."
        );
    }
    let config = |pair: &String| -> anyhow::Result<CreatableTopicConfig> {
        let (key, value) = pair.split_once('=').with_context(|| format!("--config {pair} should be name=value"))?;
        let value = StrBytes::from_string(value.trim().to_owned());
        Ok(CreatableTopicConfig::default()
            .with_name(StrBytes::from_string(key.trim().to_owned()))
            .with_value(Some(value)))
    };
    let assignments = args.replica_assignment.as_deref().map(parse_assignment).transpose()?.unwrap_or_default();
    let placed = !assignments.is_empty();
    let assignment = |(partition, replicas)| {
        CreatableReplicaAssignment::default().with_partition_index(partition).with_broker_ids(replicas)
    };
    let topic = CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(if placed { -1 } else { args.partitions.unwrap_or(-1) })
        .with_replication_factor(if placed { -1 } else { args.replication_factor.unwrap_or(-1) })
        .with_assignments((0..).zip(assignments).map(assignment).collect())
        .with_configs(args.config.iter().map(config).collect::<Result<_, _>>()?);
    let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(TIMEOUT_MS);
    let codes = |answer: &CreateTopicsResponse| answer.topics.iter().map(|topic| topic.error_code).collect();
    let answer = admin.ask_controller(&request, codes)?;
    for topic in &answer.topics {
        if args.if_not_exists && topic.error_code == ErrorCode::TopicAlreadyExists.code() {
            return Ok(());
        }
        refuse(topic.error_code, topic.error_message.as_ref())?;
    }
    println!("Created topic {name}.");
    Ok(())
}

/// Creates a topic on the cluster at `bootstrap` unless it is there.
pub fn make_absent(
    bootstrap: &str,
    name: &str,
    partitions: i32,
    replication_factor: i16,
    config: Option<String>,
) -> anyhow::Result<()> {
    let mut words = vec!["--create".to_owned(), "--if-not-exists".to_owned(), format!("--topic={name}")];
    words.push(format!("--bootstrap-server={bootstrap}"));
    words.push(format!("--partitions={partitions}"));
    words.push(format!("--replication-factor={replication_factor}"));
    words.extend(config.map(|config| format!("--config={config}")));
    let args = Args::try_parse_from([String::new()].into_iter().chain(words))?;
    create(&args, &mut Admin::connect(bootstrap, Caller::default())?)
}

fn list(args: &Args, admin: &mut Admin) -> anyhow::Result<()> {
    let names: Vec<String> = topics(args, admin)?.iter().map(name_of).collect();
    println!("{}", names.join("\n"));
    Ok(())
}

fn alter(args: &Args, admin: &mut Admin) -> anyhow::Result<()> {
    let topics = existing(args, admin)?;
    if topics.is_empty() {
        return Ok(());
    }
    let count = args.partitions.context("Missing required argument \"[partitions]\"")?;
    let placed = args.replica_assignment.as_deref().map(parse_assignment).transpose()?;
    let grown = |topic: &MetadataResponseTopic| {
        let added = placed.as_ref().map(|all| {
            let added = all.iter().skip(topic.partitions.len()).cloned();
            added.map(|replicas| CreatePartitionsAssignment::default().with_broker_ids(replicas)).collect()
        });
        let name = topic.name.clone().unwrap_or_default();
        CreatePartitionsTopic::default().with_name(name).with_count(count).with_assignments(added)
    };
    let request =
        CreatePartitionsRequest::default().with_topics(topics.iter().map(grown).collect()).with_timeout_ms(TIMEOUT_MS);
    let codes = |answer: &CreatePartitionsResponse| answer.results.iter().map(|topic| topic.error_code).collect();
    let answer = admin.ask_controller(&request, codes)?;
    answer.results.iter().try_for_each(|topic| refuse(topic.error_code, topic.error_message.as_ref()))
}

fn delete(args: &Args, admin: &mut Admin) -> anyhow::Result<()> {
    let topics = existing(args, admin)?;
    if topics.is_empty() {
        return Ok(());
    }
    let names = topics.iter().map(|topic| topic.name.clone().unwrap_or_default());
    let request = DeleteTopicsRequest::default()
        .with_topics(names.map(|name| DeleteTopicState::default().with_name(Some(name))).collect())
        .with_timeout_ms(TIMEOUT_MS);
    let codes = |answer: &DeleteTopicsResponse| answer.responses.iter().map(|topic| topic.error_code).collect();
    let answer = admin.ask_controller(&request, codes)?;
    answer.responses.iter().try_for_each(|topic| refuse(topic.error_code, topic.error_message.as_ref()))
}

fn describe(args: &Args, style: Style, admin: &mut Admin) -> anyhow::Result<ExitCode> {
    let found = existing(args, admin)?;
    let live = admin.metadata()?.brokers.iter().map(|broker| broker.node_id.0).collect();
    let configs = configs(&found, admin)?;
    let described = |topic: &MetadataResponseTopic| {
        let name = name_of(topic);
        let config = configs.get(&name).map_or(&[][..], Vec::as_slice);
        let set = config.iter().filter(|entry| entry.source != DEFAULT_CONFIG);
        let min_isr = config.iter().find(|entry| entry.name == "min.insync.replicas");
        let mut partitions: Vec<Partition> = topic.partitions.iter().map(Partition::from).collect();
        partitions.sort_by_key(|partition| partition.index);
        Topic {
            id: Some(TopicId(topic.topic_id)),
            overrides: set.map(|entry| format!("{}={}", entry.name, entry.value)).collect(),
            min_isr: min_isr.and_then(|entry| entry.value.parse().ok()).unwrap_or(1),
            partitions,
            name,
        }
    };
    let topics: Vec<Topic> = found.iter().map(described).collect();
    Ok(describe::print(args, style, &topics, &live))
}

struct ConfigEntry {
    name: String,
    value: String,
    source: i8,
}

fn configs(topics: &[MetadataResponseTopic], admin: &mut Admin) -> anyhow::Result<BTreeMap<String, Vec<ConfigEntry>>> {
    let resource = |topic: &MetadataResponseTopic| {
        let name = StrBytes::from_string(name_of(topic));
        DescribeConfigsResource::default()
            .with_resource_type(TOPIC_RESOURCE)
            .with_resource_name(name)
            .with_configuration_keys(None)
    };
    let request = DescribeConfigsRequest::default().with_resources(topics.iter().map(resource).collect());
    let answer = admin.ask(&request)?;
    let mut configs = BTreeMap::new();
    for result in answer.results {
        refuse(result.error_code, result.error_message.as_ref())?;
        let entry = |entry: kafka_protocol::messages::describe_configs_response::DescribeConfigsResourceResult| {
            let value = entry.value.map_or_else(|| "null".to_owned(), |value| value.to_string());
            ConfigEntry { name: entry.name.to_string(), value, source: entry.config_source }
        };
        configs.insert(result.resource_name.to_string(), result.configs.into_iter().map(entry).collect());
    }
    Ok(configs)
}

/// The topics that --topic or --topic-id mean; an error when there are none, unless --if-exists.
fn existing(args: &Args, admin: &mut Admin) -> anyhow::Result<Vec<MetadataResponseTopic>> {
    let found = topics(args, admin)?;
    refuse_absent(args, found.is_empty())?;
    Ok(found)
}

fn refuse_absent(args: &Args, absent: bool) -> anyhow::Result<()> {
    match (&args.topic_id, &args.topic) {
        _ if !absent || args.if_exists => Ok(()),
        (Some(id), _) => bail!("TopicId '{id}' does not exist as expected"),
        (None, Some(topic)) => bail!("Topic 'Optional[{topic}]' does not exist as expected"),
        (None, None) => Ok(()),
    }
}

fn topics(args: &Args, admin: &mut Admin) -> anyhow::Result<Vec<MetadataResponseTopic>> {
    let pattern = args.topic.as_deref().map(include_list).transpose()?;
    let mut topics = admin.metadata()?.topics;
    topics.retain(|topic| {
        let name = name_of(topic);
        let wanted = match &args.topic_id {
            Some(id) => TopicId(topic.topic_id).to_string() == *id,
            None => pattern.as_ref().is_none_or(|pattern| pattern.is_match(&name)),
        };
        wanted && !(args.exclude_internal && topic.is_internal)
    });
    topics.sort_by_key(name_of);
    Ok(topics)
}

/// `1:2,2:3`: replicas of partition 0, of partition 1.
fn parse_assignment(text: &str) -> anyhow::Result<Vec<Vec<BrokerId>>> {
    let mut assignment: Vec<Vec<BrokerId>> = Vec::new();
    for (partition, list) in text.split(',').enumerate() {
        let mut replicas = Vec::new();
        for id in list.split(':') {
            let id = id.trim().parse().map(BrokerId).map_err(|_| anyhow!("For input string: \"{id}\""))?;
            if replicas.contains(&id) {
                bail!("Partition replica lists may not contain duplicate entries: {}", id.0);
            }
            replicas.push(id);
        }
        if assignment.first().is_some_and(|first| first.len() != replicas.len()) {
            bail!("Partition {partition} has different replication factor: {list}");
        }
        assignment.push(replicas);
    }
    Ok(assignment)
}

fn topic_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}

fn name_of(topic: &MetadataResponseTopic) -> String {
    topic.name.as_ref().map_or_else(String::new, |name| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_replicas_by_partition() {
        let ids = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect::<Vec<_>>();
        assert_eq!(parse_assignment("1:2,2:3").unwrap(), [ids(&[1, 2]), ids(&[2, 3])]);
        for (bad, why) in [
            ("1:1", "Partition replica lists may not contain duplicate entries: 1"),
            ("1:2,3", "Partition 1 has different replication factor: 3"),
            ("x", "For input string: \"x\""),
        ] {
            assert_eq!(parse_assignment(bad).unwrap_err().to_string(), why);
        }
    }
}
