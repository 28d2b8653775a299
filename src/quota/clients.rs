//! Quotas of users and clients: bytes produced, bytes fetched, time of serving threads, partitions created and deleted.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::bucket::Bucket;
use super::limits::{Client, Limits};
use super::measures::Measures;
use super::rate::{Rate, Windows};
use super::{CONSUMER_BYTE_RATE, CONTROLLER_MUTATION_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE};
use crate::config::BrokerConfig;
use crate::metastore::schema::ConfigEntity;

/// One kind of quota: limits and measures.
#[derive(Debug)]
struct Quota<M> {
    key: &'static str,
    windows: Windows,
    /// Whether there is any limit.
    is_set: AtomicBool,
    limits: ArcSwap<Limits>,
    measures: Mutex<Measures<M>>,
}

impl<M: Default + Debug> Quota<M> {
    fn new(key: &'static str, windows: Windows) -> Quota<M> {
        Quota { key, windows, is_set: AtomicBool::new(false), limits: ArcSwap::default(), measures: Mutex::default() }
    }

    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    fn limit(&self, client: Client<'_>) -> Option<f64> {
        self.is_set().then(|| self.limits.load().of(client).map(|limit| limit.per_second)).flatten()
    }

    /// What `measure` says, given windows and limit; `None` for a client without a limit.
    fn measured<R>(
        &self,
        client: Client<'_>,
        now_ms: i64,
        measure: impl FnOnce(&mut M, Windows, f64) -> R,
    ) -> Option<R> {
        if !self.is_set() {
            return None;
        }
        let limit = self.limits.load().of(client)?;
        Some(measure(self.measures.lock().of(limit.of, now_ms), self.windows, limit.per_second))
    }

    /// One writer at a time.
    fn update(&self, entities: &[(ConfigEntity, Arc<BTreeMap<String, String>>)]) {
        let mut limits = Limits::clone(&self.limits.load());
        for (entity, overrides) in entities {
            let limit = overrides.get(self.key).and_then(|text| {
                let limit = text.trim().parse().ok();
                if limit.is_none() {
                    tracing::error!(%entity, key = self.key, text, "a stored quota is no number and is ignored");
                }
                limit
            });
            limits.set(entity, limit);
        }
        let is_set = !limits.is_empty();
        self.limits.store(Arc::new(limits));
        self.is_set.store(is_set, Ordering::Relaxed);
    }
}

/// All quotas of users and clients.
#[derive(Debug)]
pub struct ClientQuotas {
    produce: Quota<Rate>,
    fetch: Quota<Rate>,
    request: Quota<Rate>,
    mutation: Quota<Bucket>,
    is_set: AtomicBool,
    writer: Mutex<()>,
}

/// Milliseconds as they stand in a response.
fn on_the_wire(ms: i64) -> i32 {
    i32::try_from(ms).unwrap_or(i32::MAX)
}

impl ClientQuotas {
    pub fn new(config: &BrokerConfig) -> ClientQuotas {
        let windows = Windows::new(config.quota_window_num, config.quota_window_size_seconds);
        let of_controller =
            Windows::new(config.controller_quota_window_num, config.controller_quota_window_size_seconds);
        ClientQuotas {
            produce: Quota::new(PRODUCER_BYTE_RATE, windows),
            fetch: Quota::new(CONSUMER_BYTE_RATE, windows),
            request: Quota::new(REQUEST_PERCENTAGE, windows),
            mutation: Quota::new(CONTROLLER_MUTATION_RATE, of_controller),
            is_set: AtomicBool::new(false),
            writer: Mutex::default(),
        }
    }

    /// Whether anybody has a limit.
    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    /// Takes over what is stored for entities. What was measured is held against new limits at once.
    pub fn update(&self, entities: &[(ConfigEntity, Arc<BTreeMap<String, String>>)]) {
        let _one = self.writer.lock();
        self.produce.update(entities);
        self.fetch.update(entities);
        self.request.update(entities);
        self.mutation.update(entities);
        let is_set = self.produce.is_set() || self.fetch.is_set() || self.request.is_set() || self.mutation.is_set();
        self.is_set.store(is_set, Ordering::Relaxed);
    }

    /// Counts bytes of a produce request; milliseconds to wait.
    pub fn produced(&self, client: Client<'_>, bytes: usize, now_ms: i64) -> i32 {
        match bytes_over(&self.produce, client, bytes, now_ms) {
            // A rate of 0, which no wait makes good: a live 3.9.1 has nobody wait.
            i64::MAX => 0,
            ms => on_the_wire(ms),
        }
    }

    /// Counts bytes of a fetch answer; milliseconds to wait. Is there anything to wait for, the answer is not to be given:
    /// `not_fetched` takes its bytes back.
    pub fn fetched(&self, client: Client<'_>, bytes: usize, now_ms: i64) -> i32 {
        on_the_wire(bytes_over(&self.fetch, client, bytes, now_ms))
    }

    /// Takes bytes back that were counted as fetched.
    pub fn not_fetched(&self, client: Client<'_>, bytes: usize, now_ms: i64) {
        self.fetch.measured(client, now_ms, |rate, windows, _| rate.record(windows, -(bytes as f64), now_ms));
    }

    /// Most bytes that one fetch can have without waiting: a larger answer would be held back for ever.
    pub fn fetch_max_bytes(&self, client: Client<'_>) -> i32 {
        self.fetch.limit(client).map_or(i32::MAX, |limit| (limit * self.fetch.windows.full_seconds()) as i32)
    }

    /// Whether anybody's bytes fetched are limited.
    pub fn limits_fetches(&self) -> bool {
        self.fetch.is_set()
    }

    /// Whether anybody's time is limited.
    pub fn limits_requests(&self) -> bool {
        self.request.is_set()
    }

    /// Counts microseconds of a serving thread, of which a limit is a percentage; milliseconds to wait, one window at most.
    pub fn served(&self, client: Client<'_>, us: i64, now_ms: i64) -> i32 {
        let waits = self.request.measured(client, now_ms, |rate, windows, limit| {
            rate.record(windows, us as f64 / 10_000.0, now_ms);
            rate.excess_ms(windows, limit, now_ms).min(windows.size_ms())
        });
        on_the_wire(waits.unwrap_or(0))
    }

    /// Whether anybody's mutations are limited.
    pub fn limits_mutations(&self) -> bool {
        self.mutation.is_set()
    }

    /// Counts `mutations`, unless it is strict and the client owes some already; milliseconds until it owes none.
    pub(super) fn mutated(&self, client: Client<'_>, mutations: f64, strict: bool, now_ms: i64) -> i64 {
        let owed = self.mutation.measured(client, now_ms, |bucket, windows, limit| {
            if strict {
                let owed_ms = bucket.missing_ms(windows, limit, now_ms);
                if owed_ms == 0 {
                    bucket.take(windows, limit, mutations, now_ms);
                }
                owed_ms
            } else {
                bucket.take(windows, limit, mutations, now_ms);
                bucket.missing_ms(windows, limit, now_ms)
            }
        });
        owed.unwrap_or(0)
    }
}

fn bytes_over(quota: &Quota<Rate>, client: Client<'_>, bytes: usize, now_ms: i64) -> i64 {
    let waits = quota.measured(client, now_ms, |rate, windows, limit| {
        rate.record(windows, bytes as f64, now_ms);
        rate.excess_ms(windows, limit, now_ms)
    });
    waits.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::quota::Mutations;

    const A: Client<'static> = Client { user: "u", id: "a" };
    const B: Client<'static> = Client { user: "u", id: "b" };

    fn with(limits: &[(&str, &str, &str)]) -> ClientQuotas {
        let quotas = ClientQuotas::new(&BrokerConfig::default());
        for (entity, key, value) in limits {
            set(&quotas, entity, &[(key, value)]);
        }
        quotas
    }

    fn set(quotas: &ClientQuotas, entity: &str, limits: &[(&str, &str)]) {
        let overrides = limits.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        quotas.update(&[(ConfigEntity::parse(entity).expect("an entity"), Arc::new(overrides))]);
    }

    #[test]
    fn bytes_beyond_the_rate_cost_time_for_the_client_that_sent_them() {
        let quotas = with(&[("clients/a", PRODUCER_BYTE_RATE, "1000")]);
        assert_eq!(quotas.produced(A, 10_000, 0), 0);
        assert_eq!(quotas.produced(A, 2_500, 0), 2_500);
        assert_eq!(quotas.produced(B, 1_000_000, 0), 0);
        assert_eq!(quotas.fetched(A, 1_000_000, 0), 0, "that is another key");
        assert_eq!(quotas.produce.measures.lock().len(), 1, "who has no limit is not measured");
    }

    #[test]
    fn a_changed_limit_is_held_against_what_was_counted() {
        let quotas = with(&[("clients/a", PRODUCER_BYTE_RATE, "1000")]);
        assert_eq!(quotas.produced(A, 10_000, 0), 0);
        set(&quotas, "clients/a", &[(PRODUCER_BYTE_RATE, "500")]);
        assert_eq!(quotas.produced(A, 0, 0), 10_000);
        set(&quotas, "clients/a", &[]);
        assert_eq!((quotas.produced(A, 10_000, 0), quotas.is_set()), (0, false));
        set(&quotas, "clients/a", &[(PRODUCER_BYTE_RATE, "many")]);
        assert!(!quotas.is_set(), "what is no number is no limit");
    }

    #[test]
    fn a_byte_rate_of_zero_holds_no_producer_up() {
        let quotas = with(&[("clients/a", PRODUCER_BYTE_RATE, "0")]);
        assert_eq!((quotas.produced(A, 1_000, 0), quotas.produced(A, 1_000, 5_000)), (0, 0));
    }

    #[test]
    fn a_fetch_can_always_be_had_in_the_size_it_is_cut_to() {
        let quotas = with(&[("users/u", CONSUMER_BYTE_RATE, "1000")]);
        let most = quotas.fetch_max_bytes(A);
        assert_eq!(most, 10_000);
        assert_eq!(quotas.fetched(A, 10_000, 0), 0);
        assert_eq!(quotas.fetched(B, 10_000, 0), 10_000, "clients of one user share its limit");
        quotas.not_fetched(B, 10_000, 0);
        assert_eq!(quotas.fetched(A, 0, 0), 0);
        assert_eq!(quotas.fetch_max_bytes(Client { user: "v", id: "a" }), i32::MAX);
    }

    #[test]
    fn time_of_threads_is_a_percentage_and_costs_one_window_at_most() {
        let quotas = with(&[("clients/a", REQUEST_PERCENTAGE, "50")]);
        // Half of each of ten seconds.
        assert_eq!(quotas.served(A, 5_000_000, 0), 0);
        assert_eq!(quotas.served(A, 10_000, 0), 20);
        assert_eq!(quotas.served(A, 5_000_000, 0), 1_000);
    }

    #[test]
    fn mutations_beyond_the_rate_are_refused_or_served_and_waited_for() {
        let quotas = with(&[("users/u", CONTROLLER_MUTATION_RATE, "1.0")]);
        let clock = ManualClock::at(0);
        let mut strict = Mutations::of(&quotas, &clock, A, true);
        // 11 are there; any number passes while none is owed.
        assert_eq!((strict.record(15), strict.throttle_ms()), (Ok(()), 0));
        assert_eq!((strict.record(1), strict.throttle_ms()), (Err(super::super::QuotaExceeded), 4_000));
        clock.advance(1_500);
        assert_eq!(strict.throttle_ms(), 2_500, "what the request took is part of the wait");
        let mut lenient = Mutations::of(&quotas, &clock, B, false);
        assert_eq!((lenient.record(1), lenient.throttle_ms()), (Ok(()), 3_500));
        assert_eq!(Mutations::unlimited().record(1_000_000), Ok(()));
    }
}
