//! The damages of `table.md`, by name.

use std::path::{Path, PathBuf};

use crate::sim::disk::SimDisk;
use crate::storage::atomic_file;
use crate::storage::checkpoint::{CLEANER_OFFSET, LEADER_EPOCH, LOG_START_OFFSET, RECOVERY_POINT, REPLICATION_OFFSET};
use crate::storage::disk::{Disk, Open};

/// A disk between two starts.
pub struct Damaged<'a>(pub &'a SimDisk);

impl Damaged<'_> {
    /// Files of the partition, unless the name belongs to the log directory.
    fn path(name: &str) -> PathBuf {
        match name {
            RECOVERY_POINT | LOG_START_OFFSET | REPLICATION_OFFSET | CLEANER_OFFSET | MARKER | META => {
                Path::new("/logs").join(name)
            }
            _ => Path::new("/logs/t-0").join(name),
        }
    }
    fn bytes(&self, name: &str) -> Vec<u8> {
        atomic_file::read_if_there(self.0, &Damaged::path(name)).unwrap().unwrap_or_default()
    }
    pub fn write(&self, name: &str, bytes: &[u8]) {
        let file = self.0.open(&Damaged::path(name), Open::Create).unwrap();
        file.set_len(0).unwrap();
        file.write_all_at(bytes, 0).unwrap();
    }
    pub fn remove(&self, name: &str) {
        atomic_file::remove_if_there(self.0, &Damaged::path(name)).unwrap();
    }
    fn cut(&self, name: &str, bytes: usize) {
        let old = self.bytes(name);
        self.write(name, &old[..old.len() - bytes]);
    }
    fn add(&self, name: &str, more: &[u8]) {
        let mut bytes = self.bytes(name);
        bytes.extend(more);
        self.write(name, &bytes);
    }
    /// Flips a bit in the last of a segment's four batches, `at` bytes into it.
    fn flip_in_last_batch(&self, name: &str, at: usize) {
        let mut bytes = self.bytes(name);
        let begin = bytes.len() / 4 * 3;
        bytes[begin + at] ^= 0x40;
        self.write(name, &bytes);
    }
    fn remove_segment(&self, base: &str) {
        ["log", "index", "timeindex"].iter().for_each(|extension| self.remove(&format!("{base}.{extension}")));
    }
    fn remove_snapshots(&self) {
        for entry in self.0.list(Path::new("/logs/t-0")).unwrap() {
            if entry.name.ends_with(".snapshot") {
                self.remove(&entry.name);
            }
        }
    }
}

const MARKER: &str = ".kafka_cleanshutdown";
const META: &str = "meta.properties";
const METADATA: &str = "partition.metadata";
const SEALED: &str = "00000000000000000008.log";
const LAST: &str = "00000000000000000016.log";
const SEALED_INDEX: &str = "00000000000000000000.index";
const SEALED_TIMES: &str = "00000000000000000000.timeindex";
const LAST_INDEX: &str = "00000000000000000016.index";
const LAST_TIMES: &str = "00000000000000000016.timeindex";
const SNAPSHOT: &str = "00000000000000000016.snapshot";

// Where the fields of a batch begin; the highest byte is flipped where size and offset are concerned.
const OFFSET: usize = 0;
const SIZE: usize = 8;
const EPOCH: usize = 15;
const MAGIC: usize = 16;
const CRC: usize = 17;
const BODY: usize = 70;

#[allow(clippy::type_complexity)]
pub const DAMAGES: &[(&str, fn(&Damaged<'_>))] = &[
    ("nothing", |_| {}),
    ("last batch torn", |d| d.cut(LAST, 7)),
    ("half a header", |d| d.cut(LAST, d.bytes(LAST).len() / 4 - 20)),
    ("bit flip in the last batch's body", |d| d.flip_in_last_batch(LAST, BODY)),
    ("bit flip in the last batch's crc", |d| d.flip_in_last_batch(LAST, CRC)),
    ("bit flip in the last batch's magic", |d| d.flip_in_last_batch(LAST, MAGIC)),
    ("bit flip in the last batch's size", |d| d.flip_in_last_batch(LAST, SIZE)),
    ("bit flip in the last batch's offset", |d| d.flip_in_last_batch(LAST, OFFSET)),
    ("bit flip in the last batch's leader epoch", |d| d.flip_in_last_batch(LAST, EPOCH)),
    ("zeros after the last batch", |d| d.add(LAST, &[0; 4096])),
    ("half a batch after the last", |d| d.add(LAST, &d.bytes(LAST)[..80])),
    ("the last batch twice", |d| {
        let bytes = d.bytes(LAST);
        d.add(LAST, &bytes[bytes.len() * 3 / 4..]);
    }),
    ("a huge size after the last batch", |d| {
        let mut head = d.bytes(LAST)[..61].to_vec();
        head[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
        d.add(LAST, &head);
    }),
    ("the last segment empty", |d| d.write(LAST, &[])),
    ("the last segment missing", |d| d.remove_segment("00000000000000000016")),
    ("bit flip in a sealed batch's body", |d| d.flip_in_last_batch(SEALED, BODY)),
    ("bit flip in a sealed batch's crc", |d| d.flip_in_last_batch(SEALED, CRC)),
    ("bit flip in a sealed batch's magic", |d| d.flip_in_last_batch(SEALED, MAGIC)),
    ("bit flip in a sealed batch's size", |d| d.flip_in_last_batch(SEALED, SIZE)),
    ("a sealed segment short", |d| d.cut(SEALED, d.bytes(SEALED).len() / 4)),
    ("a sealed segment missing", |d| d.remove_segment("00000000000000000008")),
    ("sealed index missing", |d| d.remove(SEALED_INDEX)),
    ("sealed index of zeros", |d| d.write(SEALED_INDEX, &[0; 64])),
    ("sealed index of 5 bytes", |d| d.write(SEALED_INDEX, &[1; 5])),
    ("sealed index of garbage", |d| d.write(SEALED_INDEX, &[0x55; 24])),
    ("sealed time index missing", |d| d.remove(SEALED_TIMES)),
    ("sealed time index of zeros", |d| d.write(SEALED_TIMES, &[0; 120])),
    ("sealed time index of 5 bytes", |d| d.write(SEALED_TIMES, &[1; 5])),
    ("last index missing", |d| d.remove(LAST_INDEX)),
    ("last index of garbage", |d| d.write(LAST_INDEX, &[0x55; 24])),
    ("last time index of garbage", |d| d.write(LAST_TIMES, &[0x55; 24])),
    ("an index without a log", |d| d.write("00000000000000000099.index", &[1; 8])),
    ("transaction index of garbage", |d| d.write("00000000000000000008.txnindex", &[7; 33])),
    ("leader epochs missing", |d| d.remove(LEADER_EPOCH)),
    ("leader epochs of garbage", |d| d.write(LEADER_EPOCH, b"0\nmany\n\xff")),
    ("leader epochs of zeros", |d| d.write(LEADER_EPOCH, &[0; 10])),
    ("leader epochs with a line short", |d| d.write(LEADER_EPOCH, b"0\n2\n0 0\n")),
    ("leader epochs that are none", |d| d.write(LEADER_EPOCH, b"0\n0\n")),
    ("leader epochs empty", |d| d.write(LEADER_EPOCH, b"")),
    ("snapshot of garbage", |d| d.write(SNAPSHOT, &[9; 56])),
    ("snapshot empty", |d| d.write(SNAPSHOT, &[])),
    ("snapshot missing", |d| d.remove(SNAPSHOT)),
    ("every snapshot missing", |d| d.remove_snapshots()),
    ("a snapshot beyond the end", |d| d.write("00000000000000000077.snapshot", &[9; 56])),
    ("recovery points missing", |d| d.remove(RECOVERY_POINT)),
    ("recovery points of garbage", |d| d.write(RECOVERY_POINT, b"what")),
    ("recovery point beyond the end", |d| d.write(RECOVERY_POINT, b"0\n1\nt 0 900\n")),
    ("recovery point negative", |d| d.write(RECOVERY_POINT, b"0\n1\nt 0 -900\n")),
    ("log starts of garbage", |d| d.write(LOG_START_OFFSET, b"0\n1\nt 0 x\n")),
    ("log start inside a batch", |d| d.write(LOG_START_OFFSET, b"0\n1\nt 0 5\n")),
    ("log start beyond the end", |d| d.write(LOG_START_OFFSET, b"0\n1\nt 0 100\n")),
    ("log start negative", |d| d.write(LOG_START_OFFSET, b"0\n1\nt 0 -7\n")),
    ("high watermarks missing", |d| d.remove(REPLICATION_OFFSET)),
    ("high watermarks of garbage", |d| d.write(REPLICATION_OFFSET, b"0\n1\nt zero 7\n")),
    ("high watermark beyond the end", |d| d.write(REPLICATION_OFFSET, b"0\n1\nt 0 900\n")),
    ("partition.metadata missing", |d| d.remove(METADATA)),
    ("partition.metadata of garbage", |d| d.write(METADATA, b"version: 0\ntopic_id: ?")),
    ("partition.metadata empty", |d| d.write(METADATA, b"")),
    ("meta.properties missing", |d| d.remove(META)),
    ("meta.properties of garbage", |d| d.write(META, b"version=seven\n")),
    ("meta.properties of another broker", |d| d.write(META, b"version=0\nbroker.id=9\ncluster.id=cluster-a\n")),
    ("a clean marker without an orderly stop", |d| d.write(MARKER, br#"{"version":0,"brokerEpoch":-1}"#)),
    ("a clean marker over a torn batch", |d| {
        d.write(MARKER, br#"{"version":0,"brokerEpoch":-1}"#);
        d.cut(LAST, 7);
    }),
    ("a clean marker that is empty", |d| d.write(MARKER, b"")),
    ("deleted files left over", |d| d.write("00000000000000000003.log.deleted", b"x")),
    ("a cleaned segment unfinished", |d| {
        d.write("00000000000000000000.log.cleaned", b"x");
        d.write("00000000000000000000.log.swap", b"x");
    }),
    ("a cleaned segment complete", |d| {
        let bytes = d.bytes("00000000000000000000.log");
        d.write("00000000000000000000.log.swap", &bytes);
    }),
    ("cleaned indexes without a log", |d| {
        d.write("00000000000000000008.index.cleaned", &[1; 8]);
        d.write("00000000000000000008.timeindex.cleaned", &[1; 12]);
    }),
    ("a cleaned segment half renamed", |d| {
        let bytes = d.bytes("00000000000000000000.log");
        d.write("00000000000000000000.log.swap", &bytes[..bytes.len() / 2]);
        d.write("00000000000000000000.index.cleaned", &[1; 8]);
    }),
    ("a cleaned segment beside what it replaces", |d| {
        let mut bytes = d.bytes("00000000000000000000.log");
        bytes.extend(d.bytes(SEALED));
        d.write("00000000000000000000.log.swap", &bytes);
    }),
    ("a cleaned index in its place, the log not yet", |d| {
        let bytes = d.bytes("00000000000000000000.log");
        d.remove("00000000000000000000.log");
        d.write("00000000000000000000.log.swap", &bytes);
    }),
    ("cleaner checkpoint of garbage", |d| d.write(CLEANER_OFFSET, b"what")),
    ("cleaner checkpoint beyond the end", |d| d.write(CLEANER_OFFSET, b"0\n1\nt 0 900\n")),
    ("a file of unknown name", |d| d.write("notes.txt", b"keep")),
];
