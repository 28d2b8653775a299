//! Reads a partition from where it stopped, and puts down what it was given.

use history::event::{Event, Partition, Poll, Polled, Seek};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::*;
use klamm::wire::batch::Batches;
use klamm::wire::error_code::ErrorCode;
use tokio::sync::watch;

use crate::client::{Client, topic_name};
use crate::stage::{PARTITIONS, TOPIC};

/// Sets a client's position, which is told.
pub fn seek(client: &Client, partition: i32, offset: i64) {
    client.stage.chronicle.write(&Event::Seek(Seek {
        client: client.name.clone(),
        at_us: client.stage.chronicle.now_us(),
        at: Partition { topic: TOPIC.to_owned(), partition },
        offset,
    }));
}

/// Where the next poll begins.
pub async fn poll(client: &mut Client, group: Option<&str>, partition: i32, position: i64) -> i64 {
    let Some(leader) = client.leader(TOPIC, partition).await else {
        client.back_off().await;
        return position;
    };
    let wanted = FetchPartition::default()
        .with_partition(partition)
        .with_current_leader_epoch(leader.epoch)
        .with_partition_max_bytes(4_096)
        .with_fetch_offset(position);
    let wanted = FetchTopic::default().with_topic(topic_name(TOPIC)).with_partitions(vec![wanted]);
    let request = FetchRequest::default().with_max_wait_ms(200).with_min_bytes(1).with_topics(vec![wanted]);
    let from_us = client.stage.chronicle.now_us();
    let answer = client.ask(leader.broker, 12, &request, 3_000).await;
    let span = client.stage.chronicle.since(from_us);
    let told = answer.as_ref().and_then(|answer| answer.responses.first()?.partitions.first());
    let error = told.map(|told| ErrorCode::answered(told.error_code));
    let Some(told) = told.filter(|_| error == Some(ErrorCode::None)) else {
        if error == Some(ErrorCode::OffsetOutOfRange) {
            let name = &client.name;
            client.stage.chronicle.wrong(format_args!(
                "{name} is told that {position} of partition {partition} is out of range in {leader:?}"
            ));
        }
        client.leaders.remove(&(TOPIC.to_owned(), partition));
        client.look_again(TOPIC).await;
        return position;
    };
    let mut records = Vec::new();
    let mut next = position;
    for batch in Batches::new(told.records.as_deref().unwrap_or_default()) {
        let batch = batch.expect("whole batches").v2().expect("magic 2");
        assert!(batch.crc_matches(), "a checksum");
        for record in batch.records() {
            let record = record.expect("a record");
            let offset = record.offset(&batch.header).0;
            if offset >= position {
                let value = String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned();
                records.push(Polled { offset, key: None, value });
            }
        }
        next = next.max(batch.header.next_offset().0);
    }
    client.stage.chronicle.count(|counts| counts.read += records.len() as u64);
    client.stage.chronicle.write(&Event::Poll(Poll {
        client: client.name.clone(),
        group: group.map(str::to_owned),
        span,
        at: Partition { topic: TOPIC.to_owned(), partition },
        position,
        next,
        leader_epoch: Some(leader.epoch),
        high_watermark: Some(told.high_watermark),
        last_stable_offset: Some(told.last_stable_offset),
        read_committed: false,
        transaction: None,
        records,
    }));
    next
}

/// Follows every partition until it is to end.
pub async fn follow(mut client: Client, mut end: watch::Receiver<bool>) {
    let mut positions = vec![0; usize::try_from(PARTITIONS).expect("few")];
    for partition in 0..PARTITIONS {
        seek(&client, partition, 0);
    }
    while !*end.borrow_and_update() {
        for (partition, position) in (0..).zip(&mut positions) {
            *position = poll(&mut client, None, partition, *position).await;
        }
        client.back_off().await;
    }
}
