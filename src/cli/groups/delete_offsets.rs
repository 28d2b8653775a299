//! `--delete-offsets`: a group forgets what it committed of some partitions.

use std::collections::BTreeMap;

use kafka_protocol::messages::OffsetDeleteRequest;
use kafka_protocol::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};

use super::scope::{self, Scope};
use super::table::left;
use super::{Args, say_error};
use crate::cli::admin::{Admin, group_id, topic_name};
use crate::types::TopicPartition;
use crate::wire::error_code::ErrorCode;

pub fn delete_offsets(args: &Args, admin: &mut Admin) -> anyhow::Result<()> {
    let group = args.group.first().map_or("", String::as_str);
    let Scope { partitions, missing } = scope::resolve(&args.topic, admin)?;
    let answer = send(group, &partitions, admin)?;
    let of_all = answer.as_ref().err().copied().unwrap_or(ErrorCode::None);
    let partly = answer.as_ref().is_ok_and(|results| results.values().any(|code| *code != ErrorCode::None));
    match of_all {
        ErrorCode::None if partly => {
            say_error("Encounter some partition level error, see the follow-up details:");
        }
        ErrorCode::None => {
            println!("Request succeed for deleting offsets with topic {} group {group}", args.topic.join(", "));
        }
        ErrorCode::InvalidGroupId => say_error(&format!("'{group}' is not valid.")),
        ErrorCode::GroupIdNotFound => say_error(&format!("'{group}' does not exist.")),
        ErrorCode::NonEmptyGroup => say_error(&format!(
            "Deleting offsets of a consumer group '{group}' is forbidden if the group is not empty."
        )),
        other => say_error(&format!("Encounter some unknown error: {other}")),
    }
    let row = |topic: &str, partition: &str, status: &str| {
        println!("{} {} {}", left(topic, 30), left(partition, 15), left(status, 15));
    };
    let status = |code: ErrorCode| match code {
        ErrorCode::None => "Successful".to_owned(),
        code => format!("Error: {code}"),
    };
    println!();
    row("TOPIC", "PARTITION", "STATUS");
    for of in &partitions {
        let code = answer.as_ref().map_or(of_all, |results| results.get(of).copied().unwrap_or(ErrorCode::None));
        row(&of.topic, &of.partition.to_string(), &status(code));
    }
    for (topic, code) in missing {
        row(&topic, "Not Provided", &status(code));
    }
    Ok(())
}

/// The outcome of each partition, or of all.
fn send(
    group: &str,
    partitions: &[TopicPartition],
    admin: &mut Admin,
) -> anyhow::Result<Result<BTreeMap<TopicPartition, ErrorCode>, ErrorCode>> {
    let mut topics: BTreeMap<&str, Vec<OffsetDeleteRequestPartition>> = BTreeMap::new();
    for of in partitions {
        let partition = OffsetDeleteRequestPartition::default().with_partition_index(of.partition);
        topics.entry(&of.topic).or_default().push(partition);
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        OffsetDeleteRequestTopic::default().with_name(topic_name(name)).with_partitions(partitions)
    });
    let request = OffsetDeleteRequest::default().with_group_id(group_id(group)).with_topics(topics.collect());
    let answer = admin.of_group(group, &request, |answer| answer.error_code)?;
    Ok(answer.map(|answer| {
        let mut results = BTreeMap::new();
        for topic in answer.topics {
            for partition in topic.partitions {
                let of = TopicPartition::new(topic.name.as_str(), partition.partition_index);
                results.insert(of, ErrorCode::answered(partition.error_code));
            }
        }
        results
    }))
}
