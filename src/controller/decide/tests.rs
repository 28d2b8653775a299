//! Transcripts: a command, a rule, what the controller did. `UPDATE_TRANSCRIPTS=1` rewrites the files; review the diff.
//!
//! ```text
//! tree T P=REPLICAS ...      a topic with states as created, in the metastore before the term
//! state T-P L/E ISR          a partition's state in the metastore, written by somebody else
//! race T-P L/E ISR           the same, between the controller's next read of it and its write
//! request T                  a delete request in the metastore before the term
//! controller IDS             elected with these brokers live (@E after an id: another broker epoch than 100; states
//!                            were written at 150)
//! create T P=REPLICAS ...    grow T P=REPLICAS ...    delete T    unclean T
//! live IDS                   dirs-failed ID
//! registers ID@E             in the metastore, before the controller reads it
//! elect preferred|unclean T-P ...          reassign T-P=REPLICAS T-P=cancel ...
//! alter ID[@E] T-P=L/P:ISR ...     AlterPartition with leader and partition epochs; ISR as IDS, `!` at its end: recovering;
//!                            `?` for T: an id that no topic has
//! requested T-P=REPLICAS ... in /admin/reassign_partitions    balance PERCENTAGE    elect-offline
//! isr T-P ISR                the leader wrote its ISR itself
//! shutdown ID[@E]            ControlledShutdown
//! suspect ID[@E]             taken for dead in the life that this epoch names    answers ID[@E]    it lives after all
//! min-isr T N                `min.insync.replicas`, 1 for other topics
//! leads ID T-P=CODE ...      answer to LeaderAndIsr    deleted ID T-P=CODE ...    answer to StopReplica with delete
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use super::*;
use crate::cluster::PartitionMeta;
use crate::controller::fence::counts_on;
use crate::controller::message::{LeadershipUpdate, StopReplica};
use crate::metastore::schema::ReplicaAssignment;
use crate::types::LeaderEpoch;
use crate::wire::error_code::ErrorCode;

/// A controller over a tree that is a few maps.
struct World {
    state: State,
    topics: BTreeMap<String, TopicAssignment>,
    states: BTreeMap<TopicPartition, (PartitionState, i32)>,
    /// Written by somebody else after the next read.
    races: BTreeMap<TopicPartition, PartitionState>,
    requests: BTreeSet<String>,
    /// Brokers that registered and were not read yet.
    registered: BTreeMap<BrokerId, i64>,
    unclean: BTreeSet<Arc<str>>,
    /// `min.insync.replicas` where it is not 1.
    min_isr: BTreeMap<String, usize>,
    /// By the AlterPartition that is being answered.
    changed: Vec<TopicPartition>,
    out: String,
}

fn ids(text: &str) -> Vec<BrokerId> {
    text.split(',').filter(|id| !id.is_empty()).map(|id| BrokerId(id.parse().unwrap())).collect()
}

fn show(ids: &[BrokerId]) -> String {
    format!("[{}]", ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
}

fn brokers(text: &str) -> Vec<Broker> {
    let broker = |one: &str| {
        let (id, epoch) = one.split_once('@').unwrap_or((one, "100"));
        Broker {
            id: BrokerId(id.parse().unwrap()),
            rack: None,
            endpoints: BTreeMap::new(),
            epoch: epoch.parse().unwrap(),
        }
    };
    text.split(',').map(broker).collect()
}

fn partition(text: &str) -> TopicPartition {
    let (topic, index) = text.rsplit_once('-').unwrap();
    TopicPartition::new(topic, index.parse().unwrap())
}

fn assignments(words: &[&str]) -> BTreeMap<i32, ReplicaAssignment> {
    let one = |word: &&str| {
        let (index, replicas) = word.split_once('=').unwrap();
        (index.parse().unwrap(), ReplicaAssignment::from(ids(replicas)))
    };
    words.iter().map(one).collect()
}

fn answers(words: &[&str]) -> Vec<(TopicPartition, ErrorCode)> {
    let one = |word: &&str| {
        let (tp, name) = word.split_once('=').unwrap();
        let code = (-1..128).filter_map(ErrorCode::from_code).find(|code| code.name() == name).unwrap();
        (partition(tp), code)
    };
    words.iter().map(one).collect()
}

impl World {
    fn new() -> World {
        World {
            state: State::new(BrokerId(1), 1, true),
            topics: BTreeMap::new(),
            states: BTreeMap::new(),
            races: BTreeMap::new(),
            requests: BTreeSet::new(),
            registered: BTreeMap::new(),
            unclean: BTreeSet::new(),
            min_isr: BTreeMap::new(),
            changed: Vec::new(),
            out: String::new(),
        }
    }

    fn command(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["tree", topic, rest @ ..] => {
                let assignment = self.assignment(topic, rest);
                for (index, replicas) in &assignment.partitions {
                    let state = PartitionState {
                        leader: replicas.replicas[0],
                        leader_epoch: LeaderEpoch(0),
                        controller_epoch: 0,
                        isr: replicas.replicas.clone(),
                        recovering: false,
                    };
                    self.states.insert(TopicPartition::new(*topic, *index), (state, 0));
                }
            }
            ["state" | "race", tp, leader, isr] => {
                let (leader, epoch) = leader.split_once('/').unwrap();
                let state = PartitionState {
                    leader: BrokerId(leader.parse().unwrap()),
                    leader_epoch: LeaderEpoch(epoch.parse().unwrap()),
                    controller_epoch: 1,
                    isr: ids(isr),
                    recovering: false,
                };
                if words[0] == "race" {
                    self.races.insert(partition(tp), state);
                } else {
                    self.write(&partition(tp), state);
                }
            }
            ["request", topic] => {
                self.requests.insert((*topic).into());
            }
            ["controller", live] => {
                let loaded = |(name, assignment): (&String, &TopicAssignment)| LoadedTopic {
                    name: Arc::from(name.as_str()),
                    id: assignment.id.unwrap(),
                    assignment: assignment.clone(),
                    states: self
                        .states
                        .iter()
                        .filter(|(tp, _)| *tp.topic == **name)
                        .map(|(tp, (state, version))| {
                            let leadership = Leadership { state: state.clone(), partition_epoch: *version };
                            LoadedState { partition: tp.partition, leadership, mzxid: 150 }
                        })
                        .collect(),
                };
                let context = Context {
                    brokers: brokers(live),
                    topics: self.topics.iter().map(loaded).collect(),
                    delete_requests: self.requests.clone(),
                };
                self.run(Event::BecameController(Box::new(context)));
            }
            ["create", topic, rest @ ..] => {
                let assignment = self.assignment(topic, rest);
                let name: Arc<str> = Arc::from(*topic);
                let new = LoadedTopic { name, id: assignment.id.unwrap(), assignment, states: Vec::new() };
                self.run(Event::TopicsChanged { present: self.topics.keys().cloned().collect(), new: vec![new] });
            }
            ["grow", topic, rest @ ..] => {
                let assignment = self.assignment(topic, rest);
                self.run(Event::TopicChanged { name: Arc::from(*topic), assignment });
            }
            ["delete", topic] => {
                self.requests.insert((*topic).into());
                self.run(Event::DeleteRequestsChanged(self.requests.clone()));
            }
            ["unclean", topic] => {
                self.unclean.insert(Arc::from(*topic));
            }
            ["elect", kind, rest @ ..] => {
                let kind = if *kind == "unclean" { ElectionType::Unclean } else { ElectionType::Preferred };
                self.run(Event::ElectLeaders { partitions: rest.iter().map(|tp| partition(tp)).collect(), kind });
            }
            ["reassign", rest @ ..] => {
                let one = |word: &&str| {
                    let (tp, target) = word.split_once('=').unwrap();
                    (partition(tp), (target != "cancel").then(|| ids(target)))
                };
                self.run(Event::AlterReassignments(rest.iter().map(one).collect()));
            }
            ["alter", id, rest @ ..] => {
                let from = brokers(id).remove(0);
                let change = |word: &&str| {
                    let (tp, wanted) = word.split_once('=').unwrap();
                    let (epochs, isr) = wanted.split_once(':').unwrap();
                    let (leader_epoch, partition_epoch) = epochs.split_once('/').unwrap();
                    let tp = partition(tp);
                    let topic = match (&*tp.topic, self.topics.get(&*tp.topic)) {
                        ("?", _) => TopicKey::Id(TopicId(uuid::Uuid::from_u128(99))),
                        (_, Some(known)) => TopicKey::Id(known.id.unwrap()),
                        (_, None) => TopicKey::Name(tp.topic),
                    };
                    let member = |one: &str| {
                        let (id, epoch) = one.split_once('@').unwrap_or((one, "-1"));
                        IsrMember { broker: ids(id)[0], broker_epoch: epoch.parse().unwrap() }
                    };
                    let members = isr.trim_end_matches('!').split(',').filter(|one| !one.is_empty());
                    IsrChange {
                        topic,
                        partition: tp.partition,
                        leader_epoch: LeaderEpoch(leader_epoch.parse().unwrap()),
                        partition_epoch: partition_epoch.parse().unwrap(),
                        isr: members.map(member).collect(),
                        recovering: isr.ends_with('!'),
                    }
                };
                let partitions = rest.iter().map(change).collect();
                self.run(Event::AlterPartition(AlterPartition {
                    broker: from.id,
                    broker_epoch: from.epoch,
                    partitions,
                }));
                let changed = std::mem::take(&mut self.changed);
                self.run(Event::IsrAnswered(changed));
            }
            ["shutdown", id] => {
                let from = brokers(id).remove(0);
                self.run(Event::ControlledShutdown { broker: from.id, broker_epoch: Some(from.epoch) });
            }
            ["requested", rest @ ..] => {
                let one = |word: &&str| {
                    let (tp, target) = word.split_once('=').unwrap();
                    (partition(tp), ids(target))
                };
                self.run(Event::ReassignRequested(rest.iter().map(one).collect()));
            }
            ["balance", percentage] => self.run(Event::BalanceDue { percentage: percentage.parse().unwrap() }),
            ["elect-offline"] => self.run(Event::ElectOffline),
            ["isr", tp, isr] => {
                let tp = partition(tp);
                let (now, _) = self.states[&tp].clone();
                self.write(&tp, PartitionState { isr: ids(isr), ..now });
                let (state, partition_epoch) = self.states[&tp].clone();
                self.run(Event::IsrChanged(vec![(tp, Leadership { state, partition_epoch })]));
            }
            ["live", live] => self.run(Event::BrokersChanged(brokers(live))),
            ["suspect" | "answers", broker] => {
                let broker = brokers(broker).remove(0);
                let who = Incarnation { id: broker.id, czxid: broker.epoch };
                self.run(match words[0] {
                    "suspect" => Event::BrokerSuspected(who),
                    _ => Event::SuspectAnswered(who),
                });
            }
            ["min-isr", topic, min_isr] => drop(self.min_isr.insert((*topic).into(), min_isr.parse().unwrap())),
            ["registers", broker] => {
                self.registered.extend(brokers(broker).into_iter().map(|broker| (broker.id, broker.epoch)));
            }
            ["dirs-failed", id] => self.run(Event::LogDirsFailed(ids(id).into_iter().collect())),
            ["leads", id, rest @ ..] => {
                let answer = ControlAnswer { error: ErrorCode::None, partitions: answers(rest) };
                let request = ControlBody::LeaderAndIsr(LeadershipUpdate::default());
                self.run(Event::Answered { from: ids(id)[0], request, answer });
            }
            ["deleted", id, rest @ ..] => {
                let partitions = answers(rest);
                let stop =
                    |tp: &TopicPartition| StopReplica { tp: tp.clone(), leader_epoch: LeaderEpoch(-2), delete: true };
                let request = ControlBody::StopReplica(partitions.iter().map(|(tp, _)| stop(tp)).collect());
                let answer = ControlAnswer { error: ErrorCode::None, partitions };
                self.run(Event::Answered { from: ids(id)[0], request, answer });
            }
            _ => panic!("no such command: {line}"),
        }
    }

    fn write(&mut self, tp: &TopicPartition, state: PartitionState) {
        let (now, version) = self.states.get_mut(tp).unwrap();
        *now = state;
        *version += 1;
    }

    fn assignment(&mut self, topic: &str, words: &[&str]) -> TopicAssignment {
        let number = self.topics.len() as u128 + 2;
        let known = self.topics.entry(topic.into()).or_insert_with(|| TopicAssignment {
            id: Some(TopicId(uuid::Uuid::from_u128(number))),
            partitions: BTreeMap::new(),
        });
        known.partitions.extend(assignments(words));
        known.clone()
    }

    /// The driver, without a store.
    fn run(&mut self, event: Event) {
        let mut effects = decide(&mut self.state, event);
        effects.reverse();
        while let Some(effect) = effects.pop() {
            if let Some(event) = self.perform(effect) {
                effects.extend(decide(&mut self.state, event).into_iter().rev());
            }
        }
    }

    fn perform(&mut self, effect: Effect) -> Option<Event> {
        let mut out = String::new();
        let answer = match effect {
            Effect::Send { to, request } => {
                writeln!(out, "{to} <- {}", body(&request.body)).unwrap();
                None
            }
            Effect::CreateStates(states) => {
                let mut created = Vec::new();
                for (tp, state) in states {
                    writeln!(out, "create {tp} {}", leadership(&state)).unwrap();
                    let outcome = match self.states.contains_key(&tp) {
                        true => Written::Failed,
                        false => Written::Done { version: 0 },
                    };
                    self.states.entry(tp.clone()).or_insert((state, 0));
                    created.push((tp, outcome));
                }
                Some(Event::StatesCreated(created))
            }
            Effect::ReadStates { partitions, then } => {
                let read = |tp: TopicPartition| {
                    let found = self
                        .states
                        .get(&tp)
                        .map(|(state, version)| Leadership { state: state.clone(), partition_epoch: *version });
                    (tp, found)
                };
                let states: Vec<_> = partitions.into_iter().map(read).collect();
                for (tp, _) in &states {
                    if let Some(state) = self.races.remove(tp) {
                        self.write(tp, state);
                    }
                }
                Some(Event::StatesRead { states, then })
            }
            Effect::ReadMinIsr { suspect, states } => {
                let min_isr = |(tp, _): &(TopicPartition, Leadership)| {
                    (Arc::clone(&tp.topic), self.min_isr.get(&*tp.topic).copied().unwrap_or(1))
                };
                let min_isr = states.iter().map(min_isr).collect();
                Some(Event::MinIsrRead { suspect, states, min_isr })
            }
            Effect::ReadUnclean(states) => Some(Event::UncleanRead { states, allowed: self.unclean.clone() }),
            Effect::WriteStates { writes, then } => {
                let mut written = Vec::new();
                let known = |id: &BrokerId| self.state.registration(*id).map(|broker| broker.epoch);
                let unseen = self.registered.iter().filter(|(id, epoch)| known(id) != Some(**epoch));
                let unseen = unseen.map(|(id, _)| *id).collect();
                for (tp, state, version) in writes {
                    let outcome = match self.states.get_mut(&tp) {
                        Some(_) if counts_on(&state, &then, &unseen, &self.state) => {
                            writeln!(out, "unseen {tp}").unwrap();
                            Written::Unseen
                        }
                        Some((now, at)) if *at == version => {
                            *at += 1;
                            *now = state.clone();
                            writeln!(out, "write {tp} {}", leadership(&state)).unwrap();
                            Written::Done { version: *at }
                        }
                        Some(_) => {
                            writeln!(out, "conflict {tp}").unwrap();
                            Written::Conflict
                        }
                        None => Written::Failed,
                    };
                    written.push((tp, state, outcome));
                }
                Some(Event::StatesWritten { written, then })
            }
            Effect::WriteTopic { name, assignment } => {
                let partition = |(index, of): (&i32, &ReplicaAssignment)| {
                    let change = |what, ids: &[BrokerId]| match ids {
                        [] => String::new(),
                        ids => format!(" {what} {}", show(ids)),
                    };
                    let (adding, removing) = (change("adding", &of.adding), change("removing", &of.removing));
                    format!(" {index}={}{adding}{removing}", show(&of.replicas))
                };
                let partitions: String = assignment.partitions.iter().map(partition).collect();
                writeln!(out, "topic {name}{partitions}").unwrap();
                self.topics.insert(name.to_string(), assignment);
                None
            }
            Effect::DeleteTopic(name) => {
                writeln!(out, "delete {name} and its request").unwrap();
                self.topics.remove(&*name);
                self.requests.remove(&*name);
                self.states.retain(|tp, _| tp.topic != name);
                Some(Event::TopicDeleted { name, deleted: true })
            }
            Effect::RemoveDeleteRequests(names) => {
                writeln!(out, "remove requests {}", names.join(",")).unwrap();
                self.requests.retain(|name| !names.contains(name));
                None
            }
            Effect::RemoveReassignRequests(over) => {
                let over: String = over.iter().map(|tp| format!(" {tp}")).collect();
                writeln!(out, "no longer requested:{over}").unwrap();
                None
            }
            Effect::Elected(tp, outcome) => {
                let outcome = outcome.map_or_else(|code| code.name().to_owned(), |leader| format!("leader {leader}"));
                writeln!(out, "elected {tp} {outcome}").unwrap();
                None
            }
            Effect::Reassigned(tp, outcome) => {
                writeln!(out, "reassigned {tp} {}", outcome.map_or_else(|(code, _)| code.name(), |()| "NONE")).unwrap();
                None
            }
            Effect::IsrChanged { at, outcome } => {
                match outcome {
                    Ok((tp, Leadership { state, partition_epoch })) => {
                        writeln!(out, "{at}: {} version {partition_epoch}", leadership(&state)).unwrap();
                        self.changed.push(tp);
                    }
                    Err(code) => writeln!(out, "{at}: {}", code.name()).unwrap(),
                }
                None
            }
            Effect::StillLed(partitions) => {
                let led: String = partitions.iter().map(|tp| format!(" {tp}")).collect();
                writeln!(out, "still led:{led}").unwrap();
                None
            }
            Effect::Refused(code) => {
                writeln!(out, "refused: {}", code.name()).unwrap();
                None
            }
            Effect::Decide(event) => Some(event),
        };
        self.out.push_str(&out);
        answer
    }
}

fn leadership(state: &PartitionState) -> String {
    let recovering = if state.recovering { " recovering" } else { "" };
    format!("leader {} epoch {} isr {}{recovering}", state.leader, state.leader_epoch, show(&state.isr))
}

fn body(body: &ControlBody) -> String {
    match body {
        ControlBody::LeaderAndIsr(update) => {
            let one = |change: &crate::replication::table::LeaderAndIsr| {
                let new = if change.is_new { " new" } else { "" };
                format!("{} {}/{} {}{new}", change.tp, change.leader, change.leader_epoch, show(&change.isr))
            };
            format!("LeaderAndIsr {}", update.partitions.iter().map(one).collect::<Vec<_>>().join("; "))
        }
        ControlBody::UpdateMetadata(update) => {
            let live: Vec<BrokerId> = update.brokers.iter().map(|broker| broker.id).collect();
            let one = |tp: &TopicPartition, meta: &PartitionMeta| {
                let offline = match meta.offline_replicas.is_empty() {
                    true => String::new(),
                    false => format!(" offline {}", show(&meta.offline_replicas)),
                };
                format!("; {tp} {}/{} {}{offline}", meta.leader, meta.leader_epoch, show(&meta.isr))
            };
            let partitions: String = update.partitions.iter().map(|one_of| one(&one_of.tp, &one_of.meta)).collect();
            format!("UpdateMetadata {}{partitions}", show(&live))
        }
        ControlBody::StopReplica(stops) => {
            let one = |stop: &StopReplica| {
                let delete = if stop.delete { " delete" } else { "" };
                format!("{} /{}{delete}", stop.tp, stop.leader_epoch)
            };
            format!("StopReplica {}", stops.iter().map(one).collect::<Vec<_>>().join("; "))
        }
    }
}

/// Runs a file; what it printed is put where the expectation stood.
fn play(text: &str) -> String {
    let mut world = World::new();
    let mut played = String::new();
    let mut expected = false;
    for line in text.lines() {
        match line {
            "----" => {
                expected = true;
                played.push_str("----\n");
                played.push_str(&std::mem::take(&mut world.out));
            }
            "" => {
                expected = false;
                played.push('\n');
            }
            _ if expected => {}
            line => {
                writeln!(played, "{line}").unwrap();
                if !line.starts_with('#') {
                    world.command(line);
                }
            }
        }
    }
    played
}

#[test]
fn transcripts() {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/controller/testdata");
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 5);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let played = play(&text);
        if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
            std::fs::write(&file, played).unwrap();
        } else {
            pretty(&file.display().to_string(), &text, &played);
        }
    }
}

fn pretty(file: &str, expected: &str, played: &str) {
    for (number, (want, got)) in expected.lines().zip(played.lines()).enumerate() {
        assert_eq!(got, want, "{file}:{}", number + 1);
    }
    assert_eq!(played.lines().count(), expected.lines().count(), "{file}");
}
