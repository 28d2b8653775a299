//! `klamm transactions list`.

use anyhow::Context;

use super::{cluster, table};
use crate::cli::admin::Admin;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only those that run longer, ms; below 0 all
    #[arg(long, allow_hyphen_values = true)]
    duration_filter: Option<i64>,
}

pub fn run(args: &Args, admin: &mut Admin) -> anyhow::Result<()> {
    let listed = cluster::list(admin, &[], args.duration_filter).context("Failed to list transactions")?;
    let rows: Vec<Vec<String>> = listed
        .iter()
        .flat_map(|(broker, states)| states.iter().map(move |state| (broker, state)))
        .map(|(broker, state)| {
            vec![
                state.transactional_id.to_string(),
                broker.to_string(),
                state.producer_id.0.to_string(),
                state.transaction_state.to_string(),
            ]
        })
        .collect();
    print!("{}", table::text(&["TransactionalId", "Coordinator", "ProducerId", "TransactionState"], &rows));
    Ok(())
}
