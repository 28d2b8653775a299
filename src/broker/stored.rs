//! What the metastore holds when a broker starts: overrides of every entity, topics with their ids.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::RunError;
use crate::cluster::{Configs, Overrides, read_overrides, read_quota_configs, replicated_on};
use crate::config::{BrokerConfig, TopicConfig};
use crate::metastore::schema::{ConfigEntity, TopicAssignment, paths};
use crate::metastore::{Error, Metastore};
use crate::types::{BrokerId, TopicId, TopicPartition};

/// Reads under way at once: a real ZooKeeper answers them in one round trip each, pipelined.
const PIPELINED: usize = 64;

/// One moment's overrides and topics.
#[derive(Debug, Default)]
pub struct Stored {
    pub configs: Configs,
    /// By topic. Topics without an id (made before KIP-516) get theirs from the controller; their id is zero here.
    pub topics: HashMap<String, (TopicId, Arc<TopicConfig>)>,
    /// Partitions with a replica on this broker, and others.
    pub replicated: Vec<TopicPartition>,
    /// Of users, clients and addresses.
    pub quotas: Vec<(ConfigEntity, Overrides)>,
}

/// Reads everything; topics get the broker's dynamic defaults.
pub async fn read(store: &dyn Metastore, config: &BrokerConfig, broker_id: BrokerId) -> Result<Stored, RunError> {
    let mut stored = Stored::default();
    let with_overrides = children(store, "/config/topics").await?;
    stored.configs.topics = stream::iter(with_overrides)
        .map(|topic| async move {
            let overrides = overrides(store, &ConfigEntity::Topic(topic.clone())).await?;
            Ok::<_, RunError>((Arc::<str>::from(topic), overrides))
        })
        .buffered(PIPELINED)
        .try_collect()
        .await?;
    stored.configs.broker_default = overrides(store, &ConfigEntity::Broker(None)).await?;
    for name in children(store, "/config/brokers").await? {
        if let Some(id) = name.parse().ok().map(BrokerId) {
            stored.configs.brokers.insert(id, overrides(store, &ConfigEntity::Broker(Some(id))).await?);
        }
    }
    stored.quotas = read_quota_configs(store).await.map_err(RunError::metastore("stored quotas were read"))?;
    let defaults = stored.configs.topic_defaults(config, broker_id);
    let mut topics = stream::iter(children(store, paths::TOPICS).await?)
        .map(|topic| async move {
            let assignment = assignment(store, &topic).await?;
            Ok::<_, RunError>((topic, assignment))
        })
        .buffered(PIPELINED);
    while let Some((topic, assignment)) = topics.try_next().await? {
        let Some(assignment) = assignment else { continue };
        let name = Arc::from(topic.as_str());
        stored.replicated.extend(replicated_on(broker_id, &name, &assignment));
        let config = match stored.configs.topics.get(&name) {
            Some(overrides) => resolve(&defaults, &topic, overrides),
            None => defaults.clone(),
        };
        stored.topics.insert(topic, (assignment.id.unwrap_or(TopicId::ZERO), Arc::new(config)));
    }
    drop(topics);
    Ok(stored)
}

/// A topic's configuration; what is wrong with its stored overrides is left out and said.
pub fn resolve(defaults: &TopicConfig, topic: &str, overrides: &BTreeMap<String, String>) -> TopicConfig {
    let (config, errors) = TopicConfig::resolve_stored(defaults, overrides);
    for error in errors {
        tracing::warn!(topic, "a stored topic config is ignored: {error}");
    }
    config
}

async fn children(store: &dyn Metastore, path: &str) -> Result<Vec<String>, RunError> {
    match store.children(path).await {
        Ok(mut names) => {
            names.sort();
            Ok(names)
        }
        Err(Error::NoNode(_)) => Ok(Vec::new()),
        Err(error) => Err(RunError::metastore("stored topics and configs were read")(error)),
    }
}

async fn overrides(store: &dyn Metastore, entity: &ConfigEntity) -> Result<Overrides, RunError> {
    read_overrides(store, entity).await.map_err(RunError::metastore("stored configs were read"))
}

/// `None` when the topic vanished meanwhile, or its node is nonsense: no controller leads it, and its logs are left alone.
async fn assignment(store: &dyn Metastore, topic: &str) -> Result<Option<TopicAssignment>, RunError> {
    let path = paths::topic(topic);
    match store.get(&path).await {
        Ok((bytes, _)) => match TopicAssignment::decode(&path, &bytes) {
            Ok(assignment) => Ok(Some(assignment)),
            Err(error) => {
                tracing::error!(%error, "topic set aside");
                Ok(None)
            }
        },
        Err(Error::NoNode(_)) => Ok(None),
        Err(error) => Err(RunError::metastore("stored topics were read")(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::cluster::ensure_path;
    use crate::metastore::CreateMode;
    use crate::metastore::embedded::EmbeddedStore;

    async fn holding(nodes: &[(&str, &str)]) -> Arc<dyn Metastore> {
        let store = EmbeddedStore::in_memory(Arc::new(ManualClock::at(0))).session();
        for (path, data) in nodes {
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            ensure_path(&*store, parent).await.unwrap();
            let data = Some(data.as_bytes().to_vec().into());
            store.create(path, data, CreateMode::Persistent).await.unwrap();
        }
        store
    }

    #[tokio::test]
    async fn a_topic_that_is_nonsense_stops_no_broker() {
        let odd = ("/brokers/topics/odd", "{\"version\":");
        let sound = ("/brokers/topics/sound", r#"{"version":2,"partitions":{"0":[1],"1":[2,1],"2":[2,3]}}"#);
        let store = holding(&[odd, sound]).await;
        let stored = read(&*store, &BrokerConfig::default(), BrokerId(1)).await.unwrap();
        assert_eq!(stored.topics.keys().collect::<Vec<_>>(), ["sound"]);
        assert_eq!(stored.topics["sound"].0, TopicId::ZERO);
        assert_eq!(stored.replicated, [TopicPartition::new("sound", 1)]);
    }

    /// Whatever entity it is of, and in whatever way it cannot be read: the others keep theirs.
    #[tokio::test]
    async fn a_configuration_that_is_nonsense_stops_no_broker() {
        let sound = r#"{"version":1,"config":{"retention.ms":"77","log.retention.ms":"88","consumer_byte_rate":"99"}}"#;
        for nonsense in
            ["{\"version\":", "retention.ms=1", r#"{"version":7,"config":{}}"#, r#"{"version":1,"config":[1]}"#]
        {
            let mut nodes = vec![
                ("/brokers/topics/odd", r#"{"version":2,"partitions":{"0":[1]}}"#),
                ("/brokers/topics/sound", r#"{"version":2,"partitions":{"0":[1]}}"#),
            ];
            for parent in ["topics", "brokers", "users", "clients", "ips"] {
                let (odd, other) = if parent == "brokers" { ("1", "<default>") } else { ("odd", "sound") };
                let path = |name| -> &'static str { Box::leak(format!("/config/{parent}/{name}").into_boxed_str()) };
                nodes.extend([(path(odd), nonsense), (path(other), sound)]);
            }
            let store = holding(&nodes).await;
            let stored = read(&*store, &BrokerConfig::default(), BrokerId(1)).await.unwrap();
            assert_eq!(stored.topics["odd"].1.retention_ms, 88, "{nonsense}: as if it had none");
            assert_eq!(stored.topics["sound"].1.retention_ms, 77, "{nonsense}");
            let quotas = stored.quotas.iter().map(|(entity, overrides)| (entity.to_string(), overrides.len()));
            let expected = ["users", "clients", "ips"]
                .into_iter()
                .flat_map(|parent| [(format!("{parent}/odd"), 0), (format!("{parent}/sound"), 3)]);
            assert_eq!(quotas.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{nonsense}");
        }
    }
}
