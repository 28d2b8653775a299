//! Stories of one verdict each, and random ones that an [`Oracle`] judges. Each rule is missed when it is left out.

use std::collections::BTreeMap;

use super::oracle::{Entry, Oracle};
use super::*;
use crate::random::{Random, SeededRandom};
use crate::types::{BrokerId, Endpoint};

const SESSION_MS: i64 = 18_000;
const NOBODY: [i32; 0] = [];

/// Brokers 1 to n, this one is 1, and the questions that are open.
struct World {
    core: Suspicions,
    oracle: Oracle,
    now_ms: i64,
    lives: Vec<Registered>,
    connections: u64,
    /// When the last byte came on those that are open.
    heard: BTreeMap<ConnectionId, i64>,
    probes: Vec<(Ticket, Incarnation, Endpoint)>,
    reads: Vec<(Ticket, Incarnation)>,
    decided: Vec<Decision>,
    objection: Option<&'static str>,
}

fn who(id: i32, czxid: i64) -> Incarnation {
    Incarnation { id: BrokerId(id), czxid }
}

fn life(id: i32, czxid: i64) -> Registered {
    let endpoint = |port| Endpoint { host: format!("b{id}").into(), port };
    Registered { who: who(id, czxid), endpoints: vec![endpoint(9092), endpoint(9093)] }
}

impl World {
    fn of(brokers: i32, off: &[Rule]) -> World {
        let rules = Rules { off: off.to_vec() };
        let oracle = Oracle { me: BrokerId(1), cluster_id: "ours", session_timeout_ms: SESSION_MS, story: Vec::new() };
        let mut world = World {
            core: Suspicions::new(BrokerId(1), "ours".into(), SESSION_MS, rules),
            oracle,
            now_ms: 1_000_000,
            lives: (1..=brokers).map(|id| life(id, i64::from(id))).collect(),
            connections: 0,
            heard: BTreeMap::new(),
            probes: Vec::new(),
            reads: Vec::new(),
            decided: Vec::new(),
            objection: None,
        };
        world.see(Evidence::Registrations(world.lives.clone()));
        world
    }

    fn see(&mut self, evidence: Evidence) {
        self.oracle.story.push(Entry::Seen(evidence.clone(), self.now_ms));
        for decision in self.core.decide(evidence, self.now_ms) {
            self.oracle.story.push(Entry::Decided(decision.clone(), self.now_ms));
            self.objection = self.objection.or(self.oracle.objection());
            match &decision {
                Decision::Probe { ticket, of, endpoints } => {
                    self.probes.extend(endpoints.iter().map(|at| (*ticket, *of, at.clone())));
                }
                Decision::ReadRegistration { ticket, of } => self.reads.push((*ticket, *of)),
                _ => {}
            }
            self.decided.push(decision);
        }
    }

    fn open(&mut self, id: i32) -> ConnectionId {
        self.connections += 1;
        let connection = ConnectionId(self.connections);
        self.heard.insert(connection, self.now_ms);
        let with = self.life_of(id);
        self.see(Evidence::Opened { with, connection });
        connection
    }

    fn close(&mut self, connection: ConnectionId, how: Ended) {
        let heard_ms = self.heard.remove(&connection).unwrap_or(self.now_ms);
        self.see(Evidence::Closed { connection, how, heard_ms });
    }

    fn life_of(&self, id: i32) -> Incarnation {
        self.lives.iter().find(|life| life.who.id == BrokerId(id)).map_or(who(id, 0), |life| life.who)
    }

    /// Every open probe ends as `outcome` says for its port.
    fn answer_probes(&mut self, outcome: impl Fn(u16) -> Outcome) {
        for (ticket, of, at) in std::mem::take(&mut self.probes) {
            let outcomes = vec![outcome(at.port)];
            self.see(Evidence::Probed { ticket, of, at, outcomes });
        }
    }

    fn answer_reads(&mut self) {
        for (ticket, of) in std::mem::take(&mut self.reads) {
            let found = self.lives.iter().find(|life| life.who.id == of.id).cloned();
            self.see(Evidence::RegistrationRead { ticket, found });
        }
    }

    /// Whatever is asked is answered so, at once, for this long.
    fn pass(&mut self, ms: i64, outcome: impl Fn(u16) -> Outcome) {
        let end_ms = self.now_ms + ms;
        loop {
            self.answer_probes(&outcome);
            self.answer_reads();
            let Some(due_ms) = self.core.due_ms().filter(|due_ms| *due_ms <= end_ms) else { break };
            self.now_ms = self.now_ms.max(due_ms);
            self.see(Evidence::Due);
        }
        self.now_ms = end_ms;
    }

    fn suspects(&self) -> Vec<i32> {
        let is_suspected = |life: &&Registered| self.core.is_suspected(life.who);
        self.lives.iter().filter(is_suspected).map(|life| life.who.id.0).collect()
    }

    fn cleared(&self) -> Vec<(Incarnation, Cleared)> {
        let cleared = |decision: &Decision| match decision {
            Decision::Clear { who, why } => Some((*who, *why)),
            _ => None,
        };
        self.decided.iter().filter_map(cleared).collect()
    }
}

fn refused(_: u16) -> Outcome {
    Outcome::Refused
}

/// Three brokers that know each other; broker 3 has closed its connections.
fn third_has_closed() -> World {
    let mut world = World::of(3, &[]);
    world.open(2);
    let (one, other) = (world.open(3), world.open(3));
    world.close(one, Ended::Reset);
    assert!(world.probes.is_empty(), "one is open still");
    world.close(other, Ended::Fin);
    world
}

#[test]
fn a_dead_process_is_suspected_after_a_tenth_of_a_second() {
    let mut world = third_has_closed();
    assert_eq!(world.probes.len(), 2, "both of its endpoints");
    world.pass(99, refused);
    assert_eq!(world.suspects(), NOBODY);
    world.pass(1, refused);
    assert_eq!(world.suspects(), [3]);
    let proof = world.decided.iter().find_map(|decision| match decision {
        Decision::Suspect { proof, .. } => Some(proof.clone()),
        _ => None,
    });
    let proof = proof.expect("a verdict");
    assert_eq!((proof.closed_by_it, proof.closed_at_ms, proof.rounds.len()), (2, 1_000_000, 2));
    assert_eq!((proof.majority.registered, proof.majority.connected, proof.majority.suspected), (3, 2, 0));
}

#[test]
fn a_killed_container_is_suspected_after_a_second() {
    for absent in [Outcome::Unreachable, Outcome::Unresolved] {
        let mut world = third_has_closed();
        world.pass(999, |_| absent);
        assert_eq!(world.suspects(), NOBODY, "{absent:?}");
        world.pass(1, |_| absent);
        assert_eq!(world.suspects(), [3], "{absent:?}");
    }
}

#[test]
fn who_was_never_spoken_to_is_not_doubted() {
    let mut world = World::of(3, &[]);
    world.open(2);
    world.pass(60_000, refused);
    assert!(world.decided.is_empty(), "a registered broker may not have opened its port yet");
    assert_eq!(world.core.due_ms(), None, "nothing is polled");
}

#[test]
fn an_end_of_ours_proves_nothing_and_forbids_nothing() {
    for how in [Ended::Idle, Ended::ByUs] {
        let mut world = World::of(3, &[]);
        world.open(2);
        let connection = world.open(3);
        world.close(connection, how);
        world.pass(60_000, refused);
        assert!(world.decided.is_empty(), "{how:?}");
        let connection = world.open(3);
        world.close(connection, Ended::Fin);
        world.pass(100, refused);
        assert_eq!(world.suspects(), [3], "{how:?}");
    }
}

/// A connection that is dropped while its other end is dead already, as a fetcher's is when others lead.
#[test]
fn what_was_proven_stands_until_a_byte_comes() {
    for (hears, suspects) in [(false, vec![3]), (true, Vec::from(NOBODY))] {
        let mut world = World::of(3, &[]);
        world.open(2);
        let (one, other) = (world.open(3), world.open(3));
        world.now_ms += 10;
        world.close(one, Ended::Fin);
        world.now_ms += 10;
        if hears {
            world.heard.insert(other, world.now_ms);
        }
        world.close(other, Ended::ByUs);
        world.pass(60_000, refused);
        assert_eq!(world.suspects(), suspects, "{hears}");
    }
}

#[test]
fn a_registration_that_is_read_late_proves_nothing() {
    let mut world = third_has_closed();
    world.answer_probes(refused);
    world.now_ms += 100;
    world.see(Evidence::Due);
    world.answer_probes(refused);
    world.now_ms += 1_000;
    world.answer_reads();
    assert_eq!(world.suspects(), NOBODY);
    world.pass(600, refused);
    assert_eq!(world.suspects(), [3]);
}

#[test]
fn those_without_a_connection_are_greeted_when_somebody_is_doubted() {
    let mut world = World::of(4, &[]);
    let connection = world.open(3);
    assert!(world.decided.is_empty());
    world.close(connection, Ended::Fin);
    let greeted: Vec<Incarnation> = world
        .decided
        .iter()
        .filter_map(|decision| match decision {
            Decision::Greet { of, .. } => Some(*of),
            _ => None,
        })
        .collect();
    assert_eq!(greeted, [who(2, 2), who(4, 4)]);
    world.pass(99, refused);
    // Two of four are half.
    world.open(2);
    world.pass(1, refused);
    assert_eq!(world.suspects(), [3]);
}

#[test]
fn one_listener_that_accepts_is_enough_to_live() {
    let mut world = third_has_closed();
    world.pass(60_000, |port| if port == 9093 { Outcome::Accepted } else { Outcome::Refused });
    assert_eq!(world.suspects(), NOBODY);
    assert_eq!(world.core.due_ms(), None, "it takes another closed connection");
}

#[test]
fn one_address_of_a_name_that_accepts_is_enough_too() {
    let mut world = third_has_closed();
    let mut rounds = 0;
    while world.core.due_ms().is_some() {
        for (ticket, of, at) in std::mem::take(&mut world.probes) {
            rounds += usize::from(at.port == 9092);
            world.see(Evidence::Probed { ticket, of, at, outcomes: vec![Outcome::Refused, Outcome::Accepted] });
        }
        world.now_ms = world.core.due_ms().unwrap_or(world.now_ms).max(world.now_ms);
        world.see(Evidence::Due);
    }
    assert_eq!(world.suspects(), NOBODY);
    assert!(rounds < 15, "ever more seldom: {rounds}");
    assert!(world.now_ms < 1_000_000 + 2 * SESSION_MS, "and not for ever");
}

/// As SIGKILL does: the kernel closes connections first, and the ports after all files.
#[test]
fn a_port_that_outlives_its_connections_delays_a_suspicion_by_as_long_as_it_did() {
    for lingers_ms in [0, 5, 25, 300, 3_000] {
        let mut world = third_has_closed();
        world.pass(lingers_ms, |_| Outcome::Accepted);
        assert_eq!(world.suspects(), NOBODY);
        world.pass(lingers_ms + 20 + 100, refused);
        assert_eq!(world.suspects(), [3], "{lingers_ms} ms");
    }
}

/// Two rounds are looked for after it.
#[test]
fn who_accepts_between_two_refusals_is_looked_at_anew() {
    let mut world = third_has_closed();
    world.answer_probes(refused);
    world.now_ms += 100;
    world.see(Evidence::Due);
    world.answer_probes(|_| Outcome::Accepted);
    world.pass(100 + 99, refused);
    assert_eq!(world.suspects(), NOBODY);
    world.pass(1, refused);
    assert_eq!(world.suspects(), [3]);
}

#[test]
fn who_accepts_when_its_session_would_be_over_lives() {
    let mut world = third_has_closed();
    world.pass(SESSION_MS * 2, |_| Outcome::Accepted);
    assert_eq!(world.core.due_ms(), None);
    world.pass(60_000, refused);
    assert_eq!(world.suspects(), NOBODY, "it takes another closed connection");
    let connection = world.open(3);
    world.close(connection, Ended::Fin);
    world.pass(100, refused);
    assert_eq!(world.suspects(), [3]);
}

#[test]
fn silence_is_no_refusal() {
    let mut world = third_has_closed();
    world.pass(10_000, |port| if port == 9093 { Outcome::TimedOut } else { Outcome::Refused });
    assert_eq!(world.suspects(), NOBODY);
    world.pass(600, refused);
    assert_eq!(world.suspects(), [3], "it is looked at again");
}

#[test]
fn a_probe_that_is_never_told_has_timed_out() {
    let mut world = third_has_closed();
    let late = std::mem::take(&mut world.probes);
    world.now_ms = world.core.due_ms().expect("it is waited for");
    world.see(Evidence::Due);
    assert!(world.probes.is_empty());
    for (ticket, of, at) in late {
        world.see(Evidence::Probed { ticket, of, at, outcomes: vec![Outcome::Refused] });
    }
    world.pass(599, refused);
    assert_eq!(world.suspects(), NOBODY, "what came late counts for no round");
    world.pass(1, refused);
    assert_eq!(world.suspects(), [3]);
}

#[test]
fn who_registers_anew_or_elsewhere_meanwhile_is_not_suspected() {
    let mut moved = life(3, 3);
    moved.endpoints.remove(0);
    for now in [life(3, 9), moved] {
        let mut world = third_has_closed();
        world.answer_probes(refused);
        world.now_ms += 100;
        world.see(Evidence::Due);
        world.answer_probes(refused);
        world.lives[2] = now;
        world.answer_reads();
        assert_eq!(world.suspects(), NOBODY);
    }
}

#[test]
fn who_is_cut_off_suspects_nobody() {
    let mut world = World::of(5, &[]);
    let connections: Vec<ConnectionId> = (2..=5).map(|id| world.open(id)).collect();
    for connection in connections {
        world.close(connection, Ended::Reset);
    }
    world.pass(60_000, refused);
    assert_eq!(world.suspects(), NOBODY);
    world.open(2);
    world.open(3);
    world.pass(700, refused);
    assert_eq!(world.suspects(), [4, 5], "three of five are connected");
}

#[test]
fn of_two_brokers_one_may_suspect_the_other_and_of_three_one_alone() {
    let mut world = World::of(2, &[]);
    let connection = world.open(2);
    world.close(connection, Ended::Fin);
    world.pass(100, refused);
    assert_eq!(world.suspects(), [2]);

    let mut world = World::of(3, &[]);
    let (second, third) = (world.open(2), world.open(3));
    world.close(third, Ended::Fin);
    world.pass(100, refused);
    // Two of three are connected again, and one of them is suspected.
    world.open(3);
    world.close(second, Ended::Fin);
    world.pass(60_000, refused);
    assert_eq!(world.suspects(), [3]);
}

#[test]
fn a_suspect_comes_back_by_an_answer_of_its_own_and_is_left_alone_then() {
    let mut world = third_has_closed();
    world.pass(100, refused);
    let third = who(3, 3);
    let connection = world.open(3);
    assert!(matches!(world.decided.last(), Some(Decision::Ask { of, .. }) if *of == third));
    world.see(Evidence::Answered { by: third, cluster_id: "another".into() });
    world.see(Evidence::Answered { by: who(3, 2), cluster_id: "ours".into() });
    world.see(Evidence::Registrations(world.lives.clone()));
    assert_eq!(world.suspects(), [3]);
    world.see(Evidence::Answered { by: third, cluster_id: "ours".into() });
    assert_eq!((world.suspects(), world.cleared()), (Vec::from(NOBODY), vec![(third, Cleared::Answered)]));
    world.close(connection, Ended::Fin);
    world.pass(SESSION_MS - 1, refused);
    assert_eq!(world.suspects(), NOBODY);
    world.pass(101, refused);
    assert_eq!(world.suspects(), [3]);
}

#[test]
fn a_suspicion_ends_with_the_registration() {
    let mut world = third_has_closed();
    world.pass(100, refused);
    world.lives[2] = life(3, 7);
    world.see(Evidence::Registrations(world.lives.clone()));
    assert_eq!((world.suspects(), world.cleared()), (Vec::from(NOBODY), vec![(who(3, 3), Cleared::NewLife)]));
    world.pass(60_000, refused);
    assert_eq!(world.suspects(), NOBODY, "what the former life closed says nothing of this one");

    let mut world = third_has_closed();
    world.pass(100, refused);
    world.lives.truncate(2);
    world.see(Evidence::Registrations(world.lives.clone()));
    assert_eq!(world.cleared(), [(who(3, 3), Cleared::Gone)]);
    assert_eq!(world.core.due_ms(), None);
}

/// A story of `steps` steps, mostly of brokers that close and refuse.
fn random(seed: u64, steps: u64, off: &[Rule]) -> World {
    let random = SeededRandom::new(seed);
    let mut world = World::of(2 + i32::try_from(random.below(4)).unwrap_or(0), off);
    let brokers = world.lives.len() as u64;
    let mut open: Vec<ConnectionId> = Vec::new();
    let mut czxid = 100;
    let any = |of: u64| 1 + i32::try_from(random.below(of)).unwrap_or(0);
    for _ in 0..steps {
        world.now_ms += i64::try_from(random.below(40)).unwrap_or(0);
        match random.below(24) {
            0..=3 => {
                let id = any(brokers);
                open.push(world.open(id));
            }
            4..=8 if !open.is_empty() => {
                let connection = open.swap_remove(usize::try_from(random.below(open.len() as u64)).unwrap_or(0));
                let how = match random.below(8) {
                    0 => Ended::Idle,
                    1 => Ended::ByUs,
                    2 => Ended::Fin,
                    _ => Ended::Reset,
                };
                world.close(connection, how);
            }
            9 if random.below(2) == 0 => {
                let id = any(brokers);
                let connection = world.open(id);
                world.close(connection, Ended::Reset);
            }
            9 => {
                let now_ms = world.now_ms;
                let nth = usize::try_from(random.below(1 + open.len() as u64)).unwrap_or(0);
                open.get(nth)
                    .and_then(|connection| world.heard.get_mut(connection))
                    .into_iter()
                    .for_each(|at| *at = now_ms);
            }
            10 => {
                let id = any(brokers);
                let by = if random.below(3) == 0 { who(id, 1) } else { world.life_of(id) };
                let cluster_id = if random.below(3) == 0 { "another" } else { "ours" };
                world.see(Evidence::Answered { by, cluster_id: cluster_id.into() });
            }
            11 if random.below(4) == 0 => {
                let id = any(brokers);
                czxid += 1;
                world.lives.retain(|life| life.who.id != BrokerId(id));
                if random.below(5) > 0 {
                    world.lives.push(life(id, czxid));
                }
                if random.below(2) == 0 {
                    world.see(Evidence::Registrations(world.lives.clone()));
                }
            }
            12 => world.see(Evidence::Registrations(world.lives.clone())),
            13..=15 => world.answer_reads(),
            16..=20 => {
                let kind = random.below(12);
                for (ticket, of, at) in std::mem::take(&mut world.probes) {
                    let outcome = match (kind, random.below(3)) {
                        (0, 0) => Outcome::Accepted,
                        (1, 0) => Outcome::TimedOut,
                        (2 | 3, _) => Outcome::Unreachable,
                        (4, 0) => Outcome::Unresolved,
                        _ => Outcome::Refused,
                    };
                    world.see(Evidence::Probed { ticket, of, at, outcomes: vec![Outcome::Refused, outcome] });
                }
            }
            _ => {
                if let Some(due_ms) = world.core.due_ms() {
                    world.now_ms = world.now_ms.max(due_ms);
                    world.see(Evidence::Due);
                }
            }
        }
    }
    world
}

#[test]
fn no_verdict_is_unjust() {
    let mut verdicts = 0;
    for seed in 0..1_000 {
        let world = random(seed, 300, &[]);
        assert_eq!(world.objection, None, "seed {seed}");
        verdicts += world.decided.iter().filter(|decision| matches!(decision, Decision::Suspect { .. })).count();
    }
    assert!(verdicts > 300, "the stories are about something: {verdicts} verdicts");
}

/// What goes wrong first without it.
fn missed(rule: Rule) -> &'static str {
    match rule {
        Rule::Connections | Rule::ItsOwnEnd => "its connections did not all end by it",
        Rule::TwoRounds | Rule::EveryAddress | Rule::TimeOut | Rule::Opening => "was not looked for twice",
        Rule::Absence => "was out of reach for less than a second",
        Rule::Reread => "its registration was not read again",
        Rule::Connected => "who suspects is cut off",
        Rule::HalfStay => "fewer than half remain",
        Rule::NotOneself => "suspects itself",
        Rule::Answer => "cleared without an answer of this life from this cluster",
        Rule::Respite => "is suspected again too soon",
    }
}

#[test]
fn each_rule_is_missed() {
    for rule in Rule::ALL {
        let caught = (0..2_000).find(|seed| random(*seed, 300, &[rule]).objection == Some(missed(rule)));
        println!("without {rule:?}: {}, seed {caught:?}", missed(rule));
        assert!(caught.is_some(), "{rule:?} is not missed");
    }
}

/// From any state: once a broker is dead for all to see and its watcher is connected, it is suspected within the respite.
#[test]
fn who_is_dead_is_suspected_in_the_end() {
    for seed in 0..100 {
        let mut world = random(seed, 200, &[]);
        world.lives = (1..=3).map(|id| life(id, 1_000 + i64::from(id))).collect();
        world.see(Evidence::Registrations(world.lives.clone()));
        world.open(2);
        let connection = world.open(3);
        world.close(connection, Ended::Reset);
        world.probes.retain(|(_, _, at)| &*at.host == "b3");
        world.pass(100, refused);
        assert_eq!(world.suspects(), [3], "seed {seed}");
    }
}
