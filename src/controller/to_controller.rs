//! Requests of this broker to the active controller: within the process when it is this one, else over a connection to
//! where the metadata says it is. Each API has a connection of its own, as Kafka's `NodeToControllerChannelManager`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kafka_protocol::messages::{
    AllocateProducerIdsRequest, AllocateProducerIdsResponse, AlterPartitionRequest, AlterPartitionResponse,
};
use kafka_protocol::protocol::Request;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::rpc::alter_partition;
use super::serving::Serving;
use crate::cluster::peer::{Connector, ToController};
use crate::cluster::{Cluster, Conversation};
use crate::config::BrokerConfig;
use crate::types::BrokerId;

/// The one version of AllocateProducerIds.
const ALLOCATE_PRODUCER_IDS: i16 = 0;

/// A connection to the controller that was last spoken to.
type Line = Mutex<Option<(BrokerId, Conversation)>>;

/// What the way to the controller is made of.
pub struct ControllerChannel {
    broker: BrokerId,
    serving: Arc<Serving>,
    cluster: Arc<Cluster>,
    connector: Arc<dyn Connector>,
    config: Arc<BrokerConfig>,
    alter_partition: Line,
    allocate_producer_ids: Line,
}

impl ControllerChannel {
    pub fn new(
        broker: BrokerId,
        serving: Arc<Serving>,
        cluster: Arc<Cluster>,
        connector: Arc<dyn Connector>,
        config: Arc<BrokerConfig>,
    ) -> ControllerChannel {
        ControllerChannel {
            broker,
            serving,
            cluster,
            connector,
            config,
            alter_partition: Line::default(),
            allocate_producer_ids: Line::default(),
        }
    }

    /// Gives up after `controller.socket.timeout.ms`, and when another controller is heard of.
    async fn ask<R: Request>(&self, line: &Line, version: i16, request: &R) -> io::Result<R::Response> {
        let mut line = line.lock().await;
        let mut changes = self.cluster.changes();
        let Some(controller) = self.cluster.load().controller else {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "no controller is known"));
        };
        let patience =
            Duration::from_millis(self.config.replication.controller_socket_timeout_ms.unsigned_abs().into());
        let moved = async {
            while self.cluster.load().controller == Some(controller) {
                if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let answer = tokio::select! {
            answer = timeout(patience, self.ask_at(controller, &mut line, version, request)) => {
                answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            }
            () = moved => Err(io::Error::new(io::ErrorKind::ConnectionAborted, "another controller was elected")),
        };
        if answer.is_err() {
            *line = None;
        }
        answer
    }

    async fn ask_at<R: Request>(
        &self,
        controller: BrokerId,
        line: &mut Option<(BrokerId, Conversation)>,
        version: i16,
        request: &R,
    ) -> io::Result<R::Response> {
        let talk = match line {
            Some((to, talk)) if *to == controller => talk,
            _ => {
                let listener = self.config.control_plane_listener_name.as_ref();
                let listener = listener.unwrap_or(&self.config.inter_broker_listener_name);
                let at =
                    self.cluster.load().brokers.get(&controller).and_then(|it| it.endpoints.get(listener).cloned());
                let unknown = || {
                    let text = format!("controller {controller} has no listener {listener}");
                    io::Error::new(io::ErrorKind::NotFound, text)
                };
                let link = self.connector.connect(&at.ok_or_else(unknown)?).await?;
                let talk = Conversation::new(link, Arc::from(self.broker.to_string()));
                &mut line.insert((controller, talk)).1
            }
        };
        talk.ask(version, request).await
    }
}

#[async_trait]
impl ToController for ControllerChannel {
    async fn alter_partition(&self, request: AlterPartitionRequest) -> io::Result<AlterPartitionResponse> {
        let spoken = self.config.inter_broker_protocol.alter_partition;
        // A topic that an old tool made has no id until the controller gives it one.
        let by_id = request.topics.iter().all(|topic| !topic.topic_id.is_nil());
        let version = if by_id { spoken } else { spoken.min(alter_partition::BY_ID - 1) };
        let request = alter_partition::in_version(request, version);
        if self.serving.is_active() {
            return Ok(self.serving.alter_partition(&request, version).await);
        }
        self.ask(&self.alter_partition, version, &request).await
    }

    async fn allocate_producer_ids(
        &self,
        request: AllocateProducerIdsRequest,
    ) -> io::Result<AllocateProducerIdsResponse> {
        if self.serving.is_active() {
            return Ok(self.serving.allocate_producer_ids(&request).await);
        }
        self.ask(&self.allocate_producer_ids, ALLOCATE_PRODUCER_IDS, &request).await
    }
}
