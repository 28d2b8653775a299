//! `tests/fixtures/down-conversion-3.9.1.txt`: the same records as a live Kafka answered them to Fetch v4, v2 and v0.

use super::*;
use crate::wire::batch::{BatchBuilder, BatchOptions, Marker, marker_batch};
use proptest::prelude::*;

const LINES: &str = include_str!("../../../tests/fixtures/down-conversion-3.9.1.txt");

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
}

fn convert(records: &[u8], to_magic: i8, from: i64) -> Result<Vec<u8>, ConvertError> {
    let mut out = Vec::new();
    let mut conversion = DownConversion::new(records, to_magic, Offset(from));
    while conversion.convert_next(&mut out, &mut Scratch::default())? {}
    Ok(out)
}

/// Magic, attributes, offset, timestamp.
type Outer = (i8, u8, i64, i64);
/// Offset, timestamp, key, value.
type Row = (i64, i64, Option<Vec<u8>>, Option<Vec<u8>>);

fn row(message: &Message<'_>) -> Row {
    (message.offset.0, message.timestamp, message.key.map(<[u8]>::to_vec), message.value.map(<[u8]>::to_vec))
}

/// The front of each outer message, and all messages.
fn read(set: &[u8]) -> (Vec<Outer>, Vec<Row>) {
    let (mut outer, mut rows) = (Vec::new(), Vec::new());
    for raw in Batches::new(set) {
        let raw = raw.unwrap();
        assert!(raw.crc_matches());
        let message = raw.message().unwrap();
        outer.push((message.magic, message.attributes, message.offset.0, message.timestamp));
        if message.codec().unwrap() == Codec::None {
            rows.push(row(&message));
            continue;
        }
        let mut scratch = Scratch::default();
        let mut inner = InnerMessages::new(message, &mut scratch).unwrap();
        while let Some(message) = inner.next_message().unwrap() {
            rows.push(row(&message));
        }
    }
    (outer, rows)
}

#[test]
fn same_messages_as_a_live_kafka() {
    let mut count = 0;
    for line in LINES.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, from, stored, magic_1, magic_0] = columns[..] else { panic!("{line}") };
        for (to_magic, expected) in [(1, hex(magic_1)), (0, hex(magic_0))] {
            let stored = hex(stored);
            let mut ours = Vec::new();
            let mut conversion = DownConversion::new(&stored, to_magic, Offset(from.parse().unwrap()));
            // One topic ends in zstd: what comes before is answered without an error.
            while matches!(conversion.convert_next(&mut ours, &mut Scratch::default()), Ok(true)) {}
            let (outer, rows) = read(&ours);
            // Kafka cuts its answer off at the size of the stored batches.
            let (expected_outer, expected_rows) = read(&expected);
            assert!(!expected_rows.is_empty());
            assert_eq!(outer[..expected_outer.len()], expected_outer, "{name} {from} magic {to_magic}");
            assert_eq!(rows[..expected_rows.len()], expected_rows, "{name} {from} magic {to_magic}");
            if outer.iter().all(|outer| outer.1 & 0b111 == 0) {
                assert!(ours.starts_with(&expected), "{name} {from} magic {to_magic}");
            }
            count += 1;
        }
    }
    assert!(count > 20);
}

fn batch(codec: Codec, base: i64) -> Vec<u8> {
    let mut batch =
        BatchBuilder::new(BatchOptions { codec, base_offset: Offset(base), ..BatchOptions::default() }).unwrap();
    batch.append(10, Some(b"k"), Some(b"v"), &[(b"h", None)]).unwrap();
    batch.append(20, None, None, &[]).unwrap();
    batch.finish().unwrap()
}

#[test]
fn control_batches_leave_nothing_and_the_next_batch_comes_at_once() {
    let marker = marker_batch(1, 0, Marker { commit: true, coordinator_epoch: 0 }, 5).unwrap();
    let records = [&marker[..], &batch(Codec::None, 1), &marker].concat();
    let mut out = Vec::new();
    let mut conversion = DownConversion::new(&records, 1, Offset(0));
    assert!(conversion.convert_next(&mut out, &mut Scratch::default()).unwrap());
    assert_eq!(read(&out).1.len(), 2);
    assert!(!conversion.convert_next(&mut out, &mut Scratch::default()).unwrap());
    assert_eq!(read(&out).1.len(), 2);
}

#[test]
fn zstd_is_an_error_that_keeps_what_came_before() {
    let records = [batch(Codec::Gzip, 0), batch(Codec::Zstd, 2)].concat();
    let mut out = Vec::new();
    let mut conversion = DownConversion::new(&records, 1, Offset(0));
    assert!(conversion.convert_next(&mut out, &mut Scratch::default()).unwrap());
    let before = out.clone();
    assert!(matches!(conversion.convert_next(&mut out, &mut Scratch::default()), Err(ConvertError::Zstd(1))));
    assert_eq!(out, before);
}

#[test]
fn old_sets_pass_or_lose_their_timestamps() {
    for codec in [Codec::None, Codec::Gzip, Codec::Lz4] {
        let magic_1 = convert(&batch(codec, 7), 1, 0).unwrap();
        assert_eq!(convert(&magic_1, 1, 8).unwrap(), magic_1);
        let magic_0 = convert(&magic_1, 0, 0).unwrap();
        assert_eq!(convert(&magic_0, 1, 8).unwrap(), magic_0);
        let expected = [(7, -1, Some(b"k".to_vec()), Some(b"v".to_vec())), (8, -1, None, None)];
        assert_eq!(read(&magic_0).1, expected);
        assert!(read(&magic_0).0.iter().all(|outer| outer.0 == 0));
        // Plain messages below the fetch offset go; inside a wrapper they stay.
        let kept = if codec == Codec::None { 1 } else { 2 };
        assert_eq!(read(&convert(&magic_1, 0, 8).unwrap()).1.len(), kept);
    }
}

#[test]
fn an_unfinished_batch_is_dropped() {
    let records = batch(Codec::None, 0);
    assert!(convert(&records[..records.len() - 1], 1, 0).unwrap().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_batches_never_panic(
        codec in 0usize..4,
        to_magic in 0i8..2,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let mut records = [batch(Codec::ALL[codec], 0), batch(Codec::ALL[codec], 2)].concat();
        for (at, byte) in damage {
            let at = at.index(records.len());
            records[at] = byte;
        }
        let _ = convert(&records, to_magic, 1);
    }
}
