//! How many connections there may be: `max.connections`, `max.connections.per.ip` and its overrides.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Counts connections. One per broker, over all listeners.
#[derive(Debug)]
pub struct ConnectionQuotas {
    max: usize,
    max_per_ip: usize,
    overrides: HashMap<IpAddr, usize>,
    counts: Mutex<Counts>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    per_ip: HashMap<IpAddr, usize>,
}

/// One connection's place; dropping it frees the place.
#[derive(Debug)]
pub struct Place {
    quotas: Arc<ConnectionQuotas>,
    peer: IpAddr,
}

/// The address has as many connections as it may: the new one is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{peer} already has {limit} connections, the most it may")]
pub struct TooManyFromAddress {
    pub peer: IpAddr,
    pub limit: usize,
}

fn limit(configured: i32) -> usize {
    usize::try_from(configured).unwrap_or(usize::MAX)
}

impl ConnectionQuotas {
    pub fn new(max: i32, max_per_ip: i32, overrides: impl IntoIterator<Item = (IpAddr, i32)>) -> Arc<ConnectionQuotas> {
        Arc::new(ConnectionQuotas {
            max: limit(max),
            max_per_ip: limit(max_per_ip),
            overrides: overrides.into_iter().map(|(ip, max)| (ip, limit(max))).collect(),
            counts: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// Until another connection may be accepted. New ones wait in the kernel's backlog meanwhile, as with Kafka.
    pub async fn below_max(&self) {
        loop {
            let freed = self.freed.notified();
            if self.counts.lock().all < self.max {
                return;
            }
            freed.await;
        }
    }

    pub fn take(self: &Arc<Self>, peer: IpAddr) -> Result<Place, TooManyFromAddress> {
        let peer = peer.to_canonical();
        let limit = self.overrides.get(&peer).copied().unwrap_or(self.max_per_ip);
        let mut counts = self.counts.lock();
        let of_peer = counts.per_ip.entry(peer).or_default();
        if *of_peer >= limit {
            if *of_peer == 0 {
                counts.per_ip.remove(&peer);
            }
            return Err(TooManyFromAddress { peer, limit });
        }
        *of_peer += 1;
        counts.all += 1;
        Ok(Place { quotas: self.clone(), peer })
    }

    /// Until there are no connections.
    pub async fn none_left(&self) {
        loop {
            let freed = self.freed.notified();
            if self.counts.lock().all == 0 {
                return;
            }
            freed.await;
        }
    }

    pub fn connections(&self) -> usize {
        self.counts.lock().all
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.quotas.counts.lock();
        counts.all -= 1;
        if let Some(of_peer) = counts.per_ip.get_mut(&self.peer) {
            *of_peer -= 1;
            if *of_peer == 0 {
                counts.per_ip.remove(&self.peer);
            }
        }
        drop(counts);
        self.quotas.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn each_address_has_its_limit() {
        let quotas = ConnectionQuotas::new(i32::MAX, 2, [(B, 0)]);
        let (first, _second) = (quotas.take(A).expect("first"), quotas.take(A).expect("second"));
        assert_eq!(quotas.take(A).unwrap_err(), TooManyFromAddress { peer: A, limit: 2 });
        assert_eq!(quotas.take(B).unwrap_err().limit, 0);
        drop(first);
        assert!(quotas.take(A).is_ok());
        assert_eq!(quotas.counts.lock().per_ip.len(), 1);
    }

    #[test]
    fn an_ipv4_address_in_ipv6_clothes_is_the_same_address() {
        let quotas = ConnectionQuotas::new(i32::MAX, 1, []);
        let _first = quotas.take(A).expect("first");
        assert!(quotas.take("::ffff:10.0.0.1".parse().expect("address")).is_err());
    }

    #[tokio::test]
    async fn accepting_waits_at_the_broker_limit() {
        let quotas = ConnectionQuotas::new(1, i32::MAX, []);
        quotas.below_max().await;
        let place = quotas.take(A).expect("place");
        let mut wait = Box::pin(quotas.below_max());
        assert!((&mut wait).now_or_never().is_none());
        assert!(quotas.none_left().now_or_never().is_none());
        drop(place);
        wait.await;
        quotas.none_left().await;
    }
}
