//! Two whole brokers in one current-thread runtime, over in-memory streams, disks and tree: no thread is started, and
//! the same seed gives the same run to the byte.

use std::fs;

use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use klamm::sim::brokers::World;

#[path = "support/sim_client.rs"]
mod sim_client;
use sim_client::Client;

async fn scenario(seed: u64) -> String {
    let world = World::new(seed);
    let one = world.start(1, None, &[]).expect("a configuration");
    let mut client = Client::connect(&world, 1).await;
    let versions = client.ask(3, software()).await;
    assert!(versions.api_keys.iter().any(|api| api.api_key == 0));
    client.metadata_until(|metadata| metadata.controller_id == 1).await;

    let topic = client.create("first").await;

    let two = world.start(2, None, &[]).expect("a configuration");
    let mut other = Client::connect(&world, 2).await;
    other.ask(3, software()).await;
    let both = client.metadata_until(|metadata| metadata.brokers.len() == 2).await;
    assert_eq!(both.controller_id, 1);

    assert_eq!(client.produce("first", b"a").await, 0);
    assert_eq!(client.produce("first", b"b").await, 1);
    assert_eq!(client.fetch(topic).await, [b"a", b"b"]);

    // The controller goes, the other broker takes over.
    drop(client);
    one.stop().await.expect("no panic").expect("an orderly end");
    let alone = other.metadata_until(|metadata| metadata.controller_id == 2 && metadata.brokers.len() == 1).await;
    assert_eq!(alone.brokers[0].port, i32::from(World::port(2)));
    let topic = other.create("second").await;
    assert_eq!(other.produce("second", b"c").await, 0);
    assert_eq!(other.fetch(topic).await, [b"c"]);
    drop(other);
    two.stop().await.expect("no panic").expect("an orderly end");
    world.trace.text()
}

fn software() -> ApiVersionsRequest {
    ApiVersionsRequest::default()
        .with_client_software_name(StrBytes::from_static_str("two-brokers"))
        .with_client_software_version(StrBytes::from_static_str("1"))
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").expect("procfs").count()
}

/// One test in this file: it counts the threads of the process.
#[test]
fn the_same_seed_gives_the_same_run_without_a_thread() {
    let before = threads();
    let run = |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let trace = scenario(seed).await;
            assert_eq!(threads(), before, "a thread was started");
            trace
        })
    };
    let (first, again, other) = (run(1), run(1), run(2));
    if first != again {
        let differs = first.lines().zip(again.lines()).find(|(a, b)| a != b);
        panic!("two runs of one seed differ: {differs:#?}");
    }
    assert_ne!(first, other, "the seed decides ids");
    assert!(first.lines().count() > 50, "{first}");
}
