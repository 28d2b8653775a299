//! A suite on several brokers and a ZooKeeper, with three replicas wherever the suite leaves their number to the broker.

use anyhow::Result;

use crate::broker::On;
use crate::cluster::Cluster;
use crate::lane::{Run, skip};

/// What the names of the lanes end with whose suites are played on three brokers as well as on one.
pub const THREE: &str = "-3";

/// As [`on_brokers`], on three.
pub fn on_three(
    run: &mut Run,
    settings: &[(&str, &str)],
    suite: impl FnOnce(&mut Run, &mut Cluster) -> Result<()>,
) -> Result<()> {
    on_brokers(run, &[1, 2, 3], settings, suite)
}

/// Starts the brokers, has them coordinate groups, and plays `suite` on them. When something has failed, the ends of their
/// logs are shown.
pub fn on_brokers(
    run: &mut Run,
    ids: &[i32],
    settings: &[(&str, &str)],
    suite: impl FnOnce(&mut Run, &mut Cluster) -> Result<()>,
) -> Result<()> {
    if matches!(run.on, On::At(_)) {
        return skip("it wants brokers of its own");
    }
    let settings = [&[("default.replication.factor", "3")][..], settings].concat();
    let mut cluster = Cluster::start(&run.on, ids, 1, &settings)?;
    for &id in ids {
        cluster.broker(id)?.await_coordinator()?;
    }
    let result = suite(run, &mut cluster);
    if result.is_err() || run.failures() > 0 {
        println!("{}", cluster.log_tails(40));
    }
    result
}
