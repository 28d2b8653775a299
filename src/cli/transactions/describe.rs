//! `klamm transactions describe`.

use anyhow::bail;

use super::{cluster, table};
use crate::cli::admin::Admin;
use crate::clock::{Clock, SystemClock};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(long)]
    transactional_id: String,
}

const HEADERS: [&str; 9] = [
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
];

pub fn run(args: &Args, admin: &mut Admin) -> anyhow::Result<()> {
    let id = &args.transactional_id;
    let (coordinator, state) = match cluster::describe(admin, id)? {
        Ok(described) => described,
        Err(code) => bail!("Failed to describe transaction state of transactional-id `{id}`: {code}"),
    };
    let started_ms = Some(state.transaction_start_time_ms).filter(|started_ms| *started_ms >= 0);
    let or_none = |time: Option<i64>| time.map_or_else(|| "None".to_owned(), |time| time.to_string());
    let now_ms = SystemClock::default().wall_ms();
    let partitions = state.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(move |partition| format!("{}-{partition}", topic.topic.as_str()))
    });
    let row = vec![
        coordinator.0.to_string(),
        id.clone(),
        state.producer_id.0.to_string(),
        state.producer_epoch.to_string(),
        state.transaction_state.to_string(),
        state.transaction_timeout_ms.to_string(),
        or_none(started_ms),
        or_none(started_ms.map(|started_ms| now_ms - started_ms)),
        partitions.collect::<Vec<_>>().join(","),
    ];
    print!("{}", table::text(&HEADERS, &[row]));
    Ok(())
}
