//! Transactions, from the coordinator's first word to the last marker: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn,
//! TxnOffsetCommit, EndTxn, DescribeTransactions, ListTransactions.

use anyhow::Result;
use kafka_protocol::messages::add_partitions_to_txn_request::{AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, ApiKey, DescribeTransactionsRequest, EndTxnRequest,
    FindCoordinatorRequest, InitProducerIdRequest, ListTransactionsRequest, OffsetFetchRequest, ProducerId,
    RequestKind, ResponseKind, TransactionalId, TxnOffsetCommitRequest,
};

use super::super::requests::{at, fetch, fetch_topic, list_offsets, produce, text, topic_name, transactional};
use super::super::script::Script;
use super::group_offsets::fetch_one;
use super::groups::group_id;
use super::produce::topic;
use crate::records::Batch;

const INIT: ApiKey = ApiKey::InitProducerId;
const ADD: ApiKey = ApiKey::AddPartitionsToTxn;
const ADD_OFFSETS: ApiKey = ApiKey::AddOffsetsToTxn;
const COMMIT: ApiKey = ApiKey::TxnOffsetCommit;
const END: ApiKey = ApiKey::EndTxn;

type Producer = (i64, i16);

fn named(id: &str) -> TransactionalId {
    TransactionalId(text(id))
}

fn init(id: Option<&str>, expected: Producer) -> RequestKind {
    RequestKind::InitProducerId(
        InitProducerIdRequest::default()
            .with_transactional_id(id.map(named))
            .with_transaction_timeout_ms(60_000)
            .with_producer_id(ProducerId(expected.0))
            .with_producer_epoch(expected.1),
    )
}

/// `(topic, partitions)`.
type Places<'a> = &'a [(&'a str, &'a [i32])];

fn topics(places: Places) -> Vec<AddPartitionsToTxnTopic> {
    let topic = |(name, partitions): &(&str, &[i32])| {
        AddPartitionsToTxnTopic::default().with_name(topic_name(name)).with_partitions(partitions.to_vec())
    };
    places.iter().map(topic).collect()
}

fn transaction(id: &str, (producer, epoch): Producer, places: Places, verify: bool) -> AddPartitionsToTxnTransaction {
    AddPartitionsToTxnTransaction::default()
        .with_transactional_id(named(id))
        .with_producer_id(ProducerId(producer))
        .with_producer_epoch(epoch)
        .with_verify_only(verify)
        .with_topics(topics(places))
}

fn add(version: i16, id: &str, producer: Producer, places: Places) -> RequestKind {
    let request = AddPartitionsToTxnRequest::default();
    RequestKind::AddPartitionsToTxn(match version >= 4 {
        true => request.with_transactions(vec![transaction(id, producer, places, false)]),
        false => request
            .with_v3_and_below_transactional_id(named(id))
            .with_v3_and_below_producer_id(ProducerId(producer.0))
            .with_v3_and_below_producer_epoch(producer.1)
            .with_v3_and_below_topics(topics(places)),
    })
}

fn add_offsets(id: &str, (producer, epoch): Producer, group: &str) -> RequestKind {
    RequestKind::AddOffsetsToTxn(
        AddOffsetsToTxnRequest::default()
            .with_transactional_id(named(id))
            .with_producer_id(ProducerId(producer))
            .with_producer_epoch(epoch)
            .with_group_id(group_id(group)),
    )
}

fn end(id: &str, (producer, epoch): Producer, commit: bool) -> RequestKind {
    RequestKind::EndTxn(
        EndTxnRequest::default()
            .with_transactional_id(named(id))
            .with_producer_id(ProducerId(producer))
            .with_producer_epoch(epoch)
            .with_committed(commit),
    )
}

/// `(topic, partition, offset)` each.
fn commit(id: &str, (producer, epoch): Producer, group: &str, offsets: &[(&str, i32, i64)]) -> TxnOffsetCommitRequest {
    let topics = offsets.iter().map(|&(name, partition, offset)| {
        let at = TxnOffsetCommitRequestPartition::default()
            .with_partition_index(partition)
            .with_committed_offset(offset)
            .with_committed_metadata(Some(text("m")));
        TxnOffsetCommitRequestTopic::default().with_name(topic_name(name)).with_partitions(vec![at])
    });
    TxnOffsetCommitRequest::default()
        .with_transactional_id(named(id))
        .with_group_id(group_id(group))
        .with_producer_id(ProducerId(producer))
        .with_producer_epoch(epoch)
        .with_topics(topics.collect())
}

/// One record.
fn batch((id, epoch): Producer, sequence: i32) -> Vec<u8> {
    let one = Batch::stamped(&[1000 + i64::from(sequence)]);
    Batch { attributes: 1 << 4, producer_id: id, producer_epoch: epoch, base_sequence: sequence, ..one }.encode()
}

fn look(script: &mut Script, step: &str, name: &str) -> Result<()> {
    for isolation in [0, 1] {
        script.ask(step, ApiKey::ListOffsets, 8, |_| {
            RequestKind::ListOffsets(list_offsets(name, &[(0, -1)]).with_isolation_level(isolation))
        })?;
        script.ask(step, ApiKey::Fetch, 12, |side| {
            let topics = vec![fetch_topic(name, side.id(name), 12, vec![at(0, 0)])];
            RequestKind::Fetch(fetch(12, topics).with_isolation_level(isolation))
        })?;
    }
    Ok(())
}

fn describe(script: &mut Script, step: &str, ids: &[&str]) -> Result<()> {
    script.ask_all(step, ApiKey::DescribeTransactions, |_, _| {
        let ids = ids.iter().map(|id| named(id)).collect();
        RequestKind::DescribeTransactions(DescribeTransactionsRequest::default().with_transactional_ids(ids))
    })
}

fn list(script: &mut Script, step: &str, producers: &[i64], states: &[&str], longer_ms: i64) -> Result<()> {
    script.ask_all(step, ApiKey::ListTransactions, |version, _| {
        let request = ListTransactionsRequest::default()
            .with_producer_id_filters(producers.iter().map(|id| ProducerId(*id)).collect())
            .with_state_filters(states.iter().map(|state| text(state)).collect());
        RequestKind::ListTransactions(if version >= 1 { request.with_duration_filter(longer_ms) } else { request })
    })
}

fn done(response: &ResponseKind) -> bool {
    matches!(response, ResponseKind::EndTxn(answer) if answer.error_code == 0)
}

/// Both have a coordinator for `id`, ids to give, and a coordinator for groups.
fn begin(script: &mut Script, id: &str) -> Result<()> {
    let find = FindCoordinatorRequest::default().with_key_type(1).with_coordinator_keys(vec![text(id)]);
    script.until(
        "a coordinator",
        ApiKey::FindCoordinator,
        4,
        &RequestKind::FindCoordinator(find),
        |response| matches!(response, ResponseKind::FindCoordinator(found) if found.coordinators[0].error_code == 0),
    )?;
    script.await_coordinator()?;
    // Loaded, and with producer ids: an id that is used for nothing else.
    script.until(
        "a producer id",
        INIT,
        4,
        &init(Some("to-begin-with"), (-1, -1)),
        |response| matches!(response, ResponseKind::InitProducerId(answer) if answer.error_code == 0),
    )
}

/// A transactional id from its first producer to its third, in every version of everything.
pub fn lives(script: &mut Script) -> Result<()> {
    let t = topic(script, "t", 2, &[])?;
    let t = t.as_str();
    let first = script.topic("tx0");
    begin(script, &first)?;
    for version in script.versions(ADD) {
        let capped = |script: &Script, api| version.min(*script.versions(api).end());
        let (id, group) = (script.topic(&format!("tx{version}")), script.topic(&format!("g{version}")));
        let (id, group) = (id.as_str(), group.as_str());
        let (inits, ends) = (capped(script, INIT), capped(script, END));
        let (offsets, commits) = (capped(script, ADD_OFFSETS), capped(script, COMMIT));
        describe(script, "an id nobody used, an empty one", &[id, ""])?;
        script.ask("a first producer", INIT, inits, |_| init(Some(id), (-1, -1)))?;
        let p = script.producer();
        let (old, next, other) = ((p.0, p.1 - 1), (p.0, p.1 + 1), (p.0 + 77_777, p.1));
        describe(script, "it has begun nothing", &[id])?;
        script.ask("an end of nothing", END, ends, |_| end(id, p, true))?;
        for (step, producer) in [("a future epoch", next), ("a past epoch", old), ("another producer", other)] {
            script.ask(step, ADD, version, |_| add(version, id, producer, &[(t, &[0])]))?;
            script.ask(step, ADD_OFFSETS, offsets, |_| add_offsets(id, producer, group))?;
            script.ask(step, END, ends, |_| end(id, producer, false))?;
        }
        script.ask("an id nobody has", ADD, version, |_| add(version, "nobody", p, &[(t, &[0])]))?;
        script.ask("an empty id", ADD, version, |_| add(version, "", p, &[(t, &[0])]))?;
        script.ask("an empty id", ADD_OFFSETS, offsets, |_| add_offsets("", p, group))?;
        script.ask("an empty id", END, ends, |_| end("", p, true))?;
        script.ask("a partition that is not there", ADD, version, |_| {
            add(version, id, p, &[(t, &[0, 9]), ("nowhere", &[0])])
        })?;
        script.ask("a partition", ADD, version, |_| add(version, id, p, &[(t, &[0])]))?;
        script.ask("the same", ADD, version, |_| add(version, id, p, &[(t, &[0])]))?;
        script.ask("another", ADD, version, |_| add(version, id, p, &[(t, &[1, 0])]))?;
        describe(script, "it is ongoing", &[id])?;
        list(script, "ongoing ones", &[], &["Ongoing"], -1)?;
        for sequence in 0..2 {
            script.ask("a record", ApiKey::Produce, 8, |_| {
                transactional(produce(-1, &[(t, 0, Some(batch(p, sequence)))]), id)
            })?;
        }
        script.ask("a group", ADD_OFFSETS, offsets, |_| add_offsets(id, p, group))?;
        script.ask("offsets", COMMIT, commits, |_| {
            RequestKind::TxnOffsetCommit(commit(id, p, group, &[(t, 0, 5), (t, 9, 1), ("nowhere", 0, 1)]))
        })?;
        script.ask("they are not stable", ApiKey::OffsetFetch, 7, |_| {
            let RequestKind::OffsetFetch(request) = fetch_one(7, group, Some(&[(t, &[0, 1])])) else {
                return RequestKind::OffsetFetch(OffsetFetchRequest::default());
            };
            RequestKind::OffsetFetch(request.with_require_stable(true))
        })?;
        script.ask("nor committed", ApiKey::OffsetFetch, 7, |_| fetch_one(7, group, Some(&[(t, &[0])])))?;
        look(script, "before the end", t)?;
        script.ask("committed", END, ends, |_| end(id, p, true))?;
        script.until("complete", END, ends, &end(id, p, true), done)?;
        script.ask("aborted after that", END, ends, |_| end(id, p, false))?;
        script.ask("the offsets are committed", ApiKey::OffsetFetch, 7, |_| fetch_one(7, group, Some(&[(t, &[0])])))?;
        describe(script, "it is complete", &[id])?;
        look(script, "after the commit", t)?;
        script.ask("the next transaction", ADD, version, |_| add(version, id, p, &[(t, &[0])]))?;
        script
            .ask("its record", ApiKey::Produce, 8, |_| transactional(produce(-1, &[(t, 0, Some(batch(p, 2)))]), id))?;
        script.ask("aborted", END, ends, |_| end(id, p, false))?;
        script.until("complete", END, ends, &end(id, p, false), done)?;
        script.ask("committed after that", END, ends, |_| end(id, p, true))?;
        look(script, "after the abort", t)?;
        script.ask("one more transaction", ADD, version, |_| add(version, id, p, &[(t, &[0])]))?;
        script.ask("a second producer takes over", INIT, inits, |_| init(Some(id), (-1, -1)))?;
        script.until(
            "a second producer",
            INIT,
            inits,
            &init(Some(id), (-1, -1)),
            |response| matches!(response, ResponseKind::InitProducerId(answer) if answer.error_code == 0),
        )?;
        script.ask("the first one is fenced", ADD, version, |_| add(version, id, p, &[(t, &[0])]))?;
        script.ask("the first one is fenced", END, ends, |_| end(id, p, true))?;
        script.ask("a third producer", INIT, inits, |_| init(Some(id), (-1, -1)))?;
        let third = script.producer();
        if inits >= 3 {
            script.ask("it recovers", INIT, inits, |_| init(Some(id), third))?;
            script.ask("it asks again", INIT, inits, |_| init(Some(id), third))?;
            script.ask("an older one recovers", INIT, inits, |_| init(Some(id), p))?;
            script.ask("another's id", INIT, inits, |_| init(Some(id), (other.0, 0)))?;
        }
        describe(script, "after three producers", &[id, id])?;
    }
    list(script, "all", &[], &[], -1)?;
    list(script, "states there are and are not", &[], &["Empty", "nothing", "CompleteAbort", "nothing"], -1)?;
    list(script, "states nobody knows", &[], &["empty"], -1)?;
    list(script, "a producer nobody has", &[7], &[], -1)?;
    list(script, "long ones", &[], &[], 3_600_000)
}

/// What only brokers send: several transactions, and whether partitions are part of them.
pub fn between_brokers(script: &mut Script) -> Result<()> {
    let t = topic(script, "t", 2, &[])?;
    let (t, one, two) = (t.as_str(), script.topic("one"), script.topic("two"));
    begin(script, &one)?;
    script.ask("one", INIT, 4, |_| init(Some(&one), (-1, -1)))?;
    let first = script.producer();
    script.ask("two", INIT, 4, |_| init(Some(&two), (-1, -1)))?;
    let second = script.producer();
    script.ask("one has a partition", ADD, 3, |_| add(3, &one, first, &[(t, &[0])]))?;
    for version in script.versions(ADD).filter(|version| *version >= 4) {
        let ask = |script: &mut Script, step: &str, transactions: Vec<AddPartitionsToTxnTransaction>| {
            script.ask(step, ADD, version, |_| {
                let request = AddPartitionsToTxnRequest::default().with_transactions(transactions.clone());
                RequestKind::AddPartitionsToTxn(request)
            })
        };
        let both: Places = &[(t, &[0, 1])];
        ask(
            script,
            "are they in it",
            vec![
                transaction(&one, first, both, true),
                transaction(&two, second, both, true),
                transaction("nobody", second, both, true),
                transaction("", second, both, true),
            ],
        )?;
        ask(script, "another epoch", vec![transaction(&one, (first.0, first.1 + 1), both, true)])?;
        ask(script, "another producer", vec![transaction(&one, (second.0, 0), both, true)])?;
        ask(script, "a partition that is not there", vec![transaction(&one, first, &[(t, &[0, 9])], true)])?;
        ask(
            script,
            "asked and added",
            vec![transaction(&one, first, &[(t, &[0])], true), transaction(&two, second, &[(t, &[1])], false)],
        )?;
        ask(script, "it is in it now", vec![transaction(&two, second, both, true)])?;
        script.ask("the end", END, 3, |_| end(&two, second, false))?;
        script.until("complete", END, 3, &end(&two, second, false), done)?;
    }
    Ok(())
}
