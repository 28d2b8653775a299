//! `--zookeeper`: what the tree says, without a broker. As kafka-topics did until 2.8.

use std::collections::BTreeSet;

use super::describe::{Partition, Topic};
use crate::cli::nodes::{self, children, data};
use crate::metastore::Metastore;
use crate::metastore::schema::{ConfigEntity, EntityConfig, PartitionState, TopicAssignment, paths};

/// Topics whose names are `wanted`, by name, and the brokers that are registered.
pub fn read(connect: &str, wanted: impl Fn(&str) -> bool) -> anyhow::Result<(Vec<Topic>, BTreeSet<i32>)> {
    nodes::in_session(connect, async |store| read_tree(store, wanted).await)
}

/// As [`read`], in a session that is there already.
pub async fn read_tree(
    store: &dyn Metastore,
    wanted: impl Fn(&str) -> bool,
) -> anyhow::Result<(Vec<Topic>, BTreeSet<i32>)> {
    let live = children(store, paths::BROKER_IDS).await?.iter().filter_map(|id| id.parse().ok()).collect();
    let mut names = children(store, paths::TOPICS).await?;
    names.retain(|name| wanted(name));
    names.sort_unstable();
    let mut topics = Vec::with_capacity(names.len());
    for name in names {
        // Gone between the two.
        let Some(topic) = read_topic(store, name).await? else { continue };
        topics.push(topic);
    }
    Ok((topics, live))
}

async fn read_topic(store: &dyn Metastore, name: String) -> anyhow::Result<Option<Topic>> {
    let path = paths::topic(&name);
    let Some(data) = data(store, &path).await? else { return Ok(None) };
    let assignment = TopicAssignment::decode(&path, &data)?;
    let config_path = ConfigEntity::Topic(name.clone()).path();
    let config = match nodes::data(store, &config_path).await? {
        Some(data) => EntityConfig::decode(&config_path, &data)?.0,
        None => Default::default(),
    };
    let mut partitions = Vec::with_capacity(assignment.partitions.len());
    for (index, assigned) in assignment.partitions {
        let path = paths::partition_state(&name, index);
        // Without a state node it has no leader yet; one that is nonsense has none that could be named.
        let state = match nodes::data(store, &path).await? {
            Some(data) => PartitionState::decode(&path, &data).inspect_err(|error| eprintln!("{error}")).ok(),
            None => None,
        };
        let (leader, isr) = state.map_or((-1, Vec::new()), |state| (state.leader.0, state.isr));
        let ids = |ids: Vec<crate::types::BrokerId>| ids.into_iter().map(|id| id.0).collect();
        partitions.push(Partition { index, leader, replicas: ids(assigned.replicas), isr: ids(isr) });
    }
    let min_isr = config.get("min.insync.replicas").and_then(|text| text.parse().ok()).unwrap_or(1);
    let overrides = config.iter().map(|(name, value)| format!("{name}={value}")).collect();
    Ok(Some(Topic { name, id: assignment.id, overrides, min_isr, partitions }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::ManualClock;
    use crate::metastore::CreateMode;
    use crate::metastore::embedded::EmbeddedStore;

    #[tokio::test]
    async fn topics_are_what_their_nodes_say() {
        let store = EmbeddedStore::in_memory(Arc::new(ManualClock::at(0))).session();
        assert!(read_tree(&*store, |_| true).await.unwrap().0.is_empty(), "an empty tree is an empty cluster");
        let state = r#"{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":0,"isr":[2,1]}"#;
        for (path, data) in [
            ("/brokers/ids/1", "{}"),
            ("/brokers/ids/2", "{}"),
            ("/config/topics/t", r#"{"version":1,"config":{"min.insync.replicas":"2"}}"#),
            ("/brokers/topics/t", r#"{"version":1,"partitions":{"0":[1,2],"1":[2,1],"2":[3,1]}}"#),
            ("/brokers/topics/t/partitions/0/state", state),
            ("/brokers/topics/t/partitions/1/state", "nonsense"),
            ("/brokers/topics/u", r#"{"version":1,"partitions":{"0":[1]}}"#),
        ] {
            let parent = path.rsplit_once('/').unwrap().0;
            crate::cluster::ensure_path(&*store, parent).await.unwrap();
            store.create(path, Some(data.into()), CreateMode::Persistent).await.unwrap();
        }
        let (topics, live) = read_tree(&*store, |name| name == "t").await.unwrap();
        assert_eq!(live, BTreeSet::from([1, 2]));
        let [topic] = &topics[..] else { panic!("one topic") };
        assert_eq!((topic.name.as_str(), topic.id, topic.min_isr), ("t", None, 2));
        assert_eq!(topic.overrides, ["min.insync.replicas=2"]);
        let shown: Vec<_> = topic.partitions.iter().map(|p| (p.index, p.leader, &p.replicas[..], &p.isr[..])).collect();
        let expected: [(i32, i32, &[i32], &[i32]); 3] =
            [(0, 2, &[1, 2], &[2, 1]), (1, -1, &[2, 1], &[]), (2, -1, &[3, 1], &[])];
        assert_eq!(shown, expected);
    }
}
