//! `klamm log-dirs`: kafka-log-dirs' flags and lines (3.9.1).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Parser;
use kafka_protocol::messages::describe_log_dirs_response::{DescribeLogDirsResult, DescribeLogDirsTopic};
use kafka_protocol::messages::{BrokerId, DescribeLogDirsRequest};
use serde_json::{Value, json};

use super::admin::Admin;
use super::command_config;
use super::refusal::exception;
use crate::wire::error_code::ErrorCode;

/// Shows where on their disks brokers keep partitions, and how much
#[derive(Debug, Parser)]
pub struct Args {
    /// host:port,host:port of brokers to connect to
    #[arg(long)]
    bootstrap_server: String,
    #[arg(long, required = true)]
    describe: bool,
    /// Comma-separated names; all without
    #[arg(long, default_value = "")]
    topic_list: String,
    /// Comma-separated ids; all without
    #[arg(long)]
    broker_list: Option<String>,
    /// A file of client properties
    #[arg(long)]
    command_config: Option<PathBuf>,
}

pub fn main(args: &Args) -> ExitCode {
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::failed(&error),
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    let mut admin = Admin::connect(&args.bootstrap_server, command_config::caller(args.command_config.as_deref())?)?;
    let present: BTreeSet<i32> = admin.cluster()?.brokers.iter().map(|broker| broker.node_id.0).collect();
    let asked = match &args.broker_list {
        Some(list) => {
            words(list).map(|id| id.parse().with_context(|| format!("`{id}` is no id"))).collect::<Result<_, _>>()?
        }
        None => present.clone(),
    };
    let missing: Vec<String> = asked.difference(&present).map(i32::to_string).collect();
    if !missing.is_empty() {
        bail!(
            "ERROR: The given brokers do not exist from --broker-list: {}. Current existent brokers: {}",
            missing.join(","),
            joined(&present)
        );
    }
    println!("Querying brokers for log directories information");
    let topics: BTreeSet<&str> = words(&args.topic_list).collect();
    let mut brokers = Vec::new();
    for id in &asked {
        let answer = admin.ask_broker(BrokerId(*id), &DescribeLogDirsRequest::default().with_topics(None))?;
        let dirs: Vec<Value> = answer.results.iter().map(|dir| log_dir(dir, &topics)).collect();
        brokers.push(json!({"broker": id, "logDirs": dirs}));
    }
    println!("Received log directory information from brokers {}", joined(&asked));
    println!("{}", json!({"brokers": brokers, "version": 1}));
    Ok(())
}

fn log_dir(dir: &DescribeLogDirsResult, topics: &BTreeSet<&str>) -> Value {
    let wanted = |topic: &&DescribeLogDirsTopic| topics.is_empty() || topics.contains(topic.name.as_str());
    let partitions: Vec<Value> = dir
        .topics
        .iter()
        .filter(wanted)
        .flat_map(|topic| topic.partitions.iter().map(move |partition| (topic, partition)))
        .map(|(topic, partition)| {
            json!({
                "partition": format!("{}-{}", topic.name.as_str(), partition.partition_index),
                "size": partition.partition_size,
                "offsetLag": partition.offset_lag,
                "isFuture": partition.is_future_key,
            })
        })
        .collect();
    let error = match ErrorCode::answered(dir.error_code) {
        ErrorCode::None => Value::Null,
        code => Value::from(exception(code, None).split(':').next().unwrap_or_default()),
    };
    json!({"partitions": partitions, "error": error, "logDir": dir.log_dir.as_str()})
}

fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|word| !word.is_empty())
}

fn joined(ids: &BTreeSet<i32>) -> String {
    ids.iter().map(i32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::TopicName;
    use kafka_protocol::messages::describe_log_dirs_response::DescribeLogDirsPartition;
    use kafka_protocol::protocol::StrBytes;

    /// As Kafka's tool printed a Klamm's answer.
    #[test]
    fn a_directory_is_kafkas_object() {
        let partition = DescribeLogDirsPartition::default().with_partition_index(1).with_partition_size(142);
        let topic = |name| {
            DescribeLogDirsTopic::default()
                .with_name(TopicName(StrBytes::from_static_str(name)))
                .with_partitions(vec![partition.clone()])
        };
        let dir = DescribeLogDirsResult::default()
            .with_log_dir(StrBytes::from_static_str("/data"))
            .with_topics(vec![topic("lakes"), topic("rivers")]);
        assert_eq!(
            log_dir(&dir, &BTreeSet::from(["lakes"])).to_string(),
            "{\"partitions\":[{\"partition\":\"lakes-1\",\"size\":142,\"offsetLag\":0,\"isFuture\":false}],\
             \"error\":null,\"logDir\":\"/data\"}"
        );
        let offline = log_dir(&dir.with_error_code(56), &BTreeSet::new()).to_string();
        assert!(offline.contains("\"error\":\"org.apache.kafka.common.errors.KafkaStorageException\""), "{offline}");
    }
}
