//! One of the two clusters that go through the same.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::steps::class;
use crate::broker::On;
use crate::cluster::Cluster;
use crate::lanes::java_tools::JavaTools;
use crate::lanes::tools_twin::Common;
use crate::znodes::{Tree, ZooKeeper};

pub const BROKERS: [i32; 3] = [1, 2, 3];

/// APIs of transactions, which kafka-broker-api-versions finds on a Kafka only.
const UNSERVED: [&str; 6] =
    ["AddOffsetsToTxn", "AddPartitionsToTxn", "DescribeTransactions", "EndTxn", "ListTransactions", "TxnOffsetCommit"];

/// The tools of both Kafkas, and where their files lie.
pub struct Tools<'a> {
    pub before: JavaTools,
    pub now: JavaTools,
    pub files: &'a Path,
}

pub struct Side {
    pub cluster: Cluster,
    zookeeper: ZooKeeper,
    /// What the last tool said.
    last: Vec<String>,
}

impl Side {
    pub fn start(on: &On, session: Duration) -> Result<Side> {
        let session = session.as_millis().to_string();
        let settings = [
            ("zookeeper.session.timeout.ms", session.as_str()),
            ("klamm.fast.failover.enable", "false"),
            ("auto.leader.rebalance.enable", "false"),
            ("auto.create.topics.enable", "false"),
            // As many as the topic has that is made here: where brokers placed it would be drawn by lot.
            ("offsets.topic.num.partitions", "1"),
            ("group.initial.rebalance.delay.ms", "0"),
            ("controlled.shutdown.retry.backoff.ms", "200"),
            ("log.retention.ms", "-1"),
        ];
        let cluster = Cluster::start(on, &BROKERS, 1, &settings)?;
        let zookeeper = ZooKeeper::connect(&cluster.zookeeper.connect_string())?;
        Ok(Side { cluster, zookeeper, last: Vec::new() })
    }

    pub fn tree(&self) -> Result<Tree> {
        self.zookeeper.tree()
    }

    /// Answers what a tool said, if the step is one.
    pub fn play(&mut self, line: &str, tools: &Tools) -> Result<Option<Common>> {
        let (tool, rest) = line.split_once(' ').unwrap_or((line, ""));
        let ids = |words: &str| words.split(' ').map(str::parse).collect::<Result<Vec<i32>, _>>();
        match tool {
            "kill" => self.cluster.kill(&ids(rest)?)?,
            "stop" => ids(rest)?.into_iter().try_for_each(|id| self.cluster.stop(id))?,
            "start" => self.cluster.start_again(&ids(rest)?)?,
            "isr" => self.await_isr(&ids(rest)?)?,
            "leads" | "replicas" => {
                let (topic, numbers) = rest.split_once(' ').context("no partition")?;
                self.await_told(tool, topic, &ids(numbers)?)?;
            }
            "put" => {
                let (path, data) = rest.split_once(' ').context("no data")?;
                self.zookeeper.put(path, data)?;
            }
            "delete" => self.zookeeper.delete(rest)?,
            "says" => {
                let wanted = rest.replace("\\t", "\t");
                ensure!(self.last.iter().any(|line| line.ends_with(&wanted)), "it says {:#?}", self.last);
            }
            tool => {
                let said = self.ask(tool, rest, tools)?;
                self.last.clone_from(&said.lines);
                return Ok(Some(said));
            }
        }
        Ok(None)
    }

    /// Replicas that run are in sync, everywhere, and nobody else but the last of an ISR, who stays in it.
    fn await_isr(&self, running: &[i32]) -> Result<()> {
        self.cluster.await_whole()?;
        self.cluster.await_view("replicas in sync", |view| {
            for (at, told) in &view.partitions {
                let in_sync = told.replicas.iter().filter(|id| running.contains(id)).all(|id| told.isr.contains(id));
                let gone = told.isr.iter().filter(|id| !running.contains(id)).count();
                ensure!(in_sync && (gone == 0 || told.isr.len() == 1), "{at:?} is {told:?}");
            }
            Ok(())
        })
    }

    fn await_told(&self, what: &str, topic: &str, numbers: &[i32]) -> Result<()> {
        let (partition, ids) = numbers.split_first().context("no partition")?;
        self.cluster.await_view(what, |view| {
            let told = view.partitions.get(&(topic.to_owned(), *partition)).context("it is unknown")?;
            let same = if what == "leads" { ids == [told.leader] } else { ids == told.replicas };
            ensure!(same, "it is {told:?}");
            Ok(())
        })
    }

    fn ask(&self, tool: &str, rest: &str, tools: &Tools) -> Result<Common> {
        let (class, before) = class(tool)?;
        let (words, input) = rest.split_once(" << ").unwrap_or((rest, ""));
        let input: String = input.split_whitespace().map(|line| format!("{line}\n")).collect();
        let connect = self.cluster.zookeeper.connect_string();
        let bootstrap = self.cluster.address(BROKERS[0])?;
        let server = if before { ["--zookeeper", &connect] } else { ["--bootstrap-server", &bootstrap] };
        let words = words.split_whitespace().map(|word| match word.strip_prefix('@') {
            Some(name) => tools.files.join(name).display().to_string(),
            None => word.to_owned(),
        });
        let args: Vec<String> = server.into_iter().map(str::to_owned).chain(words).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let said = if before { &tools.before } else { &tools.now }.run_on(&input, class, &args)?;
        let mut own = vec![(connect.clone(), "<zookeeper>".to_owned())];
        for id in BROKERS {
            own.push((self.cluster.log_dir(id).display().to_string(), format!("<dir of {id}>")));
            own.push((self.cluster.address(id)?, format!("<address of {id}>")));
        }
        let mut said = Common::of(&said, &own);
        said.lines.retain(|line| !UNSERVED.iter().any(|api| line.starts_with(&format!("\t{api}("))));
        Ok(said)
    }
}
