//! Klamm's commands for a cluster on three brokers, beside Kafka's tools of 3.9.1: the same acts by the one and by the
//! other, on a topic that was made anew. Exit codes, what is printed on standard output and the configs left in ZooKeeper must be the same.

mod road;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::cluster::admin;
use super::java_tools::JavaTools;
use crate::broker::{On, klamm};
use crate::cluster::Cluster;
use crate::lane::{Run, skip};
use crate::proc;
use crate::wait::until;
use crate::znodes::ZooKeeper;

const BROKERS: [i32; 3] = [1, 2, 3];
/// The first is the controller, which is not to be killed.
const START: [i32; 3] = [2, 1, 3];
/// Dies while a partition is on its way to it.
const MORTAL: i32 = 1;
const SETTINGS: &[(&str, &str)] = &[
    ("zookeeper.session.timeout.ms", "10000"),
    ("auto.leader.rebalance.enable", "false"),
    ("auto.create.topics.enable", "false"),
    ("log.retention.ms", "-1"),
];
const LIMIT: Duration = Duration::from_secs(60);
const TOPIC: &str = "moved";
const PLACED: [&[i32]; 2] = [&[1, 2], &[2, 3]];

const REASSIGN: [&str; 2] =
    ["kafka-reassign-partitions.sh", "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"];
const ELECT: [&str; 2] = ["kafka-leader-election.sh", "org.apache.kafka.tools.LeaderElectionCommand"];

/// The tools' own files, by name.
const FILES: &[(&str, &str)] = &[
    ("move.json", r#"{"topics":[{"topic":"moved"}],"version":1}"#),
    (
        "there.json",
        r#"{"version":1,"partitions":[{"topic":"moved","partition":0,"replicas":[2,3]},{"topic":"moved","partition":1,"replicas":[3,2],"log_dirs":["any","any"]}]}"#,
    ),
    ("slow.json", r#"{"version":1,"partitions":[{"topic":"moved","partition":0,"replicas":[1,2]}]}"#),
    ("turned.json", r#"{"version":1,"partitions":[{"topic":"moved","partition":1,"replicas":[2,3]}]}"#),
    ("dir.json", r#"{"partitions":[{"topic":"moved","partition":1,"replicas":[3,2],"log_dirs":["/absent","any"]}]}"#),
    ("stranger.json", r#"{"partitions":[{"topic":"moved","partition":0,"replicas":[1,9]}]}"#),
    ("absent.json", r#"{"partitions":[{"topic":"absent","partition":0,"replicas":[1]}]}"#),
    ("beyond.json", r#"{"partitions":[{"topic":"moved","partition":7,"replicas":[1]}]}"#),
    ("twice.json", r#"{"partitions":[{"topic":"moved","partition":0,"replicas":[1,1]}]}"#),
    ("empty.json", r#"{"partitions":[]}"#),
    ("version.json", r#"{"version":2,"partitions":[]}"#),
    ("fields.json", r#"{"partitions":[{"topic":"moved"}]}"#),
    ("elect.json", r#"{"partitions":[{"topic":"moved","partition":1},{"topic":"moved","partition":0}]}"#),
];

/// What a tool came to.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    code: Option<i32>,
    lines: Vec<String>,
}

enum By<'a> {
    Kafka(&'a JavaTools),
    Klamm(PathBuf),
}

impl By<'_> {
    fn run(&self, tool: [&str; 2], args: &[&str]) -> Result<Said> {
        let [script, class] = tool;
        let (code, out) = match self {
            By::Kafka(tools) => {
                let said = tools.run(class, args)?;
                (Some(said.code), said.out)
            }
            By::Klamm(program) => {
                let said = proc::run(Command::new(program).arg0(script).args(args), b"", LIMIT)?;
                (said.status.code(), said.out())
            }
        };
        Ok(Said { code, lines: told(&out) })
    }
}

/// Without the stack of an error, and without what was drawn by lot.
fn told(out: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in out.lines() {
        let before = lines.last().map(String::as_str).unwrap_or_default();
        if before.starts_with("Error: ") {
            break;
        }
        let drawn = before == "Proposed partition reassignment configuration";
        lines.push(if drawn { "<drawn>".to_owned() } else { line.to_owned() });
    }
    lines
}

pub fn lane(run: &mut Run) -> Result<()> {
    if matches!(run.on, On::At(_)) {
        return skip("brokers of others are not moved between");
    }
    let files = TempDir::with_prefix("compat-tools-")?;
    for (name, text) in FILES {
        fs::write(files.path().join(name), text)?;
    }
    let mut cluster = Cluster::start(&run.on, &START, 1, SETTINGS)?;
    let zookeeper = ZooKeeper::connect(&cluster.zookeeper.connect_string())?;
    let tools = JavaTools::start()?;
    let full = run.full();
    let mut play = Play { full, cluster: &mut cluster, zookeeper: &zookeeper, files: files.path() };
    let played = play.all(&By::Kafka(&tools)).and_then(|theirs| Ok((theirs, play.all(&By::Klamm(klamm()?))?)));
    if played.is_err() {
        println!("{}", cluster.log_tails(20));
    }
    let (theirs, ours) = played?;
    for ((name, theirs), (_, ours)) in theirs.into_iter().zip(ours) {
        run.settled(name, same(&theirs, &ours));
    }
    drop(cluster);
    run.unit("from one broker to three: metastore copy, two more brokers, a reassignment", road::walked);
    Ok(())
}

fn same(theirs: &(Said, Configs), ours: &(Said, Configs)) -> Result<()> {
    ensure!(theirs == ours, "Kafka's tool\n{theirs:#?}\nklamm\n{ours:#?}");
    Ok(())
}

/// Configs of the topic and the brokers, by path, as they lie in ZooKeeper.
type Configs = BTreeMap<String, String>;
type Steps = Vec<(String, (Said, Configs))>;

struct Play<'a> {
    full: bool,
    cluster: &'a mut Cluster,
    zookeeper: &'a ZooKeeper,
    files: &'a Path,
}

impl Play<'_> {
    fn all(&mut self, by: &By) -> Result<Steps> {
        admin::create_topic(self.cluster, TOPIC, &PLACED, &[])?;
        self.cluster.await_isr(&[TOPIC], &BROKERS)?;
        let mut steps = Steps::new();
        self.refused(&mut steps, by)?;
        self.moved(&mut steps, by)?;
        if self.full {
            self.cancelled(&mut steps, by)?;
        }
        self.elected(&mut steps, by)?;
        admin::delete_topic(self.cluster, TOPIC)?;
        until("the topic is gone", LIMIT, || {
            ensure!(!self.zookeeper.tree()?.contains_key(&format!("/brokers/topics/{TOPIC}")));
            Ok(())
        })?;
        Ok(steps)
    }

    fn refused(&self, steps: &mut Steps, by: &By) -> Result<()> {
        let mut reassign = |args: &str| self.step(steps, by, REASSIGN, args);
        reassign("--list")?;
        reassign("--generate --topics-to-move-json-file @move.json --broker-list 1,2,3")?;
        reassign("--generate --topics-to-move-json-file @move.json --broker-list 1,1")?;
        for file in ["stranger", "absent", "beyond", "twice", "empty", "version", "fields"] {
            reassign(&format!("--execute --reassignment-json-file @{file}.json"))?;
        }
        reassign("--verify --reassignment-json-file @there.json")?;
        reassign("--verify --reassignment-json-file @absent.json --preserve-throttles")?;
        reassign("--verify --reassignment-json-file @dir.json --preserve-throttles")?;
        reassign("--cancel --reassignment-json-file @there.json")?;
        reassign("--list --verify")
    }

    fn moved(&self, steps: &mut Steps, by: &By) -> Result<()> {
        let rates = "--throttle 100000000 --replica-alter-log-dirs-throttle 5000";
        self.step(steps, by, REASSIGN, &format!("--execute --reassignment-json-file @there.json {rates}"))?;
        self.await_replicas(&[&[2, 3], &[3, 2]])?;
        self.step(steps, by, REASSIGN, "--verify --reassignment-json-file @there.json --preserve-throttles")?;
        self.step(steps, by, REASSIGN, "--verify --reassignment-json-file @there.json")
    }

    /// A partition is on its way to a broker that never answers.
    fn cancelled(&mut self, steps: &mut Steps, by: &By) -> Result<()> {
        self.cluster.broker(MORTAL)?.pause()?;
        let asked = self.step(steps, by, REASSIGN, "--execute --reassignment-json-file @slow.json");
        self.cluster.kill(&[MORTAL])?;
        asked?;
        self.cluster.await_whole()?;
        let mut reassign = |args: &str| self.step(steps, by, REASSIGN, args);
        reassign("--list")?;
        reassign("--verify --reassignment-json-file @slow.json")?;
        reassign("--execute --reassignment-json-file @turned.json")?;
        reassign("--execute --reassignment-json-file @slow.json --additional")?;
        reassign("--execute --reassignment-json-file @turned.json --additional")?;
        self.await_replicas(&[&[1, 2, 3], &[2, 3]])?;
        let mut reassign = |args: &str| self.step(steps, by, REASSIGN, args);
        reassign("--cancel --reassignment-json-file @turned.json --preserve-throttles")?;
        reassign("--cancel --reassignment-json-file @slow.json --preserve-throttles")?;
        reassign("--cancel --reassignment-json-file @slow.json --preserve-throttles")?;
        reassign("--list")?;
        self.cluster.start_again(&[MORTAL])?;
        self.step(steps, by, REASSIGN, "--verify --reassignment-json-file @slow.json")
    }

    fn elected(&self, steps: &mut Steps, by: &By) -> Result<()> {
        self.step(steps, by, REASSIGN, "--execute --reassignment-json-file @there.json")?;
        self.await_replicas(&[&[2, 3], &[3, 2]])?;
        self.cluster.await_isr(&[TOPIC], &BROKERS)?;
        let mut elect = |args: &str| self.step(steps, by, ELECT, args);
        elect("--election-type preferred --topic moved --partition 1")?;
        elect("--election-type preferred --topic moved --partition 1")?;
        elect("--election-type unclean --topic moved --partition 1")?;
        elect("--election-type preferred --topic absent --partition 0")?;
        elect("--election-type preferred --path-to-json-file @elect.json")?;
        elect("--election-type preferred --topic moved")?;
        elect("--election-type PREFERRED --all-topic-partitions")
    }

    /// `@NAME` among the arguments stands for a file.
    fn step(&self, steps: &mut Steps, by: &By, tool: [&str; 2], args: &str) -> Result<()> {
        let words = args.split(' ').map(|word| match word.strip_prefix('@') {
            Some(name) => self.files.join(name).display().to_string(),
            None => word.to_owned(),
        });
        let words: Vec<String> =
            ["--bootstrap-server".to_owned(), self.cluster.address(START[0])?].into_iter().chain(words).collect();
        let said =
            by.run(tool, &words.iter().map(String::as_str).collect::<Vec<_>>()).with_context(|| args.to_owned())?;
        steps.push((format!("{} {args}", tool[0]), (said, self.configs()?)));
        Ok(())
    }

    fn configs(&self) -> Result<Configs> {
        let mut tree = self.zookeeper.tree()?;
        tree.retain(|path, _| path.starts_with("/config/brokers/") || path == &format!("/config/topics/{TOPIC}"));
        let config = |data: &str| -> Result<String> {
            let json: serde_json::Value = serde_json::from_str(data)?;
            let config: BTreeMap<String, serde_json::Value> = serde_json::from_value(json["config"].clone())?;
            Ok(format!("{config:?}"))
        };
        // A broker that has none may have a node or not.
        let set = tree.into_iter().map(|(path, node)| Ok((path, config(&node.data)?)));
        Ok(set.collect::<Result<Configs>>()?.into_iter().filter(|(_, config)| config != "{}").collect())
    }

    fn await_replicas(&self, replicas: &[&[i32]]) -> Result<()> {
        self.cluster.await_view("the replicas asked for", |view| {
            for ((at, partition), replicas) in view.of_topics(&[TOPIC])?.into_iter().zip(replicas) {
                ensure!(partition.replicas == *replicas, "{at:?} is {partition:?}");
            }
            Ok(())
        })
    }
}
