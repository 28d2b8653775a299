//! The controller's way to every broker: a call within the process to its own, a connection to each other one.
//!
//! The connection is the controller's own; the client id is this broker's id. A request that is not answered within
//! `controller.socket.timeout.ms`, or whose connection breaks, is sent again, for the broker may not have it; one that
//! came twice changes nothing. Source: Kafka's `ControllerChannelManager`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Mutex, oneshot};
use tokio::time::{sleep, timeout};

use super::{leader_and_isr, stop_replica, update_metadata};
use crate::cluster::peer::Connector;
use crate::cluster::{Broker, Conversation};
use crate::config::BrokerConfig;
use crate::controller::channel::{Peer, Peers};
use crate::controller::message::{ControlAnswer, ControlBody, ControlRequest};
use crate::controller::receiver::ControlReceiver;
use crate::spawn::Spawner;
use crate::types::{BrokerId, Endpoint};
use crate::wire::error_code::ErrorCode;

/// Between two attempts.
const BACK_OFF: Duration = Duration::from_millis(100);

/// All brokers of a cluster, as this one reaches them.
pub struct ClusterPeers {
    pub broker: BrokerId,
    pub receiver: Arc<ControlReceiver>,
    pub connector: Arc<dyn Connector>,
    pub config: Arc<BrokerConfig>,
    pub spawner: Arc<dyn Spawner>,
}

impl Peers for ClusterPeers {
    fn peer(&self, broker: &Broker) -> Option<Arc<dyn Peer>> {
        if broker.id == self.broker {
            return Some(Arc::new(OwnBroker { receiver: self.receiver.clone(), spawner: self.spawner.clone() }));
        }
        let at = broker.endpoints.get(self.config.controller_listener_name())?;
        Some(Arc::new(RemoteBroker {
            id: broker.id,
            at: at.clone(),
            client_id: Arc::from(self.broker.to_string()),
            connector: self.connector.clone(),
            config: self.config.clone(),
            conversation: Mutex::default(),
        }))
    }
}

/// The controller's own broker. What it began it finishes, also when the channel is dropped meanwhile.
pub struct OwnBroker {
    pub receiver: Arc<ControlReceiver>,
    pub spawner: Arc<dyn Spawner>,
}

#[async_trait]
impl Peer for OwnBroker {
    async fn control(&self, request: ControlRequest) -> ControlAnswer {
        let (done, answer) = oneshot::channel();
        let receiver = self.receiver.clone();
        self.spawner.control(Box::pin(async move {
            // Nobody listens any more when the channel was dropped.
            let _ = done.send(receiver.receive(request).await);
        }));
        let gone = ControlAnswer { error: ErrorCode::UnknownServerError, partitions: Vec::new() };
        answer.await.unwrap_or(gone)
    }
}

/// Another broker, in one life of it.
struct RemoteBroker {
    id: BrokerId,
    at: Endpoint,
    client_id: Arc<str>,
    connector: Arc<dyn Connector>,
    config: Arc<BrokerConfig>,
    conversation: Mutex<Option<Conversation>>,
}

#[async_trait]
impl Peer for RemoteBroker {
    async fn control(&self, request: ControlRequest) -> ControlAnswer {
        let mut conversation = self.conversation.lock().await;
        let patience = self.config.replication.controller_socket_timeout();
        let mut outage = false;
        loop {
            let kept = conversation.is_some();
            let attempt = timeout(patience, self.attempt(&mut conversation, &request)).await;
            let error = match attempt.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(answer) => {
                    if outage {
                        tracing::info!(broker = %self.id, "answers the controller again");
                    }
                    return answer;
                }
                Err(error) => error,
            };
            *conversation = None;
            // One of before may have been closed since for being idle: that says nothing of the broker.
            if kept && error.kind() != io::ErrorKind::TimedOut {
                continue;
            }
            if !std::mem::replace(&mut outage, true) {
                tracing::warn!(broker = %self.id, %error, "does not answer the controller, which asks until it is gone");
            }
            sleep(BACK_OFF).await;
        }
    }

    async fn idle(&self) {
        let mut conversation = self.conversation.lock().await;
        if let Some(talk) = &mut *conversation {
            talk.ended().await;
            *conversation = None;
        }
        std::future::pending().await
    }
}

impl RemoteBroker {
    async fn attempt(
        &self,
        conversation: &mut Option<Conversation>,
        request: &ControlRequest,
    ) -> io::Result<ControlAnswer> {
        let talk = match conversation {
            Some(talk) => talk,
            None => {
                let link = self.connector.connect(&self.at).await?;
                conversation.insert(Conversation::new(link, self.client_id.clone()))
            }
        };
        let versions = &self.config.inter_broker_protocol;
        Ok(match &request.body {
            ControlBody::LeaderAndIsr(update) => {
                let version = versions.leader_and_isr;
                let listener = &self.config.inter_broker_listener_name;
                let message = leader_and_isr::request(request, update, version, listener);
                leader_and_isr::read_response(&talk.ask(version, &message).await?, update)
            }
            ControlBody::UpdateMetadata(update) => {
                let message = update_metadata::request(request, update);
                update_metadata::read_response(&talk.ask(versions.update_metadata, &message).await?)
            }
            ControlBody::StopReplica(stops) => {
                let message = stop_replica::request(request, stops);
                stop_replica::read_response(&talk.ask(versions.stop_replica, &message).await?)
            }
        })
    }
}

#[cfg(test)]
mod tests;
