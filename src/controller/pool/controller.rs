//! A controller of the pool: the real core, over the model of the metastore. Its driver stops between any two effects, and
//! it may be replaced there without knowing it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::store::Store;
use super::{AlterMessage, Message, Off, Rule, TOPIC, partition};
use crate::cluster::Broker;
use crate::controller::decide::{
    AfterRead, AlterPartition, Context, Effect, Event, IsrChange, IsrMember, LoadedState, LoadedTopic, TopicKey,
    Written, decide,
};
use crate::controller::election::Choice;
use crate::controller::fence::counts_on;
use crate::controller::message::{ControlAnswer, ControlBody, ControlRequest};
use crate::controller::state::{Leadership, State};
use crate::metastore::schema::{PartitionState, ReplicaAssignment, TopicAssignment};
use crate::replication::isr::Confirmed;
use crate::types::{BrokerId, LeaderEpoch, TopicId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// What it wakes up for.
#[derive(Clone, Debug)]
enum Input {
    Load,
    Look,
    Alter(AlterMessage),
    Event(Box<Event>),
    HandOver { partition: i32, leader: BrokerId },
}

/// The AlterPartition it works on.
#[derive(Debug)]
struct Asked {
    message: AlterMessage,
    outcomes: BTreeMap<usize, Result<Leadership, ErrorCode>>,
    refused: Option<ErrorCode>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Done {
    pub messages: Vec<Message>,
    pub isr_changes: u64,
    /// Who is in an ISR from now on, and in which life.
    pub joined: Vec<(i32, IsrMember)>,
}

#[derive(Debug)]
pub struct Controller {
    pub state: State,
    assignments: Vec<Vec<BrokerId>>,
    inbox: VecDeque<Input>,
    /// The next one is the last.
    effects: Vec<Effect>,
    asked: Option<Asked>,
    /// Not yet taken by each broker, in one life of it. Order is kept, and a request is repeated until it is answered.
    pub channels: BTreeMap<(BrokerId, i64), VecDeque<ControlRequest>>,
    /// A write told it that another one was elected: it does nothing any more.
    has_resigned: bool,
}

impl Controller {
    /// The one of the first epoch, or of the epoch `store` has.
    pub fn new(store: &Store, assignments: &[Vec<BrokerId>]) -> Controller {
        Controller {
            // None of those that may be suspected.
            state: State::new(BrokerId(0), store.controller_epoch, true),
            assignments: assignments.to_vec(),
            inbox: [Input::Load].into_iter().collect(),
            effects: Vec::new(),
            asked: None,
            channels: BTreeMap::new(),
            has_resigned: false,
        }
    }

    pub fn elect(store: &mut Store, assignments: &[Vec<BrokerId>]) -> Controller {
        store.controller_epoch += 1;
        Controller::new(store, assignments)
    }

    /// Nothing is half done, and there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.effects.is_empty() && self.inbox.is_empty() && self.asked.is_none()
    }

    /// Whether it counts on the replica, in the life it knows.
    pub fn counts_on(&self, broker: BrokerId, of: i32) -> Option<i64> {
        let known = self.state.live.get(&broker).filter(|_| self.state.is_online(broker, &partition(of)));
        known.map(|known| known.epoch)
    }

    /// A watch says that brokers may have come or gone.
    pub fn look(&mut self) {
        self.inbox.push_back(Input::Look);
    }

    pub fn alter(&mut self, message: AlterMessage) {
        self.inbox.push_back(Input::Alter(message));
    }

    pub fn event(&mut self, event: Event) {
        self.inbox.push_back(Input::Event(Box::new(event)));
    }

    /// A suspect is taken for dead as if its session were over.
    pub fn bury(&mut self, suspect: BrokerId, store: &Store) {
        let left = registered(store).into_iter().filter(|broker| broker.id != suspect).collect();
        self.event(Event::BrokersChanged(left));
    }

    pub fn answered(&mut self, from: BrokerId, epoch: i32, request: ControlBody, answer: ControlAnswer) {
        if epoch == self.state.epoch {
            self.inbox.push_back(Input::Event(Box::new(Event::Answered { from, request, answer })));
        }
    }

    /// Leadership goes to `leader`, the ISR stays, and whoever leads gives way.
    pub fn hand_over(&mut self, partition: i32, leader: BrokerId) {
        self.inbox.push_back(Input::HandOver { partition, leader });
    }

    /// Up to `budget` effects.
    pub fn work(&mut self, store: &mut Store, budget: usize, off: Off) -> Done {
        let mut done = Done::default();
        for _ in 0..budget {
            if self.has_resigned {
                break;
            }
            let next = match self.effects.pop() {
                Some(effect) => self.perform(effect, store, off, &mut done),
                None => {
                    self.answer(&mut done);
                    let Some(input) = self.inbox.pop_front() else { break };
                    self.begin(input, store, off)
                }
            };
            if let Some(event) = next {
                let effects = decide(&mut self.state, event);
                self.effects.extend(effects.into_iter().rev());
            }
        }
        let live = &self.state.live;
        self.channels.retain(|(id, epoch), _| live.get(id).is_some_and(|broker| broker.epoch == *epoch));
        done
    }

    fn begin(&mut self, input: Input, store: &Store, off: Off) -> Option<Event> {
        match input {
            Input::Load => Some(Event::BecameController(Box::new(self.load(store, off)))),
            Input::Look => Some(Event::BrokersChanged(registered(store))),
            Input::Event(event) => Some(*event),
            Input::Alter(message) => {
                let partitions = message.changes.iter().map(|(of, proposal, members)| IsrChange {
                    topic: TopicKey::Name(TOPIC.into()),
                    partition: *of,
                    leader_epoch: proposal.leader_epoch,
                    partition_epoch: proposal.partition_epoch,
                    isr: members
                        .iter()
                        .map(|member| match off.has(Rule::B5) {
                            true => IsrMember { broker_epoch: -1, ..*member },
                            false => *member,
                        })
                        .collect(),
                    recovering: false,
                });
                let (broker, broker_epoch) = (message.from, message.broker_epoch);
                let request = AlterPartition { broker, broker_epoch, partitions: partitions.collect() };
                self.asked = Some(Asked { message, outcomes: BTreeMap::new(), refused: None });
                Some(Event::AlterPartition(request))
            }
            Input::HandOver { partition: of, leader } => {
                let tp = partition(of);
                let known = self.state.partition(&tp)?.leadership.clone()?;
                if !known.state.isr.contains(&leader) || !self.state.is_online(leader, &tp) {
                    return None;
                }
                let leader_epoch = LeaderEpoch(known.state.leader_epoch.0 + 1);
                let next = PartitionState { leader, leader_epoch, controller_epoch: self.state.epoch, ..known.state };
                let writes = vec![(tp, next, known.partition_epoch)];
                self.effects.push(Effect::Decide(Event::SendBatch));
                self.effects.push(Effect::WriteStates { writes, then: AfterRead::Elect(Choice::Preferred, None) });
                None
            }
        }
    }

    fn load(&self, store: &Store, off: Off) -> Context {
        let of = |replicas: &Vec<BrokerId>| ReplicaAssignment { replicas: replicas.clone(), ..Default::default() };
        let partitions = (0..).zip(self.assignments.iter().map(of)).collect();
        let states = (0..).zip(&store.states).map(|(partition, stored)| LoadedState {
            partition,
            leadership: Leadership { state: stored.state.clone(), partition_epoch: stored.version },
            mzxid: if off.has(Rule::F8) { i64::MAX } else { stored.mzxid },
        });
        let id = TopicId(uuid::Uuid::from_u128(77));
        let assignment = TopicAssignment { id: Some(id), partitions };
        let topic = LoadedTopic { name: TOPIC.into(), id, assignment, states: states.collect() };
        Context { brokers: registered(store), topics: vec![topic], delete_requests: BTreeSet::new() }
    }

    fn perform(&mut self, effect: Effect, store: &mut Store, off: Off, done: &mut Done) -> Option<Event> {
        match effect {
            Effect::Decide(event) => Some(event),
            Effect::Send { to, request } => {
                let known = self.state.live.get(&to)?.epoch;
                self.channels.entry((to, known)).or_default().push_back(request);
                None
            }
            Effect::ReadStates { partitions, then } => {
                let read = |tp: TopicPartition| {
                    let stored = store.at(tp.partition);
                    let mut state = stored.state.clone();
                    if off.has(Rule::B10) {
                        state.controller_epoch = state.controller_epoch.min(self.state.epoch);
                    }
                    (tp, Some(Leadership { state, partition_epoch: stored.version }))
                };
                Some(Event::StatesRead { states: partitions.into_iter().map(read).collect(), then })
            }
            Effect::ReadMinIsr { suspect, states } => {
                // Another one in each term.
                let min_isr = match off.has(Rule::MinIsr) {
                    true => 0,
                    false => usize::try_from(1 + self.state.epoch % 2).unwrap_or(1),
                };
                Some(Event::MinIsrRead { suspect, states, min_isr: [(TOPIC.into(), min_isr)].into() })
            }
            Effect::ReadUnclean(states) => {
                let allowed = off.has(Rule::F3).then(|| TOPIC.into()).into_iter().collect();
                Some(Event::UncleanRead { states, allowed })
            }
            Effect::WriteStates { writes, then } => {
                if store.controller_epoch != self.state.epoch && !off.has(Rule::B10) {
                    self.has_resigned = true;
                    return None;
                }
                let is_asked = matches!(then, AfterRead::ChangeIsr(_));
                let mut written = Vec::new();
                for (tp, state, version) in writes {
                    let outcome = self.write(store, &tp, &state, version, &then, off);
                    if is_asked && matches!(outcome, Written::Done { .. }) {
                        done.isr_changes += 1;
                        done.joined.extend(self.joined(tp.partition));
                    }
                    written.push((tp, state, outcome));
                }
                Some(Event::StatesWritten { written, then })
            }
            Effect::IsrChanged { at, outcome } => {
                if let Some(asked) = &mut self.asked {
                    asked.outcomes.insert(at, outcome.map(|(_, leadership)| leadership));
                }
                None
            }
            Effect::Refused(code) => {
                if let Some(asked) = &mut self.asked {
                    asked.refused = Some(code);
                }
                None
            }
            effect => panic!("nobody asked for {effect:?}"),
        }
    }

    /// One compare-and-set.
    fn write(
        &self,
        store: &mut Store,
        tp: &TopicPartition,
        state: &PartitionState,
        version: i32,
        then: &AfterRead,
        off: Off,
    ) -> Written {
        let stored = store.at(tp.partition);
        if stored.version != version && !off.has(Rule::B10) {
            return Written::Conflict;
        }
        let known = |id: &BrokerId| self.state.registration(*id).map(|broker| broker.epoch);
        let unseen = store.registrations.iter().filter(|(id, epoch)| known(id) != Some(**epoch));
        let unseen = unseen.map(|(id, _)| *id).collect();
        if counts_on(state, then, &unseen, &self.state) && !off.has(Rule::Lives) {
            return Written::Unseen;
        }
        Written::Done { version: store.set(tp.partition, state.clone()) }
    }

    /// Members that the leader asked for.
    fn joined(&self, partition: i32) -> Vec<(i32, IsrMember)> {
        let changes = self.asked.iter().flat_map(|asked| &asked.message.changes);
        let members = changes.filter(|(of, ..)| *of == partition).flat_map(|(.., members)| members);
        members.map(|member| (partition, *member)).collect()
    }

    /// Tells who asked what came of it, when all that follows from it is done.
    fn answer(&mut self, done: &mut Done) {
        let Some(Asked { message, outcomes, refused }) = self.asked.take() else { return };
        let answers = message.changes.iter().enumerate().map(|(at, (of, proposal, _))| {
            let outcome = match refused {
                Some(code) => Err(code),
                None => outcomes.get(&at).cloned().unwrap_or(Err(ErrorCode::UnknownServerError)),
            };
            let confirmed = outcome.map(|leadership| Confirmed {
                leader_epoch: leadership.state.leader_epoch,
                partition_epoch: leadership.partition_epoch,
                isr: leadership.state.isr,
            });
            (*of, proposal.clone(), confirmed)
        });
        done.messages.push(Message::Altered { to: message.from, life: message.life, answers: answers.collect() });
        let changed = outcomes.len();
        if changed > 0 {
            let partitions = message.changes.iter().map(|(of, ..)| partition(*of)).collect();
            self.inbox.push_front(Input::Event(Box::new(Event::IsrAnswered(partitions))));
        }
    }

    /// Writes what was asked for as if nobody else could have written.
    pub fn overwrite(&mut self, store: &mut Store, message: &AlterMessage, done: &mut Done) {
        let mut answers = Vec::new();
        for (of, proposal, members) in &message.changes {
            let state = PartitionState { isr: proposal.isr.clone(), ..store.at(*of).state.clone() };
            let leader_epoch = state.leader_epoch;
            let partition_epoch = store.set(*of, state.clone());
            if let Some(known) = self.state.partition_mut(&partition(*of)) {
                known.leadership = Some(Leadership { state, partition_epoch });
            }
            done.joined.extend(members.iter().map(|member| (*of, *member)));
            let isr = proposal.isr.clone();
            answers.push((*of, proposal.clone(), Ok(Confirmed { leader_epoch, partition_epoch, isr })));
        }
        done.isr_changes += 1;
        done.messages.push(Message::Altered { to: message.from, life: message.life, answers });
    }
}

fn registered(store: &Store) -> Vec<Broker> {
    let broker = |(id, epoch): (&BrokerId, &i64)| Broker {
        id: *id,
        rack: None::<Arc<str>>,
        endpoints: BTreeMap::new(),
        epoch: *epoch,
    };
    store.registrations.iter().map(broker).collect()
}
