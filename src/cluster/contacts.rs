//! Connections with other brokers as evidence ([`suspicion`](super::suspicion)): which life is at the other end, when it was
//! heard last, and how each connection ended.
//!
//! Who made a connection knows the life by where it leads: a later one listens only after it has registered. Who accepted
//! one learns it from requests. Where it is not certain the connection counts for nobody.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::suspicion::{ConnectionId, Ended, Evidence, Incarnation, Registered};
use crate::clock::Clock;
use crate::types::{BrokerId, Endpoint};

/// Where evidence comes together. Its receiver is the one who decides.
pub struct Contacts {
    clock: Arc<dyn Clock>,
    evidence: mpsc::UnboundedSender<Evidence>,
    next: AtomicU64,
    /// As last read.
    registered: ArcSwap<Vec<Registered>>,
}

impl fmt::Debug for Contacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contacts").field("registered", &self.registered).finish_non_exhaustive()
    }
}

impl Contacts {
    /// With what it tells from then on. The queue has no bound: it grows with connections and questions alone.
    pub fn new(clock: Arc<dyn Clock>) -> (Arc<Contacts>, mpsc::UnboundedReceiver<Evidence>) {
        let (evidence, receiver) = mpsc::unbounded_channel();
        let contacts = Contacts { clock, evidence, next: AtomicU64::new(0), registered: ArcSwap::default() };
        (Arc::new(contacts), receiver)
    }

    pub fn tell(&self, evidence: Evidence) {
        // Nobody decides any more when the broker ends.
        let _ = self.evidence.send(evidence);
    }

    /// These are registered now.
    pub fn know(&self, registered: Vec<Registered>) {
        self.registered.store(Arc::new(registered.clone()));
        self.tell(Evidence::Registrations(registered));
    }

    /// The life in which `broker` is registered, as far as is known.
    pub fn life_of(&self, broker: BrokerId) -> Option<Incarnation> {
        self.find(|one| one.who.id == broker)
    }

    /// Who is reached there, as far as is known.
    pub fn at(&self, endpoint: &Endpoint) -> Option<Incarnation> {
        self.find(|one| one.endpoints.contains(endpoint))
    }

    fn find(&self, is_it: impl Fn(&Registered) -> bool) -> Option<Incarnation> {
        self.registered.load().iter().find(|one| is_it(one)).map(|one| one.who)
    }

    /// There is a connection with it.
    pub fn begin(self: &Arc<Contacts>, with: Incarnation) -> Contact {
        let connection = ConnectionId(self.next.fetch_add(1, Ordering::Relaxed));
        self.tell(Evidence::Opened { with, connection });
        let heard_ms = AtomicI64::new(self.clock.monotonic_ms());
        Contact { contacts: Arc::clone(self), with, connection, heard_ms, how: Ended::ByUs }
    }
}

/// A connection with a known life. Dropped, it was ended by this side.
#[derive(Debug)]
pub struct Contact {
    contacts: Arc<Contacts>,
    with: Incarnation,
    connection: ConnectionId,
    heard_ms: AtomicI64,
    how: Ended,
}

impl Contact {
    /// A byte came.
    pub fn heard(&self) {
        self.heard_ms.store(self.contacts.clock.monotonic_ms(), Ordering::Relaxed);
    }

    pub fn end(mut self, how: Ended) {
        self.how = how;
    }
}

impl Drop for Contact {
    fn drop(&mut self) {
        let heard_ms = self.heard_ms.load(Ordering::Relaxed);
        self.contacts.tell(Evidence::Closed { connection: self.connection, how: self.how, heard_ms });
    }
}

/// Who is at the other end of a connection that was accepted, as its requests say.
#[derive(Debug, Default)]
pub struct Caller(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    contact: Option<Contact>,
    /// Registered when a request that names no life was read last.
    maybe: Option<Incarnation>,
}

impl Caller {
    /// A request names the life it comes from.
    pub fn is(&self, who: Incarnation, contacts: &Arc<Contacts>) {
        let mut known = self.0.lock();
        match &known.contact {
            Some(contact) if contact.with == who => contact.heard(),
            _ => known.contact = Some(contacts.begin(who)),
        }
    }

    /// A request names the broker alone. Its first may have been under way when that broker died and came back; who sends
    /// another one after the answer lives in a life that was registered by then.
    pub fn is_some_life_of(&self, broker: BrokerId, contacts: &Arc<Contacts>) {
        let mut known = self.0.lock();
        if let Some(contact) = known.contact.as_ref().filter(|contact| contact.with.id == broker) {
            return contact.heard();
        }
        let now = contacts.life_of(broker);
        match now.filter(|now| known.maybe == Some(*now)) {
            Some(who) => known.contact = Some(contacts.begin(who)),
            None => known.maybe = now,
        }
    }

    /// Who it was, if that is known.
    pub fn ended(&self, how: Ended) -> Option<BrokerId> {
        let contact = self.0.lock().contact.take()?;
        let id = contact.with.id;
        contact.end(how);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    fn who(id: i32, czxid: i64) -> Incarnation {
        Incarnation { id: BrokerId(id), czxid }
    }

    fn at(port: u16) -> Endpoint {
        Endpoint { host: "b".into(), port }
    }

    /// What is told, in short.
    fn told(evidence: &mut mpsc::UnboundedReceiver<Evidence>) -> Vec<String> {
        let mut told = Vec::new();
        while let Ok(one) = evidence.try_recv() {
            told.push(match one {
                Evidence::Opened { with, connection } => format!("{} with {with}", connection.0),
                Evidence::Closed { connection, how, heard_ms } => format!("{} {how:?} {heard_ms}", connection.0),
                other => format!("{other:?}"),
            });
        }
        told
    }

    #[test]
    fn a_connection_tells_when_it_was_heard_last_and_how_it_ended() {
        let clock = Arc::new(ManualClock::at(5));
        let (contacts, mut evidence) = Contacts::new(clock.clone());
        let (one, other) = (contacts.begin(who(2, 7)), contacts.begin(who(2, 7)));
        clock.advance(10);
        one.heard();
        clock.advance(10);
        one.end(Ended::Reset);
        drop(other);
        assert_eq!(told(&mut evidence), ["0 with 2 (epoch 7)", "1 with 2 (epoch 7)", "0 Reset 15", "1 ByUs 5"]);
    }

    #[test]
    fn who_is_reached_is_as_registered_now() {
        let (contacts, _evidence) = Contacts::new(Arc::new(ManualClock::at(0)));
        assert_eq!((contacts.at(&at(1)), contacts.life_of(BrokerId(2))), (None, None));
        contacts.know(vec![Registered { who: who(2, 7), endpoints: vec![at(1), at(2)] }]);
        assert_eq!((contacts.at(&at(2)), contacts.life_of(BrokerId(2))), (Some(who(2, 7)), Some(who(2, 7))));
        contacts.know(vec![Registered { who: who(2, 9), endpoints: vec![at(3)] }]);
        assert_eq!((contacts.at(&at(2)), contacts.at(&at(3))), (None, Some(who(2, 9))));
    }

    #[test]
    fn a_caller_that_names_no_life_is_known_by_its_second_request() {
        let (contacts, mut evidence) = Contacts::new(Arc::new(ManualClock::at(0)));
        let life = |czxid| vec![Registered { who: who(2, czxid), endpoints: vec![] }];
        contacts.know(life(7));
        let caller = Caller::default();
        caller.is_some_life_of(BrokerId(2), &contacts);
        contacts.know(life(9));
        told(&mut evidence);
        caller.is_some_life_of(BrokerId(2), &contacts);
        assert!(told(&mut evidence).is_empty(), "the former life may have sent both");
        caller.is_some_life_of(BrokerId(2), &contacts);
        caller.is_some_life_of(BrokerId(2), &contacts);
        caller.ended(Ended::Fin);
        assert_eq!(told(&mut evidence), ["0 with 2 (epoch 9)", "0 Fin 0"]);
    }

    #[test]
    fn a_caller_that_names_another_life_is_another() {
        let (contacts, mut evidence) = Contacts::new(Arc::new(ManualClock::at(0)));
        let caller = Caller::default();
        caller.is(who(2, 7), &contacts);
        caller.is(who(2, 7), &contacts);
        caller.is(who(2, 9), &contacts);
        caller.ended(Ended::Idle);
        assert_eq!(told(&mut evidence), ["0 with 2 (epoch 7)", "1 with 2 (epoch 9)", "0 ByUs 0", "1 Idle 0"]);
    }
}
