//! The cluster as a broker tells it, or as its nodes say.

use std::collections::BTreeMap;

use crate::cli::admin::Admin;
use crate::cli::client::Caller;
use crate::cli::nodes::{children, data, in_session};
use crate::cli::topics::{Partition, read_tree};
use crate::config::{Listener, SecurityProtocol};
use crate::metastore::schema::{ClusterId, Controller, ControllerEpoch, Registration, paths};
use crate::metastore::{Error, Metastore};
use crate::types::BrokerId;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    pub cluster_id: Option<String>,
    pub controller: Option<i32>,
    /// Clients are not told.
    pub controller_epoch: Option<i32>,
    /// Registered ones.
    pub brokers: BTreeMap<i32, Broker>,
    /// Of all topics.
    pub partitions: Vec<Partition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Broker {
    /// `host:port`, of a listener without encryption where there is one.
    pub address: String,
    pub rack: Option<String>,
    /// Clients are not told.
    pub epoch: Option<i64>,
}

impl View {
    /// `bootstrap`: `host:port,host:port`.
    pub fn of_broker(bootstrap: &str) -> anyhow::Result<View> {
        let told = Admin::connect(bootstrap, Caller::default())?.metadata()?;
        let mut view = View { cluster_id: told.cluster_id.map(|id| id.to_string()), ..View::default() };
        view.controller = Some(told.controller_id.0).filter(|id| *id >= 0);
        for broker in told.brokers {
            let address = format!("{}:{}", broker.host, broker.port);
            let rack = broker.rack.map(|rack| rack.to_string());
            view.brokers.insert(broker.node_id.0, Broker { address, rack, epoch: None });
        }
        view.partitions = told.topics.iter().flat_map(|topic| &topic.partitions).map(Partition::from).collect();
        Ok(view)
    }

    /// `connect`: `host:port,host:port/chroot` of ZooKeeper.
    pub fn of_nodes(connect: &str) -> anyhow::Result<View> {
        in_session(connect, read)
    }
}

async fn read(store: &dyn Metastore) -> anyhow::Result<View> {
    let mut view = View::default();
    if let Some(bytes) = data(store, paths::CLUSTER_ID).await? {
        view.cluster_id = Some(ClusterId::decode(paths::CLUSTER_ID, &bytes)?.0);
    }
    if let Some(bytes) = data(store, paths::CONTROLLER).await? {
        view.controller = Some(Controller::decode(paths::CONTROLLER, &bytes)?.broker_id.0);
    }
    if let Some(bytes) = data(store, paths::CONTROLLER_EPOCH).await? {
        view.controller_epoch = Some(ControllerEpoch::decode(paths::CONTROLLER_EPOCH, &bytes)?.0);
    }
    for id in children(store, paths::BROKER_IDS).await?.iter().filter_map(|id| id.parse().ok()) {
        let path = paths::broker(BrokerId(id));
        let (bytes, stat) = match store.get(&path).await {
            Ok(node) => node,
            // Gone since its parent was read.
            Err(Error::NoNode(_)) => continue,
            Err(error) => return Err(error.into()),
        };
        let registration = Registration::decode(&path, &bytes)?;
        let plain = |listener: &&Listener| listener.protocol == SecurityProtocol::Plaintext;
        let listener = registration.listeners.iter().find(plain).or(registration.listeners.first());
        let address = listener.map_or_else(String::new, |listener| format!("{}:{}", listener.host, listener.port));
        view.brokers.insert(id, Broker { address, rack: registration.rack, epoch: Some(stat.czxid) });
    }
    let (topics, _) = read_tree(store, |_| true).await?;
    view.partitions = topics.into_iter().flat_map(|topic| topic.partitions).collect();
    Ok(view)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::ManualClock;
    use crate::metastore::CreateMode;
    use crate::metastore::embedded::EmbeddedStore;

    #[tokio::test]
    async fn nodes_tell_epochs_and_an_empty_tree_tells_nothing() {
        let store = EmbeddedStore::in_memory(Arc::new(ManualClock::at(0))).session();
        assert_eq!(read(&*store).await.unwrap(), View::default());
        let registered = r#"{"listener_security_protocol_map":{"IN":"SSL","OUT":"PLAINTEXT"},"rack":"a","jmx_port":-1,
            "endpoints":["IN://h:1","OUT://h:2"],"host":null,"version":5,"port":-1,"timestamp":"1","features":{}}"#;
        let state = r#"{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":0,"isr":[2]}"#;
        for (path, data) in [
            ("/cluster/id", r#"{"version":"1","id":"x"}"#),
            ("/controller", r#"{"version":2,"brokerid":2,"timestamp":"1","kraftControllerEpoch":-1}"#),
            ("/controller_epoch", "7"),
            ("/brokers/ids/2", registered),
            ("/brokers/topics/t", r#"{"version":1,"partitions":{"0":[1,2]}}"#),
            ("/brokers/topics/t/partitions/0/state", state),
        ] {
            let parent = path.rsplit_once('/').unwrap().0;
            if !parent.is_empty() {
                crate::cluster::ensure_path(&*store, parent).await.unwrap();
            }
            store.create(path, Some(data.into()), CreateMode::Persistent).await.unwrap();
        }
        let view = read(&*store).await.unwrap();
        let told = (view.cluster_id.as_deref(), view.controller, view.controller_epoch);
        assert_eq!(told, (Some("x"), Some(2), Some(7)));
        let (_, stat) = store.get("/brokers/ids/2").await.unwrap();
        let broker = Broker { address: "h:2".to_owned(), rack: Some("a".to_owned()), epoch: Some(stat.czxid) };
        assert_eq!(view.brokers, BTreeMap::from([(2, broker)]));
        assert_eq!(view.partitions.len(), 1);
    }
}
