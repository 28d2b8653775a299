//! Producer ids, what a partition knows of its producers, and the markers that end transactions.

use anyhow::Result;
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::{
    ApiKey, DescribeProducersRequest, InitProducerIdRequest, ProducerId, RequestKind, ResponseKind, TransactionalId,
    WriteTxnMarkersRequest,
};

use super::super::requests::{
    at, fetch, fetch_topic, list_offsets, produce, produce_one, text, topic_name, transactional,
};
use super::super::script::Script;
use super::produce::{read_back, topic};
use crate::records::Batch;

/// Without a transactional id, as an idempotent producer asks.
fn fresh() -> InitProducerIdRequest {
    InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_transaction_timeout_ms(60_000)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1)
}

pub fn ids(script: &mut Script) -> Result<()> {
    let api = ApiKey::InitProducerId;
    script.ask("the very first, which has to wait for a block", api, 4, |_| RequestKind::InitProducerId(fresh()))?;
    script.until(
        "an id",
        api,
        4,
        &RequestKind::InitProducerId(fresh()),
        |response| matches!(response, ResponseKind::InitProducerId(answer) if answer.error_code == 0),
    )?;
    script.ask_all("a fresh id", api, |_, _| RequestKind::InitProducerId(fresh()))?;
    let with = |id: i64, epoch: i16| fresh().with_producer_id(ProducerId(id)).with_producer_epoch(epoch);
    for (step, id, epoch) in [
        ("an id without an epoch", 7, -1),
        ("an epoch without an id", -1, 7),
        ("an id and an epoch", 7, 7),
        ("an id and an epoch below -1", -2, -2),
        ("an id below -1 alone", -2, -1),
    ] {
        script.ask_all(step, api, |_, _| RequestKind::InitProducerId(with(id, epoch)))?;
    }
    let named = |name: &str| fresh().with_transactional_id(Some(TransactionalId(text(name))));
    script.ask_all("an empty transactional id", api, |_, _| RequestKind::InitProducerId(named("")))?;
    script.ask_all("an empty one, and half an id", api, |_, _| {
        RequestKind::InitProducerId(named("").with_producer_id(ProducerId(7)))
    })?;
    for timeout in [0, -1, 900_001, i32::MAX] {
        script.ask_all(&format!("a transaction timeout of {timeout} ms"), api, |_, _| {
            RequestKind::InitProducerId(named("t").with_transaction_timeout_ms(timeout))
        })?;
    }
    script.ask_all("a timeout of 0 without a transactional id", api, |_, _| {
        RequestKind::InitProducerId(fresh().with_transaction_timeout_ms(0))
    })
}

fn describe_request(topics: &[(&str, &[i32])]) -> RequestKind {
    let topics = topics.iter().map(|(name, partitions)| {
        TopicRequest::default().with_name(topic_name(name)).with_partition_indexes(partitions.to_vec())
    });
    RequestKind::DescribeProducers(DescribeProducersRequest::default().with_topics(topics.collect()))
}

fn describe(script: &mut Script, step: &str, topics: &[(&str, &[i32])]) -> Result<()> {
    script.ask_all(step, ApiKey::DescribeProducers, |_, _| describe_request(topics))
}

/// One record.
fn batch(id: i64, epoch: i16, sequence: i32, transactional: bool) -> Vec<u8> {
    let attributes = if transactional { 1 << 4 } else { 0 };
    let one = Batch::stamped(&[1000 + i64::from(sequence)]);
    Batch { attributes, producer_id: id, producer_epoch: epoch, base_sequence: sequence, ..one }.encode()
}

pub fn described(script: &mut Script) -> Result<()> {
    let name = topic(script, "t", 2, &[])?;
    describe(script, "nobody wrote", &[(&name, &[0, 1])])?;
    for (id, epoch, sequence) in [(100, 0, 0), (100, 0, 1), (101, 3, 0), (100, 1, 0), (102, 0, 50)] {
        script.ask("a record", ApiKey::Produce, 8, |_| produce_one(&name, 0, batch(id, epoch, sequence, false)))?;
    }
    script
        .ask("one without a producer", ApiKey::Produce, 8, |_| produce_one(&name, 1, Batch::stamped(&[1]).encode()))?;
    describe(script, "three producers", &[(&name, &[0, 1])])?;
    describe(script, "no partitions", &[(&name, &[])])?;
    describe(script, "no topics", &[])?;
    describe(script, "partitions that are not there", &[(&name, &[2, -1])])?;
    describe(script, "topics that are not there", &[("producers-none", &[0]), ("", &[0]), ("a/b", &[0])])
}

/// `(topic, partitions)` that get a marker.
type Places<'a> = &'a [(&'a str, &'a [i32])];

fn marker(id: i64, epoch: i16, commit: bool, coordinator_epoch: i32, places: Places) -> WritableTxnMarker {
    let topics = places.iter().map(|(name, partitions)| {
        WritableTxnMarkerTopic::default().with_name(topic_name(name)).with_partition_indexes(partitions.to_vec())
    });
    WritableTxnMarker::default()
        .with_producer_id(ProducerId(id))
        .with_producer_epoch(epoch)
        .with_transaction_result(commit)
        .with_coordinator_epoch(coordinator_epoch)
        .with_topics(topics.collect())
}

fn write(script: &mut Script, step: &str, version: i16, markers: Vec<WritableTxnMarker>) -> Result<()> {
    script.ask(step, ApiKey::WriteTxnMarkers, version, |_| {
        RequestKind::WriteTxnMarkers(WriteTxnMarkersRequest::default().with_markers(markers.clone()))
    })
}

pub fn markers(script: &mut Script) -> Result<()> {
    let name = topic(script, "t", 3, &[])?;
    let here: Places = &[(&name, &[0])];
    for version in script.versions(ApiKey::WriteTxnMarkers) {
        let id = 300 + i64::from(version) * 100;
        let mut step = |what: &str, markers| write(script, what, version, markers);
        step("no markers", vec![])?;
        step("a producer that is not known", vec![marker(id, 0, true, 5, here)])?;
        step("once more", vec![marker(id, 0, true, 5, here)])?;
        step("a newer coordinator and epoch", vec![marker(id, 2, false, 7, here)])?;
        step("an older epoch", vec![marker(id, 1, true, 7, here)])?;
        step("an older coordinator", vec![marker(id, 2, true, 6, here)])?;
        step("an older coordinator, a newer epoch", vec![marker(id, 3, true, 6, here)])?;
        step("an older coordinator and epoch", vec![marker(id, 1, true, 6, here)])?;
        step(
            "topics that are not there",
            vec![marker(id, 2, true, 7, &[("markers-none", &[0]), ("", &[0]), (&name, &[9, -1, 1])])],
        )?;
        step("no topics", vec![marker(id, 2, true, 7, &[])])?;
        step(
            "two of one producer",
            vec![marker(id + 2, 0, true, 7, &[(&name, &[0])]), marker(id + 2, 0, true, 6, &[(&name, &[0, 1])])],
        )?;
        step("three producers", (3..6).map(|more| marker(id + more, 0, more % 2 == 0, -1, here)).collect())?;
        step("a producer id of -1", vec![marker(-1, 0, true, 7, here)])?;
        step("an epoch of -1", vec![marker(id + 6, -1, true, 7, here)])?;
    }
    describe(script, "what the markers left", &[(&name, &[0, 1, 2])])?;
    read_back(script, &name, 0)?;
    read_back(script, &name, 1)
}

/// Ends of transactions that are open: with `transaction.partition.verification.enable=false` on both.
pub fn open_transactions(script: &mut Script) -> Result<()> {
    let name = topic(script, "t", 1, &[])?;
    let look = |script: &mut Script, step: &str| -> Result<()> {
        describe(script, step, &[(&name, &[0])])?;
        for isolation in [0, 1] {
            script.ask(step, ApiKey::ListOffsets, 8, |_| {
                RequestKind::ListOffsets(list_offsets(&name, &[(0, -1)]).with_isolation_level(isolation))
            })?;
            script.ask(step, ApiKey::Fetch, 12, |side| {
                let topics = vec![fetch_topic(&name, side.id(&name), 12, vec![at(0, 0)])];
                RequestKind::Fetch(fetch(12, topics).with_isolation_level(isolation))
            })?;
        }
        Ok(())
    };
    let send = |script: &mut Script, step: &str, id, epoch, sequence| {
        script.ask(step, ApiKey::Produce, 8, |_| {
            transactional(produce(-1, &[(&name, 0, Some(batch(id, epoch, sequence, true)))]), "t")
        })
    };
    send(script, "the first of a transaction", 600, 0, 0)?;
    send(script, "the second", 600, 0, 1)?;
    send(script, "another transaction", 601, 0, 0)?;
    look(script, "two are open")?;
    script.ask("a record outside it", ApiKey::Produce, 8, |_| produce_one(&name, 0, batch(600, 0, 2, false)))?;
    write(script, "the first is committed", 1, vec![marker(600, 0, true, 1, &[(&name, &[0])])])?;
    look(script, "one is open")?;
    write(script, "the second is aborted", 1, vec![marker(601, 1, false, 1, &[(&name, &[0])])])?;
    look(script, "none is open")?;
    send(script, "a late record of the old epoch", 601, 0, 1)?;
    send(script, "a next transaction", 601, 1, 0)?;
    look(script, "one is open again")?;
    write(script, "it is aborted", 1, vec![marker(601, 1, false, 1, &[(&name, &[0])])])?;
    look(script, "all ended")
}
