//! Kafka's command line tools of 3.9.1 against Klamm and against a real Kafka: each must print the same of both.
//!
//! The invocations are one conversation, in order, with a broker that nobody else uses. What a broker has of its own (ids,
//! ports, directories, times) is replaced before the comparison, and lines are sorted, and so are the configs in a line: the
//! tools print hash maps. Of what is
//! refused, the exit code and the names of Kafka's exceptions are compared; the sentences are each broker's own.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::java_tools::{JavaTools, Said};
use crate::broker::{Broker, On};
use crate::lane::Run;

/// `> TOOL ARGUMENTS`, the arguments split at blanks; `~` stands for a blank inside one, `@NAME` for a file of [`FILES`].
/// Lines below one are the tool's standard input. Before it stand `light` for those of the light form, `refused` for those
/// that end with another code than 0.
const ASKED: &str = include_str!("tools_twin.txt");

/// The tools' own files, by name.
const FILES: &[(&str, &str)] = &[
    ("move.json", r#"{"topics":[{"topic":"orders"}],"version":1}"#),
    ("stay.json", r#"{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1]}]}"#),
    ("away.json", r#"{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[7]}]}"#),
    ("delete.json", r#"{"version":1,"partitions":[{"topic":"codecs","partition":0,"offset":7}]}"#),
    ("beyond.json", r#"{"version":1,"partitions":[{"topic":"codecs","partition":0,"offset":7000}]}"#),
    ("elect.json", r#"{"partitions":[{"topic":"orders","partition":1}]}"#),
    ("offsets.csv", "orders,0,3\norders,1,4\n"),
    ("client.properties", "client.id=tools\n"),
];

/// A tool by its script's name.
pub fn class(script: &str) -> Result<&'static str> {
    Ok(match script {
        "kafka-acls" => "kafka.admin.AclCommand",
        "kafka-cluster" => "org.apache.kafka.tools.ClusterTool",
        "kafka-configs" => "kafka.admin.ConfigCommand",
        "kafka-console-consumer" => "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "kafka-console-producer" => "kafka.tools.ConsoleProducer",
        "kafka-consumer-groups" => "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "kafka-delegation-tokens" => "org.apache.kafka.tools.DelegationTokenCommand",
        "kafka-delete-records" => "org.apache.kafka.tools.DeleteRecordsCommand",
        "kafka-features" => "org.apache.kafka.tools.FeatureCommand",
        "kafka-get-offsets" => "org.apache.kafka.tools.GetOffsetShell",
        "kafka-leader-election" => "org.apache.kafka.tools.LeaderElectionCommand",
        "kafka-log-dirs" => "org.apache.kafka.tools.LogDirsCommand",
        "kafka-producer-perf-test" => "org.apache.kafka.tools.ProducerPerformance",
        "kafka-reassign-partitions" => "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        "kafka-topics" => "org.apache.kafka.tools.TopicCommand",
        "kafka-transactions" => "org.apache.kafka.tools.TransactionsCommand",
        other => bail!("no tool is called {other}"),
    })
}

/// One invocation.
struct Asked {
    light: bool,
    refused: bool,
    script: String,
    args: Vec<String>,
    input: String,
}

impl Asked {
    fn all() -> Result<Vec<Asked>> {
        let mut all: Vec<Asked> = Vec::new();
        for line in ASKED.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let Some((kind, command)) = line.split_once("> ") else {
                let last = all.last_mut().context("input before any tool")?;
                last.input += &format!("{}\n", line.replace("\\t", "\t"));
                continue;
            };
            ensure!(["", "light", "refused"].contains(&kind), "{kind} is no kind of invocation");
            let mut words = command.split_whitespace().map(str::to_owned);
            let script = words.next().context("no tool")?;
            class(&script)?;
            all.push(Asked {
                light: kind == "light",
                refused: kind == "refused",
                script,
                args: words.collect(),
                input: String::new(),
            });
        }
        Ok(all)
    }

    fn run(&self, tools: &JavaTools, broker: &Broker, files: &Path) -> Result<Said> {
        let address = broker.address();
        let server = match self.script.as_str() {
            "kafka-producer-perf-test" => ["--producer-props".to_owned(), format!("bootstrap.servers={address}")],
            _ => ["--bootstrap-server".to_owned(), address],
        };
        let word = |word: &String| match word.strip_prefix('@') {
            Some(name) => files.join(name).display().to_string(),
            None => word.replace('~', " "),
        };
        // Subcommands come first.
        let commands = self.args.iter().take_while(|word| !word.starts_with('-')).count();
        let mut args: Vec<String> = self.args.iter().map(word).collect();
        let at = match self.script.as_str() {
            "kafka-transactions" | "kafka-features" => 0,
            "kafka-cluster" => commands,
            _ => args.len(),
        };
        args.splice(at..at, server);
        tools.run_on(&self.input, class(&self.script)?, &args.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// What two brokers must have in common of what a tool said.
#[derive(Debug, PartialEq, Eq)]
pub struct Common {
    pub code: i32,
    pub lines: Vec<String>,
    pub exceptions: BTreeSet<String>,
}

impl Common {
    /// `own` is what brokers have of their own, each with what it is replaced by.
    pub fn of(said: &Said, own: &[(String, String)]) -> Common {
        let neutral = own.iter().fold(said.out.clone(), |text, (own, common)| text.replace(own, common));
        let mut lines: Vec<String> =
            neutral.lines().filter(|line| !is_sentence(line)).map(|line| without_own(&in_order(line))).collect();
        lines.sort();
        let all = format!("{} {}", said.out, said.err);
        let words = all.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
        let named = words.filter_map(|word| word.strip_prefix("org.apache.kafka.common.errors."));
        Common { code: said.code, lines, exceptions: named.map(str::to_owned).collect() }
    }
}

/// A line in which a tool repeats what the broker said about a refusal.
fn is_sentence(line: &str) -> bool {
    ["Error", "error:", "Exception", "\tat ", "Caused by"].iter().any(|sign| line.contains(sign))
}

/// A line with the configs at its end, if it has any, sorted.
fn in_order(line: &str) -> String {
    let Some((before, configs)) = line.split_once("Configs: ") else { return line.to_owned() };
    let mut configs: Vec<&str> = configs.split(',').collect();
    configs.sort_unstable();
    format!("{before}Configs: {}", configs.join(","))
}

/// Words that are ids or times become their kind.
pub fn without_own(line: &str) -> String {
    let kind = |word: &str| {
        let id = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        match word.len() {
            22 if word.bytes().all(id) && word.bytes().any(|b| b.is_ascii_uppercase()) => Some("<id>"),
            13 if digits == 13 => Some("<time>"),
            _ => None,
        }
    };
    let mut out = String::new();
    for part in line.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_') {
        let word = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
        match kind(word) {
            Some(kind) => out.extend([kind, &part[word.len()..]]),
            None => out.push_str(part),
        }
    }
    out
}

/// Both brokers have these.
const SETTINGS: &[(&str, &str)] = &[
    ("num.partitions", "2"),
    ("offsets.topic.num.partitions", "2"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("log.retention.ms", "-1"),
];

pub fn lane(run: &mut Run) -> Result<()> {
    let files = TempDir::with_prefix("compat-tools-")?;
    for (name, text) in FILES {
        fs::write(files.path().join(name), text)?;
    }
    let brokers = [Broker::start(&On::Kafka, SETTINGS)?, Broker::start(&run.on, SETTINGS)?];
    for broker in &brokers {
        broker.await_coordinator()?;
    }
    let tools = JavaTools::start()?;
    let full = run.full();
    for asked in Asked::all()?.iter().filter(|asked| full || asked.light) {
        let name = format!("{} {}", asked.script, asked.args.join(" "));
        run.settled(name, same(&tools, &brokers, asked, files.path()));
    }
    Ok(())
}

fn same(tools: &JavaTools, brokers: &[Broker; 2], asked: &Asked, files: &Path) -> Result<()> {
    let mut said = Vec::new();
    for broker in brokers {
        said.push(asked.run(tools, broker, files)?);
    }
    let [kafka, klamm] = [0, 1].map(|which| {
        let (dir, port) = (brokers[which].log_dir().display().to_string(), format!(":{}", brokers[which].port()));
        Common::of(&said[which], &[(dir, "<dir>".to_owned()), (port, ":<port>".to_owned())])
    });
    ensure!(
        kafka == klamm,
        "on Kafka: {} {:?}\n{}\non Klamm: {} {:?}\n{}\nwhich said: {}",
        kafka.code,
        kafka.exceptions,
        kafka.lines.join("\n"),
        klamm.code,
        klamm.exceptions,
        klamm.lines.join("\n"),
        said[1].err
    );
    ensure!((kafka.code != 0) == asked.refused, "both end with {}: {}{}", kafka.code, said[0].out, said[0].err);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_can_be_read_and_its_files_are_there() {
        for asked in Asked::all().expect("the list") {
            for name in asked.args.iter().filter_map(|word| word.strip_prefix('@')) {
                assert!(FILES.iter().any(|(file, _)| *file == name), "no {name}");
            }
        }
    }

    #[test]
    fn ids_and_times_are_replaced_and_nothing_else() {
        let line = "Topic: a\tTopicId: rcw7IgMRTqWFyZNUcajExA\tConfigs: retention.ms=7200000 at 1795972429078";
        assert_eq!(without_own(line), "Topic: a\tTopicId: <id>\tConfigs: retention.ms=7200000 at <time>");
    }
}
