//! A log that a live Kafka 3.9.1 wrote (`tests/fixtures/data-dir-3.9.1.tar.gz`): whole, and with something broken in it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use super::*;
use crate::clock::ManualClock;
use crate::cluster::internal_topics::GROUP_METADATA;
use crate::config::{BrokerConfig, TopicConfig};
use crate::coordinator::group::{Groups, Loading, Now, State, settings};
use crate::random::SeededRandom;
use crate::storage::disk_real::RealDisk;
use crate::storage::manager::LogManager;
use crate::types::TopicId;

struct Recorded {
    _home: tempfile::TempDir,
    dir: PathBuf,
}

impl Recorded {
    fn unpack() -> Recorded {
        let home = tempfile::tempdir().unwrap();
        let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/data-dir-3.9.1.tar.gz");
        let unpacked = Command::new("tar").arg("xzf").arg(archive).arg("-C").arg(home.path()).status().unwrap();
        assert!(unpacked.success());
        let dir = home.path().join("data-dir-3.9.1");
        Recorded { _home: home, dir }
    }

    fn segment(&self) -> PathBuf {
        self.dir.join(format!("{GROUP_METADATA}-0/00000000000000000000.log"))
    }

    /// Overwrites what begins with `found`.
    fn damage(&self, found: &[u8], with: &[u8]) {
        let mut bytes = std::fs::read(self.segment()).unwrap();
        let at = bytes.windows(found.len()).position(|window| window == found).unwrap();
        bytes[at..at + with.len()].copy_from_slice(with);
        std::fs::write(self.segment(), bytes).unwrap();
    }

    fn load(&self, buffer: usize) -> Loaded<Loading> {
        let config = BrokerConfig { log_dirs: vec![self.dir.clone()], ..BrokerConfig::default() };
        let clock = Arc::new(ManualClock::at(1_700_000_000_000));
        let random = Arc::new(SeededRandom::new(1));
        let manager = LogManager::open(Arc::new(RealDisk), clock, random, Arc::new(config)).unwrap();
        let topic = Arc::new(TopicConfig::default());
        manager.load(&|name| (name == GROUP_METADATA).then(|| (TopicId::default(), topic.clone()))).unwrap();
        let log = manager.get(&TopicPartition::new(GROUP_METADATA, 0)).unwrap();
        load(&log, buffer).unwrap()
    }
}

fn groups(loaded: Loaded<Loading>) -> Groups {
    loaded.loading.finish(Now { monotonic_ms: 0, wall_ms: 1_700_000_000_000 }, settings())
}

/// Offset and metadata that `group` has committed for partition 0 of `topic`.
fn committed(groups: &Groups, group: &str, topic: &str) -> Option<(i64, String)> {
    let fetched = groups.fetch(group, &[(topic.into(), 0)], true).remove(0);
    fetched.offset.unwrap().map(|value| (value.offset.0, value.metadata.to_string()))
}

#[test]
fn groups_and_offsets_are_what_kafka_had() {
    let recorded = Recorded::unpack();
    // In one piece, and batch by batch.
    for buffer in [1 << 20, 1] {
        let loaded = recorded.load(buffer);
        assert_eq!((loaded.records, loaded.skipped.len()), (9, 0));
        let groups = groups(loaded);
        assert_eq!(committed(&groups, "gold", "old1"), Some((0, String::new())));
        assert_eq!(committed(&groups, "gtx", "txn"), Some((2, "txmeta".to_owned())), "its transaction is committed");
        assert_eq!(committed(&groups, "gclassic", "plain"), Some((11, "meta".to_owned())), "the later commit");
        assert_eq!(committed(&groups, "gsimple", "plain"), Some((5, "meta".to_owned())));
        assert_eq!(groups.describe("gclassic").state, State::Empty);
        assert_eq!(&*groups.describe("gclassic").protocol_type, "consumer");
        assert_eq!(groups.describe("gdel").state, State::Dead, "deleted by a tombstone");
    }
}

#[test]
fn a_batch_that_does_not_fit_its_checksum_is_skipped_and_the_rest_loads() {
    let recorded = Recorded::unpack();
    recorded.damage(b"txmeta", b"XXmeta");
    let loaded = recorded.load(1 << 20);
    assert_eq!((loaded.records, loaded.skipped.len()), (8, 1));
    let groups = groups(loaded);
    assert_eq!(committed(&groups, "gtx", "txn"), None);
    assert_eq!(committed(&groups, "gold", "old1"), Some((0, String::new())));
    assert_eq!(committed(&groups, "gclassic", "plain"), Some((11, "meta".to_owned())));
}
