//! A leader, broker 1, and a controller that answers as it is told.

use std::collections::VecDeque;
use std::io;

use async_trait::async_trait;
use kafka_protocol::messages::alter_partition_response;
use kafka_protocol::messages::{AllocateProducerIdsRequest, AllocateProducerIdsResponse};

use super::*;
use crate::cluster::Broker;
use crate::config::TopicConfig;
use crate::replication::testing::{Bench, bench_of, change, fetched, ids};
use crate::sim::brokers::{Inline, SimClock};
use crate::spawn::ShutdownTrigger;
use crate::storage::testing::{batch, client};
use crate::types::{Acks, Offset};

const LAG_MS: i64 = 30_000;

#[derive(Clone, Copy, Debug)]
enum Does {
    NotReached,
    RefusesAll(ErrorCode),
    Refuses(ErrorCode),
}

/// Agrees, after it has done what is listed.
#[derive(Default)]
struct Controller {
    first: Mutex<VecDeque<Does>>,
    asked: Mutex<Vec<AlterPartitionRequest>>,
}

#[async_trait]
impl ToController for Controller {
    async fn alter_partition(&self, request: AlterPartitionRequest) -> io::Result<AlterPartitionResponse> {
        self.asked.lock().push(request.clone());
        let does = self.first.lock().pop_front();
        let answer = AlterPartitionResponse::default();
        let code = match does {
            Some(Does::NotReached) => return Err(io::ErrorKind::ConnectionRefused.into()),
            Some(Does::RefusesAll(code)) => return Ok(answer.with_error_code(code.code())),
            Some(Does::Refuses(code)) => code,
            None => ErrorCode::None,
        };
        let topics = request.topics.into_iter().map(|topic| {
            let partitions = topic.partitions.into_iter().map(|asked| {
                alter_partition_response::PartitionData::default()
                    .with_partition_index(asked.partition_index)
                    .with_error_code(code.code())
                    .with_leader_id(request.broker_id)
                    .with_leader_epoch(asked.leader_epoch)
                    .with_partition_epoch(asked.partition_epoch + 1)
                    .with_isr(asked.new_isr_with_epochs.iter().map(|member| member.broker_id).collect())
            });
            alter_partition_response::TopicData::default()
                .with_topic_id(topic.topic_id)
                .with_partitions(partitions.collect())
        });
        Ok(answer.with_topics(topics.collect()))
    }

    async fn allocate_producer_ids(&self, _: AllocateProducerIdsRequest) -> io::Result<AllocateProducerIdsResponse> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

struct World {
    bench: Bench,
    controller: Arc<Controller>,
    changes: Arc<IsrChanges>,
    stop: ShutdownTrigger,
}

fn world(first: &[Does]) -> World {
    let bench = bench_of(1, Arc::new(SimClock::at(1_700_000_000_000)), TopicConfig::default());
    bench.cluster.update(|snapshot| {
        for (id, epoch) in [(1, 11), (2, 22), (3, 33)] {
            let broker = Broker { id: BrokerId(id), rack: None, endpoints: Default::default(), epoch };
            snapshot.brokers.insert(BrokerId(id), broker);
        }
    });
    let controller = Arc::new(Controller::default());
    controller.first.lock().extend(first);
    let (stop, shutdown) = Shutdown::new();
    let changes = IsrChanges::new(Surroundings {
        broker: BrokerId(1),
        broker_epoch: Box::new(|| 11),
        controller: controller.clone(),
        spawner: Arc::new(Inline),
        shutdown,
    });
    bench.table.change_isrs_with(changes.clone());
    World { bench, controller, changes, stop }
}

impl World {
    /// `t-0` on brokers 1 to 3, led by 1.
    fn leader(&self, epoch: i32, isr: &[i32]) -> Arc<Partition> {
        let change = super::super::table::LeaderAndIsr { replicas: ids(&[1, 2, 3]), ..change(1, epoch, isr) };
        assert_eq!(self.bench.table.apply_leader_and_isr(&[change]), [ErrorCode::None]);
        self.bench.table.get("t", 0).unwrap()
    }

    /// What was asked since the last look: each ISR with its members' broker epochs.
    fn asked(&self) -> Vec<Vec<(i32, i64)>> {
        let requests = std::mem::take(&mut *self.controller.asked.lock());
        let partitions = requests.into_iter().flat_map(|request| request.topics).flat_map(|topic| topic.partitions);
        let isr = |partition: PartitionData| {
            partition.new_isr_with_epochs.iter().map(|member| (member.broker_id.0, member.broker_epoch)).collect()
        };
        partitions.map(isr).collect()
    }
}

fn append(partition: &Partition) {
    partition.append_to_leader(&mut batch(1), Acks::Leader, client(-1, 1_000)).unwrap();
}

async fn pass(ms: i64) {
    tokio::time::sleep(Duration::from_millis(ms as u64)).await;
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_has_all_joins_though_the_controller_is_hard_to_reach() {
    let world = world(&[
        Does::NotReached,
        Does::RefusesAll(ErrorCode::StaleBrokerEpoch),
        Does::Refuses(ErrorCode::NotController),
    ]);
    let partition = world.leader(0, &[1]);
    append(&partition);
    fetched(&partition, 2, 22, 0).unwrap();
    pass(1_000).await;
    assert_eq!(world.asked(), [[]; 0], "it lacks a record");
    fetched(&partition, 2, 22, 1).unwrap();
    pass(1).await;
    assert_eq!(partition.isr(), ids(&[1]));
    append(&partition);
    assert_eq!(partition.log().unwrap().offsets().high_watermark, Offset(1), "it counts before it is confirmed");
    pass(1_000).await;
    assert_eq!(world.asked(), vec![vec![(1, 11), (2, 22)]; 4]);
    assert_eq!(partition.isr(), ids(&[1, 2]));
    fetched(&partition, 2, 22, 2).unwrap();
    assert_eq!(partition.log().unwrap().offsets().high_watermark, Offset(2));
    pass(1_000).await;
    assert_eq!(world.asked(), [[]; 0], "nothing is left to ask");
}

#[tokio::test(start_paused = true)]
async fn an_earlier_life_of_a_broker_does_not_join() {
    let world = world(&[Does::Refuses(ErrorCode::IneligibleReplica)]);
    let partition = world.leader(0, &[1]);
    append(&partition);
    fetched(&partition, 2, 21, 1).unwrap();
    fetched(&partition, 3, -1, 1).unwrap();
    pass(1_000).await;
    assert_eq!(world.asked(), [[(1, 11), (3, -1)]], "21 is not the epoch broker 2 lives in; -1 does not say");
    assert_eq!(partition.isr(), ids(&[1]), "refused");
    fetched(&partition, 2, 22, 1).unwrap();
    pass(1_000).await;
    assert_eq!(partition.isr(), ids(&[1, 2]));
    assert_eq!(fetched(&partition, 2, 21, 1), Err(ErrorCode::NotLeaderOrFollower), "a fetch that was long under way");
    world.leader(1, &[1, 2]);
    assert_eq!(fetched(&partition, 2, 21, 1), Err(ErrorCode::NotLeaderOrFollower), "also in the next epoch");
}

#[tokio::test(start_paused = true)]
async fn who_falls_behind_leaves_and_what_waited_for_it_goes_on() {
    let world = world(&[]);
    world.changes.watch_lag(&world.bench.table, LAG_MS);
    let partition = world.leader(0, &[1, 2, 3]);
    append(&partition);
    fetched(&partition, 2, 22, 1).unwrap();
    let committed = partition.committed(Offset(1));
    let began = tokio::time::Instant::now();
    let still_there = async {
        loop {
            pass(1_000).await;
            fetched(&partition, 2, 22, 1).unwrap();
        }
    };
    tokio::select! {
        biased;
        outcome = committed => assert_eq!(outcome, Ok(())),
        () = still_there => {}
    }
    let waited = began.elapsed().as_millis() as i64;
    assert!((LAG_MS..=LAG_MS * 3 / 2).contains(&waited), "{waited} ms");
    assert_eq!(world.asked(), [[(1, 11), (2, 22)]]);
    assert_eq!(partition.isr(), ids(&[1, 2]));
    fetched(&partition, 3, 33, 1).unwrap();
    pass(10).await;
    assert_eq!(partition.isr(), ids(&[1, 2, 3]), "back again");
    world.stop.request();
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_before_an_election_changes_nothing() {
    let world = world(&[Does::NotReached]);
    let partition = world.leader(0, &[1]);
    fetched(&partition, 2, 22, 0).unwrap();
    pass(1).await;
    world.leader(1, &[1]);
    pass(1_000).await;
    assert_eq!(partition.isr(), ids(&[1]), "the controller agreed to a change of the epoch before");
    fetched(&partition, 2, 22, 0).unwrap();
    pass(1_000).await;
    assert_eq!(partition.isr(), ids(&[1, 2]));
}
