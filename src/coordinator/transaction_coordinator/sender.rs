//! WriteTxnMarkers to the leaders of a transaction's partitions, until every one has its marker. To this broker itself
//! within the process.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::{ProducerId, TopicName, WriteTxnMarkersRequest, WriteTxnMarkersResponse};
use kafka_protocol::protocol::StrBytes;
use tokio::time::{sleep, timeout};

use super::TransactionState;
use crate::cluster::peer::Connector;
use crate::cluster::{Cluster, Conversation, Snapshot};
use crate::config::BrokerConfig;
use crate::coordinator::couriers::{Carrier, Couriers, Line, connect};
use crate::coordinator::markers::{EndMarker, MarkerWriter};
use crate::coordinator::shard::Shard;
use crate::coordinator::shards::Shards;
use crate::coordinator::transaction::{Marking, Transactions};
use crate::spawn::{Shutdown, Spawner};
use crate::types::{BrokerId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// The version that every release spoken understands.
const VERSION: i16 = 1;
/// Before markers that were not written are sent again.
const BACK_OFF: Duration = Duration::from_millis(100);

pub(super) struct Surroundings {
    pub broker: BrokerId,
    pub config: Arc<BrokerConfig>,
    pub cluster: Arc<Cluster>,
    pub connector: Arc<dyn Connector>,
    pub writer: MarkerWriter,
    pub spawner: Arc<dyn Spawner>,
    pub shutdown: Shutdown,
}

/// Markers of one transaction for one leader, and whose they are. What becomes of them is nobody's business any more once
/// the shard is gone.
struct Parcel {
    shard: Arc<Shard<Transactions>>,
    marking: Marking,
}

type Owner = OnceLock<Weak<Shards<TransactionState>>>;

pub(super) struct MarkerSender {
    me: Weak<MarkerSender>,
    around: Surroundings,
    owner: Owner,
    couriers: OnceLock<Couriers<Parcel>>,
}

impl MarkerSender {
    pub fn new(around: Surroundings) -> Arc<MarkerSender> {
        Arc::new_cyclic(|me| MarkerSender { me: me.clone(), around, owner: Owner::new(), couriers: OnceLock::new() })
    }

    /// Whom the outcomes are brought to. The first one stays.
    pub fn report_to(&self, shards: &Arc<Shards<TransactionState>>) {
        let _ = self.owner.set(Arc::downgrade(shards));
    }

    /// Called under the shard's lock: nothing is reported before it returns.
    pub fn send(&self, shard: &Arc<Shard<Transactions>>, marking: Marking) {
        let Some(me) = self.me.upgrade() else { return };
        let parcel = Parcel { shard: shard.clone(), marking };
        let known = if parcel.marking.again { None } else { self.around.cluster.if_known() };
        let rest = match known {
            Some(snapshot) => self.dispatch(parcel, &snapshot),
            None => Rest::Later(parcel),
        };
        let shutdown = self.around.shutdown.clone();
        let follow_up = async move {
            let (parcel, outcomes) = match rest {
                Rest::Nothing => return,
                Rest::Told(parcel, outcomes) => (parcel, outcomes),
                Rest::Later(parcel) => {
                    if parcel.marking.again {
                        sleep(BACK_OFF).await;
                    }
                    let snapshot = me.around.cluster.known().await;
                    match me.dispatch(parcel, &snapshot) {
                        Rest::Told(parcel, outcomes) => (parcel, outcomes),
                        Rest::Nothing | Rest::Later(_) => return,
                    }
                }
            };
            me.report(&parcel, &outcomes);
        };
        self.around.spawner.data(Box::pin(async move {
            tokio::select! {
                () = shutdown.requested() => {}
                () = follow_up => {}
            }
        }));
    }

    /// Hands the markers over to those who carry them to the leaders. What is left needs none, or has no leader.
    fn dispatch(&self, parcel: Parcel, snapshot: &Snapshot) -> Rest {
        let mut by_leader: BTreeMap<BrokerId, Vec<TopicPartition>> = BTreeMap::new();
        let mut told = Vec::new();
        let listener = &*self.around.config.inter_broker_listener_name;
        for at in &parcel.marking.partitions {
            match snapshot.partition(&at.topic, at.partition).map(|meta| meta.leader) {
                // Deleted, with all that the transaction wrote there.
                None => told.push((at.clone(), Ok(()))),
                Some(leader) if leader == self.around.broker || snapshot.endpoint(leader, listener).is_some() => {
                    by_leader.entry(leader).or_default().push(at.clone());
                }
                Some(_) => told.push((at.clone(), Err(ErrorCode::LeaderNotAvailable))),
            }
        }
        for (leader, partitions) in by_leader {
            let marking = Marking { partitions, ..parcel.marking.clone() };
            self.couriers().send(leader, Parcel { shard: parcel.shard.clone(), marking });
        }
        if told.is_empty() { Rest::Nothing } else { Rest::Told(parcel, told) }
    }

    fn couriers(&self) -> &Couriers<Parcel> {
        self.couriers.get_or_init(|| {
            let around = &self.around;
            let carrier = MarkerCarrier(self.me.clone());
            Couriers::new(Arc::new(carrier), around.spawner.clone(), around.shutdown.clone())
        })
    }

    fn report(&self, parcel: &Parcel, outcomes: &[(TopicPartition, Result<(), ErrorCode>)]) {
        let Some(owner) = self.owner.get().and_then(Weak::upgrade) else { return };
        // Another broker coordinates, and does the same from the log, once the shard is gone.
        let _ = owner.enter(&parcel.shard, |transactions, now| transactions.marked(now, &parcel.marking, outcomes));
    }

    async fn to_itself(&self, parcels: &[Parcel]) -> Vec<Vec<ErrorCode>> {
        let markers: Vec<EndMarker> = parcels.iter().map(|parcel| end_marker(&parcel.marking)).collect();
        self.around.writer.write(&markers).await
    }

    async fn to_other(
        &self,
        to: BrokerId,
        line: &mut Option<Line>,
        parcels: &[Parcel],
    ) -> io::Result<Vec<Vec<ErrorCode>>> {
        let line = match line {
            Some(line) => line,
            None => {
                let around = &self.around;
                let listener = &*around.config.inter_broker_listener_name;
                let link = connect(&around.cluster, &*around.connector, to, listener).await?;
                let client_id = format!("broker-{}-txn-marker-sender", around.broker);
                line.insert(Line { talk: Conversation::new(link, client_id.into()), version: VERSION })
            }
        };
        let markers = parcels.iter().map(|parcel| wire_marker(&parcel.marking)).collect();
        let request = WriteTxnMarkersRequest::default().with_markers(markers);
        let answer = line.talk.ask(line.version, &request).await?;
        Ok(parcels.iter().map(|parcel| codes(&answer, &parcel.marking)).collect())
    }
}

enum Rest {
    Nothing,
    /// What became of partitions that nobody was asked about.
    Told(Parcel, Vec<(TopicPartition, Result<(), ErrorCode>)>),
    Later(Parcel),
}

struct MarkerCarrier(Weak<MarkerSender>);

#[async_trait]
impl Carrier<Parcel> for MarkerCarrier {
    async fn carry(&self, to: BrokerId, line: &mut Option<Line>, parcels: Vec<Parcel>) {
        let Some(sender) = self.0.upgrade() else { return };
        let codes = match to == sender.around.broker {
            true => sender.to_itself(&parcels).await,
            false => {
                let wait_ms = u64::try_from(sender.around.config.request_timeout_ms).unwrap_or(0);
                let asked = timeout(Duration::from_millis(wait_ms), sender.to_other(to, line, &parcels)).await;
                match asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                    Ok(codes) => codes,
                    Err(error) => {
                        *line = None;
                        let first = parcels.first().is_some_and(|parcel| !parcel.marking.again);
                        if first {
                            tracing::warn!(broker = %to, %error, "markers of transactions are not written, they are sent again");
                        }
                        let lost = |parcel: &Parcel| vec![ErrorCode::NetworkException; parcel.marking.partitions.len()];
                        parcels.iter().map(lost).collect()
                    }
                }
            }
        };
        for (parcel, codes) in parcels.iter().zip(codes) {
            let outcome = |code| if code == ErrorCode::None { Ok(()) } else { Err(code) };
            let outcomes: Vec<_> =
                parcel.marking.partitions.iter().cloned().zip(codes.into_iter().map(outcome)).collect();
            sender.report(parcel, &outcomes);
        }
    }
}

fn end_marker(marking: &Marking) -> EndMarker {
    EndMarker {
        producer_id: marking.producer_id,
        producer_epoch: marking.producer_epoch,
        commit: marking.commit,
        coordinator_epoch: marking.coordinator_epoch,
        partitions: marking.partitions.clone(),
    }
}

fn wire_marker(marking: &Marking) -> WritableTxnMarker {
    let mut topics: Vec<WritableTxnMarkerTopic> = Vec::new();
    for at in &marking.partitions {
        match topics.last_mut().filter(|topic| *topic.name == *at.topic) {
            Some(topic) => topic.partition_indexes.push(at.partition),
            None => topics.push(
                WritableTxnMarkerTopic::default()
                    .with_name(TopicName(StrBytes::from_string(at.topic.to_string())))
                    .with_partition_indexes(vec![at.partition]),
            ),
        }
    }
    WritableTxnMarker::default()
        .with_producer_id(ProducerId(marking.producer_id))
        .with_producer_epoch(marking.producer_epoch)
        .with_transaction_result(marking.commit)
        .with_coordinator_epoch(marking.coordinator_epoch)
        .with_topics(topics)
}

/// For each partition, in order. One that is not answered is asked about again.
fn codes(answer: &WriteTxnMarkersResponse, marking: &Marking) -> Vec<ErrorCode> {
    let mut told: BTreeMap<(&str, i32), ErrorCode> = BTreeMap::new();
    let of_producer = answer.markers.iter().filter(|result| result.producer_id.0 == marking.producer_id);
    for topic in of_producer.flat_map(|result| &result.topics) {
        for partition in &topic.partitions {
            let code = ErrorCode::answered(partition.error_code);
            told.insert((topic.name.as_str(), partition.partition_index), code);
        }
    }
    let code = |at: &TopicPartition| told.get(&(&*at.topic, at.partition)).copied();
    marking.partitions.iter().map(|at| code(at).unwrap_or(ErrorCode::UnknownServerError)).collect()
}
