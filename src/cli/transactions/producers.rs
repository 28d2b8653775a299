//! `klamm transactions describe-producers`.

use anyhow::Context;

use super::{cluster, table};
use crate::cli::admin::Admin;
use crate::types::TopicPartition;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The replica that is asked, in place of the leader
    #[arg(long)]
    broker_id: Option<i32>,
    #[arg(long)]
    topic: String,
    #[arg(long)]
    partition: i32,
}

const HEADERS: [&str; 6] = [
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
];

pub fn run(args: &Args, admin: &mut Admin) -> anyhow::Result<()> {
    let at = TopicPartition::new(args.topic.as_str(), args.partition);
    let failed = || {
        let on = args.broker_id.map_or_else(|| "leader".to_owned(), |id| format!("broker {id}"));
        format!("Failed to describe producers for partition {at} on {on}")
    };
    let known = cluster::producers(admin, args.broker_id, std::slice::from_ref(&at)).with_context(failed)?;
    let rows = known.iter().flat_map(|(_, producers)| producers).map(|producer| {
        let start = producer.current_txn_start_offset;
        vec![
            producer.producer_id.0.to_string(),
            producer.producer_epoch.to_string(),
            producer.coordinator_epoch.to_string(),
            producer.last_sequence.to_string(),
            producer.last_timestamp.to_string(),
            if start < 0 { "None".to_owned() } else { start.to_string() },
        ]
    });
    print!("{}", table::text(&HEADERS, &rows.collect::<Vec<_>>()));
    Ok(())
}
