//! Asks the coordinators of transactions whether a partition is part of one, before its first batch is appended (KIP-890):
//! AddPartitionsToTxn with verify-only, which brokers have since 3.5. One that is older is believed unasked.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kafka_protocol::messages::add_partitions_to_txn_request::{AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction};
use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, ApiVersionsRequest, ProducerId, TopicName, TransactionalId,
};
use kafka_protocol::protocol::StrBytes;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::cluster::internal_topics::TRANSACTION_STATE;
use crate::cluster::peer::Connector;
use crate::cluster::{Cluster, Conversation};
use crate::config::BrokerConfig;
use crate::coordinator::couriers::{Carrier, Couriers, Line, connect};
use crate::spawn::{Shutdown, Spawner};
use crate::types::{BrokerId, TopicPartition};
use crate::wire::api_versions::ApiKey;
use crate::wire::error_code::ErrorCode;

/// The first version that says verify-only.
const FIRST: i16 = 4;
const NEWEST: i16 = 5;
/// Of the ApiVersions in front.
const API_VERSIONS: i16 = 3;

pub(super) struct Surroundings {
    pub broker: BrokerId,
    pub config: Arc<BrokerConfig>,
    pub cluster: Arc<Cluster>,
    pub connector: Arc<dyn Connector>,
    pub spawner: Arc<dyn Spawner>,
    pub shutdown: Shutdown,
}

type Told = Result<Vec<ErrorCode>, ErrorCode>;

/// One question.
struct Question {
    transactional_id: StrBytes,
    producer_id: i64,
    producer_epoch: i16,
    partitions: Vec<TopicPartition>,
    told: oneshot::Sender<Told>,
}

pub(super) struct Verifier {
    lines: Arc<Lines>,
    couriers: Couriers<Question>,
}

struct Lines {
    broker: BrokerId,
    config: Arc<BrokerConfig>,
    cluster: Arc<Cluster>,
    connector: Arc<dyn Connector>,
}

impl Verifier {
    pub fn new(around: Surroundings) -> Verifier {
        let Surroundings { broker, config, cluster, connector, spawner, shutdown } = around;
        let lines = Arc::new(Lines { broker, config, cluster, connector });
        Verifier { couriers: Couriers::new(lines.clone(), spawner, shutdown), lines }
    }

    /// This broker.
    pub fn broker(&self) -> BrokerId {
        self.lines.broker
    }

    /// Who coordinates what lives in `partition`.
    pub fn coordinator(&self, partition: i32) -> Option<BrokerId> {
        let snapshot = self.lines.cluster.load();
        let leader = snapshot.partition(TRANSACTION_STATE, partition)?.leader;
        snapshot.endpoint(leader, &self.lines.config.inter_broker_listener_name).map(|_| leader)
    }

    /// A code for each partition, or one for all.
    pub async fn ask(
        &self,
        coordinator: BrokerId,
        transactional_id: &str,
        producer_id: i64,
        producer_epoch: i16,
        partitions: Vec<TopicPartition>,
    ) -> Told {
        let (told, answer) = oneshot::channel();
        let transactional_id = StrBytes::from_string(transactional_id.to_owned());
        self.couriers.send(coordinator, Question { transactional_id, producer_id, producer_epoch, partitions, told });
        answer.await.unwrap_or(Err(ErrorCode::NetworkException))
    }
}

#[async_trait]
impl Carrier<Question> for Lines {
    async fn carry(&self, to: BrokerId, line: &mut Option<Line>, mut questions: Vec<Question>) {
        // A request names a transactional id once.
        while !questions.is_empty() {
            let mut named = HashSet::new();
            let (now, later): (Vec<_>, Vec<_>) =
                questions.into_iter().partition(|question| named.insert(question.transactional_id.clone()));
            self.ask(to, line, now).await;
            questions = later;
        }
    }
}

impl Lines {
    async fn ask(&self, to: BrokerId, line: &mut Option<Line>, questions: Vec<Question>) {
        let wait_ms = u64::try_from(self.config.request_timeout_ms).unwrap_or(0);
        let asked = timeout(Duration::from_millis(wait_ms), self.asked(to, line, &questions)).await;
        let answer = asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        if let Err(error) = &answer {
            *line = None;
            tracing::warn!(broker = %to, %error, "transactions are not verified: their coordinator does not answer");
        }
        for question in questions {
            let told = match &answer {
                Err(_) => Err(ErrorCode::NetworkException),
                Ok(None) => Ok(vec![ErrorCode::None; question.partitions.len()]),
                Ok(Some(answer)) => codes(answer, &question),
            };
            // Whoever asked may be gone.
            let _ = question.told.send(told);
        }
    }

    /// `None` from a broker that does not know the question.
    async fn asked(
        &self,
        to: BrokerId,
        line: &mut Option<Line>,
        questions: &[Question],
    ) -> io::Result<Option<AddPartitionsToTxnResponse>> {
        let line = match line {
            Some(line) => line,
            None => line.insert(self.connect(to).await?),
        };
        if line.version < FIRST {
            return Ok(None);
        }
        let transactions = questions.iter().map(transaction).collect();
        let request = AddPartitionsToTxnRequest::default().with_transactions(transactions);
        line.talk.ask(line.version, &request).await.map(Some)
    }

    async fn connect(&self, to: BrokerId) -> io::Result<Line> {
        let listener = &*self.config.inter_broker_listener_name;
        let link = connect(&self.cluster, &*self.connector, to, listener).await?;
        let mut talk = Conversation::new(link, format!("AddPartitionsManager-client-{}", self.broker).into());
        let software = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str("klamm"))
            .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        let known = talk.ask(API_VERSIONS, &software).await?;
        let range = known.api_keys.iter().find(|range| range.api_key == ApiKey::AddPartitionsToTxn.code());
        let version = range.map_or(-1, |range| range.max_version.min(NEWEST));
        if version < FIRST {
            tracing::warn!(broker = %to, "a coordinator of before 3.5 cannot be asked about transactions: they go unverified");
        }
        Ok(Line { talk, version })
    }
}

fn transaction(question: &Question) -> AddPartitionsToTxnTransaction {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for at in &question.partitions {
        topics.entry(&at.topic).or_default().push(at.partition);
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        AddPartitionsToTxnTopic::default()
            .with_name(TopicName(StrBytes::from_string(name.to_owned())))
            .with_partitions(partitions)
    });
    AddPartitionsToTxnTransaction::default()
        .with_transactional_id(TransactionalId(question.transactional_id.clone()))
        .with_producer_id(ProducerId(question.producer_id))
        .with_producer_epoch(question.producer_epoch)
        .with_verify_only(true)
        .with_topics(topics.collect())
}

/// For each partition, in order. One that is not answered was not verified.
fn codes(answer: &AddPartitionsToTxnResponse, question: &Question) -> Told {
    match ErrorCode::answered(answer.error_code) {
        ErrorCode::None => {}
        // That this broker may not ask is no business of the client's.
        ErrorCode::ClusterAuthorizationFailed => return Err(ErrorCode::InvalidTxnState),
        code => return Err(code),
    }
    let mut told: BTreeMap<(&str, i32), ErrorCode> = BTreeMap::new();
    let results = answer.results_by_transaction.iter();
    for result in results.filter(|result| result.transactional_id.0 == question.transactional_id) {
        for topic in &result.topic_results {
            for partition in &topic.results_by_partition {
                let code = ErrorCode::answered(partition.partition_error_code);
                told.insert((topic.name.as_str(), partition.partition_index), code);
            }
        }
    }
    let code = |at: &TopicPartition| told.get(&(&*at.topic, at.partition)).copied();
    Ok(question.partitions.iter().map(|at| code(at).unwrap_or(ErrorCode::NetworkException)).collect())
}
