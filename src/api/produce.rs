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
//! What takes long is checked on the pool for that, so that few bytes of one client cost others no time; the connection waits
//! meanwhile, and appends here. Between the partitions of a request others have their turn.
//!
//! acks=0 is never answered; any error closes the connection, so that the client asks for metadata again.
//! v0-2 carry message sets, which the log converts.
//!
//! The first batch of a transaction in a partition is verified: the transaction's coordinator is asked, for all partitions of
//! the request together, whether they are part of it (KIP-890, `verification`).
//!
//! Differs: null records are INVALID_RECORD; a live 3.9.1 does not answer at all.

use std::collections::HashSet;
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::future::join_all;
use smallvec::SmallVec;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout, timeout_at};

use super::context::{Reply, RequestContext, Response};
use super::leader_hint::LeaderHints;
use super::serve::Close;
use super::throttle;
use crate::cluster::Snapshot;
use crate::cluster::internal_topics::is_internal;
use crate::replication::partition::{LeaderAppend, Partition};
use crate::spawn::heavy_for_request;
use crate::storage::log::{AppendError, AppendParams, Origin, Verification};
use crate::types::{Acks, Offset};
use crate::wire::compression::DECOMPRESSED_MAX;
use crate::wire::error_code::ErrorCode;
use crate::wire::frame::Frame;
use crate::wire::header::put_response_header;
use crate::wire::produce::{self, PartitionData, PartitionResponse, ProduceRequest, ProduceResponse, RecordErrors};
use crate::wire::writer::Writer;

use batch::Lead;
use verification::{Questions, Verdicts};

mod batch;
mod verification;

/// Bytes that a compressed batch may become while other connections of the thread wait: with the smallest of records in gzip
/// they are a millisecond.
const UNPACKED_AT_ONCE: usize = 128 << 10;

/// How long others wait while the partitions of one request are served, microseconds.
const TURN_US: i64 = 300;

/// Records of one request that are each refused with a sentence; of the rest only their partition's error is told.
const RECORD_ERRORS_MAX: usize = 10_000;

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

/// A request of which not everything is appended, or not everything that is waited for is there.
pub struct Waiting {
    producing: Producing,
    left: Left,
}

/// What is left to do.
enum Left {
    /// The coordinator is to be asked; with the body as received.
    Verify(BytesMut, Questions),
    /// Records are to be appended; with the body as received.
    Append(BytesMut, Pause),
    /// What was appended is waited for; with the names alone.
    Wait(BytesMut),
}

/// Why the walk over a request's partitions stops.
enum Pause {
    /// Others of this thread have their turn.
    Turn,
    /// The next partition's records are to be checked where that may take long.
    Lengthy(Admitted),
    /// The next partition's next leader epoch is about to begin.
    Changing(Arc<Partition>),
}

/// Appends what can be appended at once. The inner error is what is left to do.
pub fn begin(ctx: &RequestContext<'_>, mut frame: Frame<'_>) -> Result<Result<Reply, Box<Waiting>>, Close> {
    let mut producing = Producing::read(ctx, &frame)?;
    let snapshot = ctx.services.cluster.glance();
    producing.refuse_as_a_whole(ctx, &frame, &snapshot);
    let left = match producing.questions(ctx, &frame, &snapshot) {
        Some(questions) => Left::Verify(frame.take(), questions),
        None => match producing.append(ctx, &snapshot, &mut frame) {
            Some(pause) => Left::Append(frame.take(), pause),
            None => match producing.names_to_wait_with(&frame) {
                Some(names) => Left::Wait(names),
                None => return producing.answer(ctx, &snapshot, &frame).map(Ok),
            },
        },
    };
    Ok(Err(Box::new(Waiting { producing, left })))
}

/// Does the rest. `share` of the request budget goes with the records, before anything is waited for.
pub async fn finish<S>(ctx: &RequestContext<'_>, waiting: Waiting, share: S) -> Result<Reply, Close> {
    let Waiting { mut producing, left } = waiting;
    let begun = match left {
        Left::Wait(names) => Err(names),
        Left::Append(frame, pause) => Ok((frame, Some(pause))),
        Left::Verify(mut frame, questions) => {
            producing.verdicts.ask(ctx, questions).await;
            let next = producing.append(ctx, &ctx.services.cluster.load(), &mut frame);
            Ok((frame, next))
        }
    };
    let names = match begun {
        Err(names) => names,
        Ok((mut frame, mut next)) => {
            while let Some(pause) = next {
                match pause {
                    Pause::Turn => yield_now().await,
                    Pause::Lengthy(admitted) => {
                        let partition = Arc::clone(&admitted.partition);
                        let outcome = match check_elsewhere(ctx, admitted, &mut frame).await? {
                            Err(AppendError::Changing) => {
                                next = Some(Pause::Changing(partition));
                                continue;
                            }
                            outcome => outcome.map(|append| (partition, append)).map_err(refused),
                        };
                        producing.note(ctx, outcome, &frame);
                    }
                    Pause::Changing(partition) => {
                        if timeout(producing.timeout(), partition.settled()).await.is_err() {
                            producing.note(ctx, Err(failed(ErrorCode::NotLeaderOrFollower)), &frame);
                        }
                    }
                }
                next = producing.append(ctx, &ctx.services.cluster.load(), &mut frame);
            }
            match producing.names_to_wait_with(&frame) {
                Some(names) => names,
                None => return producing.answer(ctx, &ctx.services.cluster.load(), &frame),
            }
        }
    };
    drop(share);
    producing.wait().await;
    producing.answer(ctx, &ctx.services.cluster.load(), &names)
}

/// One request between its first append and its answer.
struct Producing {
    request: ProduceRequest,
    /// Bytes of its body.
    size: usize,
    /// What became of its first partitions.
    outcomes: SmallVec<[PartitionResponse; 1]>,
    pending: SmallVec<[Pending; 1]>,
    /// Records refused with a sentence so far.
    record_errors: usize,
    /// When its records are appended, wall clock.
    now_ms: i64,
    /// What the coordinator says of its partitions.
    verdicts: Verdicts,
}

type Outcome = Result<(Arc<Partition>, LeaderAppend), PartitionResponse>;

impl Producing {
    fn read(ctx: &RequestContext<'_>, frame: &[u8]) -> Result<Producing, Close> {
        let mut request = ProduceRequest::decode(frame, 0, ctx.version())
            .map_err(|error| Close(format!("Produce v{}: {error}", ctx.version())))?;
        keep_last(&mut request, frame);
        let (outcomes, pending) = Default::default();
        let verdicts = Verdicts::new(ctx, &request);
        let size = frame.len();
        Ok(Producing { request, size, outcomes, pending, record_errors: 0, now_ms: 0, verdicts })
    }

    fn refuse_as_a_whole(&mut self, ctx: &RequestContext<'_>, frame: &[u8], snapshot: &Snapshot) {
        if let Some(outcome) = refused_as_a_whole(&self.request, frame, snapshot, ctx.version()) {
            self.outcomes.resize(self.request.partitions.len(), outcome);
        }
    }

    /// What the coordinator is to be asked, where anything is to be appended at all.
    fn questions(&mut self, ctx: &RequestContext<'_>, frame: &[u8], snapshot: &Snapshot) -> Option<Questions> {
        if !self.verdicts.are_asked_for() || !self.outcomes.is_empty() {
            return None;
        }
        match self.verdicts.questions(ctx, &self.request, frame, snapshot) {
            Ok(questions) => questions,
            Err(refused) => {
                self.outcomes.resize(self.request.partitions.len(), refused);
                None
            }
        }
    }

    /// Appends the records of the partitions that have no outcome yet, in order.
    fn append(&mut self, ctx: &RequestContext<'_>, snapshot: &Snapshot, frame: &mut [u8]) -> Option<Pause> {
        let clock = &ctx.services.clock;
        self.now_ms = clock.wall_ms();
        // Nearly every request has one partition, and asks for no time.
        let turn = (self.request.partitions.len() > 1).then(|| (self.outcomes.len(), clock.monotonic_us()));
        while let Some(data) = self.request.partitions.get(self.outcomes.len()) {
            if let Some((begun_at, begun_us)) = turn
                && self.outcomes.len() > begun_at
                && clock.monotonic_us() - begun_us > TURN_US
            {
                return Some(Pause::Turn);
            }
            let verdict = self.verdicts.of(self.outcomes.len());
            let outcome = match admit(ctx, snapshot, &self.request, data, frame, verdict, self.now_ms) {
                Err(refused) => Err(refused),
                Ok(admitted) => {
                    let records = frame.get_mut(admitted.range.clone()).unwrap_or_default();
                    match admitted.partition.append_to_leader(records, admitted.acks, admitted.params) {
                        Err(AppendError::Lengthy) => return Some(Pause::Lengthy(admitted)),
                        Err(AppendError::Changing) => return Some(Pause::Changing(admitted.partition)),
                        Err(error) => Err(refused(error)),
                        Ok(append) => Ok((admitted.partition, append)),
                    }
                }
            };
            self.note(ctx, outcome, frame);
        }
        None
    }

    /// Takes in what became of the next partition.
    fn note(&mut self, ctx: &RequestContext<'_>, outcome: Outcome, frame: &[u8]) {
        let at = self.outcomes.len();
        let Some(data) = self.request.partitions.get(at) else { return };
        let records = records_of(data, frame);
        if outcome.as_ref().is_ok_and(|(_, append)| append.info.log_append_time_ms < 0)
            && let Some(max_timestamp) = batch::max_timestamp(records)
        {
            ctx.services.telltales.produced(ctx, || data.topic(frame), max_timestamp, self.now_ms);
        }
        self.outcomes.push(match outcome {
            Ok((partition, append)) => {
                let answer = appended(&append);
                if let Some(wait) = wait_of(&append) {
                    self.pending.push(Pending { at, partition, wait });
                }
                answer
            }
            Err(mut refused) => {
                if let Some(errors) = &mut refused.errors {
                    errors.records.truncate(RECORD_ERRORS_MAX.saturating_sub(self.record_errors));
                    self.record_errors += errors.records.len();
                }
                refused
            }
        });
    }

    /// When something that was appended is waited for: what stands in for the body from here on, without the records.
    fn names_to_wait_with(&mut self, frame: &[u8]) -> Option<BytesMut> {
        let waits = self.request.acks != 0 && !self.pending.is_empty();
        waits.then(|| self.request.without_records(frame))
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(self.request.timeout_ms.max(0) as u64)
    }

    /// Waits for what was appended to be where `acks` wants it, at most the request's timeout.
    async fn wait(&mut self) {
        let deadline = Instant::now() + self.timeout();
        for (at, error) in uncommitted(mem::take(&mut self.pending), deadline).await {
            if let Some(outcome) = self.outcomes.get_mut(at) {
                outcome.error = error;
            }
        }
    }

    fn answer(self, ctx: &RequestContext<'_>, snapshot: &Snapshot, frame: &[u8]) -> Result<Reply, Close> {
        let Producing { request, size, outcomes, .. } = self;
        if request.acks == 0
            && let Some(outcome) = outcomes.iter().find(|outcome| outcome.error.is_error())
        {
            return Err(Close(format!("Produce with acks=0 failed: {}", outcome.error)));
        }
        let throttle_ms = throttle::produced(ctx, size, request.acks);
        Ok(match request.acks {
            0 => Reply::Nothing { throttle_ms },
            _ => answer(ctx, snapshot, &request, outcomes, frame, throttle_ms),
        })
    }
}

/// Of a partition that is named twice the later counts, and it is answered once.
fn keep_last(request: &mut ProduceRequest, frame: &[u8]) {
    if request.partitions.len() > 1 {
        let mut seen = HashSet::with_capacity_and_hasher(request.partitions.len(), ahash::RandomState::new());
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
#[allow(clippy::too_many_arguments)]
fn admit(
    ctx: &RequestContext<'_>,
    snapshot: &Snapshot,
    request: &ProduceRequest,
    data: &PartitionData,
    frame: &[u8],
    verdict: Result<Verification, PartitionResponse>,
    now_ms: i64,
) -> Result<Admitted, PartitionResponse> {
    let topic = data.topic(frame);
    if snapshot.partition(topic, data.index).is_none() {
        return Err(failed(ErrorCode::UnknownTopicOrPartition));
    }
    let Some(range) = data.records() else { return Err(failed(ErrorCode::InvalidRecord)) };
    let records = frame.get(range.clone()).unwrap_or_default();
    let version = ctx.version();
    if version >= 3 {
        batch::only(records, version).map_err(failed)?;
    }
    let verification = verdict?;
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
        verification,
        leader_epoch: partition.leader_epoch(),
        now_ms,
        decompressed_max: UNPACKED_AT_ONCE,
    };
    Ok(Admitted { partition, acks, params, range })
}

/// One partition's append, whose records are checked where that holds up nobody else. The frame is lost with the pool only,
/// when the broker stops.
async fn check_elsewhere(
    ctx: &RequestContext<'_>,
    admitted: Admitted,
    frame: &mut BytesMut,
) -> Result<Result<LeaderAppend, AppendError>, Close> {
    let Admitted { partition, acks, params, range } = admitted;
    let (there, there_range, mut whole) = (Arc::clone(&partition), range.clone(), mem::take(frame));
    let params = AppendParams { decompressed_max: DECOMPRESSED_MAX, ..params };
    let checked = heavy_for_request(&*ctx.services.spawner, move || {
        let checked = there.check_records(whole.get_mut(there_range).unwrap_or_default(), params);
        (whole, checked)
    });
    let Some((whole, checked)) = checked.await else { return Err(Close("the broker stops".to_owned())) };
    *frame = whole;
    let records = frame.get_mut(range).unwrap_or_default();
    Ok(checked.and_then(|checked| partition.append_checked(records, checked, acks, params)))
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
        // The first of which is asked for without that limit, the second waited for.
        AppendError::Lengthy | AppendError::Changing | AppendError::Storage { .. } => failed(error.code()),
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
async fn uncommitted(pending: SmallVec<[Pending; 1]>, deadline: Instant) -> Vec<(usize, ErrorCode)> {
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
    outcomes: SmallVec<[PartitionResponse; 1]>,
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
    Reply::Send(Response::of(out.buf, throttle_ms))
}
