//! A ZooKeeper server of its own, from the jars that come with Kafka.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use crate::connection::wait_for;
use crate::drive::Outcome;
use crate::orphans;
use crate::process::{end, free_port, java, log_to};

/// Its data goes with the directory that it was given.
pub struct ZooKeeper {
    child: Option<Child>,
    /// For `zookeeper.connect`.
    pub connect: String,
}

impl ZooKeeper {
    /// Starts over a directory below `dir` and waits until it listens.
    pub fn start(jars: &Path, dir: &Path) -> Outcome<ZooKeeper> {
        let connect = format!("127.0.0.1:{}", free_port()?);
        let properties: PathBuf = dir.join("zookeeper.properties");
        std::fs::write(
            &properties,
            format!(
                "dataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n\
                 tickTime=1000\n",
                dir.join("zookeeper").display(),
                connect.trim_start_matches("127.0.0.1:")
            ),
        )?;
        let mut command = java(jars, "256M", "org.apache.zookeeper.server.quorum.QuorumPeerMain", &properties);
        log_to(&mut command, &dir.join("zookeeper.log"))?;
        let child = Some(orphans::start(&mut command, dir)?);
        let zookeeper = ZooKeeper { child, connect };
        wait_for(&zookeeper.connect, Duration::from_secs(30))?;
        Ok(zookeeper)
    }
}

impl Drop for ZooKeeper {
    fn drop(&mut self) {
        self.child.take().into_iter().for_each(end);
    }
}
