//! The embedded metastore's two files, any bytes in each: a tree comes of them, the same one at the next start, or a
//! refusal that leaves both as they were. Parts as in `klamm_fuzz::parts`: kind 0 is the snapshot, 1 the journal.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use klamm::clock::ManualClock;
use klamm::metastore::CreateMode;
use klamm::metastore::embedded::{EmbeddedStore, OpenError};
use klamm::sim::brokers::Inline;
use klamm::sim::disk::{Keep, SimDisk};
use klamm_fuzz::{files, parts};
use libfuzzer_sys::fuzz_target;

const SNAPSHOT: &str = "/logs/klamm-metastore.snapshot";
const JOURNAL: &str = "/logs/klamm-metastore.journal";

/// Checksums are made to fit.
const FIT: u8 = 1;

fuzz_target!(|input: &[u8]| {
    let (flags, parts) = parts::split(input, 2);
    let (disk, clock) = files::disk();
    for (kind, bytes) in parts {
        let mut bytes = bytes.to_vec();
        if flags & FIT != 0 {
            if kind == 0 { fit_end(&mut bytes) } else { fit_journal(&mut bytes) }
        }
        files::put(&disk, Path::new(if kind == 0 { SNAPSHOT } else { JOURNAL }), &bytes);
    }
    klamm::storage::disk::Disk::create_dir_all(&disk, Path::new("/logs")).expect("a directory");
    disk.crash(Keep::Everything);
    let both = |disk: &SimDisk| [SNAPSHOT, JOURNAL].map(|path| files::get(disk, Path::new(path)));
    let before = both(&disk);
    let store = match open(&disk, &clock) {
        Ok(store) => store,
        Err(error) => {
            assert!(both(&disk) == before, "refused ({error}), and yet changed");
            return;
        }
    };
    let found = tree(&store);
    drop(store);
    disk.crash(Keep::Nothing);
    let store = open(&disk, &clock).expect("what opened a moment ago");
    // Sessions of the first life are over, and what they owned with them: only when the journal says so.
    assert_eq!(tree(&store), found, "after a second start");

    let session = store.session();
    let made = now(session.create("/z", Some(Bytes::from_static(b"new")), CreateMode::PersistentSequential));
    let grown = tree(&store);
    if let Ok(path) = &made {
        assert!(grown.iter().any(|(there, ..)| there == path));
    }
    drop((session, store));
    disk.crash(Keep::Nothing);
    let store = open(&disk, &clock).expect("what was written to");
    assert_eq!(tree(&store), grown, "after a third start");
});

fn open(disk: &SimDisk, clock: &Arc<ManualClock>) -> Result<Arc<EmbeddedStore>, OpenError> {
    EmbeddedStore::open(Arc::new(disk.clone()), &[PathBuf::from("/logs")], clock.clone(), Arc::new(Inline))
}

/// What the store answers at once: with everything inline, that is everything.
fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("an answer in line")
}

/// Every node below the root, with what can be known of it.
fn tree(store: &Arc<EmbeddedStore>) -> Vec<(String, Bytes, i64, i32)> {
    let session = store.session();
    let mut nodes = Vec::new();
    let mut left = vec![String::from("/")];
    while let Some(path) = left.pop() {
        let mut children = now(session.children(&path)).expect("children of a node");
        children.sort();
        for child in children {
            let path = if path == "/" { format!("/{child}") } else { format!("{path}/{child}") };
            let (data, stat) = now(session.get(&path)).expect("a child");
            nodes.push((path.clone(), data, stat.mzxid, stat.version));
            left.push(path);
        }
    }
    nodes.sort();
    nodes
}

/// The checksum in the last four bytes, of all before.
fn fit_end(bytes: &mut [u8]) {
    if let Some((body, crc)) = bytes.split_last_chunk_mut::<4>() {
        *crc = crc32c::crc32c(body).to_le_bytes();
    }
}

/// The header's checksum, then every frame's.
fn fit_journal(bytes: &mut [u8]) {
    let Some((header, mut rest)) = bytes.split_at_mut_checked(20) else { return };
    fit_end(header);
    while let Some((head, after)) = rest.split_first_chunk_mut::<12>() {
        let length = [head[4], head[5], head[6], head[7]];
        let Some((body, after)) = after.split_at_mut_checked(u32::from_le_bytes(length) as usize) else { return };
        head[..4].copy_from_slice(b"KLMF");
        head[8..].copy_from_slice(&crc32c::crc32c_append(crc32c::crc32c(&length), body).to_le_bytes());
        rest = after;
    }
}
