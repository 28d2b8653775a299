//! How the office of controller is won and lost: `/controller`, `/controller_epoch` and the session behind them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::questions::Answer;
use super::watches::{Watched, Watches};
use super::{Driver, Term};
use crate::cluster::suspicion::Incarnation;
use crate::cluster::{registered, settle, until_known};
use crate::controller::decide::{Context, Event};
use crate::controller::fence::{Fence, Lost};
use crate::controller::state::State;
use crate::controller::take_over::{Holder, Office, TakeOver, Taken};
use crate::metastore::schema::{Controller, ControllerEpoch, Features, paths};
use crate::metastore::{CreateMode, Error, Metastore, MultiError, Op, OpResult};

/// After an election, as Kafka's.
const FIRST_BALANCE: Duration = Duration::from_secs(5);

impl Driver {
    /// Ends the term; after an expiry a new session is opened and the broker registered in it.
    pub(super) async fn lost(&mut self, lost: Lost) {
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
            Lost::Expired => {
                self.know(&[]);
                self.renew_session().await;
            }
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

    pub(super) fn resign(&mut self) {
        if let Some(term) = self.term.take() {
            tracing::info!(epoch = term.state.epoch, "resigned as controller");
        }
        self.tells.active.store(false, Ordering::Release);
        self.watches = Watches::default();
    }

    /// Watches `/controller`; when nobody holds it, stands for election.
    pub(super) async fn stand(&mut self) -> Result<(), Lost> {
        let store = self.parts.session.store();
        loop {
            let (holder, watch) = until_known(&*store, || store.exists_watch(paths::CONTROLLER)).await?;
            if holder.is_some() {
                self.watches.arm(Watched::Controller, watch);
                return self.look_at_brokers().await;
            }
            if let Some((epoch, epoch_version)) = self.elect(&*store).await? {
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
            Err(Error::Unknown | Error::NodeExists(_) | Error::BadVersion(_)) => self.won(store, epoch + 1).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Lost, or won with the reply lost: the tree knows. The version of the epoch's node when this broker is the controller
    /// of `epoch`.
    async fn won(&mut self, store: &dyn Metastore, epoch: i32) -> Result<Option<(i32, i32)>, Lost> {
        let (now, version) = read_epoch(store).await?;
        let own = Holder { id: self.parts.broker, session: store.session_id() };
        let is_held = holder(store).await? == Some(own);
        Ok((is_held && now == epoch).then_some((now, version)))
    }

    /// Makes this broker the controller in place of one that is suspected, if that one is, and if it may.
    pub(super) async fn take_over(&mut self, suspect: Incarnation) -> Result<(), Lost> {
        let store = self.parts.session.store();
        let registered = registered(&*store, suspect.id).await?;
        let Some(stat) = registered.filter(|stat| stat.czxid == suspect.czxid) else { return Ok(()) };
        let (epoch, epoch_version) = read_epoch(&*store).await?;
        let office = Office { epoch, epoch_version, holder: holder(&*store).await? };
        let (now_ms, wall_ms) = (self.parts.clock.monotonic_ms(), self.parts.clock.wall_ms());
        let Some(doubts) = &mut self.doubts else { return Ok(()) };
        let ops = match doubts.take_over(office, (suspect, stat.ephemeral_owner), now_ms, wall_ms) {
            Ok(ops) => ops,
            Err(why) => {
                tracing::debug!(suspect = %suspect, ?office, ?why, "the office of controller is left where it is");
                return Ok(());
            }
        };
        let answer = store.multi(ops).await;
        let taken = TakeOver::outcome(office, answer.as_deref());
        tracing::warn!(suspect = %suspect, ?office, ?taken, "the office of controller is taken from a suspect");
        let won = match taken {
            Taken::Won { epoch, epoch_version } => Some((epoch, epoch_version)),
            Taken::Unknown => self.won(&*store, epoch + 1).await?,
            Taken::TooLate | Taken::Vacant | Taken::Failed => None,
        };
        match (won, answer) {
            (Some((epoch, epoch_version)), _) => self.take_office(store, epoch, epoch_version).await,
            (None, Err(MultiError { error: Error::SessionExpired, .. })) => Err(Lost::Expired),
            // What became of the node is told by the watch on it.
            (None, _) => Ok(()),
        }
    }

    /// What was won may be lost by now. The watch is set before anything is read: what a successor writes from then on ends
    /// the term, however much of it was read.
    async fn take_office(&mut self, store: Arc<dyn Metastore>, epoch: i32, epoch_version: i32) -> Result<(), Lost> {
        let (holder, watch) = until_known(&*store, || store.exists_watch(paths::CONTROLLER)).await?;
        if holder.is_none_or(|stat| stat.ephemeral_owner != store.session_id()) {
            return Err(Lost::Moved);
        }
        self.watches.arm(Watched::Controller, watch);
        tracing::info!(epoch, "elected as controller");
        let fence = Fence { store, epoch_version, brokers_version: -1 };
        let state = State::new(self.parts.broker, epoch, self.parts.config.delete_topic_enable);
        self.term = Some(Term {
            state,
            fence: fence.clone(),
            channels: BTreeMap::new(),
            answer: Answer::default(),
            balance_at: None,
        });
        // A replaced leader's reads could lag behind what it must see.
        until_known(&*fence.store, || fence.store.sync("/")).await?;
        self.ensure_features(&*fence.store).await?;
        // What they announce is read now.
        let news = [(paths::LOG_DIR_EVENTS, Watched::LogDirEvents), (paths::ISR_CHANGES, Watched::IsrChanges)];
        for (parent, watched) in news {
            let (names, watch) = self.children_watch(&*fence.store, parent).await?;
            for name in names {
                fence.delete(format!("{parent}/{name}")).await?;
            }
            self.watches.arm(watched, watch);
        }
        let brokers = self.read_brokers().await?;
        let (names, watch) = self.children_watch(&*fence.store, paths::TOPICS).await?;
        self.watches.arm(Watched::Topics, watch);
        let topics = self.load_topics(names, true).await?;
        let (names, watch) = self.children_watch(&*fence.store, paths::DELETE_TOPICS).await?;
        self.watches.arm(Watched::DeleteTopics, watch);
        let context = Context { brokers, topics, delete_requests: names.into_iter().collect() };
        self.process(Event::BecameController(Box::new(context))).await?;
        for suspect in self.suspects() {
            self.process(Event::BrokerSuspected(suspect)).await?;
        }
        self.reassignments_requested().await?;
        self.preferred_election_requested().await?;
        self.schedule_balance(FIRST_BALANCE);
        self.tells.active.store(true, Ordering::Release);
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

    /// `/controller` was written, deleted or may have been: still in office, somebody else's, or free.
    pub(super) async fn controller_changed(&mut self) -> Result<(), Lost> {
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
}

/// Whom `/controller` names.
async fn holder(store: &dyn Metastore) -> Result<Option<Holder>, Lost> {
    match until_known(store, || store.get(paths::CONTROLLER)).await {
        Ok((data, stat)) => {
            let held = Controller::decode(paths::CONTROLLER, &data).ok();
            Ok(held.map(|held| Holder { id: held.broker_id, session: stat.ephemeral_owner }))
        }
        Err(Error::NoNode(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// `/controller_epoch` and its version, if it is there.
pub(in crate::controller) async fn controller_epoch(store: &dyn Metastore) -> Result<Option<(i32, i32)>, Error> {
    let path = paths::CONTROLLER_EPOCH;
    match until_known(store, || store.get(path)).await {
        Ok((data, stat)) => match ControllerEpoch::decode(path, &data) {
            Ok(epoch) => Ok(Some((epoch.0, stat.version))),
            Err(error) => Err(Error::Other(error.to_string())),
        },
        Err(Error::NoNode(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// `/controller_epoch` and its version; made when absent.
async fn read_epoch(store: &dyn Metastore) -> Result<(i32, i32), Lost> {
    let path = paths::CONTROLLER_EPOCH;
    loop {
        if let Some(found) = controller_epoch(store).await? {
            return Ok(found);
        }
        let created =
            until_known(store, || store.create(path, Some(ControllerEpoch(0).encode()), CreateMode::Persistent)).await;
        match created {
            Ok(_) | Err(Error::NodeExists(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
