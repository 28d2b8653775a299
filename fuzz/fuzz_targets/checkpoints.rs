//! The small files beside the logs. The first byte chooses one; what is read is written and must be read again.
#![no_main]

use std::path::Path;

use klamm::storage::disk::Disk;
use klamm::storage::meta_properties::{self, MetaProperties};
use klamm::storage::producer_snapshot;
use klamm::storage::{checkpoint, partition_metadata, txn_index};
use klamm::types::Offset;
use klamm_fuzz::{bounded, files};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    match choice % 6 {
        0 => offsets(bytes),
        1 => epochs(bytes),
        2 => meta(bytes),
        3 => topic_id(bytes),
        4 => producers(bytes),
        _ => {
            let base = Offset(i64::from(*choice));
            let entries = bounded(bytes.len(), || txn_index::decode(bytes, base)).unwrap_or_default();
            assert!(entries.is_sorted_by_key(|entry| entry.last_offset));
            assert!(entries.iter().all(|entry| entry.last_offset >= base));
        }
    }
});

fn offsets(bytes: &[u8]) {
    let path = Path::new("/logs/recovery-point-offset-checkpoint");
    let (disk, _) = files::disk();
    files::put(&disk, path, bytes);
    let Ok(read) = bounded(bytes.len(), || checkpoint::read_offsets(&disk, path)) else { return };
    let written = checkpoint::write_offsets(&disk, path, read.iter().map(|(tp, offset)| (tp, *offset)));
    written.expect("written");
    assert_eq!(checkpoint::read_offsets(&disk, path).expect("written by klamm"), read);
}

fn epochs(bytes: &[u8]) {
    let path = Path::new("/logs/t-0/leader-epoch-checkpoint");
    let (disk, _) = files::disk();
    files::put(&disk, path, bytes);
    let Ok(Some(read)) = bounded(bytes.len(), || checkpoint::read_epochs(&disk, path)) else { return };
    checkpoint::write_epochs(&disk, path, &read).expect("written");
    assert_eq!(checkpoint::read_epochs(&disk, path).expect("written by klamm").as_ref(), Some(&read));
    let mut cache = klamm::storage::epoch_cache::EpochCache::from_entries(read);
    let rises = |entries: &[(klamm::types::LeaderEpoch, Offset)]| {
        entries.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1)
    };
    assert!(rises(cache.entries()));
    cache.truncate_from_start(Offset(7));
    cache.truncate_from_end(Offset(90));
    assert!(rises(cache.entries()));
}

fn meta(bytes: &[u8]) {
    let (disk, _) = files::disk();
    let dir = Path::new("/logs");
    files::put(&disk, &dir.join(meta_properties::NAME), bytes);
    let Ok(Some(read)) = bounded(bytes.len(), || MetaProperties::read(&disk, dir)) else { return };
    read.write(&disk, dir, 1_700_000_000_000).expect("written");
    assert_eq!(MetaProperties::read(&disk, dir).expect("written by klamm"), Some(read));
}

fn topic_id(bytes: &[u8]) {
    let (disk, _) = files::disk();
    let dir = Path::new("/logs/t-0");
    files::put(&disk, &dir.join(partition_metadata::NAME), bytes);
    let Ok(Some(read)) = bounded(bytes.len(), || partition_metadata::read(&disk, dir)) else { return };
    disk.remove_file(&dir.join(partition_metadata::NAME)).expect("removed");
    partition_metadata::write(&disk, dir, read).expect("written");
    assert_eq!(partition_metadata::read(&disk, dir).expect("written by klamm"), Some(read));
}

fn producers(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= 6 {
        let crc = crc32c::crc32c(&bytes[6..]);
        bytes[2..6].copy_from_slice(&crc.to_be_bytes());
    }
    let Ok(states) = bounded(bytes.len(), || producer_snapshot::decode(&bytes)) else { return };
    let written = producer_snapshot::encode(&states);
    let again = producer_snapshot::decode(&written).expect("written by klamm");
    assert_eq!(producer_snapshot::encode(&again), written);
    assert_eq!(again.len(), states.len());
    for (id, state) in states.iter() {
        let found = again.get(id).expect("as many producers");
        assert_eq!((found.epoch, found.last_sequence()), (state.epoch, state.last_sequence()));
        assert_eq!(found.txn_first_offset, state.txn_first_offset);
    }
    assert_eq!(again.first_open(), states.first_open());
}
