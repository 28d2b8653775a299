//! `klamm delete-records`: kafka-delete-records' flags, file and lines (3.9.1).

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Parser;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::{BrokerId, DeleteRecordsRequest};
use kafka_protocol::protocol::StrBytes;
use serde_json::Value;

use super::admin::{Admin, topic_name};
use super::command_config;
use super::json;
use super::refusal::exception;
use crate::types::TopicPartition;
use crate::wire::error_code::ErrorCode;

const TIMEOUT_MS: i32 = 60_000;

/// Deletes the records of partitions before given offsets
#[derive(Debug, Parser)]
pub struct Args {
    /// host:port,host:port of brokers to connect to
    #[arg(long)]
    bootstrap_server: String,
    /// A file like {"partitions":[{"topic":"lakes","partition":0,"offset":3}],"version":1}; -1 is the high watermark
    #[arg(long)]
    offset_json_file: PathBuf,
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
    let path = args.offset_json_file.display().to_string();
    let text = fs::read_to_string(&args.offset_json_file).with_context(|| path.clone())?;
    let offsets = offsets(&text).with_context(|| path)?;
    let mut admin = Admin::connect(&args.bootstrap_server, command_config::caller(args.command_config.as_deref())?)?;
    println!("Executing records delete operation");
    let leaders = leaders(&mut admin)?;
    println!("Records delete operation completed:");
    for (of, offset) in &offsets {
        let deleted = match leaders.get(of) {
            Some(leader) => delete(&mut admin, *leader, of, *offset)?,
            None => Err(ErrorCode::UnknownTopicOrPartition),
        };
        match deleted {
            Ok(low_watermark) => println!("partition: {of}\tlow_watermark: {low_watermark}"),
            Err(code) => {
                let words = StrBytes::from_static_str(words(code));
                println!("partition: {of}\terror: {}", exception(code, Some(&words)));
            }
        }
    }
    Ok(())
}

/// What the file says; a partition that stands in it twice is an error.
fn offsets(text: &str) -> anyhow::Result<BTreeMap<TopicPartition, i64>> {
    let file: Value = serde_json::from_str(text).context("The input string is not a valid JSON")?;
    if json::object(&file)?.contains_key("version") {
        json::check_version(&file)?;
    }
    let mut offsets = BTreeMap::new();
    for entry in json::array(json::field(&file, "partitions")?)? {
        let of = json::partition(entry)?;
        let offset = json::field(entry, "offset")?.as_i64().context("offset is no number")?;
        if offsets.insert(of.clone(), offset).is_some() {
            bail!("Offset json file contains duplicate topic partitions: {of}");
        }
    }
    Ok(offsets)
}

fn leaders(admin: &mut Admin) -> anyhow::Result<BTreeMap<TopicPartition, BrokerId>> {
    let mut leaders = BTreeMap::new();
    for topic in admin.metadata()?.topics {
        let Some(name) = &topic.name else { continue };
        for partition in &topic.partitions {
            leaders.insert(TopicPartition::new(name.as_str(), partition.partition_index), partition.leader_id);
        }
    }
    Ok(leaders)
}

fn delete(
    admin: &mut Admin,
    leader: BrokerId,
    of: &TopicPartition,
    offset: i64,
) -> anyhow::Result<Result<i64, ErrorCode>> {
    let partition = DeleteRecordsPartition::default().with_partition_index(of.partition).with_offset(offset);
    let topic = DeleteRecordsTopic::default().with_name(topic_name(&of.topic)).with_partitions(vec![partition]);
    let request = DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(TIMEOUT_MS);
    let answer = admin.ask_broker(leader, &request)?;
    let answered = answer.topics.iter().flat_map(|topic| &topic.partitions).next();
    let answered = answered.with_context(|| format!("the broker says nothing of {of}"))?;
    Ok(match ErrorCode::answered(answered.error_code) {
        ErrorCode::None => Ok(answered.low_watermark),
        code => Err(code),
    })
}

/// As Kafka's client words them: an answer has the code only.
fn words(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::OffsetOutOfRange => {
            "The requested offset is not within the range of offsets maintained by the server."
        }
        ErrorCode::UnknownTopicOrPartition => "This server does not host this topic-partition.",
        ErrorCode::NotLeaderOrFollower => {
            "For requests intended only for the leader, this error indicates that the broker is not the current leader. \
             For requests intended for any replica, this error indicates that the broker is not a replica of the topic \
             partition."
        }
        ErrorCode::PolicyViolation => "Request parameters do not satisfy the configured policy.",
        ErrorCode::RequestTimedOut => "The request timed out.",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_kafkas() {
        let lake = "{\"topic\":\"lakes\",\"partition\":0,\"offset\":3}";
        let read = offsets(&format!("{{\"partitions\":[{lake}],\"version\":1}}")).expect("a file");
        assert_eq!(read, BTreeMap::from([(TopicPartition::new("lakes", 0), 3)]));
        assert!(offsets(&format!("{{\"partitions\":[{lake}]}}")).is_ok(), "the version may be left out");
        let twice = offsets(&format!("{{\"partitions\":[{lake},{lake}]}}")).expect_err("twice");
        assert_eq!(twice.to_string(), "Offset json file contains duplicate topic partitions: lakes-0");
        for bad in ["", "[]", "{}", "{\"partitions\":[{\"topic\":\"lakes\",\"partition\":0}]}"] {
            assert!(offsets(bad).is_err(), "{bad}");
        }
    }
}
