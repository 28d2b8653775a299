//! `klamm transactions find-hanging`: transactions that are open in a partition for longer than any may be, and that no
//! coordinator is going to end.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use kafka_protocol::messages::MetadataResponse;
use kafka_protocol::messages::describe_producers_response::ProducerState;

use super::{cluster, table};
use crate::cli::admin::Admin;
use crate::clock::{Clock, SystemClock};
use crate::types::TopicPartition;
use crate::wire::error_code::ErrorCode;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The broker whose replicas are searched
    #[arg(long)]
    broker_id: Option<i32>,
    /// Minutes that a transaction may be open
    #[arg(long, default_value_t = 15)]
    max_transaction_timeout: i64,
    #[arg(long)]
    topic: Option<String>,
    /// With --topic
    #[arg(long)]
    partition: Option<i32>,
}

const HEADERS: [&str; 8] = [
    "Topic",
    "Partition",
    "ProducerId",
    "ProducerEpoch",
    "CoordinatorEpoch",
    "StartOffset",
    "LastTimestamp",
    "Duration(min)",
];
/// Partitions asked about at once.
const AT_ONCE: usize = 500;
const MINUTE_MS: i64 = 60_000;

pub fn check(args: &Args) -> anyhow::Result<()> {
    if args.topic.is_none() && args.broker_id.is_none() {
        bail!("The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search");
    }
    if args.partition.is_some() && args.topic.is_none() {
        bail!("The --partition argument requires --topic to be provided");
    }
    Ok(())
}

pub fn run(args: &Args, admin: &mut Admin) -> anyhow::Result<()> {
    let partitions = match (&args.topic, args.partition) {
        (Some(topic), Some(partition)) => vec![TopicPartition::new(topic.as_str(), partition)],
        (topic, _) => searched(&admin.metadata()?, topic.as_deref(), args.broker_id)?,
    };
    let clock = SystemClock::default();
    let mut open = Vec::new();
    for some in partitions.chunks(AT_ONCE) {
        let known = cluster::producers(admin, args.broker_id, some)
            .with_context(|| format!("Failed to describe producers for {} partitions", some.len()))?;
        for (at, producers) in known {
            let is_long = |producer: &ProducerState| {
                let open_ms = clock.wall_ms().saturating_sub(producer.last_timestamp);
                producer.current_txn_start_offset >= 0 && open_ms > args.max_transaction_timeout * MINUTE_MS
            };
            open.extend(producers.into_iter().filter(is_long).map(|producer| (at.clone(), producer)));
        }
    }
    let expected = expected(admin, &open)?;
    open.retain(|(at, producer)| !expected.contains(&(producer.producer_id.0, at.clone())));
    let rows = open.iter().map(|(at, producer)| {
        vec![
            at.topic.to_string(),
            at.partition.to_string(),
            producer.producer_id.0.to_string(),
            producer.producer_epoch.to_string(),
            producer.coordinator_epoch.to_string(),
            producer.current_txn_start_offset.to_string(),
            producer.last_timestamp.to_string(),
            (clock.wall_ms().saturating_sub(producer.last_timestamp) / MINUTE_MS).to_string(),
        ]
    });
    print!("{}", table::text(&HEADERS, &rows.collect::<Vec<_>>()));
    Ok(())
}

/// All partitions of the topic, or of all topics, that have a replica on the broker.
fn searched(
    metadata: &MetadataResponse,
    topic: Option<&str>,
    broker: Option<i32>,
) -> anyhow::Result<Vec<TopicPartition>> {
    let mut found = Vec::new();
    for one in &metadata.topics {
        let Some(name) = one.name.as_ref().filter(|name| topic.is_none_or(|topic| topic == name.as_str())) else {
            continue;
        };
        for partition in &one.partitions {
            if broker.is_none_or(|broker| partition.replica_nodes.iter().any(|replica| replica.0 == broker)) {
                found.push(TopicPartition::new(name.as_str(), partition.partition_index));
            }
        }
    }
    if let Some(topic) = topic.filter(|topic| {
        !metadata.topics.iter().any(|one| one.name.as_ref().is_some_and(|name| name.as_str() == *topic))
    }) {
        bail!("Failed to describe 1 topics: {topic}: {}", ErrorCode::UnknownTopicOrPartition);
    }
    found.sort();
    Ok(found)
}

/// Whose transactions their coordinators still have, in which partitions: those get their markers.
fn expected(
    admin: &mut Admin,
    open: &[(TopicPartition, ProducerState)],
) -> anyhow::Result<BTreeSet<(i64, TopicPartition)>> {
    let producer_ids: BTreeSet<i64> = open.iter().map(|(_, producer)| producer.producer_id.0).collect();
    let producer_ids: Vec<i64> = producer_ids.into_iter().collect();
    if producer_ids.is_empty() {
        return Ok(BTreeSet::new());
    }
    let listed = cluster::list(admin, &producer_ids, None)
        .with_context(|| format!("Failed to list transactions for {} producers", producer_ids.len()))?;
    let ids: BTreeMap<i64, String> =
        listed.into_values().flatten().map(|state| (state.producer_id.0, state.transactional_id.to_string())).collect();
    let mut expected = BTreeSet::new();
    for (producer_id, id) in ids {
        match cluster::describe(admin, &id)? {
            Ok((_, state)) => {
                for topic in state.topics {
                    for partition in topic.partitions {
                        expected.insert((producer_id, TopicPartition::new(topic.topic.as_str(), partition)));
                    }
                }
            }
            Err(ErrorCode::TransactionalIdNotFound) => {}
            Err(code) => bail!("Failed to describe transaction '{id}': {code}"),
        }
    }
    Ok(expected)
}
