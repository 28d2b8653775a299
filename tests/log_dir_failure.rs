//! Log directories that fail under a whole broker, and what else halts it.

use std::future::Future;
use std::path::Path;

use kafka_protocol::messages::DescribeLogDirsRequest;
use klamm::sim::brokers::World;
use klamm::sim::disk::{Fault, SimDisk};
use klamm::storage::disk::Disk;
use tokio::time::Instant;

#[path = "support/sim_client.rs"]
mod sim_client;
use sim_client::Client;

const STORAGE_ERROR: i16 = 56;
const CORRUPT_MESSAGE: i16 = 2;

fn run(scenario: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(scenario);
}

fn overrides(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

fn has_clean_marker(disk: &SimDisk, dir: &str) -> bool {
    disk.info(&Path::new(dir).join(".kafka_cleanshutdown")).is_ok()
}

#[test]
fn one_directory_of_two_fails_and_the_other_serves_on_until_it_fails_too() {
    run(async {
        let world = World::new(1);
        let broker = world.start(1, None, &overrides(&["log.dirs=/a,/b"])).expect("a configuration");
        let disk = broker.disk.clone();
        let mut client = Client::connect(&world, 1).await;
        // Each goes where the fewest partitions are.
        client.create("in-a").await;
        let in_b = client.create("in-b").await;
        let also_in_a = client.create("also-in-a").await;
        client.produce("in-a", b"1").await;
        client.produce("in-b", b"2").await;

        let mut waiting = Client::connect(&world, 1).await;
        let parked = tokio::spawn(async move { waiting.fetch_from(also_in_a, 0, 600_000).await });
        tokio::task::yield_now().await;
        let begun = Instant::now();
        disk.fail_next(Fault::WriteError, "/a/in-a-0");
        assert_eq!(client.try_produce("in-a", b"lost").await, Err(STORAGE_ERROR));
        assert_eq!(parked.await.expect("no panic"), Err(STORAGE_ERROR), "in the same directory");
        assert!(begun.elapsed().as_secs() < 600, "woken, not timed out");
        assert_eq!(client.try_produce("also-in-a", b"lost").await, Err(STORAGE_ERROR));

        client.produce("in-b", b"3").await;
        let offline = |topic: &kafka_protocol::messages::metadata_response::MetadataResponseTopic| {
            let partition = &topic.partitions[0];
            (partition.leader_id.0, partition.offline_replicas.len())
        };
        let metadata = client
            .metadata_until(|metadata| metadata.topics.iter().filter(|topic| offline(topic) == (-1, 1)).count() == 2)
            .await;
        assert!(metadata.topics.iter().any(|topic| offline(topic) == (1, 0)));
        assert!(world.trace.text().contains("/log_dir_event_notification/log_dir_event_0000000000"));
        let dirs = client.ask(4, DescribeLogDirsRequest::default().with_topics(None)).await.results;
        let shown: Vec<_> = dirs.iter().map(|dir| (dir.log_dir.as_str(), dir.error_code, dir.topics.len())).collect();
        assert_eq!(shown, [("/a", STORAGE_ERROR, 0), ("/b", 0, 1)]);

        disk.fail_next(Fault::WriteError, "/b/in-b-0");
        // Answered or cut off.
        drop(tokio::spawn(async move { client.try_produce("in-b", b"lost").await }).await);
        let ended = broker.ended().await.expect("no panic").expect_err("it halted");
        assert_eq!(ended.to_string(), "log directory /b failed, and none is left online: the broker halts");
        assert!(!has_clean_marker(&disk, "/a") && !has_clean_marker(&disk, "/b"));

        // The disks are replaced by good ones with the same content.
        let broker = world.start(1, Some(disk), &overrides(&["log.dirs=/a,/b"])).expect("a configuration");
        let mut client = Client::connect(&world, 1).await;
        client.metadata_until(|metadata| metadata.topics.iter().all(|topic| offline(topic) == (1, 0))).await;
        assert_eq!(client.fetch(in_b).await, [b"2", b"3"]);
        let disk = broker.disk.clone();
        broker.stop().await.expect("no panic").expect("an orderly end");
        assert!(has_clean_marker(&disk, "/a") && has_clean_marker(&disk, "/b"));
    });
}

#[test]
fn a_halt_waits_for_none_of_the_thousands_that_wait() {
    run(async {
        let world = World::new(1);
        let broker = world.start(1, None, &overrides(&["log.dirs=/a"])).expect("a configuration");
        let mut client = Client::connect(&world, 1).await;
        let topic = client.create("t").await;
        client.create("other").await;
        let mut waiting = Vec::new();
        for _ in 0..2_000 {
            let mut client = Client::connect(&world, 1).await;
            client.send_fetch(topic, 0, 600_000).await;
            waiting.push(client);
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        let begun = Instant::now();
        broker.disk.fail_next(Fault::WriteError, "/a/other-0");
        drop(tokio::spawn(async move { client.try_produce("other", b"lost").await }).await);
        broker.ended().await.expect("no panic").expect_err("it halted");
        assert_eq!(begun.elapsed().as_millis(), 0);
    });
}

#[test]
fn a_bit_that_flips_in_a_sealed_segment_costs_that_segment_alone() {
    run(async {
        let world = World::new(5);
        let small = overrides(&["log.segment.bytes=600"]);
        let broker = world.start_alone(1, None, &small).expect("a configuration");
        let disk = broker.disk.clone();
        let mut client = Client::connect(&world, 1).await;
        let topic = client.create("t").await;
        // One batch to a segment.
        for n in 0..4 {
            assert_eq!(client.produce("t", &[n; 400]).await, i64::from(n));
        }
        let magic = 16;
        let sealed = Path::new("/broker1/t-0/00000000000000000001.log");
        disk.edit(sealed, |bytes| bytes[magic] ^= 0x40).expect("it is there");
        assert_eq!(client.fetch_from(topic, 1, 500).await, Err(CORRUPT_MESSAGE));
        assert_eq!(client.fetch_from(topic, 2, 500).await.map(|values| values[0].clone()), Ok(vec![2; 400]));
        assert_eq!(client.fetch_from(topic, 0, 500).await.map(|values| values[0].clone()), Ok(vec![0; 400]));
        assert_eq!(client.produce("t", b"on it goes").await, 4);
        let dirs = client.ask(4, DescribeLogDirsRequest::default().with_topics(None)).await.results;
        assert_eq!(dirs[0].error_code, 0, "the disk answers: its directory stays online");
        broker.stop().await.expect("no panic").expect("an orderly end");
    });
}

#[test]
fn a_full_disk_halts_the_broker_and_loses_nothing_acknowledged() {
    run(async {
        let world = World::new(2);
        let broker = world.start_alone(1, None, &[]).expect("a configuration");
        let disk = broker.disk.clone();
        let mut client = Client::connect(&world, 1).await;
        let topic = client.create("t").await;
        // The metastore's journal holds room ahead.
        let journal = disk.info(Path::new("/broker1/klamm-metastore.journal")).expect("a journal").len;
        disk.set_capacity(journal + 60_000);
        let filling = tokio::spawn(async move {
            for n in 0.. {
                if client.try_produce("t", &[n; 5_000]).await.is_err() {
                    return n;
                }
            }
            0
        });
        let ended = broker.ended().await.expect("no panic").expect_err("it halted");
        assert_eq!(ended.to_string(), "log directory /broker1 failed, and none is left online: the broker halts");
        let acknowledged = filling.await.expect("answered");
        assert!(acknowledged > 3, "{acknowledged}");

        disk.set_capacity(1 << 30);
        let broker = world.start_alone(1, Some(disk), &[]).expect("a configuration");
        let mut client = Client::connect(&world, 1).await;
        client.metadata_until(|metadata| metadata.topics.len() == 1).await;
        assert_eq!(client.produce("t", b"more").await, i64::from(acknowledged));
        let values = client.fetch(topic).await;
        assert!(values.iter().zip(0..acknowledged).all(|(value, n)| *value == [n; 5_000]));
        broker.stop().await.expect("no panic").expect("an orderly end");
    });
}

#[test]
fn the_metastore_ends_with_its_directory_and_its_journal() {
    run(async {
        let world = World::new(3);
        let two = overrides(&["log.dirs=/a,/b"]);
        let broker = world.start_alone(1, None, &two).expect("a configuration");
        let disk = broker.disk.clone();
        let mut client = Client::connect(&world, 1).await;
        client.create("in-a").await;
        disk.fail_next(Fault::ShortWrite, "/a/in-a-0");
        drop(tokio::spawn(async move { client.try_produce("in-a", b"lost").await }).await);
        let ended = broker.ended().await.expect("no panic").expect_err("it halted");
        let expected = "log directory /a failed, and with it the metastore that it holds: the broker halts";
        assert_eq!(ended.to_string(), expected);

        let broker = world.start_alone(1, Some(disk.clone()), &two).expect("a configuration");
        let mut client = Client::connect(&world, 1).await;
        client.metadata_until(|metadata| metadata.topics.len() == 1).await;
        disk.fail_next(Fault::SyncError, "klamm-metastore.journal");
        drop(tokio::spawn(async move { client.create("never").await }));
        let ended = broker.ended().await.expect("no panic").expect_err("it halted");
        assert_eq!(ended.to_string(), "the metastore's journal failed: fsync failed: the broker halts");
    });
}

#[test]
fn a_background_job_that_panics_halts_the_broker() {
    run(async {
        let world = World::new(4);
        // A segment for each record.
        let flush = overrides(&["log.flush.interval.messages=1", "log.segment.bytes=110"]);
        let broker = world.start(1, None, &flush).expect("a configuration");
        let disk = broker.disk.clone();
        let mut client = Client::connect(&world, 1).await;
        client.create("t").await;
        client.produce("t", b"kept").await;
        // One that panics in a request's handler, which rolls here, costs that connection.
        disk.fail_next(Fault::SyncPanic, "/broker1/t-0/00000000000000000000.log");
        let cut_off = tokio::spawn(async move { client.try_produce("t", b"lost").await }).await;
        assert!(cut_off.is_err(), "closed without an answer");
        let mut client = Client::connect(&world, 1).await;
        client.produce("t", b"kept").await;

        disk.fail_next(Fault::SyncPanic, "/broker1/t-0/00000000000000000002.log");
        drop(tokio::spawn(async move { client.try_produce("t", b"lost").await }));
        let ended = broker.ended().await.expect("no panic").expect_err("it halted");
        assert_eq!(
            ended.to_string(),
            "a background job panicked: a simulated panic: what it looked after cannot be trusted any more, the broker halts"
        );
        assert!(!has_clean_marker(&disk, "/broker1"));
    });
}
