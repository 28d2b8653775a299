//! How many connections there may be, and how many new ones per second: `max.connections`, `max.connections.per.ip` with its
//! overrides and `max.connection.creation.rate`, of which the first and the last may be set for one listener too.
//!
//! Who comes beyond a rate waits as long as would bring it down, one window at most, and its listener with it; it is
//! counted all the same. A broker or a listener that was left alone takes a burst ([`Rate`]). With several listeners, the
//! one that brokers use among themselves keeps to its own limits alone. All limits may change at any time (`Limits`).
//!
//! When there are more than `max.connections`, because it was lowered or brokers came, those of clients that were silent
//! longest are closed (KIP-402; `closeExcessConnections` and `lowestPriorityChannel` in Kafka, where each network thread
//! chooses among its own). A listener's own maximum closes nothing.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::activity::{Activity, Leave};
use crate::config::BrokerConfig;
use crate::quota::{Rate, Windows};

/// What is allowed. Kafka's "no limit" is `i32::MAX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    max: i32,
    max_per_ip: i32,
    per_ip: HashMap<IpAddr, i32>,
    /// New ones per second.
    rate: i32,
    /// By upper-case name.
    listeners: BTreeMap<String, ListenerLimits>,
    /// The listener between brokers, when there are others.
    protected: Option<String>,
    windows: Windows,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ListenerLimits {
    max: i32,
    rate: i32,
}

impl Limits {
    /// Those of a configuration. Host names are looked up, which may take long.
    pub fn of(config: &BrokerConfig) -> Limits {
        let overrides = config.max_connections_per_ip_overrides.iter();
        let listeners = config.listeners.iter().map(|listener| {
            let of = |limits: &BTreeMap<String, i32>, default| limits.get(&listener.name).copied().unwrap_or(default);
            let limits = ListenerLimits {
                max: of(&config.listener_max_connections, config.max_connections),
                rate: of(&config.listener_max_connection_creation_rate, config.max_connection_creation_rate),
            };
            (listener.name.clone(), limits)
        });
        Limits {
            max: config.max_connections,
            max_per_ip: config.max_connections_per_ip,
            per_ip: overrides.flat_map(|(host, max)| addresses(host, *max)).collect(),
            rate: config.max_connection_creation_rate,
            listeners: listeners.collect(),
            protected: (config.listeners.len() > 1).then(|| config.inter_broker_listener_name.clone()),
            windows: Windows::new(config.quota_window_num, config.quota_window_size_seconds),
        }
    }

    fn of_listener(&self, listener: &str) -> ListenerLimits {
        self.listeners.get(listener).copied().unwrap_or(ListenerLimits { max: self.max, rate: self.rate })
    }

    fn protects(&self, listener: &str) -> bool {
        self.protected.as_deref() == Some(listener)
    }
}

/// The addresses an override of `max.connections.per.ip.overrides` names: one, or those of a host name.
fn addresses(host: &str, max: i32) -> Vec<(IpAddr, i32)> {
    match (host, 0).to_socket_addrs() {
        Ok(found) => found.map(|address| (address.ip().to_canonical(), max)).collect(),
        Err(error) => {
            tracing::warn!(host, %error, "max.connections.per.ip.overrides names an unknown host");
            Vec::new()
        }
    }
}

/// Counts connections. One per broker, over all listeners.
#[derive(Debug)]
pub struct ConnectionQuotas {
    counts: Mutex<Counts>,
    /// A place is free, or limits have changed.
    freed: Notify,
}

#[derive(Debug)]
struct Counts {
    limits: Limits,
    /// By number, in the order in which they came.
    connections: BTreeMap<u64, Member>,
    next: u64,
    /// Those told to make room that are still there.
    leaving: usize,
    per_ip: HashMap<IpAddr, usize>,
    per_listener: HashMap<Arc<str>, Listener>,
    rate: Rate,
}

#[derive(Debug, Default)]
struct Listener {
    connections: usize,
    rate: Rate,
}

#[derive(Debug)]
struct Member {
    listener: Arc<str>,
    activity: Arc<Activity>,
    leaving: bool,
}

/// One connection's place; dropping it frees the place.
#[derive(Debug)]
pub struct Place {
    quotas: Arc<ConnectionQuotas>,
    number: u64,
    peer: IpAddr,
    listener: Arc<str>,
    activity: Arc<Activity>,
}

impl Place {
    pub fn activity(&self) -> &Activity {
        &self.activity
    }
}

/// The address has as many connections as it may: the new one is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{peer} already has {limit} connections, the most it may")]
pub struct TooManyFromAddress {
    pub peer: IpAddr,
    pub limit: usize,
}

fn count(configured: i32) -> usize {
    usize::try_from(configured).unwrap_or(usize::MAX)
}

/// Counts a connection, or with -1 takes one back; milliseconds to wait.
fn paced(rate: &mut Rate, windows: Windows, limit: i32, connections: f64, now_ms: i64) -> i64 {
    if limit == i32::MAX {
        return 0;
    }
    rate.record(windows, connections, now_ms);
    rate.excess_ms(windows, limit.into(), now_ms).min(windows.size_ms())
}

impl Counts {
    fn has_place(&self, listener: &str) -> bool {
        let on_listener = self.per_listener.get(listener).map_or(0, |listener| listener.connections);
        on_listener < count(self.limits.of_listener(listener).max)
            && (self.limits.protects(listener) || self.connections.len() < count(self.limits.max))
    }

    /// Tells as many connections as are too many to make room: those of clients that were silent longest.
    fn displace(&mut self) {
        let excess = (self.connections.len() - self.leaving).saturating_sub(count(self.limits.max));
        if excess == 0 {
            return;
        }
        let limits = &self.limits;
        let staying = self.connections.values_mut().filter(|member| !member.leaving);
        let mut clients: Vec<&mut Member> = staying.filter(|member| !limits.protects(&member.listener)).collect();
        clients.sort_by_key(|member| member.activity.active_at.load(Ordering::Relaxed));
        for member in clients.into_iter().take(excess) {
            member.leaving = true;
            member.activity.tell(Leave::Displaced);
            self.leaving += 1;
        }
    }

    fn pace(&mut self, listener: &Arc<str>, connections: f64, now_ms: i64) -> i64 {
        let (windows, limit) = (self.limits.windows, self.limits.of_listener(listener).rate);
        let of_listener = &mut self.per_listener.entry(listener.clone()).or_default().rate;
        let wait_ms = paced(of_listener, windows, limit, connections, now_ms);
        if self.limits.protects(listener) {
            return wait_ms;
        }
        wait_ms.max(paced(&mut self.rate, windows, self.limits.rate, connections, now_ms))
    }
}

impl ConnectionQuotas {
    pub fn new(limits: Limits) -> Arc<ConnectionQuotas> {
        let (connections, per_ip, per_listener) = Default::default();
        let counts = Counts { limits, connections, next: 0, leaving: 0, per_ip, per_listener, rate: Rate::default() };
        Arc::new(ConnectionQuotas { counts: Mutex::new(counts), freed: Notify::new() })
    }

    /// From now on; what was counted is held against the new limits. Of connections beyond a lower `max.connections` those
    /// are told to leave that were silent longest.
    pub fn set_limits(&self, limits: Limits) {
        let mut counts = self.counts.lock();
        counts.limits = limits;
        counts.displace();
        drop(counts);
        self.freed.notify_waiters();
    }

    /// Until another connection may be accepted on a listener. New ones wait in the kernel's backlog meanwhile, as with
    /// Kafka.
    pub async fn below_max(&self, listener: &str) {
        loop {
            let freed = self.freed.notified();
            if self.counts.lock().has_place(listener) {
                return;
            }
            freed.await;
        }
    }

    /// Counts a connection that has come; milliseconds it must wait before it is served.
    pub fn came(&self, listener: &Arc<str>, now_ms: i64) -> u64 {
        u64::try_from(self.counts.lock().pace(listener, 1.0, now_ms)).unwrap_or(0)
    }

    /// Takes back one that has come and is not let in.
    pub fn was_turned_away(&self, listener: &Arc<str>, now_ms: i64) {
        self.counts.lock().pace(listener, -1.0, now_ms);
    }

    /// Counts a connection that is served from now on. One of a broker may cost a client its own.
    pub fn take(self: &Arc<Self>, peer: IpAddr, listener: &Arc<str>, now_ms: i64) -> Result<Place, TooManyFromAddress> {
        let peer = peer.to_canonical();
        let mut counts = self.counts.lock();
        let limit = count(counts.limits.per_ip.get(&peer).copied().unwrap_or(counts.limits.max_per_ip));
        let of_peer = counts.per_ip.entry(peer).or_default();
        if *of_peer >= limit {
            if *of_peer == 0 {
                counts.per_ip.remove(&peer);
            }
            return Err(TooManyFromAddress { peer, limit });
        }
        *of_peer += 1;
        counts.per_listener.entry(listener.clone()).or_default().connections += 1;
        let (number, activity) = (counts.next, Arc::new(Activity::begun(now_ms)));
        counts.next += 1;
        let member = Member { listener: listener.clone(), activity: activity.clone(), leaving: false };
        counts.connections.insert(number, member);
        counts.displace();
        Ok(Place { quotas: self.clone(), number, peer, listener: listener.clone(), activity })
    }

    /// Tells those to leave of which no byte has moved for `limit_ms`. Milliseconds until there may be more of them.
    pub fn expire(&self, limit_ms: i64, now_ms: i64) -> i64 {
        let counts = self.counts.lock();
        let idle = |member: &Member| now_ms - member.activity.active_at.load(Ordering::Relaxed);
        let mut next_ms = limit_ms;
        for member in counts.connections.values() {
            match limit_ms - idle(member) {
                left_ms @ 1.. => next_ms = next_ms.min(left_ms),
                over_ms => member.activity.tell(Leave::Idle(limit_ms - over_ms)),
            }
        }
        next_ms
    }

    /// Until there are no connections.
    pub async fn none_left(&self) {
        loop {
            let freed = self.freed.notified();
            if self.counts.lock().connections.is_empty() {
                return;
            }
            freed.await;
        }
    }

    pub fn connections(&self) -> usize {
        self.counts.lock().connections.len()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.quotas.counts.lock();
        if counts.connections.remove(&self.number).is_some_and(|member| member.leaving) {
            counts.leaving -= 1;
        }
        if let Some(of_peer) = counts.per_ip.get_mut(&self.peer) {
            *of_peer -= 1;
            if *of_peer == 0 {
                counts.per_ip.remove(&self.peer);
            }
        }
        if let Some(listener) = counts.per_listener.get_mut(&self.listener) {
            listener.connections -= 1;
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

    fn config(properties: &[&str]) -> BrokerConfig {
        let properties: Vec<String> = properties.iter().map(|property| (*property).to_owned()).collect();
        BrokerConfig::load(b"", &properties).expect("a configuration").0
    }

    fn quotas(properties: &[&str]) -> Arc<ConnectionQuotas> {
        ConnectionQuotas::new(Limits::of(&config(properties)))
    }

    fn plaintext() -> Arc<str> {
        "PLAINTEXT".into()
    }

    #[test]
    fn each_address_has_its_limit() {
        let quotas = quotas(&["max.connections.per.ip=2", "max.connections.per.ip.overrides=10.0.0.2:0"]);
        let take = |ip| quotas.take(ip, &plaintext(), 0);
        let (first, _second) = (take(A).expect("first"), take(A).expect("second"));
        assert_eq!(take(A).unwrap_err(), TooManyFromAddress { peer: A, limit: 2 });
        assert_eq!(take(B).unwrap_err().limit, 0);
        drop(first);
        assert!(take(A).is_ok());
        assert_eq!(quotas.counts.lock().per_ip.len(), 1);
    }

    #[test]
    fn an_ipv4_address_in_ipv6_clothes_is_the_same_address() {
        let quotas = quotas(&["max.connections.per.ip=1"]);
        let _first = quotas.take(A, &plaintext(), 0).expect("first");
        assert!(quotas.take("::ffff:10.0.0.1".parse().expect("address"), &plaintext(), 0).is_err());
        let address = "max.connections.per.ip.overrides=::ffff:10.0.0.1:2";
        let quotas = self::quotas(&["max.connections.per.ip=1", address]);
        let places = [(); 2].map(|()| quotas.take(A, &plaintext(), 0).expect("a place"));
        assert!(quotas.take(A, &plaintext(), 0).is_err());
        drop(places);
    }

    #[tokio::test]
    async fn accepting_waits_at_the_broker_limit() {
        let quotas = quotas(&["max.connections=1"]);
        quotas.below_max("PLAINTEXT").await;
        let place = quotas.take(A, &plaintext(), 0).expect("place");
        let mut wait = Box::pin(quotas.below_max("PLAINTEXT"));
        assert!((&mut wait).now_or_never().is_none());
        assert!(quotas.none_left().now_or_never().is_none());
        drop(place);
        wait.await;
        quotas.none_left().await;
    }

    #[tokio::test]
    async fn limits_that_change_hold_at_once_for_who_waits_and_who_comes() {
        let quotas = quotas(&["max.connections=1"]);
        let _place = quotas.take(A, &plaintext(), 0).expect("place");
        let mut wait = Box::pin(quotas.below_max("PLAINTEXT"));
        assert!((&mut wait).now_or_never().is_none());
        quotas.set_limits(Limits::of(&config(&["max.connections=2", "max.connections.per.ip=1"])));
        wait.await;
        assert_eq!(quotas.take(A, &plaintext(), 0).unwrap_err().limit, 1);
    }

    const TWO: &[&str] = &[
        "listeners=OUT://:1,IN://:2",
        "listener.security.protocol.map=OUT:PLAINTEXT,IN:PLAINTEXT",
        "inter.broker.listener.name=IN",
    ];

    #[tokio::test]
    async fn a_listener_has_a_limit_of_its_own_and_the_one_betweenbrokers_no_other() {
        let quotas = quotas(
            &[TWO, &["max.connections=2", "listener.name.out.max.connections=1", "listener.name.in.max.connections=3"]]
                .concat(),
        );
        let [out, within]: [Arc<str>; 2] = ["OUT".into(), "IN".into()];
        let _first = quotas.take(A, &out, 0).expect("a place");
        assert!(quotas.below_max("OUT").now_or_never().is_none());
        let _more: Vec<Place> = (0..2).map(|_| quotas.take(A, &within, 0).expect("a place")).collect();
        assert!(quotas.below_max("IN").now_or_never().is_some(), "clients leave brokers their room");
        let _third = quotas.take(A, &within, 0).expect("a place");
        assert!(quotas.below_max("IN").now_or_never().is_none());
    }

    /// Those that were told to leave, by their place in `places`.
    fn told(places: &[Place]) -> Vec<usize> {
        let told = |place: &Place| place.activity().told().now_or_never().is_some();
        (0..places.len()).filter(|at| told(&places[*at])).collect()
    }

    #[test]
    fn a_lower_maximum_tells_the_clients_that_were_silent_longest_to_leave_and_no_broker() {
        let quotas = quotas(TWO);
        let [out, within]: [Arc<str>; 2] = ["OUT".into(), "IN".into()];
        let brokers: Vec<Place> = (0..2).map(|at| quotas.take(A, &within, at).expect("a place")).collect();
        let mut clients: Vec<Place> = (10..15).map(|at| quotas.take(A, &out, at).expect("a place")).collect();
        clients[0].activity().active_at.store(30, Ordering::Relaxed);
        let lower = |max: usize| {
            quotas.set_limits(Limits::of(&config(&[TWO, &[format!("max.connections={max}").as_str()]].concat())));
        };
        lower(7);
        assert_eq!(told(&clients), [0; 0]);
        lower(5);
        assert_eq!(told(&clients), [1, 2]);
        lower(5);
        assert_eq!(told(&clients), [0; 0], "who is leaving already is not counted again");
        drop(clients.drain(1..3));
        lower(5);
        assert_eq!(told(&clients), [0; 0]);
        // However low it is, brokers stay.
        lower(1);
        assert_eq!(told(&clients), [0, 1, 2]);
        assert_eq!(told(&brokers), [0; 0]);
    }

    #[test]
    fn who_was_silent_for_long_is_told_to_leave_and_the_next_look_is_due_when_the_next_may_be() {
        let quotas = quotas(&[]);
        assert_eq!(quotas.expire(1000, 5), 1000, "whoever comes has all of it");
        let places: Vec<Place> = [0, 400, 100].map(|at| quotas.take(A, &plaintext(), at).expect("a place")).into();
        let leave = |at: usize| places[at].activity().told().now_or_never();
        assert_eq!(quotas.expire(1000, 999), 1);
        assert_eq!((0..3).map(leave).collect::<Vec<_>>(), [None; 3]);
        assert_eq!(quotas.expire(1000, 1000), 100);
        assert_eq!((0..3).map(leave).collect::<Vec<_>>(), [Some(Leave::Idle(1000)), None, None]);
        places[1].activity().active_at.store(1100, Ordering::Relaxed);
        assert_eq!(quotas.expire(1000, 1150), 950);
        assert_eq!((1..3).map(leave).collect::<Vec<_>>(), [None, Some(Leave::Idle(1050))]);
    }

    #[test]
    fn a_broker_that_comes_takes_the_place_of_the_client_that_was_silent_longest() {
        let quotas = quotas(&[TWO, &["max.connections=2", "listener.name.out.max.connections=2"]].concat());
        let [out, within]: [Arc<str>; 2] = ["OUT".into(), "IN".into()];
        let clients: Vec<Place> = (0..2).map(|at| quotas.take(A, &out, at).expect("a place")).collect();
        let _broker = quotas.take(A, &within, 2).expect("a place");
        assert_eq!(told(&clients), [0]);
        // The maximum of a listener closes nothing.
        let lower = &["max.connections=2", "listener.name.out.max.connections=1"];
        quotas.set_limits(Limits::of(&config(&[TWO, lower].concat())));
        assert_eq!(told(&clients), [0; 0]);
    }

    #[test]
    fn a_burst_is_served_then_connections_are_spread_and_held_back() {
        let quotas = quotas(&["max.connection.creation.rate=5"]);
        let mut now_ms = 0;
        let mut next = || {
            now_ms += i64::try_from(quotas.came(&plaintext(), now_ms)).expect("short");
            now_ms
        };
        let served: Vec<i64> = (0..61).map(|_| next()).collect();
        // Ten windows at five a second; the same to within a connection as a live Kafka 3.9.1.
        assert_eq!(served.iter().filter(|at| **at == 0).count(), 50);
        assert!(served.windows(2).all(|pair| pair[1] - pair[0] <= 1_000), "{served:?}");
        assert_eq!(&served[50..54], [200, 400, 600, 800]);
        assert!(served[60] >= 1_000, "{served:?}");
    }

    #[test]
    fn a_rate_is_a_listeners_and_the_largest_number_is_none() {
        let quotas = quotas(&[TWO, &["listener.name.out.max.connection.creation.rate=1"]].concat());
        let [out, within]: [Arc<str>; 2] = ["OUT".into(), "IN".into()];
        assert_eq!((0..100).filter(|_| quotas.came(&out, 0) == 0).count(), 10);
        assert!((0..100).all(|_| quotas.came(&within, 0) == 0));
        (0..100).for_each(|_| quotas.was_turned_away(&out, 0));
        assert_eq!(quotas.came(&out, 0), 0);
    }
}
