//! Brokers die, or seem to, while others watch, and no session ever ends: what was committed is there, and nobody waits.
//! Time is simulated.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use kafka_protocol::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use kafka_protocol::messages::update_metadata_request::{UpdateMetadataBroker, UpdateMetadataEndpoint};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use klamm::broker::Store;
use klamm::metastore::embedded::EmbeddedStore;
use klamm::metastore::{CreateMode, Error, Metastore, MultiError, Op, OpResult, SessionState, Sessions, Stat, Watch};
use klamm::net::Listener;
use klamm::sim::brokers::{Remains, World};
use klamm::types::BrokerId as Id;
use tokio::sync::watch;
use tokio::time::Instant;

#[path = "support/sim_client.rs"]
mod sim_client;
#[path = "support/trio.rs"]
mod trio;
use sim_client::Client;
use trio::{Trio, partitions, run};

const ON: &str = "klamm.fast.failover.enable=true";
const QUIET: &str = "auto.leader.rebalance.enable=false";

/// Has the topic made by the controller, with a partition on all three that `leader` leads.
async fn create(trio: &mut Trio, controller: i32, name: &'static str, leader: i32) -> i16 {
    let replicas: Vec<BrokerId> = (0..3).map(|nth| BrokerId(1 + (leader - 1 + nth) % 3)).collect();
    let assignment = CreatableReplicaAssignment::default().with_partition_index(0).with_broker_ids(replicas);
    let topic = CreatableTopic::default()
        .with_name(TopicName(StrBytes::from_static_str(name)))
        .with_num_partitions(-1)
        .with_replication_factor(-1)
        .with_assignments(vec![assignment]);
    let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(5_000);
    trio.client(controller).ask(7, request).await.topics[0].error_code
}

/// Three brokers and the topic `t`, led by `leader`, with five records that are committed.
async fn begun(seed: u64, overrides: &[&str], leader: i32) -> Trio {
    let mut trio = Trio::start(seed, &[&[ON, QUIET, "min.insync.replicas=2"], overrides].concat()).await;
    assert_eq!(create(&mut trio, 1, "t", leader).await, 0);
    for id in 1..=3 {
        trio.client(id).metadata_until(|metadata| partitions(metadata).iter().any(|it| it.isr_nodes.len() == 3)).await;
    }
    for n in 0..5_u8 {
        assert_eq!(trio.client(leader).produce("t", &[n]).await, i64::from(n));
    }
    trio
}

/// As SIGKILL does. Its sessions go on.
async fn kill(trio: &mut Trio, id: i32) -> Remains {
    trio.brokers.remove(&id).expect("it runs").kill().await
}

/// In order of the ids.
fn isr(metadata: &MetadataResponse) -> Vec<i32> {
    let mut isr: Vec<i32> = partitions(metadata)[0].isr_nodes.iter().map(|id| id.0).collect();
    isr.sort_unstable();
    isr
}

async fn controller_epoch(trio: &Trio) -> String {
    let (data, _) = trio.world.tree.session().get("/controller_epoch").await.expect("it is there");
    String::from_utf8(data.to_vec()).expect("a number")
}

/// The other two.
fn others(than: i32) -> Vec<i32> {
    (1..=3).filter(|id| *id != than).collect()
}

#[test]
fn a_dead_leader_is_replaced_within_a_second() {
    run(async {
        for (seed, victim) in [(1, 2), (2, 1)] {
            let mut trio = begun(seed, &[], victim).await;
            let begun = Instant::now();
            let _remains = kill(&mut trio, victim).await;
            let (mut leader, mut controller) = (victim, victim);
            for id in others(victim) {
                let metadata = trio
                    .client(id)
                    .metadata_until(|metadata| {
                        let leader = partitions(metadata)[0].leader_id.0;
                        ![-1, victim].contains(&leader) && ![-1, victim].contains(&metadata.controller_id.0)
                    })
                    .await;
                assert_eq!(isr(&metadata), others(victim));
                assert_eq!(metadata.brokers.len(), 2, "who is taken for dead is not told of");
                (leader, controller) = (partitions(&metadata)[0].leader_id.0, metadata.controller_id.0);
            }
            assert_eq!(trio.client(leader).produce("t", b"after").await, 5);
            let id = trio.client(leader).metadata().await.topics[0].topic_id;
            let values = trio.client(leader).fetch(id).await;
            assert_eq!(values.len(), 6);
            assert_eq!(create(&mut trio, controller, "u", leader).await, 0, "there is a controller");
            assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
            trio.stop().await;
        }
    });
}

#[test]
fn a_dead_follower_holds_up_no_write() {
    run(async {
        let mut trio = begun(3, &[], 2).await;
        let begun = Instant::now();
        let _remains = kill(&mut trio, 3).await;
        assert_eq!(trio.client(2).produce("t", b"after").await, 5);
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        assert_eq!(isr(&trio.client(2).metadata_until(|metadata| isr(metadata).len() == 2).await), [1, 2]);
        trio.stop().await;
    });
}

/// As the kernel does it with a process that ends: connections are closed first, ports last. Whoever is told of the end of
/// a connection looks at once, and finds the port open.
#[test]
fn a_port_that_outlives_its_process_for_a_moment_is_no_life() {
    run(async {
        for (seed, victim) in [(11, 1), (12, 2), (13, 3)] {
            let mut trio = begun(seed, &[], 2).await;
            let begun = Instant::now();
            let port = trio.world.net.listener("PLAINTEXT", World::port(victim));
            port.start().expect("a port of its own");
            let _remains = kill(&mut trio, victim).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
            drop(port);
            for id in others(victim) {
                let is_over = |metadata: &MetadataResponse| {
                    metadata.brokers.len() == 2 && metadata.controller_id.0 != victim && isr(metadata) == others(victim)
                };
                trio.client(id).metadata_until(is_over).await;
            }
            let leader = partitions(&trio.client(others(victim)[0]).metadata().await)[0].leader_id.0;
            assert_eq!(trio.client(leader).produce("t", b"after").await, 5);
            assert!(begun.elapsed() < Duration::from_secs(1), "{victim}: {:?}", begun.elapsed());
            trio.stop().await;
        }
    });
}

/// A metastore that is slow to say who is registered.
struct Slow(Arc<EmbeddedStore>);

#[async_trait]
impl Sessions for Slow {
    async fn open_session(&self) -> Result<Arc<dyn Metastore>, Error> {
        Ok(Arc::new(SlowSession(self.0.session())))
    }
}

struct SlowSession(Arc<dyn Metastore>);

impl SlowSession {
    async fn of(&self, path: &str) -> &dyn Metastore {
        if path.starts_with("/brokers/ids") {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        &*self.0
    }
}

#[async_trait]
impl Metastore for SlowSession {
    async fn create(&self, path: &str, data: Option<Bytes>, mode: CreateMode) -> Result<String, Error> {
        self.0.create(path, data, mode).await
    }
    async fn get(&self, path: &str) -> Result<(Bytes, Stat), Error> {
        self.of(path).await.get(path).await
    }
    async fn get_watch(&self, path: &str) -> Result<(Bytes, Stat, Watch), Error> {
        self.of(path).await.get_watch(path).await
    }
    async fn exists(&self, path: &str) -> Result<Option<Stat>, Error> {
        self.of(path).await.exists(path).await
    }
    async fn exists_watch(&self, path: &str) -> Result<(Option<Stat>, Watch), Error> {
        self.of(path).await.exists_watch(path).await
    }
    async fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        self.of(path).await.children(path).await
    }
    async fn children_watch(&self, path: &str) -> Result<(Vec<String>, Watch), Error> {
        self.of(path).await.children_watch(path).await
    }
    async fn set(&self, path: &str, data: Bytes, version: i32) -> Result<Stat, Error> {
        self.0.set(path, data, version).await
    }
    async fn delete(&self, path: &str, version: i32) -> Result<(), Error> {
        self.0.delete(path, version).await
    }
    async fn multi(&self, ops: Vec<Op>) -> Result<Vec<OpResult>, MultiError> {
        self.0.multi(ops).await
    }
    async fn sync(&self, path: &str) -> Result<(), Error> {
        self.0.sync(path).await
    }
    fn session_id(&self) -> i64 {
        self.0.session_id()
    }
    fn session_states(&self) -> watch::Receiver<SessionState> {
        self.0.session_states()
    }
}

/// The controller, which leads, dies as soon as the two others are back and in sync.
#[test]
fn who_has_just_started_knows_whose_connections_it_has() {
    run(async {
        let mut trio = begun(14, &[], 1).await;
        for id in [2, 3] {
            let remains = kill(&mut trio, id).await;
            let overrides = [ON, QUIET, "min.insync.replicas=2"].map(str::to_owned);
            let store = Store::Sessions(Arc::new(Slow(trio.world.tree.clone())));
            let again = trio.world.start_with(store, id, Some(remains.disk), &overrides).expect("a configuration");
            trio.brokers.insert(id, again);
            trio.clients[id as usize - 1] = Client::connect(&trio.world, id).await;
            trio.client(id).metadata_until(|metadata| metadata.brokers.len() == 3 && isr(metadata).len() == 3).await;
        }
        let begun = Instant::now();
        let _remains = kill(&mut trio, 1).await;
        let is_over = |metadata: &MetadataResponse| metadata.controller_id.0 != 1 && isr(metadata) == [2, 3];
        let metadata = trio.client(2).metadata_until(is_over).await;
        let leader = partitions(&metadata)[0].leader_id.0;
        trio.client(leader).metadata_until(is_over).await;
        assert_eq!(trio.client(leader).produce("t", b"after").await, 5);
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        trio.stop().await;
    });
}

/// NOT_ENOUGH_REPLICAS where a short wait may be all would be worse.
#[test]
fn a_dead_follower_that_is_needed_stays_in_the_isr() {
    run(async {
        let mut trio = begun(4, &["min.insync.replicas=3"], 2).await;
        let remains = kill(&mut trio, 3).await;
        let epoch_before = partitions(&trio.client(2).metadata().await)[0].leader_epoch;
        trio.client(2).metadata_until(|metadata| metadata.brokers.len() == 2).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let metadata = trio.client(2).metadata().await;
        assert_eq!((isr(&metadata), partitions(&metadata)[0].leader_epoch), (vec![1, 2, 3], epoch_before));
        let overrides = [ON, QUIET, "min.insync.replicas=3"].map(str::to_owned);
        let again = trio.world.start(3, Some(remains.disk), &overrides).expect("a configuration");
        trio.brokers.insert(3, again);
        let is_back = |metadata: &MetadataResponse| metadata.brokers.len() == 3 && isr(metadata).len() == 3;
        trio.client(2).metadata_until(is_back).await;
        assert_eq!(trio.client(2).produce("t", b"after").await, 5);
        trio.stop().await;
    });
}

#[test]
fn without_the_key_the_session_decides() {
    run(async {
        let mut trio = begun(5, &["klamm.fast.failover.enable=false"], 2).await;
        let _remains = kill(&mut trio, 2).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let metadata = trio.client(3).metadata().await;
        assert_eq!((partitions(&metadata)[0].leader_id.0, metadata.brokers.len()), (2, 3));
        trio.stop().await;
    });
}

/// REJECT with a reset, both ways: the broker lives and is not reached.
fn cut_off(trio: &Trio, id: i32) {
    for other in others(id) {
        for way in [trio.world.net.way(Id(other), World::port(id)), trio.world.net.way(Id(id), World::port(other))] {
            way.refuse();
            way.cut();
        }
    }
}

fn heal(trio: &Trio, id: i32) {
    for other in others(id) {
        trio.world.net.way(Id(other), World::port(id)).heal();
        trio.world.net.way(Id(id), World::port(other)).heal();
    }
}

#[test]
fn a_controller_that_lives_behind_a_port_that_refuses_is_replaced_once() {
    run(async {
        let mut trio = begun(6, &[], 1).await;
        cut_off(&trio, 1);
        let metadata = trio.client(2).metadata_until(|metadata| ![-1, 1].contains(&metadata.controller_id.0)).await;
        let controller = metadata.controller_id.0;
        trio.client(3).metadata_until(|metadata| ![1, -1].contains(&partitions(metadata)[0].leader_id.0)).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(controller_epoch(&trio).await, "2");
        let leader = partitions(&trio.client(3).metadata().await)[0].leader_id.0;
        assert_eq!(trio.client(leader).produce("t", b"after").await, 5);
        // What it still takes itself for is no more than a name.
        assert_eq!(trio.client(1).try_produce("t", b"lost").await, Err(6));
        heal(&trio, 1);
        for id in 1..=3 {
            let wanted =
                |metadata: &MetadataResponse| metadata.controller_id.0 == controller && isr(metadata).len() == 3;
            trio.client(id).metadata_until(wanted).await;
        }
        assert_eq!(controller_epoch(&trio).await, "2");
        let id = trio.client(leader).metadata().await.topics[0].topic_id;
        assert_eq!(trio.client(leader).fetch(id).await.len(), 6);
        trio.stop().await;
    });
}

#[test]
fn a_controller_that_finds_everybody_refusing_is_the_one_that_is_cut_off() {
    run(async {
        let mut trio = begun(7, &[], 2).await;
        for other in [2, 3] {
            let way = trio.world.net.way(Id(1), World::port(other));
            way.refuse();
            way.cut();
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(controller_epoch(&trio).await, "1");
        let metadata = trio.client(1).metadata().await;
        assert_eq!((metadata.brokers.len(), partitions(&metadata)[0].leader_id.0), (3, 2));
        trio.stop().await;
    });
}

#[test]
fn a_suspect_is_nothing_new_when_another_broker_joins() {
    run(async {
        let mut trio = begun(8, &[], 2).await;
        let _remains = kill(&mut trio, 3).await;
        trio.client(2).metadata_until(|metadata| metadata.brokers.len() == 2).await;
        let overrides = [ON, QUIET].map(str::to_owned);
        let fourth = trio.world.start(4, None, &overrides).expect("a configuration");
        trio.brokers.insert(4, fourth);
        let joined = trio.client(2).metadata_until(|metadata| metadata.brokers.len() == 3).await;
        let mut ids: Vec<i32> = joined.brokers.iter().map(|broker| broker.node_id.0).collect();
        ids.sort_unstable();
        assert_eq!((ids, isr(&joined)), (vec![1, 2, 4], vec![1, 2]));
        trio.stop().await;
    });
}

/// Its connections end as those of a dead one do, and whoever asks finds that its port takes connections.
#[test]
fn who_stands_still_is_not_taken_for_dead() {
    run(async {
        let mut trio = begun(9, &["replica.lag.time.max.ms=60000"], 2).await;
        let ways: Vec<_> = others(3)
            .into_iter()
            .flat_map(|other| {
                [trio.world.net.way(Id(other), World::port(3)), trio.world.net.way(Id(3), World::port(other))]
            })
            .collect();
        for way in &ways {
            way.stall();
            way.cut();
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        ways.iter().for_each(|way| way.heal());
        let metadata = trio.client(2).metadata().await;
        assert_eq!((metadata.brokers.len(), isr(&metadata).len()), (3, 3));
        trio.stop().await;
    });
}

/// What it says over its next connection must not be followed by what was left on this one.
#[test]
fn a_controller_that_hung_up_is_not_obeyed() {
    run(async {
        for (hangs_up, brokers) in [(true, 3), (false, 1)] {
            let mut trio = begun(10, &[], 2).await;
            let at = UpdateMetadataEndpoint::default()
                .with_host(StrBytes::from_static_str("broker2"))
                .with_port(i32::from(World::port(2)))
                .with_listener(StrBytes::from_static_str("PLAINTEXT"));
            let alone = UpdateMetadataBroker::default().with_id(BrokerId(2)).with_endpoints(vec![at]);
            let request = UpdateMetadataRequest::default()
                .with_controller_id(BrokerId(1))
                .with_controller_epoch(1)
                .with_live_brokers(vec![alone]);
            let mut controller = Client::connect(&trio.world, 2).await;
            // Written at once: whoever reads it finds the end, too.
            controller.send(7, request).await;
            match hangs_up {
                true => drop(controller),
                false => assert_eq!(controller.answer::<UpdateMetadataRequest>(7).await.error_code, 0),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(trio.client(2).metadata().await.brokers.len(), brokers);
            trio.stop().await;
        }
    });
}
