//! The transactional ids this broker coordinates: one [`Transactions`] for each partition of `__transaction_state` that it
//! leads. And what leaders of other partitions have to do with coordinators: they ask whether a transaction is open.

mod sender;
mod verifier;

use std::sync::Arc;

use super::cores::{Now, RequestId};
use super::markers::MarkerWriter;
use super::shard::{Phase, Shard};
use super::shards::{Around, Chore, Shards, Topic};
use super::transaction::{
    AddPartitions, Answer, Described, End, Filter, Init, Listed, Loading, Marking, Settings, Transactions,
};
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::cluster::internal_topics::TRANSACTION_STATE;
use crate::cluster::peer::Connector;
use crate::config::BrokerConfig;
use crate::replication::partition::Partition;
use crate::replication::table::Leadership;
use crate::spawn::{Shutdown, Spawner};
use crate::types::{Acks, BrokerId, LeaderEpoch, TopicPartition};
use crate::wire::compression::Codec;
use crate::wire::error_code::ErrorCode;

use sender::MarkerSender;
use verifier::Verifier;

/// What the coordinator runs on.
pub struct Surroundings {
    pub broker: BrokerId,
    pub config: Arc<BrokerConfig>,
    pub cluster: Arc<Cluster>,
    pub connector: Arc<dyn Connector>,
    /// For markers of partitions led here.
    pub writer: MarkerWriter,
    pub clock: Arc<dyn Clock>,
    pub spawner: Arc<dyn Spawner>,
    pub shutdown: Shutdown,
}

/// Kafka's `TransactionCoordinator`, `TransactionStateManager`, `TransactionMarkerChannelManager` and
/// `AddPartitionsToTxnManager`.
pub struct TransactionCoordinator {
    shards: Arc<Shards<TransactionState>>,
    verifier: Verifier,
}

/// `__transaction_state`.
struct TransactionState {
    config: Arc<BrokerConfig>,
    sender: Arc<MarkerSender>,
}

impl Topic for TransactionState {
    type Core = Transactions;
    type Loading = Loading;
    const NAME: &'static str = TRANSACTION_STATE;
    const HOLDS: &'static str = "transactions";

    fn partitions(&self) -> i32 {
        self.config.transaction.state_log_num_partitions
    }

    fn load_buffer(&self) -> i32 {
        self.config.transaction.state_log_load_buffer_size
    }

    fn codec(&self) -> Codec {
        Codec::None
    }

    fn acks(&self) -> Acks {
        Acks::All
    }

    fn timeout_ms(&self) -> i32 {
        self.config.request_timeout_ms
    }

    fn chores(&self) -> Vec<Chore<Transactions>> {
        let config = &self.config.transaction;
        vec![
            (config.abort_timed_out_transaction_cleanup_interval_ms.into(), Transactions::abort_timed_out),
            (config.remove_expired_transaction_cleanup_interval_ms.into(), Transactions::expire),
        ]
    }

    fn loaded(&self, loading: Loading, now: Now, epoch: LeaderEpoch) -> Transactions {
        let id_expiration_ms = self.config.transaction.transactional_id_expiration_ms.into();
        loading.finish(now, Settings { id_expiration_ms }, epoch.0)
    }

    fn perform(&self, shard: &Arc<Shard<Transactions>>, marking: Marking) {
        self.sender.send(shard, marking);
    }
}

impl TransactionCoordinator {
    pub fn new(around: Surroundings) -> Arc<TransactionCoordinator> {
        let Surroundings { broker, config, cluster, connector, writer, clock, spawner, shutdown } = around;
        let sender = MarkerSender::new(sender::Surroundings {
            broker,
            config: config.clone(),
            cluster: cluster.clone(),
            connector: connector.clone(),
            writer,
            spawner: spawner.clone(),
            shutdown: shutdown.clone(),
        });
        let verifier = Verifier::new(verifier::Surroundings {
            broker,
            config: config.clone(),
            cluster: cluster.clone(),
            connector,
            spawner: spawner.clone(),
            shutdown: shutdown.clone(),
        });
        let topic = TransactionState { config, sender: sender.clone() };
        let shards = Shards::new(Around { cluster, clock, spawner, shutdown }, topic);
        sender.report_to(&shards);
        Arc::new(TransactionCoordinator { shards, verifier })
    }

    /// Starts the timer of all transactions.
    pub fn start(&self) {
        self.shards.start();
    }

    /// The partition that `transactional_id` lives in.
    pub fn partition_of(&self, transactional_id: &str) -> i32 {
        self.shards.partition_of(transactional_id)
    }

    /// Id and epoch for a producer. `fresh` makes an id that nobody had.
    pub async fn init(
        &self,
        init: Init,
        fresh: impl FnOnce() -> Result<i64, ErrorCode>,
    ) -> Result<(i64, i16), ErrorCode> {
        let id = init.transactional_id.clone();
        let step = |transactions: &mut Transactions, now, request| {
            transactions.init(now, Init { request, ..init }, fresh);
        };
        match self.shards.ask(&id, step).await? {
            Answer::Initialized(outcome) => outcome,
            Answer::Done(_) => Err(ErrorCode::UnknownServerError),
        }
    }

    pub async fn add_partitions(&self, add: AddPartitions) -> ErrorCode {
        let id = add.transactional_id.clone();
        self.done(&id, |transactions, now, request| {
            transactions.add_partitions(now, AddPartitions { request, ..add });
        })
        .await
    }

    pub async fn end(&self, end: End) -> ErrorCode {
        let id = end.transactional_id.clone();
        self.done(&id, |transactions, now, request| transactions.end(now, End { request, ..end })).await
    }

    async fn done(&self, id: &str, step: impl FnOnce(&mut Transactions, Now, RequestId)) -> ErrorCode {
        match self.shards.ask(id, step).await {
            Ok(Answer::Done(error)) | Err(error) => error,
            Ok(Answer::Initialized(_)) => ErrorCode::UnknownServerError,
        }
    }

    /// Whether partitions are in a transaction that is coordinated here: a code for each, or one for all.
    pub fn verify_here(
        &self,
        transactional_id: &str,
        producer_id: i64,
        producer_epoch: i16,
        partitions: &[TopicPartition],
    ) -> Result<Vec<ErrorCode>, ErrorCode> {
        self.shards.with(transactional_id, |transactions, _| {
            transactions.verify(transactional_id, producer_id, producer_epoch, partitions)
        })?
    }

    /// Whether partitions are in a transaction, as its coordinator says, wherever that is: a code for each.
    ///
    /// PRODUCER_FENCED is told as INVALID_PRODUCER_EPOCH, which is what producers understand. NETWORK_EXCEPTION when the
    /// coordinator did not answer, COORDINATOR_NOT_AVAILABLE when there is none.
    pub async fn verify(
        &self,
        transactional_id: &str,
        producer_id: i64,
        producer_epoch: i16,
        partitions: Vec<TopicPartition>,
    ) -> Vec<ErrorCode> {
        let count = partitions.len();
        let told = match self.verifier.coordinator(self.partition_of(transactional_id)) {
            None => Err(ErrorCode::CoordinatorNotAvailable),
            Some(broker) if broker == self.verifier.broker() => {
                self.verify_here(transactional_id, producer_id, producer_epoch, &partitions)
            }
            Some(broker) => self.verifier.ask(broker, transactional_id, producer_id, producer_epoch, partitions).await,
        };
        let mut codes = told.unwrap_or_else(|code| vec![code; count]);
        for code in &mut codes {
            if *code == ErrorCode::ProducerFenced {
                *code = ErrorCode::InvalidProducerEpoch;
            }
        }
        codes
    }

    /// TRANSACTIONAL_ID_NOT_FOUND; else as every other step.
    pub fn describe(&self, transactional_id: &str) -> Result<Described, ErrorCode> {
        let described = self.shards.with(transactional_id, |transactions, _| transactions.describe(transactional_id));
        described?.ok_or(ErrorCode::TransactionalIdNotFound)
    }

    /// All that are coordinated here; COORDINATOR_LOAD_IN_PROGRESS when some are still being loaded.
    pub fn list(&self, filter: &Filter) -> Result<Vec<Listed>, ErrorCode> {
        let now = self.shards.now();
        let mut listed = Vec::new();
        for shard in self.shards.all() {
            match &shard.state.lock().phase {
                Phase::Active(transactions) => listed.extend(transactions.list(now, filter)),
                Phase::Loading => return Err(ErrorCode::CoordinatorLoadInProgress),
                Phase::Gone(_) => {}
            }
        }
        Ok(listed)
    }
}

impl Leadership for TransactionCoordinator {
    fn leads(&self, partition: &Arc<Partition>, epoch: LeaderEpoch) {
        self.shards.leads(partition, epoch);
    }

    fn resigned(&self, tp: &TopicPartition, epoch: LeaderEpoch) {
        self.shards.resigned(tp, epoch);
    }
}
