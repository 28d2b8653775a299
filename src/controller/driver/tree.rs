//! What the active controller reads when a watch fires or its term begins. A watch is set, then its node read, so that no
//! change goes unseen.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Driver;
use super::watches::Watched;
use crate::cluster::{Broker, RegistrationError, read_broker, until_known};
use crate::controller::decide::{ElectionType, Event, LoadedTopic};
use crate::controller::fence::{Lost, brokers_version_of};
use crate::metastore::schema::{LogDirEvent, Malformed, PartitionList, ReassignPartitions, TopicAssignment, paths};
use crate::metastore::{Error, Metastore, Watch};
use crate::types::{BrokerId, TopicPartition};

impl Driver {
    pub(super) async fn watched(&mut self, watched: Watched) -> Result<(), Lost> {
        if watched == Watched::Controller {
            return self.controller_changed().await;
        }
        let Some(term) = &self.term else {
            return match watched {
                Watched::Brokers => self.look_at_brokers().await,
                _ => Ok(()),
            };
        };
        let fence = term.fence.clone();
        match watched {
            Watched::Controller => Ok(()),
            Watched::Brokers => {
                let live = self.read_brokers().await?;
                self.process(Event::BrokersChanged(live)).await
            }
            Watched::Broker(id) => match self.watch_broker(id).await? {
                Some(broker) => self.process(Event::BrokerChanged(broker)).await,
                None => Ok(()),
            },
            Watched::Topics => self.topics_changed().await,
            // It could not be read when it appeared.
            Watched::Topic(name) if !term.state.topics.contains_key(&name) => self.topics_changed().await,
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
                let news = self.take_news(Watched::LogDirEvents, paths::LOG_DIR_EVENTS, LogDirEvent::decode).await?;
                let brokers = news.into_iter().map(|LogDirEvent(broker)| broker).collect();
                self.process(Event::LogDirsFailed(brokers)).await
            }
            Watched::IsrChanges => {
                let news = self.take_news(Watched::IsrChanges, paths::ISR_CHANGES, PartitionList::decode).await?;
                let changed: BTreeSet<TopicPartition> = news.into_iter().flat_map(|PartitionList(of)| of).collect();
                let states = fence.read_states(changed.into_iter().collect()).await?;
                let read = states.into_iter().filter_map(|(tp, leadership)| Some((tp, leadership?))).collect();
                self.process(Event::IsrChanged(read)).await
            }
            Watched::ReassignPartitions => self.reassignments_requested().await,
            Watched::PreferredElection => self.preferred_election_requested().await,
        }
    }

    async fn topics_changed(&mut self) -> Result<(), Lost> {
        let store = self.parts.session.store();
        let (names, watch) = self.children_watch(&*store, paths::TOPICS).await?;
        self.watches.arm(Watched::Topics, watch);
        let unknown = match &self.term {
            Some(term) => names.iter().filter(|name| !term.state.topics.contains_key(name.as_str())).cloned().collect(),
            None => Vec::new(),
        };
        let new = self.load_topics(unknown, false).await?;
        self.process(Event::TopicsChanged { present: names.into_iter().collect(), new }).await
    }

    /// Announcements below `parent`: read, deleted, and watched for more.
    async fn take_news<T>(
        &mut self,
        watched: Watched,
        parent: &str,
        decode: impl Fn(&str, &[u8]) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Lost> {
        let Some(fence) = self.term.as_ref().map(|term| term.fence.clone()) else { return Ok(Vec::new()) };
        let (names, watch) = self.children_watch(&*fence.store, parent).await?;
        self.watches.arm(watched, watch);
        let mut news = Vec::new();
        for name in names {
            let path = format!("{parent}/{name}");
            match until_known(&*fence.store, || fence.store.get(&path)).await {
                Ok((data, _)) => match decode(&path, &data) {
                    Ok(one) => news.push(one),
                    Err(error) => tracing::error!(%error, "announcement ignored"),
                },
                Err(Error::NoNode(_)) => continue,
                Err(error) => return Err(error.into()),
            }
            fence.delete(path).await?;
        }
        Ok(news)
    }

    /// What old tools write into `/admin/reassign_partitions`. Partitions leave it when they have moved.
    pub(super) async fn reassignments_requested(&mut self) -> Result<(), Lost> {
        let path = paths::REASSIGN_PARTITIONS;
        match self.request(path, Watched::ReassignPartitions).await?.map(|data| ReassignPartitions::decode(path, &data))
        {
            Some(Ok(ReassignPartitions(wanted))) => {
                self.process(Event::ReassignRequested(wanted)).await?;
                self.take_answer();
            }
            Some(Err(error)) => tracing::error!(%error, "reassignments ignored"),
            None => {}
        }
        Ok(())
    }

    /// What old tools write into `/admin/preferred_replica_election`, which goes when it is done.
    pub(super) async fn preferred_election_requested(&mut self) -> Result<(), Lost> {
        let path = paths::PREFERRED_REPLICA_ELECTION;
        while let Some(data) = self.request(path, Watched::PreferredElection).await? {
            match PartitionList::decode(path, &data) {
                Ok(PartitionList(partitions)) => {
                    self.process(Event::ElectLeaders { partitions, kind: ElectionType::Preferred }).await?;
                    self.take_answer();
                }
                Err(error) => tracing::error!(%error, "preferred election ignored"),
            }
            let Some(fence) = self.term.as_ref().map(|term| term.fence.clone()) else { return Ok(()) };
            if !fence.delete(path.into()).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// An operator's request, if there is one; watched for.
    async fn request(&mut self, path: &str, watched: Watched) -> Result<Option<bytes::Bytes>, Lost> {
        let store = self.parts.session.store();
        let (there, watch) = until_known(&*store, || store.exists_watch(path)).await?;
        self.watches.arm(watched, watch);
        if there.is_none() {
            return Ok(None);
        }
        match until_known(&*store, || store.get(path)).await {
            Ok((data, _)) => Ok(Some(data)),
            Err(Error::NoNode(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Live brokers; watches the list, and each broker not watched yet.
    pub(super) async fn read_brokers(&mut self) -> Result<Vec<Broker>, Lost> {
        let store = self.parts.session.store();
        if let Some(term) = &mut self.term {
            term.fence.brokers_version = brokers_version_of(&*store).await?;
        }
        let (names, watch) = self.children_watch(&*store, paths::BROKER_IDS).await?;
        self.watches.arm(Watched::Brokers, watch);
        let mut brokers = Vec::new();
        for name in names {
            let Ok(id) = name.parse().map(BrokerId) else { continue };
            let known = self.term.as_ref().and_then(|term| term.state.registration(id)).map(|broker| broker.epoch);
            let broker = match known {
                // Its watch is still set unless the node was deleted since, and then it is told.
                Some(epoch) => match self.peek_broker(id).await? {
                    Some(broker) if broker.epoch == epoch => Some(broker),
                    Some(_) => self.watch_broker(id).await?,
                    None => None,
                },
                None => self.watch_broker(id).await?,
            };
            brokers.extend(broker);
        }
        self.know(&brokers);
        Ok(brokers)
    }

    /// Live brokers, for one that is not the controller and wants to know whether that is; watches the list.
    pub(super) async fn look_at_brokers(&mut self) -> Result<(), Lost> {
        if self.doubts.is_none() {
            return Ok(());
        }
        let store = self.parts.session.store();
        let (names, watch) = self.children_watch(&*store, paths::BROKER_IDS).await?;
        self.watches.arm(Watched::Brokers, watch);
        let mut brokers = Vec::new();
        for id in names.iter().filter_map(|name| name.parse().ok().map(BrokerId)) {
            brokers.extend(self.peek_broker(id).await?);
        }
        self.know(&brokers);
        Ok(())
    }

    async fn watch_broker(&mut self, id: BrokerId) -> Result<Option<Broker>, Lost> {
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
        match read_broker(&*store, id).await {
            Ok(found) => Ok(found),
            Err(RegistrationError::Store(error)) => Err(error.into()),
            Err(error) => {
                tracing::error!(broker = %id, %error, "registration ignored");
                Ok(None)
            }
        }
    }

    /// Reads topics and watches each.
    pub(super) async fn load_topics(
        &mut self,
        mut names: Vec<String>,
        with_states: bool,
    ) -> Result<Vec<LoadedTopic>, Lost> {
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

    pub(super) async fn children_watch(
        &mut self,
        store: &dyn Metastore,
        path: &str,
    ) -> Result<(Vec<String>, Watch), Lost> {
        Ok(until_known(store, || store.children_watch(path)).await?)
    }
}
