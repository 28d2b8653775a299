//! Connections as a weapon: many, slow, silent, gone.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kafka_protocol::messages::{ApiKey, ApiVersionsRequest, MetadataRequest, RequestKind};

use super::readers::PER_READER_OF_BYTES;
use super::scene::{Attack, PATIENCE, Scene, TOPIC};
use super::volley::{crowd, heard_by_all};
use crate::raw::{Connection, Heard, frame};
use crate::twin::requests::{at, fetch, fetch_topic};
use crate::wait::until;

/// Attackers of limited number come from here; the honest come from 127.0.0.1.
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// What [`ATTACKER`] may have at once.
const PER_ADDRESS: usize = 50;
pub const PER_ADDRESS_SETTING: (&str, &str) = ("max.connections.per.ip.overrides", "127.0.0.2:50");

/// Who is silent for so long is closed.
pub const IDLE_SETTING: (&str, &str) = ("connections.max.idle.ms", "2000");

const MAX: usize = 100;
pub const MAX_SETTING: (&str, &str) = ("max.connections", "100");

/// With [`PER_ADDRESS_SETTING`].
pub fn run(scene: &mut Scene) -> Result<()> {
    scene.family("connections opened and closed as fast as they can be", |attack| {
        for _ in 0..attack.sized(150, 20_000) {
            drop(Connection::open(attack.address)?);
        }
        Ok(())
    });
    scene.family("connections that break off inside a request", |attack| {
        let request = whole()?;
        for end in 0..attack.sized(200, 5_000) {
            drop(crowd(attack, &[request[..end % request.len()].to_vec()])?);
        }
        Ok(())
    });
    scene.family("more connections than max.connections.per.ip", beyond_the_limit);
    scene.family("connections that say nothing", |attack| {
        let crowd = crowd(attack, &vec![Vec::new(); attack.sized(150, 5_000)])?;
        ensure!(!crowd.is_empty());
        served(attack.address)
    });
    scene.family("a request sent byte by byte, by many at once", trickle);
    Ok(())
}

/// With [`IDLE_SETTING`].
pub fn run_impatient(scene: &mut Scene) -> Result<()> {
    keeps_alive(scene);
    scene.family("half-open: silent before, inside and behind a request", |attack| {
        let request = whole()?;
        let openings: Vec<Vec<u8>> =
            (0..attack.sized(100, 2_000)).map(|n| request[..n % request.len()].to_vec()).collect();
        closed(crowd(attack, &openings)?)
    });
    scene.family("half-open: gone while an answer is written", |attack| {
        let before = attack.sockets()?;
        let answer = RequestKind::Metadata(MetadataRequest::default().with_topics(None));
        let answer = frame(ApiKey::Metadata, 12, 1, &answer)?;
        // Requests that wait a little stand among them: what a peer waits for must not make it immortal.
        let wait = fetch(4, vec![fetch_topic(TOPIC, uuid::Uuid::nil(), 4, vec![at(3, 0)])]).with_max_wait_ms(1);
        let wait = frame(ApiKey::Fetch, 4, 1, &RequestKind::Fetch(wait))?;
        let opening = [&answer.repeat(200)[..], &wait].concat().repeat(100);
        let mut peers = Vec::new();
        for _ in 0..attack.sized(20, 200) {
            let mut peer = Connection::open(attack.address)?;
            peer.stream().set_write_timeout(Some(Duration::from_millis(20)))?;
            attack.count(opening.len());
            peer.send(&opening);
            ensure!(peer.stream().peek(&mut [0])? == 1, "closed instead of answered");
            peers.push(peer);
        }
        attack.allow_at_once(peers.len() as u64 * PER_READER_OF_BYTES);
        // They are all still there; the broker is not waiting for them any more.
        attack.await_sockets(before)
    });
    Ok(())
}

/// The kernel asks after peers that are silent for long: it is told to.
fn keeps_alive(scene: &mut Scene) {
    let result = keepalive_timer(scene.address());
    scene.settled("the kernel asks after silent peers", result);
}

fn keepalive_timer(address: &str) -> Result<()> {
    let mut connection = Connection::open(address)?;
    connection.ask(ApiKey::ApiVersions, 0, &RequestKind::ApiVersions(ApiVersionsRequest::default()))?;
    let (here, there) = (connection.stream().local_addr()?.port(), connection.stream().peer_addr()?.port());
    let until = Instant::now() + PATIENCE;
    // local, remote, state, queues, then the timer that runs: 02 is keepalive once nothing is unacknowledged.
    loop {
        let mut timers = Vec::new();
        for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
            let text = std::fs::read_to_string(table).unwrap_or_default();
            timers.extend(text.lines().filter_map(|line| {
                let fields: Vec<&str> = line.split_whitespace().collect();
                let port = |at: usize| u16::from_str_radix(fields.get(at)?.rsplit(':').next()?, 16).ok();
                (port(1)? == there && port(2)? == here).then(|| fields.get(5).copied().unwrap_or_default().to_owned())
            }));
        }
        if timers.iter().any(|timer| timer.starts_with("02:")) {
            return Ok(());
        }
        ensure!(Instant::now() < until, "timers of the broker's end: {timers:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn whole() -> Result<Vec<u8>> {
    let request = RequestKind::Metadata(MetadataRequest::default().with_topics(Some(Vec::new())));
    Ok(frame(ApiKey::Metadata, 9, 1, &request)?.to_vec())
}

/// Somebody new is served.
fn served(address: &str) -> Result<()> {
    let request = RequestKind::Metadata(MetadataRequest::default().with_topics(Some(Vec::new())));
    Connection::open(address)?.ask(ApiKey::Metadata, 9, &request).map(|_| ())
}

fn closed(peers: Vec<Connection>) -> Result<()> {
    for mut peer in peers {
        loop {
            match peer.hear(PATIENCE) {
                Ok(Heard::Reply(_)) => {}
                Ok(Heard::Closed) => break,
                Ok(Heard::Silent) => bail!("an idle connection is still open"),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn beyond_the_limit(attack: &Attack) -> Result<()> {
    // Those of the attack before are counted until the broker has seen them go.
    let served_ones = until("one address has as many connections as it may", PATIENCE, || {
        let served_ones = served_of_many(attack)?;
        ensure!(served_ones >= PER_ADDRESS, "{served_ones} connections of one address are served");
        Ok(served_ones)
    })?;
    ensure!(served_ones == PER_ADDRESS, "{served_ones} connections of one address are served");
    served(attack.address).context("the honest address")
}

/// How many of many connections of one address are served.
fn served_of_many(attack: &Attack) -> Result<usize> {
    let mut held = Vec::new();
    for _ in 0..attack.sized(100, 2_000) {
        held.push(Connection::open_from(ATTACKER, attack.address)?);
    }
    let request = whole()?;
    let mut served_ones = 0;
    for peer in &mut held {
        attack.count(request.len());
        peer.send(&request);
        if matches!(peer.hear(PATIENCE)?, Heard::Reply(_)) {
            served_ones += 1;
        }
    }
    Ok(served_ones)
}

/// Bytes come one at a time, from everyone in turn; nobody is held up, and who finishes is served.
fn trickle(attack: &Attack) -> Result<()> {
    let request = whole()?;
    let mut peers = crowd(attack, &vec![Vec::new(); attack.sized(100, 2_000)])?;
    for byte in &request {
        for peer in &mut peers {
            attack.count(1);
            peer.send(std::slice::from_ref(byte));
        }
    }
    heard_by_all(peers, PATIENCE)
}

/// With [`MAX_SETTING`]: new ones wait until others go.
pub fn run_full(scene: &mut Scene) -> Result<()> {
    scene.family("more connections than max.connections", |attack| {
        // No more wait than the backlog of 50 holds.
        let mut held = crowd(attack, &vec![whole()?; MAX + 40])?;
        // One place is the honest producer's.
        for peer in held.iter_mut().take(MAX - 1) {
            ensure!(matches!(peer.hear(PATIENCE)?, Heard::Reply(_)), "not served although there was room");
        }
        // Who waits is served as soon as there is room.
        let waiting = held.split_off(MAX - 1);
        drop(held);
        for mut peer in waiting {
            let heard = peer.hear(PATIENCE)?;
            ensure!(matches!(heard, Heard::Reply(_)), "{heard:?} for one that waited its turn");
        }
        Ok(())
    });
    Ok(())
}
