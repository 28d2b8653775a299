//! Carries the controller out: watches znodes, stands for election, feeds [`decide`] and does what it says.
//!
//! ```text
//! watches, answers, session ──► one event at a time ──► decide ──► effects: fenced writes, channels
//!                                       ▲                             │
//!                                       └──── answer of a write ──────┘
//! ```
//! One task on the control thread. A watch says only that something may have changed: everything is set, then read,
//! and compared with what is known. It does no file I/O. Procedures: Kafka's `KafkaController`; the order of an election
//! and of what follows it was seen on the wire of a live 3.9.1.

mod doubts;
mod office;
mod questions;
mod tree;
mod watches;

pub(super) use self::office::controller_epoch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

pub use self::doubts::FastFailover;

use self::doubts::Doubts;
use self::questions::Answer;
use self::watches::{Watched, Watches};
use super::ask::Asked;
use super::channel::{Answered, Channel, Peers};
use super::decide::{Effect, Event, decide};
use super::fence::{Fence, IN_FLIGHT, Lost};
use super::receiver::ControlReceiver;
use super::state::State;
use crate::clock::Clock;
use crate::cluster::suspicion::Evidence;
use crate::cluster::{DynamicConfigs, Registrar, Session, read_overrides};
use crate::config::{BrokerConfig, TopicConfig};
use crate::metastore::SessionState;
use crate::metastore::schema::{ConfigEntity, paths};
use crate::random::Random;
use crate::spawn::Spawner;
use crate::types::BrokerId;

/// What the driver works with.
pub struct Parts {
    pub broker: BrokerId,
    pub session: Arc<Session>,
    pub registrar: Registrar,
    pub receiver: Arc<ControlReceiver>,
    pub peers: Box<dyn Peers>,
    /// With `configs`: what `unclean.leader.election.enable` is for topics that do not set it.
    pub config: Arc<BrokerConfig>,
    pub configs: Arc<DynamicConfigs>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub spawner: Arc<dyn Spawner>,
    /// `None`: who is gone is known by its session alone.
    pub failover: Option<FastFailover>,
}

/// What others may know of it at any time.
pub(super) struct Tells {
    /// This broker is the active controller.
    pub active: Arc<AtomicBool>,
    /// Brokers that were taken for dead.
    pub suspicions: Arc<AtomicU64>,
}

/// One term as active controller.
struct Term {
    state: State,
    fence: Fence,
    channels: BTreeMap<BrokerId, Channel>,
    answer: Answer,
    /// When to look at the balance of leaders next; `None` = never.
    balance_at: Option<Instant>,
}

/// The task behind [`start`](super::start).
pub(super) struct Driver {
    parts: Parts,
    tells: Tells,
    watches: Watches,
    answers: (mpsc::UnboundedSender<Answered>, mpsc::UnboundedReceiver<Answered>),
    asked: mpsc::Receiver<Asked>,
    unclean_allowed: Arc<Notify>,
    doubts: Option<Doubts>,
    term: Option<Term>,
}

/// What the loop woke up for.
enum Input {
    Watch(Watched),
    Answered(Answered),
    Asked(Asked),
    UncleanAllowed,
    BalanceDue,
    SessionChanged,
    Seen(Evidence),
    Stop,
}

impl Driver {
    /// `unclean_allowed` is told when `unclean.leader.election.enable` is set somewhere.
    pub fn new(mut parts: Parts, tells: Tells, asked: mpsc::Receiver<Asked>, unclean_allowed: Arc<Notify>) -> Driver {
        let answers = mpsc::unbounded_channel();
        let doubts = parts.failover.take().map(|failover| Doubts::new(failover, &parts));
        Driver { parts, tells, watches: Watches::default(), answers, asked, unclean_allowed, doubts, term: None }
    }

    /// Learns who is registered. A connection is evidence only once it is known whose it is: they come with the first request
    /// that this broker serves.
    pub async fn meet(&mut self) {
        // What failed fails again when it stands for election, and is seen to there.
        let _ = self.look_at_brokers().await;
    }

    /// Until `stop` is set (or dropped). The session's close then frees `/controller`.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut session = self.parts.session.store().session_states();
        let mut outcome = self.stand().await;
        loop {
            if let Err(lost) = outcome {
                self.lost(lost).await;
                session = self.parts.session.store().session_states();
                outcome = self.stand().await;
                continue;
            }
            let balance_at = self.term.as_ref().and_then(|term| term.balance_at);
            let input = tokio::select! {
                biased;
                // What is rare first, so that it waits for no stream of the others.
                _ = stop.wait_for(|stop| *stop) => Input::Stop,
                Ok(()) = session.changed() => Input::SessionChanged,
                () = sleep_until(balance_at) => Input::BalanceDue,
                () = self.unclean_allowed.notified() => Input::UncleanAllowed,
                evidence = Doubts::next(self.doubts.as_mut(), &*self.parts.clock) => Input::Seen(evidence),
                watched = self.watches.fired() => Input::Watch(watched),
                Some(answered) = self.answers.1.recv() => Input::Answered(answered),
                Some(asked) = self.asked.recv() => Input::Asked(asked),
            };
            outcome = match input {
                Input::Watch(watched) => self.watched(watched).await,
                Input::Answered(answered) => self.answered(answered).await,
                Input::Asked(asked) => self.answer(asked).await,
                Input::UncleanAllowed => self.process(Event::ElectOffline).await,
                Input::BalanceDue => self.balance().await,
                Input::Seen(evidence) => self.saw(evidence).await,
                Input::SessionChanged if *session.borrow_and_update() == SessionState::Expired => Err(Lost::Expired),
                Input::SessionChanged => Ok(()),
                Input::Stop => {
                    self.resign();
                    return;
                }
            };
        }
    }

    async fn balance(&mut self) -> Result<(), Lost> {
        let config = self.parts.config.clone();
        let interval = u64::try_from(config.leader_imbalance_check_interval_seconds).unwrap_or(u64::MAX);
        self.schedule_balance(Duration::from_secs(interval));
        self.process(Event::BalanceDue { percentage: config.leader_imbalance_per_broker_percentage }).await
    }

    fn schedule_balance(&mut self, after: Duration) {
        if let Some(term) = self.term.as_mut().filter(|_| self.parts.config.auto_leader_rebalance_enable) {
            term.balance_at = Instant::now().checked_add(after);
        }
    }

    async fn answered(&mut self, answered: Answered) -> Result<(), Lost> {
        if self.term.as_ref().is_none_or(|term| term.state.epoch != answered.epoch) {
            return Ok(());
        }
        let Answered { from, request, answer, .. } = answered;
        self.process(Event::Answered { from, request, answer }).await
    }

    /// One event and all that follows from it.
    async fn process(&mut self, event: Event) -> Result<(), Lost> {
        let Some(term) = &mut self.term else { return Ok(()) };
        let mut effects = decide(&mut term.state, event);
        effects.reverse();
        while let Some(effect) = effects.pop() {
            if let Some(event) = perform(&self.parts, term, &self.answers.0, effect).await? {
                let next = decide(&mut term.state, event);
                effects.extend(next.into_iter().rev());
            }
        }
        let live = &term.state.live;
        term.channels.retain(|id, channel| live.get(id).is_some_and(|broker| broker.epoch == channel.broker_epoch));
        Ok(())
    }
}

/// Pending for ever without a time.
async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Carries one effect out. The answer, if it has one, is an event.
async fn perform(
    parts: &Parts,
    term: &mut Term,
    answers: &mpsc::UnboundedSender<Answered>,
    effect: Effect,
) -> Result<Option<Event>, Lost> {
    Ok(match effect {
        Effect::Send { to, request } => {
            let Some(broker) = term.state.live.get(&to) else { return Ok(None) };
            let open = term.channels.get(&to).is_some_and(|channel| channel.broker_epoch == broker.epoch);
            if !open {
                let Some(peer) = parts.peers.peer(broker) else {
                    tracing::error!(broker = %to, "no way to reach it");
                    return Ok(None);
                };
                let channel = Channel::open(broker, peer, answers.clone(), &*parts.spawner);
                term.channels.insert(to, channel);
            }
            if let Some(channel) = term.channels.get(&to) {
                channel.send(request);
            }
            None
        }
        Effect::CreateStates(states) => Some(Event::StatesCreated(term.fence.create_states(&states).await?)),
        Effect::ReadStates { partitions, then } => {
            Some(Event::StatesRead { states: term.fence.read_states(partitions).await?, then })
        }
        Effect::ReadUnclean(states) => {
            let topics = states.iter().map(|(tp, _)| Arc::clone(&tp.topic)).collect();
            let configs = topic_configs(parts, &term.fence, topics).await?;
            let allowed = configs.into_iter().filter(|(_, config)| config.unclean_leader_election_enable);
            Some(Event::UncleanRead { states, allowed: allowed.map(|(topic, _)| topic).collect() })
        }
        Effect::ReadMinIsr { suspect, states } => {
            let topics = states.iter().map(|(tp, _)| Arc::clone(&tp.topic)).collect();
            let config = topic_configs(parts, &term.fence, topics).await?;
            let min_isr = |(topic, config): (Arc<str>, TopicConfig)| {
                (topic, usize::try_from(config.min_insync_replicas).unwrap_or(0))
            };
            Some(Event::MinIsrRead { suspect, states, min_isr: config.into_iter().map(min_isr).collect() })
        }
        Effect::WriteStates { writes, then } => Some(term.fence.write_states(writes, then, &term.state).await?),
        Effect::WriteTopic { name, assignment } => {
            term.fence.write_topic(&name, &assignment).await?;
            None
        }
        Effect::DeleteTopic(name) => {
            let deleted = term.fence.delete_topic(&name).await?;
            Some(Event::TopicDeleted { name, deleted })
        }
        Effect::RemoveDeleteRequests(names) => {
            for name in names {
                term.fence.delete(paths::delete_topic(&name)).await?;
            }
            None
        }
        Effect::RemoveReassignRequests(over) => {
            term.fence.remove_reassign_requests(&over).await?;
            None
        }
        Effect::Elected(tp, outcome) => {
            term.answer.elected.push((tp, outcome));
            None
        }
        Effect::Reassigned(tp, outcome) => {
            term.answer.reassigned.push((tp, outcome));
            None
        }
        Effect::IsrChanged { at, outcome } => {
            term.answer.isrs.insert(at, outcome);
            None
        }
        Effect::StillLed(partitions) => {
            term.answer.still_led = partitions;
            None
        }
        Effect::Refused(code) => {
            term.answer.refused = Some(code);
            None
        }
        Effect::Decide(event) => Some(event),
    })
}

/// Each as the metastore has it now.
async fn topic_configs(
    parts: &Parts,
    fence: &Fence,
    topics: BTreeSet<Arc<str>>,
) -> Result<Vec<(Arc<str>, TopicConfig)>, Lost> {
    let defaults = &parts.configs.load().topic_defaults(&parts.config, parts.broker);
    let read = |topic: Arc<str>| async move {
        let entity = ConfigEntity::Topic(topic.to_string());
        let overrides = read_overrides(&*fence.store, &entity).await?;
        let (config, _) = TopicConfig::resolve_stored(defaults, &overrides);
        Ok::<_, Lost>((topic, config))
    };
    let reads: Vec<_> = topics.into_iter().map(read).collect();
    stream::iter(reads).buffered(IN_FLIGHT).collect::<Vec<_>>().await.into_iter().collect()
}

#[cfg(test)]
mod tests;
