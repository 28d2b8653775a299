//! What a handler is given and what it answers.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::BytesMut;
use parking_lot::Mutex;

use super::alarm::Alarm;
use super::fetch_session::FetchSessions;
use super::serve::Close;
use super::telltale::Telltales;
use super::throttle::Toll;
use crate::clock::Clock;
use crate::cluster::suspicion::Incarnation;
use crate::cluster::{Caller, Cluster, Contacts, DynamicConfigs, Snapshot};
use crate::config::BrokerConfig;
use crate::controller::admin::Admin;
use crate::controller::producer_ids::ProducerIds;
use crate::controller::receiver::ControlReceiver;
use crate::controller::serving::Serving;
use crate::coordinator::group_coordinator::GroupCoordinator;
use crate::coordinator::markers::MarkerWriter;
use crate::coordinator::transaction_coordinator::TransactionCoordinator;
use crate::loggers::Loggers;
use crate::quota::{ANONYMOUS, Client, Quotas};
use crate::random::Random;
use crate::replication::partition::Partition;
use crate::replication::table::PartitionTable;
use crate::spawn::{Shutdown, Spawner};
use crate::storage::log::FileSlice;
use crate::types::BrokerId;
use crate::wire::error_code::ErrorCode;
pub use crate::wire::header::{LastClientId, RequestHeader};

/// How long a client waits for a controller that has not spoken yet: as long as Java's and librdkafka's by default.
const FIRST_NEWS_LIMIT: Duration = Duration::from_secs(30);

/// Everything handlers share.
pub struct Services {
    pub broker_id: BrokerId,
    pub config: Arc<BrokerConfig>,
    pub cluster: Arc<Cluster>,
    /// Hears of connections with brokers, where somebody is interested in them.
    pub contacts: Option<Arc<Contacts>>,
    pub configs: Arc<DynamicConfigs>,
    pub partitions: Arc<PartitionTable>,
    pub admin: Arc<Admin>,
    pub producer_ids: ProducerIds,
    /// Where the controller's requests go.
    pub receiver: Arc<ControlReceiver>,
    /// What brokers ask the controller.
    pub serving: Arc<Serving>,
    pub groups: Arc<GroupCoordinator>,
    pub transactions: Arc<TransactionCoordinator>,
    /// Ends transactions in the partitions led here.
    pub markers: MarkerWriter,
    pub fetch_sessions: FetchSessions,
    pub telltales: Telltales,
    pub quotas: Arc<Quotas>,
    pub loggers: Arc<Loggers>,
    pub spawner: Arc<dyn Spawner>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    /// Requested: what waits for records is answered with what there is.
    pub shutdown: Shutdown,
}

/// Name and version a client gave in ApiVersions v3+.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSoftware {
    pub name: String,
    pub version: String,
}

/// One client connection.
#[derive(Debug)]
pub struct Connection {
    /// Unique in this process.
    pub id: u64,
    /// Name of the listener it came in on.
    pub listener: Arc<str>,
    pub peer: IpAddr,
    pub software: Mutex<Option<ClientSoftware>>,
    /// It came in on the listener that is kept for the controller.
    pub of_controller: bool,
    /// Whether its first fetch was a follower's.
    pub of_follower: OnceLock<bool>,
    /// Whether its peer runs on this machine, once somebody has wanted to know.
    pub of_this_machine: OnceLock<bool>,
    /// It is a consumer's with a session of very many partitions.
    pub fetches_much: AtomicBool,
    /// The broker that made it, if one did.
    pub caller: Caller,
    pub last_client_id: LastClientId,
    /// For the wait of the request that is being served.
    pub alarm: Alarm,
}

impl Connection {
    pub fn new(id: u64, listener: Arc<str>, peer: IpAddr, of_controller: bool) -> Connection {
        let (software, of_follower, of_this_machine, fetches_much) = Default::default();
        let (caller, last_client_id, alarm) = Default::default();
        Connection {
            id,
            listener,
            peer,
            software,
            of_controller,
            of_follower,
            of_this_machine,
            fetches_much,
            caller,
            last_client_id,
            alarm,
        }
    }
}

/// One request: where it came from, and what stood in front of it.
pub struct RequestContext<'a> {
    pub services: &'a Services,
    pub connection: &'a Connection,
    pub header: RequestHeader,
    pub toll: Toll,
}

impl RequestContext<'_> {
    pub fn version(&self) -> i16 {
        self.header.api_version
    }

    /// Whose quotas count.
    pub fn client(&self) -> Client<'_> {
        Client { user: ANONYMOUS, id: self.header.client_id.as_deref().unwrap_or_default() }
    }

    /// The request says that broker `id` sends it, in the life of `epoch` unless that is -1. Not believed on a listener of
    /// clients.
    pub fn comes_from(&self, id: BrokerId, epoch: i64) {
        let Some(contacts) = &self.services.contacts else { return };
        let of_brokers = &self.services.config.inter_broker_listener_name;
        if !self.connection.of_controller && *self.connection.listener != **of_brokers {
            return;
        }
        match epoch {
            0.. => self.connection.caller.is(Incarnation { id, czxid: epoch }, contacts),
            _ => self.connection.caller.is_some_life_of(id, contacts),
        }
    }

    /// What this broker knows of its cluster. Right after its start it knows nobody, and no topic, until a controller speaks,
    /// and waits.
    ///
    /// Kafka answers at once, without a broker, then without a topic. Java's clients ask again; librdkafka from 2.10 on
    /// forgets all brokers that an answer does not name, and finds none ever again (confluentinc/librdkafka#5301), and gives
    /// records of topics up that it is told do not exist.
    pub async fn known_cluster(&self) -> Result<Arc<Snapshot>, Close> {
        let cluster = &self.services.cluster;
        if let Some(snapshot) = cluster.if_known() {
            return Ok(snapshot);
        }
        tokio::select! {
            biased;
            snapshot = cluster.known() => Ok(snapshot),
            () = self.services.shutdown.requested() => Err(Close("the broker stops, no controller has spoken".into())),
            () = tokio::time::sleep(FIRST_NEWS_LIMIT) => {
                // Topics without a leader, it may be, of which there is nothing to tell.
                cluster.expect_topics(false);
                let unheard = || Close("no controller has told this broker who is there: the client may ask another".into());
                cluster.if_known().ok_or_else(unheard)
            }
        }
    }

    /// The partition on this broker; else NOT_LEADER_OR_FOLLOWER when it lives elsewhere, UNKNOWN_TOPIC_OR_PARTITION when
    /// nowhere.
    pub fn partition(&self, topic: &str, partition: i32) -> Result<Arc<Partition>, ErrorCode> {
        if let Some(found) = self.services.partitions.get(topic, partition) {
            return Ok(found);
        }
        Err(match self.services.cluster.load().partition(topic, partition) {
            Some(_) => ErrorCode::NotLeaderOrFollower,
            None => ErrorCode::UnknownTopicOrPartition,
        })
    }
}

/// A piece of a response.
#[derive(Clone, Debug)]
pub enum Part {
    /// Nobody else's: what is shared is counted, and the count lies in memory of its own.
    Bytes(BytesMut),
    /// Sent as it lies in the file. The announced length is kept even if the file fails: the connection is closed then.
    File(FileSlice),
}

impl Part {
    pub fn len(&self) -> usize {
        match self {
            Part::Bytes(bytes) => bytes.len(),
            Part::File(slice) => slice.len,
        }
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Response header and body; `net` puts the length in front.
#[derive(Clone, Debug, Default)]
pub struct Response {
    pub parts: Vec<Part>,
    /// Milliseconds the connection is not read after the response (KIP-219).
    pub throttle_ms: i32,
}

impl Response {
    /// All in one piece.
    pub fn of(bytes: BytesMut, throttle_ms: i32) -> Response {
        Response { parts: vec![Part::Bytes(bytes)], throttle_ms }
    }
}

/// A frame that was taken in.
pub enum Served<'a> {
    AtOnce(Reply),
    /// It may have to wait. On the heap, so that an idle connection does not carry the largest handler's state.
    Later(Pin<Box<dyn Future<Output = Reply> + Send + 'a>>),
}

/// How a frame is answered.
#[derive(Debug)]
pub enum Reply {
    Send(Response),
    /// acks=0. Milliseconds the connection is not read.
    Nothing {
        throttle_ms: i32,
    },
    /// The connection is closed without an answer; the reason is logged once.
    Close(String),
}
