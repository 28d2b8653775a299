//! A chroot that nobody has made: a broker makes it, and below it what a broker makes anywhere.

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::broker::{BROKER_ID, Broker, On};
use crate::wait::until;
use crate::znodes::{Epochs, ZooKeeper, differences};
use crate::zookeeper::Ensemble;

/// One broker of Kafka and one of `on` in the same ZooKeeper, each below its own.
pub fn made(on: &On) -> Result<()> {
    let dir = TempDir::with_prefix("compat-chroot-")?;
    let ensemble = Ensemble::start(dir.path(), 1)?;
    let start = |name: &str, on: &On| -> Result<(Broker, ZooKeeper)> {
        let connect = format!("{}/{name}/below/it", ensemble.connect_string());
        let mut broker = Broker::of_cluster(on, BROKER_ID, &dir.path().join(name), &connect, &[])?;
        broker.start_again().context(name.to_owned())?;
        Ok((broker, ZooKeeper::connect(&connect)?))
    };
    let (_kafka, theirs) = start("theirs", &On::Kafka)?;
    let (_broker, ours) = start("ours", on)?;
    until("the same nodes", super::LIMIT, || differences(&theirs.tree()?, &ours.tree()?, &Epochs::new()))?;
    Ok(())
}
