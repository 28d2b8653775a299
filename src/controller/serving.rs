//! What brokers ask the controller, answered by this one if it is the active controller.

use std::sync::{Arc, OnceLock};

use kafka_protocol::messages::controlled_shutdown_response::RemainingPartition;
use kafka_protocol::messages::{
    AllocateProducerIdsRequest, AllocateProducerIdsResponse, AlterPartitionRequest, AlterPartitionResponse,
    ControlledShutdownRequest, ControlledShutdownResponse, ProducerId, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use super::ControllerHandle;
use super::producer_ids::take_block;
use super::rpc::alter_partition;
use crate::cluster::{Cluster, Session};
use crate::metastore::schema::ProducerIdBlock;
use crate::types::BrokerId;
use crate::wire::error_code::ErrorCode;

/// The controller of this broker, as other brokers speak to it.
pub struct Serving {
    cluster: Arc<Cluster>,
    session: Arc<Session>,
    /// Set when it runs.
    controller: OnceLock<ControllerHandle>,
}

impl Serving {
    pub fn new(cluster: Arc<Cluster>, session: Arc<Session>) -> Serving {
        Serving { cluster, session, controller: OnceLock::new() }
    }

    /// From now on `controller` answers. The first one stays.
    pub fn begin(&self, controller: ControllerHandle) {
        let _ = self.controller.set(controller);
    }

    /// The active controller.
    fn active(&self) -> Option<&ControllerHandle> {
        self.controller.get().filter(|controller| controller.is_active())
    }

    pub fn is_active(&self) -> bool {
        self.active().is_some()
    }

    /// NOT_CONTROLLER, STALE_BROKER_EPOCH, else an outcome per partition.
    pub async fn alter_partition(&self, request: &AlterPartitionRequest, version: i16) -> AlterPartitionResponse {
        let outcome = match self.active() {
            Some(controller) => {
                let asked = alter_partition::read(request, version);
                controller.questions().alter_partition(asked).await.unwrap_or(Err(ErrorCode::NotController))
            }
            None => Err(ErrorCode::NotController),
        };
        alter_partition::response(outcome, request, version)
    }

    /// STALE_CONTROLLER_EPOCH from who is not the active controller; else what the broker still leads.
    pub async fn controlled_shutdown(&self, request: &ControlledShutdownRequest) -> ControlledShutdownResponse {
        let refused = |code: ErrorCode| ControlledShutdownResponse::default().with_error_code(code.code());
        let Some(controller) = self.active() else { return refused(ErrorCode::StaleControllerEpoch) };
        // Versions 0 and 1 carry none.
        let epoch = Some(request.broker_epoch).filter(|epoch| *epoch >= 0);
        match controller.questions().controlled_shutdown(BrokerId(request.broker_id.0), epoch).await {
            Ok(Ok(led)) => {
                let remaining = led.iter().map(|tp| {
                    RemainingPartition::default()
                        .with_topic_name(TopicName(StrBytes::from_string(tp.topic.to_string())))
                        .with_partition_index(tp.partition)
                });
                ControlledShutdownResponse::default().with_remaining_partitions(remaining.collect())
            }
            Ok(Err(code)) => refused(code),
            Err(_) => refused(ErrorCode::StaleControllerEpoch),
        }
    }

    /// First failing check wins: NOT_CONTROLLER → BROKER_ID_NOT_REGISTERED → STALE_BROKER_EPOCH (another epoch than that of
    /// the broker's registration). UNKNOWN_SERVER_ERROR when no block could be taken.
    pub async fn allocate_producer_ids(&self, request: &AllocateProducerIdsRequest) -> AllocateProducerIdsResponse {
        let answer = AllocateProducerIdsResponse::default();
        match self.allocate(request).await {
            Ok(block) => answer
                .with_producer_id_start(ProducerId(block.first))
                .with_producer_id_len(i32::try_from(block.last - block.first + 1).unwrap_or(i32::MAX)),
            Err(code) => answer.with_error_code(code.code()),
        }
    }

    async fn allocate(&self, request: &AllocateProducerIdsRequest) -> Result<ProducerIdBlock, ErrorCode> {
        if !self.is_active() {
            return Err(ErrorCode::NotController);
        }
        let broker = BrokerId(request.broker_id.0);
        let epoch = self.cluster.load().brokers.get(&broker).map(|broker| broker.epoch);
        if epoch.ok_or(ErrorCode::BrokerIdNotRegistered)? != request.broker_epoch {
            return Err(ErrorCode::StaleBrokerEpoch);
        }
        take_block(&*self.session.store(), broker).await.map_err(|error| {
            tracing::error!(%broker, %error, "no block of producer ids");
            ErrorCode::UnknownServerError
        })
    }
}
