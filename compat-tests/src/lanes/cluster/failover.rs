//! Brokers are killed, and nobody waits until their sessions are over. (A Kafka waits.)

use anyhow::{Result, ensure};

use super::{LOADED, Play, START, admin, back, others};
use crate::broker::On;
use crate::cluster::Cluster;

/// Sessions as long as by default: none ends meanwhile.
const SETTINGS: &[(&str, &str)] = &[
    ("klamm.fast.failover.enable", "true"),
    ("zookeeper.session.timeout.ms", "18000"),
    ("auto.create.topics.enable", "false"),
    ("auto.leader.rebalance.enable", "false"),
    ("min.insync.replicas", "2"),
];

pub fn cluster(on: &On) -> Result<Cluster> {
    Cluster::start(on, &START, 1, SETTINGS)
}

impl Play<'_> {
    pub(super) fn deaths(&mut self) -> Result<()> {
        self.dies(1, "a leader", |_| Ok(1))?;
        self.dies(2, "a follower", |_| Ok(3))?;
        for number in 3..=5 {
            self.dies(number, "the controller", Cluster::controller)?;
        }
        self.nobody_dies()
    }

    /// `number`: which death of these it is.
    fn dies(&mut self, number: u32, who: &str, which: impl FnOnce(&Cluster) -> Result<i32>) -> Result<()> {
        let id = which(&self.cluster)?;
        // The controller may be one that has died before.
        let name = format!("made-{number}-without-{id}");
        self.step(&format!("kill -9 of {who}, whose session lasts"), |cluster, load| {
            cluster.kill(&[id])?;
            load.await_flow()?;
            cluster.await_isr(&LOADED, &others(id))?;
            admin::create_topic(cluster, &name, &[&others(id)], &[])
        })?;
        let lasts = self.zookeeper.has(&format!("/brokers/ids/{id}"))?;
        ensure!(lasts, "the session of broker {id} was over before all went on");
        self.step("it comes back", |cluster, _| back(cluster, &[id]))
    }
}
