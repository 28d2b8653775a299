//! Fetch (1), versions 0-17.
//!
//! A request is answered at once when it may not wait, has nothing to wait for, met an error, or found `min_bytes`; else it
//! parks on its partitions and looks again when one of them moves, until `max_wait_ms` are over.
//!
//! - The answer holds at most the smaller of the request's `max_bytes` and `fetch.max.bytes`, except that the first
//!   partition with data gives at least one whole batch (v3+). Records are sent from the file as they lie there.
//! - First failing check of a partition: its id is unknown, not in the metadata, not here, its id differs, then what
//!   [`Partition::read`] refuses. The first two make no request return early, as in Kafka, and come last in the answer.
//! - Sessions (v7+) are [`FetchSessions`](super::fetch_session::FetchSessions).
//! - A consumer (v11+) with a rack gets no records but the id of a replica there, where `replica.selector.class` says so.
//! - A follower that is not in sync gets nothing of a throttled partition while `leader.replication.throttled.rate` is
//!   exceeded.
//! - v0-3 get their records converted down, see `convert`; v0-9 get no zstd from a topic that has it as its codec.

use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::BytesMut;
use indexmap::IndexMap;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::alarm::Alarm;
use super::context::{Connection, Part, Reply, RequestContext, RequestHeader, Response, Services};
use super::fetch_session::{Asked, Context, Key, SessionRequest};
use super::leader_hint::LeaderHints;
use super::serve::Close;
use super::throttle;
use crate::clock::Clock;
use crate::cluster::{Snapshot, TopicMeta};
use crate::config::ReplicaSelector;
use crate::quota::Quotas;
use crate::replication::partition::{Partition, PartitionFetch, PartitionRead, Place, Reader};
use crate::replication::waiters::Parked;
use crate::replication::waiting_followers::FollowersWait;
use crate::spawn::Shutdown;
use crate::types::{BrokerId, IsolationLevel, LeaderEpoch, TopicId};
use crate::wire::api_versions::ApiKey;
use crate::wire::error_code::ErrorCode;
use crate::wire::fetch::{
    self, DivergingEpoch, FIRST_WITH_IDS, FetchRequest, FetchResponse, PartitionResponse, ResponseTopic, TopicRef,
};
use crate::wire::header::put_response_header;
use crate::wire::leader::NodeEndpoint;
use crate::wire::writer::Writer;

use records::Records;

mod convert;
mod records;
mod size;

type Answer = (ResponseTopic, PartitionResponse<Records>);

/// Whether `frame` is a fetch of a session with very many partitions, each of which is read though the request names none of
/// them. The connection is marked as one that goes on like that.
pub fn is_of_large_session(services: &Services, connection: &Connection, frame: &[u8]) -> bool {
    if !services.fetch_sessions.may_be_large() || connection.of_follower.get() == Some(&true) {
        return false;
    }
    let mut body = frame;
    let Ok(header) = RequestHeader::read(&mut body, &connection.last_client_id) else { return false };
    let is_large = header.api_key == ApiKey::Fetch
        && fetch::session_id(body, header.api_version).is_some_and(|id| services.fetch_sessions.is_large(id));
    if is_large {
        connection.fetches_much.store(true, Ordering::Relaxed);
    }
    is_large
}

/// A request that cannot be answered at once.
pub struct Waiting(Left);

/// What is left to do.
enum Left {
    /// It has not found enough.
    Wait(Box<(Begun, Reads, Found)>),
    /// Its records are to be converted.
    Conversion(Told),
}

/// Reads, and answers when that is enough. The inner error is what is left to do.
pub fn begin(ctx: &RequestContext<'_>, frame: &[u8]) -> Result<Result<Reply, Waiting>, Close> {
    let begun = match read_request(ctx, frame)? {
        Ok(begun) => begun,
        Err(refusal) => return Ok(Ok(refusal)),
    };
    let reads = begun.read.once();
    let found = found_in(&reads);
    if begun.read.must_wait(found, begun.min_bytes, begun.max_wait_ms) {
        return Ok(Err(Waiting(Left::Wait(Box::new((begun, reads, found))))));
    }
    Ok(match conclude(ctx, begun, reads) {
        Ok(told) if ctx.version() <= 3 => Err(Waiting(Left::Conversion(told))),
        Ok(told) => Ok(told.answer(ctx)),
        Err(refusal) => Ok(refusal),
    })
}

/// Does the rest.
pub async fn finish(ctx: &RequestContext<'_>, waiting: Waiting) -> Result<Reply, Close> {
    let mut told = match waiting.0 {
        Left::Conversion(told) => told,
        Left::Wait(waiting) => {
            let (begun, reads, found) = *waiting;
            let (min_bytes, max_wait_ms) = (begun.min_bytes, begun.max_wait_ms);
            let (alarm, shutdown) = (&ctx.connection.alarm, &ctx.services.shutdown);
            let reads = begun.read.wait(reads, found, min_bytes, max_wait_ms, alarm, shutdown).await;
            match conclude(ctx, begun, reads) {
                Ok(told) => told,
                Err(refusal) => return Ok(refusal),
            }
        }
    };
    if ctx.version() <= 3 {
        Box::pin(convert::down(ctx.services, ctx.version(), &mut told.answers)).await;
    }
    Ok(told.answer(ctx))
}

/// Everything that was read, as what the client is told and its session knows from now on. The error is the whole answer.
fn conclude(ctx: &RequestContext<'_>, begun: Begun, reads: Reads) -> Result<Told, Reply> {
    let Begun { session_id, is_follower, context, read, mut unknown, .. } = begun;
    let (version, services) = (ctx.version(), ctx.services);
    read.count_throttled(&reads);
    for (target, read) in read.targets.iter().zip(&reads) {
        if matches!(read, Err(ErrorCode::OffsetOutOfRange)) && !is_follower {
            tell_if_deleted(ctx, target);
        }
    }
    let mut answers: Vec<Answer> = read.targets.into_iter().zip(reads).map(|(t, read)| t.answer(read)).collect();
    answers.append(&mut unknown);
    if is_follower {
        ctx.toll.exempt();
    } else if services.quotas.clients.is_set() && !throttle::may_be_fetched(ctx, size::of(&context, version, &answers))
    {
        let (code, id) = match services.fetch_sessions.end_untold(context) {
            Ok(id) => (ErrorCode::None, id),
            Err(code) => (code, session_id),
        };
        return Err(answer(ctx, code, id, Vec::new(), &[]));
    }
    let ended = match context {
        Context::Sessionless(_) => Ok(0),
        context => {
            let random_id = || 1 + services.random.below(i32::MAX as u64) as i32;
            services.fetch_sessions.end(context, &mut answers, services.clock.monotonic_ms(), random_id)
        }
    };
    let session_id = ended.map_err(|code| answer(ctx, code, session_id, Vec::new(), &[]))?;
    for (topic, answer) in &mut answers {
        records::fit(services, version, is_follower, topic, answer);
    }
    Ok(Told { session_id, answers })
}

/// What a client is told.
struct Told {
    session_id: i32,
    answers: Vec<Answer>,
}

impl Told {
    fn answer(mut self, ctx: &RequestContext<'_>) -> Reply {
        let mut hints = LeaderHints::default();
        if ctx.version() >= 16 {
            // By now the leader that sent us away may be known.
            let sent_away = |code| matches!(code, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch);
            let mut away = self.answers.iter_mut().filter(|(_, answer)| sent_away(answer.error)).peekable();
            if away.peek().is_some() {
                let snapshot = ctx.services.cluster.load();
                for (topic, answer) in away {
                    let leader = hints.add(&snapshot, &ctx.connection.listener, &topic.name, answer.partition);
                    answer.current_leader = Some(leader);
                }
            }
        }
        answer(ctx, ErrorCode::None, self.session_id, self.answers, &hints.endpoints)
    }
}

/// A request that was read: what it takes to answer it, and nothing of its bytes.
struct Begun {
    /// Of the request.
    session_id: i32,
    is_follower: bool,
    context: Context,
    read: Fetching,
    /// Answered already: what the metadata does not know.
    unknown: Vec<Answer>,
    min_bytes: i32,
    max_wait_ms: i32,
}

/// Reads the request and takes it into its session. The inner error is its whole answer.
fn read_request(ctx: &RequestContext<'_>, frame: &[u8]) -> Result<Result<Begun, Reply>, Close> {
    let version = ctx.version();
    let request =
        FetchRequest::decode(frame, 0, version).map_err(|error| Close(format!("Fetch v{version}: {error}")))?;
    if !matches!(request.isolation_level, 0 | 1) {
        return Ok(Err(refused_as_a_whole(ctx, &request)));
    }
    let services = ctx.services;
    let snapshot = services.cluster.glance();
    let mut topics = Topics { snapshot: &snapshot, last: None };
    let is_follower = request.replica_id.0 >= 0;
    ctx.connection.of_follower.get_or_init(|| is_follower);
    if is_follower {
        ctx.comes_from(request.replica_id, request.replica_epoch);
    }
    let session = SessionRequest {
        id: request.session_id,
        epoch: request.session_epoch,
        uses_topic_ids: version >= FIRST_WITH_IDS,
        is_follower,
    };
    let forgotten: Vec<Key> = request
        .forgotten
        .iter()
        .map(|gone| Key::new(&topics.resolve(request.topic(gone.topic)), gone.partition))
        .collect();
    let asked = asked(&mut topics, &request);
    // Without a session nobody asks for the time.
    let now_ms = if session.is_none() { 0 } else { services.clock.monotonic_ms() };
    let mut context = match services.fetch_sessions.begin(session, asked, &forgotten, now_ms) {
        Ok(context) => context,
        Err(code) => return Ok(Err(answer(ctx, code, 0, Vec::new(), &[]))),
    };
    let (targets, unknown) = targets(ctx, &mut topics, context.take_partitions());
    let read = Fetching {
        reader: reader(&request),
        only_leader: is_follower || (request.replica_id == BrokerId::NONE && version < 11),
        max_bytes: request.max_bytes.min(services.config.fetch_max_bytes).min(match is_follower {
            true => i32::MAX,
            false => services.quotas.clients.fetch_max_bytes(ctx.client()),
        }),
        hard_limit: version <= 2,
        throttle: (is_follower && services.quotas.replication.leader.is_set())
            .then(|| (Arc::clone(&services.quotas), Arc::clone(&services.clock))),
        place: place(ctx, &request),
        wait: is_follower.then(|| services.partitions.followers().begin(request.replica_id)),
        targets,
    };
    let (min_bytes, max_wait_ms) = (request.min_bytes.min(read.max_bytes), request.max_wait_ms);
    Ok(Ok(Begun { session_id: session.id, is_follower, context, read, unknown, min_bytes, max_wait_ms }))
}

/// Records that were deleted before a consumer had read them are told once.
fn tell_if_deleted(ctx: &RequestContext<'_>, target: &Target) {
    let asked = &target.asked;
    let Some(log) = target.partition.as_ref().ok().and_then(|partition| partition.log().ok()) else { return };
    let log_start = log.offsets().log_start;
    if asked.fetch_offset < log_start {
        let (topic, offset) = (&asked.topic.name, asked.fetch_offset.0);
        ctx.services.telltales.deleted(ctx, topic, asked.partition, offset, log_start.0);
    }
}

/// An isolation level that does not exist: up to v12 every partition is told, later only the client.
fn refused_as_a_whole(ctx: &RequestContext<'_>, request: &FetchRequest<'_>) -> Reply {
    let error = ErrorCode::UnknownServerError;
    let partitions = request.partitions.iter().filter_map(|asked| match request.topic(asked.topic) {
        TopicRef::Name(name) => {
            let topic = ResponseTopic { name: Arc::from(name), id: TopicId::ZERO };
            Some((topic, records::refused(asked.partition, error)))
        }
        TopicRef::Id(_) => None,
    });
    answer(ctx, error, request.session_id, partitions.collect(), &[])
}

/// Looks topics up, most often one several times in a row; each look that is saved is a hash of its name.
struct Topics<'s> {
    snapshot: &'s Snapshot,
    last: Option<&'s TopicMeta>,
}

impl<'s> Topics<'s> {
    fn named(&mut self, name: &str) -> Option<&'s TopicMeta> {
        if self.last.is_none_or(|last| *last.name != *name) {
            self.last = self.snapshot.topic(name).map(|topic| &**topic);
        }
        self.last
    }

    /// What a name or an id means now; of a topic that is not there one half stays empty.
    fn resolve(&mut self, topic: TopicRef<'_>) -> ResponseTopic {
        match topic {
            TopicRef::Name(name) => {
                let name = self.named(name).map_or_else(|| Arc::from(name), |topic| Arc::clone(&topic.name));
                ResponseTopic { name, id: TopicId::ZERO }
            }
            TopicRef::Id(id) => {
                let name = self.snapshot.topic_by_id(id).map(|topic| Arc::clone(&topic.name)).unwrap_or_default();
                ResponseTopic { name, id }
            }
        }
    }
}

/// The request's partitions, each once: of one that is named twice the later counts, in the place of the first.
fn asked(topics: &mut Topics<'_>, request: &FetchRequest<'_>) -> Vec<Asked> {
    let topics: SmallVec<[ResponseTopic; 1]> = request.topics.iter().map(|topic| topics.resolve(*topic)).collect();
    let mut asked: Vec<Asked> = request
        .partitions
        .iter()
        .filter_map(|partition| {
            Some(Asked {
                topic: topics.get(partition.topic as usize)?.clone(),
                partition: partition.partition,
                current_leader_epoch: partition.current_leader_epoch.max(LeaderEpoch::NONE),
                fetch_offset: partition.fetch_offset,
                last_fetched_epoch: partition.last_fetched_epoch.max(LeaderEpoch::NONE),
                log_start_offset: partition.log_start_offset,
                max_bytes: partition.max_bytes,
            })
        })
        .collect();
    if asked.len() > 1 {
        let once: IndexMap<Key, Asked> =
            asked.drain(..).map(|asked| (Key::new(&asked.topic, asked.partition), asked)).collect();
        asked.extend(once.into_values());
    }
    asked
}

/// Where the request comes from, if that matters.
fn place(ctx: &RequestContext<'_>, request: &FetchRequest<'_>) -> Option<Place> {
    let matters = ctx.services.config.replication.selector == ReplicaSelector::RackAware
        && ctx.version() >= 11
        && request.replica_id.0 < 0
        && !request.rack_id.is_empty();
    matters.then(|| Place { rack: request.rack_id.to_owned(), listener: ctx.connection.listener.to_string() })
}

/// Replica id of the request, as who reads.
fn reader(request: &FetchRequest<'_>) -> Reader {
    match request.replica_id.0 {
        0.. => Reader::Replica { id: request.replica_id, broker_epoch: request.replica_epoch },
        -1 if request.isolation_level == 1 => Reader::Consumer(IsolationLevel::ReadCommitted),
        -1 => Reader::Consumer(IsolationLevel::ReadUncommitted),
        _ => Reader::Debugging,
    }
}

/// A partition that is read; `partition` says why it cannot be.
struct Target {
    asked: Asked,
    partition: Result<Arc<Partition>, ErrorCode>,
}

/// Splits what is asked for into what is read and what the metadata does not know.
fn targets(ctx: &RequestContext<'_>, topics: &mut Topics<'_>, asked: Vec<Asked>) -> (Vec<Target>, Vec<Answer>) {
    let mut targets = Vec::with_capacity(asked.len());
    let mut unknown = Vec::new();
    for mut asked in asked {
        if asked.topic.name.is_empty() && !asked.topic.id.is_zero() {
            asked.topic = topics.resolve(TopicRef::Id(asked.topic.id));
        }
        let code = if asked.topic.name.is_empty() && ctx.version() >= FIRST_WITH_IDS {
            ErrorCode::UnknownTopicId
        } else if topics.named(&asked.topic.name).is_none_or(|topic| !topic.partitions.contains_key(&asked.partition)) {
            ErrorCode::UnknownTopicOrPartition
        } else {
            let partition = ctx.services.partitions.get(&asked.topic.name, asked.partition);
            targets.push(Target { partition: checked(&asked, partition), asked });
            continue;
        };
        let mut answer = PartitionResponse::failed(asked.partition, code);
        answer.aborted = Some(Vec::new());
        unknown.push((asked.topic, answer));
    }
    (targets, unknown)
}

fn checked(asked: &Asked, partition: Option<Arc<Partition>>) -> Result<Arc<Partition>, ErrorCode> {
    let partition = partition.ok_or(ErrorCode::NotLeaderOrFollower)?;
    let (wanted, found) = (asked.topic.id, partition.topic_id());
    if !wanted.is_zero() && !found.is_zero() && wanted != found {
        return Err(ErrorCode::InconsistentTopicId);
    }
    Ok(partition)
}

/// One request's reads: of all its partitions once, then of each that moves while it waits.
struct Fetching {
    reader: Reader,
    only_leader: bool,
    /// Of all records together.
    max_bytes: i32,
    /// Not even one batch may exceed the limits.
    hard_limit: bool,
    /// Of a follower that may be held up.
    throttle: Option<(Arc<Quotas>, Arc<dyn Clock>)>,
    /// Of a consumer that may be sent to another replica.
    place: Option<Place>,
    /// Of a follower.
    wait: Option<FollowersWait>,
    targets: Vec<Target>,
}

type Read = Result<PartitionRead, ErrorCode>;

/// Of each partition, in order.
type Reads = SmallVec<[Read; 1]>;

impl Fetching {
    fn must_wait(&self, found: Found, min_bytes: i32, max_wait_ms: i32) -> bool {
        max_wait_ms > 0 && !self.targets.is_empty() && !found.is_enough(min_bytes)
    }

    /// Waits until there is enough to answer, `max_wait_ms` have passed, or the broker is asked to stop.
    async fn wait(
        &self,
        mut reads: Reads,
        mut found: Found,
        min_bytes: i32,
        max_wait_ms: i32,
        alarm: &Alarm,
        shutdown: &Shutdown,
    ) -> Reads {
        let deadline = Instant::now() + Duration::from_millis(max_wait_ms as u64);
        let parked = Parked::new(self.targets.len());
        if let Some(wait) = &self.wait {
            wait.park(&parked);
        }
        for (place, (target, read)) in self.targets.iter().zip(&reads).enumerate() {
            if let (Ok(partition), Ok(read)) = (&target.partition, read) {
                partition.park(&parked, place, self.reader, read.moves);
            }
        }
        let mut given_up = pin!(async {
            tokio::select! {
                biased;
                () = alarm.at(deadline) => {}
                () = shutdown.requested() => {}
            }
        });
        loop {
            tokio::select! {
                biased;
                () = &mut given_up => return reads,
                () = parked.woken() => {}
            }
            for place in parked.take_moved() {
                self.again(place, &mut reads, &mut found);
            }
            if found.is_enough(min_bytes) || parked.is_released() {
                return reads;
            }
        }
    }

    /// What a follower gets of throttled partitions counts, whether or not it is in sync.
    fn count_throttled(&self, reads: &[Read]) {
        let Some((quotas, clock)) = &self.throttle else { return };
        let counts = |target: &Target| target.partition.as_ref().is_ok_and(|partition| partition.is_throttled_leader());
        let counted = self.targets.iter().zip(reads).filter(|(target, _)| counts(target));
        let bytes = counted.filter_map(|(_, read)| read.as_ref().ok()).map(bytes_of).sum();
        quotas.replication.leader.record(bytes, clock.monotonic_ms());
    }

    /// Reads the partition at `place` again, within what the others leave.
    fn again(&self, place: usize, reads: &mut [Read], found: &mut Found) {
        let (Some(target), Some(read)) = (self.targets.get(place), reads.get_mut(place)) else { return };
        found.bytes -= read.as_ref().map_or(0, bytes_of);
        let min_one_batch = !self.hard_limit && found.bytes == 0;
        *read = target.read(self, self.left_by(found.bytes), min_one_batch);
        found.add(read);
    }

    /// Of the limit on all records together.
    fn left_by(&self, bytes: usize) -> i32 {
        (i64::from(self.max_bytes) - bytes as i64).clamp(0, i64::from(i32::MAX)) as i32
    }

    /// Reads every partition within the limits, and notes a follower's progress.
    fn once(&self) -> Reads {
        let (mut left, mut bytes) = (self.max_bytes, 0);
        let mut reads = Reads::with_capacity(self.targets.len());
        for target in &self.targets {
            let min_one_batch = !self.hard_limit && bytes == 0;
            let mut read = target.read(self, left, min_one_batch);
            if let (Ok(done), Ok(partition)) = (&read, &target.partition)
                && let Err(code) = partition.record_follower_fetch(&target.fetch(self, left, min_one_batch), done)
            {
                read = Err(code);
            }
            bytes += read.as_ref().map_or(0, bytes_of);
            left = self.left_by(bytes);
            reads.push(read);
        }
        reads
    }
}

/// What a request has found so far.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    bytes: usize,
    /// An error, a diverging epoch, another replica to read: told at once.
    news: bool,
}

impl Found {
    fn add(&mut self, read: &Read) {
        match read {
            Ok(read) if read.diverging.is_none() && read.elsewhere.is_none() => self.bytes += bytes_of(read),
            _ => self.news = true,
        }
    }

    /// Whether the request need not wait any longer.
    fn is_enough(&self, min_bytes: i32) -> bool {
        self.news || i64::from(min_bytes) <= self.bytes as i64
    }
}

fn found_in(reads: &[Read]) -> Found {
    let mut found = Found::default();
    reads.iter().for_each(|read| found.add(read));
    found
}

fn bytes_of(read: &PartitionRead) -> usize {
    read.slice.as_ref().map_or(0, |slice| slice.len)
}

impl Target {
    fn fetch(&self, of: &Fetching, left: i32, min_one_batch: bool) -> PartitionFetch {
        PartitionFetch {
            reader: of.reader,
            offset: self.asked.fetch_offset,
            current_leader_epoch: self.asked.current_leader_epoch,
            last_fetched_epoch: self.asked.last_fetched_epoch,
            log_start_offset: self.asked.log_start_offset,
            max_bytes: usize::try_from(left.min(self.asked.max_bytes)).unwrap_or(0),
            min_one_batch,
            only_leader: of.only_leader,
        }
    }

    fn read(&self, of: &Fetching, left: i32, min_one_batch: bool) -> Read {
        let partition = self.partition.as_ref().map_err(|code| *code)?;
        let fetch = self.fetch(of, left, min_one_batch);
        if let Some(place) = &of.place
            && let Some(elsewhere) = partition.read_elsewhere(&fetch, place)?
        {
            return Ok(elsewhere);
        }
        let mut read = partition.read(fetch)?;
        if left.min(self.asked.max_bytes) < 0 {
            return Err(ErrorCode::UnknownServerError);
        }
        // A part of a batch is of no use to who knows that the limits are soft.
        if read.first_batch_incomplete && !of.hard_limit {
            read.slice = None;
        }
        if let (Some((quotas, clock)), Reader::Replica { id, .. }) = (&of.throttle, of.reader)
            && partition.is_held_up(id, &quotas.replication.leader, clock.monotonic_ms())
        {
            read.slice = None;
        }
        Ok(read)
    }

    fn answer(self, read: Read) -> Answer {
        let partition = self.asked.partition;
        let answer = match read {
            Err(code) => PartitionResponse::failed(partition, code),
            Ok(read) => PartitionResponse {
                partition,
                error: ErrorCode::None,
                high_watermark: read.offsets.high_watermark,
                last_stable_offset: read.offsets.last_stable,
                log_start_offset: read.offsets.log_start,
                aborted: read
                    .aborted
                    .map(|all| all.into_iter().map(|one| (one.producer_id, one.first_offset.0)).collect()),
                preferred_read_replica: read.elsewhere.map_or(-1, |id| id.0),
                records: read
                    .slice
                    .map_or(Records::None, |slice| Records::Stored { slice, from: self.asked.fetch_offset }),
                diverging: read.diverging.map(|(epoch, end_offset)| DivergingEpoch { epoch, end_offset }),
                current_leader: None,
            },
        };
        (self.asked.topic, answer)
    }
}

/// The response as a gather list: what is encoded, cut where records belong.
fn answer(
    ctx: &RequestContext<'_>,
    error: ErrorCode,
    session_id: i32,
    answers: Vec<Answer>,
    node_endpoints: &[NodeEndpoint],
) -> Reply {
    let version = ctx.version();
    let mut buf = BytesMut::with_capacity(64 * (answers.len() + 1));
    put_response_header(&mut buf, ctx.header.api_key, version, ctx.header.correlation_id);
    let mut out = Writer::new(buf, version >= fetch::FIRST_FLEXIBLE);
    let response = FetchResponse { throttle_ms: 0, error, session_id, partitions: &answers, node_endpoints };
    let cuts = response.encode(&mut out, version);
    let (mut rest, mut done) = (out.buf, 0);
    let mut parts = Vec::with_capacity(2 * answers.len() + 1);
    for ((_, answer), cut) in answers.into_iter().zip(cuts) {
        if let Some(records) = answer.records.into_part() {
            let before = if cut - done == rest.len() { mem::take(&mut rest) } else { rest.split_to(cut - done) };
            parts.push(Part::Bytes(before));
            parts.push(records);
            done = cut;
        }
    }
    if !rest.is_empty() {
        parts.push(Part::Bytes(rest));
    }
    Reply::Send(Response { parts, throttle_ms: 0 })
}

#[cfg(test)]
mod tests;
