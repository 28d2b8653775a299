//! `--verify`: how far a plan has come. When nothing is on its way any more, the throttles go.

use super::cluster::Cluster;
use super::plan::Plan;
use super::{Args, joined, log_dirs, read, throttles};

pub fn verify(args: &Args, cluster: &mut Cluster) -> anyhow::Result<()> {
    let plan = Plan::parse(&read(args.reassignment_json_file.as_deref())?)?;
    let ongoing = cluster.ongoing(None)?;
    let current = cluster.assignment(&plan.topics())?;
    println!("Status of partition reassignment:");
    for (of, wanted) in &plan.partitions {
        let replicas = current.get(of).map_or(&[][..], Vec::as_slice);
        match (ongoing.contains_key(of), replicas == wanted) {
            (true, _) => println!("Reassignment of partition {of} is still in progress."),
            (false, true) => println!("Reassignment of partition {of} is completed."),
            (false, false) => println!(
                "There is no active reassignment of partition {of}, but replica set is {} rather than {}.",
                joined(replicas),
                joined(wanted)
            ),
        }
    }
    let moves = log_dirs::states(cluster, &plan.log_dirs)?;
    let lines: Vec<String> = moves.iter().map(|(replica, state)| state.line(replica)).collect();
    println!("{}", lines.join("\n"));
    if ongoing.is_empty() && moves.values().all(log_dirs::State::is_over) && !args.preserve_throttles {
        throttles::clear(cluster, &plan)?;
    }
    Ok(())
}
