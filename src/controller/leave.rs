//! A stopping broker asks the controller to let others lead first (ControlledShutdown). Rules: Kafka's
//! `controlledShutdown`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::ControlledShutdownRequest;

use super::receiver::ControlReceiver;
use super::start::ControllerHandle;
use crate::cluster::peer::Connector;
use crate::cluster::{Cluster, Conversation};
use crate::config::BrokerConfig;
use crate::types::{BrokerId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// Who asks since broker epochs exist; every controller from 2.8 to 3.9 understands it.
const VERSION: i16 = 3;

/// A broker about to stop. It still serves, and hears the controller.
pub struct Leaving {
    pub broker: BrokerId,
    pub config: Arc<BrokerConfig>,
    pub cluster: Arc<Cluster>,
    pub controller: ControllerHandle,
    pub receiver: Arc<ControlReceiver>,
    pub connector: Arc<dyn Connector>,
}

/// Why an attempt came to nothing.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("no controller is known")]
    NoController,
    #[error("the controller answers {0}")]
    Refused(ErrorCode),
    #[error("the controller was not reached: {0}")]
    Unreached(#[from] io::Error),
}

/// Returns when nothing with other replicas is led here any more: true. False when `controlled.shutdown.enable` is off, when
/// `controlled.shutdown.max.retries` attempts, `controlled.shutdown.retry.backoff.ms` apart, came to nothing, or when no
/// other broker is there that could lead.
pub async fn leave(leaving: &Leaving) -> bool {
    let config = &leaving.config;
    if !config.controlled_shutdown_enable {
        return false;
    }
    let mut left = config.controlled_shutdown_max_retries;
    while left > 0 {
        left -= 1;
        match leaving.ask().await {
            Ok(led) if led.is_empty() => {
                tracing::info!("others lead what they can: free to stop");
                return true;
            }
            Ok(led) => tracing::warn!(partitions = led.len(), first = ?led.first(), "nobody else can lead them"),
            Err(error) => tracing::warn!(%error, "no controlled shutdown yet"),
        }
        if leaving.cluster.load().brokers.keys().all(|id| *id == leaving.broker) {
            break;
        }
        if left > 0 {
            tokio::time::sleep(milliseconds(config.controlled_shutdown_retry_backoff_ms)).await;
        }
    }
    tracing::warn!("stopping without having been relieved: partitions led here stand still until it is noticed");
    false
}

impl Leaving {
    /// What is still led here.
    async fn ask(&self) -> Result<Vec<TopicPartition>, Failed> {
        match tokio::time::timeout(self.config.replication.controller_socket_timeout(), self.ask_whoever_it_is()).await
        {
            Ok(outcome) => outcome,
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        }
    }

    async fn ask_whoever_it_is(&self) -> Result<Vec<TopicPartition>, Failed> {
        let epoch = self.receiver.broker_epoch();
        if self.controller.is_active()
            && let Ok(outcome) = self.controller.questions().controlled_shutdown(self.broker, Some(epoch)).await
        {
            return outcome.map_err(Failed::Refused);
        }
        let snapshot = self.cluster.load();
        let controller = snapshot.controller.filter(|id| *id != self.broker);
        let endpoint = controller.and_then(|id| snapshot.endpoint(id, &self.config.inter_broker_listener_name));
        let link = self.connector.connect(endpoint.ok_or(Failed::NoController)?).await?;
        let request =
            ControlledShutdownRequest::default().with_broker_id(self.broker.0.into()).with_broker_epoch(epoch);
        let answer = Conversation::new(link, self.broker.to_string().into()).ask(VERSION, &request).await?;
        ErrorCode::check(answer.error_code).map_err(Failed::Refused)?;
        let partition = |of: &kafka_protocol::messages::controlled_shutdown_response::RemainingPartition| {
            TopicPartition::new(of.topic_name.as_str(), of.partition_index)
        };
        Ok(answer.remaining_partitions.iter().map(partition).collect())
    }
}

fn milliseconds(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use bytes::{Bytes, BytesMut};
    use parking_lot::Mutex;

    use super::*;
    use crate::cluster::Broker;
    use crate::cluster::peer::Link;
    use crate::controller::testing::Node;
    use crate::types::Endpoint;

    /// A controller that answers in turn: error code and number of partitions.
    #[derive(Clone, Default)]
    struct Script {
        answers: Arc<Mutex<Vec<(i16, i32)>>>,
        asked: Arc<Mutex<Vec<Bytes>>>,
    }

    #[async_trait]
    impl Connector for Script {
        async fn connect(&self, _: &Endpoint) -> io::Result<Box<dyn Link>> {
            Ok(Box::new(self.clone()))
        }
    }

    #[async_trait]
    impl Link for Script {
        async fn ask(&mut self, request: Bytes) -> io::Result<BytesMut> {
            self.asked.lock().push(request.clone());
            let next = self.answers.lock().pop();
            let (code, led) = next.ok_or(io::ErrorKind::ConnectionReset)?;
            let mut answer = BytesMut::from(&request[4..8]);
            answer.extend_from_slice(&[0]);
            answer.extend_from_slice(&code.to_be_bytes());
            answer.extend_from_slice(&[u8::try_from(led).unwrap() + 1]);
            for partition in 0..led {
                answer.extend_from_slice(b"\x02t");
                answer.extend_from_slice(&partition.to_be_bytes());
                answer.extend_from_slice(&[0]);
            }
            answer.extend_from_slice(&[0]);
            Ok(answer)
        }
    }

    /// Broker 1, which is the controller itself, or believes that broker 2 is.
    async fn leaving(node: &Node, answers: &[(i16, i32)], elsewhere: bool) -> (Leaving, Script) {
        let script = Script::default();
        *script.answers.lock() = answers.iter().rev().copied().collect();
        if elsewhere {
            node.controller.stop();
            while node.controller.is_active() {
                tokio::task::yield_now().await;
            }
            let endpoint = Endpoint { host: "b2".into(), port: 9092 };
            let endpoints = [("PLAINTEXT".to_owned(), endpoint)].into();
            let other = Broker { id: BrokerId(2), rack: None, endpoints, epoch: 7 };
            node.cluster.update(|snapshot| {
                snapshot.controller = Some(BrokerId(2));
                snapshot.brokers.insert(BrokerId(2), other);
            });
        }
        let leaving = Leaving {
            broker: BrokerId(1),
            config: Arc::new(BrokerConfig::default()),
            cluster: node.cluster.clone(),
            controller: node.controller.clone(),
            receiver: node.receiver.clone(),
            connector: Arc::new(script.clone()),
        };
        (leaving, script)
    }

    #[tokio::test(start_paused = true)]
    async fn the_controller_asks_itself() {
        let node = Node::fresh().await;
        node.create("t", 1, &[]).await;
        let (leaving, script) = leaving(&node, &[], false).await;
        assert!(leave(&leaving).await);
        assert!(script.asked.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn another_controller_is_asked_until_nothing_is_left() {
        let node = Node::fresh().await;
        let (leaving, script) = leaving(&node, &[(11, 0), (0, 2), (0, 0)], true).await;
        let begun = tokio::time::Instant::now();
        assert!(leave(&leaving).await);
        assert_eq!(begun.elapsed(), Duration::from_secs(10), "twice the back-off, on a clock that only moves for it");
        let asked = script.asked.lock();
        assert_eq!(asked.len(), 3);
        assert_eq!(
            asked[0][10..],
            [&b"1\0"[..], &[0, 0, 0, 1], &node.receiver.broker_epoch().to_be_bytes(), &[0]].concat()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn it_stops_unrelieved_in_the_end() {
        let node = Node::fresh().await;
        let (mut leaving, script) = leaving(&node, &[(0, 1)], true).await;
        assert!(!leave(&leaving).await);
        assert_eq!(script.asked.lock().len(), 3, "as many attempts as the default");
        node.cluster.update(|snapshot| {
            snapshot.brokers.remove(&BrokerId(2));
        });
        assert!(!leave(&leaving).await, "nobody is there: no attempt is worth a wait");
        leaving.config = Arc::new(BrokerConfig { controlled_shutdown_enable: false, ..BrokerConfig::default() });
        assert!(!leave(&leaving).await);
        assert_eq!(script.asked.lock().len(), 3);
    }
}
