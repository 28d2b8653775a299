//! What has become of the bytes of a way, over all its connections.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;

use super::order::Side;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub connections: u64,
    /// Bytes handed over.
    pub to_server: u64,
    pub to_client: u64,
    /// Bytes of these that came late, trickled or had stood still.
    pub hindered: u64,
    /// Bytes that were taken and are not handed over yet.
    pub held: u64,
    pub resets: u64,
    pub partings: u64,
    pub half_closed: u64,
    /// Reads that were thrown away, each with its connection.
    pub lost: u64,
    /// Bytes that a server was given on an old connection after it was given some on a newer one.
    pub overtaken: u64,
}

#[derive(Default)]
pub struct Ledger {
    inner: Mutex<Inner>,
    /// A server was given something.
    heard: Notify,
}

#[derive(Default)]
struct Inner {
    counts: Counts,
    /// Bytes that servers were given, by the number of the connection.
    heard: BTreeMap<u64, u64>,
    /// Reads of a side on which some are lost.
    reads: u64,
}

/// Bytes that are late by less were not made late: a scheduler was.
const SLACK: Duration = Duration::from_millis(5);

impl Ledger {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn counts(&self) -> Counts {
        self.inner().counts
    }

    /// The number of a connection that begins, from 1.
    pub fn connected(&self) -> u64 {
        let mut inner = self.inner();
        inner.counts.connections += 1;
        inner.counts.connections
    }

    pub fn took(&self, bytes: u64) {
        self.inner().counts.held += bytes;
    }

    /// What is no longer held, and by nobody received.
    pub fn dropped(&self, bytes: u64) {
        let mut inner = self.inner();
        inner.counts.held = inner.counts.held.saturating_sub(bytes);
    }

    /// Of connection `number`, `hindered` by an order for so long.
    pub fn gave(&self, number: u64, to: Side, bytes: u64, hindered: Duration) {
        let mut inner = self.inner();
        inner.counts.held = inner.counts.held.saturating_sub(bytes);
        if hindered > SLACK {
            inner.counts.hindered += bytes;
        }
        match to {
            Side::Client => inner.counts.to_client += bytes,
            Side::Server => {
                inner.counts.to_server += bytes;
                if inner.heard.last_key_value().is_some_and(|(newest, _)| number < *newest) {
                    inner.counts.overtaken += bytes;
                }
                *inner.heard.entry(number).or_default() += bytes;
                drop(inner);
                self.heard.notify_waiters();
            }
        }
    }

    /// Until connections that are newer than `number` have said so much.
    pub async fn newer_said(&self, number: u64, bytes: u64) {
        loop {
            let heard = self.heard.notified();
            if self.inner().heard.range(number + 1..).map(|(_, said)| said).sum::<u64>() >= bytes {
                return;
            }
            heard.await;
        }
    }

    /// Whether this read is the one of so many that is lost.
    pub fn loses(&self, one_in: u64) -> bool {
        let mut inner = self.inner();
        inner.reads += 1;
        let lost = inner.reads.is_multiple_of(one_in);
        inner.counts.lost += u64::from(lost);
        lost
    }

    pub fn reset(&self) {
        self.inner().counts.resets += 1;
    }

    pub fn parted(&self) {
        self.inner().counts.partings += 1;
    }

    pub fn half_closed(&self) {
        self.inner().counts.half_closed += 1;
    }
}
