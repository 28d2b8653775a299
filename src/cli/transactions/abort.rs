//! `klamm transactions abort`: an abort marker for one partition, whatever the coordinator says.

use anyhow::{Context, anyhow, bail};
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::{ProducerId, WriteTxnMarkersRequest, WriteTxnMarkersResponse};

use super::cluster;
use crate::cli::admin::{Admin, topic_name};
use crate::types::TopicPartition;
use crate::wire::error_code::ErrorCode;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(long)]
    topic: String,
    #[arg(long)]
    partition: i32,
    /// Where the transaction begins; brokers from 3.0 on need nothing else
    #[arg(long)]
    start_offset: Option<i64>,
    /// With --producer-epoch and --coordinator-epoch, for older brokers
    #[arg(long)]
    producer_id: Option<i64>,
    #[arg(long)]
    producer_epoch: Option<i16>,
    #[arg(long, allow_hyphen_values = true)]
    coordinator_epoch: Option<i32>,
}

/// Whose transaction is ended.
struct Whose {
    producer_id: i64,
    producer_epoch: i16,
    coordinator_epoch: i32,
}

/// Flags that need each other.
pub fn check(args: &Args) -> anyhow::Result<()> {
    if args.start_offset.is_some() {
        return Ok(());
    }
    if args.producer_id.is_none() {
        bail!(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or \
             with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        );
    }
    if args.producer_epoch.is_none() {
        bail!("Missing required argument --producer-epoch");
    }
    if args.coordinator_epoch.is_none() {
        bail!("Missing required argument --coordinator-epoch");
    }
    Ok(())
}

pub fn run(args: &Args, admin: &mut Admin) -> anyhow::Result<()> {
    let at = TopicPartition::new(args.topic.as_str(), args.partition);
    let whose = match args.start_offset {
        Some(start) => who_began(admin, &at, start)?,
        None => Whose {
            producer_id: args.producer_id.unwrap_or(-1),
            producer_epoch: args.producer_epoch.unwrap_or(-1),
            // A transaction that never had a marker has none: 0 is no later than any coordinator's.
            coordinator_epoch: args.coordinator_epoch.unwrap_or(0).max(0),
        },
    };
    abort(admin, &at, &whose).with_context(|| format!("Failed to abort transaction of {at}"))
}

fn who_began(admin: &mut Admin, at: &TopicPartition, start: i64) -> anyhow::Result<Whose> {
    let known = cluster::producers(admin, None, std::slice::from_ref(at))
        .with_context(|| format!("Failed to validate producer state for partition {at}"))?;
    let mut producers = known.iter().flat_map(|(_, producers)| producers);
    let Some(producer) = producers.find(|producer| start >= 0 && producer.current_txn_start_offset == start) else {
        bail!("Could not find any open transactions starting at offset {start} on partition {at}");
    };
    Ok(Whose {
        producer_id: producer.producer_id.0,
        producer_epoch: i16::try_from(producer.producer_epoch)?,
        coordinator_epoch: producer.coordinator_epoch.max(0),
    })
}

fn abort(admin: &mut Admin, at: &TopicPartition, whose: &Whose) -> anyhow::Result<()> {
    let topic =
        WritableTxnMarkerTopic::default().with_name(topic_name(&at.topic)).with_partition_indexes(vec![at.partition]);
    let marker = WritableTxnMarker::default()
        .with_producer_id(ProducerId(whose.producer_id))
        .with_producer_epoch(whose.producer_epoch)
        .with_coordinator_epoch(whose.coordinator_epoch)
        .with_transaction_result(false)
        .with_topics(vec![topic]);
    let request = WriteTxnMarkersRequest::default().with_markers(vec![marker]);
    let outcome = admin.patiently(|client| {
        let leader = match cluster::leader(&client.metadata()?, at) {
            Ok(leader) => leader,
            Err(code) => return Ok(Err(code)),
        };
        let answer = client.send_to(leader, &request)?;
        Ok(ErrorCode::check(code(&answer)))
    })?;
    outcome.map_err(|code| anyhow!("{code}"))
}

fn code(answer: &WriteTxnMarkersResponse) -> i16 {
    let topics = answer.markers.iter().flat_map(|marker| &marker.topics);
    let mut partitions = topics.flat_map(|topic| &topic.partitions);
    partitions.next().map_or(ErrorCode::UnknownServerError.code(), |partition| partition.error_code)
}
