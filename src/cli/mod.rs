//! Subcommands. Without one, the broker is started.

mod admin;
mod client;
mod command_config;
mod config;
mod configs;
mod consume;
mod consumer_protocol;
mod dump_log;
mod groups;
mod include_list;
mod layout;
mod offsets;
mod produce;
mod progress;
mod properties;
mod refusal;
mod rows;
mod server;
mod topics;

use std::path::{Path, PathBuf};
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
    Configs(configs::Args),
    Groups(groups::Args),
    Offsets(offsets::Args),
    Produce(produce::Args),
    Consume(consume::Args),
    DumpLog(dump_log::Args),
}

/// Entry point of the binary.
pub fn main() -> ExitCode {
    let name = std::env::args_os().next().map(PathBuf::from);
    if name.as_deref().and_then(Path::file_name).is_some_and(|name| name == "kafka-topics" || name == "kafka-topics.sh")
    {
        return match topics::Args::try_parse() {
            Ok(args) => topics::main(args, topics::Style::Kafka),
            Err(error) => refused(&error),
        };
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
        Some(Command::Configs(args)) => configs::main(&args),
        Some(Command::Groups(args)) => groups::main(&args),
        Some(Command::Offsets(args)) => offsets::main(&args),
        Some(Command::Produce(args)) => produce::main(args),
        Some(Command::Consume(args)) => consume::main(args),
        Some(Command::DumpLog(args)) => dump_log::main(args),
    }
}

fn refused(error: &clap::Error) -> ExitCode {
    // A terminal that is gone is no reason for another error.
    let _ = error.print();
    // Kafka's tools end with 1 where clap's programs would end with 2.
    if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
