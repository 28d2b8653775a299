//! `klamm ready`: the health check of a container. 0 when the broker answers and knows its controller.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::Parser;

use super::admin::Admin;
use super::client::Caller;
use super::{container, failed, server};

/// Of each answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Tells whether a broker serves; exit status 0 = it does
#[derive(Debug, Parser)]
pub struct Args {
    /// host:port; without it the broker that this container's variables describe
    #[arg(long)]
    bootstrap_server: Option<String>,
}

pub fn main(args: &Args) -> ExitCode {
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    let address = match &args.bootstrap_server {
        Some(address) => address.clone(),
        None => {
            let setup = container::setup(&server::node_name())?;
            container::address(&container::configuration(&setup, &[])?.0)
        }
    };
    let caller = Caller { timeout: TIMEOUT, patience: Duration::ZERO, ..Caller::default() };
    let cluster = Admin::connect(&address, caller)?.cluster()?;
    if cluster.controller_id.0 < 0 {
        bail!("{address} serves and knows no controller");
    }
    Ok(())
}
