//! Subcommands. Without one, the broker is started.

mod client;
mod config;
mod consume;
mod dump_log;
mod layout;
mod produce;
mod progress;
mod properties;
mod rows;
mod server;
mod topics;

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
    Produce(produce::Args),
    Consume(consume::Args),
    DumpLog(dump_log::Args),
}

/// Entry point of the binary.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        None => server::main(cli.server),
        Some(Command::Server(args)) => server::main(args),
        Some(Command::Config(args)) => config::main(&args),
        Some(Command::Topics(args)) => topics::main(args),
        Some(Command::Produce(args)) => produce::main(args),
        Some(Command::Consume(args)) => consume::main(args),
        Some(Command::DumpLog(args)) => dump_log::main(args),
    }
}
