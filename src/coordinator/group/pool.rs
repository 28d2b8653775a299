//! Groups under a pool of clients that do anything in any order, from a seed. After each step the invariants hold; at the
//! end everyone is quiet and every request has its answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rules::{Rule, without};
use super::testing::{Bench, GROUP, Told, nobody, protocols, settings, speaker};
use super::*;
use crate::coordinator::seeds::{first_violation, schedules};
use crate::random::{Random, SeededRandom};

const CLIENTS: u64 = 4;
const STEPS: u64 = 80;

/// What a client knows of itself.
#[derive(Clone, Default)]
struct Client {
    instance: Option<Arc<str>>,
    member_id: Arc<str>,
    generation: i32,
    leads: bool,
    asked: Option<RequestId>,
}

/// A sync, to be held against what it is told.
struct Asked {
    generation: i32,
    who: Arc<str>,
}

struct Pool {
    bench: Bench,
    random: SeededRandom,
    clients: Vec<Client>,
    syncs: BTreeMap<u64, Asked>,
    commits: BTreeMap<u64, i64>,
    /// What leaders assigned: (generation, whom) → values.
    given: BTreeMap<(i32, Arc<str>), Vec<String>>,
    /// Who led each generation, by instance id where it has one.
    leaders: BTreeMap<i32, Arc<str>>,
    /// Who beat successfully, and in which generation the group was.
    newest_generation: i32,
    /// Offset acknowledged last.
    acknowledged: Option<i64>,
    next_offset: i64,
    looked_at: u64,
    /// Some coordinator has taken the group over from the log.
    loaded: bool,
}

type Verdict = Result<(), String>;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(what()) }
}

impl Pool {
    fn new(seed: u64) -> Pool {
        let random = SeededRandom::new(seed);
        let client =
            |n: u64| Client { instance: (n == 0).then(|| "static".into()), generation: -1, ..Client::default() };
        let delay_ms = if random.below(2) == 0 { 0 } else { 50 };
        Pool {
            bench: Bench::new(Settings { initial_rebalance_delay_ms: delay_ms, max_size: 3, ..settings() }),
            clients: (0..CLIENTS).map(client).collect(),
            random,
            syncs: BTreeMap::new(),
            commits: BTreeMap::new(),
            given: BTreeMap::new(),
            leaders: BTreeMap::new(),
            newest_generation: 0,
            acknowledged: None,
            next_offset: 0,
            looked_at: 0,
            loaded: false,
        }
    }

    fn run(mut self) -> Verdict {
        for _ in 0..STEPS {
            self.step()?;
            self.look()?;
        }
        self.calm()
    }

    fn step(&mut self) -> Verdict {
        let nth = self.random.below(CLIENTS) as usize;
        match self.random.below(16) {
            0..=3 => self.join(nth),
            4..=6 => self.sync(nth),
            7..=8 => return self.heartbeat(nth),
            9 => drop(self.bench.leave(&self.clients[nth].member_id.clone())),
            10..=11 => self.commit(nth),
            12 => self.bench.pass(self.random.below(700) as i64),
            13 => self.bench.hold = !self.bench.hold,
            14 => self.release(),
            _ => return self.elsewhere(),
        }
        Ok(())
    }

    fn join(&mut self, nth: usize) {
        let client = self.clients[nth].clone();
        let forget = self.random.below(4) == 0;
        let other = self.random.below(5) == 0;
        let request = self.bench.join(|join| {
            join.member_id = if forget { "".into() } else { client.member_id.clone() };
            join.group_instance_id = client.instance.clone();
            join.require_known_member_id = nth % 2 == 1;
            join.may_skip_assignment = true;
            join.rebalance_timeout_ms = 1_500;
            if other {
                join.protocols = protocols(&["other", "range"]);
            }
        });
        self.clients[nth].asked = Some(request);
    }

    fn sync(&mut self, nth: usize) {
        let client = self.clients[nth].clone();
        let tag = self.random.next_u64();
        let assignments: Vec<(Arc<str>, String)> =
            self.clients.iter().map(|to| (to.member_id.clone(), format!("{tag}-{}", to.member_id))).collect();
        if client.leads {
            for (to, value) in &assignments {
                let whom = self.whom(to);
                self.given.entry((client.generation, whom)).or_default().push(value.clone());
            }
        }
        let refs: Vec<(&str, &str)> = assignments.iter().map(|(to, value)| (&**to, value.as_str())).collect();
        let request = self.bench.sync(&client.member_id, client.generation, &refs);
        let who = self.whom(&client.member_id);
        self.syncs.insert(request.0, Asked { generation: client.generation, who });
    }

    /// A static member stays itself under every id.
    fn whom(&self, member_id: &Arc<str>) -> Arc<str> {
        let client = self.clients.iter().find(|client| client.member_id == *member_id);
        client.and_then(|client| client.instance.clone()).unwrap_or_else(|| member_id.clone())
    }

    fn heartbeat(&mut self, nth: usize) -> Verdict {
        let client = &self.clients[nth];
        let told = self.bench.heartbeat(&client.member_id, client.generation);
        ensure(told != ErrorCode::None || client.generation == self.newest_generation, || {
            format!("generation {} lives beside {}", client.generation, self.newest_generation)
        })
    }

    fn commit(&mut self, nth: usize) {
        self.next_offset += 1;
        let client = &self.clients[nth];
        let who = if self.random.below(3) == 0 { nobody() } else { speaker(client.generation, &client.member_id) };
        let request = self.bench.commit(who, "topic", self.next_offset);
        self.commits.insert(request.0, self.next_offset);
    }

    fn release(&mut self) {
        if !self.bench.held.is_empty() {
            let outcome = if self.random.below(3) == 0 { Err(ErrorCode::NotEnoughReplicas) } else { Ok(()) };
            self.bench.release(outcome);
        }
    }

    /// The coordinator dies and another takes over what is in the log.
    fn elsewhere(&mut self) -> Verdict {
        if self.random.below(4) != 0 {
            return Ok(());
        }
        self.look()?;
        let loaded = self.bench.reloaded();
        self.loaded = true;
        let before = std::mem::replace(&mut self.bench.groups, loaded);
        self.bench.held.clear();
        let after = self.bench.groups.take_effects();
        // Those who waited are told by the one that dies.
        for effect in before.resign().into_iter().chain(after) {
            if let Effect::Joined(RequestId(request), _)
            | Effect::Synced(RequestId(request), _)
            | Effect::Committed(RequestId(request), _) = &effect
            {
                self.bench.told.entry(*request).or_insert(Told::Commit(Vec::new()));
            }
        }
        self.looked_at = self.bench.told.keys().next_back().copied().unwrap_or(0).min(self.looked_at);
        // An empty group that was never written begins at generation 1 again.
        self.newest_generation = self.newest_generation.min(self.generation_of_log());
        self.leaders.retain(|generation, _| *generation <= self.newest_generation);
        self.given.retain(|(generation, _), _| *generation <= self.newest_generation);
        for client in &mut self.clients {
            if client.generation > self.newest_generation {
                client.generation = -1;
                client.leads = false;
            }
        }
        self.look()
    }

    fn generation_of_log(&self) -> i32 {
        use crate::coordinator::records::{GroupValue, Key};
        let group = |(key, value): &(bytes::Bytes, Option<bytes::Bytes>)| match (Key::decode(key), value) {
            (Ok(Key::Group { .. }), Some(value)) => GroupValue::decode(value).ok().map(|value| value.generation),
            _ => None,
        };
        self.bench.log.iter().filter_map(group).next_back().unwrap_or(0)
    }

    /// Holds every new answer, and the group, against the invariants.
    fn look(&mut self) -> Verdict {
        let told: Vec<(u64, Told)> = self.bench.told.iter().map(|(id, told)| (*id, told.clone())).collect();
        for (request, told) in told {
            match told {
                Told::Join(answer) => self.look_at_join(request, answer)?,
                Told::Sync(answer) => self.look_at_sync(request, &answer)?,
                Told::Commit(errors) => {
                    if let Some(offset) = self.commits.remove(&request)
                        && errors == [ErrorCode::None]
                    {
                        // Acknowledged in the order of the log.
                        self.acknowledged = Some(offset);
                    }
                }
            }
        }
        let seen = self.bench.offset("topic");
        ensure(seen == self.acknowledged, || format!("{seen:?} is committed, {:?} was acknowledged", self.acknowledged))
    }

    fn look_at_join(&mut self, request: u64, answer: JoinAnswer) -> Verdict {
        let Some(client) = self.clients.iter_mut().find(|client| client.asked == Some(RequestId(request))) else {
            return Ok(());
        };
        client.asked = None;
        if matches!(answer.error, ErrorCode::MemberIdRequired) {
            client.member_id = answer.member_id;
            return Ok(());
        }
        // What is in the log of a member is the protocol chosen, as in Kafka: one it alone preferred may have been.
        ensure(self.loaded || answer.error != ErrorCode::InconsistentGroupProtocol, || {
            format!("request {request} finds no protocol in common, and everybody has one")
        })?;
        if answer.error != ErrorCode::None {
            return Ok(());
        }
        client.member_id = answer.member_id.clone();
        client.generation = answer.generation;
        client.leads = !answer.members.is_empty() && !answer.skip_assignment;
        self.newest_generation = self.newest_generation.max(answer.generation);
        if !answer.members.is_empty() {
            let leader = self.whom(&answer.member_id);
            let known = self.leaders.entry(answer.generation).or_insert_with(|| leader.clone()).clone();
            ensure(known == leader, || format!("generation {} has leaders {known}, {leader}", answer.generation))?;
        }
        Ok(())
    }

    fn look_at_sync(&mut self, request: u64, answer: &SyncAnswer) -> Verdict {
        let Some(asked) = self.syncs.remove(&request) else { return Ok(()) };
        if answer.error != ErrorCode::None || answer.assignment.is_empty() {
            return Ok(());
        }
        let value = String::from_utf8_lossy(&answer.assignment).into_owned();
        let given = self.given.get(&(asked.generation, asked.who.clone()));
        ensure(given.is_some_and(|values| values.contains(&value)), || {
            format!("{} has {value} in generation {}, which no leader gave it", asked.who, asked.generation)
        })
    }

    /// No more requests, a log that takes everything, time: everyone is answered, and who is silent is gone.
    fn calm(&mut self) -> Verdict {
        self.bench.hold = false;
        while !self.bench.held.is_empty() {
            self.bench.release(Ok(()));
        }
        // Members that come again and again wait five minutes for their first generation.
        self.bench.pass(600_000);
        self.look()?;
        let asked = self.bench.request().0 - 1;
        let unanswered: Vec<u64> = (1..=asked).filter(|request| !self.bench.told.contains_key(request)).collect();
        ensure(unanswered.is_empty(), || format!("requests {unanswered:?} wait for ever"))?;
        let described = self.bench.groups.describe(GROUP);
        ensure(described.members.is_empty(), || format!("members that nobody heard of remain: {described:?}"))
    }
}

fn run(seed: u64) -> Verdict {
    Pool::new(seed).run()
}

/// More with `KLAMM_SEEDS`.
#[test]
fn any_order_of_requests_keeps_the_invariants() {
    if let Some((seed, what)) = first_violation(schedules(2_000), run) {
        panic!("seed {seed}: {what}");
    }
}

#[test]
fn without_one_of_its_rules_a_violation_is_found() {
    for rule in [
        Rule::LeaderAssigns,
        Rule::AssignmentOfGeneration,
        Rule::RemovedAreTold,
        Rule::CommittedWhenReplicated,
        Rule::GenerationOfHeartbeat,
        Rule::NobodyIsAll,
    ] {
        assert!(without(rule, || first_violation(2_000, run)).is_some(), "{rule:?} is not missed");
    }
}
