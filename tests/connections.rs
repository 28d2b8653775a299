//! Connections of a whole broker, over in-memory streams with time standing still until everybody waits.

use std::future::Future;
use std::path::Path;

use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::{IncrementalAlterConfigsRequest, MetadataRequest};
use kafka_protocol::protocol::StrBytes;
use klamm::sim::brokers::{SimBroker, World};
use klamm::storage::disk::Disk;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;

#[path = "support/sim_client.rs"]
mod sim_client;
use sim_client::Client;

fn run<T>(scenario: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(scenario)
}

/// A broker with `overrides`, listening.
async fn broker(overrides: &[&str]) -> (World, SimBroker) {
    let world = World::new(7);
    let overrides: Vec<String> = overrides.iter().map(|line| (*line).to_owned()).collect();
    let broker = world.start(1, None, &overrides).expect("a configuration");
    drop(Client::connect(&world, 1).await);
    tokio::task::yield_now().await;
    (world, broker)
}

/// ApiVersions v0 with a correlation id.
fn ping(correlation: i32) -> Vec<u8> {
    let body = [&[0, 18, 0, 0][..], &correlation.to_be_bytes(), &[0xff, 0xff]].concat();
    [&(body.len() as u32).to_be_bytes()[..], &body].concat()
}

/// Fetch v4 of the end of `t`, partition 0, that waits for a record.
fn waiting_fetch(max_wait_ms: i32) -> Vec<u8> {
    let head = [&[0, 1, 0, 4, 0, 0, 0, 0, 0xff, 0xff][..], &[0xff; 4], &max_wait_ms.to_be_bytes()].concat();
    let limits = [&1i32.to_be_bytes()[..], &(1i32 << 20).to_be_bytes(), &[0]].concat();
    let topic = [&[0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1][..], &[0; 4], &[0; 8], &(1i32 << 20).to_be_bytes()].concat();
    let body = [head, limits, topic].concat();
    [&(body.len() as u32).to_be_bytes()[..], &body].concat()
}

/// The correlation id of the next answer; `None` when the broker closed.
async fn answer(stream: &mut DuplexStream) -> Option<i32> {
    let size = stream.read_u32().await.ok()?;
    let mut answer = vec![0; size as usize];
    stream.read_exact(&mut answer).await.expect("an answer");
    answer.first_chunk().map(|id| i32::from_be_bytes(*id))
}

#[test]
fn a_connection_without_a_byte_for_long_is_closed_whatever_it_waits_for() {
    run(async {
        let (world, broker) = broker(&["connections.max.idle.ms=10000"]).await;
        let mut client = Client::connect(&world, 1).await;
        let topic = client.create("t").await;
        let begun = Instant::now();
        assert_eq!(client.fetch_from(topic, 0, 9_000).await, Ok(Vec::new()));
        assert_eq!(begun.elapsed().as_secs(), 9);
        assert_eq!(client.stream.read(&mut [0]).await.expect("an orderly end"), 0);
        assert_eq!(begun.elapsed().as_secs(), 19, "ten seconds after the answer");
        // As Kafka does: who vanished while its fetch waits is found out.
        let mut waiting = Client::connect(&world, 1).await;
        let begun = Instant::now();
        waiting.send_fetch(topic, 0, 600_000).await;
        assert_eq!(waiting.stream.read(&mut [0]).await.expect("an orderly end"), 0);
        assert_eq!(begun.elapsed().as_secs(), 10);
        // A request in the making and one after the other keep it open.
        let mut busy = world.net.connect(World::port(1)).expect("connected");
        for n in 0..3 {
            for byte in ping(n) {
                busy.write_all(&[byte]).await.expect("room");
                tokio::time::sleep(std::time::Duration::from_secs(9)).await;
            }
            assert_eq!(answer(&mut busy).await, Some(n));
        }
        broker.stop().await.expect("no panic").expect("an orderly end");
    });
}

#[test]
fn requests_that_wait_leave_the_budget_to_others() {
    run(async {
        let limits = ["socket.request.max.bytes=1000", "queued.max.request.bytes=1000"];
        let (world, broker) = broker(&limits).await;
        let mut client = Client::connect(&world, 1).await;
        let topic = client.create("t").await;
        let mut waiting = Vec::new();
        // Each some 80 bytes: half of them would be the whole budget.
        for _ in 0..25 {
            let mut client = Client::connect(&world, 1).await;
            client.send_fetch(topic, 0, 30_000).await;
            waiting.push(client);
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let begun = Instant::now();
        assert_eq!(client.produce("t", b"one").await, 0);
        assert_eq!(begun.elapsed().as_millis(), 0, "nobody was waited for");
        for mut client in waiting {
            assert!(client.stream.read_u32().await.expect("an answer") > 0);
        }
        assert_eq!(begun.elapsed().as_millis(), 0, "they were woken");
        broker.stop().await.expect("no panic").expect("an orderly end");
    });
}

#[test]
fn answers_come_in_order_however_the_requests_are_cut() {
    run(async {
        let (world, broker) = broker(&[]).await;
        let all: Vec<u8> = (0..40).flat_map(ping).collect();
        for cut in [1, 2, 7, 100, all.len()] {
            let mut stream = world.net.connect(World::port(1)).expect("connected");
            for chunk in all.chunks(cut) {
                stream.write_all(chunk).await.expect("room");
                tokio::task::yield_now().await;
            }
            for n in 0..40 {
                assert_eq!(answer(&mut stream).await, Some(n), "cut every {cut} bytes");
            }
        }
        broker.stop().await.expect("no panic").expect("an orderly end");
    });
}

#[test]
fn impossible_sizes_close_the_connection_alone() {
    run(async {
        let (world, broker) = broker(&["socket.request.max.bytes=1000"]).await;
        let mut other = world.net.connect(World::port(1)).expect("connected");
        let too_large = 1001u32.to_be_bytes();
        let negative = (-1i32).to_be_bytes();
        for begin in [&[0; 4][..], &negative, &too_large, b"GET / HTTP/1.1\r\n\r\n", &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc]]
        {
            let mut stream = world.net.connect(World::port(1)).expect("connected");
            // What came before is answered.
            stream.write_all(&[&ping(1), begin].concat()).await.expect("room");
            assert_eq!(answer(&mut stream).await, Some(1), "{begin:?}");
            assert_eq!(answer(&mut stream).await, None, "{begin:?}");
        }
        other.write_all(&ping(2)).await.expect("room");
        assert_eq!(answer(&mut other).await, Some(2));
        broker.stop().await.expect("no panic").expect("an orderly end");
    });
}

#[test]
fn an_address_has_no_more_connections_than_it_may() {
    run(async {
        for limit in ["max.connections.per.ip=2", "max.connections.per.ip.overrides=127.0.0.1:2"] {
            let (world, broker) = broker(&[limit]).await;
            let mut streams = Vec::new();
            for n in 0..3 {
                let mut stream = world.net.connect(World::port(1)).expect("connected");
                // Refused ones may be closed already.
                let _ = stream.write_all(&ping(n)).await;
                streams.push(stream);
            }
            assert_eq!(answer(&mut streams[0]).await, Some(0));
            assert_eq!(answer(&mut streams[1]).await, Some(1));
            assert_eq!(answer(&mut streams[2]).await, None, "{limit}");
            drop(streams);
            // Each place is free again once its connection is gone.
            let mut client = loop {
                let mut stream = world.net.connect(World::port(1)).expect("connected");
                let _ = stream.write_all(&ping(9)).await;
                if answer(&mut stream).await == Some(9) {
                    break stream;
                }
            };
            client.write_all(&ping(10)).await.expect("room");
            assert_eq!(answer(&mut client).await, Some(10));
            drop(client);
            broker.stop().await.expect("no panic").expect("an orderly end");
        }
    });
}

#[test]
fn beyond_the_brokers_limit_connections_wait_for_a_place() {
    run(async {
        let (world, broker) = broker(&["max.connections=2"]).await;
        let mut streams = Vec::new();
        for n in 0..4 {
            let mut stream = world.net.connect(World::port(1)).expect("connected");
            stream.write_all(&ping(n)).await.expect("room");
            streams.push(stream);
        }
        assert_eq!(answer(&mut streams[0]).await, Some(0));
        assert_eq!(answer(&mut streams[1]).await, Some(1));
        for place in [2, 3] {
            let waits = tokio::time::timeout(std::time::Duration::from_secs(60), answer(&mut streams[place])).await;
            assert!(waits.is_err(), "there are two already");
            // Half a request, and away.
            streams[place - 2].write_all(&ping(9)[..5]).await.expect("room");
            streams[place - 2] = world.net.connect(World::port(1)).expect("connected");
            assert_eq!(answer(&mut streams[place]).await, Some(place as i32));
        }
        broker.stop().await.expect("no panic").expect("an orderly end");
    });
}

#[test]
fn a_lower_maximum_closes_those_that_were_silent_longest() {
    run(async {
        let (world, broker) = broker(&[]).await;
        let mut admin = Client::connect(&world, 1).await;
        let topic = admin.create("t").await;
        let mut waiting = Client::connect(&world, 1).await;
        waiting.send_fetch(topic, 0, 600_000).await;
        let mut streams = Vec::new();
        for n in [0, 1, 2, 3, 0] {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            if streams.len() < 4 {
                streams.push(world.net.connect(World::port(1)).expect("connected"));
            }
            streams[n as usize].write_all(&ping(n)).await.expect("room");
            assert_eq!(answer(&mut streams[n as usize]).await, Some(n));
        }
        let config = AlterableConfig::default()
            .with_name(StrBytes::from_static_str("max.connections"))
            .with_value(Some(StrBytes::from_static_str("3")));
        let resource = AlterConfigsResource::default().with_resource_type(4).with_configs(vec![config]);
        let altered = admin.ask(1, IncrementalAlterConfigsRequest::default().with_resources(vec![resource])).await;
        assert_eq!(altered.responses[0].error_code, 0);
        // A fetch that waits is no activity, as in Kafka.
        assert!(waiting.is_closed().await);
        assert_eq!(answer(&mut streams[1]).await, None);
        assert_eq!(answer(&mut streams[2]).await, None);
        for n in [0, 3] {
            streams[n as usize].write_all(&ping(n)).await.expect("room");
            assert_eq!(answer(&mut streams[n as usize]).await, Some(n));
        }
        admin.metadata().await;
        broker.stop().await.expect("no panic").expect("an orderly end");
    });
}

#[test]
fn connections_are_served_no_faster_than_their_rate() {
    run(async {
        let limits = ["max.connection.creation.rate=2", "quota.window.num=3", "quota.window.size.seconds=1"];
        // The helper's own connection is one of the four that two windows let through.
        let (world, broker) = broker(&limits).await;
        let begun = Instant::now();
        let mut served = Vec::new();
        for n in 0..8 {
            let mut stream = world.net.connect(World::port(1)).expect("connected");
            stream.write_all(&ping(n)).await.expect("room");
            assert_eq!(answer(&mut stream).await, Some(n));
            served.push(begun.elapsed().as_millis());
        }
        assert_eq!(served[..3], [0; 3]);
        assert!(served[3] >= 500, "{served:?}");
        assert!(served.windows(2).all(|pair| pair[1] - pair[0] <= 1_000), "{served:?}");
        assert!(served[7] >= 3_000, "{served:?}");
        broker.stop().await.expect("no panic").expect("an orderly end");
    });
}

#[test]
fn who_reads_slowly_holds_up_nobody_and_gets_everything() {
    run(async {
        let (world, broker) = broker(&[]).await;
        let mut slow = world.net.connect(World::port(1)).expect("connected");
        let (count, mut sent) = (30_000, 0);
        // Until nothing more fits: the broker has stopped reading what is not answered.
        while sent < count {
            let request = ping(sent);
            let write = slow.write_all(&request);
            if tokio::time::timeout(std::time::Duration::from_secs(1), write).await.is_err() {
                break;
            }
            sent += 1;
        }
        assert!(sent < count, "the broker read on without its answers being taken");
        let mut other = Client::connect(&world, 1).await;
        other.ask(12, MetadataRequest::default().with_topics(None)).await;
        for n in 0..sent {
            assert_eq!(answer(&mut slow).await, Some(n));
        }
        drop((slow, other));
        broker.stop().await.expect("no panic").expect("an orderly end");
    });
}

#[test]
fn who_never_reads_is_closed_even_while_a_request_waits() {
    run(async {
        let (world, broker) = broker(&["connections.max.idle.ms=10000"]).await;
        let mut client = Client::connect(&world, 1).await;
        client.create("t").await;
        let mut peer = world.net.connect(World::port(1)).expect("connected");
        // The first answers fit into the stream, the others do not: they are written while the second fetch is parked.
        let answers = |count| (0..count).flat_map(ping).collect::<Vec<u8>>();
        let requests = [answers(2_000), waiting_fetch(1), answers(1_800), waiting_fetch(5_000)].concat();
        peer.write_all(&requests).await.expect("taken");
        tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        let mut rest = Vec::new();
        peer.read_to_end(&mut rest).await.expect("the end");
        assert!(peer.write_all(&ping(0)).await.is_err(), "the broker still holds a peer that never reads");
        drop((client, peer));
        broker.stop().await.expect("no panic").expect("an orderly end");
    });
}

#[test]
fn whoever_waits_for_records_is_answered_when_the_broker_stops() {
    run(async {
        let (world, broker) = broker(&[]).await;
        let disk = broker.disk.clone();
        let mut client = Client::connect(&world, 1).await;
        let topic = client.create("t").await;
        let mut waiting = Vec::new();
        for _ in 0..100 {
            let mut client = Client::connect(&world, 1).await;
            waiting.push(tokio::spawn(async move {
                let answered = client.fetch_from(topic, 0, 600_000).await;
                (answered, client.stream.read(&mut [0]).await.expect("an orderly end"))
            }));
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert!(waiting.iter().all(|fetch| !fetch.is_finished()));
        let begun = Instant::now();
        broker.stop().await.expect("no panic").expect("an orderly end");
        assert_eq!(begun.elapsed().as_millis(), 0, "nobody was waited for");
        for fetch in waiting {
            assert_eq!(fetch.await.expect("no panic"), (Ok(Vec::new()), 0));
        }
        assert!(disk.info(Path::new("/broker1/.kafka_cleanshutdown")).is_ok());
    });
}
