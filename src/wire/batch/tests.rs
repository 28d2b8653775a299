use super::*;
use crate::types::{LeaderEpoch, Offset};
use crate::wire::compression::{Codec, DECOMPRESSED_MAX, Decompressor, Scratch, decompress};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

type Field = Option<Vec<u8>>;
#[derive(Clone, Debug, PartialEq)]
struct Rec {
    timestamp: i64,
    key: Field,
    value: Field,
    headers: Vec<(Vec<u8>, Field)>,
}

fn field() -> impl Strategy<Value = Field> {
    option::of(vec(any::<u8>(), 0..200))
}

fn rec() -> impl Strategy<Value = Rec> {
    (any::<i64>(), field(), field(), vec((vec(any::<u8>(), 0..10), field()), 0..4))
        .prop_map(|(timestamp, key, value, headers)| Rec { timestamp, key, value, headers })
}

fn build(options: BatchOptions, records: &[Rec]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(options).unwrap();
    for record in records {
        let headers: Vec<(&[u8], Option<&[u8]>)> =
            record.headers.iter().map(|(key, value)| (&key[..], value.as_deref())).collect();
        builder.append(record.timestamp, record.key.as_deref(), record.value.as_deref(), &headers).unwrap();
    }
    builder.finish().unwrap()
}

fn rec_of(batch: &BatchHeader, record: &Record<'_>) -> Rec {
    Rec {
        timestamp: record.timestamp(batch),
        key: record.key.map(<[u8]>::to_vec),
        value: record.value.map(<[u8]>::to_vec),
        headers: record.headers().map(|h| (h.key.to_vec(), h.value.map(<[u8]>::to_vec))).collect(),
    }
}

/// Through all readers, which must agree.
fn read(bytes: &[u8]) -> Vec<Rec> {
    let batch = Batch::parse(bytes).unwrap();
    assert!(batch.crc_matches());
    let header = &batch.header;
    let codec = header.codec().unwrap();
    let (mut scratch, mut payload) = (Scratch::default(), Vec::new());
    decompress(codec, 2, batch.payload(), DECOMPRESSED_MAX, &mut scratch, &mut payload).unwrap();
    let records: Vec<Record<'_>> = Records::new(header, &payload).collect::<Result<_, _>>().unwrap();

    assert_eq!(Records::new(header, &payload).survey(), survey_one_by_one(Records::new(header, &payload)));

    let stream = Decompressor::new(codec, 2, batch.payload(), DECOMPRESSED_MAX, &mut scratch).unwrap();
    let mut stream = RecordStream::new(header, stream).unwrap();
    for record in &records {
        let head = stream.next_head().unwrap().unwrap();
        assert_eq!(head.timestamp_delta, record.timestamp_delta);
        assert_eq!(head.offset_delta, record.offset_delta);
        assert_eq!(head.has_key, record.key.is_some());
    }
    assert_eq!(stream.next_head(), Ok(None));
    drop(stream);

    let stream = Decompressor::new(codec, 2, batch.payload(), DECOMPRESSED_MAX, &mut scratch).unwrap();
    let mut stream = RecordStream::new(header, stream).unwrap();
    let mut buffer = Vec::new();
    for record in &records {
        assert_eq!(stream.next_record(&mut buffer).unwrap().as_ref(), Some(record));
    }
    assert_eq!(stream.next_record(&mut buffer), Ok(None));
    records.iter().map(|record| rec_of(header, record)).collect()
}

fn survey_one_by_one(records: Records<'_>) -> Result<Survey, RecordError> {
    let mut survey = Survey::EMPTY;
    for record in records {
        let Record { timestamp_delta, key, .. } = record?;
        survey.add(timestamp_delta, key.is_some());
    }
    Ok(survey)
}

fn check_bytes(payload: &[u8], count: i32) -> Result<(), RecordError> {
    let mut bytes = build(BatchOptions::default(), &[]);
    bytes.extend_from_slice(payload);
    let length = (bytes.len() - LOG_OVERHEAD) as i32;
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    bytes[57..61].copy_from_slice(&count.to_be_bytes());
    stamp::set_checksum(&mut bytes);
    let batch = Batch::parse(&bytes).unwrap();
    let by_slice = batch.check_records();
    assert_eq!(batch.records().survey(), survey_one_by_one(batch.records()));
    let mut scratch = Scratch::default();
    let stream = Decompressor::new(Codec::None, 2, batch.payload(), DECOMPRESSED_MAX, &mut scratch).unwrap();
    let mut by_stream = RecordStream::new(&batch.header, stream);
    let by_stream = loop {
        match by_stream.as_mut().map(RecordStream::next_head) {
            Ok(Ok(Some(_))) => {}
            Ok(Ok(None)) => break Ok(()),
            Ok(Err(error)) => break Err(error),
            Err(error) => break Err(*error),
        }
    };
    assert_eq!(by_slice.is_ok(), by_stream.is_ok(), "{by_slice:?} {by_stream:?}");
    by_slice
}

/// A walk takes records that follow one of the same lengths for as sound as that one: no byte may pass for another.
#[test]
fn every_byte_of_records_that_are_alike_is_looked_at() {
    let (key, long_key) = (b"key".to_vec(), vec![b'k'; 70]);
    for (key, value) in [(None, Some(vec![7; 66])), (Some(key), Some(vec![7; 3])), (Some(long_key), None)] {
        let all_have_keys = key.is_some();
        let record = Rec { timestamp: 5, key, value, headers: Vec::new() };
        let bytes = build(BatchOptions::default(), &vec![record; 67]);
        let mut header = BatchHeader::parse(&bytes).unwrap();
        // The offset deltas of the last ones have two bytes.
        let mut payload = &bytes[HEADER_LEN..];
        (0..61).for_each(|_| {
            Record::take(&mut payload).unwrap();
        });
        header.record_count = 6;
        let survey = |payload: &[u8]| {
            (Records::new(&header, payload).survey(), survey_one_by_one(Records::new(&header, payload)))
        };
        assert_eq!(survey(payload).0, Ok(Survey { timestamp_deltas: (0, 0), all_have_keys }));
        for (at, byte) in (0..payload.len()).flat_map(|at| (0..=u8::MAX).map(move |byte| (at, byte))) {
            let mut damaged = payload.to_vec();
            damaged[at] = byte;
            let (fast, slow) = survey(&damaged);
            assert_eq!(fast, slow, "{byte} at {at}");
        }
    }
}

/// Attributes, deltas, key `k`, value `v`, no headers.
const GOOD: [u8; 9] = [16, 0, 0, 0, 2, b'k', 2, b'v', 0];

#[test]
fn strict_about_every_length() {
    assert_eq!(check_bytes(&GOOD, 1), Ok(()));
    assert_eq!(check_bytes(&[], 0), Ok(()));
    assert_eq!(check_bytes(&GOOD, 2), Err(RecordError::Missing(1)));
    assert_eq!(check_bytes(&GOOD, 0), Err(RecordError::Trailing(9)));
    assert_eq!(check_bytes(&GOOD, -2), Err(RecordError::Count(-2)));
    assert_eq!(check_bytes(&GOOD, i32::MAX), Err(RecordError::Missing(i32::MAX - 1)));
    let with = |at: usize, byte: u8| {
        let mut bytes = GOOD;
        bytes[at] = byte;
        check_bytes(&bytes, 1)
    };
    assert_eq!(with(0, 18), Err(RecordError::Length { length: 9, left: 8 }));
    assert_eq!(with(0, 1), Err(RecordError::Length { length: -1, left: 8 }));
    assert_eq!(with(0, 0), Err(RecordError::Varint(crate::wire::varint::VarintError::Short)));
    assert_eq!(with(4, 10), Err(RecordError::Field { length: 5, left: 4 }));
    assert_eq!(with(8, 2), Err(RecordError::HeaderCount { count: 1, left: 0 }));
    assert_eq!(with(8, 3), Err(RecordError::HeaderCount { count: -2, left: 0 }));
    // A shorter value leaves bytes inside the record.
    assert!(with(6, 0).is_err());
    // Every negative length is null.
    assert_eq!(check_bytes(&[14, 0, 0, 0, 3, 2, b'v', 0], 1), Ok(()));
    // A header without key, and one with.
    assert_eq!(check_bytes(&[16, 0, 0, 0, 1, 1, 2, 1, 1], 1), Err(RecordError::HeaderKey(-1)));
    assert_eq!(check_bytes(&[18, 0, 0, 0, 1, 1, 2, 2, b'h', 1], 1), Ok(()));
    // A varint that does not end.
    assert!(check_bytes(&[0x80; 20], 1).is_err());
}

#[test]
fn batches_are_cut_and_the_tail_is_told() {
    let one = build(BatchOptions::default(), &[]);
    let mut bytes = [&one[..], &one[..], &one[..20]].concat();
    let mut batches = Batches::new(&bytes);
    assert_eq!(batches.by_ref().map(|batch| batch.unwrap().bytes.len()).collect::<Vec<_>>(), [61, 61]);
    assert_eq!(batches.rest().len(), 20);

    bytes[61 + 16] = 3;
    let cut: Vec<_> = Batches::new(&bytes).map(|batch| batch.map(|batch| batch.magic)).collect();
    assert_eq!(cut, [Ok(2), Err(CutError::Magic(3))]);
    bytes[61 + 8..61 + 12].copy_from_slice(&13i32.to_be_bytes());
    assert_eq!(Batches::new(&bytes[61..]).next(), Some(Err(CutError::Size(13))));
    bytes[61 + 8..61 + 12].copy_from_slice(&i32::MAX.to_be_bytes());
    assert_eq!(Batches::new(&bytes[61..]).next(), Some(Err(CutError::Magic(3))));
    bytes[61 + 16] = 1;
    assert_eq!(Batches::new(&bytes[61..]).next(), None);
}

#[test]
fn stamping_touches_the_crc_only_for_timestamps() {
    let record = Rec { timestamp: 5, key: None, value: None, headers: Vec::new() };
    let mut bytes = build(BatchOptions::default(), &[record]);
    let before = Batch::parse(&bytes).unwrap().header;
    stamp::set_base_offset(&mut bytes, Offset(77));
    stamp::set_leader_epoch(&mut bytes, LeaderEpoch(3));
    let mut header = BatchHeader { base_offset: Offset(77), leader_epoch: LeaderEpoch(3), ..before };
    stamp::set_max_timestamp(&mut bytes, &mut header, false, 5);
    let after = Batch::parse(&bytes).unwrap();
    assert_eq!((after.header, header.crc), (header, before.crc));
    assert!(after.crc_matches());

    bytes[21] = 0x80;
    stamp::set_checksum(&mut bytes);
    let mut header = BatchHeader::parse(&bytes).unwrap();
    stamp::set_max_timestamp(&mut bytes, &mut header, true, 9);
    let after = Batch::parse(&bytes).unwrap();
    assert!(after.crc_matches() && after.header.is_log_append_time());
    assert_eq!((after.header, header.attributes, header.max_timestamp), (header, 0b1000, 9));
    assert_eq!(after.records().next().unwrap().unwrap().timestamp(&after.header), 9);

    // What is no batch is left alone.
    let whole = bytes.clone();
    stamp::set_base_offset(&mut bytes[..60], Offset(1));
    stamp::set_max_timestamp(&mut bytes[..60], &mut header, true, 1);
    assert_eq!(bytes, whole);
}

#[test]
fn markers() {
    for commit in [false, true] {
        let marker = Marker { commit, coordinator_epoch: 12 };
        let bytes = marker_batch(1005, 4, marker, 99).unwrap();
        let batch = Batch::parse(&bytes).unwrap();
        let header = batch.header;
        assert!(header.is_control() && header.is_transactional());
        assert_eq!((header.producer_id, header.producer_epoch, header.base_sequence), (1005, 4, -1));
        let record = batch.records().next().unwrap().unwrap();
        assert_eq!(ControlRecord::parse(&record), Ok(ControlRecord::EndTransaction(marker)));
    }
    let record = |key, value| {
        let mut builder = BatchBuilder::new(BatchOptions::default()).unwrap();
        builder.append(0, key, value, &[]).unwrap();
        let bytes = builder.finish().unwrap();
        ControlRecord::parse(&Batch::parse(&bytes).unwrap().records().next().unwrap().unwrap())
    };
    assert_eq!(record(Some(&[0, 1, 0, 2]), None), Ok(ControlRecord::Other { kind: 2 }));
    assert!(record(Some(&[0, 0, 0]), None).is_err());
    assert!(record(None, None).is_err());
    assert!(record(Some(&[0, 0, 0, 1]), Some(&[0, 0, 0, 0, 0])).is_err());
    assert!(record(Some(&[0xff, 0xff, 0, 1]), Some(&[0; 6])).is_err());
}

#[test]
fn a_builder_refuses_offsets_that_do_not_fit() {
    let mut builder = BatchBuilder::new(BatchOptions { base_offset: Offset(10), ..BatchOptions::default() }).unwrap();
    let bytes = build(BatchOptions::default(), &[Rec { timestamp: 0, key: None, value: None, headers: Vec::new() }]);
    let record = Batch::parse(&bytes).unwrap().records().next().unwrap().unwrap();
    assert!(builder.append_record(Offset(9), 0, &record).is_err());
    assert!(builder.append_record(Offset(12), 0, &record).is_ok());
    assert!(builder.append_record(Offset(12), 0, &record).is_err());
    assert!(builder.append_record(Offset(13 + i64::from(i32::MAX)), 0, &record).is_err());
    assert_eq!(Batch::parse(&builder.finish().unwrap()).unwrap().header.last_offset(), Offset(12));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_built_is_read(records in vec(rec(), 1..20), codec in 0u8..5) {
        let codec = Codec::from_bits(codec).unwrap();
        let bytes = build(BatchOptions { codec, base_offset: Offset(5), ..BatchOptions::default() }, &records);
        prop_assert_eq!(&read(&bytes), &records);
        let header = BatchHeader::parse(&bytes).unwrap();
        prop_assert_eq!(&header.to_bytes()[..], &bytes[..HEADER_LEN]);
        prop_assert_eq!(header.max_timestamp, records.iter().map(|r| r.timestamp).max().unwrap().max(-1));
    }

    #[test]
    fn random_payloads_never_panic(payload in vec(any::<u8>(), 0..300), count: i32) {
        let _ = check_bytes(&payload, count);
    }

    /// Most have the common shape, and lose it by a byte.
    #[test]
    fn damaged_records_are_the_same_to_every_reader(
        records in vec((0i64..200, field(), field(), 1usize..4), 1..6),
        count_is_off in -1i32..2,
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let records: Vec<Rec> = records
            .into_iter()
            .flat_map(|(timestamp, key, value, times)| vec![Rec { timestamp, key, value, headers: Vec::new() }; times])
            .collect();
        let count = records.len() as i32 + count_is_off;
        let mut payload = build(BatchOptions::default(), &records).split_off(HEADER_LEN);
        for (at, byte) in damage {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        let _ = check_bytes(&payload, count);
    }

    #[test]
    fn damaged_batches_never_panic(
        records in vec(rec(), 1..5),
        codec in 0u8..5,
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let codec = Codec::from_bits(codec).unwrap();
        let mut bytes = build(BatchOptions { codec, ..BatchOptions::default() }, &records);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        for batch in Batches::new(&bytes).flatten() {
            let Ok(batch) = batch.v2() else { continue };
            let header = batch.header;
            let _ = (header.next_offset(), header.last_sequence(), batch.crc_matches());
            let Ok(codec) = header.codec() else { continue };
            let mut scratch = Scratch::default();
            let Ok(stream) = Decompressor::new(codec, 2, batch.payload(), 1 << 20, &mut scratch) else { continue };
            let Ok(mut stream) = RecordStream::new(&header, stream) else { continue };
            let mut buffer = Vec::new();
            while let Ok(Some(record)) = stream.next_record(&mut buffer) {
                let _ = (record.offset(&header), record.timestamp(&header), record.headers().count());
            }
        }
    }
}
