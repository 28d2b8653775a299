//! A controller and a broker that answers badly or not at all.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::UpdateMetadataRequest;
use kafka_protocol::protocol::Decodable;
use parking_lot::Mutex as SyncMutex;

use super::*;
use crate::cluster::peer::Link;
use crate::controller::message::MetadataUpdate;
use crate::wire::header::RequestHeader;

/// What the other side does with one connection.
#[derive(Clone)]
enum Does {
    Refuse,
    Break,
    /// Never answers.
    Hang,
    /// Answers each request with this code.
    Answer(u8),
    /// Answers one request, and is closed by the time of the next.
    AnswerOnce,
}

#[derive(Default)]
struct Other {
    does: SyncMutex<VecDeque<Does>>,
    asked: SyncMutex<Vec<(RequestHeader, Bytes)>>,
    connections: SyncMutex<Vec<Endpoint>>,
}

struct ToOther(Arc<Other>);

struct OtherLink {
    other: Arc<Other>,
    does: Does,
}

#[async_trait]
impl Connector for ToOther {
    async fn connect(&self, to: &Endpoint) -> io::Result<Box<dyn Link>> {
        self.0.connections.lock().push(to.clone());
        match self.0.does.lock().pop_front() {
            None | Some(Does::Refuse) => Err(io::ErrorKind::ConnectionRefused.into()),
            Some(does) => Ok(Box::new(OtherLink { other: self.0.clone(), does })),
        }
    }
}

#[async_trait]
impl Link for OtherLink {
    async fn ask(&mut self, request: Bytes) -> io::Result<BytesMut> {
        let mut body = BytesMut::from(&request[..]);
        let header = RequestHeader::take(&mut body, &Default::default()).expect("a header");
        let correlation = header.correlation_id.to_be_bytes();
        self.other.asked.lock().push((header, body.freeze()));
        match self.does {
            Does::AnswerOnce => {
                self.does = Does::Break;
                Ok(BytesMut::from(&[&correlation[..], &[0, 0, 0, 0]].concat()[..]))
            }
            Does::Answer(code) => Ok(BytesMut::from(&[&correlation[..], &[0, 0, code, 0]].concat()[..])),
            Does::Hang => std::future::pending().await,
            _ => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }
}

fn remote(other: &Arc<Other>, does: &[Does]) -> RemoteBroker {
    other.does.lock().extend(does.iter().cloned());
    RemoteBroker {
        id: BrokerId(3),
        at: Endpoint { host: "three".into(), port: 9003 },
        client_id: "1".into(),
        connector: Arc::new(ToOther(other.clone())),
        config: Arc::default(),
        conversation: Mutex::default(),
    }
}

fn update(controller_epoch: i32) -> ControlRequest {
    ControlRequest {
        controller: BrokerId(1),
        controller_epoch,
        broker_epoch: 77,
        body: ControlBody::UpdateMetadata(Arc::new(MetadataUpdate::default())),
    }
}

#[tokio::test(start_paused = true)]
async fn asks_until_it_is_answered_each_time_over_a_new_connection() {
    let other = Arc::<Other>::default();
    let remote = remote(&other, &[Does::Refuse, Does::Break, Does::Hang, Does::Answer(0)]);
    let begun = tokio::time::Instant::now();
    let answer = remote.control(update(5)).await;
    assert_eq!(answer, ControlAnswer { error: ErrorCode::None, partitions: Vec::new() });
    assert_eq!(begun.elapsed(), 3 * BACK_OFF + Duration::from_secs(30), "rests, and waits for who hangs");
    assert_eq!(other.connections.lock().len(), 4);
    let asked = other.asked.lock();
    assert_eq!(asked.len(), 3);
    for (header, body) in asked.iter() {
        assert_eq!((header.api_version, header.client_id.as_deref()), (8, Some("1")));
        let request = UpdateMetadataRequest::decode(&mut body.clone(), 8).expect("a request");
        assert_eq!((request.controller_epoch, request.broker_epoch), (5, 77));
    }
}

#[tokio::test(start_paused = true)]
async fn one_connection_carries_one_request_after_the_other() {
    let other = Arc::<Other>::default();
    let remote = remote(&other, &[Does::Answer(11)]);
    for epoch in 1..4 {
        assert_eq!(remote.control(update(epoch)).await.error, ErrorCode::StaleControllerEpoch);
    }
    assert_eq!(*other.connections.lock(), [Endpoint { host: "three".into(), port: 9003 }]);
    let ids: Vec<i32> = other.asked.lock().iter().map(|(header, _)| header.correlation_id).collect();
    assert_eq!(ids, [0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_ended_while_it_was_idle_costs_no_rest() {
    let other = Arc::<Other>::default();
    let remote = remote(&other, &[Does::AnswerOnce, Does::Answer(0)]);
    remote.control(update(1)).await;
    let begun = tokio::time::Instant::now();
    remote.control(update(2)).await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(other.connections.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_given_up_does_not_leave_its_answer_to_the_next() {
    let other = Arc::<Other>::default();
    let remote = remote(&other, &[Does::Hang, Does::Answer(0)]);
    assert!(tokio::time::timeout(Duration::from_secs(1), remote.control(update(1))).await.is_err());
    // The link is in use for ever: its next call fails or waits, and either way another connection is made.
    remote.control(update(2)).await;
    assert_eq!(other.connections.lock().len(), 2);
}

#[tokio::test]
async fn the_controller_speaks_to_the_listener_kept_for_it_if_there_is_one() {
    let node = crate::controller::testing::Node::fresh().await;
    let at = |port| Endpoint { host: "two".into(), port };
    let broker = Broker {
        id: BrokerId(2),
        rack: None,
        endpoints: [("PLAINTEXT".to_owned(), at(1)), ("C".to_owned(), at(2))].into(),
        epoch: 5,
    };
    for (listener, port) in [(None, 1), (Some("C"), 2)] {
        let other = Arc::<Other>::default();
        other.does.lock().push_back(Does::Answer(0));
        let config =
            BrokerConfig { control_plane_listener_name: listener.map(str::to_owned), ..BrokerConfig::default() };
        let peers = ClusterPeers {
            broker: BrokerId(1),
            receiver: node.receiver.clone(),
            connector: Arc::new(ToOther(other.clone())),
            config: Arc::new(config),
            spawner: Arc::new(crate::sim::brokers::Inline),
        };
        peers.peer(&broker).expect("a way").control(update(1)).await;
        assert_eq!(*other.connections.lock(), [at(port)]);
        let elsewhere = Broker { endpoints: [("X".to_owned(), at(3))].into(), ..broker.clone() };
        assert!(peers.peer(&elsewhere).is_none(), "no listener that this controller speaks to");
    }
}
