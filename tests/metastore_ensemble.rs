//! The ZooKeeper adapter against three real servers that die: the answers stay right, and nothing is done twice.

#![allow(clippy::unwrap_used)]

#[path = "support/zookeeper.rs"]
mod zookeeper;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use klamm::metastore::zookeeper::{ZooKeeper, ZooKeeperConfig};
use klamm::metastore::{CreateMode, Error, Op, SessionState, Sessions, conformance};
use klamm::sim::brokers::Inline;
use tokio::sync::watch;
use zookeeper::Server;

async fn three() -> Option<Vec<Server>> {
    let mut servers = Server::prepare_three()?;
    servers.iter_mut().for_each(Server::spawn);
    for server in &mut servers {
        server.serving().await;
    }
    Some(servers)
}

fn ensemble(servers: &[&Server], chroot: &str) -> Arc<ZooKeeper> {
    let hosts: Vec<String> = servers.iter().map(|server| server.address()).collect();
    let config = ZooKeeperConfig {
        connect: hosts.join(",") + chroot,
        session_timeout_ms: 10_000,
        connection_timeout_ms: 60_000,
        max_in_flight_requests: 10,
        login: None,
    };
    Arc::new(ZooKeeper::new(config, Arc::new(Inline)).unwrap())
}

/// The member that leads (or does not).
async fn member(servers: &[Server], leads: bool) -> usize {
    for (at, server) in servers.iter().enumerate() {
        if server.mode().await.is_some_and(|mode| (mode == "leader") == leads) {
            return at;
        }
    }
    panic!("no member has {}", if leads { "the lead" } else { "another's lead" });
}

#[tokio::test]
async fn conforms_while_a_member_is_killed_and_without_it() {
    let Some(mut servers) = three().await else { return };
    let doomed = member(&servers, false).await;
    let others: Vec<&Server> = servers.iter().enumerate().filter(|(at, _)| *at != doomed).map(|(_, it)| it).collect();
    let sessions = ensemble(&others, "/one");
    let observer = sessions.open_session().await.unwrap();
    let (name, _) = conformance::CASES[conformance::CASES.len() / 2];
    let (_, in_the_middle) = observer.exists_watch(&format!("/conformance-{name}")).await.unwrap();
    let kill = async {
        in_the_middle.await;
        servers[doomed].kill();
    };
    futures_util::future::join(conformance::run(sessions), kill).await;
    // Clients that name the dead one too pass it over.
    conformance::run(ensemble(&servers.iter().collect::<Vec<_>>(), "/two")).await;
}

/// Counts up by compare-and-set until told to stop, and writes a node beside each step: what was lost is read back and
/// decided, never done blindly again. Tells each step; answers the last.
async fn count(sessions: Arc<ZooKeeper>, progress: watch::Sender<i32>, stop: watch::Receiver<bool>) -> i32 {
    let mut session = sessions.open_session().await.unwrap();
    let mut version = 0;
    while !*stop.borrow() {
        let ops = vec![
            Op::Set { path: "/counter".to_owned(), data: Bytes::from((version + 1).to_string()), version },
            Op::Create { path: "/steps/step-".to_owned(), data: None, mode: CreateMode::PersistentSequential },
        ];
        match session.multi(ops).await.map_err(|failed| failed.error) {
            Ok(_) => version += 1,
            Err(Error::Unknown) => {
                // Reads wait for the connection.
                match session.get("/counter").await {
                    Ok((_, stat)) => version = stat.version,
                    Err(Error::SessionExpired) => session = sessions.open_session().await.unwrap(),
                    Err(error) => panic!("{error}"),
                }
            }
            Err(Error::SessionExpired) => session = sessions.open_session().await.unwrap(),
            // The one whose answer was lost arrived after the counter had been read.
            Err(Error::BadVersion(_)) => version = session.get("/counter").await.unwrap().1.version,
            Err(error) => panic!("{error}"),
        }
        progress.send_replace(version);
        // The servers need the processor too.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    version
}

/// Returns when some more steps are done.
async fn more(progress: &mut watch::Receiver<i32>) {
    let now = *progress.borrow();
    let steps = progress.wait_for(|version| *version >= now + 20);
    tokio::time::timeout(Duration::from_secs(60), steps).await.expect("steps go on").unwrap();
}

#[tokio::test]
async fn nothing_is_done_twice_while_the_leader_and_then_the_quorum_are_lost() {
    let Some(mut servers) = three().await else { return };
    let sessions = ensemble(&servers.iter().collect::<Vec<_>>(), "");
    let observer = sessions.open_session().await.unwrap();
    observer.create("/counter", None, CreateMode::Persistent).await.unwrap();
    observer.create("/steps", None, CreateMode::Persistent).await.unwrap();
    observer.create("/mine", None, CreateMode::Ephemeral).await.unwrap();
    let (progress, mut done) = watch::channel(0);
    let (stop, stopped) = watch::channel(false);
    let counting = tokio::spawn(count(sessions.clone(), progress, stopped));
    more(&mut done).await;

    let leader = member(&servers, true).await;
    servers[leader].kill();
    more(&mut done).await;
    servers[leader].run().await;
    more(&mut done).await;

    for at in [0, 1] {
        servers[at].kill();
    }
    observer.session_states().wait_for(|state| *state == SessionState::Disconnected).await.unwrap();
    servers[0].spawn();
    servers[1].spawn();
    more(&mut done).await;
    stop.send_replace(true);
    let counted = counting.await.unwrap();

    observer.sync("/counter").await.unwrap();
    let (value, stat) = observer.get("/counter").await.unwrap();
    assert_eq!((value, stat.version), (Bytes::from(counted.to_string()), counted));
    let steps = observer.children("/steps").await.unwrap();
    assert_eq!(steps.len(), usize::try_from(counted).unwrap(), "each step made one node");
    // Without a quorum nobody ends sessions.
    assert_eq!(observer.get("/mine").await.unwrap().1.ephemeral_owner, observer.session_id());
}
