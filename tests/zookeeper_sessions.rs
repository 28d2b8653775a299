//! Whole brokers on a real ZooKeeper that they lose: only the server's word ends a session.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_trait::async_trait;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use klamm::broker::Store;
use klamm::metastore::schema::{PartitionState, paths};
use klamm::metastore::zookeeper::{ZooKeeper, ZooKeeperConfig};
use klamm::metastore::{Error, Metastore, Sessions, Watch};
use klamm::sim::brokers::{Inline, SimBroker, World};
use klamm::types::BrokerId;

#[path = "support/sim_client.rs"]
mod sim_client;
#[path = "support/zookeeper.rs"]
mod zookeeper;
#[path = "support/zookeeper_proxy.rs"]
mod zookeeper_proxy;
use sim_client::Client;
use zookeeper::Server;
use zookeeper_proxy::Proxy;

const SESSION_MS: u32 = 10_000;

/// The sessions of one broker, to be looked at.
struct Opened {
    ensemble: ZooKeeper,
    last: Mutex<Option<Weak<dyn Metastore>>>,
}

#[async_trait]
impl Sessions for Opened {
    async fn open_session(&self) -> Result<Arc<dyn Metastore>, Error> {
        let session = self.ensemble.open_session().await?;
        *self.last.lock().unwrap() = Some(Arc::downgrade(&session));
        Ok(session)
    }
}

impl Opened {
    fn at(connect: String) -> Arc<Opened> {
        let config = ZooKeeperConfig {
            connect,
            session_timeout_ms: SESSION_MS,
            connection_timeout_ms: 60_000,
            max_in_flight_requests: 10,
            login: None,
        };
        let ensemble = ZooKeeper::new(config, Arc::new(Inline)).unwrap();
        Arc::new(Opened { ensemble, last: Mutex::default() })
    }

    /// Completes when the client gives the broker's session up.
    async fn patience(&self) -> Watch {
        let session = self.last.lock().unwrap().as_ref().and_then(Weak::upgrade).unwrap();
        session.exists_watch("/nobody-makes-this").await.unwrap().1
    }
}

/// Brokers 1 and 2, each with a proxy before its ZooKeeper, and a topic that both hold. Broker 1 is the controller.
struct Pair {
    world: World,
    server: Server,
    proxies: Vec<Proxy>,
    opened: Vec<Arc<Opened>>,
    brokers: Vec<SimBroker>,
    clients: Vec<Client>,
    /// Not through a proxy.
    direct: Arc<Opened>,
}

/// What an expiry or an election would change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Epochs {
    brokers: Vec<i64>,
    controller: String,
    state: PartitionState,
}

impl Pair {
    async fn start() -> Option<Pair> {
        let server = Server::start().await?;
        let direct = Opened::at(server.address());
        let world = World::new(1);
        let (proxies, opened, brokers, clients) = Default::default();
        let mut pair = Pair { world, server, proxies, opened, brokers, clients, direct };
        for id in 1..=2 {
            let proxy = Proxy::before(pair.server.address()).await;
            let opened = Opened::at(proxy.address());
            let overrides = ["min.insync.replicas=2", "auto.leader.rebalance.enable=false"].map(str::to_owned);
            let store = Store::Sessions(opened.clone());
            pair.brokers.push(pair.world.start_with(store, id, None, &overrides).unwrap());
            let mut client = Client::connect(&pair.world, id).await;
            client.metadata_until(|told| told.brokers.len() == id as usize && told.controller_id == 1).await;
            pair.proxies.push(proxy);
            pair.opened.push(opened);
            pair.clients.push(client);
        }
        let topic = CreatableTopic::default()
            .with_name(TopicName(StrBytes::from_static_str("t")))
            .with_num_partitions(1)
            .with_replication_factor(2);
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(60_000);
        assert_eq!(pair.clients[0].ask(7, request).await.topics[0].error_code, 0);
        pair.whole().await;
        Some(pair)
    }

    /// Waits until both brokers know each other, a leader and an ISR of both; answers the leader.
    async fn whole(&mut self) -> i32 {
        let mut leader = -1;
        for client in &mut self.clients {
            let told = client
                .metadata_until(|told| {
                    let partition = told.topics.first().and_then(|topic| topic.partitions.first());
                    told.brokers.len() == 2
                        && told.controller_id.0 > 0
                        && partition.is_some_and(|it| it.leader_id.0 > 0 && it.isr_nodes.len() == 2)
                })
                .await;
            leader = told.topics[0].partitions[0].leader_id.0;
        }
        leader
    }

    async fn epochs(&self) -> Epochs {
        let session = self.direct.open_session().await.unwrap();
        let mut brokers = Vec::new();
        for id in 1..=2 {
            brokers.extend(session.exists(&paths::broker(BrokerId(id))).await.unwrap().map(|stat| stat.czxid));
        }
        let (controller, _) = session.get(paths::CONTROLLER_EPOCH).await.unwrap();
        let path = paths::partition_state("t", 0);
        let state = PartitionState::decode(&path, &session.get(&path).await.unwrap().0).unwrap();
        Epochs { brokers, controller: String::from_utf8_lossy(&controller).into_owned(), state }
    }

    /// Waits for a record's place in all of the ISR.
    async fn produce(&mut self, leader: i32) -> i64 {
        for _ in 0..600 {
            match self.clients[leader as usize - 1].try_produce("t", b"x").await {
                Ok(offset) => return offset,
                // It is only about to lead, or its follower is about to come back.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
        panic!("broker {leader} takes no record");
    }

    async fn stop(self) {
        drop(self.clients);
        for broker in self.brokers {
            broker.stop().await.unwrap().unwrap();
        }
    }
}

/// Both brokers lose ZooKeeper for longer than their clients' patience. They lead and follow on, and as the server has ended
/// no session, nothing is elected or registered anew.
#[tokio::test]
async fn leaders_serve_on_without_zookeeper_and_nothing_is_elected() {
    let Some(mut pair) = Pair::start().await else { return };
    let leader = pair.whole().await;
    let before = pair.epochs().await;
    assert_eq!(pair.produce(leader).await, 0);
    let patience = futures_util::future::join_all(pair.opened.iter().map(|opened| opened.patience())).await;
    pair.server.kill();
    futures_util::future::join_all(patience).await;
    // Acknowledged by the whole ISR: the follower fetches on.
    for offset in 1..20 {
        assert_eq!(pair.clients[leader as usize - 1].try_produce("t", b"x").await, Ok(offset));
    }
    pair.server.run().await;
    assert_eq!(pair.whole().await, leader);
    assert_eq!(pair.epochs().await, before);
    pair.stop().await;
}

/// Answers of ZooKeeper stay away from the brokers, whose pings arrive.
#[tokio::test]
async fn brokers_that_zookeeper_hears_keep_their_registrations() {
    let Some(mut pair) = Pair::start().await else { return };
    let leader = pair.whole().await;
    let before = pair.epochs().await;
    let patience = futures_util::future::join_all(pair.opened.iter().map(|opened| opened.patience())).await;
    pair.proxies.iter().for_each(Proxy::hold);
    futures_util::future::join_all(patience).await;
    let next = pair.produce(leader).await;
    assert_eq!(pair.produce(leader).await, next + 1);
    pair.proxies.iter().for_each(Proxy::heal);
    assert_eq!(pair.epochs().await, before);
    pair.stop().await;
}

/// Somebody ends the broker's session: it registers anew and serves on. The controller does so too, and another term begins.
#[tokio::test]
async fn a_broker_whose_session_expired_registers_again() {
    let Some(mut pair) = Pair::start().await else { return };
    for broker in [1_usize, 0] {
        let leader = pair.whole().await;
        let at = pair.produce(leader).await;
        let before = pair.epochs().await;
        pair.proxies[broker].expire().await;
        // Its new registration is a later one than all there was.
        let mut after = pair.epochs().await;
        for _ in 0..600 {
            if after.brokers.len() == 2 && after.brokers[broker] > before.brokers[broker] {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            after = pair.epochs().await;
        }
        assert!(
            after.brokers.len() == 2 && after.brokers[broker] > before.brokers[broker],
            "{after:?} after {before:?}"
        );
        assert_eq!(after.brokers[1 - broker], before.brokers[1 - broker], "the other one is left alone");
        let leader = pair.whole().await;
        assert!(pair.produce(leader).await > at);
        let after = pair.epochs().await;
        let was_controller = broker == 0;
        assert_eq!(after.controller != before.controller, was_controller, "{after:?} after {before:?}");
    }
    pair.stop().await;
}
