//! Confluent's `cub`: `kafka-ready` and `zk-ready`, which init services wait by.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};

use super::admin::Admin;
use super::client::Caller;
use super::command_config;
use super::nodes;
use super::patience::Patience;
use crate::metastore::Error;
use crate::metastore::schema::paths;

/// Waits until others are ready
#[derive(Debug, Parser)]
#[command(name = "cub")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Until a cluster has as many brokers
    KafkaReady {
        expected_brokers: usize,
        /// In seconds
        timeout: u64,
        /// host:port,host:port of brokers
        #[arg(short, long, alias = "bootstrap-server", alias = "bootstrap_broker_list", conflicts_with = "zookeeper")]
        bootstrap: Option<String>,
        /// host:port/chroot, where the brokers are registered
        #[arg(short, long, alias = "zookeeper_connect")]
        zookeeper: Option<String>,
        /// A file of client properties
        #[arg(short, long)]
        config: Option<PathBuf>,
        #[arg(short, long, default_value = "PLAINTEXT", alias = "security_protocol")]
        security_protocol: String,
    },
    /// Until ZooKeeper serves
    ZkReady {
        /// host:port,host:port/chroot
        connect: String,
        /// In seconds
        timeout: u64,
    },
}

pub fn main(args: &Args) -> ExitCode {
    let (what, timeout, look): (_, u64, Box<dyn Fn() -> anyhow::Result<()>>) = match &args.command {
        Command::KafkaReady { expected_brokers, timeout, bootstrap, zookeeper, config, security_protocol } => {
            if !security_protocol.eq_ignore_ascii_case("PLAINTEXT") {
                eprintln!("security protocol {security_protocol} is not there: PLAINTEXT is");
                return ExitCode::FAILURE;
            }
            let caller = match command_config::caller(config.as_deref()) {
                Ok(caller) => caller,
                Err(error) => return super::failed(&error),
            };
            let look = move || match (bootstrap, zookeeper) {
                (Some(bootstrap), _) => enough(brokers(bootstrap, &caller)?, *expected_brokers),
                (None, Some(connect)) => enough(registered(connect)?, *expected_brokers),
                (None, None) => bail!("one of -b and -z is needed"),
            };
            ("Kafka", *timeout, Box::new(look))
        }
        Command::ZkReady { connect, timeout } => ("ZooKeeper", *timeout, Box::new(|| registered(connect).map(|_| ()))),
    };
    match Patience::of(timeout).until(look) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{what} is not ready after {timeout} s: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn enough(found: usize, expected: usize) -> anyhow::Result<()> {
    if found < expected {
        bail!("Expected {expected} brokers but found only {found}");
    }
    Ok(())
}

fn brokers(bootstrap: &str, caller: &Caller) -> anyhow::Result<usize> {
    let caller = Caller { patience: Duration::ZERO, ..caller.clone() };
    Ok(Admin::connect(bootstrap, caller)?.cluster()?.brokers.len())
}

/// The brokers that ZooKeeper knows; none where no broker has been.
fn registered(connect: &str) -> anyhow::Result<usize> {
    nodes::in_session(connect, async |store| match store.children(paths::BROKER_IDS).await {
        Ok(children) => Ok(children.len()),
        Err(Error::NoNode(_)) => Ok(0),
        Err(error) => Err(error).context(connect.to_owned()),
    })
}
