//! `klamm metastore`: what is done with a metastore while no broker uses it.

mod copy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Looks after the metastore of a broker that does not run
#[derive(Debug, Parser)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Copy(copy::Args),
}

/// 1 after an error.
pub fn main(args: &Args) -> ExitCode {
    let Command::Copy(args) = &args.command;
    match copy::copy(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::failed(&error),
    }
}
