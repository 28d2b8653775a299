//! What old tools, old brokers and operators with an editor write into the tree.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use crate::config::BrokerConfig;
use crate::controller::testing::{Node, tree};
use crate::metastore::embedded::EmbeddedStore;
use crate::metastore::schema::{Controller, ControllerEpoch, paths};
use crate::metastore::{CreateMode, Error, Metastore, MultiError, Op, OpResult, SessionState, Sessions, Stat, Watch};
use crate::types::{BrokerId, TopicId};

impl Node {
    async fn write(&self, path: &str, data: impl Into<Bytes>) {
        let data = data.into();
        if self.eyes.set(path, data.clone(), -1).await.is_err() {
            self.eyes.create(path, Some(data), CreateMode::Persistent).await.unwrap();
        }
    }

    async fn until_gone(&self, path: &str) {
        let gone = async {
            while let (Some(_), watch) = self.eyes.exists_watch(path).await.unwrap() {
                watch.await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap_or_else(|_| panic!("{path} stays"));
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_old_tools_go_when_they_are_done() {
    let node = Node::fresh().await;
    node.create("t", 1, &[]).await;
    let elect = r#"{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"no such","partition":9}]}"#;
    let moved = r#"{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}"#;
    // Each is watched for again.
    for _ in 0..2 {
        node.write("/admin/preferred_replica_election", elect).await;
        node.until_gone("/admin/preferred_replica_election").await;
        node.write("/admin/reassign_partitions", moved).await;
        node.until_gone("/admin/reassign_partitions").await;
    }
    node.write("/admin/preferred_replica_election", "nonsense").await;
    node.until_gone("/admin/preferred_replica_election").await;
    node.write("/admin/reassign_partitions", "nonsense").await;
    node.create("u", 1, &[]).await;
    assert!(node.node("/admin/reassign_partitions").await.is_some(), "left to whoever wrote it");
    node.write("/admin/reassign_partitions", moved).await;
    node.until_gone("/admin/reassign_partitions").await;
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_the_next_controller() {
    let tree = tree();
    let dir = tempfile::tempdir().unwrap();
    let eyes = tree.session();
    for path in ["/admin/preferred_replica_election", "/admin/reassign_partitions"] {
        let request = Bytes::from_static(br#"{"version":1,"partitions":[]}"#);
        crate::cluster::ensure_path(&*eyes, "/admin").await.unwrap();
        eyes.create(path, Some(request), CreateMode::Persistent).await.unwrap();
    }
    let node = Node::start(1, tree, dir.path(), BrokerConfig::default()).await;
    node.until_gone("/admin/preferred_replica_election").await;
    let moved = r#"{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}"#;
    node.write("/admin/reassign_partitions", moved).await;
    node.until_gone("/admin/reassign_partitions").await;
}

#[tokio::test(start_paused = true)]
async fn an_isr_that_a_leader_wrote_is_told_to_all() {
    let node = Node::fresh().await;
    node.create("t", 1, &[]).await;
    node.write("/isr_change_notification/isr_change_0000000007", "nonsense").await;
    let state = r#"{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}"#;
    node.write("/brokers/topics/t/partitions/0/state", state).await;
    let change = r#"{"version":1,"partitions":[{"topic":"t","partition":0}]}"#;
    node.write("/isr_change_notification/isr_change_0000000008", change).await;
    node.until(|snapshot| snapshot.topics["t"].partitions[&0].partition_epoch == 1).await;
    for number in [7, 8] {
        node.until_gone(&format!("/isr_change_notification/isr_change_000000000{number}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_is_nonsense_is_set_aside_until_it_is_mended() {
    let node = Node::fresh().await;
    node.write("/brokers/topics/odd", "{").await;
    node.create("t", 1, &[]).await;
    assert!(!node.cluster.load().topics.contains_key("odd"));
    let id = TopicId(uuid::Uuid::from_u128(5));
    let mended = format!(r#"{{"version":3,"partitions":{{"0":[1]}},"topic_id":"{id}"}}"#);
    node.write("/brokers/topics/odd", mended).await;
    assert!(node.admin.wait_for_leaders("odd", 1, 20_000).await);
}

#[tokio::test(start_paused = true)]
async fn what_is_nonsense_costs_a_new_controller_that_partition_alone() {
    let (tree, dir) = (tree(), tempfile::tempdir().unwrap());
    let first = Node::start(1, tree.clone(), dir.path(), BrokerConfig::default()).await;
    first.create("t", 2, &[]).await;
    let nonsense = [r#"{"leader":"me"}"#, "", "\u{0}"];
    for (broker, data) in nonsense.iter().enumerate() {
        first.write(&format!("/brokers/ids/{}", broker + 7), *data).await;
    }
    first.write("/brokers/topics/t/partitions/1/state", nonsense[0]).await;
    first.controller.stop();
    first.table.logs().close();
    tree.expire(first.session.store().session_id()).await.unwrap();
    drop(first);

    let second = Node::start(1, tree, dir.path(), BrokerConfig::default()).await;
    second.until(|snapshot| snapshot.topics.contains_key("t")).await;
    second.create("u", 1, &[]).await;
    let snapshot = second.cluster.load();
    assert_eq!(snapshot.topics["t"].partitions.keys().copied().collect::<Vec<_>>(), [0]);
    assert_eq!(snapshot.brokers.len(), 1);
    let kept = second.node("/brokers/topics/t/partitions/1/state").await.map(|(data, ..)| data);
    assert_eq!(kept.as_deref(), Some(nonsense[0]), "left to whoever wrote it");
}

#[tokio::test(start_paused = true)]
async fn the_balance_of_leaders_is_looked_at_again_and_again() {
    let node = Node::fresh().await;
    let created = node.create("t", 1, &[]).await;
    // Broker 1 leads what broker 2 should; a stranger to this tree, registered by hand.
    let other = node.tree.session();
    let registration = node.eyes.get("/brokers/ids/1").await.unwrap().0;
    let registration = String::from_utf8(registration.to_vec()).unwrap().replace("24001", "24002");
    other.create("/brokers/ids/2", Some(registration.into()), CreateMode::Ephemeral).await.unwrap();
    node.until(|snapshot| snapshot.brokers.len() == 2).await;
    let topic = format!(r#"{{"version":3,"partitions":{{"0":[1],"1":[2,1]}},"topic_id":"{}"}}"#, created.id);
    node.write("/brokers/topics/t", topic).await;
    let led_by = |leader: i32| {
        move |snapshot: &crate::cluster::Snapshot| {
            snapshot.topics["t"].partitions.get(&1).is_some_and(|partition| partition.leader.0 == leader)
        }
    };
    node.until(led_by(2)).await;
    for leader_epoch in [7, 17] {
        let state =
            format!(r#"{{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":{leader_epoch},"isr":[1,2]}}"#);
        node.write("/brokers/topics/t/partitions/1/state", state).await;
        let change = r#"{"version":1,"partitions":[{"topic":"t","partition":1}]}"#;
        node.write("/isr_change_notification/isr_change_0000000001", change).await;
        node.until(led_by(1)).await;
        let mut changes = node.cluster.changes();
        while !led_by(2)(&node.cluster.load()) {
            changes.changed().await.unwrap();
        }
    }
}

/// Sessions whose first election is followed at once by that of broker 9.
#[derive(Clone)]
struct Dethroned {
    inner: Arc<dyn Metastore>,
    tree: Arc<EmbeddedStore>,
    successor: Arc<dyn Metastore>,
    done: Arc<AtomicBool>,
}

#[async_trait]
impl Sessions for Dethroned {
    async fn open_session(&self) -> Result<Arc<dyn Metastore>, Error> {
        Ok(Arc::new(Dethroned { inner: self.tree.session(), ..self.clone() }))
    }
}

#[async_trait]
impl Metastore for Dethroned {
    async fn multi(&self, ops: Vec<Op>) -> Result<Vec<OpResult>, MultiError> {
        let elects = ops.iter().any(|op| matches!(op, Op::Create { path, .. } if path == paths::CONTROLLER));
        let results = self.inner.multi(ops).await?;
        if elects && !self.done.swap(true, Ordering::SeqCst) {
            let own = Controller { broker_id: BrokerId(9), timestamp_ms: 0, kraft_controller_epoch: -1 };
            let (path, data) = (paths::CONTROLLER.to_owned(), Some(own.encode()));
            let ops = vec![
                Op::Set { path: paths::CONTROLLER_EPOCH.into(), data: ControllerEpoch(7).encode(), version: -1 },
                Op::Delete { path: path.clone(), version: -1 },
                Op::Create { path, data, mode: CreateMode::Ephemeral },
            ];
            self.successor.multi(ops).await?;
        }
        Ok(results)
    }
    async fn create(&self, path: &str, data: Option<Bytes>, mode: CreateMode) -> Result<String, Error> {
        self.inner.create(path, data, mode).await
    }
    async fn get(&self, path: &str) -> Result<(Bytes, Stat), Error> {
        self.inner.get(path).await
    }
    async fn get_watch(&self, path: &str) -> Result<(Bytes, Stat, Watch), Error> {
        self.inner.get_watch(path).await
    }
    async fn exists(&self, path: &str) -> Result<Option<Stat>, Error> {
        self.inner.exists(path).await
    }
    async fn exists_watch(&self, path: &str) -> Result<(Option<Stat>, Watch), Error> {
        self.inner.exists_watch(path).await
    }
    async fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        self.inner.children(path).await
    }
    async fn children_watch(&self, path: &str) -> Result<(Vec<String>, Watch), Error> {
        self.inner.children_watch(path).await
    }
    async fn set(&self, path: &str, data: Bytes, version: i32) -> Result<Stat, Error> {
        self.inner.set(path, data, version).await
    }
    async fn delete(&self, path: &str, version: i32) -> Result<(), Error> {
        self.inner.delete(path, version).await
    }
    async fn sync(&self, path: &str) -> Result<(), Error> {
        self.inner.sync(path).await
    }
    fn session_id(&self) -> i64 {
        self.inner.session_id()
    }
    fn session_states(&self) -> watch::Receiver<SessionState> {
        self.inner.session_states()
    }
}

#[tokio::test(start_paused = true)]
async fn an_office_that_is_lost_before_it_is_taken_is_not_taken() {
    let (tree, dir) = (tree(), tempfile::tempdir().unwrap());
    let successor = tree.session();
    let sessions =
        Dethroned { inner: tree.session(), tree: tree.clone(), successor: successor.clone(), done: Arc::default() };
    let node = Node::begin_through(Arc::new(sessions), 1, tree.clone(), dir.path(), BrokerConfig::default()).await;
    // On a clock that moves only when everybody waits.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(node.node(paths::CONTROLLER).await.unwrap().0.contains(r#""brokerid":9"#));
    assert!(!node.controller.is_active(), "two take themselves for the controller");
    assert!(node.sent.lock().is_empty(), "nobody is told anything");
    tree.expire(successor.session_id()).await.unwrap();
    node.until(|snapshot| snapshot.controller == Some(BrokerId(1))).await;
}
