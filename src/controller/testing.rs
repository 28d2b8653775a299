//! A whole control plane in one current-thread runtime, over an embedded tree and a directory of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::admin::{Admin, CreatedTopic, NewTopic};
use super::channel::{Peer, Peers};
use super::driver::Parts;
use super::message::ControlRequest;
use super::receiver::ControlReceiver;
use super::rpc::remote::OwnBroker;
use super::{ControllerHandle, start};
use crate::clock::{Clock, ManualClock};
use crate::cluster::{Broker, Cluster, DynamicConfigs, Registrar, Session, Snapshot, ensure_path};
use crate::config::{BrokerConfig, Listener, SecurityProtocol, TopicConfig};
use crate::metastore::embedded::EmbeddedStore;
use crate::metastore::schema::paths;
use crate::metastore::{Error, Metastore, Sessions};
use crate::quota::Mutations;
use crate::random::{Random, SeededRandom};
use crate::replication::table::{PartitionTable, Surroundings};
use crate::sim::brokers::Inline;
use crate::spawn::Spawner;
use crate::storage::disk_real::RealDisk;
use crate::storage::manager::LogManager;
use crate::types::BrokerId;

/// Sessions of one tree.
struct TreeSessions(Arc<EmbeddedStore>);

#[async_trait]
impl Sessions for TreeSessions {
    async fn open_session(&self) -> Result<Arc<dyn Metastore>, Error> {
        Ok(self.0.session())
    }
}

/// One broker's control plane.
pub struct Node {
    pub tree: Arc<EmbeddedStore>,
    /// A session beside the broker's, to look with.
    pub eyes: Arc<dyn Metastore>,
    pub session: Arc<Session>,
    pub table: Arc<PartitionTable>,
    pub cluster: Arc<Cluster>,
    pub configs: Arc<DynamicConfigs>,
    pub receiver: Arc<ControlReceiver>,
    pub controller: ControllerHandle,
    pub admin: Admin,
    /// Everything the controller sent, in order.
    pub sent: Arc<Mutex<Vec<ControlRequest>>>,
    _dir: Option<tempfile::TempDir>,
}

/// This broker alone: every other one is out of reach.
struct OnlyMe {
    broker: BrokerId,
    receiver: Arc<ControlReceiver>,
    spawner: Arc<dyn Spawner>,
}

impl Peers for OnlyMe {
    fn peer(&self, broker: &Broker) -> Option<Arc<dyn Peer>> {
        let own = || OwnBroker { receiver: self.receiver.clone(), spawner: self.spawner.clone() };
        (broker.id == self.broker).then(|| Arc::new(own()) as Arc<dyn Peer>)
    }
}

/// Notes what is sent before it is delivered.
struct Recorder {
    inner: OnlyMe,
    sent: Arc<Mutex<Vec<ControlRequest>>>,
}

struct RecordedPeer {
    inner: Arc<dyn Peer>,
    sent: Arc<Mutex<Vec<ControlRequest>>>,
}

impl Peers for Recorder {
    fn peer(&self, broker: &Broker) -> Option<Arc<dyn Peer>> {
        let inner = self.inner.peer(broker)?;
        Some(Arc::new(RecordedPeer { inner, sent: self.sent.clone() }))
    }
}

#[async_trait]
impl Peer for RecordedPeer {
    async fn control(&self, request: ControlRequest) -> super::message::ControlAnswer {
        self.sent.lock().push(request.clone());
        self.inner.control(request).await
    }
}

pub fn tree() -> Arc<EmbeddedStore> {
    EmbeddedStore::in_memory(Arc::new(ManualClock::at(1_000)))
}

impl Node {
    /// Broker 1 on a fresh tree and a fresh directory.
    pub async fn fresh() -> Node {
        let dir = tempfile::tempdir().unwrap();
        let mut node = Node::start(1, tree(), dir.path(), BrokerConfig::default()).await;
        node._dir = Some(dir);
        node
    }

    pub async fn start(id: i32, tree: Arc<EmbeddedStore>, dir: &std::path::Path, config: BrokerConfig) -> Node {
        let node = Node::begin(id, tree, dir, config).await;
        node.until(|snapshot| snapshot.controller.is_some()).await;
        node
    }

    /// Without waiting for word from a controller.
    pub async fn begin(id: i32, tree: Arc<EmbeddedStore>, dir: &std::path::Path, config: BrokerConfig) -> Node {
        let sessions = Arc::new(TreeSessions(tree.clone()));
        Node::begin_through(sessions, id, tree, dir, config).await
    }

    /// As [`Node::begin`], with other sessions of `tree`.
    pub async fn begin_through(
        sessions: Arc<dyn Sessions>,
        id: i32,
        tree: Arc<EmbeddedStore>,
        dir: &std::path::Path,
        config: BrokerConfig,
    ) -> Node {
        let id = BrokerId(id);
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(1_000));
        let random: Arc<dyn Random> = Arc::new(SeededRandom::new(7));
        let spawner: Arc<dyn Spawner> = Arc::new(Inline);
        let config = Arc::new(BrokerConfig { log_dirs: vec![dir.to_path_buf()], ..config });
        let logs = LogManager::open(Arc::new(RealDisk), clock.clone(), random.clone(), config.clone()).unwrap();
        let logs = Arc::new(logs);
        logs.claim(id, "cluster").unwrap();
        let eyes = tree.session();
        for path in paths::STARTUP {
            ensure_path(&*eyes, path).await.unwrap();
        }
        logs.load(&|_| None).unwrap();
        let session = Arc::new(Session::open(sessions).await.unwrap());
        let cluster = Arc::new(Cluster::new(Snapshot::default()));
        let configs = Arc::new(DynamicConfigs::default());
        let around = Surroundings {
            broker: id,
            clock: clock.clone(),
            spawner: spawner.clone(),
            cluster: cluster.clone(),
            replica_lag_time_max_ms: 30_000,
            flush_queues: Default::default(),
            isr_changes: Default::default(),
            leader_checks: Default::default(),
        };
        let (resolved, defaults) = (configs.clone(), config.topic_defaults.clone());
        let table = Arc::new(PartitionTable::new(
            around,
            logs,
            Box::new(move |topic| {
                let overrides = resolved.load().topics.get(topic).cloned().unwrap_or_default();
                Arc::new(TopicConfig::resolve_stored(&defaults, &overrides).0)
            }),
        ));
        let receiver = Arc::new(ControlReceiver::new(
            table.clone(),
            cluster.clone(),
            configs.clone(),
            session.clone(),
            spawner.clone(),
            Arc::new(|_| ()),
        ));
        let sent = Arc::new(Mutex::new(Vec::new()));
        let registrar = Registrar {
            broker: id,
            advertised: vec![Listener {
                name: "PLAINTEXT".into(),
                protocol: SecurityProtocol::Plaintext,
                host: "127.0.0.1".into(),
                port: 24000 + id.0 as u16,
            }],
            rack: None,
            session_timeout: Duration::from_secs(18),
            notes: None,
        };
        let peers = Recorder {
            inner: OnlyMe { broker: id, receiver: receiver.clone(), spawner: spawner.clone() },
            sent: sent.clone(),
        };
        let parts = Parts {
            broker: id,
            session: session.clone(),
            registrar,
            receiver: receiver.clone(),
            peers: Box::new(peers),
            config: config.clone(),
            configs: configs.clone(),
            clock,
            random: random.clone(),
            spawner,
            failover: None,
        };
        let controller = start(parts, None, configs.clone(), table.clone(), Box::new(|_, _| {})).await.unwrap();
        let admin =
            Admin::new(controller.clone(), session.clone(), cluster.clone(), configs.clone(), id, config, random);
        Node { tree, eyes, session, table, cluster, configs, receiver, controller, admin, sent, _dir: None }
    }

    /// Until this broker's metadata is as wanted.
    pub async fn until(&self, wanted: impl Fn(&Snapshot) -> bool) {
        let mut changes = self.cluster.changes();
        let wait = async {
            while !wanted(&self.cluster.load()) {
                changes.changed().await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(20), wait).await.expect("metadata became as wanted");
    }

    pub async fn create(&self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> CreatedTopic {
        let topic = NewTopic {
            name: name.into(),
            num_partitions: partitions,
            replication_factor: 1,
            assignments: BTreeMap::new(),
            configs: configs.iter().map(|(key, value)| ((*key).into(), Some((*value).into()))).collect(),
        };
        let created = self.admin.create_topic(topic, false, &mut Mutations::unlimited()).await.unwrap();
        assert!(self.admin.wait_for_leaders(name, partitions, 20_000).await);
        created
    }

    /// A node's data and its data and child versions.
    pub async fn node(&self, path: &str) -> Option<(String, i32, i32)> {
        let (data, stat) = self.eyes.get(path).await.ok()?;
        Some((String::from_utf8(data.to_vec()).unwrap(), stat.version, stat.cversion))
    }
}
