//! ZooKeepers that are not there, not found, or hold what no broker wrote.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kafka_protocol::messages::{ApiKey, MetadataRequest, RequestKind, ResponseKind};
use tempfile::TempDir;
use zookeeper_client::Stat;

use super::bad_days::{basic, refused, says};
use crate::broker::{Broker, On, free_port};
use crate::cluster::View;
use crate::lane::Run;
use crate::raw::Connection;
use crate::twin::requests::{assigned, create};
use crate::wait::until;
use crate::znodes::ZooKeeper;
use crate::zookeeper::Ensemble;

/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn units(run: &mut Run) {
    run.unit("no ZooKeeper: it waits, then says so", absent);
    run.unit("ZooKeeper comes after the broker", late);
    run.unit("one ZooKeeper host of three is unknown", one_unknown);
    run.unit("a chroot of another cluster", wrong_chroot);
    run.unit("two brokers with one id", one_id);
    run.unit("a copy of a running broker's directory", copied);
    run.unit("znodes that are nonsense", nonsense);
}

fn connect(dir: &Path, id: i32, to: &str, settings: &[(&str, &str)]) -> Result<Broker> {
    Broker::of_cluster(&On::Klamm, id, &dir.join(format!("broker-{id}")), to, settings)
}

fn absent() -> Result<()> {
    let dir = TempDir::with_prefix("compat-")?;
    let mut lines = basic(dir.path(), free_port()?);
    let nowhere = free_port()?;
    lines.push(format!("zookeeper.connect=127.0.0.1:{nowhere}/kafka"));
    lines.push("zookeeper.connection.timeout.ms=1500".to_owned());
    says(&refused(dir.path(), &lines)?, &["ZooKeeper", &format!("127.0.0.1:{nowhere}"), "1500 ms"])
}

fn late() -> Result<()> {
    let dir = TempDir::with_prefix("compat-")?;
    let mut zookeeper = Ensemble::prepare(dir.path(), 1)?;
    let mut broker =
        connect(dir.path(), 1, &zookeeper.connect_string(), &[("zookeeper.connection.timeout.ms", "60000")])?;
    broker.spawn()?;
    until("it has begun to look for it", PATIENCE, || says(&broker.log_text(), &["data in"]))?;
    zookeeper.start_again(1)?;
    broker.await_listening()
}

fn one_unknown() -> Result<()> {
    let dir = TempDir::with_prefix("compat-")?;
    let zookeeper = Ensemble::start(dir.path(), 1)?;
    let known = zookeeper.connect_string();
    let to = format!("no-such-host.invalid:2181,{known},{known}");
    let mut broker = connect(dir.path(), 1, &to, &[("zookeeper.connection.timeout.ms", "60000")])?;
    broker.start_again()
}

fn wrong_chroot() -> Result<()> {
    let dir = TempDir::with_prefix("compat-")?;
    let zookeeper = Ensemble::start(dir.path(), 1)?;
    let right = format!("{}/right/place", zookeeper.connect_string());
    let mut broker = connect(dir.path(), 1, &right, &[])?;
    broker.start_again()?;
    broker.stop_in_order()?;
    let mut lines = basic(&dir.path().join("broker-1"), broker.port());
    lines.push(format!("zookeeper.connect={}/wrong", zookeeper.connect_string()));
    says(&refused(&dir.path().join("broker-1"), &lines)?, &["belongs to cluster", "nothing was changed"])?;
    // It still serves where it belongs.
    let mut broker = connect(dir.path(), 1, &right, &[])?;
    broker.start_again()
}

fn one_id() -> Result<()> {
    let dir = TempDir::with_prefix("compat-")?;
    let zookeeper = Ensemble::start(dir.path(), 1)?;
    let mut first = connect(dir.path(), 1, &zookeeper.connect_string(), &[])?;
    first.start_again()?;
    let other = dir.path().join("other");
    std::fs::create_dir_all(&other)?;
    let mut lines = basic(&other, free_port()?);
    lines.push(format!("zookeeper.connect={}", zookeeper.connect_string()));
    lines.push("zookeeper.session.timeout.ms=2000".to_owned());
    says(&refused(&other, &lines)?, &["broker.id=1 is registered already"])?;
    let view = View::of(&first.address())?;
    ensure!(view.brokers.contains(&1) && view.controller == 1, "the first is disturbed: {view:?}");
    Ok(())
}

/// It names the session that its original has, which lives: nothing is taken from that.
fn copied() -> Result<()> {
    let dir = TempDir::with_prefix("compat-")?;
    let zookeeper = Ensemble::start(dir.path(), 1)?;
    let mut first = connect(dir.path(), 1, &zookeeper.connect_string(), &[])?;
    first.start_again()?;
    let nodes = ZooKeeper::connect(&zookeeper.connect_string())?;
    let owned = || -> Result<Vec<(i64, i64)>> {
        let stats = ["/brokers/ids/1", "/controller"].map(|path| nodes.node(path));
        let stats = stats.into_iter().map(|node| Ok(node?.context("it is not there")?.1));
        stats.map(|stat: Result<Stat>| stat.map(|stat| (stat.czxid, stat.ephemeral_owner))).collect()
    };
    let before = until("a registration and a controller", PATIENCE, owned)?;
    let other = dir.path().join("other");
    let data = other.join("data");
    std::fs::create_dir_all(&data)?;
    for entry in std::fs::read_dir(first.log_dir())? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            std::fs::copy(entry.path(), data.join(entry.file_name()))?;
        }
    }
    let mut lines = basic(&other, free_port()?);
    lines.push(format!("zookeeper.connect={}", zookeeper.connect_string()));
    lines.push("zookeeper.session.timeout.ms=2000".to_owned());
    says(&refused(&other, &lines)?, &["broker.id=1 is registered already"])?;
    ensure!(owned()? == before, "the copy has taken {before:?}");
    ensure!(View::of(&first.address())?.controller == 1, "the first is disturbed");
    Ok(())
}

/// What cannot be read is named and set aside; the rest is served, before and after a restart.
fn nonsense() -> Result<()> {
    let dir = TempDir::with_prefix("compat-")?;
    let zookeeper = Ensemble::start(dir.path(), 1)?;
    let mut broker = connect(dir.path(), 1, &zookeeper.connect_string(), &[])?;
    broker.start_again()?;
    let topic = RequestKind::CreateTopics(create(vec![assigned("sound", &[(0, &[1]), (1, &[1])])]));
    until("a controller that creates it", PATIENCE, || {
        let answer = Connection::open(&broker.address())?.ask(ApiKey::CreateTopics, 5, &topic)?;
        let ResponseKind::CreateTopics(answer) = answer else { bail!("another API's answer") };
        let error = answer.topics.first().map(|topic| topic.error_code);
        ensure!(error == Some(0), "error {error:?}");
        Ok(())
    })?;
    let nodes = ZooKeeper::connect(&zookeeper.connect_string())?;
    let state = "/brokers/topics/sound/partitions/1/state";
    until("a state to spoil", PATIENCE, || match nodes.tree()?.contains_key(state) {
        true => Ok(()),
        false => bail!("{state} is not there yet"),
    })?;
    let spoilt = [
        (state, "no state"),
        ("/brokers/topics/odd", "{\"version\":"),
        ("/brokers/ids/77", "nobody"),
        ("/admin/reassign_partitions", "{{"),
    ];
    for (path, data) in spoilt {
        nodes.put(path, data)?;
    }
    broker.stop_in_order()?;
    broker.start_again()?;
    until("the other partition is led", PATIENCE, || {
        let request = RequestKind::Metadata(MetadataRequest::default().with_topics(None));
        let answer = Connection::open(&broker.address())?.ask(ApiKey::Metadata, 1, &request)?;
        let ResponseKind::Metadata(metadata) = answer else { bail!("another API's answer") };
        let of = |topic: &str| metadata.topics.iter().find(|it| it.name.as_ref().is_some_and(|name| &***name == topic));
        let led = of("sound").is_some_and(|topic| {
            topic.partitions.iter().any(|partition| partition.partition_index == 0 && partition.leader_id.0 == 1)
        });
        ensure!(led && of("odd").is_none(), "{metadata:?}");
        Ok(())
    })?;
    // Some is looked at after that.
    until("each is named in the log", PATIENCE, || {
        says(&broker.log_text(), &[state, "/brokers/topics/odd", "/brokers/ids/77", "/admin/reassign_partitions"])
    })
}
