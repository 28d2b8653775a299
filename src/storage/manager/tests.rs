use std::path::PathBuf;

use super::*;
use crate::clock::ManualClock;
use crate::random::SeededRandom;
use crate::storage::disk_real::RealDisk;
use crate::storage::log::{AbortedTransaction, AppendParams, Origin};
use crate::storage::testing::{Sender, batch, batch_of, marker};
use crate::types::LeaderEpoch;

struct World {
    path: PathBuf,
    clock: Arc<ManualClock>,
}

impl World {
    fn open(&self) -> LogManager {
        let config = BrokerConfig { log_dirs: vec![self.path.clone()], ..BrokerConfig::default() };
        LogManager::open(Arc::new(RealDisk), self.clock.clone(), Arc::new(SeededRandom::new(1)), Arc::new(config))
            .unwrap()
    }
}

const ID: TopicId = TopicId(uuid::Uuid::from_u128(77));

fn topics(name: &str) -> Option<(TopicId, Arc<TopicConfig>)> {
    (name == "t").then(|| (ID, Arc::new(TopicConfig::default())))
}

fn params() -> AppendParams {
    AppendParams { origin: Origin::Client { produce_version: 9 }, leader_epoch: LeaderEpoch(0), now_ms: 1000 }
}

#[test]
fn what_was_appended_is_there_after_a_stop_and_after_a_kill() {
    let home = tempfile::tempdir().unwrap();
    let world = World { path: home.path().join("logs"), clock: Arc::new(ManualClock::at(1000)) };
    let tp = TopicPartition::new("t", 0);
    let manager = world.open();
    manager.claim(BrokerId(3), "cluster-a").unwrap();
    manager.load(&topics).unwrap();
    let log = manager.get_or_create(&tp, ID, topics("t").unwrap().1).unwrap();
    for at in 0..10 {
        let info = log.append_as_leader(&mut batch(3), params()).unwrap();
        assert_eq!(info.first_offset, Offset(3 * at));
    }
    log.set_high_watermark(Offset(30));
    let whole = log.read(Offset(4), Offset(30), 1 << 20, true).unwrap().slice.unwrap();
    assert_eq!(whole.position, batch(3).len() as u64);
    assert_eq!(whole.len, batch(3).len() * 9);
    manager.close();

    let manager = world.open();
    assert_eq!(manager.stored_broker_id(), Some(BrokerId(3)));
    manager.load(&topics).unwrap();
    let log = manager.get(&tp).unwrap();
    assert_eq!(log.offsets().log_end, Offset(30));
    assert_eq!(log.offsets().high_watermark, Offset(30));
    log.append_as_leader(&mut batch(2), params()).unwrap();
    drop((manager, log));

    let manager = world.open();
    manager.load(&topics).unwrap();
    let log = manager.get(&tp).unwrap();
    assert_eq!(log.offsets().log_end, Offset(32));
    assert_eq!(log.topic_id(), ID);
}

#[test]
fn an_aborted_transaction_is_listed_and_holds_the_last_stable_offset() {
    let home = tempfile::tempdir().unwrap();
    let world = World { path: home.path().join("logs"), clock: Arc::new(ManualClock::at(1000)) };
    let manager = world.open();
    manager.load(&topics).unwrap();
    let log = manager.get_or_create(&TopicPartition::new("t", 0), ID, topics("t").unwrap().1).unwrap();
    let sender = Sender { id: 7, epoch: 0, sequence: 0, transactional: true };
    log.append_as_leader(&mut batch(2), params()).unwrap();
    log.append_as_leader(&mut batch_of(3, 1000, 5, Some(sender)), params()).unwrap();
    log.set_high_watermark(Offset(5));
    assert_eq!(log.offsets().last_stable, Offset(2));
    let marked =
        log.append_as_leader(&mut marker(7, 0, false, 1), AppendParams { origin: Origin::Coordinator, ..params() });
    assert_eq!(marked.unwrap().last_offset, Offset(5));
    assert_eq!(log.offsets().last_stable, Offset(2), "the marker is not below the high watermark yet");
    log.set_high_watermark(Offset(6));
    assert_eq!(log.offsets().last_stable, Offset(6));
    let read = log.read(Offset(0), Offset(6), 1 << 20, true).unwrap();
    let aborted = log.aborted_transactions(Offset(0), &read).unwrap();
    assert_eq!(aborted, [AbortedTransaction { producer_id: 7, first_offset: Offset(2) }]);
}
