//! Kafka's tools on three brokers of a real Kafka 3.9.1 and on three of the lane's, the same steps on both: what the tools
//! print and what lies in ZooKeeper after each step must come to be the same, and epochs rise on both sides or on none.
//!
//! ```text
//!  2.8.2's tools --reads and writes-----> ZooKeeper <--- 3 Kafka    |  the same after
//!  3.9.1's tools --bootstrap--> brokers -> ZooKeeper <--- 3 of the lane  |  each step
//! ```
//!
//! Among the steps are the three readings of `kafka-topics.sh --describe --zookeeper`: a partition that nobody leads, one
//! that works and misses a replica, and one that somebody else than its first replica leads.

mod chroot;
mod consumer;
mod side;
mod steps;

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use tempfile::TempDir;

use super::java_tools::JavaTools;
use super::tools_twin::Common;
use crate::broker::On;
use crate::lane::{Run, skip};
use crate::wait::until;
use crate::znodes::{Epochs, differences};
use side::{Side, Tools};
use steps::{FILES, Step};

const LIMIT: Duration = Duration::from_secs(60);

pub fn lane(run: &mut Run) -> Result<()> {
    if matches!(run.on, On::At(_)) {
        return skip("brokers of others cannot be killed");
    }
    let files = TempDir::with_prefix("compat-tools-")?;
    for (name, text) in FILES {
        fs::write(files.path().join(name), text)?;
    }
    // Of a broker that is killed, others learn when its session ends. The light form kills none, and no stall of a loaded
    // machine is to end a session.
    let session = Duration::from_secs(if run.full() { 6 } else { 40 });
    let (theirs, ours) = thread::scope(|scope| {
        let theirs = scope.spawn(|| Side::start(&On::Kafka, session));
        let ours = Side::start(&run.on, session);
        (theirs.join().unwrap_or_else(|_| Err(anyhow!("the start of Kafka panicked"))), ours)
    });
    let tools = Tools { before: JavaTools::start_of("kafka-2.8.2")?, now: JavaTools::start()?, files: files.path() };
    let mut pair = Pair { theirs: theirs?, ours: ours?, epochs: Epochs::new() };
    let played = pair.all(run, &tools);
    if played.is_err() || run.failures() > 0 {
        println!("{}", pair.ours.cluster.log_tails(20));
    }
    played
}

struct Pair {
    theirs: Side,
    ours: Side,
    epochs: Epochs,
}

impl Pair {
    fn all(&mut self, run: &mut Run, tools: &Tools) -> Result<()> {
        let (full, on) = (run.full(), run.on.clone());
        for step in Step::all()?.into_iter().filter(|step| full || step.light) {
            let started = Instant::now();
            let (told, nodes) = match self.step(step, tools) {
                Ok(told) => (told, self.same_nodes()),
                Err(error) => (Ok(()), Err(error)),
            };
            // A tool that prints something else has done its work; without an act or its nodes nothing is as it must be.
            let goes_on = nodes.is_ok();
            run.took(step.line, told.and(nodes), started.elapsed());
            ensure!(goes_on, "what follows is not played");
        }
        if full {
            let started = Instant::now();
            run.took("two of 0.8.2.2's consumers share a topic", consumer::shared(&self.ours), started.elapsed());
            run.unit("a chroot that is missing", || chroot::made(&on));
        }
        Ok(())
    }

    /// Answers whether both sides' tools said the same.
    fn step(&mut self, step: Step, tools: &Tools) -> Result<Result<()>> {
        let theirs = self.theirs.play(step.line, tools)?;
        let ours = self.ours.play(step.line, tools)?;
        let refused = theirs.as_ref().is_some_and(|said| said.code != 0);
        Ok(if theirs != ours {
            let lines = |said: &Option<Common>| said.as_ref().map(|said| said.lines.clone()).unwrap_or_default();
            let (mut on_kafka, mut here) = (lines(&theirs), lines(&ours));
            on_kafka.retain(|line| !lines(&ours).contains(line));
            here.retain(|line| !lines(&theirs).contains(line));
            let code = |said: Option<Common>| said.map(|said| (said.code, said.exceptions));
            Err(anyhow!("only on Kafka: {on_kafka:#?} {:?}\nonly here: {here:#?} {:?}", code(theirs), code(ours)))
        } else if step.refused && !refused {
            Err(anyhow!("both end with 0"))
        } else {
            Ok(())
        })
    }

    fn same_nodes(&mut self) -> Result<()> {
        self.epochs =
            until("the same nodes", LIMIT, || differences(&self.theirs.tree()?, &self.ours.tree()?, &self.epochs))?;
        Ok(())
    }
}
