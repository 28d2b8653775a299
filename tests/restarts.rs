//! Whole brokers that are killed and started again while ZooKeeper still holds their sessions.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use kafka_protocol::messages::{ApiVersionsRequest, MetadataResponse};
use klamm::broker::{self, RunError, Store};
use klamm::cluster::RegistrationError;
use klamm::metastore::embedded::EmbeddedStore;
use klamm::metastore::{CreateMode, Stat};
use klamm::net::{Incoming, Listener};
use klamm::sim::brokers::{Inline, Remains, SimBroker, World};
use klamm::sim::disk::{Keep, SimDisk};
use klamm::sim::net::SimNet;
use klamm::spawn::Shutdown;
use klamm::storage::disk::Disk;
use klamm::storage::machine::Machine;
use tokio::io::DuplexStream;

#[path = "support/sim_client.rs"]
mod sim_client;
#[path = "support/trio.rs"]
mod trio;
use sim_client::Client;
use trio::{Trio, partitions, run};

const SETTINGS: [&str; 1] = ["min.insync.replicas=2"];

/// Three brokers, a topic of three partitions of which each leads one, ten records in the first.
struct Scene {
    trio: Trio,
    settings: Vec<String>,
    values: Vec<Vec<u8>>,
}

impl Scene {
    async fn set(seed: u64, settings: &[&str]) -> Scene {
        let mut trio = Trio::start(seed, settings).await;
        trio.create("t", 3).await;
        let mut scene =
            Scene { trio, settings: settings.iter().map(|&text| text.to_owned()).collect(), values: Vec::new() };
        scene.is_whole().await;
        for n in 0..10 {
            scene.produce(n).await;
        }
        scene
    }

    async fn leader(&mut self) -> i32 {
        let id = *self.trio.brokers.keys().next().expect("one runs");
        let metadata = self.trio.client(id).metadata().await;
        let first = partitions(&metadata).iter().find(|partition| partition.partition_index == 0);
        first.map_or(-1, |partition| partition.leader_id.0)
    }

    /// With acks=all, to the first partition.
    async fn produce(&mut self, value: u8) {
        let leader = self.leader().await;
        let offset = self.trio.client(leader).produce("t", &[value]).await;
        assert_eq!(offset, self.values.len() as i64);
        self.values.push(vec![value]);
    }

    /// All brokers are there, and all of them are in every ISR.
    async fn is_whole(&mut self) {
        let whole = |metadata: &MetadataResponse| {
            let of_t = partitions(metadata);
            let led = |id: i32| metadata.brokers.iter().any(|broker| broker.node_id == id);
            let all = of_t.iter().all(|it| it.isr_nodes.len() == 3 && led(it.leader_id.0));
            of_t.len() == 3 && metadata.brokers.len() == 3 && all
        };
        for client in &mut self.trio.clients {
            client.metadata_until(whole).await;
        }
    }

    /// What was acknowledged is there, and more can be.
    async fn is_sound(&mut self) {
        self.is_whole().await;
        self.produce(99).await;
        let leader = self.leader().await;
        let client = self.trio.client(leader);
        let id = client.metadata().await.topics[0].topic_id;
        assert_eq!(client.fetch(id).await, self.values);
    }

    async fn kill(&mut self, id: i32) -> Remains {
        self.trio.brokers.remove(&id).expect("it runs").kill().await
    }

    fn start_at(&self, machine: Machine, id: i32, disk: SimDisk) -> SimBroker {
        self.trio.world.start_at(machine, id, Some(disk), &self.settings).expect("a configuration")
    }

    /// Starts it where it was and waits until it serves.
    async fn start(&mut self, id: i32, disk: SimDisk) {
        let broker = self.start_at(World::machine(id), id, disk);
        self.serves(id, broker).await;
    }

    async fn serves(&mut self, id: i32, broker: SimBroker) {
        self.trio.brokers.insert(id, broker);
        self.trio.clients[id as usize - 1] = Client::connect(&self.trio.world, id).await;
    }

    async fn stat(&self, path: &str) -> Option<Stat> {
        self.trio.world.tree.session().exists(path).await.expect("a tree in memory")
    }

    async fn controller_epoch(&self) -> i32 {
        let (data, _) = self.trio.world.tree.session().get("/controller_epoch").await.expect("a node");
        String::from_utf8_lossy(&data).parse().expect("a number")
    }
}

/// The places of these in the trace, in this order and after each other.
fn in_order(trace: &str, wanted: &[&str]) {
    let mut lines = trace.lines();
    for &text in wanted {
        assert!(lines.any(|line| line.contains(text)), "{text} does not follow");
    }
}

#[test]
fn a_killed_broker_is_back_before_its_session_is_over() {
    run(async {
        let mut scene = Scene::set(11, &SETTINGS).await;
        let before = scene.trio.world.trace.text().len();
        let remains = scene.kill(2).await;
        assert!(scene.stat("/brokers/ids/2").await.is_some(), "its session is not over");
        scene.start(2, remains.disk.clone()).await;
        scene.is_sound().await;
        // Others saw that it was gone before it came back.
        let registered = r#"znode 2: ("multi", [Create { path: "/brokers/ids/2""#;
        let trace = scene.trio.world.trace.text();
        in_order(&trace[before..], &[r#"znode 2: ("delete", "/brokers/ids/2""#, "znode 1: (\"multi\"", registered]);
        let expelled = r#"path: "/brokers/topics/t/partitions/0/state""#;
        let away = trace[before..].split(registered).next().unwrap_or_default();
        assert!(away.contains(expelled), "nobody took it out of the ISR before it registered");
        drop(remains);
        scene.trio.stop().await;
    });
}

#[test]
fn a_killed_controller_frees_its_office() {
    run(async {
        let mut scene = Scene::set(12, &SETTINGS).await;
        let (before, office) = (scene.controller_epoch().await, scene.stat("/controller").await.expect("a controller"));
        let remains = scene.kill(1).await;
        scene.start(1, remains.disk.clone()).await;
        scene.is_sound().await;
        let now = scene.stat("/controller").await.expect("a controller");
        assert_ne!(now.ephemeral_owner, office.ephemeral_owner, "a living one holds the office");
        assert_eq!(scene.controller_epoch().await, before + 2, "one for the removal, one for the election");
        drop(remains);
        scene.trio.stop().await;
    });
}

#[test]
fn all_of_them_are_back_after_one_kill() {
    run(async {
        let mut scene = Scene::set(13, &SETTINGS).await;
        let mut remains = Vec::new();
        for id in [1, 2, 3] {
            remains.push((id, scene.kill(id).await));
        }
        let started: Vec<_> = remains
            .iter()
            .map(|(id, remains)| (*id, scene.start_at(World::machine(*id), *id, remains.disk.clone())))
            .collect();
        for (id, broker) in started {
            scene.serves(id, broker).await;
        }
        scene.is_sound().await;
        drop(remains);
        scene.trio.stop().await;
    });
}

/// Each leader in turn comes back at once without what it had not synced, or without its second directory.
#[test]
fn what_a_killed_leader_lost_comes_back_from_the_others() {
    run(async {
        let settings = [SETTINGS[0], "log.dirs=/first,/second"];
        for (seed, empties) in [(14, false), (15, true)] {
            let mut scene = Scene::set(seed, &settings).await;
            for _ in 0..3 {
                let leader = scene.leader().await;
                let remains = scene.kill(leader).await;
                match empties {
                    true => remains.disk.remove_dir_all(Path::new("/second")).expect("a directory"),
                    false => remains.disk.crash(Keep::Nothing),
                }
                scene.start(leader, remains.disk.clone()).await;
                scene.is_sound().await;
            }
            scene.trio.stop().await;
        }
    });
}

async fn is_refused(broker: SimBroker) {
    let ended = tokio::time::timeout(Duration::from_secs(60), broker.ended());
    let ended = ended.await.expect("it does not end").expect("no panic");
    assert!(matches!(ended, Err(RunError::Registration(RegistrationError::IdTaken(_)))), "{ended:?}");
}

#[test]
fn a_copied_directory_takes_nothing_from_a_broker_that_lives() {
    run(async {
        let mut scene = Scene::set(16, &SETTINGS).await;
        let (broker, office) = (scene.stat("/brokers/ids/1").await, scene.stat("/controller").await);
        let disk = scene.trio.brokers[&1].disk.clone();
        let elsewhere = Machine { boot: Some("another".into()), id: Some("another".into()) };
        let unknown = Machine { boot: Some("another".into()), id: None };
        // Beside it on its machine; carried to another with all its numbers; to one that cannot say which it is.
        for (machine, copy) in [
            (World::machine(1), disk.copy()),
            (elsewhere, disk.fork()),
            (unknown, disk.fork()),
            (Machine::default(), disk.fork()),
        ] {
            is_refused(scene.start_at(machine, 1, copy)).await;
            assert_eq!((scene.stat("/brokers/ids/1").await, scene.stat("/controller").await), (broker, office));
        }
        scene.is_sound().await;
        scene.trio.stop().await;
    });
}

#[test]
fn a_machine_that_was_started_again_has_ended_its_processes() {
    run(async {
        let mut scene = Scene::set(17, &SETTINGS).await;
        let remains = scene.kill(3).await;
        let rebooted = Machine { boot: Some("later".into()), ..World::machine(3) };
        let broker = scene.start_at(rebooted, 3, remains.disk.clone());
        scene.serves(3, broker).await;
        scene.is_sound().await;
        drop(remains);
        scene.trio.stop().await;
    });
}

#[test]
fn a_life_of_which_nothing_is_known_is_waited_for() {
    run(async {
        let mut scene = Scene::set(18, &SETTINGS).await;
        let remains = scene.kill(3).await;
        let forgetful = remains.disk.fork();
        forgetful.remove_file(Path::new("/broker3/klamm-session")).expect("the note");
        is_refused(scene.start_at(World::machine(3), 3, forgetful.fork())).await;
        let broker = scene.start_at(World::machine(3), 3, forgetful);
        tokio::time::sleep(Duration::from_secs(5)).await;
        // Who asks whether it serves is told no.
        let refused = scene.trio.world.net.connect(World::port(3)).expect_err("not registered");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        drop(remains);
        scene.serves(3, broker).await;
        scene.is_sound().await;
        scene.trio.stop().await;
    });
}

/// A listener that notes whether its broker was registered when it began to listen, and asks it something at once.
struct Observed {
    inner: Box<dyn Listener>,
    world: (SimNet, Arc<EmbeddedStore>),
    registered: Arc<Mutex<Vec<bool>>>,
    asked: Arc<Mutex<Option<DuplexStream>>>,
}

#[async_trait]
impl Listener for Observed {
    fn name(&self) -> Arc<str> {
        self.inner.name()
    }
    fn address(&self) -> String {
        self.inner.address()
    }
    fn port(&self) -> u16 {
        self.inner.port()
    }
    fn start(&self) -> io::Result<()> {
        let (net, tree) = &self.world;
        let session = tree.session();
        let stat = session.exists("/brokers/ids/1").now_or_never().expect("a tree in memory does not wait");
        self.registered.lock().expect("no panic").push(stat.expect("a tree in memory").is_some());
        self.inner.start()?;
        *self.asked.lock().expect("no panic") = Some(net.connect(self.port())?);
        Ok(())
    }
    async fn accept(&self) -> io::Result<Incoming> {
        self.inner.accept().await
    }
}

/// Its ports are taken before anything else is done, refuse while it is not registered, and answer whom they let in: what
/// asks the port whether the broker serves is told the truth.
#[test]
fn a_broker_registers_before_it_listens_and_listens_when_it_serves() {
    run(async {
        let world = World::new(31);
        let (_stop, shutdown) = Shutdown::new();
        let disk = SimDisk::new(world.clock.clone());
        let store = Store::Sessions(Arc::new(world.tree.clone()));
        let mut parts = world.parts(store, 1, &disk, &[], Arc::new(Inline), shutdown).expect("a configuration");
        let inner = parts.listeners.pop().expect("a listener");
        let (registered, asked) = (Arc::default(), Arc::default());
        let observed = Observed {
            inner,
            world: (world.net.clone(), world.tree.clone()),
            registered: Arc::clone(&registered),
            asked: Arc::clone(&asked),
        };
        parts.listeners.push(Box::new(observed));
        // Another session has its id for a while.
        let former = world.tree.session();
        for path in ["/brokers", "/brokers/ids"] {
            former.create(path, None, CreateMode::Persistent).await.expect("a node");
        }
        former.create("/brokers/ids/1", None, CreateMode::Ephemeral).await.expect("a node");
        let running = tokio::spawn(broker::run(parts));
        for _ in 0..50 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let refused = world.net.connect(World::port(1)).expect_err("not registered");
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        }
        assert!(disk.tree().contains_key(Path::new("/broker1/meta.properties")), "it has come as far as it can");
        assert_eq!(*registered.lock().expect("no panic"), [false; 0]);
        former.delete("/brokers/ids/1", -1).await.expect("a node");
        let mut client = Client::connect(&world, 1).await;
        assert_eq!(*registered.lock().expect("no panic"), [true]);
        let first = asked.lock().expect("no panic").take().expect("it was let in");
        let mut first = std::mem::replace(&mut client.stream, first);
        assert_eq!(client.ask(0, ApiVersionsRequest::default()).await.error_code, 0, "whoever is let in is served");
        std::mem::swap(&mut client.stream, &mut first);
        client.metadata_until(|metadata| metadata.controller_id == 1).await;
        drop((client, first, _stop));
        running.await.expect("no panic").expect("an orderly end");
    });
}
