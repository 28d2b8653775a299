//! Warnings about clients that have fallen into a trap which Kafka lets them fall into in silence: an advertised address
//! that means another machine to them than to this one, timestamps in a unit that is none of Kafka's, a group whose members
//! are taken for dead again and again, a consumer that comes back after its records were deleted.
//!
//! Each is told once per client and subject, with what is needed to find the client: its id, software and address. A batch or
//! fetch without a trap costs a comparison. The lock is for requests with one, and for metadata that names a host to a peer of
//! another machine.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;

use parking_lot::Mutex;

use super::context::{ClientSoftware, Connection, RequestContext};
use crate::spawn::Spawner;

/// Causes that are remembered. When there are more the oldest is forgotten, and told again if it still holds.
const CAUSES: usize = 1024;
/// Groups whose losses are counted.
const GROUPS: usize = 256;
/// A group that loses this many members within [`LOSSES_WITHIN_MS`] is told.
const LOSSES: usize = 3;
const LOSSES_WITHIN_MS: i64 = 10 * 60 * 1000;
/// No clock is wrong by more, and no time zone: later timestamps are mistakes.
const AHEAD_MS: i64 = 24 * 60 * 60 * 1000;
/// Seconds since the epoch from 2001 to 2128. As milliseconds they lie in the first weeks of 1970.
const SECONDS: std::ops::Range<i64> = 1_000_000_000..5_000_000_000;

/// What a client has fallen into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trap<'a> {
    /// The broker is advertised under a host that only its own machine can mean.
    LocalAddress {
        host: &'a str,
    },
    /// This machine cannot resolve the advertised host.
    UnknownAddress {
        host: &'a str,
    },
    /// Milliseconds were meant.
    Seconds {
        topic: &'a str,
        timestamp: i64,
    },
    Future {
        topic: &'a str,
        timestamp: i64,
        now_ms: i64,
    },
    /// Members that were taken for dead go on as if they were not.
    LostMembers {
        group: &'a str,
    },
    /// The log begins behind what is asked for.
    Deleted {
        topic: &'a str,
        partition: i32,
        offset: i64,
        log_start: i64,
    },
}

impl Trap<'_> {
    /// What is the same when it happens again: the kind, and what it happens to.
    fn subject(&self) -> (u8, &str) {
        match self {
            Trap::LocalAddress { host } => (0, host),
            Trap::UnknownAddress { host } => (1, host),
            Trap::Seconds { topic, .. } => (2, topic),
            Trap::Future { topic, .. } => (3, topic),
            Trap::LostMembers { group } => (4, group),
            Trap::Deleted { topic, .. } => (5, topic),
        }
    }
}

impl fmt::Display for Trap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trap::LocalAddress { host } => write!(
                f,
                "a client of another machine is sent to {host}, which there means that machine itself: it will not connect. \
                 Set advertised.listeners to an address that clients can reach"
            ),
            Trap::UnknownAddress { host } => write!(
                f,
                "a client of another machine is sent to {host}, which this machine cannot resolve: the client may not \
                 either. Set advertised.listeners to an address that clients can reach"
            ),
            Trap::Seconds { topic, timestamp } => write!(
                f,
                "timestamp {timestamp} in topic {topic} is milliseconds of January or February 1970, but reads like seconds \
                 of today: retention.ms will delete such records at once"
            ),
            Trap::Future { topic, timestamp, now_ms } => {
                write!(
                    f,
                    "timestamp {timestamp} in topic {topic} is {} days ahead of now",
                    (timestamp - now_ms) / AHEAD_MS
                )?;
                match timestamp / now_ms.max(&1) {
                    500..2_000 => write!(f, ", and reads like microseconds where milliseconds are meant")?,
                    500_000..2_000_000 => write!(f, ", and reads like nanoseconds where milliseconds are meant")?,
                    _ => {}
                }
                write!(f, ": retention.ms will keep such records until then, and those beside them")
            }
            Trap::LostMembers { group } => write!(
                f,
                "group {group} has lost {LOSSES} members in a few minutes that still run: they take longer than \
                 max.poll.interval.ms between polls, or pause longer than session.timeout.ms. Their partitions are read \
                 twice"
            ),
            Trap::Deleted { topic, partition, offset, log_start } => write!(
                f,
                "offset {offset} of {topic}-{partition} is gone, the log begins at {log_start}: retention has deleted records \
                 that this consumer had not read. It goes on where its auto.offset.reset says"
            ),
        }
    }
}

fn is_mistaken(timestamp: i64, now_ms: i64) -> bool {
    SECONDS.contains(&timestamp) || timestamp > now_ms.saturating_add(AHEAD_MS)
}

/// What of a record's timestamp is a mistake; `None` for one that can be meant. Both in ms since the epoch.
pub fn mistaken(topic: &str, timestamp: i64, now_ms: i64) -> Option<Trap<'_>> {
    if SECONDS.contains(&timestamp) {
        return Some(Trap::Seconds { topic, timestamp });
    }
    is_mistaken(timestamp, now_ms).then_some(Trap::Future { topic, timestamp, now_ms })
}

/// Whether `host` means the machine that reads it, whichever it is.
fn means_itself(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => is_of_the_machine(address.to_canonical()),
        Err(_) => bare.eq_ignore_ascii_case("localhost") || bare.to_ascii_lowercase().ends_with(".localhost"),
    }
}

fn is_of_the_machine(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified()
}

/// Whether the peer runs on this machine: the address can then be bound here.
fn is_local(peer: IpAddr) -> bool {
    is_of_the_machine(peer) || UdpSocket::bind((peer, 0)).is_ok()
}

/// [`is_local`] of the peer of a connection, which asks the machine once: clients ask for metadata again and again.
fn comes_from_here(connection: &Connection) -> bool {
    *connection.of_this_machine.get_or_init(|| is_local(connection.peer))
}

/// What was told, and what is on its way to be.
#[derive(Debug, Default)]
pub struct Telltales(Arc<Mutex<Memory>>);

#[derive(Debug, Default)]
struct Memory {
    hasher: RandomState,
    /// Hashes of kind, client and subject, the oldest first.
    told: VecDeque<u64>,
    /// Hashes of hosts that were looked up.
    resolved: VecDeque<u64>,
    /// Hashes of groups with their last losses.
    losses: VecDeque<(u64, VecDeque<Loss>)>,
}

#[derive(Clone, Copy, Debug)]
struct Loss {
    /// A hash of its id.
    member: u64,
    at_ms: i64,
}

impl Memory {
    /// True the first time.
    fn is_new(&mut self, client_id: &str, trap: &Trap<'_>) -> bool {
        let hash = self.hasher.hash_one((trap.subject(), client_id));
        remember(&mut self.told, hash)
    }

    fn was_told(&self, client_id: &str, trap: &Trap<'_>) -> bool {
        self.told.contains(&self.hasher.hash_one((trap.subject(), client_id)))
    }

    fn knows_host(&self, host: &str) -> bool {
        self.resolved.contains(&self.hasher.hash_one(host))
    }

    /// True the first time.
    fn is_new_host(&mut self, host: &str) -> bool {
        let hash = self.hasher.hash_one(host);
        remember(&mut self.resolved, hash)
    }

    /// True when it is one loss too many. A member is lost once, however often it speaks.
    fn lose(&mut self, group: &str, member_id: &str, now_ms: i64) -> bool {
        let member = self.hasher.hash_one(member_id);
        let hash = self.hasher.hash_one(group);
        let mut lost = match self.losses.iter().position(|(other, _)| *other == hash) {
            Some(at) => self.losses.remove(at).map(|(_, lost)| lost).unwrap_or_default(),
            None => VecDeque::new(),
        };
        lost.retain(|loss| now_ms - loss.at_ms <= LOSSES_WITHIN_MS && loss.member != member);
        lost.push_back(Loss { member, at_ms: now_ms });
        if lost.len() > LOSSES {
            lost.pop_front();
        }
        let too_many = lost.len() == LOSSES;
        if self.losses.len() == GROUPS {
            self.losses.pop_front();
        }
        self.losses.push_back((hash, lost));
        too_many
    }
}

/// True when `hash` is new; the oldest makes room for it.
fn remember(known: &mut VecDeque<u64>, hash: u64) -> bool {
    if known.contains(&hash) {
        return false;
    }
    if known.len() == CAUSES {
        known.pop_front();
    }
    known.push_back(hash);
    true
}

/// Who has fallen into it.
#[derive(Clone, Debug)]
struct Client {
    id: String,
    software: Option<ClientSoftware>,
    peer: IpAddr,
}

impl Client {
    fn of(ctx: &RequestContext<'_>) -> Client {
        Client {
            id: id_of(ctx).to_owned(),
            software: ctx.connection.software.lock().clone(),
            peer: ctx.connection.peer,
        }
    }
}

fn say(client: &Client, trap: &Trap<'_>) {
    let software = client.software.as_ref();
    tracing::warn!(
        client_id = client.id,
        software = software.map_or("unknown", |software| &software.name),
        software_version = software.map_or("unknown", |software| &software.version),
        peer = %client.peer,
        "{trap}"
    );
}

impl Telltales {
    fn tell(&self, ctx: &RequestContext<'_>, trap: &Trap<'_>) {
        if self.0.lock().is_new(id_of(ctx), trap) {
            say(&Client::of(ctx), trap);
        }
    }

    /// A client is told that a broker is at `host`.
    pub fn advertised(&self, ctx: &RequestContext<'_>, host: &str) {
        if is_of_the_machine(ctx.connection.peer) {
            return;
        }
        if means_itself(host) {
            let trap = Trap::LocalAddress { host };
            let told = self.0.lock().was_told(id_of(ctx), &trap);
            if !told && !comes_from_here(ctx.connection) {
                self.tell(ctx, &trap);
            }
        } else if host.parse::<IpAddr>().is_err() {
            // A client of this machine asks in vain, and for nobody else.
            let known = self.0.lock().knows_host(host);
            if !known && !comes_from_here(ctx.connection) && self.0.lock().is_new_host(host) {
                self.resolve(&*ctx.services.spawner, Client::of(ctx), host.to_owned());
            }
        }
    }

    /// Looks the host up where that may take its time.
    fn resolve(&self, spawner: &dyn Spawner, client: Client, host: String) {
        let memory = Arc::clone(&self.0);
        spawner.blocking(Box::new(move || {
            let addresses = (host.as_str(), 0).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
            let trap = Trap::UnknownAddress { host: &host };
            if addresses.is_err() && memory.lock().is_new(&client.id, &trap) {
                say(&client, &trap);
            }
        }));
    }

    /// Records up to this late were sent; both ms since the epoch.
    pub fn produced<'t>(
        &self,
        ctx: &RequestContext<'_>,
        topic: impl FnOnce() -> &'t str,
        max_timestamp: i64,
        now_ms: i64,
    ) {
        if is_mistaken(max_timestamp, now_ms)
            && let Some(trap) = mistaken(topic(), max_timestamp, now_ms)
        {
            self.tell(ctx, &trap);
        }
    }

    /// A consumer asked for an offset that lies before the log.
    pub fn deleted(&self, ctx: &RequestContext<'_>, topic: &str, partition: i32, offset: i64, log_start: i64) {
        self.tell(ctx, &Trap::Deleted { topic, partition, offset, log_start });
    }

    /// A member spoke that the group does not know any more, or says itself that it was too slow.
    pub fn lost_member(&self, ctx: &RequestContext<'_>, group: &str, member_id: &str) {
        let now_ms = ctx.services.clock.monotonic_ms();
        let too_many = self.0.lock().lose(group, member_id, now_ms);
        if too_many {
            self.tell(ctx, &Trap::LostMembers { group });
        }
    }
}

fn id_of<'c>(ctx: &'c RequestContext<'_>) -> &'c str {
    ctx.header.client_id.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_900_000_000_000;

    #[test]
    fn a_second_time_says_nothing() {
        let mut memory = Memory::default();
        for trap in [
            Trap::LocalAddress { host: "x" },
            Trap::UnknownAddress { host: "x" },
            Trap::Seconds { topic: "x", timestamp: 1 },
            Trap::Future { topic: "x", timestamp: 1, now_ms: 0 },
            Trap::LostMembers { group: "x" },
            Trap::Deleted { topic: "x", partition: 0, offset: 1, log_start: 2 },
        ] {
            assert!(memory.is_new("client", &trap), "{trap}");
            assert!(!memory.is_new("client", &trap), "{trap}");
            assert!(memory.is_new("other client", &trap), "{trap}");
        }
        // Another partition or number is the same cause, another topic is not.
        assert!(!memory.is_new("client", &Trap::Deleted { topic: "x", partition: 1, offset: 3, log_start: 4 }));
        assert!(memory.is_new("client", &Trap::Deleted { topic: "y", partition: 0, offset: 1, log_start: 2 }));
    }

    #[test]
    fn memory_is_bounded_and_forgets_the_oldest() {
        let mut memory = Memory::default();
        let first = Trap::LostMembers { group: "first" };
        assert!(memory.is_new("", &first));
        for client in 0..CAUSES {
            assert!(memory.is_new(&client.to_string(), &first));
            memory.lose(&client.to_string(), "m", 0);
        }
        assert_eq!((memory.told.len(), memory.losses.len()), (CAUSES, GROUPS));
        assert!(memory.is_new("", &first));
        assert!(!memory.is_new("5", &first));
    }

    #[test]
    fn timestamps_in_other_units_are_mistakes() {
        let trap = |timestamp| mistaken("t", timestamp, NOW).map(|trap| trap.to_string());
        const DAY: i64 = 86_400_000;
        for fine in [-1, 0, 1, NOW, NOW - 7 * DAY, NOW + DAY, 5_000_000_000] {
            assert_eq!(trap(fine), None, "{fine}");
        }
        assert!(trap(NOW + DAY + 1).is_some());
        assert!(trap(NOW / 1000).unwrap().contains("reads like seconds"));
        assert!(trap(NOW * 1000).unwrap().contains("microseconds"));
        assert!(trap(NOW * 1_000_000).unwrap().contains("nanoseconds"));
        let next_week = trap(NOW + 7 * DAY).unwrap();
        assert!(next_week.contains("is 7 days ahead of now: "), "{next_week}");
        assert!(trap(i64::MAX).is_some());
    }

    #[test]
    fn hosts_that_mean_the_reader_are_known() {
        for host in [
            "localhost",
            "LOCALHOST",
            "a.localhost",
            "127.0.0.1",
            "127.1.2.3",
            "::1",
            "[::1]",
            "0.0.0.0",
            "::",
            "::ffff:127.0.0.1",
        ] {
            assert!(means_itself(host), "{host}");
        }
        for host in ["broker-1", "10.0.0.1", "localhost.example.org", "fe80::1", ""] {
            assert!(!means_itself(host), "{host}");
        }
    }

    #[test]
    fn addresses_of_this_machine_are_local() {
        assert!(is_local("127.0.0.1".parse().unwrap()));
        assert!(is_local("::1".parse().unwrap()));
        // Kept for documentation by RFC 5737: nobody has it.
        assert!(!is_local("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn a_connection_asks_once_where_it_comes_from() {
        let connection = Connection::new(1, "L".into(), "192.0.2.1".parse().unwrap(), false);
        assert!(!comes_from_here(&connection));
        assert_eq!(connection.of_this_machine.get(), Some(&false));
        let connection = Connection::new(1, "L".into(), "192.0.2.1".parse().unwrap(), false);
        connection.of_this_machine.set(true).unwrap();
        assert!(comes_from_here(&connection), "the machine is not asked again");
    }

    #[test]
    fn three_members_lost_in_ten_minutes_are_too_many() {
        let mut memory = Memory::default();
        let mut lose = |group, member, minutes: i64| memory.lose(group, member, minutes * 60_000);
        let lost: Vec<bool> = [("a", 0), ("b", 1), ("c", 12), ("c", 13), ("d", 13), ("e", 14)]
            .map(|(member, at)| lose("g", member, at))
            .into();
        assert_eq!(lost, [false, false, false, false, false, true]);
        assert!(!lose("h", "e", 14));
        assert!(lose("g", "f", 15));
    }
}
