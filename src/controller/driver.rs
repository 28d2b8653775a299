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

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};

use super::ask::{Asked, Elected, Reassigned};
use super::channel::{Answered, Channel, Peers};
use super::decide::{Context, Effect, Event, LoadedTopic, decide};
use super::fence::{Fence, Lost};
use super::receiver::ControlReceiver;
use super::state::{Leadership, State};
use crate::clock::Clock;
use crate::cluster::{
    Broker, DynamicConfigs, Registrar, Session, read_overrides, read_registration, settle, until_known,
};
use crate::config::{BrokerConfig, TopicConfig};
use crate::metastore::schema::{
    ConfigEntity, Controller, ControllerEpoch, Features, LogDirEvent, TopicAssignment, paths,
};
use crate::metastore::{CreateMode, Error, Metastore, Op, OpResult, SessionState, Watch};
use crate::random::Random;
use crate::spawn::Spawner;
use crate::types::{BrokerId, TopicPartition};
use crate::wire::error_code::ErrorCode;

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
}

/// What a watch was set on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Watched {
    Controller,
    Brokers,
    Broker(BrokerId),
    Topics,
    Topic(Arc<str>),
    DeleteTopics,
    LogDirEvents,
}

/// A watch that says what it was set on and its number.
type Armed = Pin<Box<dyn Future<Output = (Watched, u64)> + Send>>;

/// Watches that are set. Of two on the same thing only the later counts.
#[derive(Default)]
struct Watches {
    set: FuturesUnordered<Armed>,
    latest: HashMap<Watched, u64>,
    next: u64,
}

impl Watches {
    fn arm(&mut self, watched: Watched, watch: Watch) {
        let number = self.next;
        self.next += 1;
        self.latest.insert(watched.clone(), number);
        self.set.push(Box::pin(async move {
            watch.await;
            (watched, number)
        }));
    }

    /// The next that fires; pending while none is set.
    async fn fired(&mut self) -> Watched {
        loop {
            match self.set.next().await {
                Some((watched, number)) if self.latest.get(&watched) == Some(&number) => {
                    self.latest.remove(&watched);
                    return watched;
                }
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    }
}

/// One term as active controller.
struct Term {
    state: State,
    fence: Fence,
    channels: BTreeMap<BrokerId, Channel>,
    answer: Answer,
}

/// Collected for the question that is being answered.
#[derive(Default)]
struct Answer {
    elected: Elected,
    reassigned: Reassigned,
    isrs: BTreeMap<usize, Result<(TopicPartition, Leadership), ErrorCode>>,
    still_led: Vec<TopicPartition>,
    /// Instead of all others.
    refused: Option<ErrorCode>,
}

/// The task behind [`start`](super::start).
pub(super) struct Driver {
    parts: Parts,
    active: Arc<AtomicBool>,
    watches: Watches,
    answers: (mpsc::UnboundedSender<Answered>, mpsc::UnboundedReceiver<Answered>),
    asked: mpsc::Receiver<Asked>,
    term: Option<Term>,
}

/// What the loop woke up for.
enum Input {
    Watch(Watched),
    Answered(Answered),
    Asked(Asked),
    SessionChanged,
    Stop,
}

impl Driver {
    pub fn new(parts: Parts, active: Arc<AtomicBool>, asked: mpsc::Receiver<Asked>) -> Driver {
        Driver { parts, active, watches: Watches::default(), answers: mpsc::unbounded_channel(), asked, term: None }
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
            let input = tokio::select! {
                watched = self.watches.fired() => Input::Watch(watched),
                Some(answered) = self.answers.1.recv() => Input::Answered(answered),
                Some(asked) = self.asked.recv() => Input::Asked(asked),
                Ok(()) = session.changed() => Input::SessionChanged,
                _ = stop.wait_for(|stop| *stop) => Input::Stop,
            };
            outcome = match input {
                Input::Watch(watched) => self.watched(watched).await,
                Input::Answered(answered) => self.answered(answered).await,
                Input::Asked(asked) => self.answer(asked).await,
                Input::SessionChanged if *session.borrow_and_update() == SessionState::Expired => Err(Lost::Expired),
                Input::SessionChanged => Ok(()),
                Input::Stop => {
                    self.resign();
                    return;
                }
            };
        }
    }

    /// Ends the term; after an expiry a new session is opened and the broker registered in it.
    async fn lost(&mut self, lost: Lost) {
        let was_active = self.term.as_ref().map(|term| term.fence.clone());
        self.resign();
        self.watches = Watches::default();
        match lost {
            Lost::Moved => tracing::info!("another controller was elected"),
            Lost::Failed(error) => {
                tracing::error!(%error, "controller gives up its office and stands again");
                // Somebody must be elected anew, perhaps this broker.
                if let Some(fence) = was_active {
                    let _ = fence.delete(paths::CONTROLLER.into()).await;
                }
                settle(&*self.parts.session.store()).await;
            }
            Lost::Expired => self.renew_session().await,
        }
    }

    async fn renew_session(&mut self) {
        let former = self.parts.session.store().session_id();
        tracing::warn!(session = former, "metastore session expired");
        loop {
            let store = self.parts.session.open_another().await;
            match self.parts.registrar.register(&*store, self.parts.clock.wall_ms(), Some(former)).await {
                Ok(epoch) => {
                    tracing::info!(session = store.session_id(), broker_epoch = epoch, "registered again");
                    self.parts.receiver.registered(epoch);
                    self.parts.session.replace(store);
                    return;
                }
                Err(error) => {
                    tracing::error!(%error, "not registered again yet");
                    settle(&*store).await;
                }
            }
        }
    }

    fn resign(&mut self) {
        if let Some(term) = self.term.take() {
            tracing::info!(epoch = term.state.epoch, "resigned as controller");
        }
        self.active.store(false, Ordering::Release);
        self.watches = Watches::default();
    }

    /// Watches `/controller`; when nobody holds it, stands for election.
    async fn stand(&mut self) -> Result<(), Lost> {
        let store = self.parts.session.store();
        loop {
            let (holder, watch) = until_known(&*store, || store.exists_watch(paths::CONTROLLER)).await?;
            if holder.is_some() {
                self.watches.arm(Watched::Controller, watch);
                return Ok(());
            }
            if let Some((epoch, epoch_version)) = self.elect(&*store).await? {
                let (_, watch) = until_known(&*store, || store.exists_watch(paths::CONTROLLER)).await?;
                self.watches.arm(Watched::Controller, watch);
                return self.take_office(store, epoch, epoch_version).await;
            }
        }
    }

    /// Epoch and its node's version when won.
    async fn elect(&mut self, store: &dyn Metastore) -> Result<Option<(i32, i32)>, Lost> {
        let (epoch, version) = read_epoch(store).await?;
        let holder = Controller {
            broker_id: self.parts.broker,
            timestamp_ms: self.parts.clock.wall_ms(),
            kraft_controller_epoch: -1,
        };
        let ops = vec![
            Op::Create { path: paths::CONTROLLER.into(), data: Some(holder.encode()), mode: CreateMode::Ephemeral },
            Op::Set { path: paths::CONTROLLER_EPOCH.into(), data: ControllerEpoch(epoch + 1).encode(), version },
        ];
        match store.multi(ops).await.map_err(|failed| failed.error) {
            Ok(results) => {
                let version = results.into_iter().find_map(|result| match result {
                    OpResult::Set(stat) => Some(stat.version),
                    _ => None,
                });
                Ok(version.map(|version| (epoch + 1, version)))
            }
            Err(Error::Unknown | Error::NodeExists(_) | Error::BadVersion(_)) => {
                // Lost, or won with the reply lost: the tree knows.
                let held = match until_known(store, || store.get(paths::CONTROLLER)).await {
                    Ok((data, stat)) => Controller::decode(paths::CONTROLLER, &data).is_ok_and(|held| {
                        held.broker_id == self.parts.broker && stat.ephemeral_owner == store.session_id()
                    }),
                    Err(Error::NoNode(_)) => false,
                    Err(error) => return Err(error.into()),
                };
                let (now, version) = read_epoch(store).await?;
                Ok((held && now == epoch + 1).then_some((now, version)))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn take_office(&mut self, store: Arc<dyn Metastore>, epoch: i32, epoch_version: i32) -> Result<(), Lost> {
        tracing::info!(epoch, "elected as controller");
        let fence = Fence { store, epoch_version };
        let state = State::new(self.parts.broker, epoch, self.parts.config.delete_topic_enable);
        self.term = Some(Term { state, fence: fence.clone(), channels: BTreeMap::new(), answer: Answer::default() });
        // A replaced leader's reads could lag behind what it must see.
        until_known(&*fence.store, || fence.store.sync("/")).await?;
        self.ensure_features(&*fence.store).await?;
        for parent in [paths::LOG_DIR_EVENTS, paths::ISR_CHANGES] {
            let (names, watch) = self.children_watch(&*fence.store, parent).await?;
            for name in names {
                fence.delete(format!("{parent}/{name}")).await?;
            }
            if parent == paths::LOG_DIR_EVENTS {
                self.watches.arm(Watched::LogDirEvents, watch);
            }
        }
        let brokers = self.read_brokers().await?;
        let (names, watch) = self.children_watch(&*fence.store, paths::TOPICS).await?;
        self.watches.arm(Watched::Topics, watch);
        let topics = self.load_topics(names, true).await?;
        let (names, watch) = self.children_watch(&*fence.store, paths::DELETE_TOPICS).await?;
        self.watches.arm(Watched::DeleteTopics, watch);
        let context = Context { brokers, topics, delete_requests: names.into_iter().collect() };
        self.process(Event::BecameController(Box::new(context))).await?;
        self.active.store(true, Ordering::Release);
        Ok(())
    }

    /// `/feature` as a fresh 3.9 cluster has it. One that exists is left as it is.
    async fn ensure_features(&mut self, store: &dyn Metastore) -> Result<(), Lost> {
        let none = Features { enabled: true, finalized: BTreeMap::new() };
        let created =
            until_known(store, || store.create(paths::FEATURE, Some(none.encode()), CreateMode::Persistent)).await;
        match created {
            Ok(_) | Err(Error::NodeExists(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn watched(&mut self, watched: Watched) -> Result<(), Lost> {
        if watched == Watched::Controller {
            return self.controller_changed().await;
        }
        let Some(term) = &self.term else { return Ok(()) };
        let fence = term.fence.clone();
        match watched {
            Watched::Controller => Ok(()),
            Watched::Brokers => {
                let live = self.read_brokers().await?;
                self.process(Event::BrokersChanged(live)).await
            }
            Watched::Broker(id) => match self.read_broker(id).await? {
                Some(broker) => self.process(Event::BrokerChanged(broker)).await,
                None => Ok(()),
            },
            Watched::Topics => {
                let (names, watch) = self.children_watch(&*fence.store, paths::TOPICS).await?;
                self.watches.arm(Watched::Topics, watch);
                let unknown = match &self.term {
                    Some(term) => {
                        names.iter().filter(|name| !term.state.topics.contains_key(name.as_str())).cloned().collect()
                    }
                    None => Vec::new(),
                };
                let new = self.load_topics(unknown, false).await?;
                self.process(Event::TopicsChanged { present: names.into_iter().collect(), new }).await
            }
            Watched::Topic(name) => {
                let Some((data, _)) = self.read_topic(&name).await? else { return Ok(()) };
                match TopicAssignment::decode(&paths::topic(&name), &data) {
                    Ok(assignment) => self.process(Event::TopicChanged { name, assignment }).await,
                    Err(error) => {
                        tracing::error!(%error, "topic change ignored");
                        Ok(())
                    }
                }
            }
            Watched::DeleteTopics => {
                let (names, watch) = self.children_watch(&*fence.store, paths::DELETE_TOPICS).await?;
                self.watches.arm(Watched::DeleteTopics, watch);
                self.process(Event::DeleteRequestsChanged(names.into_iter().collect())).await
            }
            Watched::LogDirEvents => {
                let (names, watch) = self.children_watch(&*fence.store, paths::LOG_DIR_EVENTS).await?;
                self.watches.arm(Watched::LogDirEvents, watch);
                let mut brokers = BTreeSet::new();
                for name in names {
                    let path = format!("{}/{name}", paths::LOG_DIR_EVENTS);
                    match until_known(&*fence.store, || fence.store.get(&path)).await {
                        Ok((data, _)) => match LogDirEvent::decode(&path, &data) {
                            Ok(LogDirEvent(broker)) => {
                                brokers.insert(broker);
                            }
                            Err(error) => tracing::error!(%error, "log directory event ignored"),
                        },
                        Err(Error::NoNode(_)) => continue,
                        Err(error) => return Err(error.into()),
                    }
                    fence.delete(path).await?;
                }
                self.process(Event::LogDirsFailed(brokers)).await
            }
        }
    }

    /// `/controller` was written, deleted or may have been: still in office, somebody else's, or free.
    async fn controller_changed(&mut self) -> Result<(), Lost> {
        let store = self.parts.session.store();
        let (holder, watch) = until_known(&*store, || store.exists_watch(paths::CONTROLLER)).await?;
        let ours = holder.is_some_and(|stat| stat.ephemeral_owner == store.session_id());
        match (&self.term, holder) {
            (Some(_), Some(_)) if ours => {
                self.watches.arm(Watched::Controller, watch);
                Ok(())
            }
            (Some(_), _) => Err(Lost::Moved),
            (None, Some(_)) => {
                self.watches.arm(Watched::Controller, watch);
                Ok(())
            }
            (None, None) => self.stand().await,
        }
    }

    async fn answered(&mut self, answered: Answered) -> Result<(), Lost> {
        if self.term.as_ref().is_none_or(|term| term.state.epoch != answered.epoch) {
            return Ok(());
        }
        let Answered { from, request, answer, .. } = answered;
        self.process(Event::Answered { from, request, answer }).await
    }

    /// A question is answered when all that follows from it is done; whoever asked may be gone by then.
    async fn answer(&mut self, asked: Asked) -> Result<(), Lost> {
        if self.term.is_none() {
            return Ok(());
        }
        match asked {
            Asked::ElectLeaders { partitions, kind, answer } => {
                self.process(Event::ElectLeaders { partitions, kind }).await?;
                let _ = answer.send(self.take_answer().elected);
            }
            Asked::AlterReassignments { wanted, answer } => {
                self.process(Event::AlterReassignments(wanted)).await?;
                let _ = answer.send(self.take_answer().reassigned);
            }
            Asked::AlterPartition { request, answer } => {
                self.process(Event::AlterPartition(request)).await?;
                let Answer { isrs, refused, .. } = self.take_answer();
                let changed = isrs.values().flatten().map(|(tp, _)| tp.clone()).collect();
                let altered = isrs.into_values().map(|outcome| outcome.map(|(_, leadership)| leadership)).collect();
                let _ = answer.send(refused.map_or(Ok(altered), Err));
                // A reassignment it completes moves on under a later epoch, of which the leader must not hear first.
                self.process(Event::IsrAnswered(changed)).await?;
            }
            Asked::ControlledShutdown { broker, broker_epoch, answer } => {
                self.process(Event::ControlledShutdown { broker, broker_epoch }).await?;
                let Answer { still_led, refused, .. } = self.take_answer();
                let _ = answer.send(refused.map_or(Ok(still_led), Err));
            }
            Asked::ListReassignments { answer } => {
                let running = self.term.as_ref().map(|term| term.state.reassignments());
                let _ = answer.send(running.unwrap_or_default());
            }
        }
        Ok(())
    }

    fn take_answer(&mut self) -> Answer {
        self.term.as_mut().map(|term| std::mem::take(&mut term.answer)).unwrap_or_default()
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

    /// Live brokers; watches the list, and each broker not watched yet.
    async fn read_brokers(&mut self) -> Result<Vec<Broker>, Lost> {
        let store = self.parts.session.store();
        let (names, watch) = self.children_watch(&*store, paths::BROKER_IDS).await?;
        self.watches.arm(Watched::Brokers, watch);
        let mut brokers = Vec::new();
        for name in names {
            let Ok(id) = name.parse().map(BrokerId) else { continue };
            let known = self.term.as_ref().and_then(|term| term.state.live.get(&id)).map(|broker| broker.epoch);
            let broker = match known {
                // Its watch is still set unless the node was deleted since, and then it is told.
                Some(epoch) => match self.peek_broker(id).await? {
                    Some(broker) if broker.epoch == epoch => Some(broker),
                    Some(_) => self.read_broker(id).await?,
                    None => None,
                },
                None => self.read_broker(id).await?,
            };
            brokers.extend(broker);
        }
        Ok(brokers)
    }

    async fn read_broker(&mut self, id: BrokerId) -> Result<Option<Broker>, Lost> {
        let store = self.parts.session.store();
        let path = paths::broker(id);
        let (stat, watch) = until_known(&*store, || store.exists_watch(&path)).await?;
        if stat.is_none() {
            return Ok(None);
        }
        self.watches.arm(Watched::Broker(id), watch);
        self.peek_broker(id).await
    }

    async fn peek_broker(&mut self, id: BrokerId) -> Result<Option<Broker>, Lost> {
        let store = self.parts.session.store();
        match read_registration(&*store, id).await {
            Ok(found) => Ok(found.map(|(registration, stat)| Broker::from_registration(id, &registration, stat.czxid))),
            Err(crate::cluster::RegistrationError::Store(error)) => Err(error.into()),
            Err(error) => {
                tracing::error!(broker = %id, %error, "registration ignored");
                Ok(None)
            }
        }
    }

    /// Reads topics and watches each.
    async fn load_topics(&mut self, mut names: Vec<String>, with_states: bool) -> Result<Vec<LoadedTopic>, Lost> {
        names.sort_unstable();
        let mut topics = Vec::with_capacity(names.len());
        for name in names {
            let name: Arc<str> = Arc::from(name);
            let Some(read) = self.read_topic(&name).await? else { continue };
            let Some(fence) = self.term.as_ref().map(|term| term.fence.clone()) else { break };
            topics.extend(fence.load_topic(&name, read, &*self.parts.random, with_states).await?);
        }
        Ok(topics)
    }

    async fn read_topic(&mut self, name: &Arc<str>) -> Result<Option<(bytes::Bytes, i32)>, Lost> {
        let store = self.parts.session.store();
        let path = paths::topic(name);
        match until_known(&*store, || store.get_watch(&path)).await {
            Ok((data, stat, watch)) => {
                self.watches.arm(Watched::Topic(Arc::clone(name)), watch);
                Ok(Some((data, stat.version)))
            }
            Err(Error::NoNode(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn children_watch(&mut self, store: &dyn Metastore, path: &str) -> Result<(Vec<String>, Watch), Lost> {
        Ok(until_known(store, || store.children_watch(path)).await?)
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
            let topics: BTreeSet<Arc<str>> = states.iter().map(|(tp, _)| Arc::clone(&tp.topic)).collect();
            let mut allowed = BTreeSet::new();
            let defaults = parts.configs.load().topic_defaults(&parts.config, parts.broker);
            for topic in topics {
                let entity = ConfigEntity::Topic(topic.to_string());
                let overrides = read_overrides(&*term.fence.store, &entity).await?;
                let (config, _) = TopicConfig::resolve_stored(&defaults, &overrides);
                if config.unclean_leader_election_enable {
                    allowed.insert(topic);
                }
            }
            Some(Event::UncleanRead { states, allowed })
        }
        Effect::WriteStates { writes, then } => Some(term.fence.write_states(writes, then).await?),
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

/// `/controller_epoch` and its version; made when absent.
async fn read_epoch(store: &dyn Metastore) -> Result<(i32, i32), Lost> {
    let path = paths::CONTROLLER_EPOCH;
    loop {
        match until_known(store, || store.get(path)).await {
            Ok((data, stat)) => {
                let epoch = ControllerEpoch::decode(path, &data)
                    .map_err(|error| Lost::Failed(Error::Other(error.to_string())))?;
                return Ok((epoch.0, stat.version));
            }
            Err(Error::NoNode(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let created =
            until_known(store, || store.create(path, Some(ControllerEpoch(0).encode()), CreateMode::Persistent)).await;
        match created {
            Ok(_) | Err(Error::NodeExists(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
