//! `klamm storage`: what of kafka-storage there is to do here. Directories need no format: a broker makes them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};

use crate::config::{BrokerConfig, properties};
use crate::random::{Random, SystemRandom};

/// Ids of clusters, and what is in log directories
#[derive(Debug, Parser)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prints an id for a cluster
    RandomUuid,
    /// Shows the identity of each log directory
    Info {
        /// server.properties
        #[arg(long, short)]
        config: PathBuf,
    },
    /// Does nothing: a broker makes its directories by itself
    Format {
        #[arg(long, short = 't')]
        cluster_id: Option<String>,
        #[arg(long, short)]
        config: Option<PathBuf>,
        #[arg(long, short = 'g')]
        ignore_formatted: bool,
        #[arg(long)]
        standalone: bool,
        #[arg(long, short)]
        release_version: Option<String>,
    },
}

pub fn main(args: &Args) -> ExitCode {
    let done = match &args.command {
        Command::RandomUuid => {
            println!("{}", SystemRandom.topic_id());
            Ok(())
        }
        Command::Info { config } => info(config),
        Command::Format { cluster_id, .. } => {
            let id = cluster_id.as_deref().unwrap_or("ID");
            println!("Nothing to format: a broker makes its directories. klamm.cluster.id={id} names a new cluster.");
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::failed(&error),
    }
}

fn info(file: &Path) -> anyhow::Result<()> {
    let bytes = fs::read(file).with_context(|| file.display().to_string())?;
    let (config, _) = BrokerConfig::load(&bytes, &[])?;
    println!("Found log directories:");
    for dir in &config.log_dirs {
        println!("  {}", dir.display());
    }
    for dir in &config.log_dirs {
        let path = dir.join("meta.properties");
        match fs::read(&path) {
            Ok(bytes) => {
                let entries = properties::parse(&bytes).with_context(|| path.display().to_string())?;
                let pairs: Vec<String> = entries.iter().map(|(key, value)| format!("{key}={value}")).collect();
                println!("\n{}: {}", path.display(), pairs.join(", "));
            }
            Err(error) => println!("\n{}: {error}", path.display()),
        }
    }
    Ok(())
}
