//! Whether partitions are part of the producer's transaction: what the coordinator is asked, and what comes of its answer.
//! Kafka's `ReplicaManager.handleProduceAppend`.

use kafka_protocol::protocol::StrBytes;

use super::batch::{self, Producer};
use super::{failed, failed_because, records_of};
use crate::api::context::RequestContext;
use crate::cluster::Snapshot;
use crate::storage::log::{Verification, VerificationGuard};
use crate::types::TopicPartition;
use crate::wire::error_code::ErrorCode;
use crate::wire::produce::{PartitionResponse, ProduceRequest};

/// The first version whose clients know TRANSACTION_ABORTABLE.
const FIRST_WITH_ABORTABLE: i16 = 11;

/// One request to the coordinator.
pub struct Questions {
    transactional_id: StrBytes,
    producer: Producer,
    partitions: Vec<Question>,
}

struct Question {
    /// Index into the request's partitions.
    at: usize,
    partition: TopicPartition,
    guard: VerificationGuard,
}

/// What is known of a request's partitions, by index. Those that need no verdict have none.
#[derive(Default)]
pub struct Verdicts {
    /// The request is transactional and `transaction.partition.verification.enable` is set.
    asked_for: bool,
    version: i16,
    known: Vec<(usize, Result<VerificationGuard, PartitionResponse>)>,
}

impl Verdicts {
    pub fn new(ctx: &RequestContext<'_>, request: &ProduceRequest) -> Verdicts {
        let asked_for = request.transactional_id.is_some()
            && ctx.services.configs.broker().transaction_partition_verification_enable;
        Verdicts { asked_for, version: ctx.version(), known: Vec::new() }
    }

    pub fn are_asked_for(&self) -> bool {
        self.asked_for
    }

    /// What the log is shown for a partition, or why it is not even asked.
    pub fn of(&self, at: usize) -> Result<Verification, PartitionResponse> {
        if !self.asked_for {
            return Ok(Verification::NotAsked);
        }
        match self.known.iter().find(|(index, _)| *index == at) {
            None => Ok(Verification::Required(None)),
            Some((_, Ok(guard))) => Ok(Verification::Required(Some(*guard))),
            Some((_, Err(refused))) => Err(refused.clone()),
        }
    }

    /// Begins to verify every partition in which a transaction begins. Refuses the whole request when it has several
    /// producers.
    pub fn questions(
        &mut self,
        ctx: &RequestContext<'_>,
        request: &ProduceRequest,
        frame: &[u8],
        snapshot: &Snapshot,
    ) -> Result<Option<Questions>, PartitionResponse> {
        let mut first: Option<Producer> = None;
        let mut begun = Vec::new();
        for (at, data) in request.partitions.iter().enumerate() {
            let (topic, records) = (data.topic(frame), records_of(data, frame));
            let counts = snapshot.partition(topic, data.index).is_some();
            let transactional =
                batch::only(records, self.version).is_ok_and(|first| first.is_transactional && first.has_producer);
            let Some(producer) = batch::producer(records).filter(|_| counts && transactional) else { continue };
            let same = |first: Producer| (first.id, first.epoch) == (producer.id, producer.epoch);
            if !first.is_none_or(same) {
                let why = "the transactional records are of several producers".to_owned();
                return Err(failed_because(ErrorCode::InvalidProducerIdMapping, why));
            }
            first.get_or_insert(producer);
            begun.push((at, TopicPartition::new(topic, data.index), producer.base_sequence));
        }
        let (Some(producer), Some(id)) = (first, request.transactional_id.clone()) else { return Ok(None) };
        let now_ms = ctx.services.clock.wall_ms();
        let mut partitions = Vec::new();
        for (at, partition, sequence) in begun {
            let led = ctx.services.partitions.get(&partition.topic, partition.partition);
            let led = led.ok_or(ErrorCode::NotLeaderOrFollower);
            match led.and_then(|led| led.begin_verification(producer.id, producer.epoch, sequence, now_ms)) {
                Ok(Some(guard)) => partitions.push(Question { at, partition, guard }),
                Ok(None) => {}
                Err(code) => self.known.push((at, Err(refused(code)))),
            }
        }
        let transactional_id = StrBytes::from_string(id);
        Ok((!partitions.is_empty()).then_some(Questions { transactional_id, producer, partitions }))
    }

    pub async fn ask(&mut self, ctx: &RequestContext<'_>, questions: Questions) {
        let Questions { transactional_id, producer, partitions } = questions;
        let named = partitions.iter().map(|question| question.partition.clone()).collect();
        let codes = ctx.services.transactions.verify(&transactional_id, producer.id, producer.epoch, named).await;
        for (question, code) in partitions.into_iter().zip(codes) {
            let verdict = match code {
                ErrorCode::None => Ok(question.guard),
                ErrorCode::TransactionAbortable if self.version < FIRST_WITH_ABORTABLE => {
                    Err(refused(ErrorCode::InvalidTxnState))
                }
                code => Err(refused(code)),
            };
            self.known.push((question.at, verdict));
        }
    }
}

/// What a client is told. What passes by itself is NOT_ENOUGH_REPLICAS: every client tries again then, without asking for
/// metadata.
fn refused(code: ErrorCode) -> PartitionResponse {
    match code {
        ErrorCode::InvalidTxnState => failed_because(code, "the partition was not added to the transaction".to_owned()),
        ErrorCode::ConcurrentTransactions
        | ErrorCode::NetworkException
        | ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::CoordinatorNotAvailable
        | ErrorCode::NotCoordinator => {
            let why = format!("the partition could not be verified to be part of the transaction: {code}");
            failed_because(ErrorCode::NotEnoughReplicas, why)
        }
        code => failed(code),
    }
}
