//! `connection_creation_rate` (KIP-612): new connections of one address per second.

use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs};

use parking_lot::Mutex;

use super::measures::Measures;
use super::rate::{Rate, Windows};

/// Kafka's "no limit".
const UNLIMITED: i32 = i32::MAX;

/// Limits and measures of addresses.
#[derive(Debug)]
pub struct IpQuotas {
    windows: Windows,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limits: HashMap<IpAddr, i32>,
    /// Limits of host names. Their addresses are looked up while others change.
    hosts: HashMap<String, i32>,
    default: i32,
    measures: Measures<Rate>,
}

impl IpQuotas {
    pub fn new(windows: Windows) -> IpQuotas {
        let state =
            State { limits: HashMap::new(), hosts: HashMap::new(), default: UNLIMITED, measures: Measures::default() };
        IpQuotas { windows, state: Mutex::new(state) }
    }

    /// Sets the limit of an address, or with `None` that of all that have none; without a limit it is taken away.
    pub fn set(&self, ip: Option<IpAddr>, per_second: Option<i32>) {
        let mut state = self.state.lock();
        match (ip.map(|ip| ip.to_canonical()), per_second) {
            (None, limit) => state.default = limit.unwrap_or(UNLIMITED),
            (Some(ip), Some(limit)) => drop(state.limits.insert(ip, limit)),
            (Some(ip), None) => drop(state.limits.remove(&ip)),
        }
    }

    /// Sets the limit of a host name, or takes it away; it holds from [`IpQuotas::resolve`] on.
    pub fn set_host(&self, name: &str, per_second: Option<i32>) {
        let hosts = &mut self.state.lock().hosts;
        match per_second {
            Some(limit) => drop(hosts.insert(name.to_owned(), limit)),
            None => drop(hosts.remove(name)),
        }
    }

    /// Looks up the address of a host name, which may take long, and gives it the limit the name has then.
    pub fn resolve(&self, name: &str) {
        let found = (name, 0).to_socket_addrs().map(|mut found| found.next());
        match found {
            Ok(Some(address)) => {
                let limit = self.state.lock().hosts.get(name).copied();
                self.set(Some(address.ip()), limit);
            }
            Ok(None) => tracing::warn!(name, "a quota is for a host without an address"),
            Err(error) => tracing::warn!(name, %error, "a quota is for an unknown host"),
        }
    }

    /// Counts a new connection. Milliseconds after which it is to be closed; 0 when it is welcome. One that is not is not
    /// counted.
    pub fn connected(&self, ip: IpAddr, now_ms: i64) -> u64 {
        let ip = ip.to_canonical();
        let state = &mut *self.state.lock();
        let limit = state.limits.get(&ip).copied().unwrap_or(state.default);
        if limit == UNLIMITED {
            return 0;
        }
        let rate = state.measures.of(ip, now_ms);
        rate.record(self.windows, 1.0, now_ms);
        let wait_ms = rate.excess_ms(self.windows, limit.into(), now_ms).min(self.windows.size_ms());
        if wait_ms > 0 {
            rate.record(self.windows, -1.0, now_ms);
        }
        u64::try_from(wait_ms).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_rate_and_who_is_refused_is_not_counted() {
        let quotas = IpQuotas::new(Windows::new(11, 1));
        let [a, b]: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        assert_eq!(quotas.connected(a, 0), 0);
        quotas.set(None, Some(1));
        let in_ipv6_clothes = |text: &str| text.parse::<IpAddr>().expect("an address");
        quotas.set(Some(in_ipv6_clothes("::ffff:10.0.0.2")), Some(2));
        let welcome = |ip, now_ms| (0..100).filter(|_| quotas.connected(ip, now_ms) == 0).count();
        assert_eq!((welcome(a, 0), welcome(b, 0)), (10, 20));
        assert_eq!(welcome(in_ipv6_clothes("::ffff:10.0.0.1"), 0), 0, "the same address");
        assert_eq!(quotas.connected(a, 10_000), 1_000, "that second is not over");
        assert_eq!(welcome(a, 11_000), 10);
        quotas.set(Some(b), None);
        assert_eq!(welcome(b, 11_000), 10, "that of all others");
        quotas.set(None, None);
        assert_eq!(welcome(b, 11_000), 100);
    }

    #[test]
    fn a_host_name_gives_its_address_the_limit_it_has_when_it_is_found() {
        let quotas = IpQuotas::new(Windows::new(11, 1));
        quotas.set_host("localhost", Some(0));
        quotas.resolve("localhost");
        let address = ("localhost", 0).to_socket_addrs().expect("localhost").next().expect("an address").ip();
        assert_eq!(quotas.connected(address, 0), 1_000);
        quotas.set_host("localhost", None);
        quotas.resolve("localhost");
        assert_eq!(quotas.connected(address, 0), 0);
    }

    #[test]
    fn a_limit_of_zero_lets_nobody_in() {
        let quotas = IpQuotas::new(Windows::new(11, 1));
        quotas.set(None, Some(0));
        assert_eq!(quotas.connected([10, 0, 0, 1].into(), 0), 1_000);
    }
}
