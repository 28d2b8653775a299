//! `klamm configs`: kafka-configs' flags, lines, sentences and exit codes (3.9.1), for topics, brokers, and the quotas and
//! SCRAM credentials of users, clients and addresses. Where Kafka's tool leaves it to chance, lines are in order here.

mod entity;
mod quotas;
mod resources;
mod scram;
mod settings;

use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::Parser;

use super::admin::Admin;
use super::command_config;
use entity::{Entities, EntityArgs, Kind};
use settings::Settings;

/// Shows and changes the configs of topics and brokers, and quotas
#[derive(Debug, Parser)]
pub struct Args {
    /// host:port,host:port of brokers to connect to
    #[arg(long, required = true)]
    bootstrap_server: String,
    #[arg(long)]
    describe: bool,
    #[arg(long)]
    alter: bool,
    #[command(flatten)]
    entities: EntityArgs,
    /// name=value,name=[value,value]
    #[arg(long, allow_hyphen_values = true)]
    add_config: Option<String>,
    /// A properties file
    #[arg(long)]
    add_config_file: Option<PathBuf>,
    /// name,name
    #[arg(long)]
    delete_config: Option<String>,
    /// Also what nobody has set
    #[arg(long)]
    all: bool,
    /// A file of client properties
    #[arg(long)]
    command_config: Option<PathBuf>,
    #[arg(long, hide = true)]
    force: bool,
}

/// Flags that make no sense, or not for this entity.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

/// An [`Usage`] as an error of any kind.
fn usage(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}

/// Prints as kafka-configs does; 1 after an error.
pub fn main(args: &Args) -> ExitCode {
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<Usage>() => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        Err(error) => {
            let given: Vec<String> = std::env::args().skip(2).collect();
            eprintln!("Error while executing config command with args '{}'\n{error:#}", given.join(" "));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    if args.alter == args.describe {
        return Err(usage("Command must include exactly one action: --describe, --alter"));
    }
    let altered = args.add_config.is_some() || args.delete_config.is_some();
    if args.describe && altered {
        let what = if args.add_config.is_some() { "add-config" } else { "delete-config" };
        return Err(usage(format!("Option \"[describe]\" can't be used with option \"[{what}]\"")));
    }
    let entities = args.entities.entities()?;
    check_names(args, &entities)?;
    let connect = || Admin::connect(&args.bootstrap_server, command_config::caller(args.command_config.as_deref())?);
    if args.describe {
        return describe(args, &entities, &mut connect()?);
    }
    if args.add_config.is_some() && args.add_config_file.is_some() {
        return Err(usage("Only one of --add-config or --add-config-file must be specified"));
    }
    if !altered && args.add_config_file.is_none() {
        return Err(usage(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter",
        ));
    }
    let settings =
        Settings::new(args.add_config.as_deref(), args.add_config_file.as_deref(), args.delete_config.as_deref())?;
    alter(&entities, &settings, &mut connect()?)
}

fn first(entities: &Entities) -> anyhow::Result<Kind> {
    entities.kinds.first().copied().ok_or_else(|| anyhow!("no entity type"))
}

/// Names that the entity's type must, or cannot, have.
fn check_names(args: &Args, entities: &Entities) -> anyhow::Result<()> {
    let kind = first(entities)?;
    let named = entities.names.iter().any(Option::is_some);
    if args.alter && matches!(kind, Kind::Topics) && !named {
        return Err(usage("an entity name must be specified with --alter of topics"));
    }
    if args.alter && entities.names.is_empty() {
        return Err(usage(
            "an entity-name or default entity must be specified with --alter of users, clients, brokers or ips",
        ));
    }
    for name in entities.names.iter().flatten() {
        match kind {
            Kind::Brokers if name.parse::<i32>().is_err() => {
                return Err(usage(format!(
                    "The entity name for brokers must be a valid integer broker id, but it is: {name}"
                )));
            }
            Kind::Ips if (name.as_str(), 0).to_socket_addrs().is_err() => {
                return Err(usage(format!(
                    "The entity name for ips must be a valid IP or resolvable host, but it is: {name}"
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

fn describe(args: &Args, entities: &Entities, admin: &mut Admin) -> anyhow::Result<()> {
    match first(entities)? {
        kind @ (Kind::Topics | Kind::Brokers) => resources::describe(kind, entities.names.first(), args.all, admin),
        Kind::Ips => quotas::describe(entities, admin),
        Kind::Users | Kind::Clients => {
            quotas::describe(entities, admin)?;
            let of_users = !entities.kinds.contains(&Kind::Clients) && entities.names.iter().all(Option::is_some);
            if of_users { scram::describe(&entities.names, admin) } else { Ok(()) }
        }
    }
}

fn alter(entities: &Entities, settings: &Settings, admin: &mut Admin) -> anyhow::Result<()> {
    let kind = first(entities)?;
    let name = entities.names.first().and_then(Option::as_deref);
    match kind {
        Kind::Topics | Kind::Brokers => resources::alter(kind, name, settings, admin)?,
        Kind::Users if entities.kinds.len() == 1 && scram::concerns(settings) => {
            scram::check(entities, settings)?;
            scram::alter(name.unwrap_or_default(), settings, admin)?;
        }
        _ => quotas::alter(entities, settings, admin)?,
    }
    match name {
        Some(name) => println!("Completed updating config for {} {name}.", kind.singular()),
        None => println!("Completed updating default config for {} in the cluster.", kind.name()),
    }
    Ok(())
}
