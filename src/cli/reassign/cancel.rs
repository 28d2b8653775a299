//! `--cancel`: what is on its way goes back, between brokers and between log directories. Also what only gets more replicas,
//! which Kafka's tool of 3.9.1 takes for not under way.

use anyhow::bail;

use super::cluster::Cluster;
use super::plan::Plan;
use super::{Args, Terse, joined, log_dirs, plural, read, throttles};

pub fn cancel(args: &Args, cluster: &mut Cluster) -> anyhow::Result<()> {
    let plan = Plan::parse(&read(args.reassignment_json_file.as_deref())?)?;
    let wanted = cluster.ongoing(Some(&plan.partitions))?.into_keys().map(|of| (of, None)).collect();
    let errors = cluster.reassign(&wanted)?;
    if !errors.is_empty() {
        let lines: Vec<String> = errors.iter().map(|(of, why)| format!("{of}: {why}")).collect();
        let plural = plural(errors.len());
        bail!(Terse(format!("Error cancelling partition reassignment{plural} for:\n{}", lines.join("\n"))));
    }
    match wanted.len() {
        0 => println!("None of the specified partition reassignments are active."),
        count => {
            println!("Successfully cancelled partition reassignment{} for: {}", plural(count), joined(wanted.keys()));
        }
    }
    let moves = log_dirs::states(cluster, &plan.log_dirs)?;
    let back: Vec<_> = moves.into_iter().filter_map(|(replica, state)| Some((replica, state.left_behind()?))).collect();
    match back.is_empty() {
        // Kafka's tool ends no line here.
        true => print!("None of the specified partition moves are active."),
        false => log_dirs::start(cluster, back.into_iter().collect(), args.timeout)?,
    }
    if !args.preserve_throttles {
        throttles::clear(cluster, &plan)?;
    }
    Ok(())
}
