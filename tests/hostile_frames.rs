//! Bodies that lie about their counts, in every API and version served: an error or a value, never a crash, and memory
//! that follows the bytes that arrived.
//!
//! Valid bodies come from the independent codec itself: its decoder runs on a reader that makes up each field as it is
//! asked for, so every array has an element and every byte of the body is known. Then every position is overwritten with
//! lies.
//!
//! One test in a process of its own: it looks at the process's memory.

use std::fs;
use std::ops::Range;

use bytes::{Buf, Bytes, TryGetError};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::buf::ByteBuf;
use kafka_protocol::protocol::{Decodable, Message};
use klamm::wire::api_versions::{ApiKey, advertised};
use klamm::wire::fetch::FetchRequest as Fetch;
use klamm::wire::guard::{self, Malformed};
use klamm::wire::produce::ProduceRequest as Produce;

/// Makes up what is read from it, and keeps it.
struct Inventor {
    written: Vec<u8>,
}

impl Inventor {
    fn give<const N: usize>(&mut self, bytes: [u8; N]) -> [u8; N] {
        self.written.extend(bytes);
        bytes
    }
}

impl Buf for Inventor {
    fn remaining(&self) -> usize {
        usize::MAX
    }
    fn chunk(&self) -> &[u8] {
        unimplemented!("every read is overridden")
    }
    fn advance(&mut self, _: usize) {
        unimplemented!("every read is overridden")
    }
    fn try_get_u8(&mut self) -> Result<u8, TryGetError> {
        // A compact length of one, a true.
        Ok(u8::from_be_bytes(self.give([2])))
    }
    fn try_get_i8(&mut self) -> Result<i8, TryGetError> {
        Ok(i8::from_be_bytes(self.give([1])))
    }
    fn try_get_i16(&mut self) -> Result<i16, TryGetError> {
        Ok(i16::from_be_bytes(self.give(1i16.to_be_bytes())))
    }
    fn try_get_i32(&mut self) -> Result<i32, TryGetError> {
        Ok(i32::from_be_bytes(self.give(1i32.to_be_bytes())))
    }
    fn try_get_i64(&mut self) -> Result<i64, TryGetError> {
        Ok(i64::from_be_bytes(self.give(1i64.to_be_bytes())))
    }
    fn try_copy_to_slice(&mut self, into: &mut [u8]) -> Result<(), TryGetError> {
        into.fill(b'i');
        self.written.extend_from_slice(into);
        Ok(())
    }
}

impl ByteBuf for Inventor {
    fn peek_bytes(&mut self, range: Range<usize>) -> Bytes {
        vec![b'p'; range.len()].into()
    }
    fn get_bytes(&mut self, size: usize) -> Bytes {
        let bytes = vec![b's'; size];
        self.written.extend_from_slice(&bytes);
        bytes.into()
    }
}

fn invent<T: Decodable>(version: i16) -> Vec<u8> {
    let mut inventor = Inventor { written: Vec::new() };
    T::decode(&mut inventor, version).expect("a made up body");
    inventor.written
}

const LIES: &[&[u8]] = &[
    &[0x7f, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xfe],
    &[0x80, 0, 0, 0],
    &[0x00, 0x10, 0, 0],
    &[0x7f, 0xff],
    &[0xff, 0xfe],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0x03],
];

/// Calls `decode` with `body` cut, overwritten and lengthened at every position.
fn lie(body: &[u8], decode: &mut dyn FnMut(Vec<u8>)) {
    for at in 0..body.len() {
        decode(body[..at].to_vec());
        for lie in LIES {
            let over = [&body[..at], lie, body.get(at + lie.len()..).unwrap_or_default()].concat();
            decode([&over[..], &[0; 100]].concat());
            decode(over);
            // In place of one byte: a compact count grows by its further bytes.
            decode([&body[..at], lie, &body[at + 1..]].concat());
        }
    }
}

/// Bytes of memory this process has, or had at most since the last `forget_peak`.
fn resident(field: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a field of status");
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse::<usize>().expect("a number") << 10
}

fn forget_peak() {
    fs::write("/proc/self/clear_refs", "5").expect("procfs");
}

/// Fails when `work` on `bytes` bytes took more memory than they allow.
fn bounded(what: &str, bytes: usize, work: impl FnOnce()) {
    forget_peak();
    let before = resident("VmRSS:");
    work();
    let grown = resident("VmHWM:").saturating_sub(before);
    let allowed = (8 << 20) + 16 * bytes;
    assert!(grown <= allowed, "{what}: {grown} bytes of memory for {bytes} bytes, {allowed} allowed");
}

fn hostile<T: Decodable + Message>(key: ApiKey) {
    let row = key.row();
    for version in row.min_version..=row.max_version {
        let body = invent::<T>(version);
        let decoded: Result<T, Malformed> = guard::decode(body.clone().into(), version);
        assert!(decoded.is_ok(), "{key:?} v{version}: an honest body is refused");
        bounded(&format!("{key:?} v{version}"), body.len(), || {
            lie(&body, &mut |bytes| drop(guard::decode::<T>(bytes.into(), version)));
        });
    }
}

#[test]
fn counts_are_not_believed() {
    for row in advertised() {
        match row.key {
            ApiKey::Produce => {
                hand_written::<ProduceRequest>(row.key, |body, version| Produce::decode(body, 0, version).is_ok())
            }
            ApiKey::Fetch => {
                hand_written::<FetchRequest>(row.key, |body, version| Fetch::decode(body, 0, version).is_ok())
            }
            ApiKey::ListOffsets => hostile::<ListOffsetsRequest>(row.key),
            ApiKey::Metadata => hostile::<MetadataRequest>(row.key),
            ApiKey::ApiVersions => hostile::<ApiVersionsRequest>(row.key),
            ApiKey::CreateTopics => hostile::<CreateTopicsRequest>(row.key),
            ApiKey::DeleteTopics => hostile::<DeleteTopicsRequest>(row.key),
            ApiKey::DeleteRecords => hostile::<DeleteRecordsRequest>(row.key),
            ApiKey::OffsetForLeaderEpoch => hostile::<OffsetForLeaderEpochRequest>(row.key),
            ApiKey::DescribeConfigs => hostile::<DescribeConfigsRequest>(row.key),
            ApiKey::AlterConfigs => hostile::<AlterConfigsRequest>(row.key),
            ApiKey::DescribeLogDirs => hostile::<DescribeLogDirsRequest>(row.key),
            ApiKey::CreatePartitions => hostile::<CreatePartitionsRequest>(row.key),
            ApiKey::IncrementalAlterConfigs => hostile::<IncrementalAlterConfigsRequest>(row.key),
            ApiKey::DescribeCluster => hostile::<DescribeClusterRequest>(row.key),
            key => panic!("{key:?} is served and not tested here"),
        }
    }
    elements_without_bytes();
}

fn hand_written<T: Decodable>(key: ApiKey, decode: fn(&[u8], i16) -> bool) {
    let row = key.row();
    for version in row.min_version..=row.max_version {
        let body = invent::<T>(version);
        assert!(decode(&body, version), "{key:?} v{version}: an honest body is refused");
        bounded(&format!("{key:?} v{version}"), body.len(), || {
            lie(&body, &mut |bytes| {
                decode(&bytes, version);
            });
        });
    }
}

/// Arrays whose elements are as many as announced, each of the fewest bytes and the most memory.
fn elements_without_bytes() {
    const COUNT: u32 = 8 << 20;
    // Topics with empty names, two bytes each in version 1 and 72 in memory.
    let body: Bytes = [&COUNT.to_be_bytes()[..], &vec![0; 2 * COUNT as usize]].concat().into();
    bounded("Metadata v1", body.len(), || {
        let decoded = guard::decode::<MetadataRequest>(body.clone(), 1);
        assert_eq!(decoded.err(), Some(Malformed::Counts { bytes: body.len() }));
    });
    // Names of one byte each in version 4.
    let count = [0x81, 0x80, 0x80, 0x04];
    let body: Bytes = [&count[..], &vec![1; COUNT as usize], &[0, 0, 0, 0]].concat().into();
    bounded("DeleteTopics v4", body.len(), || {
        let decoded = guard::decode::<DeleteTopicsRequest>(body.clone(), 4);
        assert_eq!(decoded.err(), Some(Malformed::Counts { bytes: body.len() }));
    });
}
