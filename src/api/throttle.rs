//! What a request is charged to its client's quotas, and how long the client is to be quiet for it.
//!
//! The answer is given at once and says how long (KIP-124); the connection is not read until then (KIP-219). Of several
//! quotas that are exceeded the longest wait counts. While nobody has a quota, nothing of this is done.
//!
//! - Produce: the bytes of the request's body, when it is answered.
//! - Fetch by a consumer: the bytes of the answer's body and its length. One that goes beyond is not given: the answer is
//!   empty, the session stays as it was, and the bytes are not counted.
//! - Any request of a client: the time that a thread works for it, waits left out. Kafka counts until a request first waits,
//!   and the network's time. What brokers ask of each other and acks=0 are exempt.
//! - CreateTopics, DeleteTopics and CreatePartitions: partitions ([`Mutations`](crate::quota::Mutations)).

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};

use super::context::{Part, Reply, RequestContext};
use super::serve::Close;
use crate::quota::Mutations;
use crate::wire::api_versions::ApiKey;
use crate::wire::throttle_time;

/// What one request has cost so far.
#[derive(Debug, Default)]
pub struct Toll {
    throttle_ms: AtomicI32,
    /// Microseconds of its thread until it last waited.
    spent_us: AtomicI64,
    /// Since when its thread works for it, monotonic.
    since_us: AtomicI64,
    is_charged: AtomicBool,
}

impl Toll {
    /// The client is to wait so long, unless it is to wait longer anyway.
    pub fn throttle(&self, ms: i32) {
        self.throttle_ms.fetch_max(ms, Ordering::Relaxed);
    }

    pub fn throttle_ms(&self) -> i32 {
        self.throttle_ms.load(Ordering::Relaxed)
    }

    /// Its time is nobody's.
    pub fn exempt(&self) {
        self.is_charged.store(true, Ordering::Relaxed);
    }
}

/// Serves a request and charges it.
pub async fn charged<F>(ctx: &RequestContext<'_>, mut serving: Pin<Box<F>>) -> Result<Reply, Close>
where
    F: Future<Output = Result<Reply, Close>>,
{
    let (toll, clock) = (&ctx.toll, &*ctx.services.clock);
    let reply = poll_fn(|cx| {
        let begun_us = clock.monotonic_us();
        toll.since_us.store(begun_us, Ordering::Relaxed);
        let polled = serving.as_mut().poll(cx);
        toll.spent_us.fetch_add(clock.monotonic_us() - begun_us, Ordering::Relaxed);
        toll.since_us.store(i64::MAX, Ordering::Relaxed);
        polled
    })
    .await?;
    if is_of_brokers(ctx.header.api_key) {
        toll.exempt();
    }
    let throttle_ms = served(ctx);
    Ok(match reply {
        Reply::Send(mut response) if throttle_ms > 0 => {
            response.throttle_ms = throttle_ms;
            if let Some(Part::Bytes(first)) = response.parts.first_mut() {
                throttle_time::set(first, ctx.header.api_key, ctx.version(), throttle_ms);
            }
            Reply::Send(response)
        }
        other => other,
    })
}

/// What brokers and controllers ask of each other.
fn is_of_brokers(api: ApiKey) -> bool {
    matches!(
        api,
        ApiKey::LeaderAndIsr
            | ApiKey::StopReplica
            | ApiKey::UpdateMetadata
            | ApiKey::ControlledShutdown
            | ApiKey::WriteTxnMarkers
            | ApiKey::AlterPartition
    )
}

/// Charges the time of this request, once; milliseconds the client is to wait for all it did. Asked by those who write the
/// number into the answer themselves.
pub fn served(ctx: &RequestContext<'_>) -> i32 {
    let quotas = &ctx.services.quotas.clients;
    if quotas.limits_requests() && !ctx.toll.is_charged.swap(true, Ordering::Relaxed) {
        let clock = &ctx.services.clock;
        let now_us = clock.monotonic_us();
        let lately_us = (now_us - ctx.toll.since_us.load(Ordering::Relaxed).min(now_us)).max(0);
        let spent_us = ctx.toll.spent_us.load(Ordering::Relaxed) + lately_us;
        ctx.toll.throttle(quotas.served(ctx.client(), spent_us, clock.monotonic_ms()));
    }
    ctx.toll.throttle_ms()
}

/// Charges a produce request of `bytes`; milliseconds the client is to wait.
pub fn produced(ctx: &RequestContext<'_>, bytes: usize, acks: i16) -> i32 {
    let quotas = &ctx.services.quotas.clients;
    if !quotas.is_set() {
        return 0;
    }
    ctx.toll.throttle(quotas.produced(ctx.client(), bytes, ctx.services.clock.monotonic_ms()));
    if acks == 0 {
        ctx.toll.exempt();
    }
    served(ctx)
}

/// Charges an answer of `bytes` to a consumer. When it goes beyond what the client may have now it is not to be given.
pub fn may_be_fetched(ctx: &RequestContext<'_>, bytes: usize) -> bool {
    let quotas = &ctx.services.quotas.clients;
    let now_ms = ctx.services.clock.monotonic_ms();
    ctx.toll.throttle(quotas.fetched(ctx.client(), bytes, now_ms));
    if served(ctx) > 0 {
        quotas.not_fetched(ctx.client(), bytes, now_ms);
        return false;
    }
    true
}

/// Counts what this request changes; `strict_from` is the first version that knows THROTTLING_QUOTA_EXCEEDED.
pub fn mutations<'a>(ctx: &'a RequestContext<'_>, strict_from: i16) -> Mutations<'a> {
    let (quotas, clock) = (&ctx.services.quotas.clients, &*ctx.services.clock);
    Mutations::of(quotas, clock, ctx.client(), ctx.version() >= strict_from)
}

/// As [`mutations`], for topics made on first use: never refused.
pub fn automatic<'a>(ctx: &'a RequestContext<'_>) -> Mutations<'a> {
    mutations(ctx, i16::MAX)
}
