//! The controller's way to one broker: a queue, one request in flight, order kept, answers back to the controller.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

use super::message::{ControlAnswer, ControlBody, ControlRequest};
use crate::cluster::Broker;
use crate::spawn::Spawner;
use crate::types::BrokerId;

/// Delivers control requests to one broker.
#[async_trait]
pub trait Peer: Send + Sync {
    /// Returns with the broker's answer, however long that takes: a request is repeated until the broker's
    /// registration is gone, when the channel is dropped.
    async fn control(&self, request: ControlRequest) -> ControlAnswer;

    /// Between two requests: looks after the connection, and does not return. Safe to drop.
    async fn idle(&self) {
        std::future::pending().await
    }
}

/// How brokers are reached. `None` for a broker without an endpoint this one can speak to.
pub trait Peers: Send + Sync {
    fn peer(&self, broker: &Broker) -> Option<Arc<dyn Peer>>;
}

/// What came back from a broker.
#[derive(Debug)]
pub struct Answered {
    /// Controller epoch of the term that asked.
    pub epoch: i32,
    pub from: BrokerId,
    pub request: ControlBody,
    pub answer: ControlAnswer,
}

/// One broker's queue. Dropping it drops what was not sent.
pub struct Channel {
    /// Of the registration it was opened for.
    pub broker_epoch: i64,
    /// Dropped with the channel: what is under way is given up.
    _open: oneshot::Sender<()>,
    /// Without a bound: the controller must never wait for a broker, and what is queued goes with the registration.
    queue: mpsc::UnboundedSender<ControlRequest>,
}

impl Channel {
    pub fn open(
        broker: &Broker,
        peer: Arc<dyn Peer>,
        answers: mpsc::UnboundedSender<Answered>,
        spawner: &dyn Spawner,
    ) -> Channel {
        let (queue, mut requests) = mpsc::unbounded_channel::<ControlRequest>();
        let (open, closed) = oneshot::channel::<()>();
        let from = broker.id;
        let deliver = async move {
            loop {
                let request = tokio::select! {
                    biased;
                    request = requests.recv() => request,
                    () = peer.idle() => continue,
                };
                let Some(request) = request else { return };
                let (epoch, body) = (request.controller_epoch, request.body.clone());
                let answer = peer.control(request).await;
                if answers.send(Answered { epoch, from, request: body, answer }).is_err() {
                    return;
                }
            }
        };
        spawner.control(Box::pin(async move {
            tokio::select! {
                biased;
                _ = closed => {}
                () = deliver => {}
            }
        }));
        Channel { broker_epoch: broker.epoch, _open: open, queue }
    }

    pub fn send(&self, request: ControlRequest) {
        // Its task ends only with the process or the controller.
        let _ = self.queue.send(request);
    }
}
