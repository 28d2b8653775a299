//! `--execute`: throttles first, then the reassignment, then the moves between log directories.

use std::collections::BTreeSet;

use anyhow::bail;
use kafka_protocol::protocol::StrBytes;

use super::cluster::Cluster;
use super::plan::{self, Assignment, Plan};
use super::{Args, Terse, joined, log_dirs, plural, read, throttles};
use crate::cli::refusal::exception;
use crate::wire::error_code::ErrorCode;

pub fn execute(args: &Args, cluster: &mut Cluster) -> anyhow::Result<()> {
    let plan = Plan::parse_to_execute(&read(args.reassignment_json_file.as_deref())?)?;
    let ongoing = cluster.ongoing(None)?;
    if !args.additional && !ongoing.is_empty() {
        let text = "Cannot execute because there is an existing partition assignment.  Use --additional to override this and \
                    create a new partition assignment in addition to the existing one. The --additional flag can also be \
                    used to change the throttle by resubmitting the current reassignment.";
        bail!(Terse(text.to_owned()));
    }
    let live = cluster.brokers()?;
    if let Some(unknown) = plan.brokers().into_iter().find(|id| !live.contains_key(id)) {
        bail!("Unknown broker id {unknown}");
    }
    let current = current(&plan, cluster)?;
    println!("Current partition replica assignment\n\n{}\n", plan::format(&current)?);
    println!("Save this to use as the --reassignment-json-file option during rollback");
    let rate = |given: Option<i64>| given.filter(|rate| *rate >= 0);
    let (between_brokers, between_dirs) = (rate(args.throttle), rate(args.replica_alter_log_dirs_throttle));
    if between_brokers.is_some() || between_dirs.is_some() {
        println!(
            "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
        );
    }
    if let Some(rate) = between_brokers {
        throttles::set_between_brokers(cluster, &throttles::moves(&ongoing, &plan.partitions, &current), rate)?;
    }
    if let Some(rate) = between_dirs {
        let brokers: BTreeSet<i32> = plan.log_dirs.keys().map(|replica| replica.broker).collect();
        throttles::set_between_log_dirs(cluster, &brokers, rate)?;
    }
    let wanted = plan.partitions.iter().map(|(of, replicas)| (of.clone(), Some(replicas.clone()))).collect();
    let errors = cluster.reassign(&wanted)?;
    if !errors.is_empty() {
        let lines: Vec<String> = errors.iter().map(|(of, why)| format!("{of}: {why}")).collect();
        bail!(Terse(format!("Error reassigning partition(s):\n{}", lines.join("\n"))));
    }
    let started = plan.partitions.keys();
    println!("Successfully started partition reassignment{} for {}", plural(started.len()), joined(started));
    log_dirs::start(cluster, plan.log_dirs, args.timeout)
}

/// Where the plan's partitions are.
fn current(plan: &Plan, cluster: &mut Cluster) -> anyhow::Result<Assignment> {
    let mut current = cluster.assignment_of_all(&plan.topics())?;
    current.retain(|of, _| plan.partitions.contains_key(of));
    let absent: Vec<String> =
        plan.partitions.keys().filter(|of| !current.contains_key(*of)).map(ToString::to_string).collect();
    if !absent.is_empty() {
        let words = StrBytes::from_string(format!("Unable to find partition: {}", absent.join(", ")));
        bail!("{}", exception(ErrorCode::UnknownTopicOrPartition, Some(&words)));
    }
    Ok(current)
}
