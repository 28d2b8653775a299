//! `controller_mutation_rate` (KIP-599): partitions created and deleted. The count of one request.

use super::clients::ClientQuotas;
use super::limits::Client;
use crate::clock::Clock;

/// The client has used up its mutations: THROTTLING_QUOTA_EXCEEDED.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the throttling quota has been exceeded")]
pub struct QuotaExceeded;

/// Counts what one request changes.
pub struct Mutations<'a> {
    /// `None` counts nothing.
    counted: Option<(&'a ClientQuotas, &'a dyn Clock, Client<'a>)>,
    /// Newer versions know the error; older ones are served and wait afterwards.
    strict: bool,
    /// When and for how long, ms.
    throttled: (i64, i64),
}

impl<'a> Mutations<'a> {
    /// For changes that no client asks for.
    pub fn unlimited() -> Mutations<'a> {
        Mutations { counted: None, strict: false, throttled: (0, 0) }
    }

    /// `strict`: what goes beyond is refused.
    pub fn of(quotas: &'a ClientQuotas, clock: &'a dyn Clock, client: Client<'a>, strict: bool) -> Mutations<'a> {
        let counted = quotas.limits_mutations().then_some((quotas, clock, client));
        Mutations { counted, strict, throttled: (0, 0) }
    }

    /// Counts `partitions`. A strict count refuses all while the client owes some, and lets any number pass when not.
    pub fn record(&mut self, partitions: usize) -> Result<(), QuotaExceeded> {
        let Some((quotas, clock, client)) = self.counted else { return Ok(()) };
        let now_ms = clock.monotonic_ms();
        let owed_ms = quotas.mutated(client, partitions as f64, self.strict, now_ms);
        if owed_ms > 0 {
            self.throttled = (now_ms, owed_ms);
        }
        if owed_ms > 0 && self.strict { Err(QuotaExceeded) } else { Ok(()) }
    }

    /// What is left of the time the client is to wait, milliseconds. Waiting for leaders was part of it.
    pub fn throttle_ms(&self) -> i32 {
        let (begun_ms, throttled_ms) = self.throttled;
        let Some((_, clock, _)) = self.counted.filter(|_| throttled_ms > 0) else { return 0 };
        let left_ms = throttled_ms.saturating_sub(clock.monotonic_ms() - begun_ms);
        i32::try_from(left_ms.max(0)).unwrap_or(i32::MAX)
    }
}
