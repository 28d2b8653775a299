//! A partition table over a real directory, with a blocking pool that waits for the test.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::partition::{Partition, PartitionFetch, Reader};
use super::table::{LeaderAndIsr, PartitionTable, Surroundings};
use crate::clock::{Clock, ManualClock};
use crate::cluster::{Cluster, Snapshot};
use crate::config::{BrokerConfig, TopicConfig};
use crate::random::SeededRandom;
use crate::spawn::{Job, Spawner, Task};
use crate::storage::disk::Disk;
use crate::storage::disk_real::RealDisk;
use crate::storage::manager::LogManager;
use crate::types::{BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// Of every topic.
const TOPIC: TopicId = TopicId(uuid::Uuid::from_u128(77));

/// Blocking jobs run when told.
#[derive(Default)]
pub struct ByHand(Mutex<Vec<Job>>);

impl Spawner for ByHand {
    fn data(&self, _task: Task) {}
    fn control(&self, _task: Task) {}
    fn blocking(&self, job: Job) {
        self.0.lock().push(job);
    }
}

impl ByHand {
    /// How many ran.
    pub fn run(&self) -> usize {
        let jobs = std::mem::take(&mut *self.0.lock());
        let count = jobs.len();
        for job in jobs {
            job();
        }
        count
    }
}

/// Broker 1's partitions; every topic has `config`.
pub struct Bench {
    me: BrokerId,
    clock: Arc<dyn Clock>,
    config: Arc<TopicConfig>,
    pub table: Arc<PartitionTable>,
    pub pool: Arc<ByHand>,
    /// Its metadata: empty at first.
    pub cluster: Arc<Cluster>,
    dir: tempfile::TempDir,
}

pub fn bench(config: TopicConfig) -> Bench {
    bench_of(1, Arc::new(ManualClock::at(1_000)), config)
}

/// As [`bench`], of another broker by another clock.
pub fn bench_of(broker: i32, clock: Arc<dyn Clock>, config: TopicConfig) -> Bench {
    open(BrokerId(broker), clock, Arc::new(config), tempfile::tempdir().unwrap(), Arc::new(RealDisk))
}

/// As [`bench`], on another disk.
pub fn bench_on(disk: Arc<dyn Disk>) -> Bench {
    let (clock, config) = (Arc::new(ManualClock::at(1_000)), Arc::default());
    open(BrokerId(1), clock, config, tempfile::tempdir().unwrap(), disk)
}

fn open(
    me: BrokerId,
    clock: Arc<dyn Clock>,
    config: Arc<TopicConfig>,
    dir: tempfile::TempDir,
    disk: Arc<dyn Disk>,
) -> Bench {
    let broker = Arc::new(BrokerConfig { log_dirs: vec![dir.path().to_path_buf()], ..BrokerConfig::default() });
    let logs = LogManager::open(disk, clock.clone(), Arc::new(SeededRandom::new(1)), broker).unwrap();
    logs.claim(me, "cluster").unwrap();
    logs.load(&|_| Some((TOPIC, config.clone()))).unwrap();
    let pool = Arc::new(ByHand::default());
    let cluster = Arc::new(Cluster::new(Snapshot::default()));
    let around = Surroundings {
        broker: me,
        clock: clock.clone(),
        spawner: pool.clone(),
        cluster: cluster.clone(),
        replica_lag_time_max_ms: 30_000,
        flush_queues: Default::default(),
        isr_changes: Default::default(),
        leader_checks: Default::default(),
    };
    let of_topic = config.clone();
    let table = Arc::new(PartitionTable::new(around, Arc::new(logs), Box::new(move |_| of_topic.clone())));
    Bench { me, clock, config, table, pool, cluster, dir }
}

pub fn ids(ids: &[i32]) -> Vec<BrokerId> {
    ids.iter().copied().map(BrokerId).collect()
}

/// `t-0` with the given leader, leader epoch and ISR; the replicas are the ISR and broker 1.
pub fn change(leader: i32, leader_epoch: i32, isr: &[i32]) -> LeaderAndIsr {
    let mut replicas = ids(isr);
    if !replicas.contains(&BrokerId(1)) {
        replicas.push(BrokerId(1));
    }
    LeaderAndIsr {
        tp: TopicPartition::new("t", 0),
        topic_id: TOPIC,
        controller_epoch: 1,
        leader: BrokerId(leader),
        leader_epoch: LeaderEpoch(leader_epoch),
        isr: ids(isr),
        partition_epoch: leader_epoch,
        replicas,
        adding_replicas: Vec::new(),
        removing_replicas: Vec::new(),
        is_new: leader_epoch == 0,
        recovering: false,
    }
}

/// A fetch from `offset` that names no epochs.
pub fn fetch(reader: Reader, offset: i64) -> PartitionFetch {
    PartitionFetch {
        reader,
        offset: Offset(offset),
        current_leader_epoch: LeaderEpoch::NONE,
        last_fetched_epoch: LeaderEpoch::NONE,
        log_start_offset: Offset::ZERO,
        max_bytes: 1 << 20,
        min_one_batch: true,
        only_leader: true,
    }
}

/// Replica `id`, in its life `broker_epoch`, fetches: it has everything below `offset`.
pub fn fetched(partition: &Partition, id: i32, broker_epoch: i64, offset: i64) -> Result<(), ErrorCode> {
    let fetch = fetch(Reader::Replica { id: BrokerId(id), broker_epoch }, offset);
    let read = partition.read(fetch)?;
    partition.record_follower_fetch(&fetch, &read)
}

impl Bench {
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Stopped in order and started again; `meanwhile` has the log directory.
    pub fn restarted(self, meanwhile: impl FnOnce(&Path)) -> Bench {
        self.table.logs().close();
        meanwhile(self.dir.path());
        open(self.me, self.clock, self.config, self.dir, Arc::new(RealDisk))
    }

    /// `t-0`, led by broker 1 with this ISR.
    pub fn leader(&self, isr: &[i32]) -> Arc<Partition> {
        self.leader_of(0, isr)
    }

    /// Another partition of `t`.
    pub fn leader_of(&self, partition: i32, isr: &[i32]) -> Arc<Partition> {
        let change = LeaderAndIsr { tp: TopicPartition::new("t", partition), ..change(1, 0, isr) };
        assert_eq!(self.table.apply_leader_and_isr(&[change]), [ErrorCode::None]);
        self.table.get("t", partition).unwrap()
    }
}
