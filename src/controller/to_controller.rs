//! Requests of this broker to the active controller: within the process when it is this one, else over a connection to
//! where the metadata says it is. Each API has a connection of its own, as Kafka's `NodeToControllerChannelManager`.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use kafka_protocol::messages::{
    AllocateProducerIdsRequest, AllocateProducerIdsResponse, AlterPartitionRequest, AlterPartitionResponse,
};
use kafka_protocol::protocol::Request;
use tokio::sync::{Mutex, oneshot};
use tokio::time::timeout;

use super::rpc::alter_partition;
use super::serving::Serving;
use crate::cluster::peer::{Connector, ToController};
use crate::cluster::{Cluster, Conversation};
use crate::config::BrokerConfig;
use crate::spawn::Spawner;
use crate::types::BrokerId;

/// The one version of AllocateProducerIds.
const ALLOCATE_PRODUCER_IDS: i16 = 0;

/// A connection to the controller that was last spoken to.
type Line = Mutex<Option<(BrokerId, Resting)>>;

/// A connection on which nothing is asked. That it ends is seen at once.
struct Resting(oneshot::Sender<oneshot::Sender<Conversation>>);

impl Resting {
    fn begin(mut talk: Conversation, spawner: &dyn Spawner) -> Resting {
        let (wake, woken) = oneshot::channel::<oneshot::Sender<Conversation>>();
        spawner.control(Box::pin(async move {
            let wanted = tokio::select! {
                biased;
                wanted = woken => wanted,
                _ = talk.ended() => return,
            };
            if let Ok(wanted) = wanted {
                // Who wanted it may have given up.
                let _ = wanted.send(talk);
            }
        }));
        Resting(wake)
    }

    /// `None` when it has ended.
    async fn end(self) -> Option<Conversation> {
        let (give, given) = oneshot::channel();
        self.0.send(give).ok()?;
        given.await.ok()
    }
}

/// What the way to the controller is made of.
pub struct ControllerChannel {
    broker: BrokerId,
    serving: Arc<Serving>,
    cluster: Arc<Cluster>,
    connector: Arc<dyn Connector>,
    config: Arc<BrokerConfig>,
    spawner: Arc<dyn Spawner>,
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
        spawner: Arc<dyn Spawner>,
    ) -> ControllerChannel {
        ControllerChannel {
            broker,
            serving,
            cluster,
            connector,
            config,
            spawner,
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
        let patience = self.config.replication.controller_socket_timeout();
        let moved = async {
            while self.cluster.load().controller == Some(controller) {
                if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            biased;
            answer = timeout(patience, self.ask_at(controller, &mut line, version, request)) => {
                answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            }
            () = moved => Err(io::Error::new(io::ErrorKind::ConnectionAborted, "another controller was elected")),
        }
    }

    async fn ask_at<R: Request>(
        &self,
        controller: BrokerId,
        line: &mut Option<(BrokerId, Resting)>,
        version: i16,
        request: &R,
    ) -> io::Result<R::Response> {
        let kept = match line.take() {
            Some((to, resting)) if to == controller => resting.end().await,
            _ => None,
        };
        let mut talk = match kept {
            Some(talk) => talk,
            None => {
                let listener = self.config.controller_listener_name();
                let at = self.cluster.load().endpoint(controller, listener).cloned();
                let unknown = || {
                    let text = format!("controller {controller} has no listener {listener}");
                    io::Error::new(io::ErrorKind::NotFound, text)
                };
                let link = self.connector.connect(&at.ok_or_else(unknown)?).await?;
                Conversation::new(link, Arc::from(self.broker.to_string()))
            }
        };
        let answer = talk.ask(version, request).await?;
        *line = Some((controller, Resting::begin(talk, &*self.spawner)));
        Ok(answer)
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

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use bytes::{Bytes, BytesMut};
    use parking_lot::Mutex as SyncMutex;

    use super::*;
    use crate::cluster::peer::Link;
    use crate::cluster::suspicion::Ended;
    use crate::cluster::{Broker, Snapshot};
    use crate::controller::testing::Node;
    use crate::sim::brokers::Inline;
    use crate::types::Endpoint;
    use crate::wire::error_code::ErrorCode;

    /// Brokers by port: one answers with a block, any other one never.
    #[derive(Clone, Default)]
    struct Net {
        answers_at: u16,
        connections: Arc<SyncMutex<Vec<u16>>>,
        /// Whether the next that is idle ends, and who waits for it.
        hangs_up: Arc<SyncMutex<(bool, Option<Waker>)>>,
    }

    struct Line(Net, bool);

    #[async_trait]
    impl Connector for Net {
        async fn connect(&self, to: &Endpoint) -> io::Result<Box<dyn Link>> {
            self.connections.lock().push(to.port);
            Ok(Box::new(Line(self.clone(), to.port == self.answers_at)))
        }
    }

    #[async_trait]
    impl Link for Line {
        async fn ask(&mut self, request: Bytes) -> io::Result<BytesMut> {
            if !self.1 {
                std::future::pending::<()>().await;
            }
            let tags_throttle_error_first = [0; 15];
            let length_and_tags = [0, 0, 3, 0xe8, 0];
            Ok(BytesMut::from(&[&request[4..8], &tags_throttle_error_first, &length_and_tags].concat()[..]))
        }
        fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
            let mut hangs_up = self.0.hangs_up.lock();
            if std::mem::take(&mut hangs_up.0) {
                return Poll::Ready(Ended::Fin);
            }
            hangs_up.1 = Some(cx.waker().clone());
            Poll::Pending
        }
    }

    fn cluster(controller: Option<i32>) -> Arc<Cluster> {
        let cluster = Cluster::new(Snapshot::default());
        cluster.update(|snapshot| {
            snapshot.controller = controller.map(BrokerId);
            for id in 2..4_u16 {
                let at = Endpoint { host: "h".into(), port: id };
                let endpoints = [("PLAINTEXT".to_owned(), at)].into();
                let id = BrokerId(id.into());
                snapshot.brokers.insert(id, Broker { id, rack: None, endpoints, epoch: 1 });
            }
        });
        Arc::new(cluster)
    }

    /// Of broker 1, which is not the controller.
    async fn channel(cluster: &Arc<Cluster>, net: &Net) -> ControllerChannel {
        let session = Node::fresh().await.session;
        let serving = Arc::new(Serving::new(cluster.clone(), session));
        let (net, spawner) = (Arc::new(net.clone()), Arc::new(Inline));
        ControllerChannel::new(BrokerId(1), serving, cluster.clone(), net, Arc::default(), spawner)
    }

    #[tokio::test(start_paused = true)]
    async fn the_controller_of_the_metadata_is_asked_over_one_connection() {
        let net = Net { answers_at: 3, ..Net::default() };
        let (known, unknown) = (cluster(Some(3)), cluster(None));
        let channel_to_3 = channel(&known, &net).await;
        for _ in 0..2 {
            let answer = channel_to_3.allocate_producer_ids(Default::default()).await.expect("an answer");
            assert_eq!((answer.error_code, answer.producer_id_start.0, answer.producer_id_len), (0, 0, 1000));
        }
        assert_eq!(*net.connections.lock(), [3]);
        // Its end is noticed before anything is asked.
        tokio::task::yield_now().await;
        let waiting = std::mem::replace(&mut *net.hangs_up.lock(), (true, None)).1;
        waiting.expect("it is watched").wake();
        tokio::task::yield_now().await;
        channel_to_3.allocate_producer_ids(Default::default()).await.expect("over a new connection");
        assert_eq!(*net.connections.lock(), [3, 3]);
        let lost = channel(&unknown, &net).await.allocate_producer_ids(Default::default()).await;
        assert_eq!(lost.expect_err("nobody to ask").kind(), io::ErrorKind::NotConnected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_that_hangs_is_waited_for_until_another_is_elected() {
        let net = Net { answers_at: 3, ..Net::default() };
        let cluster = cluster(Some(2));
        let channel = channel(&cluster, &net).await;
        let begun = tokio::time::Instant::now();
        let elect = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            cluster.update(|snapshot| snapshot.controller = Some(BrokerId(2)));
            tokio::time::sleep(Duration::from_secs(1)).await;
            cluster.update(|snapshot| snapshot.controller = Some(BrokerId(3)));
        };
        let (answer, ()) = tokio::join!(channel.allocate_producer_ids(Default::default()), elect);
        assert_eq!(answer.expect_err("given up").kind(), io::ErrorKind::ConnectionAborted);
        assert_eq!(begun.elapsed(), Duration::from_secs(2));
        channel.allocate_producer_ids(Default::default()).await.expect("the new one answers");
        assert_eq!(*net.connections.lock(), [2, 3]);
        cluster.update(|snapshot| snapshot.controller = Some(BrokerId(2)));
        let late = channel.allocate_producer_ids(Default::default()).await.expect_err("it hangs");
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), Duration::from_secs(32), "controller.socket.timeout.ms");
    }

    #[tokio::test]
    async fn the_active_controller_asks_itself() {
        let node = Node::fresh().await;
        while !node.controller.is_active() || node.cluster.load().brokers.is_empty() {
            tokio::task::yield_now().await;
        }
        let net = Net::default();
        let serving = Arc::new(Serving::new(node.cluster.clone(), node.session.clone()));
        serving.begin(node.controller.clone());
        let (to_nobody, spawner) = (Arc::new(net.clone()), Arc::new(Inline));
        let to_me =
            ControllerChannel::new(BrokerId(1), serving, node.cluster.clone(), to_nobody, Arc::default(), spawner);
        let request = |broker: i32, epoch| {
            AllocateProducerIdsRequest::default().with_broker_id(broker.into()).with_broker_epoch(epoch)
        };
        let code = async |broker, epoch| {
            to_me.allocate_producer_ids(request(broker, epoch)).await.expect("within the process").error_code
        };
        let epoch = node.receiver.broker_epoch();
        assert_eq!(code(1, epoch).await, 0);
        assert_eq!(code(1, epoch + 1).await, ErrorCode::StaleBrokerEpoch.code());
        assert_eq!(code(9, epoch).await, ErrorCode::BrokerIdNotRegistered.code());
        let stale = AlterPartitionRequest::default().with_broker_id(1.into()).with_broker_epoch(epoch - 1);
        let answer = to_me.alter_partition(stale).await.expect("within the process");
        assert_eq!(answer.error_code, ErrorCode::StaleBrokerEpoch.code());
        assert!(net.connections.lock().is_empty());
    }
}
