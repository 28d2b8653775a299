//! `klamm metastore copy`: from a broker's own store to an empty ZooKeeper, the first step from one broker to several.
//!
//! Data is copied, and with it all epochs. Versions start anew, as ZooKeeper gives them; only that of `/brokers/seqid` is
//! brought to where it was, because generated broker ids are made of it. Sessions and what announces a change to those who
//! are there are left behind: nobody is.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Parser;

use crate::cli::nodes::{in_session, on_threads};
use crate::clock::SystemClock;
use crate::metastore::embedded::EmbeddedStore;
use crate::metastore::schema::paths;
use crate::metastore::{CreateMode, Metastore, Op};
use crate::storage::disk::Disk;
use crate::storage::disk_real::RealDisk;

/// ZooKeeper takes 1 MiB a request; a node's own overhead is small beside what is left.
const BATCH_BYTES: usize = 512 << 10;
const BATCH_NODES: usize = 500;
/// ZooKeeper's own.
const RESERVED: &str = "zookeeper";
/// Below these lies what was said to brokers that listened.
const NOTIFICATIONS: [&str; 3] = [paths::CONFIG_CHANGES, paths::ISR_CHANGES, paths::LOG_DIR_EVENTS];

/// Copies the embedded store of a stopped broker into an empty ZooKeeper
#[derive(Debug, Parser)]
pub struct Args {
    /// The first of the broker's log.dirs
    #[arg(long, alias = "data", value_name = "DIR")]
    from_dir: PathBuf,
    /// host:port,host:port/chroot, as zookeeper.connect will be
    #[arg(long)]
    zookeeper: String,
}

struct Node {
    path: String,
    data: Bytes,
    version: i32,
}

/// A tree, parents before their children.
#[derive(Default)]
struct Tree {
    nodes: Vec<Node>,
    ephemerals: usize,
    notifications: usize,
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tree { nodes, ephemerals, notifications } = self;
        write!(f, "{} nodes; left out {ephemerals} of sessions and {notifications} notifications", nodes.len())
    }
}

pub fn copy(args: &Args) -> anyhow::Result<()> {
    let tree = read_dir(&args.from_dir).with_context(|| args.from_dir.display().to_string())?;
    in_session(&args.zookeeper, async |store| write(store, &tree).await).with_context(|| args.zookeeper.clone())?;
    println!("Copied {tree}. Start the broker with zookeeper.connect={}", args.zookeeper);
    Ok(())
}

/// Takes the directory's lock: a broker that runs would go on writing.
fn read_dir(dir: &Path) -> anyhow::Result<Tree> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    if !EmbeddedStore::exists(&*disk, dir)? {
        bail!("no metastore lies here: it lies in the first of log.dirs of a broker without zookeeper.connect");
    }
    let _lock = disk.lock(&dir.join(".lock")).context("a broker runs on this directory: stop it first")?;
    let dirs = [dir.to_path_buf()];
    on_threads(async |threads| {
        let store = EmbeddedStore::open(disk.clone(), &dirs, Arc::new(SystemClock::default()), threads)?;
        read(&*store.session()).await
    })
}

async fn read(store: &dyn Metastore) -> anyhow::Result<Tree> {
    let mut tree = Tree::default();
    let mut open = vec![String::new()];
    while let Some(parent) = open.pop() {
        let mut names = store.children(if parent.is_empty() { "/" } else { &parent }).await?;
        if NOTIFICATIONS.contains(&parent.as_str()) {
            tree.notifications += names.len();
            continue;
        }
        names.retain(|name| !parent.is_empty() || name != RESERVED);
        names.sort_unstable();
        for name in names {
            let path = format!("{parent}/{name}");
            let (data, stat) = store.get(&path).await?;
            if stat.ephemeral_owner != 0 {
                tree.ephemerals += 1;
                continue;
            }
            tree.nodes.push(Node { path: path.clone(), data, version: stat.version });
            open.push(path);
        }
    }
    Ok(tree)
}

async fn write(store: &dyn Metastore, tree: &Tree) -> anyhow::Result<()> {
    let mut there = store.children("/").await?;
    there.retain(|name| name != RESERVED);
    if !there.is_empty() {
        there.sort_unstable();
        bail!(
            "not empty: it has /{}. A store is copied to where nothing is, or below a chroot of its own",
            there.join(", /")
        );
    }
    let stopped = "copied in part: delete what is there, then copy again";
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for node in tree.nodes.iter().filter(|node| wanted(store, node)) {
        let size = node.path.len() + node.data.len();
        if batch.len() == BATCH_NODES || bytes + size > BATCH_BYTES && !batch.is_empty() {
            store.multi(std::mem::take(&mut batch)).await.context(stopped)?;
            bytes = 0;
        }
        bytes += size;
        let data = (!node.data.is_empty()).then(|| node.data.clone());
        batch.push(Op::Create { path: node.path.clone(), data, mode: CreateMode::Persistent });
    }
    store.multi(batch).await.context(stopped)?;
    for _ in 0..tree.nodes.iter().find(|node| node.path == paths::BROKER_SEQUENCE_ID).map_or(0, |node| node.version) {
        store.set(paths::BROKER_SEQUENCE_ID, Bytes::new(), -1).await.context(stopped)?;
    }
    Ok(())
}

/// Not a block of producer ids that is none: where null data becomes empty data, Kafka takes it for broken.
fn wanted(store: &dyn Metastore, node: &Node) -> bool {
    node.path != paths::PRODUCER_ID_BLOCK || !node.data.is_empty() || store.keeps_null()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::cluster::ensure_path;

    fn store() -> Arc<dyn Metastore> {
        EmbeddedStore::in_memory(Arc::new(ManualClock::at(0))).session()
    }

    async fn filled() -> Arc<dyn Metastore> {
        let store = store();
        for path in paths::STARTUP {
            ensure_path(&*store, path).await.unwrap();
        }
        let persistent = CreateMode::Persistent;
        for (path, data, mode) in [
            ("/brokers/topics/t", "{}", persistent),
            ("/controller_epoch", "7", persistent),
            ("/controller", "{}", CreateMode::Ephemeral),
            ("/brokers/ids/1", "{}", CreateMode::Ephemeral),
            ("/config/changes/config_change_", "{}", CreateMode::PersistentSequential),
        ] {
            store.create(path, Some(data.into()), mode).await.unwrap();
        }
        store.set("/controller_epoch", "8".into(), -1).await.unwrap();
        for _ in 0..3 {
            store.set(paths::BROKER_SEQUENCE_ID, Bytes::new(), -1).await.unwrap();
        }
        store
    }

    #[tokio::test]
    async fn all_but_sessions_and_notifications_is_copied() {
        let tree = read(&*filled().await).await.unwrap();
        assert_eq!((tree.ephemerals, tree.notifications), (2, 1));
        let target = store();
        write(&*target, &tree).await.unwrap();
        let copied = read(&*target).await.unwrap();
        let shown =
            |tree: &Tree| tree.nodes.iter().map(|node| (node.path.clone(), node.data.clone())).collect::<Vec<_>>();
        assert_eq!(shown(&copied), shown(&tree));
        assert_eq!(target.get("/controller_epoch").await.unwrap().0, "8");
        assert_eq!(target.get("/controller_epoch").await.unwrap().1.version, 0);
        // The next generated broker id is another than those before.
        let next = target.set(paths::BROKER_SEQUENCE_ID, Bytes::new(), -1).await.unwrap();
        assert_eq!(next.version, 4);
    }

    #[tokio::test]
    async fn what_is_not_empty_is_not_written_to() {
        let tree = read(&*filled().await).await.unwrap();
        let target = store();
        target.create("/other", None, CreateMode::Persistent).await.unwrap();
        let error = write(&*target, &tree).await.unwrap_err().to_string();
        assert!(error.contains("not empty: it has /other"), "{error}");
        assert_eq!(target.children("/").await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn more_than_a_request_takes_goes_in_several() {
        let source = store();
        for n in 0..BATCH_NODES + 1 {
            source.create(&format!("/n{n}"), None, CreateMode::Persistent).await.unwrap();
        }
        for n in 0..3 {
            let large = Bytes::from(vec![b'x'; BATCH_BYTES / 2 + 1]);
            source.create(&format!("/large{n}"), Some(large), CreateMode::Persistent).await.unwrap();
        }
        let tree = read(&*source).await.unwrap();
        let target = store();
        write(&*target, &tree).await.unwrap();
        assert_eq!(target.children("/").await.unwrap().len(), BATCH_NODES + 4);
    }
}
