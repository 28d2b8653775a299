//! Files on a simulated disk, and checksums that fit, so that what is behind them is reached.

use std::path::Path;
use std::sync::Arc;

use klamm::clock::ManualClock;
use klamm::sim::disk::SimDisk;
use klamm::storage::disk::{Disk, Open};
use klamm::wire::batch::{Batches, stamp};

/// A disk and the clock that dates its files.
pub fn disk() -> (SimDisk, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(1_700_000_000_000));
    (SimDisk::new(clock.clone()), clock)
}

/// Writes a whole file, its directory made if need be.
pub fn put(disk: &SimDisk, path: &Path, bytes: &[u8]) {
    disk.create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a directory");
    let file = disk.open(path, Open::Create).expect("a file");
    file.set_len(0).expect("room");
    file.write_all_at(bytes, 0).expect("room");
}

/// A whole file; `None` without it.
pub fn get(disk: &SimDisk, path: &Path) -> Option<Vec<u8>> {
    let file = disk.open(path, Open::Read).ok()?;
    let mut bytes = vec![0; file.len().ok()? as usize];
    file.read_exact_at(&mut bytes, 0).ok()?;
    Some(bytes)
}

/// Makes the checksum of every batch fit that can be cut from the front of `bytes`.
pub fn fit_batches(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(Ok(raw)) = Batches::new(&bytes[at..]).next() {
        let (size, magic) = (raw.bytes.len(), raw.magic);
        let batch = &mut bytes[at..at + size];
        if magic == 2 {
            stamp::set_checksum(batch);
        } else if let Some(crc) = legacy_checksum(batch) {
            batch[12..16].copy_from_slice(&crc.to_be_bytes());
        }
        at += size;
    }
}

/// The checksum of a message of magic 0 or 1 in its entry: everything behind the checksum itself.
fn legacy_checksum(entry: &[u8]) -> Option<u32> {
    entry.get(16..).map(crc32fast::hash)
}
