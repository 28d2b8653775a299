//! `klamm transactions`: kafka-transactions' commands, flags, tables, sentences and exit codes (3.9.1). Where Kafka's tool
//! leaves it to chance, rows are in order here.

mod abort;
mod cluster;
mod describe;
mod find_hanging;
mod list;
mod producers;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::admin::Admin;
use super::command_config;

/// Shows transactions and their producers, and finds and ends hanging ones
#[derive(Debug, Parser)]
pub struct Args {
    /// host:port,host:port of brokers to connect to
    #[arg(long)]
    bootstrap_server: String,
    /// A file of client properties
    #[arg(long)]
    command_config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// All transactional ids
    List(list::Args),
    /// One transactional id
    Describe(describe::Args),
    /// The producers that a partition knows
    DescribeProducers(producers::Args),
    /// Ends a hanging transaction in one partition
    Abort(abort::Args),
    /// Transactions that are open in partitions and known to no coordinator
    FindHanging(find_hanging::Args),
}

pub fn main(args: &Args) -> ExitCode {
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::failed(&error),
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    if let Command::FindHanging(args) = &args.command {
        find_hanging::check(args)?;
    }
    if let Command::Abort(args) = &args.command {
        abort::check(args)?;
    }
    let caller = command_config::caller(args.command_config.as_deref())?;
    let mut admin = Admin::connect(&args.bootstrap_server, caller)?;
    match &args.command {
        Command::List(args) => list::run(args, &mut admin),
        Command::Describe(args) => describe::run(args, &mut admin),
        Command::DescribeProducers(args) => producers::run(args, &mut admin),
        Command::Abort(args) => abort::run(args, &mut admin),
        Command::FindHanging(args) => find_hanging::run(args, &mut admin),
    }
}
