//! `klamm elect-leaders`: kafka-leader-election's flags, files, sentences and exit codes (3.9.1). Where Kafka's tool leaves
//! it to chance, partitions are in order here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::{ElectLeadersRequest, ElectLeadersResponse};
use serde_json::Value;

use super::admin::{self, Admin, topic_name};
use super::command_config;
use super::json;
use super::refusal::exception;
use crate::types::TopicPartition;
use crate::wire::error_code::ErrorCode;

/// Of the election, and of every answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Has leaders elected: the preferred ones, or any for partitions without one
#[derive(Debug, Parser)]
pub struct Args {
    /// host:port,host:port of brokers to connect to
    #[arg(long)]
    bootstrap_server: Option<String>,
    /// preferred: the first replica leads again. unclean: a replica that is not in sync may lead where nobody else can,
    /// and what it has not is lost
    #[arg(long, ignore_case = true)]
    election_type: Option<ElectionType>,
    /// One partition's, with --partition
    #[arg(long)]
    topic: Option<String>,
    #[arg(long)]
    partition: Option<i32>,
    /// {"partitions": [{"topic": "t", "partition": 1}]}
    #[arg(long)]
    path_to_json_file: Option<PathBuf>,
    /// All that need it
    #[arg(long)]
    all_topic_partitions: bool,
    /// A file of client properties
    #[arg(long, alias = "admin.config")]
    command_config: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ElectionType {
    Preferred,
    Unclean,
}

impl ElectionType {
    fn code(self) -> i8 {
        match self {
            ElectionType::Preferred => 0,
            ElectionType::Unclean => 1,
        }
    }

    fn name(self) -> &'static str {
        match self {
            ElectionType::Preferred => "PREFERRED",
            ElectionType::Unclean => "UNCLEAN",
        }
    }
}

/// Prints as kafka-leader-election does; 1 after an error.
pub fn main(args: &Args) -> ExitCode {
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::failed(&error),
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    let (bootstrap, kind) = check(args)?;
    let partitions = match (&args.path_to_json_file, &args.topic, args.partition) {
        (Some(path), ..) => Some(partitions_of(path)?),
        (None, Some(topic), Some(partition)) => Some(BTreeSet::from([TopicPartition::new(topic.as_str(), partition)])),
        _ => None,
    };
    let mut caller = command_config::caller(args.command_config.as_deref())?;
    caller.patience = caller.patience.min(TIMEOUT);
    let mut cluster = Admin::connect(bootstrap, caller)?;
    let request = ElectLeadersRequest::default()
        .with_election_type(kind.code())
        .with_topic_partitions(partitions.as_ref().map(by_topic))
        .with_timeout_ms(i32::try_from(TIMEOUT.as_millis())?);
    // A broker that is not the controller any more says so of each partition, and nothing of the whole.
    let refused = |answer: &ElectLeadersResponse| {
        let partitions = answer.replica_election_results.iter().flat_map(|topic| &topic.partition_result);
        match admin::not_controller(partitions.map(|partition| partition.error_code)) {
            0 => answer.error_code,
            moved => moved,
        }
    };
    let answer = match cluster.of_controller(&request, refused)? {
        Ok(answer) => answer,
        Err(ErrorCode::ClusterAuthorizationFailed) => {
            println!("Not authorized to perform leader election");
            bail!("Not authorized to perform leader election");
        }
        Err(ErrorCode::RequestTimedOut) => {
            println!("Timeout waiting for election results");
            bail!("Timeout waiting for election results");
        }
        Err(code) => bail!("{}", exception(code, None)),
    };
    let (mut elected, mut needless, mut failed) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for topic in &answer.replica_election_results {
        for result in &topic.partition_result {
            let partition = TopicPartition::new(topic.topic.as_str(), result.partition_id);
            match ErrorCode::answered(result.error_code) {
                ErrorCode::None => drop(elected.insert(partition)),
                ErrorCode::ElectionNotNeeded => drop(needless.insert(partition)),
                code => failed.push((partition, exception(code, result.error_message.as_ref()))),
            }
        }
    }
    if !elected.is_empty() {
        println!("Successfully completed leader election ({}) for partitions {}", kind.name(), joined(&elected));
    }
    if !needless.is_empty() {
        println!("Valid replica already elected for partitions {}", joined(&needless));
    }
    failed.sort();
    for (partition, why) in &failed {
        println!("Error completing leader election ({}) for partition: {partition}: {why}", kind.name());
    }
    match failed.len() {
        0 => Ok(()),
        count => bail!("{count} replica(s) could not be elected"),
    }
}

fn joined(partitions: &BTreeSet<TopicPartition>) -> String {
    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn by_topic(partitions: &BTreeSet<TopicPartition>) -> Vec<TopicPartitions> {
    let topic = |(name, partitions): (&str, Vec<i32>)| {
        TopicPartitions::default().with_topic(topic_name(name)).with_partitions(partitions)
    };
    admin::by_topic(partitions.iter().map(|of| (of, of.partition))).into_iter().map(topic).collect()
}

/// Flags that exclude or need each other, in the order in which Kafka's tool looks.
fn check(args: &Args) -> anyhow::Result<(&str, ElectionType)> {
    let (Some(bootstrap), Some(kind)) = (args.bootstrap_server.as_deref(), args.election_type) else {
        let needed =
            [(args.bootstrap_server.is_some(), "bootstrap-server"), (args.election_type.is_some(), "election-type")];
        let missing: Vec<&str> = needed.iter().filter(|(given, _)| !given).map(|(_, name)| *name).collect();
        bail!("Missing required option(s): {}", missing.join(", "));
    };
    let chosen = [args.topic.is_some(), args.all_topic_partitions, args.path_to_json_file.is_some()];
    if chosen.iter().filter(|chosen| **chosen).count() != 1 {
        bail!("One and only one of the following options is required: topic, all-topic-partitions, path-to-json-file");
    }
    match (&args.topic, args.partition) {
        (Some(_), None) => bail!("Missing required option(s): partition"),
        (None, Some(_)) => bail!("Option partition is only allowed if topic is used"),
        _ => Ok((bootstrap, kind)),
    }
}

fn partitions_of(path: &Path) -> anyhow::Result<BTreeSet<TopicPartition>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    parse(&text).with_context(|| path.display().to_string())
}

fn parse(text: &str) -> anyhow::Result<BTreeSet<TopicPartition>> {
    let file: Value = serde_json::from_str(text)?;
    let list =
        json::object(&file)?.get("partitions").context("Replica election data is missing \"partitions\" field")?;
    let (mut partitions, mut twice) = (BTreeSet::new(), BTreeSet::new());
    for entry in json::array(list)? {
        let partition = json::partition(entry)?;
        if !partitions.insert(partition.clone()) {
            twice.insert(partition);
        }
    }
    if !twice.is_empty() {
        bail!("Replica election data contains duplicate partitions: [{}]", joined(&twice));
    }
    Ok(partitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_make_no_sense_are_refused_in_kafkas_words() {
        let refusal = |flags: &str| {
            let args = Args::parse_from(["elect-leaders"].into_iter().chain(flags.split_whitespace()));
            check(&args).err().map(|error| error.to_string())
        };
        let one =
            "One and only one of the following options is required: topic, all-topic-partitions, path-to-json-file";
        for (flags, why) in [
            ("", "Missing required option(s): bootstrap-server, election-type"),
            ("--bootstrap-server x:1 --all-topic-partitions", "Missing required option(s): election-type"),
            ("--bootstrap-server x:1 --election-type preferred", one),
            ("--bootstrap-server x:1 --election-type PREFERRED --topic t --partition 0 --all-topic-partitions", one),
            ("--bootstrap-server x:1 --election-type unclean --topic t", "Missing required option(s): partition"),
            (
                "--bootstrap-server x:1 --election-type unclean --all-topic-partitions --partition 0",
                "Option partition is only allowed if topic is used",
            ),
        ] {
            assert_eq!(refusal(flags).as_deref(), Some(why), "{flags}");
        }
        assert_eq!(refusal("--bootstrap-server x:1 --election-type Unclean --topic t --partition 0"), None);
    }

    #[test]
    fn partitions_of_a_file_are_named_once() {
        let parsed = parse(r#"{"partitions":[{"topic":"b","partition":1},{"topic":"a","partition":0}]}"#).unwrap();
        assert_eq!(joined(&parsed), "a-0, b-1");
        for (text, why) in [
            ("{}", "Replica election data is missing \"partitions\" field"),
            (r#"{"partitions":[{"topic":"a"}]}"#, "No such field exists: `partition`"),
            (r#"{"partitions":[{"topic":1,"partition":0}]}"#, "Expected String value, received 1"),
            (
                r#"{"partitions":[{"topic":"a","partition":0},{"topic":"a","partition":0}]}"#,
                "Replica election data contains duplicate partitions: [a-0]",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), why, "{text}");
        }
    }

    #[test]
    fn a_request_names_each_topic_once() {
        let of = |topic: &str, partition| TopicPartition::new(topic, partition);
        let topics = by_topic(&BTreeSet::from([of("b", 0), of("a", 1), of("a", 0)]));
        let shown: Vec<_> = topics.iter().map(|topic| (topic.topic.as_str(), &topic.partitions[..])).collect();
        assert_eq!(shown, [("a", &[0, 1][..]), ("b", &[0])]);
    }
}
