//! The brokers under watch: from the first closed connection to the verdict, and back.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::connections::{ConnectionId, Connections, Ended};
use super::evidence::{Cleared, Decision, Evidence, Outcome, Proof, Ticket};
use super::incarnation::{Incarnation, Registered};
use super::majority::Majority;
use super::rounds::{Progress, Round, Rounds};
use super::rule::{Rule, Rules};
use crate::types::{BrokerId, Endpoint};

/// After an attempt that came to nothing, ms.
const RETRY_MS: i64 = 500;
/// After an accept, at first, ms: a process that ends closes its ports when it has closed its connections.
const LINGER_MS: i64 = 20;
/// A registration is read within this, or the rounds are stale, ms.
const READ_MS: i64 = 1_000;
/// Between two questions to a suspect, ms.
const ASK_MS: i64 = 500;

/// How far the case against a broker is.
#[derive(Clone, Debug)]
enum Stage {
    Trusted,
    Probed(Rounds),
    Reread { ticket: Ticket, since_ms: i64, rounds: Vec<Round> },
    Suspected { ask_at_ms: i64 },
}

/// One registered broker.
#[derive(Clone, Debug)]
struct Peer {
    registered: Registered,
    stage: Stage,
    /// No attempt before, ms.
    trusted_until_ms: i64,
}

impl Peer {
    fn new(registered: Registered) -> Peer {
        Peer { registered, stage: Stage::Trusted, trusted_until_ms: i64::MIN }
    }

    fn is_suspected(&self) -> bool {
        matches!(self.stage, Stage::Suspected { .. })
    }

    /// The attempt is over; a suspicion stays.
    fn start_again(&mut self, now_ms: i64) {
        if matches!(self.stage, Stage::Probed(_) | Stage::Reread { .. }) {
            self.stage = Stage::Trusted;
            self.trusted_until_ms = self.trusted_until_ms.max(now_ms + RETRY_MS);
        }
    }
}

/// All brokers, as one of them sees them.
#[derive(Debug)]
pub struct Suspicions {
    me: BrokerId,
    cluster_id: Arc<str>,
    session_timeout_ms: i64,
    peers: BTreeMap<BrokerId, Peer>,
    /// Of those not registered, or not yet read as such, too.
    connections: BTreeMap<Incarnation, Connections>,
    tickets: u64,
    rules: Rules,
}

impl Suspicions {
    /// `session_timeout_ms`: who was suspected wrongly is left alone for so long.
    pub fn new(me: BrokerId, cluster_id: Arc<str>, session_timeout_ms: i64, rules: Rules) -> Suspicions {
        Suspicions {
            me,
            cluster_id,
            session_timeout_ms,
            peers: BTreeMap::new(),
            connections: BTreeMap::new(),
            tickets: 0,
            rules,
        }
    }

    /// The one transition function. Time, ms, never goes back.
    pub fn decide(&mut self, evidence: Evidence, now_ms: i64) -> Vec<Decision> {
        let mut decisions = Vec::new();
        match evidence {
            Evidence::Registrations(registered) => self.registrations(registered, now_ms, &mut decisions),
            Evidence::Opened { with, connection } => {
                self.connections.entry(with).or_default().opened(connection);
                if self.rules.hold(Rule::Opening) {
                    self.sign_of_life(with, now_ms);
                }
            }
            Evidence::Closed { connection, how, heard_ms } => self.closed(connection, how, heard_ms, now_ms),
            Evidence::Due => {}
            Evidence::Answered { by, cluster_id } => self.answered(by, &cluster_id, now_ms, &mut decisions),
            Evidence::Probed { of, outcomes, .. }
                if outcomes.contains(&Outcome::Accepted) && self.rules.hold(Rule::EveryAddress) =>
            {
                self.accepted(of, now_ms);
            }
            Evidence::Probed { ticket, of, at, outcomes } => {
                self.probed(ticket, of, &at, &outcomes, now_ms, &mut decisions);
            }
            Evidence::RegistrationRead { ticket, found } => self.reread(ticket, found, now_ms, &mut decisions),
        }
        for id in self.peers.keys().copied().collect::<Vec<_>>() {
            self.advance(id, now_ms, &mut decisions);
        }
        decisions
    }

    /// When [`Evidence::Due`] is to come, ms; `None` while nobody is doubted: a healthy cluster costs nothing.
    pub fn due_ms(&self) -> Option<i64> {
        let due = |peer: &Peer| match &peer.stage {
            Stage::Trusted => self.may_be_dead(peer).then_some(peer.trusted_until_ms),
            Stage::Probed(rounds) => Some(rounds.due_ms(&self.rules)),
            Stage::Reread { since_ms, .. } => Some(since_ms + READ_MS),
            Stage::Suspected { ask_at_ms } => Some(*ask_at_ms),
        };
        self.peers.values().filter_map(due).min()
    }

    pub fn is_suspected(&self, who: Incarnation) -> bool {
        self.peers.get(&who.id).is_some_and(|peer| peer.registered.who == who && peer.is_suspected())
    }

    /// As it stands.
    pub fn majority(&self) -> Majority {
        let is_open = |peer: &&Peer| {
            let who = peer.registered.who;
            who.id == self.me || self.connections.get(&who).is_some_and(Connections::is_open)
        };
        Majority {
            is_registered: self.peers.contains_key(&self.me),
            registered: self.peers.len(),
            connected: self.peers.values().filter(is_open).count(),
            suspected: self.peers.values().filter(|peer| peer.is_suspected()).count(),
        }
    }

    fn registrations(&mut self, registered: Vec<Registered>, now_ms: i64, decisions: &mut Vec<Decision>) {
        self.peers.retain(|id, peer| {
            let stays = registered.iter().any(|now| now.who.id == *id);
            if !stays && peer.is_suspected() {
                decisions.push(Decision::Clear { who: peer.registered.who, why: Cleared::Gone });
            }
            stays
        });
        for now in registered {
            self.registered(now, now_ms, decisions);
        }
        let peers = &self.peers;
        self.connections.retain(|who, connections| is_of_use(peers, *who, connections));
    }

    fn registered(&mut self, now: Registered, now_ms: i64, decisions: &mut Vec<Decision>) {
        match self.peers.get_mut(&now.who.id) {
            Some(peer) if peer.registered.who == now.who => {
                if peer.registered != now {
                    peer.registered = now;
                    peer.start_again(now_ms);
                }
            }
            // An older read than the one before.
            Some(peer) if peer.registered.who > now.who => {}
            Some(peer) => {
                if peer.is_suspected() {
                    decisions.push(Decision::Clear { who: peer.registered.who, why: Cleared::NewLife });
                }
                *peer = Peer::new(now);
            }
            None => drop(self.peers.insert(now.who.id, Peer::new(now))),
        }
    }

    fn closed(&mut self, connection: ConnectionId, how: Ended, heard_ms: i64, now_ms: i64) {
        let counts_all = !self.rules.hold(Rule::ItsOwnEnd);
        // One of them knows it.
        self.connections.values_mut().any(|of| of.closed(connection, how, heard_ms, now_ms, counts_all));
        let peers = &self.peers;
        self.connections.retain(|who, connections| is_of_use(peers, *who, connections));
    }

    /// It is there; which of its words it keeps is seen when it answers.
    fn sign_of_life(&mut self, who: Incarnation, now_ms: i64) {
        let needs_answer = self.rules.hold(Rule::Answer);
        let Some(peer) = self.in_this_life(who) else { return };
        match &mut peer.stage {
            Stage::Suspected { ask_at_ms } if needs_answer => *ask_at_ms = (*ask_at_ms).min(now_ms),
            _ => peer.start_again(now_ms),
        }
    }

    fn answered(&mut self, by: Incarnation, cluster_id: &str, now_ms: i64, decisions: &mut Vec<Decision>) {
        self.sign_of_life(by, now_ms);
        if cluster_id != &*self.cluster_id && self.rules.hold(Rule::Answer) {
            return;
        }
        let respite_ms = if self.rules.hold(Rule::Respite) { self.session_timeout_ms } else { 0 };
        if let Some(peer) = self.in_this_life(by)
            && peer.is_suspected()
        {
            peer.stage = Stage::Trusted;
            peer.trusted_until_ms = now_ms + respite_ms;
            decisions.push(Decision::Clear { who: by, why: Cleared::Answered });
        }
    }

    fn in_this_life(&mut self, who: Incarnation) -> Option<&mut Peer> {
        self.peers.get_mut(&who.id).filter(|peer| peer.registered.who == who)
    }

    /// Somebody is there; or a process that ends, which has closed its connections and not yet its ports. It is looked at
    /// again, each time after twice as long, until its session would be over: who is registered still lives.
    fn accepted(&mut self, who: Incarnation, now_ms: i64) {
        let closed_at_ms = self.connections.get(&who).and_then(Connections::all_closed_by_it).map(|(_, at_ms)| at_ms);
        let since_ms = closed_at_ms.map(|closed_at_ms| now_ms - closed_at_ms);
        let since_ms = since_ms.filter(|since_ms| *since_ms < self.session_timeout_ms);
        match (since_ms, self.in_this_life(who)) {
            (Some(since_ms), Some(peer)) if !peer.is_suspected() => {
                peer.stage = Stage::Trusted;
                peer.trusted_until_ms = peer.trusted_until_ms.max(now_ms + since_ms.max(LINGER_MS));
            }
            _ => {
                self.sign_of_life(who, now_ms);
                // It takes another end of a connection to doubt it again.
                if let Some(connections) = self.connections.get_mut(&who) {
                    connections.forget();
                }
            }
        }
    }

    fn probed(
        &mut self,
        ticket: Ticket,
        of: Incarnation,
        at: &Endpoint,
        outcomes: &[Outcome],
        now_ms: i64,
        decisions: &mut Vec<Decision>,
    ) {
        let Some(peer) = self.peers.get_mut(&of.id).filter(|peer| peer.registered.who == of) else { return };
        let progress = match &mut peer.stage {
            Stage::Probed(rounds) if rounds.is_waiting_for(ticket) => rounds.told(at, outcomes, now_ms, &self.rules),
            _ => return,
        };
        match progress {
            Progress::Open | Progress::Again => {}
            Progress::TimedOut => peer.start_again(now_ms),
            Progress::Enough => {
                let Stage::Probed(rounds) = std::mem::replace(&mut peer.stage, Stage::Trusted) else { return };
                let rounds = rounds.into_done();
                if self.rules.hold(Rule::Reread) {
                    self.tickets += 1;
                    let ticket = Ticket(self.tickets);
                    peer.stage = Stage::Reread { ticket, since_ms: now_ms, rounds };
                    decisions.push(Decision::ReadRegistration { ticket, of });
                } else {
                    self.suspect(of, rounds, now_ms, decisions);
                }
            }
        }
    }

    fn reread(&mut self, ticket: Ticket, found: Option<Registered>, now_ms: i64, decisions: &mut Vec<Decision>) {
        let asked = self.peers.values_mut().find_map(|peer| match &mut peer.stage {
            Stage::Reread { ticket: asked, rounds, since_ms } if *asked == ticket => {
                let (rounds, is_late) = (std::mem::take(rounds), now_ms >= *since_ms + READ_MS);
                peer.start_again(now_ms);
                (!is_late).then(|| (peer.registered.clone(), rounds))
            }
            _ => None,
        });
        let Some((known, rounds)) = asked else { return };
        match found {
            Some(found) if found == known => self.suspect(known.who, rounds, now_ms, decisions),
            Some(found) if found.who.id == known.who.id => self.registered(found, now_ms, decisions),
            // The watch will say so.
            Some(_) | None => {}
        }
    }

    /// The verdict, where this broker may give one.
    fn suspect(&mut self, who: Incarnation, rounds: Vec<Round>, now_ms: i64, decisions: &mut Vec<Decision>) {
        let majority = self.majority();
        let is_connected = majority.is_connected() || !self.rules.hold(Rule::Connected);
        let leaves_half = majority.leaves_half() || !self.rules.hold(Rule::HalfStay);
        let ends = self.connections.get(&who).and_then(Connections::all_closed_by_it);
        let ends = ends.or_else(|| (!self.rules.hold(Rule::Connections)).then_some((0, now_ms)));
        let Some(peer) = self.in_this_life(who) else { return };
        match ends {
            Some((closed_by_it, closed_at_ms)) if is_connected && leaves_half => {
                peer.stage = Stage::Suspected { ask_at_ms: now_ms + ASK_MS };
                let proof = Proof { closed_by_it, closed_at_ms, rounds, majority };
                decisions.push(Decision::Suspect { who, proof });
            }
            _ => {
                peer.stage = Stage::Trusted;
                peer.trusted_until_ms = peer.trusted_until_ms.max(now_ms + RETRY_MS);
            }
        }
    }

    /// Those that are suspected now.
    pub fn suspects(&self) -> Vec<Incarnation> {
        self.peers.values().filter(|peer| peer.is_suspected()).map(|peer| peer.registered.who).collect()
    }

    fn may_be_dead(&self, peer: &Peer) -> bool {
        let who = peer.registered.who;
        let is_other = who.id != self.me || !self.rules.hold(Rule::NotOneself);
        let has_ended = || match self.rules.hold(Rule::Connections) {
            true => self.connections.get(&who).is_some_and(|all| all.all_closed_by_it().is_some()),
            false => true,
        };
        is_other && !peer.registered.endpoints.is_empty() && has_ended()
    }

    /// Those without a connection, that may be there all the same.
    fn unmet(&self, but: BrokerId) -> impl Iterator<Item = Decision> + '_ {
        let is_unmet = move |peer: &&Peer| {
            let who = peer.registered.who;
            let is_other = who.id != self.me && who.id != but && !peer.is_suspected();
            let is_open = self.connections.get(&who).is_some_and(Connections::is_open);
            is_other && !is_open && !peer.registered.endpoints.is_empty()
        };
        self.peers
            .values()
            .filter(is_unmet)
            .map(|peer| Decision::Greet { of: peer.registered.who, endpoints: peer.registered.endpoints.clone() })
    }

    /// What time brings.
    fn advance(&mut self, id: BrokerId, now_ms: i64, decisions: &mut Vec<Decision>) {
        let Some(peer) = self.peers.get(&id) else { return };
        let may_be_dead = self.may_be_dead(peer);
        if may_be_dead && matches!(peer.stage, Stage::Trusted) && now_ms >= peer.trusted_until_ms {
            decisions.extend(self.unmet(id));
        }
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let (of, endpoints) = (peer.registered.who, &peer.registered.endpoints);
        let mut next_round = |rounds: &mut Rounds| {
            self.tickets += 1;
            let ticket = Ticket(self.tickets);
            rounds.begin(ticket, endpoints, now_ms);
            decisions.push(Decision::Probe { ticket, of, endpoints: endpoints.clone() });
        };
        match &mut peer.stage {
            Stage::Trusted if may_be_dead && now_ms >= peer.trusted_until_ms => {
                let mut rounds = Rounds::default();
                next_round(&mut rounds);
                peer.stage = Stage::Probed(rounds);
            }
            Stage::Probed(rounds) if now_ms >= rounds.due_ms(&self.rules) => match rounds.is_open() {
                true => peer.start_again(now_ms),
                false => next_round(rounds),
            },
            Stage::Reread { since_ms, .. } if now_ms >= *since_ms + READ_MS => peer.start_again(now_ms),
            Stage::Suspected { ask_at_ms } if now_ms >= *ask_at_ms => {
                *ask_at_ms = now_ms + ASK_MS;
                decisions.push(Decision::Ask { of, endpoints: endpoints.clone() });
            }
            Stage::Trusted | Stage::Probed(_) | Stage::Reread { .. } | Stage::Suspected { .. } => {}
        }
    }
}

/// What ended says something of a life that is registered still, and what is open may be of one that is not yet known to be.
fn is_of_use(peers: &BTreeMap<BrokerId, Peer>, who: Incarnation, connections: &Connections) -> bool {
    connections.is_open() || peers.get(&who.id).is_some_and(|peer| peer.registered.who == who)
}
