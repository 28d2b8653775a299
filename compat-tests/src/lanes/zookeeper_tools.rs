//! Kafka 2.8.2's tools with `--zookeeper`: they read and write the nodes themselves, without a broker. Three brokers of a
//! real Kafka 3.9.1 first, three of the lane's afterwards, the same steps: what the tools print and what lies in ZooKeeper
//! after each step must be the same, epochs apart.
//!
//! Among the steps are the three readings of `kafka-topics.sh --describe --zookeeper`: a partition that nobody leads, one
//! that works and misses a replica, and one that somebody else than its first replica leads.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;

use super::java_tools::JavaTools;
use super::tools_twin::without_own;
use crate::broker::On;
use crate::cluster::Cluster;
use crate::lane::{Run, skip};
use crate::wait::until;
use crate::znodes::{ZooKeeper, common};

const BROKERS: [i32; 3] = [1, 2, 3];
const SETTINGS: &[(&str, &str)] = &[
    ("zookeeper.session.timeout.ms", "6000"),
    ("auto.leader.rebalance.enable", "false"),
    ("auto.create.topics.enable", "false"),
    ("log.retention.ms", "-1"),
];
const LIMIT: Duration = Duration::from_secs(60);
/// A tree that has not changed for so long is what a step came to.
const STILL: Duration = Duration::from_secs(3);

/// The tools' own files, by name.
const FILES: &[(&str, &str)] = &[
    ("elect.json", r#"{"partitions":[{"topic":"test","partition":2}]}"#),
    (
        "move.json",
        r#"{"version":1,"partitions":[{"topic":"test","partition":0,"replicas":[3,1]},{"topic":"test","partition":1,"replicas":[2,3,1]}]}"#,
    ),
    ("topics.json", r#"{"version":1,"topics":[{"topic":"test"}]}"#),
];

/// A step: what happens to brokers, or what a tool is asked for. `@NAME` stands for a file; `says` is what the last tool
/// has said among other things.
const STEPS: &str = "\
topics --create --topic test --replica-assignment 1:2:3,2:3:1
topics --create --topic lone --replica-assignment 3
isr 1 2 3
topics --list
topics --describe --topic test
topics --create --topic test --partitions 1 --replication-factor 1
topics --create --topic test --partitions 1 --replication-factor 1 --if-not-exists
topics --alter --topic test --partitions 3 --replica-assignment 1:2:3,2:3:1,3:1:2
isr 1 2 3
topics --describe
configs --alter --entity-type topics --entity-name test --add-config retention.ms=3600000,max.message.bytes=2000000
configs --describe --entity-type topics --entity-name test
configs --alter --entity-type topics --entity-name test --delete-config max.message.bytes
topics --describe --topics-with-overrides
configs --alter --entity-type users --entity-name anna --add-config producer_byte_rate=1000000
configs --alter --entity-type users --entity-name anna --entity-type clients --entity-name app --add-config consumer_byte_rate=5
configs --alter --entity-type clients --entity-default --add-config request_percentage=200
configs --describe --entity-type users --entity-name anna
configs --describe --entity-type users --entity-name anna --entity-type clients --entity-name app
kill 3
isr 1 2
topics --describe --topic test
says Partition: 2\tLeader: 1\tReplicas: 3,1,2\tIsr: 1,2
topics --describe --topic lone
says Leader: none\tReplicas: 3\tIsr: 3
topics --describe --under-replicated-partitions
topics --describe --unavailable-partitions
topics --describe --at-min-isr-partitions
start 3
isr 1 2 3
topics --describe --topic test
says Partition: 2\tLeader: 1\tReplicas: 3,1,2\tIsr: 1,2,3
elect --path-to-json-file @elect.json
topics --describe --topic test
says Partition: 2\tLeader: 3\tReplicas: 3,1,2\tIsr: 1,2,3
reassign --execute --reassignment-json-file @move.json
isr 1 2 3
reassign --verify --reassignment-json-file @move.json
topics --describe --topic test
topics --delete --topic lone
topics --delete --topic absent
topics --delete --topic test
topics --list
";

fn class(tool: &str) -> Result<&'static str> {
    Ok(match tool {
        "topics" => "kafka.admin.TopicCommand",
        "configs" => "kafka.admin.ConfigCommand",
        "elect" => "kafka.admin.PreferredReplicaLeaderElectionCommand",
        "reassign" => "kafka.admin.ReassignPartitionsCommand",
        other => bail!("no tool is called {other}"),
    })
}

/// What a step came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Came {
    code: i32,
    lines: Vec<String>,
    tree: BTreeMap<String, (bool, Value)>,
}

pub fn lane(run: &mut Run) -> Result<()> {
    if matches!(run.on, On::At(_)) {
        return skip("brokers of others cannot be killed");
    }
    if !run.full() {
        return Ok(());
    }
    let files = TempDir::with_prefix("compat-tools-")?;
    for (name, text) in FILES {
        fs::write(files.path().join(name), text)?;
    }
    let tools = JavaTools::start_of("kafka-2.8.2")?;
    let recorded = Play::start(&On::Kafka, &tools, files.path())?.all(|play, step| play.step(step))?;
    let mut play = Play::start(&run.on, &tools, files.path())?;
    let mut expected = recorded.iter();
    let played = play.all(|play, step| {
        let (_, theirs) = expected.next().context("another number of steps")?;
        let started = Instant::now();
        let ours = play.do_step(step).and_then(|said| play.await_same(said, theirs));
        run.took(step, ours, started.elapsed());
        Ok(Came::default())
    });
    if played.is_err() || run.failures() > 0 {
        println!("{}", play.cluster.log_tails(20));
    }
    played.map(|_| ())
}

struct Play<'a> {
    cluster: Cluster,
    zookeeper: ZooKeeper,
    tools: &'a JavaTools,
    files: &'a Path,
    /// What the last tool said.
    last: Vec<String>,
}

impl<'a> Play<'a> {
    fn start(on: &On, tools: &'a JavaTools, files: &'a Path) -> Result<Play<'a>> {
        let cluster = Cluster::start(on, &BROKERS, 1, SETTINGS)?;
        let zookeeper = ZooKeeper::connect(&cluster.zookeeper.connect_string())?;
        Ok(Play { cluster, zookeeper, tools, files, last: Vec::new() })
    }

    fn all(
        &mut self,
        mut each: impl FnMut(&mut Self, &'static str) -> Result<Came>,
    ) -> Result<Vec<(&'static str, Came)>> {
        let mut came = Vec::new();
        for step in STEPS.lines() {
            came.push((step, each(self, step).with_context(|| step.to_owned())?));
        }
        Ok(came)
    }

    /// With the tree as it is when it has come to rest.
    fn step(&mut self, step: &str) -> Result<Came> {
        let mut came = self.do_step(step)?;
        let (mut tree, mut since) = (common(&self.zookeeper.tree()?), Instant::now());
        until("a tree at rest", LIMIT, || {
            let now = common(&self.zookeeper.tree()?);
            if now != tree {
                (tree, since) = (now, Instant::now());
            }
            ensure!(since.elapsed() > STILL, "it changes");
            Ok(())
        })?;
        came.tree = tree;
        Ok(came)
    }

    fn do_step(&mut self, step: &str) -> Result<Came> {
        let mut words = step.split(' ');
        let tool = words.next().unwrap_or_default();
        let ids = || step.split(' ').skip(1).map(str::parse).collect::<Result<Vec<i32>, _>>();
        match tool {
            "kill" => self.cluster.kill(&ids()?)?,
            "start" => self.cluster.start_again(&ids()?)?,
            "isr" => self.await_isr(&ids()?)?,
            "says" => {
                let wanted = words.collect::<Vec<_>>().join(" ");
                let told = self.last.iter().any(|line| line.ends_with(&wanted));
                ensure!(told, "it says {:#?}", self.last);
            }
            tool => {
                let came = self.said(tool, words)?;
                self.last.clone_from(&came.lines);
                return Ok(came);
            }
        }
        Ok(Came::default())
    }

    /// Replicas that run are in sync, everywhere.
    fn await_isr(&self, running: &[i32]) -> Result<()> {
        self.cluster.await_whole()?;
        self.cluster.await_view("replicas in sync", |view| {
            for (at, told) in &view.partitions {
                let in_sync = told.replicas.iter().filter(|id| running.contains(id)).all(|id| told.isr.contains(id));
                let gone = told.isr.iter().filter(|id| !running.contains(id)).count();
                // The last of an ISR stays in it.
                ensure!(in_sync && (gone == 0 || told.isr.len() == 1), "{at:?} is {told:?}");
            }
            Ok(())
        })
    }

    fn said<'b>(&self, tool: &str, words: impl Iterator<Item = &'b str>) -> Result<Came> {
        let word = |word: &str| match word.strip_prefix('@') {
            Some(name) => self.files.join(name).display().to_string(),
            None => word.to_owned(),
        };
        let connect = self.cluster.zookeeper.connect_string();
        let args: Vec<String> =
            ["--zookeeper".to_owned(), connect.clone()].into_iter().chain(words.map(word)).collect();
        let said = self.tools.run(class(tool)?, &args.iter().map(String::as_str).collect::<Vec<_>>())?;
        // Stacks name lines of the tool, and errors the time.
        let told = said.out.lines().filter(|line| !line.starts_with("\tat ") && !line.starts_with('['));
        let mut lines: Vec<String> = told.map(|line| without_own(&line.replace(&connect, "<zookeeper>"))).collect();
        lines.sort();
        Ok(Came { code: said.code, lines, ..Came::default() })
    }

    fn await_same(&self, said: Came, theirs: &Came) -> Result<()> {
        let shown = |came: &Came| format!("{} {:#?}", came.code, came.lines);
        let same = (said.code, &said.lines) == (theirs.code, &theirs.lines);
        ensure!(same, "on Kafka: {}\nhere: {}", shown(theirs), shown(&said));
        until("the same nodes", LIMIT, || {
            let tree = common(&self.zookeeper.tree()?);
            let paths = tree.keys().chain(theirs.tree.keys());
            let other = paths.filter(|path| tree.get(*path) != theirs.tree.get(*path));
            let other: Vec<String> = other
                .map(|path| format!("{path}: {:?}\n  on Kafka: {:?}", tree.get(path), theirs.tree.get(path)))
                .collect();
            ensure!(other.is_empty(), "{}", other.join("\n"));
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_one_and_its_files_are_there() {
        for step in STEPS.lines() {
            let tool = step.split(' ').next().unwrap_or_default();
            assert!(["isr", "kill", "start", "says"].contains(&tool) || class(tool).is_ok(), "{step}");
            for name in step.split(' ').filter_map(|word| word.strip_prefix('@')) {
                assert!(FILES.iter().any(|(file, _)| *file == name), "{step}");
            }
        }
    }
}
