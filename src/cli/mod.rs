//! Subcommands. Without one, the broker is started.

mod admin;
mod api_versions;
mod client;
mod cluster;
mod command_config;
mod config;
mod configs;
mod consume;
mod consumer_protocol;
mod container;
mod cub;
mod delete_records;
mod dump_log;
mod elect_leaders;
#[cfg(test)]
mod fake_cluster;
mod groups;
mod include_list;
mod json;
mod layout;
mod log_dirs;
mod metastore;
mod names;
mod nodes;
mod offsets;
mod patience;
mod produce;
mod progress;
mod properties;
mod ready;
mod reassign;
mod refusal;
mod rows;
mod server;
mod stop;
mod storage;
mod topics;
mod transactions;
mod zookeeper_login;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A broker that speaks Apache Kafka's protocol.
#[derive(Debug, Parser)]
#[command(name = "klamm", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    server: server::Args,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the broker; what happens without a subcommand
    Server(server::Args),
    /// What can be configured
    Config(config::Args),
    Topics(topics::Args),
    Cluster(cluster::Args),
    Reassign(reassign::Args),
    ElectLeaders(elect_leaders::Args),
    Configs(configs::Args),
    Groups(groups::Args),
    Offsets(offsets::Args),
    Transactions(transactions::Args),
    Produce(produce::Args),
    Consume(consume::Args),
    DumpLog(dump_log::Args),
    ApiVersions(api_versions::Args),
    LogDirs(log_dirs::Args),
    DeleteRecords(delete_records::Args),
    Storage(storage::Args),
    Ready(ready::Args),
    Metastore(metastore::Args),
}

/// Entry point of the binary.
pub fn main() -> ExitCode {
    if let Some(code) = names::called() {
        return code;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    match cli.command {
        None => server::main(cli.server),
        Some(Command::Server(args)) => server::main(args),
        Some(Command::Config(args)) => config::main(&args),
        Some(Command::Topics(args)) => topics::main(args, topics::Style::Klamm),
        Some(Command::Cluster(args)) => cluster::main(&args),
        Some(Command::Reassign(args)) => reassign::main(&args),
        Some(Command::ElectLeaders(args)) => elect_leaders::main(&args),
        Some(Command::Configs(args)) => configs::main(&args),
        Some(Command::Groups(args)) => groups::main(&args),
        Some(Command::Offsets(args)) => offsets::main(&args),
        Some(Command::Transactions(args)) => transactions::main(&args),
        Some(Command::Produce(args)) => produce::main(args),
        Some(Command::Consume(args)) => consume::main(args),
        Some(Command::DumpLog(args)) => dump_log::main(args),
        Some(Command::ApiVersions(args)) => api_versions::main(&args),
        Some(Command::LogDirs(args)) => log_dirs::main(&args),
        Some(Command::DeleteRecords(args)) => delete_records::main(&args),
        Some(Command::Storage(args)) => storage::main(&args),
        Some(Command::Ready(args)) => ready::main(&args),
        Some(Command::Metastore(args)) => metastore::main(&args),
    }
}

/// Says why a subcommand could not do what it was asked for.
fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("{error:#}");
    ExitCode::FAILURE
}

fn refused(error: &clap::Error) -> ExitCode {
    // A terminal that is gone is no reason for another error.
    let _ = error.print();
    // Kafka's tools end with 1 where clap's programs would end with 2.
    if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
