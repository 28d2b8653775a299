//! Peers that ask and do not read what they are told.

use std::io::{ErrorKind, Write};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::BufMut;
use kafka_protocol::messages::{ApiKey, ApiVersionsRequest, MetadataRequest, RequestKind, ResponseKind};

use super::scene::{Attack, PATIENCE, Scene};
use super::volley::crowd;
use crate::lanes::load;
use crate::raw::{Connection, Heard, frame};
use crate::records::{Batch, Record};
use crate::twin::requests::{at, fetch, fetch_topic, produce};

/// One partition with 64 MiB in it, and many with little.
const LARGE: &str = "large";
const SMALL: &str = "small";
/// More than the kernel takes for a peer that does not read.
const SMALL_PARTITIONS: i32 = 160;

/// What each peer that does not read may hold: a connection with the list of what it is owed.
const PER_READER: u64 = 16 << 10;
/// Each where answers are no ranges of files: 256 KiB of them.
pub const PER_READER_OF_BYTES: u64 = PER_READER + (256 << 10);

pub fn run(scene: &mut Scene) -> Result<()> {
    fill(scene.address())?;
    let (large, small) = (fetch_of(LARGE, 1)?, fetch_of(SMALL, SMALL_PARTITIONS)?);
    scene.family("fetches of 50 MiB that are never read", |attack| unread(attack, &large, 1, PER_READER));
    scene.family("fetches of many small parts that are never read", |attack| unread(attack, &small, 1, PER_READER));
    scene.family("fetches of 50 MiB asked for ahead and never read", |attack| unread(attack, &large, 100, PER_READER));
    let metadata = RequestKind::Metadata(MetadataRequest::default().with_topics(None));
    let metadata = frame(ApiKey::Metadata, 12, 1, &metadata)?.to_vec();
    scene.family("the metadata of everything asked for ahead and never read", |attack| {
        unread(attack, &metadata, 50, PER_READER_OF_BYTES)
    });
    scene.family("100,000 requests sent ahead, then read", pipelined);
    Ok(())
}

fn fill(address: &str) -> Result<()> {
    load::create_topic(address, LARGE, 1)?;
    load::create_topic(address, SMALL, SMALL_PARTITIONS)?;
    let batch = |bytes: usize| {
        let value = Some(vec![b'v'; bytes]);
        Batch::new(vec![Record { timestamp: 1_700_000_000_000, value, ..Record::default() }]).encode()
    };
    let mut connection = Connection::open(address)?;
    let mut write = |parts: Vec<(&str, i32, Option<Vec<u8>>)>| -> Result<()> {
        let answer = connection.ask(ApiKey::Produce, 7, &RequestKind::Produce(produce(1, &parts)))?;
        let ResponseKind::Produce(response) = answer else { bail!("no Produce response") };
        let refused =
            response.responses.iter().flat_map(|topic| &topic.partition_responses).find(|p| p.error_code != 0);
        ensure!(refused.is_none(), "{refused:?}");
        Ok(())
    };
    let large = batch(1_000_000);
    (0..64).try_for_each(|_| write(vec![(LARGE, 0, Some(large.clone()))]))?;
    let small = batch(40_000);
    write((0..SMALL_PARTITIONS).map(|partition| (SMALL, partition, Some(small.clone()))).collect())
}

/// A whole frame that asks for everything in a topic, up to 50 MiB.
fn fetch_of(topic: &str, partitions: i32) -> Result<Vec<u8>> {
    let partitions = (0..partitions).map(|partition| at(partition, 0).with_partition_max_bytes(50 << 20));
    let topics = vec![fetch_topic(topic, uuid::Uuid::nil(), 4, partitions.collect())];
    Ok(frame(ApiKey::Fetch, 4, 1, &RequestKind::Fetch(fetch(4, topics).with_max_bytes(50 << 20)))?.to_vec())
}

/// `per_reader` is what each may hold, in bytes.
fn unread(attack: &Attack, request: &[u8], ahead: usize, per_reader: u64) -> Result<()> {
    let readers = attack.sized(100, 1000);
    let peers = crowd(attack, &vec![request.repeat(ahead); readers])?;
    attack.allow_at_once(readers as u64 * per_reader);
    // Each has the beginning of an answer before any of them goes.
    for peer in &peers {
        peer.stream().set_read_timeout(Some(PATIENCE))?;
        ensure!(peer.stream().peek(&mut [0])? == 1, "closed instead of answered");
    }
    Ok(())
}

/// Writes as long as the broker takes it, then reads: every answer is there, in order.
fn pipelined(attack: &Attack) -> Result<()> {
    const REQUESTS: u32 = 100_000;
    let request = frame(ApiKey::ApiVersions, 0, 0, &RequestKind::ApiVersions(ApiVersionsRequest::default()))?;
    let mut bytes = Vec::with_capacity(REQUESTS as usize * request.len());
    for correlation in 0..REQUESTS {
        bytes.put_slice(&request[..8]);
        bytes.put_u32(correlation);
        bytes.put_slice(&request[12..]);
    }
    attack.count(bytes.len());
    let mut connection = Connection::open(attack.address)?;
    let mut stream = connection.stream().try_clone()?;
    // The broker stops reading when nobody reads its answers: this long without progress is its end.
    stream.set_write_timeout(Some(Duration::from_millis(200)))?;
    let mut sent = 0;
    loop {
        match stream.write(&bytes[sent..]) {
            Ok(0) => break,
            Ok(more) => sent += more,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(error) => return Err(error).context("the broker closed instead of waiting"),
        }
    }
    let whole = sent / request.len();
    for correlation in 0..whole as u32 {
        let Heard::Reply(answer) = connection.hear(PATIENCE)? else { bail!("answer {correlation} is missing") };
        ensure!(
            answer.get(..4) == Some(&correlation.to_be_bytes()),
            "not answer {correlation}: {:x?}",
            answer.get(..4)
        );
    }
    Ok(())
}
