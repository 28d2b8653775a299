//! Rates that what moves is held to: set with a reassignment, taken away when it is done.

use std::collections::{BTreeMap, BTreeSet};

use super::cluster::{Cluster, Entity, Ongoing, Settings};
use super::plan::{Assignment, Plan};
use super::{joined, plural};
use crate::types::TopicPartition;

const LEADER_RATE: &str = "leader.replication.throttled.rate";
const FOLLOWER_RATE: &str = "follower.replication.throttled.rate";
const LOG_DIR_RATE: &str = "replica.alter.log.dirs.io.max.bytes.per.second";
const LEADER_REPLICAS: &str = "leader.replication.throttled.replicas";
const FOLLOWER_REPLICAS: &str = "follower.replication.throttled.replicas";

/// Where a partition is copied from, and where to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Move {
    sources: BTreeSet<i32>,
    destinations: BTreeSet<i32>,
}

pub type Moves = BTreeMap<TopicPartition, Move>;

/// Everything that moves once `proposed` is on its way beside what is already. A partition that is on its way to
/// somewhere else comes from where it lay at first.
pub fn moves(ongoing: &BTreeMap<TopicPartition, Ongoing>, proposed: &Assignment, current: &Assignment) -> Moves {
    let set = |ids: &[i32]| ids.iter().copied().collect::<BTreeSet<i32>>();
    let mut moves = Moves::new();
    for (of, partition) in ongoing {
        let destinations = set(&partition.adding);
        let sources = &set(&partition.replicas) - &destinations;
        moves.insert(of.clone(), Move { sources, destinations });
    }
    for (of, replicas) in proposed {
        let sources = match moves.get(of) {
            Some(under_way) => under_way.sources.clone(),
            None => current.get(of).map(|replicas| set(replicas)).unwrap_or_default(),
        };
        let destinations = &set(replicas) - &sources;
        moves.insert(of.clone(), Move { sources, destinations });
    }
    moves
}

/// `partition:broker` for each of a topic's replicas, in the order of these texts, by topic.
fn replicas(moves: &Moves, of_move: fn(&Move) -> &BTreeSet<i32>) -> BTreeMap<&str, String> {
    let mut topics: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (of, what) in moves {
        let ids = of_move(what).iter().map(|id| format!("{}:{id}", of.partition));
        topics.entry(&of.topic).or_default().extend(ids);
    }
    topics.into_iter().map(|(topic, replicas)| (topic, joined(replicas))).collect()
}

/// `rate`: bytes a second.
pub fn set_between_brokers(cluster: &mut Cluster, moves: &Moves, rate: i64) -> anyhow::Result<()> {
    let mut followers = replicas(moves, |what| &what.destinations);
    for (topic, leaders) in replicas(moves, |what| &what.sources) {
        let followers = followers.remove(topic).unwrap_or_default();
        let settings = vec![(LEADER_REPLICAS, Some(leaders)), (FOLLOWER_REPLICAS, Some(followers))];
        cluster.configure(&Entity::Topic(topic.to_owned()), &settings)?;
    }
    let brokers: BTreeSet<i32> = moves.values().flat_map(|what| &what.sources | &what.destinations).collect();
    for broker in brokers {
        let settings = [LEADER_RATE, FOLLOWER_RATE].map(|name| (name, Some(rate.to_string())));
        cluster.configure(&Entity::Broker(broker), &settings.into())?;
    }
    println!("The inter-broker throttle limit was set to {rate} B/s");
    Ok(())
}

/// `rate`: bytes a second.
pub fn set_between_log_dirs(cluster: &mut Cluster, brokers: &BTreeSet<i32>, rate: i64) -> anyhow::Result<()> {
    for broker in brokers {
        cluster.configure(&Entity::Broker(*broker), &vec![(LOG_DIR_RATE, Some(rate.to_string()))])?;
    }
    println!("The replica-alter-dir throttle limit was set to {rate} B/s");
    Ok(())
}

/// Of all live brokers and those of the plan: nobody knows which took part.
pub fn clear(cluster: &mut Cluster, plan: &Plan) -> anyhow::Result<()> {
    let mut brokers = plan.brokers();
    brokers.extend(cluster.brokers()?.into_keys());
    println!("Clearing broker-level throttles on broker{} {}", plural(brokers.len()), joined(&brokers));
    let none = |names: &[&'static str]| names.iter().map(|name| (*name, None)).collect::<Settings>();
    for broker in brokers {
        cluster.configure(&Entity::Broker(broker), &none(&[LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE]))?;
    }
    let topics = plan.topics();
    println!("Clearing topic-level throttles on topic{} {}", plural(topics.len()), joined(&topics));
    for topic in topics {
        cluster.configure(&Entity::Topic(topic.to_owned()), &none(&[LEADER_REPLICAS, FOLLOWER_REPLICAS]))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaders_are_held_where_a_partition_is_and_followers_where_it_goes() {
        let of = |topic: &str, partition| TopicPartition::new(topic, partition);
        let on_its_way = Ongoing { replicas: vec![4, 1, 2], adding: vec![4], removing: vec![1] };
        let ongoing = BTreeMap::from([(of("t", 0), on_its_way.clone()), (of("u", 0), on_its_way)]);
        let current = Assignment::from([(of("t", 0), vec![4, 1, 2]), (of("t", 10), vec![1]), (of("t", 2), vec![1])]);
        let proposed = Assignment::from([(of("t", 0), vec![2, 3]), (of("t", 10), vec![1, 3]), (of("t", 2), vec![1])]);
        let moves = moves(&ongoing, &proposed, &current);
        let text = |topic, of: fn(&Move) -> &BTreeSet<i32>| replicas(&moves, of)[topic].clone();
        assert_eq!(text("t", |what| &what.sources), "0:1,0:2,10:1,2:1");
        assert_eq!(text("t", |what| &what.destinations), "0:3,10:3");
        assert_eq!(text("u", |what| &what.sources), "0:1,0:2");
        assert_eq!(text("u", |what| &what.destinations), "0:4");
    }

    #[test]
    fn a_topic_whose_replicas_stay_has_nobody_to_hold() {
        let stays = Assignment::from([(TopicPartition::new("t", 0), vec![1])]);
        let moves = moves(&BTreeMap::new(), &stays, &stays);
        assert_eq!(replicas(&moves, |what| &what.destinations)["t"], "");
    }
}
