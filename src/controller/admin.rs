//! Administrative changes as writes to the metastore: topics, partitions, configs.
//! They are requests to the controller, which sees the znodes change and acts.
//!
//! Order of checks and of writes: Kafka's `ZkAdminManager` and `AdminZkClient`, verified on a live 3.9.1.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::ask::Questions;
use super::placement::{Candidate, PlacementError, Start, place};
use super::start::ControllerHandle;
use super::topic_names;
use crate::cluster::internal_topics::{GROUP_METADATA, TRANSACTION_STATE};
use crate::cluster::{Cluster, DynamicConfigs, Session, Snapshot, ensure_path, until_known};
use crate::config::{BrokerConfig, TopicConfig};
use crate::metastore::schema::{
    ConfigChange, ConfigEntity, Controller, EntityConfig, EntityName, ReplicaAssignment, TopicAssignment, paths,
};
use crate::metastore::{CreateMode, Error, Metastore, Op};
use crate::quota::{Mutations, QuotaExceeded};
use crate::random::Random;
use crate::types::{BrokerId, TopicId};
use crate::wire::error_code::ErrorCode;

mod quotas;

/// Refused or failed: what the client is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct AdminError {
    pub code: ErrorCode,
    pub message: String,
}

impl AdminError {
    pub fn new(code: ErrorCode, message: impl fmt::Display) -> AdminError {
        AdminError { code, message: message.to_string() }
    }

    /// What the client is told beside the code. An unexpected error keeps its text to the log, as Kafka's does.
    pub fn told(&self) -> Option<String> {
        (self.code != ErrorCode::UnknownServerError).then(|| self.message.clone())
    }
}

impl From<Error> for AdminError {
    fn from(error: Error) -> AdminError {
        tracing::error!(%error, "administrative change not written");
        AdminError::new(ErrorCode::UnknownServerError, error)
    }
}

impl From<QuotaExceeded> for AdminError {
    fn from(error: QuotaExceeded) -> AdminError {
        AdminError::new(ErrorCode::ThrottlingQuotaExceeded, error)
    }
}

impl From<PlacementError> for AdminError {
    fn from(error: PlacementError) -> AdminError {
        let code = match error {
            PlacementError::Partitions | PlacementError::TooManyPartitions(_) => ErrorCode::InvalidPartitions,
            PlacementError::ReplicationFactor | PlacementError::TooFewBrokers { .. } => {
                ErrorCode::InvalidReplicationFactor
            }
            PlacementError::SomeRacksUnknown => ErrorCode::UnknownServerError,
        };
        AdminError::new(code, error)
    }
}

/// One topic of CreateTopics. -1 counts mean the broker's default.
#[derive(Clone, Debug, Default)]
pub struct NewTopic {
    pub name: String,
    pub num_partitions: i32,
    pub replication_factor: i16,
    /// By partition index; empty = placed by the broker.
    pub assignments: BTreeMap<i32, Vec<BrokerId>>,
    /// `None` values are refused (INVALID_CONFIG).
    pub configs: Vec<(String, Option<String>)>,
}

/// A topic that was (or, with validate_only, would be) created.
#[derive(Clone, Debug)]
pub struct CreatedTopic {
    /// Zero for validate_only.
    pub id: TopicId,
    pub num_partitions: i32,
    pub replication_factor: i16,
    pub overrides: BTreeMap<String, String>,
}

/// Writes administrative changes. Cheap to share.
pub struct Admin {
    controller: ControllerHandle,
    session: Arc<Session>,
    cluster: Arc<Cluster>,
    configs: Arc<DynamicConfigs>,
    broker: BrokerId,
    config: Arc<BrokerConfig>,
    random: Arc<dyn Random>,
}

impl Admin {
    pub fn new(
        controller: ControllerHandle,
        session: Arc<Session>,
        cluster: Arc<Cluster>,
        configs: Arc<DynamicConfigs>,
        broker: BrokerId,
        config: Arc<BrokerConfig>,
        random: Arc<dyn Random>,
    ) -> Admin {
        Admin { controller, session, cluster, configs, broker, config, random }
    }

    /// Whether this broker is the active controller.
    pub fn is_controller(&self) -> bool {
        self.controller.is_active()
    }

    /// What only the active controller can answer.
    pub fn controller(&self) -> &Questions {
        self.controller.questions()
    }

    /// `delete.topic.enable`.
    pub fn deletion_enabled(&self) -> bool {
        self.config.delete_topic_enable
    }

    /// The session with the metastore, for what has no procedure of its own here.
    pub fn store(&self) -> Arc<dyn Metastore> {
        self.session.store()
    }

    /// Validates in Kafka's order, writes the znodes; does not wait for leaders (see [`Admin::wait_for_leaders`]).
    ///
    /// TOPIC_ALREADY_EXISTS → null config value INVALID_CONFIG → counts and assignment both given INVALID_REQUEST →
    /// INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR → INVALID_TOPIC_EXCEPTION (name, clash) →
    /// INVALID_REPLICA_ASSIGNMENT → INVALID_CONFIG → THROTTLING_QUOTA_EXCEEDED.
    pub async fn create_topic(
        &self,
        topic: NewTopic,
        validate_only: bool,
        mutations: &mut Mutations<'_>,
    ) -> Result<CreatedTopic, AdminError> {
        let snapshot = self.cluster.load();
        if snapshot.topic(&topic.name).is_some() {
            return Err(exists(&topic.name));
        }
        let nulls: Vec<&str> =
            topic.configs.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| key.as_str()).collect();
        if !nulls.is_empty() {
            let message = format!("topic configs cannot be null: {}", nulls.join(","));
            return Err(AdminError::new(ErrorCode::InvalidConfig, message));
        }
        let overrides: BTreeMap<String, String> =
            topic.configs.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        let assignment = self.assign(&snapshot, topic.num_partitions, topic.replication_factor, topic.assignments)?;
        let store = self.session.store();
        self.validate(&*store, &topic.name, &assignment, &overrides).await?;
        let created = CreatedTopic {
            id: TopicId::ZERO,
            num_partitions: i32::try_from(assignment.len()).unwrap_or(i32::MAX),
            replication_factor: assignment
                .values()
                .next()
                .map_or(0, |replicas| i16::try_from(replicas.len()).unwrap_or(i16::MAX)),
            overrides,
        };
        if validate_only {
            return Ok(created);
        }
        mutations.record(assignment.len())?;
        let id = self.write_topic(&*store, &topic.name, assignment, &created.overrides).await?;
        Ok(CreatedTopic { id, ..created })
    }

    /// Auto-creation by Metadata or FindCoordinator, from any broker, with the broker's defaults. A topic that exists
    /// by now is a success.
    pub async fn auto_create_topic(&self, name: &str, mutations: &mut Mutations<'_>) -> Result<(), AdminError> {
        let topic = self.automatic(name);
        match self.create_topic(topic, false, mutations).await {
            Ok(_) => Ok(()),
            Err(error) if error.code == ErrorCode::TopicAlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What `name` is created as on first use: an internal topic has settings of its own.
    fn automatic(&self, name: &str) -> NewTopic {
        let (num_partitions, replication_factor, configs) = match name {
            GROUP_METADATA => {
                let group = &self.config.group;
                let configs = vec![
                    ("cleanup.policy".to_owned(), Some("compact".to_owned())),
                    ("segment.bytes".to_owned(), Some(group.offsets_topic_segment_bytes.to_string())),
                    ("compression.type".to_owned(), Some("producer".to_owned())),
                ];
                (group.offsets_topic_num_partitions, self.config.offsets_topic_replication_factor, configs)
            }
            TRANSACTION_STATE => {
                let transaction = &self.config.transaction;
                let min_isr = self.config.transaction_state_log_min_isr;
                let configs = vec![
                    ("unclean.leader.election.enable".to_owned(), Some("false".to_owned())),
                    ("compression.type".to_owned(), Some("uncompressed".to_owned())),
                    ("cleanup.policy".to_owned(), Some("compact".to_owned())),
                    ("min.insync.replicas".to_owned(), Some(min_isr.to_string())),
                    ("segment.bytes".to_owned(), Some(transaction.state_log_segment_bytes.to_string())),
                ];
                let replication_factor = self.config.transaction_state_log_replication_factor;
                (transaction.state_log_num_partitions, replication_factor, configs)
            }
            _ => (-1, -1, Vec::new()),
        };
        NewTopic { name: name.to_owned(), num_partitions, replication_factor, configs, ..NewTopic::default() }
    }

    /// Marks the topic for deletion. A topic that is marked already is a success. UNKNOWN_TOPIC_OR_PARTITION →
    /// THROTTLING_QUOTA_EXCEEDED.
    pub async fn delete_topic(&self, name: &str, mutations: &mut Mutations<'_>) -> Result<(), AdminError> {
        let unknown = || AdminError::new(ErrorCode::UnknownTopicOrPartition, format!("there is no topic '{name}'"));
        let Some(partitions) = self.cluster.load().topic(name).map(|topic| topic.partitions.len()) else {
            return Err(unknown());
        };
        mutations.record(partitions)?;
        let store = self.session.store();
        let path = paths::topic(name);
        if until_known(&*store, || store.exists(&path)).await?.is_none() {
            return Err(unknown());
        }
        let path = paths::delete_topic(name);
        match until_known(&*store, || store.create(&path, None, CreateMode::Persistent)).await {
            Ok(_) | Err(Error::NodeExists(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// `assignments`: replicas of the added partitions, in order; `None` = placed by the broker.
    ///
    /// Marked for deletion INVALID_TOPIC_EXCEPTION → UNKNOWN_TOPIC_OR_PARTITION → REASSIGNMENT_IN_PROGRESS →
    /// INVALID_PARTITIONS → INVALID_REPLICA_ASSIGNMENT → THROTTLING_QUOTA_EXCEEDED.
    pub async fn create_partitions(
        &self,
        topic: &str,
        count: i32,
        assignments: Option<Vec<Vec<BrokerId>>>,
        validate_only: bool,
        mutations: &mut Mutations<'_>,
    ) -> Result<(), AdminError> {
        let store = self.session.store();
        let marked = paths::delete_topic(topic);
        if until_known(&*store, || store.exists(&marked)).await?.is_some() {
            return Err(AdminError::new(ErrorCode::InvalidTopicException, "the topic is being deleted"));
        }
        let path = paths::topic(topic);
        let mut assignment = match until_known(&*store, || store.get(&path)).await {
            Ok((data, _)) => TopicAssignment::decode(&path, &data)
                .map_err(|error| AdminError::new(ErrorCode::UnknownServerError, error))?,
            Err(Error::NoNode(_)) => {
                let message = format!("there is no topic '{topic}'");
                return Err(AdminError::new(ErrorCode::UnknownTopicOrPartition, message));
            }
            Err(error) => return Err(error.into()),
        };
        if assignment.partitions.values().any(ReplicaAssignment::is_being_reassigned) {
            let message = format!("a reassignment of topic '{topic}' is running");
            return Err(AdminError::new(ErrorCode::ReassignmentInProgress, message));
        }
        let before = i32::try_from(assignment.partitions.len()).unwrap_or(i32::MAX);
        if count <= before {
            let message = format!("topic '{topic}' has {before} partitions, {count} are not more");
            return Err(AdminError::new(ErrorCode::InvalidPartitions, message));
        }
        let added = self.assign_added(&assignment, count, assignments)?;
        if validate_only {
            return Ok(());
        }
        mutations.record(added.len())?;
        assignment.partitions.extend((before..).zip(added.into_iter().map(ReplicaAssignment::from)));
        until_known(&*store, || store.set(&path, assignment.encode(), -1)).await?;
        Ok(())
    }

    /// Until every partition of `topic` below `count` has a leader in this broker's snapshot. False when `timeout_ms` ran
    /// out, or was not positive (then without a look, as in Kafka).
    pub async fn wait_for_leaders(&self, topic: &str, count: i32, timeout_ms: i32) -> bool {
        self.wait_until(timeout_ms, |snapshot| {
            let led = |index| Some(snapshot.partition(topic, index)?.leader != BrokerId::NONE);
            snapshot.topic(topic).is_some() && (0..count).all(|index| led(index).unwrap_or(false))
        })
        .await
    }

    /// Until `topic` is gone from this broker's snapshot, or its name is another topic's. False as in
    /// [`Admin::wait_for_leaders`].
    pub async fn wait_until_gone(&self, topic: &str, id: TopicId, timeout_ms: i32) -> bool {
        self.wait_until(timeout_ms, |snapshot| snapshot.topic(topic).is_none_or(|found| found.id != id)).await
    }

    /// Until `so` holds of this broker's snapshot. False when `timeout_ms` ran out, or was not positive (then without a look).
    pub async fn wait_until(&self, timeout_ms: i32, so: impl Fn(&Snapshot) -> bool) -> bool {
        if timeout_ms <= 0 {
            return false;
        }
        let mut changes = self.cluster.changes();
        let wait = async {
            while !so(&self.cluster.load()) {
                if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::time::timeout(Duration::from_millis(timeout_ms.unsigned_abs().into()), wait).await.is_ok()
    }

    /// An entity's overrides as they are stored now, which this broker may not have been told of yet.
    pub async fn overrides(&self, entity: &ConfigEntity) -> Result<BTreeMap<String, String>, AdminError> {
        let (store, path) = (self.session.store(), entity.path());
        match until_known(&*store, || store.get(&path)).await {
            Ok((bytes, _)) => match EntityConfig::decode(&path, &bytes) {
                Ok(config) => Ok(config.0),
                Err(malformed) => Err(AdminError::new(ErrorCode::UnknownServerError, malformed)),
            },
            Err(Error::NoNode(_)) => Ok(BTreeMap::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces a topic's overrides (already validated) and writes the change node.
    pub async fn set_topic_configs(&self, topic: &str, overrides: BTreeMap<String, String>) -> Result<(), AdminError> {
        self.change_config(&ConfigEntity::Topic(topic.to_owned()), overrides).await
    }

    /// `None` = the cluster-wide default entity.
    pub async fn set_broker_configs(
        &self,
        broker: Option<BrokerId>,
        overrides: BTreeMap<String, String>,
    ) -> Result<(), AdminError> {
        self.change_config(&ConfigEntity::Broker(broker), overrides).await
    }

    /// Users with a node below `/config/users`, by name. Some have overrides of their own, some only below a client id.
    pub async fn users(&self) -> Result<Vec<String>, AdminError> {
        let store = self.session.store();
        let mut names = until_known(&*store, || store.children(paths::CONFIG_USERS)).await?;
        names.retain(|name| name != paths::DEFAULT_ENTITY);
        let mut users: Vec<String> = names.iter().filter_map(|name| paths::desanitize(name)).collect();
        users.sort_unstable();
        Ok(users)
    }

    /// Replaces a user's overrides and writes the change node. The node of a user without any goes, unless there are
    /// client ids below it.
    pub async fn set_user_configs(&self, user: &str, overrides: BTreeMap<String, String>) -> Result<(), AdminError> {
        self.change_config(&ConfigEntity::User(EntityName::Named(user.to_owned())), overrides).await
    }

    fn assign(
        &self,
        snapshot: &Snapshot,
        num_partitions: i32,
        replication_factor: i16,
        given: BTreeMap<i32, Vec<BrokerId>>,
    ) -> Result<BTreeMap<i32, Vec<BrokerId>>, AdminError> {
        if !given.is_empty() {
            if num_partitions != -1 || replication_factor != -1 {
                let message = "a replica assignment leaves no room for partition count or replication factor";
                return Err(AdminError::new(ErrorCode::InvalidRequest, message));
            }
            return Ok(given);
        }
        let partitions = if num_partitions == -1 { self.config.num_partitions } else { num_partitions };
        let factor = match replication_factor {
            -1 => self.config.default_replication_factor,
            given => i32::from(given),
        };
        let candidates = candidates(snapshot);
        let start = Start::random(&*self.random, candidates.len());
        let placed = place(&candidates, at_least_zero(partitions), at_least_zero(factor), start)?;
        Ok((0..).zip(placed).collect())
    }

    /// Placed as if the topic had been made with all partitions at once, beginning at the first one's leader.
    fn assign_added(
        &self,
        before: &TopicAssignment,
        count: i32,
        given: Option<Vec<Vec<BrokerId>>>,
    ) -> Result<Vec<Vec<BrokerId>>, AdminError> {
        let refused = |message: String| Err(AdminError::new(ErrorCode::InvalidReplicaAssignment, message));
        let Some(first) = before.partitions.get(&0) else {
            return Err(AdminError::new(ErrorCode::UnknownServerError, "the topic has no partition 0"));
        };
        let candidates = candidates(&self.cluster.load());
        let added = at_least_zero(count) - before.partitions.len();
        let Some(given) = given else {
            let at = candidates.iter().position(|broker| Some(&broker.id) >= first.replicas.first()).unwrap_or(0);
            let start = Start { leader: at, shift: at, partition: before.partitions.len() };
            return Ok(place(&candidates, added, first.replicas.len(), start)?);
        };
        let unknown: BTreeSet<BrokerId> = given
            .iter()
            .flatten()
            .copied()
            .filter(|id| candidates.iter().all(|candidate| candidate.id != *id))
            .collect();
        if !unknown.is_empty() {
            return refused(format!("brokers in the assignment are not known: {}", list(&unknown)));
        }
        if given.len() != added {
            return refused(format!("{added} partitions are added, replicas are given for {}", given.len()));
        }
        for replicas in &given {
            if replicas.is_empty() {
                return refused("a partition without replicas".into());
            }
            if has_duplicates(replicas) {
                return refused(format!("a broker stands twice among replicas {}", list(replicas)));
            }
            if replicas.len() != first.replicas.len() {
                let (want, got) = (first.replicas.len(), replicas.len());
                return refused(format!("the topic has replication factor {want}, replicas {got} are given"));
            }
        }
        Ok(given)
    }

    async fn validate(
        &self,
        store: &dyn Metastore,
        name: &str,
        assignment: &BTreeMap<i32, Vec<BrokerId>>,
        overrides: &BTreeMap<String, String>,
    ) -> Result<(), AdminError> {
        let invalid_topic = |message: String| Err(AdminError::new(ErrorCode::InvalidTopicException, message));
        if let Err(error) = topic_names::validate(name) {
            return invalid_topic(error.to_string());
        }
        let marked = paths::delete_topic(name);
        if until_known(store, || store.exists(&marked)).await?.is_some() {
            let message = format!("topic '{name}' is being deleted");
            return Err(AdminError::new(ErrorCode::TopicAlreadyExists, message));
        }
        let path = paths::topic(name);
        if until_known(store, || store.exists(&path)).await?.is_some() {
            return Err(exists(name));
        }
        if name.contains(['.', '_']) {
            let all = until_known(store, || store.children(paths::TOPICS)).await?;
            if let Some(other) = all.iter().find(|other| topic_names::clash(name, other)) {
                return invalid_topic(format!("topic '{name}' would be taken for '{other}' in metric names"));
            }
        }
        let bad_assignment = |message: String| Err(AdminError::new(ErrorCode::InvalidReplicaAssignment, message));
        if assignment.values().map(Vec::len).collect::<BTreeSet<_>>().len() != 1 {
            return bad_assignment("partitions differ in their number of replicas".into());
        }
        if let Some(replicas) = assignment.values().find(|replicas| has_duplicates(replicas)) {
            return bad_assignment(format!("a broker stands twice among replicas {}", list(replicas)));
        }
        if !assignment.keys().copied().eq((0..).take(assignment.len())) {
            return bad_assignment("partitions are not numbered 0, 1, 2 and so on".into());
        }
        let defaults = self.configs.load().topic_defaults(&self.config, self.broker);
        if let Err(error) = TopicConfig::resolve(&defaults, overrides) {
            return Err(AdminError::new(ErrorCode::InvalidConfig, error));
        }
        Ok(())
    }

    /// The config node, then the topic node, in one transaction (Kafka makes them one after the other). No change node:
    /// who hosts the topic reads its configuration first.
    async fn write_topic(
        &self,
        store: &dyn Metastore,
        name: &str,
        assignment: BTreeMap<i32, Vec<BrokerId>>,
        overrides: &BTreeMap<String, String>,
    ) -> Result<TopicId, AdminError> {
        let id = self.random.topic_id();
        let partitions =
            assignment.into_iter().map(|(index, replicas)| (index, ReplicaAssignment::from(replicas))).collect();
        let data = TopicAssignment { id: Some(id), partitions }.encode();
        let path = paths::topic(name);
        let config_path = ConfigEntity::Topic(name.to_owned()).path();
        let config = EntityConfig(overrides.clone()).encode();
        let (mut left_over, mut tried) = (false, false);
        loop {
            let check = self.controller_check(store).await?;
            let write_config = match left_over {
                false => {
                    let mode = CreateMode::Persistent;
                    Op::Create { path: config_path.clone(), data: Some(config.clone()), mode }
                }
                true => Op::Set { path: config_path.clone(), data: config.clone(), version: -1 },
            };
            let create = Op::Create { path: path.clone(), data: Some(data.clone()), mode: CreateMode::Persistent };
            match store.multi(vec![check, write_config, create]).await.map_err(|failed| (failed.index, failed.error)) {
                Ok(_) => return Ok(id),
                Err((_, Error::Unknown)) => {
                    tried = true;
                    crate::cluster::settle(store).await;
                }
                // The controller changed: look again.
                Err((0, Error::NoNode(_) | Error::BadVersion(_))) => {}
                Err((1, Error::NodeExists(_))) => left_over = true,
                Err((1, Error::NoNode(_))) => {
                    left_over = false;
                    ensure_parent(store, &config_path).await?;
                }
                Err((2, Error::NodeExists(_))) => {
                    // After a lost reply it may be ours: the id is random.
                    let ours = tried && until_known(store, || store.get(&path)).await.is_ok_and(|(is, _)| is == data);
                    return if ours { Ok(id) } else { Err(exists(name)) };
                }
                Err((_, error)) => return Err(error.into()),
            }
        }
    }

    async fn change_config(
        &self,
        entity: &ConfigEntity,
        overrides: BTreeMap<String, String>,
    ) -> Result<(), AdminError> {
        let store = self.session.store();
        if !(overrides.is_empty() && quotas::forget(&*store, entity).await?) {
            self.write_config(&*store, entity, &overrides).await?;
        }
        self.announce(&*store, entity).await
    }

    /// Tells every broker to read the entity again.
    async fn announce(&self, store: &dyn Metastore, entity: &ConfigEntity) -> Result<(), AdminError> {
        ensure_path(store, paths::CONFIG_CHANGES).await?;
        // Twice, after a lost reply, does no harm: it says what to read, not what to do.
        let change = ConfigChange(entity.clone()).encode();
        let path = paths::new_config_change();
        until_known(store, || store.create(&path, Some(change.clone()), CreateMode::PersistentSequential)).await?;
        Ok(())
    }

    /// Sets the config node, or creates it, while the controller is a ZooKeeper-mode one; the last writer wins.
    async fn write_config(
        &self,
        store: &dyn Metastore,
        entity: &ConfigEntity,
        overrides: &BTreeMap<String, String>,
    ) -> Result<(), AdminError> {
        let path = entity.path();
        let data = EntityConfig(overrides.clone()).encode();
        loop {
            let check = self.controller_check(store).await?;
            let set = Op::Set { path: path.clone(), data: data.clone(), version: -1 };
            match store.multi(vec![check, set]).await.map_err(|failed| (failed.index, failed.error)) {
                Ok(_) => return Ok(()),
                Err((1, Error::NoNode(_))) => {}
                Err((_, Error::Unknown)) => {
                    crate::cluster::settle(store).await;
                    continue;
                }
                // The controller changed: look again.
                Err((0, Error::NoNode(_) | Error::BadVersion(_))) => continue,
                Err((_, error)) => return Err(error.into()),
            }
            match until_known(store, || store.create(&path, Some(data.clone()), CreateMode::Persistent)).await {
                Ok(_) => return Ok(()),
                Err(Error::NodeExists(_)) => {}
                Err(Error::NoNode(_)) => ensure_parent(store, &path).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Fails a transaction once another controller than now is in office. That must be a ZooKeeper-mode one.
    async fn controller_check(&self, store: &dyn Metastore) -> Result<Op, AdminError> {
        let (holder, stat) = match until_known(store, || store.get(paths::CONTROLLER)).await {
            Ok((holder, stat)) => (Controller::decode(paths::CONTROLLER, &holder), stat),
            Err(Error::NoNode(_)) => {
                return Err(AdminError::new(ErrorCode::StaleControllerEpoch, "there is no controller now"));
            }
            Err(error) => return Err(error.into()),
        };
        if holder.is_ok_and(|holder| holder.kraft_controller_epoch > 0) {
            let message = "a KRaft controller has taken the cluster over";
            return Err(AdminError::new(ErrorCode::StaleControllerEpoch, message));
        }
        Ok(Op::Check { path: paths::CONTROLLER.into(), version: stat.version })
    }
}

/// Makes the node a config node lies below.
async fn ensure_parent(store: &dyn Metastore, path: &str) -> Result<(), Error> {
    let parent = path.rsplit_once('/').map_or("/config", |(parent, _)| parent);
    ensure_path(store, parent).await
}

fn exists(name: &str) -> AdminError {
    AdminError::new(ErrorCode::TopicAlreadyExists, format!("topic '{name}' already exists"))
}

/// Live brokers, by id.
fn candidates(snapshot: &Snapshot) -> Vec<Candidate> {
    let candidate =
        |broker: &crate::cluster::Broker| Candidate { id: broker.id, rack: broker.rack.as_deref().map(str::to_owned) };
    snapshot.brokers.values().map(candidate).collect()
}

fn at_least_zero(count: i32) -> usize {
    usize::try_from(count).unwrap_or(0)
}

fn has_duplicates(replicas: &[BrokerId]) -> bool {
    replicas.iter().collect::<BTreeSet<_>>().len() != replicas.len()
}

fn list<'a>(ids: impl IntoIterator<Item = &'a BrokerId>) -> String {
    ids.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Shared by the handlers.
pub type SharedAdmin = Arc<Admin>;
