//! kafka-console-consumer's flags, and the settings they and the consumer properties amount to.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Parser;

use crate::cli::properties::Properties;

/// Writes the records of a topic to stdout
#[derive(Debug, Parser)]
pub struct Args {
    /// host:port,host:port of brokers to connect to
    #[arg(long, required = true)]
    pub bootstrap_server: String,
    #[arg(long)]
    topic: Option<String>,
    /// One partition in place of all
    #[arg(long)]
    partition: Option<i32>,
    /// earliest, latest or a number; needs --partition
    #[arg(long, allow_hyphen_values = true)]
    offset: Option<String>,
    /// From the first record there is; without it only new records are read
    #[arg(long)]
    from_beginning: bool,
    /// Ends after so many records
    #[arg(long)]
    max_messages: Option<i64>,
    /// Ends when no record has come for so many milliseconds
    #[arg(long)]
    timeout_ms: Option<i64>,
    /// read_uncommitted or read_committed
    #[arg(long)]
    isolation_level: Option<String>,
    /// Goes on behind a batch that cannot be read
    #[arg(long)]
    skip_message_on_error: bool,
    #[arg(long, hide = true)]
    formatter: Option<String>,
    #[arg(long, hide = true)]
    key_deserializer: Option<String>,
    #[arg(long, hide = true)]
    value_deserializer: Option<String>,
    /// Shares the topic with the other members of this consumer group, from where the group has got
    #[arg(long)]
    group: Option<String>,
    #[arg(long, hide = true, alias = "whitelist")]
    include: Option<String>,
    #[arg(long, hide = true)]
    enable_systest_events: bool,
    /// Of the output: print.key, print.value, print.timestamp, print.partition, print.offset, print.headers,
    /// key.separator, line.separator, headers.separator, null.literal
    #[arg(long)]
    pub property: Vec<String>,
    /// A file of such properties
    #[arg(long)]
    pub formatter_config: Option<PathBuf>,
    /// isolation.level, auto.offset.reset, client.id, fetch.min.bytes, fetch.max.bytes, fetch.max.wait.ms,
    /// max.partition.fetch.bytes, check.crcs; with a group group.id, group.instance.id, enable.auto.commit,
    /// auto.commit.interval.ms, session.timeout.ms, heartbeat.interval.ms, max.poll.interval.ms
    #[arg(long)]
    consumer_property: Vec<String>,
    /// A file of such properties
    #[arg(long = "consumer.config")]
    consumer_config: Option<PathBuf>,
}

/// Where reading a partition begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    Earliest,
    Latest,
    At(i64),
}

/// What is read and how.
#[derive(Clone, Debug)]
pub struct Settings {
    pub topic: String,
    pub partition: Option<i32>,
    pub group: Option<GroupSettings>,
    pub start: Start,
    /// When an offset is out of range; `None` is an error.
    pub reset: Option<Start>,
    pub max_messages: Option<u64>,
    pub timeout: Option<Duration>,
    pub read_committed: bool,
    pub skip_on_error: bool,
    pub check_crcs: bool,
    pub client_id: String,
    /// Bytes and milliseconds of a fetch.
    pub min_bytes: i32,
    pub max_bytes: i32,
    pub partition_max_bytes: i32,
    pub max_wait_ms: i32,
}

/// How a group is joined.
#[derive(Clone, Debug)]
pub struct GroupSettings {
    pub id: String,
    /// Of a static member.
    pub instance_id: Option<String>,
    pub auto_commit: bool,
    pub commit_interval: Duration,
    pub session_timeout_ms: i32,
    pub heartbeat_interval: Duration,
    /// How long the other members wait for this one when the group rebalances.
    pub max_poll_interval_ms: i32,
}

impl GroupSettings {
    /// `None` without a group.
    fn new(args: &Args, given: &mut Properties) -> anyhow::Result<Option<GroupSettings>> {
        let by_property = given.take("group.id");
        if let (Some(flag), Some(property)) = (&args.group, &by_property)
            && flag != property
        {
            bail!("--group {flag} and group.id {property} are two groups: name one");
        }
        let Some(id) = args.group.clone().or(by_property) else { return Ok(None) };
        if args.partition.is_some() {
            bail!("--partition reads without a group: leave --group out, or read what the group assigns");
        }
        Ok(Some(GroupSettings {
            id,
            instance_id: given.take("group.instance.id"),
            auto_commit: given.flag("enable.auto.commit", true),
            commit_interval: Duration::from_millis(given.parse("auto.commit.interval.ms")?.unwrap_or(5000)),
            session_timeout_ms: given.parse("session.timeout.ms")?.unwrap_or(45_000),
            heartbeat_interval: Duration::from_millis(given.parse("heartbeat.interval.ms")?.unwrap_or(3000)),
            max_poll_interval_ms: given.parse("max.poll.interval.ms")?.unwrap_or(300_000),
        }))
    }
}

impl Settings {
    pub fn new(args: &Args) -> anyhow::Result<Settings> {
        refuse(args)?;
        let topic = args.topic.clone().ok_or_else(|| anyhow!("--topic is missing"))?;
        let mut given = Properties::read(args.consumer_config.as_deref(), &args.consumer_property)?;
        let isolation = given.take("isolation.level");
        let isolation = args.isolation_level.clone().or(isolation);
        let read_committed = match isolation.as_deref().map(str::trim) {
            None | Some("read_uncommitted") => false,
            Some("read_committed") => true,
            Some(other) => bail!("{other} is no isolation level: read_uncommitted and read_committed are"),
        };
        let reset = match given.take("auto.offset.reset").as_deref() {
            None if args.from_beginning => Some(Start::Earliest),
            None | Some("latest") => Some(Start::Latest),
            Some("earliest") => Some(Start::Earliest),
            Some("none") => None,
            Some(other) => bail!("{other} is no value of auto.offset.reset: earliest, latest and none are"),
        };
        if args.from_beginning && reset != Some(Start::Earliest) {
            bail!("--from-beginning and auto.offset.reset contradict each other");
        }
        let start = match &args.offset {
            Some(offset) => start_named(offset)?,
            None => reset.unwrap_or(Start::Latest),
        };
        let settings = Settings {
            topic,
            partition: args.partition,
            group: GroupSettings::new(args, &mut given)?,
            start,
            reset,
            max_messages: args.max_messages.and_then(|n| u64::try_from(n).ok()),
            timeout: args.timeout_ms.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis),
            read_committed,
            skip_on_error: args.skip_message_on_error,
            check_crcs: given.flag("check.crcs", true),
            client_id: given.take("client.id").unwrap_or_else(|| "console-consumer".to_owned()),
            min_bytes: given.parse("fetch.min.bytes")?.unwrap_or(1),
            max_bytes: given.parse("fetch.max.bytes")?.unwrap_or(50 << 20),
            // Kafka's 1 MiB makes a pipe wait for round trips.
            partition_max_bytes: given.parse("max.partition.fetch.bytes")?.unwrap_or(8 << 20),
            max_wait_ms: given.parse("fetch.max.wait.ms")?.unwrap_or(500),
        };
        given.warn_of_the_rest("--consumer-property");
        Ok(settings)
    }
}

fn refuse(args: &Args) -> anyhow::Result<()> {
    if args.include.is_some() {
        bail!("--include is not there yet: name one topic with --topic");
    }
    if args.enable_systest_events {
        bail!("--enable-systest-events is for Kafka's own system tests and is not there");
    }
    let java = [&args.formatter, &args.key_deserializer, &args.value_deserializer];
    let as_they_are = ["DefaultMessageFormatter", ".ByteArrayDeserializer", ".StringDeserializer"];
    for class in java.into_iter().flatten() {
        if !as_they_are.iter().any(|name| class.ends_with(name)) {
            bail!("{class} is a Java class, which this program cannot load: keys and values are written as they are");
        }
    }
    if args.offset.is_some() && args.partition.is_none() {
        bail!("--offset needs --partition");
    }
    if args.offset.is_some() && args.from_beginning {
        bail!("--from-beginning and --offset cannot be given together");
    }
    Ok(())
}

fn start_named(name: &str) -> anyhow::Result<Start> {
    match name.trim().to_ascii_lowercase().as_str() {
        "earliest" => Ok(Start::Earliest),
        "latest" => Ok(Start::Latest),
        number => {
            let offset = number.parse().ok().filter(|offset| *offset >= 0);
            offset.map(Start::At).ok_or_else(|| anyhow!("{name} is no offset: earliest, latest and numbers from 0 are"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(flags: &[&str]) -> anyhow::Result<Settings> {
        let args = ["consume", "--bootstrap-server", "x:1", "--topic", "t"];
        Settings::new(&Args::parse_from(args.iter().chain(flags)))
    }

    #[test]
    fn a_group_is_named_by_flag_or_property() {
        assert!(settings(&[]).unwrap().group.is_none());
        let group = settings(&["--group", "g"]).unwrap().group.unwrap();
        assert_eq!((group.id.as_str(), group.auto_commit, group.instance_id), ("g", true, None));
        assert_eq!((group.commit_interval, group.session_timeout_ms), (Duration::from_secs(5), 45_000));
        let properties = ["--consumer-property", "group.id=h", "--consumer-property", "enable.auto.commit=false"];
        let group = settings(&properties).unwrap().group.unwrap();
        assert_eq!((group.id.as_str(), group.auto_commit), ("h", false));
        assert!(settings(&["--group", "g", "--consumer-property", "group.id=g"]).is_ok());
        assert!(settings(&["--group", "g", "--consumer-property", "group.id=h"]).is_err());
        assert!(settings(&["--group", "g", "--partition", "0"]).is_err());
    }
}
