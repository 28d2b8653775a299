//! `klamm reassign`: kafka-reassign-partitions' flags, files, sentences and exit codes (3.9.1).
//!
//! ```text
//! --generate  topics to move + brokers ──► a plan, printed      --execute  plan ──► throttles, then the reassignment
//! --list      what is on its way                                --verify   plan ──► how far it is; when all is done, no throttle
//!                                                               --cancel   plan ──► back to where it was, no throttle
//! ```
//!
//! Where Kafka's tool leaves it to chance, brokers and topics are in order here.

mod cancel;
mod cluster;
mod execute;
mod generate;
mod list;
mod log_dirs;
mod plan;
mod throttles;
mod verify;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use kafka_protocol::protocol::StrBytes;

use super::command_config;
use cluster::Cluster;

/// Moves partitions between brokers and log directories
#[derive(Debug, Parser)]
pub struct Args {
    /// host:port,host:port of brokers to connect to
    #[arg(long)]
    bootstrap_server: Option<String>,
    /// Proposes a plan for --topics-to-move-json-file and --broker-list
    #[arg(long)]
    generate: bool,
    /// Starts what --reassignment-json-file says
    #[arg(long)]
    execute: bool,
    /// Says how far it is; when it is done, takes the throttles away
    #[arg(long)]
    verify: bool,
    /// Moves back what is on its way, and takes the throttles away
    #[arg(long)]
    cancel: bool,
    /// All that is on its way
    #[arg(long)]
    list: bool,
    /// {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/data"]}]};
    /// log_dirs may be left out
    #[arg(long)]
    reassignment_json_file: Option<PathBuf>,
    /// {"version": 1, "topics": [{"topic": "t"}]}
    #[arg(long)]
    topics_to_move_json_file: Option<PathBuf>,
    /// id,id of brokers that may get replicas
    #[arg(long)]
    broker_list: Option<String>,
    /// With --generate
    #[arg(long)]
    disable_rack_aware: bool,
    /// Bytes a second that each broker may send and receive for what moves; with --execute
    #[arg(long, allow_hyphen_values = true)]
    throttle: Option<i64>,
    /// Bytes a second that may move between the log directories of one broker; with --execute
    #[arg(long, allow_hyphen_values = true)]
    replica_alter_log_dirs_throttle: Option<i64>,
    /// Milliseconds to wait until moves between log directories have begun; 10000 by default
    #[arg(long)]
    timeout: Option<i64>,
    /// With --execute: although others are on their way
    #[arg(long)]
    additional: bool,
    /// With --verify and --cancel
    #[arg(long)]
    preserve_throttles: bool,
    /// A file of client properties
    #[arg(long)]
    command_config: Option<PathBuf>,
}

/// Flags that make no sense.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

/// What is said as it is, without `Error: ` before it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Terse(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Generate,
    Execute,
    Verify,
    Cancel,
    List,
}

/// Prints as kafka-reassign-partitions does; 1 after an error.
pub fn main(args: &Args) -> ExitCode {
    match check(args).map_err(anyhow::Error::from).and_then(|(action, bootstrap)| run(args, action, bootstrap)) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(error) if error.is::<Usage>() => eprintln!("{error}"),
        Err(error) if error.is::<Terse>() => println!("{error}"),
        Err(error) => println!("Error: {error:#}"),
    }
    ExitCode::FAILURE
}

fn run(args: &Args, action: Action, bootstrap: &str) -> anyhow::Result<()> {
    let mut caller = command_config::caller(args.command_config.as_deref())?;
    if args.command_config.is_none() {
        caller.client_id = StrBytes::from_static_str("reassign-partitions-tool");
    }
    let mut cluster = Cluster::connect(bootstrap, caller)?;
    match action {
        Action::Generate => generate::generate(args, &mut cluster),
        Action::Execute => execute::execute(args, &mut cluster),
        Action::Verify => verify::verify(args, &mut cluster),
        Action::Cancel => cancel::cancel(args, &mut cluster),
        Action::List => list::list(&mut cluster),
    }
}

fn read(file: Option<&Path>) -> anyhow::Result<String> {
    let file = file.unwrap_or_else(|| Path::new(""));
    std::fs::read_to_string(file).with_context(|| file.display().to_string())
}

/// `s` behind a word for anything but one.
fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn joined<T: ToString>(of: impl IntoIterator<Item = T>) -> String {
    of.into_iter().map(|one| one.to_string()).collect::<Vec<_>>().join(",")
}

/// The action and the brokers' addresses. Flags that exclude or need each other, in the order in which Kafka's tool looks.
fn check(args: &Args) -> Result<(Action, &str), Usage> {
    use Action::{Cancel, Execute, Generate, List, Verify};
    let refuse = |text: &str| Err(Usage(text.to_owned()));
    let actions = [
        (args.generate, "generate", Generate),
        (args.execute, "execute", Execute),
        (args.verify, "verify", Verify),
        (args.cancel, "cancel", Cancel),
        (args.list, "list", List),
    ];
    let chosen: Vec<_> = actions.into_iter().filter(|(given, ..)| *given).collect();
    let [(_, name, action)] = chosen[..] else {
        return refuse("Command must include exactly one action: --generate, --execute, --verify, --cancel, --list");
    };
    let Some(bootstrap) = &args.bootstrap_server else {
        return refuse("Please specify --bootstrap-server");
    };
    let plan = [Execute, Verify, Cancel];
    // Each flag with the actions it is for, and whether they need it.
    let flags: [(bool, &str, &[Action], bool); 9] = [
        (args.reassignment_json_file.is_some(), "reassignment-json-file", &plan, true),
        (args.topics_to_move_json_file.is_some(), "topics-to-move-json-file", &[Generate], true),
        (args.broker_list.is_some(), "broker-list", &[Generate], true),
        (args.disable_rack_aware, "disable-rack-aware", &[Generate], false),
        (args.throttle.is_some(), "throttle", &[Execute], false),
        (args.replica_alter_log_dirs_throttle.is_some(), "replica-alter-log-dirs-throttle", &[Execute], false),
        (args.timeout.is_some(), "timeout", &[Execute, Cancel], false),
        (args.additional, "additional", &[Execute], false),
        (args.preserve_throttles, "preserve-throttles", &[Verify, Cancel], false),
    ];
    for (given, flag, of, needed) in flags {
        if needed && !given && of.contains(&action) {
            return Err(Usage(format!("Missing required argument \"[{flag}]\"")));
        }
    }
    for (given, flag, of, _) in flags {
        if given && !of.contains(&action) {
            return Err(Usage(format!("Option \"[{flag}]\" can't be used with action \"[{name}]\"")));
        }
    }
    Ok((action, bootstrap))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(flags: &str) -> Option<String> {
        let args = Args::parse_from(["reassign"].into_iter().chain(flags.split_whitespace()));
        check(&args).err().map(|Usage(text)| text)
    }

    #[test]
    fn flags_that_make_no_sense_are_refused_in_kafkas_words() {
        for flags in [
            "--list",
            "--generate --topics-to-move-json-file f --broker-list 1,2 --disable-rack-aware",
            "--execute --reassignment-json-file f --throttle 1000 --replica-alter-log-dirs-throttle -1 --timeout 5 --additional",
            "--verify --reassignment-json-file f --preserve-throttles",
            "--cancel --reassignment-json-file f --preserve-throttles --timeout 5",
        ] {
            assert_eq!(refusal(&format!("--bootstrap-server x:1 {flags}")), None, "{flags}");
        }
        let one = "Command must include exactly one action: --generate, --execute, --verify, --cancel, --list";
        for (flags, why) in [
            ("--bootstrap-server x:1", one),
            ("--bootstrap-server x:1 --list --verify", one),
            ("--list", "Please specify --bootstrap-server"),
            ("--bootstrap-server x:1 --execute", "Missing required argument \"[reassignment-json-file]\""),
            (
                "--bootstrap-server x:1 --generate --topics-to-move-json-file f",
                "Missing required argument \"[broker-list]\"",
            ),
            (
                "--bootstrap-server x:1 --list --throttle 1",
                "Option \"[throttle]\" can't be used with action \"[list]\"",
            ),
            (
                "--bootstrap-server x:1 --verify --reassignment-json-file f --timeout 1",
                "Option \"[timeout]\" can't be used with action \"[verify]\"",
            ),
        ] {
            assert_eq!(refusal(flags).as_deref(), Some(why), "{flags}");
        }
    }
}
