//! Kafka Streams with `exactly_once_v2`, and Connect with exactly-once sources, of 3.9.1, on three brokers that are killed
//! under them in turn: what comes out is what went in.
//!
//! The programs are asked as [`checks`] says, with `kill` in place of `restart`: standard input answers `back` when the
//! broker serves again and every replica of the coordinators' topics is in sync, or why not.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::checks::{self, Verdict};
use super::scores;
use super::suites::on_three;
use crate::broker::free_port;
use crate::cache;
use crate::cluster::Cluster;
use crate::lane::{Run, skip};
use crate::proc::{self, tail};

const BROKERS: [i32; 3] = [1, 2, 3];
const COORDINATORS: &[&str] = &["__consumer_offsets", "__transaction_state"];
/// Each of them is killed alone, and nothing that was acknowledged may be lost.
const SETTINGS: &[(&str, &str)] = &[("min.insync.replicas", "2"), ("zookeeper.session.timeout.ms", "6000")];
const LIMIT: Duration = Duration::from_secs(900);

pub fn streams(run: &mut Run) -> Result<()> {
    play(run, "Streams", "streams-3.9.1", "20000")
}

pub fn connect(run: &mut Run) -> Result<()> {
    play(run, "Connect", "connect-3.9.1", "8000")
}

/// Runs `java/CLASS.java` against the jars of a POM.
fn play(run: &mut Run, class: &str, pom: &str, records: &str) -> Result<()> {
    if !run.full() {
        // Each takes some hundred megabytes of jars and of memory, and minutes.
        return Ok(());
    }
    let class_path = cache::java_program(&format!("{class}.java"), pom)?;
    on_three(run, SETTINGS, |run, cluster| {
        let prefix = format!("{}-{}", run.lane, std::process::id());
        let mut command = cache::java(&class_path)?;
        command.args(["-Xmx512M", class, &cluster.bootstrap(), &prefix, records, &free_port()?.to_string()]);
        let mut turn = BROKERS.iter().cycle();
        let output = proc::converse(&mut command, LIMIT, |line| {
            let victim = (line == "kill").then(|| turn.next()).flatten()?;
            Some(
                killed(cluster, *victim)
                    .map_or_else(|error| format!("{error:#}").replace('\n', " "), |()| "back".into()),
            )
        })?;
        let text = output.out();
        for (name, verdict) in text.lines().filter_map(checks::verdict) {
            let result = match verdict {
                Verdict::Passed => Ok(()),
                Verdict::Failed(why) => Err(anyhow::anyhow!("{why}")),
                Verdict::Skipped(why) => skip(why),
            };
            run.settled(name, result);
        }
        let ended = text.lines().any(|line| line == "done");
        ensure!(ended, "{class} did not come to its end: {}", tail(&output.all(), 15));
        Ok(())
    })?;
    scores::write(run)
}

/// kill -9, and back again.
fn killed(cluster: &mut Cluster, id: i32) -> Result<()> {
    cluster.kill(&[id])?;
    cluster.start_again(&[id])?;
    cluster.await_isr(COORDINATORS, &BROKERS)
}
