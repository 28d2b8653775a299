//! Segments that Kafka 3.9.1 and, before an upgrade, 2.8.2 wrote (`tests/fixtures/data-dir-3.9.1.tar.gz`), read record by
//! record: all magics, all codecs, headers, compacted and transactional batches.

// The lint spares test functions, not what they call.
#![allow(clippy::unwrap_used)]

#[path = "support/archive.rs"]
mod archive;

use std::collections::BTreeMap;

use klamm::wire::batch::{Batches, ControlRecord, Marker, Records};
use klamm::wire::compression::{Codec, DECOMPRESSED_MAX, Scratch, decompress};
use klamm::wire::legacy::InnerMessages;

const ARCHIVE: &[u8] = include_bytes!("fixtures/data-dir-3.9.1.tar.gz");

#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    offset: i64,
    timestamp: i64,
    key: Option<String>,
    value: Option<String>,
    headers: Vec<(String, Option<String>)>,
    /// Of the batch: magic, codec, producer id, marker.
    magic: i8,
    codec: Option<Codec>,
    producer_id: i64,
    marker: Option<Marker>,
}

fn text(bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// All records of a partition, segments in order.
fn read(files: &BTreeMap<String, Vec<u8>>, partition: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let segments = files.iter().filter(|(path, _)| {
        path.strip_prefix(partition).is_some_and(|name| name.starts_with('/') && name.ends_with(".log"))
    });
    for (path, bytes) in segments {
        let mut batches = Batches::new(bytes);
        for raw in batches.by_ref() {
            let raw = raw.unwrap();
            assert!(raw.crc_matches(), "{path}");
            if raw.magic == 2 { read_batch(&raw.v2().unwrap(), &mut rows) } else { read_message(&raw, &mut rows) }
        }
        assert!(batches.rest().is_empty(), "{path}");
    }
    rows
}

fn read_batch(batch: &klamm::wire::batch::Batch<'_>, rows: &mut Vec<Row>) {
    let header = &batch.header;
    let codec = header.codec().unwrap();
    let mut payload = Vec::new();
    decompress(codec, 2, batch.payload(), DECOMPRESSED_MAX, &mut Scratch::default(), &mut payload).unwrap();
    for record in Records::new(header, &payload) {
        let record = record.unwrap();
        let marker = header.is_control().then(|| match ControlRecord::parse(&record).unwrap() {
            ControlRecord::EndTransaction(marker) => marker,
            other => panic!("{other:?}"),
        });
        rows.push(Row {
            offset: record.offset(header).0,
            timestamp: record.timestamp(header),
            key: text(record.key),
            value: text(record.value),
            headers: record.headers().map(|h| (text(Some(h.key)).unwrap(), text(h.value))).collect(),
            magic: 2,
            codec: Some(codec),
            producer_id: header.producer_id,
            marker,
        });
    }
}

fn read_message(raw: &klamm::wire::batch::RawBatch<'_>, rows: &mut Vec<Row>) {
    let outer = raw.message().unwrap();
    let codec = outer.codec().unwrap();
    let mut push = |message: &klamm::wire::legacy::Message<'_>| {
        rows.push(Row {
            offset: message.offset.0,
            timestamp: message.timestamp,
            key: text(message.key),
            value: text(message.value),
            magic: message.magic,
            codec: Some(codec),
            producer_id: -1,
            ..Row::default()
        });
    };
    if codec == Codec::None {
        return push(&outer);
    }
    let mut scratch = Scratch::default();
    let mut inner = InnerMessages::new(outer, &mut scratch).unwrap();
    while let Some(message) = inner.next_message().unwrap() {
        push(&message);
    }
}

/// The value that the record at `offset` was written with.
fn value(offset: i64, length: usize) -> String {
    let mut value = format!("v{offset}-");
    while value.len() < length {
        value.push(char::from(b'a' + ((offset as usize + value.len()) % 26) as u8));
    }
    value
}

fn check(
    files: &BTreeMap<String, Vec<u8>>,
    partition: &str,
    offsets: std::ops::Range<i64>,
    length: usize,
    keys: i64,
) -> Vec<Row> {
    let rows = read(files, partition);
    assert_eq!(rows.iter().map(|row| row.offset).collect::<Vec<_>>(), offsets.collect::<Vec<_>>(), "{partition}");
    for row in &rows {
        assert_eq!(row.key, Some(format!("k{}", row.offset % keys)), "{partition} {}", row.offset);
        assert_eq!(row.value, Some(value(row.offset, length)), "{partition} {}", row.offset);
    }
    rows
}

#[test]
fn old_formats() {
    let files = archive::files(ARCHIVE);
    for (partition, magic, codec) in [
        ("old0-0", 0, Codec::None),
        ("old1-0", 1, Codec::None),
        ("old1gz-0", 1, Codec::Gzip),
        ("old2-0", 2, Codec::None),
    ] {
        let rows = check(&files, partition, 0..8, 40, 3);
        assert!(rows.iter().all(|row| row.magic == magic && row.codec == Some(codec)), "{partition}");
        assert!(rows.iter().all(|row| (row.timestamp == -1) == (magic == 0)), "{partition}");
    }
}

#[test]
fn codecs() {
    let files = archive::files(ARCHIVE);
    for (name, codec, producer) in [
        ("gzip-0", Codec::Gzip, 1001),
        ("snappy-0", Codec::Snappy, 1002),
        ("lz4-0", Codec::Lz4, 1003),
        ("zstd-0", Codec::Zstd, 1004),
    ] {
        let rows = check(&files, name, 0..10, 60, 4);
        assert!(rows.iter().all(|row| row.codec == Some(codec) && row.producer_id == producer), "{name}");
    }
    check(&files, "plain-0", 0..60, 150, 7);
    check(&files, "ret-0", 20..40, 150, 5);
    check(&files, "delrec-0", 0..20, 30, 5);
    check(&files, "lat-0", 0..5, 30, 5);
}

#[test]
fn headers_and_nulls() {
    let rows = read(&archive::files(ARCHIVE), "hdr2-0");
    let s = |text: &str| Some(text.to_owned());
    let header = |key: &str, value: Option<&str>| (key.to_owned(), value.map(str::to_owned));
    let row = |row: &Row| (row.timestamp, row.key.clone(), row.value.clone(), row.headers.clone());
    assert_eq!(
        rows.iter().map(row).collect::<Vec<_>>(),
        [
            (
                1_700_000_005_000,
                s("k"),
                s("v"),
                vec![header("h1", Some("a")), header("h2", None), header("h1", Some("b"))]
            ),
            (1_700_000_001_000, None, s("v"), vec![]),
            (1_700_000_009_000, s("k"), None, vec![]),
            (1_700_000_002_000, None, None, vec![header("x", None)]),
        ]
    );
}

#[test]
fn a_compacted_log() {
    let rows = read(&archive::files(ARCHIVE), "comp-0");
    let offsets: Vec<i64> = rows.iter().map(|row| row.offset).collect();
    assert_eq!(offsets[..6], [34, 35, 36, 39, 40, 41]);
    assert_eq!(offsets[6..], (42..72).collect::<Vec<_>>());
    let key = |at: usize| rows[at].key.as_deref();
    assert_eq!((key(0), key(1), key(2), key(3)), (Some("k4"), Some("k5"), Some("k0"), Some("k3")));
    assert_eq!((key(4), &rows[4].value), (Some("k1"), &None));
    assert_eq!((key(5), rows[5].value.as_deref()), (Some("k2"), Some("new")));
    assert_eq!((key(6), key(35)), (Some("x0"), Some("x29")));
}

#[test]
fn a_transactional_log() {
    let rows = read(&archive::files(ARCHIVE), "txn-0");
    let markers: Vec<(i64, i64, bool)> =
        rows.iter().filter_map(|row| Some((row.offset, row.producer_id, row.marker?.commit))).collect();
    assert_eq!(markers, [(9, 1005, true), (10, 1006, false), (13, 1006, true), (16, 1005, false)]);
    assert_eq!(rows.len(), 17);
    assert_eq!((rows[0].producer_id, rows[1].producer_id, rows[4].producer_id), (1000, 1005, 1006));
}
