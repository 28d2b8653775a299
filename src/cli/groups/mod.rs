//! `klamm groups`: kafka-consumer-groups' flags, tables, sentences and exit codes (3.9.1).
//!
//! Its exit code is 1 for flags that make no sense, and 0 for all else: what went wrong with the groups is said on standard
//! output, behind `Error: `. Where Kafka's tool leaves it to chance, groups, topics and partitions are in order here. The
//! tables of `--reset-offsets` and `--delete-offsets` have a line for each partition, which in 3.9.1 run into each other.

mod csv;
mod delete;
mod delete_offsets;
mod describe;
mod list;
mod reset;
mod scope;
mod strategy;
mod table;
mod when;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use super::admin::Admin;
use super::command_config;

/// Lists, describes and deletes consumer groups and moves their offsets
#[derive(Debug, Default, Parser)]
pub struct Args {
    /// host:port,host:port of brokers to connect to
    #[arg(long, required = true)]
    bootstrap_server: String,
    #[arg(long)]
    list: bool,
    /// Offsets and lag; members with --members, state with --state
    #[arg(long)]
    describe: bool,
    #[arg(long)]
    delete: bool,
    /// Of inactive groups; a dry run without --execute
    #[arg(long)]
    reset_offsets: bool,
    /// Of the partitions that --topic names
    #[arg(long)]
    delete_offsets: bool,
    /// May be repeated
    #[arg(long)]
    group: Vec<String>,
    #[arg(long)]
    all_groups: bool,
    /// topic or topic:0,1; may be repeated
    #[arg(long)]
    topic: Vec<String>,
    /// All topics of which the group has committed offsets
    #[arg(long)]
    all_topics: bool,
    /// With --describe; with --list shows states, or only groups in these
    #[arg(long, num_args = 0..=1, value_name = "STATES")]
    state: Option<Option<String>>,
    /// With --list: shows types, or only groups of these
    #[arg(long = "type", num_args = 0..=1, value_name = "TYPES")]
    types: Option<Option<String>>,
    /// With --describe
    #[arg(long)]
    members: bool,
    /// With --describe; what it shows by default
    #[arg(long)]
    offsets: bool,
    /// With --members shows assignments
    #[arg(long)]
    verbose: bool,
    #[arg(long)]
    to_earliest: bool,
    #[arg(long)]
    to_latest: bool,
    /// To what is committed, or else to the end
    #[arg(long)]
    to_current: bool,
    #[arg(long, allow_hyphen_values = true)]
    to_offset: Option<i64>,
    #[arg(long, allow_hyphen_values = true)]
    shift_by: Option<i64>,
    /// YYYY-MM-DDThh:mm:ss.sss, and an offset from UTC unless it is UTC
    #[arg(long)]
    to_datetime: Option<String>,
    /// PnDTnHnMnS before now
    #[arg(long, allow_hyphen_values = true)]
    by_duration: Option<String>,
    /// Lines of topic,partition,offset, or of group,topic,partition,offset
    #[arg(long)]
    from_file: Option<PathBuf>,
    #[arg(long)]
    dry_run: bool,
    #[arg(long)]
    execute: bool,
    /// Writes lines for --from-file in place of a table
    #[arg(long)]
    export: bool,
    /// Milliseconds to wait for an answer, all tries together
    #[arg(long, default_value_t = 5000)]
    timeout: u64,
    /// A file of client properties
    #[arg(long)]
    command_config: Option<PathBuf>,
}

/// Flags that make no sense, or not on these groups.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

/// An [`Usage`] as an error of any kind.
fn usage(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}

pub fn main(args: &Args) -> ExitCode {
    match check(args).map_err(anyhow::Error::from).and_then(|()| run(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<Usage>() => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        Err(error) => {
            say_error(&format!("Executing consumer group command failed due to {error:#}"));
            ExitCode::SUCCESS
        }
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    let mut caller = command_config::caller(args.command_config.as_deref())?;
    caller.patience = Duration::from_millis(args.timeout);
    caller.timeout = caller.timeout.min(caller.patience);
    let mut admin = Admin::connect(&args.bootstrap_server, caller)?;
    match () {
        () if args.list => list::list(args, &mut admin),
        () if args.describe => describe::describe(args, &mut admin),
        () if args.delete => delete::delete(args, &mut admin),
        () if args.reset_offsets => reset::reset(args, &mut admin),
        () => delete_offsets::delete_offsets(args, &mut admin),
    }
}

/// On standard output, as Kafka's tool tells what went wrong.
fn say_error(what: &str) {
    println!("\nError: {what}");
}

/// The groups of --group, or all there are.
fn groups_meant(args: &Args, admin: &mut Admin) -> anyhow::Result<Vec<String>> {
    if !args.all_groups {
        let mut groups = args.group.clone();
        groups.sort();
        groups.dedup();
        return Ok(groups);
    }
    Ok(list::consumer_groups(admin, &[], &[])?.into_iter().map(|group| group.group_id.to_string()).collect())
}

/// Flags that exclude or need each other, in the order in which Kafka's tool looks.
fn check(args: &Args) -> Result<(), Usage> {
    let refuse = |text: String| Err(Usage(text));
    let no_group = args.group.is_empty() && !args.all_groups;
    if args.describe {
        if no_group {
            return refuse("Option [describe] takes one of these options: [all-groups], [group]".to_owned());
        }
        if [args.members, args.offsets, args.state.is_some()].iter().filter(|chosen| **chosen).count() > 1 {
            return refuse(
                "Option [describe] takes at most one of these options: [members], [offsets], [state]".to_owned(),
            );
        }
        if matches!(args.state, Some(Some(_))) {
            return refuse("Option [describe] does not take a value for [state]".to_owned());
        }
    }
    if args.delete {
        if no_group {
            return refuse("Option [delete] takes one of these options: [all-groups], [group]".to_owned());
        }
        if !args.topic.is_empty() {
            return refuse(
                "The consumer does not support topic-specific offset deletion from a consumer group.".to_owned(),
            );
        }
    }
    if args.delete_offsets && (args.group.is_empty() || args.topic.is_empty()) {
        return refuse("Option [delete-offsets] takes the following options: [group], [topic]".to_owned());
    }
    if args.reset_offsets {
        check_reset(args, no_group)?;
    }
    let excluded = |is: bool, what: &str, given: &[(bool, &str)]| match given.iter().find(|(given, _)| *given) {
        Some((_, other)) if is => refuse(format!("Option \"[{what}]\" can't be used with option \"[{other}]\"")),
        _ => Ok(()),
    };
    excluded(!args.group.is_empty(), "group", &[(args.all_groups, "all-groups"), (args.list, "list")])?;
    excluded(!args.topic.is_empty(), "topic", &[(args.list, "list"), (args.describe, "describe")])?;
    let actions = [args.list, args.describe, args.delete, args.reset_offsets, args.delete_offsets];
    if actions.iter().filter(|chosen| **chosen).count() != 1 {
        return refuse(
            "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, --delete-offsets"
                .to_owned(),
        );
    }
    if args.delete_offsets && args.group.len() > 1 {
        return refuse("Found multiple arguments for option group, but you asked for only one".to_owned());
    }
    Ok(())
}

fn check_reset(args: &Args, no_group: bool) -> Result<(), Usage> {
    if args.dry_run && args.execute {
        return Err(Usage("Option [reset-offsets] only accepts one of [execute] and [dry-run]".to_owned()));
    }
    if !args.dry_run && !args.execute {
        eprintln!(
            "WARN: this is a dry run: nothing is changed without --execute. Say --dry-run where that is what is meant."
        );
    }
    if no_group {
        return Err(Usage("Option [reset-offsets] takes one of these options: [all-groups], [group]".to_owned()));
    }
    let strategies = [
        (args.to_offset.is_some(), "to-offset"),
        (args.to_datetime.is_some(), "to-datetime"),
        (args.by_duration.is_some(), "by-duration"),
        (args.to_earliest, "to-earliest"),
        (args.to_latest, "to-latest"),
        (args.shift_by.is_some(), "shift-by"),
        (args.to_current, "to-current"),
        (args.from_file.is_some(), "from-file"),
    ];
    let chosen: Vec<&str> = strategies.iter().filter(|(given, _)| *given).map(|(_, name)| *name).collect();
    match chosen[..] {
        [one, other, ..] => Err(Usage(format!("Option \"[{one}]\" can't be used with option \"[{other}]\""))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(flags: &str) -> Option<String> {
        let args = Args::parse_from(["groups", "--bootstrap-server", "x:1"].into_iter().chain(flags.split(' ')));
        check(&args).err().map(|Usage(text)| text)
    }

    #[test]
    fn flags_that_make_no_sense_are_refused_in_kafkas_words() {
        for flags in [
            "--list",
            "--list --state",
            "--list --state stable,empty --type classic",
            "--describe --group a --group b",
            "--describe --all-groups --members --verbose",
            "--describe --group a --state",
            "--delete --group a",
            "--delete-offsets --group a --topic t:0,1",
            "--reset-offsets --group a --all-topics --shift-by -5 --execute",
            "--reset-offsets --all-groups --topic t --by-duration -PT1H --dry-run",
        ] {
            assert_eq!(refusal(flags), None, "{flags}");
        }
        for (flags, why) in [
            ("--describe", "Option [describe] takes one of these options: [all-groups], [group]"),
            (
                "--describe --group a --state --members",
                "Option [describe] takes at most one of these options: [members], [offsets], [state]",
            ),
            ("--describe --group a --state Empty", "Option [describe] does not take a value for [state]"),
            ("--delete", "Option [delete] takes one of these options: [all-groups], [group]"),
            (
                "--delete --group a --topic t",
                "The consumer does not support topic-specific offset deletion from a consumer group.",
            ),
            ("--delete --group a --all-groups", "Option \"[group]\" can't be used with option \"[all-groups]\""),
            ("--delete-offsets --group a", "Option [delete-offsets] takes the following options: [group], [topic]"),
            (
                "--reset-offsets --group a --execute --dry-run",
                "Option [reset-offsets] only accepts one of [execute] and [dry-run]",
            ),
            (
                "--reset-offsets --dry-run --to-earliest",
                "Option [reset-offsets] takes one of these options: [all-groups], [group]",
            ),
            (
                "--reset-offsets --dry-run --group a --to-latest --to-earliest",
                "Option \"[to-earliest]\" can't be used with option \"[to-latest]\"",
            ),
            ("--list --group a", "Option \"[group]\" can't be used with option \"[list]\""),
            ("--describe --group a --topic t", "Option \"[topic]\" can't be used with option \"[describe]\""),
            (
                "--list --describe --all-groups",
                "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, --delete-offsets",
            ),
        ] {
            assert_eq!(refusal(flags).as_deref(), Some(why), "{flags}");
        }
    }
}
