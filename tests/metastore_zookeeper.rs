//! The ZooKeeper adapter against a real server: conformance, and what happens when the connection does not behave.

#![allow(clippy::unwrap_used)]

#[path = "support/zookeeper.rs"]
mod zookeeper;
#[path = "support/zookeeper_proxy.rs"]
mod zookeeper_proxy;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use klamm::metastore::zookeeper::{Login, ZooKeeper, ZooKeeperConfig};
use klamm::metastore::{CreateMode, Error, Metastore, MultiError, Op, SessionState, Sessions, conformance};
use klamm::spawn::{Spawner, Task};
use zookeeper::Server;
use zookeeper_client as zk;
use zookeeper_proxy::Proxy;

struct Tokio;

impl Spawner for Tokio {
    fn data(&self, task: Task) {
        tokio::spawn(task);
    }
    fn control(&self, task: Task) {
        tokio::spawn(task);
    }
    fn blocking(&self, job: Box<dyn FnOnce() + Send>) {
        tokio::task::spawn_blocking(job);
    }
}

fn ensemble(connect: String, session_timeout_ms: u32) -> ZooKeeper {
    ZooKeeper::new(config(connect, session_timeout_ms), Arc::new(Tokio)).unwrap()
}

fn config(connect: String, session_timeout_ms: u32) -> ZooKeeperConfig {
    ZooKeeperConfig {
        connect,
        session_timeout_ms,
        connection_timeout_ms: 60_000,
        max_in_flight_requests: 10,
        login: None,
    }
}

async fn session(address: String, session_timeout_ms: u32) -> Arc<dyn Metastore> {
    ensemble(address, session_timeout_ms).open_session().await.unwrap()
}

fn data(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

async fn until(store: &dyn Metastore, wanted: SessionState) {
    store.session_states().wait_for(|state| *state == wanted).await.unwrap();
}

#[tokio::test]
async fn conforms() {
    let Some(server) = Server::start().await else { return };
    conformance::run(Arc::new(ensemble(server.address(), 6_000))).await;
    conformance::run(Arc::new(ensemble(server.address() + "/klamm/one", 6_000))).await;
    let outside = session(server.address(), 6_000).await;
    let names = outside.children("/klamm/one").await.unwrap();
    assert_eq!(names.len(), conformance::CASES.len());
}

/// Of Kafka it was reported that it wanted the right to create below the root though its chroot was there (KAFKA-12866).
#[tokio::test]
async fn a_chroot_that_is_there_needs_no_right_to_make_it() {
    let Some(server) = Server::start().await else { return };
    let operator = zk::Client::connect(&server.address()).await.unwrap();
    let open = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    operator.create("/there", b"", &open).await.unwrap();
    operator.set_acl("/", &[zk::Acl::new(zk::Permission::READ, zk::AuthId::anyone())], None).await.unwrap();

    let store = session(server.address() + "/there", 6_000).await;
    store.create("/a", Some(data("x")), CreateMode::Persistent).await.unwrap();
    session(server.address() + "/there/below/it", 6_000).await;
    let refused = ensemble(server.address() + "/missing", 6_000).open_session().await.map(|_| ()).unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("chroot /missing: "), "{refused}");
}

#[tokio::test]
async fn a_lost_reply_is_unknown_and_can_be_read_back() {
    let Some(server) = Server::start().await else { return };
    let proxy = Proxy::before(server.address()).await;
    let direct = session(server.address(), 6_000).await;
    let store = session(proxy.address(), 6_000).await;

    let (_, created) = direct.exists_watch("/a").await.unwrap();
    proxy.hold();
    let call = tokio::spawn({
        let store = store.clone();
        async move { store.create("/a", Some(data("0")), CreateMode::Persistent).await }
    });
    created.await;
    proxy.cut();
    assert_eq!(call.await.unwrap(), Err(Error::Unknown));
    proxy.heal();
    assert_eq!(store.get("/a").await.unwrap().0, "0");

    let (_, _, changed) = direct.get_watch("/a").await.unwrap();
    proxy.hold();
    let call = tokio::spawn({
        let store = store.clone();
        let op = Op::Set { path: "/a".to_owned(), data: data("1"), version: 0 };
        async move { store.multi(vec![op]).await }
    });
    changed.await;
    proxy.cut();
    assert_eq!(call.await.unwrap(), Err(MultiError { index: 0, error: Error::Unknown }));
    proxy.heal();
    let (now, stat) = store.get("/a").await.unwrap();
    assert_eq!((now, stat.version), (data("1"), 1));
}

#[tokio::test]
async fn a_read_is_asked_again() {
    let Some(server) = Server::start().await else { return };
    let proxy = Proxy::before(server.address()).await;
    let store = session(proxy.address(), 6_000).await;
    store.create("/a", Some(data("x")), CreateMode::Persistent).await.unwrap();
    proxy.hold();
    let before = proxy.requests();
    let read = tokio::spawn({
        let store = store.clone();
        async move { (store.get("/a").await, store.exists("/b").await, store.children("/").await) }
    });
    while proxy.requests() == before {
        tokio::task::yield_now().await;
    }
    proxy.cut();
    until(&*store, SessionState::Disconnected).await;
    proxy.heal();
    let (got, there, names) = read.await.unwrap();
    assert_eq!((got.unwrap().0, there), (data("x"), Ok(None)));
    assert!(names.unwrap().contains(&"a".to_owned()));
}

#[tokio::test]
async fn watches_hold_across_a_cut() {
    let Some(server) = Server::start().await else { return };
    let proxy = Proxy::before(server.address()).await;
    let direct = session(server.address(), 20_000).await;
    let store = session(proxy.address(), 20_000).await;
    for path in ["/data", "/gone", "/parent", "/later", "/quiet"] {
        store.create(path, None, CreateMode::Persistent).await.unwrap();
    }
    store.create("/mine", None, CreateMode::Ephemeral).await.unwrap();
    let (_, _, of_data) = store.get_watch("/data").await.unwrap();
    let (_, of_gone) = store.exists_watch("/gone").await.unwrap();
    let (_, of_absent) = store.exists_watch("/absent").await.unwrap();
    let (_, of_parent) = store.children_watch("/parent").await.unwrap();
    let (_, _, of_later) = store.get_watch("/later").await.unwrap();
    let (_, of_still_absent) = store.exists_watch("/still-absent").await.unwrap();
    let (_, mut of_quiet) = store.exists_watch("/quiet").await.unwrap();

    proxy.cut();
    until(&*store, SessionState::Disconnected).await;
    direct.set("/data", data("1"), -1).await.unwrap();
    direct.delete("/gone", -1).await.unwrap();
    direct.create("/absent", None, CreateMode::Persistent).await.unwrap();
    direct.create("/parent/child", None, CreateMode::Persistent).await.unwrap();
    proxy.heal();
    for missed in [of_data, of_gone, of_absent, of_parent] {
        missed.await;
    }
    until(&*store, SessionState::Connected).await;
    direct.set("/later", data("1"), -1).await.unwrap();
    of_later.await;
    direct.create("/still-absent", None, CreateMode::Persistent).await.unwrap();
    of_still_absent.await;
    store.sync("/").await.unwrap();
    assert!((&mut of_quiet).now_or_never().is_none());
    assert_eq!(store.get("/mine").await.unwrap().1.ephemeral_owner, store.session_id());
}

#[tokio::test]
async fn a_session_outlives_the_clients_patience() {
    let Some(mut server) = Server::start().await else { return };
    let store = session(server.address() + "/root", 10_000).await;
    store.create("/mine", Some(data("x")), CreateMode::Ephemeral).await.unwrap();
    let (_, _, watch) = store.get_watch("/mine").await.unwrap();
    server.kill();
    until(&*store, SessionState::Disconnected).await;
    // It waits for the connection until the client gives its session up for lost.
    assert_eq!(store.set("/mine", data("y"), -1).await, Err(Error::Unknown));
    watch.await;
    // The server remembers its sessions, and grants them a new timeout when it starts.
    server.run().await;
    let (now, stat) = store.get("/mine").await.unwrap();
    assert_eq!((now, stat.version, stat.ephemeral_owner), (data("x"), 0, store.session_id()));
    assert_eq!(*store.session_states().borrow(), SessionState::Connected);
    let (_, _, watch) = store.get_watch("/mine").await.unwrap();
    store.set("/mine", data("z"), 0).await.unwrap();
    watch.await;
    let other = session(server.address() + "/root", 6_000).await;
    let (_, gone) = other.exists_watch("/mine").await.unwrap();
    drop(store);
    gone.await;
}

#[tokio::test]
async fn only_the_servers_refusal_is_expiry() {
    let Some(server) = Server::start().await else { return };
    let proxy = Proxy::before(server.address()).await;
    let direct = session(server.address(), 6_000).await;
    let behind = ensemble(proxy.address(), 1_000);
    let store = behind.open_session().await.unwrap();
    store.create("/mine", None, CreateMode::Ephemeral).await.unwrap();
    let (_, _, watch) = store.get_watch("/mine").await.unwrap();
    let (_, gone) = direct.exists_watch("/mine").await.unwrap();
    proxy.cut();
    gone.await;
    assert_eq!(*store.session_states().borrow(), SessionState::Disconnected);
    let reading = tokio::spawn({
        let store = store.clone();
        async move { store.get("/mine").await }
    });
    proxy.heal();
    assert_eq!(reading.await.unwrap(), Err(Error::SessionExpired));
    watch.await;
    assert_eq!(*store.session_states().borrow(), SessionState::Expired);
    assert_eq!(store.set("/mine", data("x"), -1).await, Err(Error::SessionExpired));
    let failed = store.multi(vec![Op::Check { path: "/".to_owned(), version: -1 }]).await;
    assert_eq!(failed, Err(MultiError { index: 0, error: Error::SessionExpired }));
    let next = behind.open_session().await.unwrap();
    assert_ne!(next.session_id(), store.session_id());
    next.create("/mine", None, CreateMode::Ephemeral).await.unwrap();
}

#[tokio::test]
async fn a_session_outlives_answers_that_do_not_come() {
    let Some(server) = Server::start().await else { return };
    let proxy = Proxy::before(server.address()).await;
    let store = session(proxy.address(), 6_000).await;
    store.create("/mine", None, CreateMode::Ephemeral).await.unwrap();
    let (_, _, watch) = store.get_watch("/mine").await.unwrap();
    // What is sent arrives, so the server has no reason to end the session. The client gives it up, and its watches.
    proxy.hold();
    watch.await;
    assert_eq!(*store.session_states().borrow(), SessionState::Disconnected);
    proxy.heal();
    until(&*store, SessionState::Connected).await;
    assert_eq!(store.get("/mine").await.unwrap().1.ephemeral_owner, store.session_id());
}

#[tokio::test]
async fn a_session_that_somebody_ended_has_expired() {
    let Some(server) = Server::start().await else { return };
    let proxy = Proxy::before(server.address()).await;
    let store = session(proxy.address(), 20_000).await;
    store.create("/mine", None, CreateMode::Ephemeral).await.unwrap();
    let (_, _, watch) = store.get_watch("/mine").await.unwrap();
    proxy.expire().await;
    watch.await;
    until(&*store, SessionState::Expired).await;
    assert_eq!(store.get("/mine").await, Err(Error::SessionExpired));
    assert_eq!(session(server.address(), 6_000).await.exists("/mine").await, Ok(None));
}

#[tokio::test]
async fn hosts_that_cannot_be_resolved_or_reached_are_passed_over() {
    let Some(server) = Server::start().await else { return };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let hosts = format!("nowhere.invalid:2181,{taken},{}", server.address());
    let store = session(hosts, 20_000).await;
    store.create("/a", None, CreateMode::Persistent).await.unwrap();
}

#[tokio::test]
async fn ten_requests_are_in_flight_at_most() {
    let Some(server) = Server::start().await else { return };
    let proxy = Proxy::before(server.address()).await;
    let store = session(proxy.address(), 20_000).await;
    let before = proxy.requests();
    proxy.hold();
    let reads: Vec<_> = (0..50)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.exists("/").await.map(|stat| stat.is_some()) })
        })
        .collect();
    while proxy.requests() < before + 10 {
        tokio::task::yield_now().await;
    }
    // Time for an eleventh, were there one.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(proxy.requests(), before + 10);
    proxy.heal();
    for read in reads {
        assert_eq!(read.await.unwrap(), Ok(true));
    }
}

#[tokio::test]
async fn what_the_server_would_not_take_is_refused_here() {
    let Some(server) = Server::start().await else { return };
    let store = session(server.address(), 6_000).await;
    let states = store.session_states();
    store.create("/a", None, CreateMode::Persistent).await.unwrap();
    let large = Bytes::from(vec![0; 1 << 20]);
    let Err(Error::TooLarge { path, limit, .. }) = store.set("/a", large.clone(), -1).await else { panic!("taken") };
    assert_eq!((path.as_str(), limit), ("/a", 0xfffff));
    let half = |version| Op::Set { path: "/a".to_owned(), data: large.slice(..1 << 19), version };
    let failed = store.multi(vec![half(0), half(1)]).await;
    assert!(matches!(failed, Err(MultiError { index: 0, error: Error::TooLarge { .. } })), "{failed:?}");
    // As much as is let through is taken.
    let most = Bytes::from(vec![0; 0xfffff - 100]);
    assert_eq!(store.set("/a", most, 0).await.unwrap().version, 1);
    assert!(!states.has_changed().unwrap());

    assert!(!store.keeps_null());
    let block = "/latest_producer_id_block";
    assert!(matches!(store.create(block, None, CreateMode::Persistent).await, Err(Error::Other(_))));
    let create = Op::Create { path: block.to_owned(), data: None, mode: CreateMode::Persistent };
    assert!(store.multi(vec![create]).await.is_err());
    assert_eq!(store.exists(block).await, Ok(None));
}

#[tokio::test]
async fn nobody_there_is_said_in_words() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let alone = ZooKeeperConfig { connection_timeout_ms: 1_000, ..config(format!("{port}/x"), 1_000) };
    let Err(Error::Other(why)) = ZooKeeper::new(alone, Arc::new(Tokio)).unwrap().open_session().await else {
        panic!("connected")
    };
    let words = format!(
        "cannot connect to ZooKeeper at {port}: not within 1000 ms (zookeeper.connection.timeout.ms): {port}: "
    );
    assert!(why.starts_with(&words) && why.contains("refused"), "{why}");
}

#[tokio::test]
async fn one_that_comes_late_is_waited_for() {
    let Some(mut server) = Server::start().await else { return };
    server.kill();
    let opening = tokio::spawn(session(server.address(), 2_000));
    // Longer than the crate's own patience with a new session, which is the session timeout.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert!(!opening.is_finished());
    server.run().await;
    assert_eq!(opening.await.unwrap().exists("/nobody").await, Ok(None));
}

#[tokio::test]
async fn logs_in_where_a_login_is_asked_for() {
    let Some(server) = Server::with_login("a \"secret\"".replace('"', "\\\"").as_str()).await else { return };
    let login = |password: &str| Some(Login { user: "kafka".to_owned(), password: password.to_owned() });
    let open = async |login: Option<Login>| {
        let config = ZooKeeperConfig { login, ..config(server.address() + "/kafka", 6_000) };
        ZooKeeper::new(config, Arc::new(Tokio)).unwrap().open_session().await
    };
    let store = open(login("a \"secret\"")).await.unwrap();
    store.create("/a", Some(data("x")), CreateMode::Persistent).await.unwrap();
    assert_eq!(store.get("/a").await.unwrap().0, "x");
    for stranger in [login("another"), None] {
        let Err(Error::Other(why)) = open(stranger.clone()).await else { panic!("let in as {stranger:?}") };
        assert!(why.contains("auth") && !why.contains("another"), "{why}");
    }
    // A connection that is lost is logged in again.
    let proxy = Proxy::before(server.address()).await;
    let behind = ZooKeeperConfig { login: login("a \"secret\""), ..config(proxy.address() + "/kafka", 6_000) };
    let store = ZooKeeper::new(behind, Arc::new(Tokio)).unwrap().open_session().await.unwrap();
    proxy.cut();
    until(&*store, SessionState::Disconnected).await;
    proxy.heal();
    assert_eq!(store.get("/a").await.unwrap().0, "x");
}
