//! Produce (0), versions 0-11.
//!
//! One pass over the request: each partition's records are checked, stamped and appended where they lie in the frame;
//! then acks=all waits for all of them together, at most `timeout_ms`; then one answer. Partitions succeed and fail
//! independently. The first failing check of a partition wins, in Kafka's order:
//!
//! 1. a transactional batch without a transactional id refuses the whole request; so does a first batch that cannot be read
//! 2. topic or partition unknown to the metadata
//! 3. v3+: exactly one batch of magic 2; below v7 not compressed with zstd
//! 4. the transaction cannot be verified
//! 5. acks other than -1, 0, 1
//! 6. an internal topic, except for `__admin_client`
//! 7. no replica here, not the leader, directory offline
//! 8. what [`Partition::append_to_leader`] refuses: in-sync replicas, then the batch, then its records, then its producer
//!
//! Compressed records that become more than 1 MiB are checked and appended on the blocking pool, so that few bytes of one
//! client cost others no time; the connection waits meanwhile.
//!
//! acks=0 is never answered; any error closes the connection, so that the client asks for metadata again.
//! v0-2 carry message sets, which the log converts.
//!
//! Differs: null records are INVALID_RECORD; a live 3.9.1 does not answer at all.
//! Gap: there is no transaction coordinator yet, see `gaps.md`.

use std::collections::HashSet;
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::future::join_all;
use smallvec::SmallVec;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use super::context::{Part, Reply, RequestContext, Response};
use super::leader_hint::LeaderHints;
use super::serve::Close;
use super::throttle;
use crate::cluster::Snapshot;
use crate::cluster::internal_topics::is_internal;
use crate::replication::partition::{LeaderAppend, Partition};
use crate::spawn::for_request;
use crate::storage::log::{AppendError, AppendParams, Origin};
use crate::types::{Acks, Offset};
use crate::wire::compression::DECOMPRESSED_MAX;
use crate::wire::error_code::ErrorCode;
use crate::wire::header::put_response_header;
use crate::wire::produce::{self, PartitionData, PartitionResponse, ProduceRequest, ProduceResponse, RecordErrors};
use crate::wire::writer::Writer;

use batch::{FirstBatch, Lead};

mod batch;

/// Bytes of records that are walked while other connections of the thread wait: a few milliseconds.
const AT_ONCE: usize = 1 << 20;

/// An append that is not answered yet.
struct Pending {
    /// Index into the request's partitions.
    at: usize,
    partition: Arc<Partition>,
    wait: Wait,
}

/// Until the high watermark (acks=all) or, with `flush.messages`, an fsync (acks=1) is there.
#[derive(Clone, Copy)]
enum Wait {
    Committed(Offset),
    Durable(Offset),
}

/// `share` of the request budget goes with the records, before anything is waited for.
pub async fn handle<S>(ctx: &RequestContext<'_>, mut frame: BytesMut, share: S) -> Result<Reply, Close> {
    let mut request = ProduceRequest::decode(&frame, 0, ctx.version())
        .map_err(|error| Close(format!("Produce v{}: {error}", ctx.version())))?;
    let size = frame.len();
    keep_last(&mut request, &frame);
    let snapshot = ctx.services.cluster.load();
    let mut pending = Vec::new();
    let mut outcomes = Vec::with_capacity(request.partitions.len());
    let (mut walked, mut announced) = (0, 0);
    match refused_as_a_whole(&request, &frame, &snapshot, ctx.version()) {
        Some(outcome) => outcomes.resize(request.partitions.len(), outcome),
        None => {
            for (at, data) in request.partitions.iter().enumerate() {
                // Others of this thread have their turn between partitions.
                if walked > AT_ONCE {
                    walked = 0;
                    yield_now().await;
                }
                let now_ms = ctx.services.clock.wall_ms();
                let at_once = AT_ONCE.saturating_sub(announced);
                let outcome = match admit(ctx, &snapshot, &request, data, &frame, now_ms, at_once) {
                    Ok(admitted) => append(ctx, admitted, &mut frame).await?,
                    Err(refused) => Err(refused),
                };
                let records = records_of(data, &frame);
                if outcome.as_ref().is_ok_and(|(_, append)| append.info.log_append_time_ms < 0)
                    && let Some(max_timestamp) = batch::max_timestamp(records)
                {
                    ctx.services.telltales.produced(ctx, data.topic(&frame), max_timestamp, now_ms);
                }
                if at + 1 < request.partitions.len() {
                    walked = walked.saturating_add(batch::walked(records));
                    announced = announced.saturating_add(batch::announced(records));
                }
                if let Ok((partition, append)) = &outcome
                    && let Some(wait) = wait_of(append)
                {
                    pending.push(Pending { at, partition: Arc::clone(partition), wait });
                }
                outcomes.push(outcome.map_or_else(|refused| refused, |(_, append)| appended(&append)));
            }
        }
    }
    if request.acks == 0 {
        return match outcomes.iter().find(|outcome| outcome.error.is_error()) {
            Some(outcome) => Err(Close(format!("Produce with acks=0 failed: {}", outcome.error))),
            None => Ok(Reply::Nothing { throttle_ms: throttle::produced(ctx, size, request.acks) }),
        };
    }
    if !pending.is_empty() {
        frame = request.without_records(&frame);
        drop(share);
        let deadline = Instant::now() + Duration::from_millis(request.timeout_ms.max(0) as u64);
        for (at, error) in Box::pin(uncommitted(pending, deadline)).await {
            if let Some(outcome) = outcomes.get_mut(at) {
                outcome.error = error;
            }
        }
    }
    let throttle_ms = throttle::produced(ctx, size, request.acks);
    Ok(answer(ctx, &snapshot, &request, outcomes, &frame, throttle_ms))
}

/// Of a partition that is named twice the later counts, and it is answered once.
fn keep_last(request: &mut ProduceRequest, frame: &[u8]) {
    if request.partitions.len() > 1 {
        let mut seen = HashSet::with_capacity(request.partitions.len());
        request.partitions.reverse();
        request.partitions.retain(|data| seen.insert((data.topic(frame), data.index)));
        request.partitions.reverse();
    }
}

/// What Kafka finds before it appends anything: it peeks at the first batches until one is transactional, then at those
/// of the partitions it knows.
fn refused_as_a_whole(
    request: &ProduceRequest,
    frame: &[u8],
    snapshot: &Snapshot,
    version: i16,
) -> Option<PartitionResponse> {
    for data in &request.partitions {
        match batch::first(records_of(data, frame)) {
            Lead::Corrupt(message) => return Some(failed_because(ErrorCode::CorruptMessage, message)),
            Lead::Garbled => return Some(failed(ErrorCode::UnknownServerError)),
            Lead::Batch(first) if first.is_transactional => {
                let named = request.transactional_id.is_some();
                if !named {
                    return Some(failed(ErrorCode::TransactionalIdAuthorizationFailed));
                }
                break;
            }
            Lead::Batch(_) | Lead::Nothing => {}
        }
    }
    let known = |data: &PartitionData| snapshot.partition(data.topic(frame), data.index).is_some();
    let stumbles = |data: &PartitionData| batch::has_no_codec(records_of(data, frame), version);
    request.partitions.iter().filter(|data| stumbles(data)).any(known).then(|| failed(ErrorCode::UnknownServerError))
}

fn records_of<'f>(data: &PartitionData, frame: &'f [u8]) -> &'f [u8] {
    data.records().and_then(|range| frame.get(range)).unwrap_or_default()
}

/// What is known of one partition's append once it may be tried.
struct Admitted {
    partition: Arc<Partition>,
    acks: Acks,
    params: AppendParams,
    /// The records in the frame.
    range: Range<usize>,
}

/// One partition: what is checked before its append.
fn admit(
    ctx: &RequestContext<'_>,
    snapshot: &Snapshot,
    request: &ProduceRequest,
    data: &PartitionData,
    frame: &[u8],
    now_ms: i64,
    decompressed_max: usize,
) -> Result<Admitted, PartitionResponse> {
    let topic = data.topic(frame);
    if snapshot.partition(topic, data.index).is_none() {
        return Err(failed(ErrorCode::UnknownTopicOrPartition));
    }
    let Some(range) = data.records() else { return Err(failed(ErrorCode::InvalidRecord)) };
    let records = frame.get(range.clone()).unwrap_or_default();
    let version = ctx.version();
    let first = if version >= 3 { Some(batch::only(records, version).map_err(failed)?) } else { None };
    if first.is_some_and(|first| needs_verification(ctx, &first)) {
        return Err(unverified());
    }
    let acks = match request.acks {
        0 => Acks::None,
        1 => Acks::Leader,
        -1 => Acks::All,
        _ => return Err(failed(ErrorCode::InvalidRequiredAcks)),
    };
    if is_internal(topic) && ctx.header.client_id.as_deref() != Some("__admin_client") {
        return Err(failed(ErrorCode::InvalidTopicException));
    }
    let Some(partition) = ctx.services.partitions.get(topic, data.index) else {
        return Err(failed(ErrorCode::NotLeaderOrFollower));
    };
    let params = AppendParams {
        origin: Origin::Client { produce_version: version },
        leader_epoch: partition.leader_epoch(),
        now_ms,
        decompressed_max,
    };
    Ok(Admitted { partition, acks, params, range })
}

/// One partition's append: here, or, when its records decompress to many, where it holds up nobody else. The frame is
/// lost with the blocking pool only, when the broker stops.
async fn append(
    ctx: &RequestContext<'_>,
    admitted: Admitted,
    frame: &mut BytesMut,
) -> Result<Result<(Arc<Partition>, LeaderAppend), PartitionResponse>, Close> {
    let Admitted { partition, acks, params, range } = admitted;
    let records = frame.get_mut(range.clone()).unwrap_or_default();
    let mut outcome = partition.append_to_leader(records, acks, params);
    if let Err(AppendError::Lengthy) = outcome {
        let (there, mut whole) = (Arc::clone(&partition), mem::take(frame));
        let params = AppendParams { decompressed_max: DECOMPRESSED_MAX, ..params };
        let appended = for_request(&*ctx.services.spawner, move || {
            let outcome = there.append_to_leader(whole.get_mut(range).unwrap_or_default(), acks, params);
            (whole, outcome)
        });
        let Some((whole, appended)) = appended.await else { return Err(Close("the broker stops".to_owned())) };
        (*frame, outcome) = (whole, appended);
    }
    Ok(outcome.map(|append| (partition, append)).map_err(refused))
}

/// Whether the coordinator must say that this partition is part of the producer's transaction.
fn needs_verification(ctx: &RequestContext<'_>, first: &FirstBatch) -> bool {
    first.is_transactional
        && first.has_producer
        && ctx.services.configs.broker().transaction_partition_verification_enable
}

/// There is no coordinator to ask: what Kafka answers while it cannot be reached. Clients try again.
fn unverified() -> PartitionResponse {
    failed_because(
        ErrorCode::NotEnoughReplicas,
        "the partition could not be verified to be part of the transaction: COORDINATOR_NOT_AVAILABLE".to_owned(),
    )
}

fn failed_because(error: ErrorCode, message: String) -> PartitionResponse {
    let mut outcome = failed(error);
    outcome.errors = Some(Box::new(RecordErrors { records: Vec::new(), message: Some(message) }));
    outcome
}

fn failed(error: ErrorCode) -> PartitionResponse {
    PartitionResponse {
        error,
        base_offset: -1,
        log_append_time_ms: -1,
        log_start_offset: -1,
        errors: None,
        current_leader: None,
    }
}

fn refused(error: AppendError) -> PartitionResponse {
    match error {
        AppendError::Refused { code, message, record_errors, tell_client, log_start_offset } => {
            let mut outcome = failed(code);
            outcome.log_start_offset = log_start_offset.0;
            if tell_client || !record_errors.is_empty() {
                outcome.errors = Some(Box::new(RecordErrors {
                    records: record_errors.into_iter().map(|error| (error.batch_index, error.message)).collect(),
                    message: tell_client.then_some(message),
                }));
            }
            outcome
        }
        // Asked for without that limit.
        AppendError::Lengthy => failed(ErrorCode::UnknownServerError),
        AppendError::Storage { .. } => failed(ErrorCode::KafkaStorageError),
    }
}

fn wait_of(append: &LeaderAppend) -> Option<Wait> {
    append.committed_at.map(Wait::Committed).or(append.durable_at.map(Wait::Durable))
}

fn appended(append: &LeaderAppend) -> PartitionResponse {
    PartitionResponse {
        error: ErrorCode::None,
        base_offset: append.info.first_offset.0,
        log_append_time_ms: append.info.log_append_time_ms,
        log_start_offset: append.info.log_start_offset.0,
        errors: None,
        current_leader: None,
    }
}

/// Waits for all of `pending` together, until `deadline`. Those that were not committed, with the reason; their records
/// stay in the log and their offsets in the answer.
async fn uncommitted(pending: Vec<Pending>, deadline: Instant) -> Vec<(usize, ErrorCode)> {
    let waits = pending.into_iter().map(|Pending { at, partition, wait }| async move {
        let outcome = match wait {
            Wait::Committed(offset) => timeout_at(deadline, partition.committed(offset)).await,
            // As in Kafka, where that fsync is a part of the append, no timeout cuts it short.
            Wait::Durable(offset) => Ok(partition.durable(offset).await),
        };
        match outcome {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some((at, error.code())),
            Err(_) => Some((at, ErrorCode::RequestTimedOut)),
        }
    });
    join_all(waits).await.into_iter().flatten().collect()
}

fn answer(
    ctx: &RequestContext<'_>,
    snapshot: &Snapshot,
    request: &ProduceRequest,
    outcomes: Vec<PartitionResponse>,
    frame: &[u8],
    throttle_ms: i32,
) -> Reply {
    let version = ctx.version();
    let mut hints = LeaderHints::default();
    let partitions: SmallVec<[(&str, i32, PartitionResponse); 1]> = request
        .partitions
        .iter()
        .zip(outcomes)
        .map(|(data, mut outcome)| {
            let topic = data.topic(frame);
            if version >= 10 && outcome.error == ErrorCode::NotLeaderOrFollower {
                outcome.current_leader = Some(hints.add(snapshot, &ctx.connection.listener, topic, data.index));
            }
            (topic, data.index, outcome)
        })
        .collect();
    let mut buf = BytesMut::with_capacity(64 * (partitions.len() + 1));
    put_response_header(&mut buf, ctx.header.api_key, version, ctx.header.correlation_id);
    let mut out = Writer::new(buf, version >= produce::FIRST_FLEXIBLE);
    ProduceResponse { throttle_ms, partitions: &partitions, node_endpoints: &hints.endpoints }
        .encode(&mut out, version);
    Reply::Send(Response { parts: vec![Part::Bytes(out.buf.freeze())], throttle_ms })
}
