use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::*;
use crate::wait::until;

const PATIENCE: Duration = Duration::from_secs(60);

/// A proxy with one door, and who serves behind it.
struct Scene {
    proxy: Proxy,
    server: TcpListener,
    way: Way,
}

impl Scene {
    fn new() -> Scene {
        let server = TcpListener::bind("127.0.0.1:0").expect("a port");
        let to = server.local_addr().expect("an address");
        let at = "127.0.0.1:0".parse().expect("an address");
        let proxy = Proxy::start(None, &[Door { at, to }]).expect("a proxy");
        Scene { proxy, server, way: Way { from: to.ip(), to: to.ip() } }
    }

    /// A new connection's two ends.
    fn connect(&self) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(self.proxy.doors()[0]).expect("a connection");
        let (server, _) = self.server.accept().expect("a connection");
        for end in [&client, &server] {
            end.set_read_timeout(Some(PATIENCE)).expect("a limit");
        }
        (client, server)
    }

    fn order(&self, change: impl FnOnce(&mut Order)) {
        self.proxy.order(self.way, change);
    }

    fn counts(&self) -> Counts {
        self.proxy.counts(self.way)
    }

    fn await_counts(&self, what: &str, wanted: impl Fn(&Counts) -> bool) {
        until(what, PATIENCE, || {
            let counts = self.counts();
            ensure!(wanted(&counts), "{counts:?}");
            Ok(())
        })
        .expect("they come to it");
    }
}

fn hear(stream: &mut TcpStream, text: &str) {
    let mut bytes = vec![0; text.len()];
    stream.read_exact(&mut bytes).expect("it is handed over");
    assert_eq!(bytes, text.as_bytes());
}

/// Nothing is there to read, and the connection is.
fn silent(stream: &mut TcpStream) {
    stream.set_nonblocking(true).expect("a mode");
    let read = stream.read(&mut [0; 16]);
    assert!(matches!(&read, Err(error) if error.kind() == ErrorKind::WouldBlock), "{read:?}");
    stream.set_nonblocking(false).expect("a mode");
}

fn reset_seen(stream: &mut TcpStream) {
    let read = stream.read(&mut [0; 16]);
    assert!(matches!(&read, Err(error) if error.kind() == ErrorKind::ConnectionReset), "{read:?}");
}

#[test]
fn without_orders_both_hear_each_other_to_the_end() {
    let scene = Scene::new();
    let (mut client, mut server) = scene.connect();
    client.write_all(b"ask").expect("written");
    client.shutdown(std::net::Shutdown::Write).expect("an end");
    hear(&mut server, "ask");
    assert_eq!(server.read(&mut [0; 1]).expect("an end"), 0);
    server.write_all(b"answer").expect("written");
    drop(server);
    hear(&mut client, "answer");
    assert_eq!(client.read(&mut [0; 1]).expect("an end"), 0);
    let counts = scene.counts();
    assert_eq!((counts.connections, counts.to_server, counts.to_client), (1, 3, 6));
    assert_eq!((counts.hindered, counts.held, counts.overtaken), (0, 0, 0));
}

#[test]
fn nobody_serves_and_the_client_is_told() {
    let scene = Scene::new();
    let Scene { proxy, server, .. } = scene;
    drop(server);
    let mut client = TcpStream::connect(proxy.doors()[0]).expect("the proxy's connection");
    reset_seen(&mut client);
}

#[test]
fn bytes_are_late_by_the_delay_of_their_direction() {
    let scene = Scene::new();
    let (mut client, mut server) = scene.connect();
    let delay = Duration::from_millis(150);
    scene.order(|order| order.to_server.delay = delay);
    let sent = Instant::now();
    client.write_all(b"late").expect("written");
    hear(&mut server, "late");
    assert!(sent.elapsed() >= delay);
    server.write_all(b"at once").expect("written");
    hear(&mut client, "at once");
    assert_eq!(scene.counts().hindered, 4);
}

#[test]
fn what_stands_still_is_held_until_it_may_go() {
    let scene = Scene::new();
    let (mut client, mut server) = scene.connect();
    scene.order(|order| order.to_server.stalled = true);
    client.write_all(b"held").expect("written");
    scene.await_counts("it is held", |counts| counts.held == 4);
    silent(&mut server);
    server.write_all(b"goes").expect("written");
    hear(&mut client, "goes");
    scene.order(|order| order.to_server.stalled = false);
    hear(&mut server, "held");
    scene.await_counts("nothing is held", |counts| counts.held == 0);
}

#[test]
fn a_reset_is_seen_by_both_and_by_no_later_connection() {
    let scene = Scene::new();
    let (mut client, mut server) = scene.connect();
    client.write_all(b"whole").expect("written");
    hear(&mut server, "whole");
    scene.order(|order| order.resets += 1);
    reset_seen(&mut client);
    reset_seen(&mut server);
    assert_eq!(scene.counts().resets, 1);
    let (mut client, mut server) = scene.connect();
    client.write_all(b"again").expect("written");
    hear(&mut server, "again");
}

#[test]
fn of_a_half_closed_connection_one_side_is_told_and_the_other_is_not() {
    for to in [Side::Server, Side::Client] {
        let scene = Scene::new();
        let (client, server) = scene.connect();
        let (mut told, mut kept) = match to {
            Side::Server => (server, client),
            Side::Client => (client, server),
        };
        kept.write_all(b"before").expect("written");
        hear(&mut told, "before");
        scene.order(|order| match to {
            Side::Server => order.servers_closed += 1,
            Side::Client => order.clients_closed += 1,
        });
        assert_eq!(told.read(&mut [0; 1]).expect("an end"), 0);
        kept.write_all(b"into nothing").expect("written");
        told.write_all(b"still").expect("written");
        hear(&mut kept, "still");
        drop(told);
        assert_eq!(scene.counts().half_closed, 1);
        silent(&mut kept);
    }
}

#[test]
fn a_trickle_comes_in_pieces_and_whole() {
    let scene = Scene::new();
    let (mut client, mut server) = scene.connect();
    scene.order(|order| order.to_server.trickle = Some(Trickle { bytes: 1, pause: Duration::from_millis(20) }));
    client.write_all(b"drops").expect("written");
    let mut bytes = [0; 16];
    assert_eq!(server.read(&mut bytes).expect("a piece"), 1, "the others are on their way");
    hear(&mut server, "rops");
    scene.await_counts("each byte is counted", |counts| counts.hindered == 5);
}

#[test]
fn a_lost_answer_takes_its_connection_along() {
    let scene = Scene::new();
    let (mut client, mut server) = scene.connect();
    scene.order(|order| order.to_client.loses_one_in = Some(2));
    for answer in ["first", "second"] {
        client.write_all(b"ask").expect("written");
        hear(&mut server, "ask");
        server.write_all(answer.as_bytes()).expect("written");
        match answer {
            "first" => hear(&mut client, answer),
            _ => reset_seen(&mut client),
        }
    }
    reset_seen(&mut server);
    assert_eq!(scene.counts().lost, 1);
}

#[test]
fn what_an_old_connection_carried_comes_after_what_a_new_one_says() {
    let scene = Scene::new();
    let (mut old, mut old_server) = scene.connect();
    scene.order(|order| order.to_server.stalled = true);
    old.write_all(b"old").expect("written");
    scene.await_counts("it is held", |counts| counts.held == 3);
    scene.order(|order| {
        order.to_server.stalled = false;
        order.partings += 1;
    });
    reset_seen(&mut old);
    let (mut new, mut new_server) = scene.connect();
    new.write_all(b"ne").expect("written");
    hear(&mut new_server, "ne");
    silent(&mut old_server);
    new.write_all(b"w").expect("written");
    hear(&mut new_server, "w");
    hear(&mut old_server, "old");
    // Counted when it is written: that the server has it comes first.
    scene.await_counts("it was overtaken", |counts| counts.overtaken == 3);
    assert_eq!(scene.counts().partings, 1);
}
