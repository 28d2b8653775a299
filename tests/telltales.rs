//! What a broker says in its log of clients that have fallen into a trap: each once, with who it is.

use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use klamm::sim::brokers::World;

#[path = "support/sim_client.rs"]
mod sim_client;
use sim_client::Client;

const OFFSET_OUT_OF_RANGE: i16 = 1;
const UNKNOWN_MEMBER_ID: i16 = 25;

/// The log of this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Lines that hold all of `texts`.
    fn count(&self, texts: &[&str]) -> usize {
        let log = String::from_utf8(self.0.lock().expect("no panic").clone()).expect("text");
        log.lines().filter(|line| texts.iter().all(|text| line.contains(text))).count()
    }
}

async fn scenario(log: &Log) {
    let world = World::new(1);
    let broker = world.start(1, None, &[]).expect("a configuration");
    let mut client = Client::connect(&world, 1).await;
    let software = ApiVersionsRequest::default()
        .with_client_software_name(StrBytes::from_static_str("a-library"))
        .with_client_software_version(StrBytes::from_static_str("1.2.3"));
    client.ask(3, software).await;
    client.metadata_until(|metadata| metadata.controller_id == 1).await;
    let topic = client.create("t").await;
    let who = ["WARN", "two-brokers", "a-library", "1.2.3", "127.0.0.1"];
    let said = |what: &str| log.count(&[&who[..], &[what]].concat());

    client.produce("t", b"fine").await;
    assert_eq!(said("timestamp"), 0);
    for (timestamp, what) in [(1_700_000_000, "reads like seconds"), (1_700_000_000_000_000, "reads like microseconds")]
    {
        for _ in 0..2 {
            client.try_produce_at("t", b"late", timestamp).await.expect("written");
            assert_eq!(said(what), 1, "{what}");
        }
    }

    let partition = DeleteRecordsPartition::default().with_partition_index(0).with_offset(2);
    let topics = DeleteRecordsTopic::default().with_name(TopicName(StrBytes::from_static_str("t")));
    let request = DeleteRecordsRequest::default().with_timeout_ms(5_000);
    client.ask(2, request.with_topics(vec![topics.with_partitions(vec![partition])])).await;
    // Behind the end of the log nothing was deleted.
    assert_eq!(client.fetch_from(topic, 1_000, 0).await, Err(OFFSET_OUT_OF_RANGE));
    assert_eq!(said("is gone"), 0);
    for offset in 0..2 {
        assert_eq!(client.fetch_from(topic, offset, 0).await, Err(OFFSET_OUT_OF_RANGE));
        assert_eq!(said("offset 0 of t-0 is gone, the log begins at 2"), 1);
    }
    assert_eq!(said("is gone"), 1);

    await_coordinator(&mut client).await;
    for (member, times) in [("a", 0), ("a", 0), ("b", 0), ("c", 1), ("d", 1)] {
        assert_eq!(heartbeat(&mut client, member).await, UNKNOWN_MEMBER_ID);
        assert_eq!(said("group g has lost 3 members"), times, "{member}");
    }
    drop(client);
    broker.stop().await.expect("no panic").expect("an orderly end");
}

async fn heartbeat(client: &mut Client, member: &'static str) -> i16 {
    let request = HeartbeatRequest::default()
        .with_group_id(GroupId(StrBytes::from_static_str("g")))
        .with_member_id(StrBytes::from_static_str(member))
        .with_generation_id(1);
    client.ask(4, request).await.error_code
}

/// Until the group's coordinator has loaded its groups, which a heartbeat without a member does not tell.
async fn await_coordinator(client: &mut Client) {
    let key = vec![StrBytes::from_static_str("g")];
    for _ in 0..1_000 {
        let found = client.ask(4, FindCoordinatorRequest::default().with_coordinator_keys(key.clone())).await;
        let described = client
            .ask(5, DescribeGroupsRequest::default().with_groups(vec![GroupId(StrBytes::from_static_str("g"))]))
            .await;
        if found.coordinators[0].error_code == 0 && described.groups[0].error_code == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("there never was a coordinator");
}

/// An address of this machine by which others know it, if it has one.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // Nothing is sent.
    socket.connect((STRANGER, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Kept for documentation by RFC 5737: nobody has it.
const STRANGER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// Brokers that send everybody to their own machine, and to where nobody is.
async fn lead_astray(log: &Log) {
    for (host, what) in [
        ("localhost", "is sent to localhost, which there means that machine itself"),
        ("nowhere.invalid", "is sent to nowhere.invalid, which this machine cannot resolve"),
    ] {
        let world = World::new(1);
        let advertised = format!("advertised.listeners=PLAINTEXT://{host}:{}", World::port(1));
        let broker = world.start(1, None, &[advertised]).expect("a configuration");
        let local = [Some(Ipv4Addr::LOCALHOST.into()), own_address()].into_iter().flatten().map(|peer| (peer, 0));
        let stranger = (IpAddr::from(STRANGER), 1);
        for (peer, times) in local.chain([stranger, stranger]) {
            let mut client = Client::connect_from(&world, 1, peer).await;
            client.metadata_until(|metadata| metadata.controller_id == 1).await;
            assert_eq!(log.count(&["WARN", "two-brokers", &peer.to_string(), what]), times, "{peer} and {host}");
        }
        broker.stop().await.expect("no panic").expect("an orderly end");
    }
}

fn listened_to(scenario: impl AsyncFnOnce(&Log)) {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(scenario(&log));
    });
}

#[test]
fn every_trap_is_told_once_with_who_fell_into_it() {
    listened_to(scenario);
}

#[test]
fn who_is_led_astray_is_told_of_unless_it_is_on_the_brokers_machine() {
    listened_to(lead_astray);
}
