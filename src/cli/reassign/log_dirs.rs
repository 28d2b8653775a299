//! Moves between the log directories of one broker.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::bail;
use kafka_protocol::messages::alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::{AlterReplicaLogDirsRequest, BrokerId, DescribeLogDirsRequest};
use kafka_protocol::protocol::StrBytes;

use super::cluster::Cluster;
use super::plan::Replica;
use super::{Terse, joined, plural};
use crate::cli::admin::{by_topic, topic_name};
use crate::cli::refusal::exception;
use crate::clock::{Clock, SystemClock};
use crate::types::TopicPartition;
use crate::wire::error_code::ErrorCode;

/// Between two tries.
const RETRY: Duration = Duration::from_millis(100);
/// For moves to begin, unless --timeout says otherwise.
const TIMEOUT_MS: i64 = 10_000;

/// Replicas and directories.
pub type Targets = BTreeMap<Replica, String>;

/// Where a replica is, and where it is moving to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Place {
    current: Option<String>,
    future: Option<String>,
}

/// How far a replica is that was to lie in `target`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// In no directory that is online.
    Missing,
    Completed,
    /// It lies elsewhere, and stays there.
    Cancelled {
        current: String,
        target: String,
    },
    Active {
        current: String,
        future: String,
        target: String,
    },
}

impl State {
    fn of(place: Place, target: &str) -> State {
        let target = target.to_owned();
        match (place.current, place.future) {
            (None, _) => State::Missing,
            (Some(current), None) if current == target => State::Completed,
            (Some(current), None) => State::Cancelled { current, target },
            (Some(current), Some(future)) => State::Active { current, future, target },
        }
    }

    /// A replica that is nowhere may still be on its way to its broker.
    pub fn is_over(&self) -> bool {
        matches!(self, State::Completed | State::Cancelled { .. })
    }

    /// The directory that a move under way has not left yet.
    pub fn left_behind(self) -> Option<String> {
        match self {
            State::Active { current, .. } => Some(current),
            _ => None,
        }
    }

    pub fn line(&self, replica: &Replica) -> String {
        let Replica { broker, of } = replica;
        match self {
            State::Missing => format!(
                "Partition {of} is not found in any live log dir on broker {broker}. There is likely an offline log \
                 directory on the broker."
            ),
            State::Completed => format!("Reassignment of replica {replica} completed successfully."),
            State::Cancelled { current, target } => {
                format!("Partition {of} on broker {broker} is not being moved from log dir {current} to {target}.")
            }
            State::Active { future, target, .. } if future == target => {
                format!("Reassignment of replica {replica} is still in progress.")
            }
            State::Active { future, target, .. } => {
                format!("Partition {of} on broker {broker} is being moved to log dir {future} instead of {target}.")
            }
        }
    }
}

pub fn states(cluster: &mut Cluster, targets: &Targets) -> anyhow::Result<BTreeMap<Replica, State>> {
    let mut states = BTreeMap::new();
    for (broker, replicas) in by_broker(targets) {
        let topic = |(name, partitions): (&str, Vec<i32>)| {
            DescribableLogDirTopic::default().with_topic(topic_name(name)).with_partitions(partitions)
        };
        let topics = by_topic(replicas.keys().map(|replica| (&replica.of, replica.of.partition)));
        let request = DescribeLogDirsRequest::default().with_topics(Some(topics.into_iter().map(topic).collect()));
        let answer = cluster.admin.ask_broker(BrokerId(broker), &request)?;
        let mut places: BTreeMap<TopicPartition, Place> = BTreeMap::new();
        for dir in answer.results.iter().filter(|dir| dir.error_code == 0) {
            for topic in &dir.topics {
                for partition in &topic.partitions {
                    let of = TopicPartition::new(topic.name.as_str(), partition.partition_index);
                    let place = places.entry(of).or_default();
                    let side = if partition.is_future_key { &mut place.future } else { &mut place.current };
                    *side = Some(dir.log_dir.to_string());
                }
            }
        }
        for (replica, target) in replicas {
            let place = places.remove(&replica.of).unwrap_or_default();
            states.insert(replica.clone(), State::of(place, target));
        }
    }
    Ok(states)
}

/// Waits until all moves have begun: a replica that has just been given to a broker is there when it has heard of it.
/// `timeout_ms`: 10000 without.
pub fn start(cluster: &mut Cluster, mut targets: Targets, timeout_ms: Option<i64>) -> anyhow::Result<()> {
    let clock = SystemClock::default();
    let deadline = clock.monotonic_ms().saturating_add(timeout_ms.unwrap_or(TIMEOUT_MS));
    while !targets.is_empty() {
        for replica in begin(cluster, &targets)? {
            let Some(dir) = targets.remove(&replica) else { continue };
            // The blank at the end is Kafka's.
            println!(
                "Successfully started moving log directory to {dir} for replica {} with broker {} ",
                replica.of, replica.broker
            );
        }
        if targets.is_empty() {
            break;
        }
        if clock.monotonic_ms() >= deadline {
            let (plural, open) = (plural(targets.len()), joined(targets.keys()));
            bail!(Terse(format!("Timed out before log directory move{plural} could be started for: {open}")));
        }
        thread::sleep(RETRY);
    }
    Ok(())
}

/// Those that have begun to move; not those whose broker has no such replica yet.
fn begin(cluster: &mut Cluster, targets: &Targets) -> anyhow::Result<Vec<Replica>> {
    let mut begun = Vec::new();
    for (broker, replicas) in by_broker(targets) {
        let mut dirs: BTreeMap<&str, Vec<&TopicPartition>> = BTreeMap::new();
        for (replica, dir) in &replicas {
            dirs.entry(dir).or_default().push(&replica.of);
        }
        let topic = |(name, partitions): (&str, Vec<i32>)| {
            AlterReplicaLogDirTopic::default().with_name(topic_name(name)).with_partitions(partitions)
        };
        let dir = |(path, partitions): (&str, Vec<&TopicPartition>)| {
            let topics = by_topic(partitions.into_iter().map(|of| (of, of.partition)));
            AlterReplicaLogDir::default()
                .with_path(StrBytes::from_string(path.to_owned()))
                .with_topics(topics.into_iter().map(topic).collect())
        };
        let request = AlterReplicaLogDirsRequest::default().with_dirs(dirs.into_iter().map(dir).collect());
        let answer = cluster.admin.ask_broker(BrokerId(broker), &request)?;
        for topic in answer.results {
            for partition in topic.partitions {
                let of = TopicPartition::new(topic.topic_name.as_str(), partition.partition_index);
                let replica = Replica { broker, of };
                match ErrorCode::answered(partition.error_code) {
                    ErrorCode::None => begun.push(replica),
                    ErrorCode::ReplicaNotAvailable => {}
                    code => bail!("Failed to alter dir for {replica}: {}", exception(code, None)),
                }
            }
        }
    }
    begun.sort();
    Ok(begun)
}

fn by_broker(targets: &Targets) -> BTreeMap<i32, BTreeMap<&Replica, &str>> {
    let mut brokers: BTreeMap<i32, BTreeMap<&Replica, &str>> = BTreeMap::new();
    for (replica, dir) in targets {
        brokers.entry(replica.broker).or_default().insert(replica, dir);
    }
    brokers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_told_as_kafka_tells_it() {
        let replica = Replica { broker: 2, of: TopicPartition::new("t", 1) };
        let dir = |dir: &str| Some(dir.to_owned());
        for (current, future, line, over) in [
            (dir("/b"), None, "Reassignment of replica t-1-2 completed successfully.", true),
            (dir("/a"), None, "Partition t-1 on broker 2 is not being moved from log dir /a to /b.", true),
            (dir("/a"), dir("/b"), "Reassignment of replica t-1-2 is still in progress.", false),
            (dir("/a"), dir("/c"), "Partition t-1 on broker 2 is being moved to log dir /c instead of /b.", false),
            (
                None,
                None,
                "Partition t-1 is not found in any live log dir on broker 2. There is likely an offline log directory on \
                 the broker.",
                false,
            ),
        ] {
            let state = State::of(Place { current: current.clone(), future: future.clone() }, "/b");
            assert_eq!((state.line(&replica).as_str(), state.is_over()), (line, over));
            assert_eq!(state.left_behind(), current.filter(|_| future.is_some()));
        }
    }
}
