//! `klamm offsets`: kafka-get-offsets' flags and lines, `topic:partition:offset` (3.9.1). Partitions whose offset nobody
//! knows, or that have no record so late, have no line.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use clap::Parser;
use regex::Regex;

use super::admin::{Admin, EARLIEST, LATEST};
use super::command_config;
use super::include_list::include_list;
use crate::cluster::internal_topics::is_internal;
use crate::types::{IsolationLevel, TopicPartition};

/// Names of `ListOffsets`' timestamps that are none.
const TIMES: [(&str, i64); 5] =
    [("latest", LATEST), ("earliest", EARLIEST), ("max-timestamp", -3), ("earliest-local", -4), ("latest-tiered", -5)];

/// Tells where the partitions of topics end, begin, or were at some time
#[derive(Debug, Parser)]
pub struct Args {
    /// host:port,host:port of brokers to connect to
    #[arg(long, alias = "broker-list", required = true)]
    bootstrap_server: String,
    /// A regular expression for whole names
    #[arg(long)]
    topic: Option<String>,
    /// Comma-separated numbers
    #[arg(long, allow_hyphen_values = true)]
    partitions: Option<String>,
    /// Comma-separated rules like topic, topic:3, topic:0-3, topic:2-, topic:-2; the last partition does not count
    #[arg(long)]
    topic_partitions: Option<String>,
    /// Milliseconds since the epoch, or latest, earliest, max-timestamp, earliest-local, latest-tiered
    #[arg(long, default_value = "latest", allow_hyphen_values = true)]
    time: String,
    #[arg(long)]
    exclude_internal_topics: bool,
    /// A file of client properties
    #[arg(long)]
    command_config: Option<PathBuf>,
}

/// Prints as kafka-get-offsets does; 1 after an error.
pub fn main(args: &Args) -> ExitCode {
    match run(args) {
        Ok(lines) => {
            print!("{lines}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("Error occurred: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> anyhow::Result<String> {
    let timestamp = timestamp(&args.time)?;
    if args.topic_partitions.is_some() && (args.topic.is_some() || args.partitions.is_some()) {
        bail!("--topic-partitions cannot be used with --topic or --partitions");
    }
    let filter = Filter::new(args)?;
    let mut admin = Admin::connect(&args.bootstrap_server, command_config::caller(args.command_config.as_deref())?)?;
    let mut asked = BTreeMap::new();
    for topic in admin.metadata()?.topics {
        let name = topic.name.as_ref().map_or("", |name| name.as_str());
        if args.exclude_internal_topics && is_internal(name) {
            continue;
        }
        let partitions = topic.partitions.iter().map(|partition| partition.partition_index);
        let wanted = partitions.filter(|partition| filter.matches(name, *partition));
        asked.extend(wanted.map(|partition| (TopicPartition::new(name, partition), timestamp)));
    }
    if asked.is_empty() {
        bail!("Could not match any topic-partitions with the specified filters");
    }
    let mut lines = BTreeMap::new();
    for (of, answer) in admin.list_offsets(&asked, IsolationLevel::ReadUncommitted)? {
        match answer {
            Ok(offset) if offset >= 0 => {
                // In the order of Kafka's tool, which is that of the text.
                lines.insert(of.to_string(), format!("{}:{}:{offset}\n", of.topic, of.partition));
            }
            Ok(_) => {}
            Err(code) => eprintln!("Skip getting offsets for topic-partition {of} due to error: {code}"),
        }
    }
    Ok(lines.into_values().collect())
}

fn timestamp(text: &str) -> anyhow::Result<i64> {
    let named = TIMES.iter().find(|(name, _)| *name == text).map(|(_, timestamp)| *timestamp);
    named.or_else(|| text.parse().ok()).ok_or_else(|| {
        anyhow!(
            "Malformed time argument {text}. Please use -1 or latest / -2 or earliest / -3 or max-timestamp / -4 or \
             earliest-local / -5 or latest-tiered, or a specified long format timestamp"
        )
    })
}

/// Which partitions are meant: those that any rule lets through.
#[derive(Debug)]
struct Filter(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    topic: Regex,
    partitions: Partitions,
}

#[derive(Debug, PartialEq, Eq)]
enum Partitions {
    Among(Vec<i32>),
    /// The end does not belong.
    Range(i32, i32),
}

impl Filter {
    fn new(args: &Args) -> anyhow::Result<Filter> {
        if let Some(rules) = &args.topic_partitions {
            return Ok(Filter(rules.split(',').map(Rule::parse).collect::<anyhow::Result<_>>()?));
        }
        let topic = include_list(args.topic.as_deref().unwrap_or(".*"))?;
        let partitions = match args.partitions.as_deref().filter(|list| !list.is_empty()) {
            None => Partitions::Range(0, i32::MAX),
            Some(list) => {
                Partitions::Among(list.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|_| {
                    anyhow!(
                        "--partitions expects a comma separated list of numeric partition ids, but received: {list}"
                    )
                })?)
            }
        };
        Ok(Filter(vec![Rule { topic, partitions }]))
    }

    fn matches(&self, topic: &str, partition: i32) -> bool {
        self.0.iter().any(|rule| {
            let in_partitions = match &rule.partitions {
                Partitions::Among(list) => list.contains(&partition),
                Partitions::Range(first, end) => (*first..*end).contains(&partition),
            };
            in_partitions && rule.topic.is_match(topic)
        })
    }
}

impl Rule {
    /// `topic`, `topic:3`, `topic:0-3`, `topic:2-` or `topic:-2`; without a topic any.
    fn parse(text: &str) -> anyhow::Result<Rule> {
        let invalid = || anyhow!("Invalid rule specification: {text}");
        let (topic, partitions) = text.split_once(':').unwrap_or((text, ""));
        let number = |digits: &str, absent: i32| match digits {
            "" => Ok(absent),
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().map_err(|_| invalid()),
            _ => Err(invalid()),
        };
        let partitions = match partitions.split_once('-') {
            Some((first, end)) => Partitions::Range(number(first, 0)?, number(end, i32::MAX)?),
            None if partitions.is_empty() => Partitions::Range(0, i32::MAX),
            None => Partitions::Among(vec![number(partitions, 0)?]),
        };
        let topic = include_list(if topic.is_empty() { ".*" } else { topic })?;
        Ok(Rule { topic, partitions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(flags: &[&str]) -> anyhow::Result<Filter> {
        Filter::new(&Args::parse_from(["offsets", "--bootstrap-server", "x:1"].iter().chain(flags)))
    }

    fn matched(flags: &[&str]) -> Vec<String> {
        let filter = filter(flags).unwrap();
        let all = ["a", "ab", "b"].into_iter().flat_map(|topic| (0..4).map(move |partition| (topic, partition)));
        all.filter(|(topic, partition)| filter.matches(topic, *partition))
            .map(|(topic, of)| format!("{topic}{of}"))
            .collect()
    }

    // As Kafka's tool of 3.9.1 was seen to choose.
    #[test]
    fn filters_choose_what_kafkas_tool_chooses() {
        assert_eq!(matched(&[]).len(), 12);
        assert_eq!(matched(&["--topic", "a"]), ["a0", "a1", "a2", "a3"]);
        assert_eq!(matched(&["--topic", "a,b", "--partitions", "0,3"]), ["a0", "a3", "b0", "b3"]);
        assert_eq!(matched(&["--topic-partitions", "a:0-2,b:3"]), ["a0", "a1", "b3"]);
        assert_eq!(matched(&["--topic-partitions", "a:2-"]), ["a2", "a3"]);
        assert_eq!(matched(&["--topic-partitions", "a:-1,:3"]), ["a0", "a3", "ab3", "b3"]);
        assert_eq!(matched(&["--topic-partitions", "b"]), ["b0", "b1", "b2", "b3"]);
        assert_eq!(matched(&["--partitions", "-1"]), [""; 0]);
    }

    #[test]
    fn what_is_no_filter_or_time_is_refused() {
        for (flags, why) in [
            (
                ["--partitions", "0-2"],
                "--partitions expects a comma separated list of numeric partition ids, but received: 0-2",
            ),
            (["--topic-partitions", "a:x"], "Invalid rule specification: a:x"),
            (["--topic-partitions", "a:1-2-3"], "Invalid rule specification: a:1-2-3"),
            (["--topic", "["], "[ is an invalid regex."),
        ] {
            assert_eq!(filter(&flags).unwrap_err().to_string(), why);
        }
        assert_eq!([timestamp("latest").unwrap(), timestamp("-2").unwrap(), timestamp("17").unwrap()], [-1, -2, 17]);
        assert!(timestamp("bogus").unwrap_err().to_string().starts_with("Malformed time argument bogus. "));
    }
}
