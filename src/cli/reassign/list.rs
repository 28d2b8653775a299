//! `--list`.

use std::fmt::Write as _;

use super::cluster::Cluster;
use super::joined;

pub fn list(cluster: &mut Cluster) -> anyhow::Result<()> {
    let ongoing = cluster.ongoing(None)?;
    if ongoing.is_empty() {
        println!("No partition reassignments found.");
        return Ok(());
    }
    println!("Current partition reassignments:");
    for (of, partition) in ongoing {
        let mut line = format!("{of}: replicas: {}.", joined(&partition.replicas));
        for (what, ids) in [("adding", &partition.adding), ("removing", &partition.removing)] {
            if !ids.is_empty() {
                let _ = write!(line, " {what}: {}.", joined(ids));
            }
        }
        println!("{line}");
    }
    Ok(())
}
