use super::*;
use crate::wire::batch::{Batch, BatchBuilder, BatchOptions, Batches, HEADER_LEN, LOG_OVERHEAD, Marker, marker_batch};
use crate::wire::compression::{DECOMPRESSED_MAX, compress, decompress};
use crate::wire::error_code::ErrorCode;
use crate::wire::legacy::{MessageSetBuilder, SetOptions};
use proptest::prelude::*;

const NOW: i64 = 5_000_000;
/// Offset, timestamp, key, value.
type Row = (i64, i64, Option<Vec<u8>>, Option<Vec<u8>>);

fn context(config: &TopicConfig) -> Context<'_> {
    Context {
        origin: Origin::Client { produce_version: 9 },
        config,
        next_offset: Offset(100),
        leader_epoch: LeaderEpoch(7),
        now_ms: NOW,
        decompressed_max: DECOMPRESSED_MAX,
    }
}

fn old_client(config: &TopicConfig) -> Context<'_> {
    Context { origin: Origin::Client { produce_version: 2 }, ..context(config) }
}

fn build(options: BatchOptions, rows: &[(i64, Option<&[u8]>)]) -> Vec<u8> {
    let mut batch = BatchBuilder::new(options).unwrap();
    for (timestamp, key) in rows {
        batch.append(*timestamp, *key, Some(b"value"), &[]).unwrap();
    }
    batch.finish().unwrap()
}

const KEY: Option<&[u8]> = Some(b"k");

/// Three records, the one in the middle with the largest timestamp.
fn three(codec: Codec) -> Vec<u8> {
    build(BatchOptions { codec, ..BatchOptions::default() }, &[(1000, KEY), (3000, None), (2000, KEY)])
}

/// Changes header fields of a good batch and makes the CRC right again.
fn edit(mut batch: Vec<u8>, change: impl FnOnce(&mut BatchHeader)) -> Vec<u8> {
    let mut header = BatchHeader::parse(&batch).unwrap();
    change(&mut header);
    batch[..HEADER_LEN].copy_from_slice(&header.to_bytes());
    stamp::set_checksum(&mut batch);
    batch
}

/// A batch whose payload is exactly `payload`.
fn with_payload(attributes: i16, count: i32, payload: &[u8]) -> Vec<u8> {
    let mut batch = three(Codec::None);
    batch.truncate(HEADER_LEN);
    batch.extend_from_slice(payload);
    let batch_length = (batch.len() - LOG_OVERHEAD) as i32;
    edit(batch, |header| {
        *header = BatchHeader { attributes, record_count: count, last_offset_delta: count - 1, batch_length, ..*header }
    })
}

fn rows(written: &[u8]) -> Vec<Row> {
    let batch = Batch::parse(written).unwrap();
    assert!(batch.crc_matches());
    assert_eq!(batch.bytes.len(), written.len());
    let mut payload = Vec::new();
    let codec = batch.header.codec().unwrap();
    decompress(codec, 2, batch.payload(), DECOMPRESSED_MAX, &mut Scratch::default(), &mut payload).unwrap();
    crate::wire::batch::Records::new(&batch.header, &payload)
        .map(|record| {
            let record = record.unwrap();
            let (key, value) = (record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec));
            (record.offset(&batch.header).0, record.timestamp(&batch.header), key, value)
        })
        .collect()
}

#[track_caller]
fn accept(mut received: Vec<u8>, context: &Context<'_>) -> (Validated, Vec<u8>) {
    let valid = validate(&mut received, context).unwrap().unwrap();
    let written = valid.bytes(&received).to_vec();
    assert_eq!(Batch::parse(&written).unwrap().header, valid.header);
    (valid, written)
}

#[track_caller]
fn refuse(mut received: Vec<u8>, context: &Context<'_>) -> Refusal {
    validate(&mut received, context).unwrap_err()
}

#[test]
fn offsets_epoch_and_max_timestamp_are_stamped_in_place() {
    let config = TopicConfig::default();
    for codec in Codec::ALL {
        // What the producer says of the maximum is not believed.
        let batch = edit(three(codec), |header| header.max_timestamp = -1);
        let received = [&batch[..], &[1, 2, 3]].concat();
        let (valid, written) = accept(received, &context(&config));
        assert_eq!(valid.written, Written::InPlace(batch.len()));
        assert_eq!((valid.header.base_offset, valid.header.leader_epoch), (Offset(100), LeaderEpoch(7)));
        assert_eq!((valid.header.max_timestamp, valid.offset_of_max_timestamp), (3000, Offset(102)));
        assert_eq!(valid.log_append_time_ms, -1);
        assert_eq!(written[HEADER_LEN..], batch[HEADER_LEN..]);
        let expected = [(100, 1000, true), (101, 3000, false), (102, 2000, true)];
        assert_eq!(rows(&written).iter().map(|r| (r.0, r.1, r.2.is_some())).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn an_unchanged_maximum_leaves_the_crc_alone() {
    let config = TopicConfig::default();
    let batch = edit(three(Codec::None), |header| header.attributes |= 1 << 9);
    let (valid, _) = accept(batch.clone(), &context(&config));
    let before = BatchHeader::parse(&batch).unwrap();
    assert_eq!((valid.header.crc, valid.header.attributes), (before.crc, before.attributes));
}

#[test]
fn log_append_time_is_stamped() {
    let config = TopicConfig { message_timestamp_type: TimestampType::LogAppendTime, ..TopicConfig::default() };
    for codec in Codec::ALL {
        let (valid, written) = accept(three(codec), &context(&config));
        assert_eq!((valid.log_append_time_ms, valid.header.max_timestamp), (NOW, NOW));
        assert!(rows(&written).iter().all(|row| row.1 == NOW));
    }
    let flagged = edit(three(Codec::None), |header| header.attributes |= 1 << 3);
    assert_eq!(refuse(flagged.clone(), &context(&config)).rule, Rule::Timestamps);
    // On a CreateTime topic the flag is taken off, and the records have the batch's time.
    let config = TopicConfig::default();
    let (valid, written) = accept(flagged, &context(&config));
    assert!(!valid.header.is_log_append_time());
    assert_eq!(rows(&written)[1].1, 3000);
}

#[test]
fn every_codec_becomes_every_other() {
    use CompressionType::*;
    for from in Codec::ALL {
        for (to, codec) in [
            (Uncompressed, Codec::None),
            (Gzip, Codec::Gzip),
            (Snappy, Codec::Snappy),
            (Lz4, Codec::Lz4),
            (Zstd, Codec::Zstd),
        ] {
            let config = TopicConfig { compression_type: to, ..TopicConfig::default() };
            let options = BatchOptions {
                codec: from,
                producer_id: 9,
                producer_epoch: 2,
                base_sequence: 40,
                transactional: true,
                ..BatchOptions::default()
            };
            let (valid, written) = accept(build(options, &[(5, KEY), (-1, None)]), &context(&config));
            assert_eq!(matches!(valid.written, Written::InPlace(_)), from == codec, "{from} {codec}");
            assert_eq!(valid.header.codec(), Ok(codec));
            assert_eq!((valid.header.producer_id, valid.header.producer_epoch), (9, 2));
            assert_eq!((valid.header.base_sequence, valid.header.is_transactional()), (40, true));
            let value = Some(b"value".to_vec());
            assert_eq!(rows(&written), [(100, 5, Some(b"k".to_vec()), value.clone()), (101, -1, None, value)]);
        }
    }
}

#[test]
fn headers_survive_a_rewrite() {
    let config = TopicConfig { compression_type: CompressionType::Zstd, ..TopicConfig::default() };
    let mut batch = BatchBuilder::new(BatchOptions::default()).unwrap();
    batch.append(1, None, Some(&[7; 100_000]), &[(b"h", None), (b"h", Some(b"x"))]).unwrap();
    let (_, written) = accept(batch.finish().unwrap(), &context(&config));
    let batch = Batch::parse(&written).unwrap();
    let mut payload = Vec::new();
    decompress(Codec::Zstd, 2, batch.payload(), DECOMPRESSED_MAX, &mut Scratch::default(), &mut payload).unwrap();
    let record = crate::wire::batch::Records::new(&batch.header, &payload).next().unwrap().unwrap();
    let headers: Vec<(&[u8], Option<&[u8]>)> = record.headers().map(|h| (h.key, h.value)).collect();
    assert_eq!(headers, [(&b"h"[..], None), (b"h", Some(&b"x"[..]))]);
}

#[test]
fn a_control_batch_of_the_coordinator_stays_uncompressed() {
    let config = TopicConfig { compression_type: CompressionType::Gzip, ..TopicConfig::default() };
    let marker = || marker_batch(5, 0, Marker { commit: true, coordinator_epoch: 1 }, NOW).unwrap();
    let (valid, _) = accept(marker(), &Context { origin: Origin::Coordinator, ..context(&config) });
    assert!(matches!(valid.written, Written::InPlace(_)) && valid.header.is_control());
    assert_eq!(refuse(marker(), &context(&config)).rule, Rule::Control);
}

#[test]
fn whole_batch_rules_in_kafkas_order() {
    let config = TopicConfig { max_message_bytes: 200, ..TopicConfig::default() };
    let context = context(&config);
    let good = || three(Codec::None);
    let edited = |change: fn(&mut BatchHeader)| refuse(edit(good(), change), &context).rule;
    assert_eq!(refuse(Vec::new(), &context).rule, Rule::NoBatch);
    assert_eq!(refuse(good()[..40].to_vec(), &context).rule, Rule::NoBatch);
    assert_eq!(refuse([good(), good()].concat(), &context).rule, Rule::SeveralBatches);
    assert_eq!(refuse([good(), vec![0; 20]].concat(), &context).rule, Rule::Cut);
    assert_eq!(edited(|header| header.base_offset = Offset(1)), Rule::BaseOffset);
    assert_eq!(edited(|header| header.record_count = 2), Rule::Count);
    assert_eq!(edited(|header| (header.record_count, header.last_offset_delta) = (0, -1)), Rule::Count);
    assert_eq!(
        edited(|header| (header.record_count, header.last_offset_delta) = (i32::MAX, i32::MAX - 1)),
        Rule::Malformed
    );
    assert_eq!(edited(|header| (header.record_count, header.last_offset_delta) = (-2, -3)), Rule::Count);
    assert_eq!(edited(|header| header.last_offset_delta = i32::MAX), Rule::Count);
    assert_eq!(edited(|header| header.attributes = 1 << 5), Rule::Control);
    assert_eq!(edited(|header| header.producer_id = 1), Rule::Sequence);
    for codec in 5..8 {
        assert_eq!(refuse(edit(good(), |header| header.attributes = codec), &context).rule, Rule::UnknownCodec);
    }
    let mut broken = good();
    broken[70] ^= 1;
    assert_eq!(refuse(broken.clone(), &context).rule, Rule::Corrupt);
    broken.extend(vec![0; 200]);
    broken[8..12].copy_from_slice(&((good().len() + 200 - LOG_OVERHEAD) as i32).to_be_bytes());
    assert_eq!(refuse(broken.clone(), &context).rule, Rule::TooLarge);
    broken[7] = 1;
    assert_eq!(refuse(broken.clone(), &context).rule, Rule::BaseOffset);
    broken[16] = 1;
    assert_eq!(refuse(broken.clone(), &context).rule, Rule::OldMagic);
    broken[16] = 3;
    assert_eq!(refuse(broken, &context).rule, Rule::Magic);
    let mut second = good();
    second[16] = 3;
    assert_eq!(refuse([good(), second].concat(), &context).rule, Rule::Cut);
    let zstd = |version| check_produce(&three(Codec::Zstd), version).map_err(|refusal| refusal.rule);
    assert_eq!((zstd(6), zstd(7)), (Err(Rule::EarlyZstd), Ok(())));
    // A header cut short by its own length.
    let short = |length: i32| {
        let mut batch = good();
        batch[8..12].copy_from_slice(&length.to_be_bytes());
        refuse(batch[..LOG_OVERHEAD + length as usize].to_vec(), &context).rule
    };
    assert_eq!((short(14), short(38)), (Rule::ShortHeader, Rule::ShortHeader));
    assert_eq!((short(39), short(48)), (Rule::Corrupt, Rule::Corrupt));
}

#[test]
fn record_rules() {
    let compacted = TopicConfig { cleanup_compact: true, ..TopicConfig::default() };
    for codec in Codec::ALL {
        let refusal = refuse(three(codec), &context(&compacted));
        assert_eq!((refusal.rule, refusal.code()), (Rule::Records, ErrorCode::InvalidRecord));
        assert_eq!(refusal.record_errors.iter().map(|e| e.batch_index).collect::<Vec<_>>(), [1]);
        assert!(refusal.rule.tells_client() && refusal.rule.answers_log_start());
    }
    // One bad timestamp outweighs the missing key.
    let both = TopicConfig { message_timestamp_before_max_ms: NOW - 2000, ..compacted };
    let refusal = refuse(three(Codec::Gzip), &context(&both));
    assert_eq!((refusal.rule, refusal.code()), (Rule::Timestamps, ErrorCode::InvalidTimestamp));
    assert_eq!(refusal.record_errors.iter().map(|e| e.batch_index).collect::<Vec<_>>(), [0, 1]);

    let limits = TopicConfig {
        message_timestamp_before_max_ms: 1000,
        message_timestamp_after_max_ms: 500,
        ..TopicConfig::default()
    };
    let at =
        |timestamp| validate(&mut build(BatchOptions::default(), &[(timestamp, None)]), &context(&limits)).map(drop);
    assert!(at(NOW - 1000).is_ok() && at(NOW + 500).is_ok() && at(-1).is_ok());
    assert!(at(NOW - 1001).is_err() && at(NOW + 501).is_err() && at(0).is_err());
    assert_eq!(at(NOW + 501).unwrap_err().rule, Rule::Timestamps);
}

proptest! {
    /// Compressed records are looked at one by one.
    #[test]
    fn a_look_at_all_records_together_finds_what_one_at_each_finds(
        rows in prop::collection::vec((prop::sample::select(TIMES), any::<bool>()), 1..8),
        before in prop::sample::select(LIMITS),
        after in prop::sample::select(LIMITS),
        compacted: bool,
        flagged: bool,
    ) {
        let config = TopicConfig {
            message_timestamp_before_max_ms: before,
            message_timestamp_after_max_ms: after,
            cleanup_compact: compacted,
            ..TopicConfig::default()
        };
        let rows: Vec<_> = rows.into_iter().map(|(timestamp, keyed)| (timestamp, KEY.filter(|_| keyed))).collect();
        let outcome = |codec| {
            let batch = build(BatchOptions { codec, ..BatchOptions::default() }, &rows);
            let mut batch = edit(batch, |header| header.attributes |= i16::from(flagged) << 3);
            match validate(&mut batch, &context(&config)) {
                Ok(valid) => Ok(valid.map(|valid| valid.header.max_timestamp)),
                Err(refusal) => Err((refusal.rule, refusal.message, refusal.record_errors)),
            }
        };
        prop_assert_eq!(outcome(Codec::None), outcome(Codec::Lz4));
    }
}

/// So that sums of a few of them, and differences to now, wrap or just do not.
const TIMES: &[i64] =
    &[i64::MIN, i64::MIN + NOW, -NOW, -1, 0, NOW - 1001, NOW - 1000, NOW, NOW + 1000, NOW + 1001, i64::MAX];
const LIMITS: &[i64] = &[0, 1000, NOW, i64::MAX - NOW, i64::MAX];

#[test]
fn only_so_many_refused_records_are_listed() {
    let compacted = TopicConfig { cleanup_compact: true, ..TopicConfig::default() };
    let refusal = refuse(build(BatchOptions::default(), &vec![(1, None); 20_000]), &context(&compacted));
    assert_eq!(refusal.record_errors.len(), 10_000);
    assert!(refusal.message.starts_with("20000 "));
    // A compressed batch has no more of them named than its bytes could hold uncompressed.
    let lz4 = BatchOptions { codec: Codec::Lz4, ..BatchOptions::default() };
    let small = build(lz4, &vec![(1, None); 3_000]);
    let most = small.len() / 7;
    assert!(most < 3_000, "{most}");
    assert_eq!(refuse(small, &context(&compacted)).record_errors.len(), most);
}

#[test]
fn malformed_records() {
    let config = TopicConfig::default();
    let record = [16, 0, 0, 0, 2, b'k', 2, b'v', 0];
    let cases: [(&str, i32, &[u8]); 5] = [
        ("length past the end", 1, &[18, 0, 0, 0, 2, b'k', 2, b'v', 0]),
        ("two records announced, one there", 2, &record),
        ("bytes behind the last record", 1, &[16, 0, 0, 0, 2, b'k', 2, b'v', 0, 0]),
        ("varint without end", 1, &[0x80; 12]),
        ("huge header count", 1, &[24, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0]),
    ];
    for (what, count, payload) in cases {
        assert_eq!(refuse(with_payload(0, count, payload), &context(&config)).rule, Rule::Malformed, "{what}");
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let packed = compress(codec, None, 2, payload, Vec::new()).unwrap();
            let batch = with_payload(codec.bits().into(), count, &packed);
            assert_eq!(refuse(batch, &context(&config)).rule, Rule::Malformed, "{what} in {codec}");
        }
    }
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let refusal = refuse(with_payload(codec.bits().into(), 1, &record), &context(&config));
        assert_eq!((refusal.rule, refusal.code()), (Rule::Undecodable, ErrorCode::UnknownServerError), "{codec}");
    }
}

/// All of it seen on a live 3.9.1.
#[test]
fn gaps_between_offset_deltas() {
    let gapped = |codec| {
        let mut batch = BatchBuilder::new(BatchOptions { codec, ..BatchOptions::default() }).unwrap();
        for offset in [0, 5, 6] {
            batch.append_at(Offset(offset), 1, KEY, None).unwrap();
        }
        edit(batch.finish().unwrap(), |header| header.last_offset_delta = 2)
    };
    let offsets = |codec, config: &TopicConfig| {
        let (_, written) = accept(gapped(codec), &context(config));
        rows(&written).iter().map(|row| row.0).collect::<Vec<_>>()
    };
    let config = TopicConfig::default();
    assert_eq!(offsets(Codec::None, &config), [100, 105, 106]);
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let refusal = refuse(gapped(codec), &context(&config));
        assert_eq!((refusal.rule, refusal.code()), (Rule::Gaps, ErrorCode::UnknownServerError));
    }
    let config = TopicConfig { compression_type: CompressionType::Gzip, ..config };
    for codec in [Codec::None, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        assert_eq!(offsets(codec, &config), [100, 101, 102], "{codec}");
    }
}

#[test]
fn a_rewritten_batch_is_measured_again() {
    let config = TopicConfig {
        max_message_bytes: 5000,
        compression_type: CompressionType::Uncompressed,
        ..TopicConfig::default()
    };
    let mut batch = BatchBuilder::new(BatchOptions { codec: Codec::Zstd, ..BatchOptions::default() }).unwrap();
    batch.append(1, None, Some(&vec![0; 50_000_000]), &[]).unwrap();
    let batch = batch.finish().unwrap();
    assert!(batch.len() < 5000);
    let refusal = refuse(batch.clone(), &context(&config));
    assert_eq!((refusal.rule, refusal.code()), (Rule::TooLarge, ErrorCode::MessageTooLarge));
    // Judged by its compressed size as long as it stays as it is.
    let config = TopicConfig { compression_type: CompressionType::Producer, ..config };
    accept(batch, &context(&config));
}

fn set(magic: i8, codec: Codec, rows: &[Row]) -> Vec<u8> {
    let options = SetOptions { magic, codec, base_offset: Offset(0), log_append_time_ms: None };
    let mut set = MessageSetBuilder::append_to(Vec::new(), options).unwrap();
    for (offset, timestamp, key, value) in rows {
        set.append(Offset(*offset), *timestamp, key.as_deref(), value.as_deref()).unwrap();
    }
    set.finish().unwrap()
}

fn old_rows() -> Vec<Row> {
    vec![(0, 50, Some(b"k".to_vec()), Some(b"v".to_vec())), (1, 40, None, None), (2, 45, None, Some(vec![3; 70_000]))]
}

#[test]
fn message_sets_become_one_batch() {
    for magic in [0, 1] {
        for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4] {
            for to in [CompressionType::Producer, CompressionType::Uncompressed, CompressionType::Zstd] {
                let config = TopicConfig { compression_type: to, ..TopicConfig::default() };
                let (valid, written) = accept(set(magic, codec, &old_rows()), &old_client(&config));
                let time = |ms| if magic == 0 { -1 } else { ms };
                let expected: Vec<Row> = old_rows().into_iter().map(|(o, t, k, v)| (o + 100, time(t), k, v)).collect();
                assert_eq!(rows(&written), expected, "{magic} {codec}");
                assert_eq!(valid.header.codec(), Ok(context(&config).target(codec).codec));
                assert_eq!((valid.header.max_timestamp, valid.header.base_sequence), (time(50), -1));
                let of_max = if magic == 0 { Offset::NONE } else { Offset(102) };
                assert_eq!((valid.offset_of_max_timestamp, valid.header.leader_epoch), (of_max, LeaderEpoch(7)));
            }
        }
    }
}

#[test]
fn message_sets_that_are_refused() {
    let config = TopicConfig { cleanup_compact: true, ..TopicConfig::default() };
    let plain = refuse(set(1, Codec::None, &old_rows()), &old_client(&config));
    assert_eq!((plain.rule, plain.record_errors[0].batch_index), (Rule::Records, 0));
    let packed = refuse(set(1, Codec::Gzip, &old_rows()), &old_client(&config));
    assert_eq!(packed.record_errors.iter().map(|e| e.batch_index).collect::<Vec<_>>(), [1, 2]);

    let config = TopicConfig::default();
    let context = old_client(&config);
    let (plain, packed) = (set(1, Codec::None, &old_rows()), set(1, Codec::Gzip, &old_rows()));
    assert_eq!(refuse([&plain[..], &packed].concat(), &context).rule, Rule::SeveralBatches);
    assert_eq!(refuse([plain.clone(), set(0, Codec::None, &old_rows())].concat(), &context).rule, Rule::MixedMagic);
    assert_eq!(refuse([plain.clone(), three(Codec::None)].concat(), &context).rule, Rule::MixedMagic);
    let mut broken = plain.clone();
    broken[30] ^= 1;
    assert_eq!(refuse(broken, &context).rule, Rule::Corrupt);
    let mut long_key = set(1, Codec::None, &old_rows()[..1]);
    long_key[26..30].copy_from_slice(&1000i32.to_be_bytes());
    let crc = crc32fast::hash(&long_key[16..]).to_be_bytes();
    long_key[12..16].copy_from_slice(&crc);
    assert_eq!(refuse(long_key, &context).rule, Rule::Undecodable);
    // Nothing whole: no error, nothing to append.
    assert_eq!(validate(&mut [], &context), Ok(None));
    assert_eq!(validate(&mut plain[..20].to_vec(), &context), Ok(None));
    // A batch of magic 2 is taken from an old client, too.
    accept(three(Codec::Zstd), &context);
    let small = TopicConfig { max_message_bytes: 71_000, ..TopicConfig::default() };
    assert_eq!(refuse(set(1, Codec::None, &vec![old_rows()[2].clone(); 2]), &old_client(&small)).rule, Rule::TooLarge);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever is accepted is a sound batch at the right place.
    #[test]
    fn damage_is_refused_or_harmless(
        codec in 0usize..5,
        to in 0usize..3,
        magic in 0i8..3,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        fix_crc: bool,
    ) {
        use CompressionType::*;
        let config = TopicConfig { compression_type: [Producer, Uncompressed, Lz4][to], ..TopicConfig::default() };
        let codec = Codec::ALL[codec];
        let mut bytes = if magic == 2 || codec == Codec::Zstd {
            three(codec)
        } else {
            set(magic, codec, &old_rows()[..2])
        };
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if fix_crc && bytes[16] == 2 {
            stamp::set_checksum(&mut bytes);
        }
        if let Ok(Some(valid)) = validate(&mut bytes, &old_client(&config)) {
            let written = valid.bytes(&bytes);
            prop_assert_eq!(rows(written).len() as i32, valid.header.record_count);
            prop_assert_eq!(valid.header.next_offset().0 - 100, i64::from(valid.header.record_count));
            prop_assert_eq!(Batches::new(written).count(), 1);
        }
    }
}

#[test]
fn what_takes_longer_than_there_is_time_for_is_left_as_it_is_and_taken_later() {
    const BRIEF: usize = 1 << 20;
    let config = TopicConfig::default();
    let (brief, patient) = (Context { decompressed_max: BRIEF, ..context(&config) }, context(&config));
    let batch = |codec, bytes| {
        let mut batch = BatchBuilder::new(BatchOptions { codec, ..BatchOptions::default() }).unwrap();
        batch.append(1000, KEY, Some(&vec![b'v'; bytes]), &[]).unwrap();
        batch.finish().unwrap()
    };
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let long = batch(codec, BRIEF);
        let mut received = long.clone();
        let refusal = validate(&mut received, &brief).expect_err("too long");
        assert_eq!(refusal.rule, Rule::Lengthy, "{codec:?}: {refusal}");
        assert_eq!(received, long, "{codec:?}");
        accept(long, &patient);
        accept(batch(codec, BRIEF / 2), &brief);
    }
    // Nothing of these is decompressed.
    accept(batch(Codec::None, BRIEF - 100), &Context { decompressed_max: 0, ..context(&config) });
}

#[test]
fn what_is_built_anew_or_refused_record_by_record_is_left_for_later_when_it_is_much() {
    let plain = TopicConfig { message_timestamp_after_max_ms: 1_000, ..TopicConfig::default() };
    let zstd = TopicConfig { compression_type: CompressionType::Zstd, ..TopicConfig::default() };
    let brief = |config| Context { decompressed_max: 128 << 10, ..context(config) };
    let old_brief = |config| Context { decompressed_max: 128 << 10, ..old_client(config) };
    let of = |codec, count: usize, timestamp| {
        build(BatchOptions { codec, ..BatchOptions::default() }, &vec![(timestamp, KEY); count])
    };
    let set = |count| {
        let rows = (0..count).map(|offset| (offset, 1000, KEY.map(Vec::from), Some(b"value".to_vec())));
        set(1, Codec::None, &rows.collect::<Vec<Row>>())
    };
    let too_late = i64::MAX / 2;
    for (bytes, now, later) in [
        (of(Codec::None, 2_000, 1000), brief(&zstd), context(&zstd)),
        (of(Codec::Lz4, 1, 1000), brief(&zstd), context(&zstd)),
        (of(Codec::None, 1_001, too_late), brief(&plain), context(&plain)),
        (of(Codec::Lz4, 1_001, too_late), brief(&plain), context(&plain)),
        (set(1_000), old_brief(&plain), old_client(&plain)),
    ] {
        let refusal = validate(&mut bytes.clone(), &now).expect_err("too long");
        assert_eq!(refusal.rule, Rule::Lengthy, "{refusal}");
        let rule = validate(&mut bytes.clone(), &later).map_or_else(|refusal| Some(refusal.rule), |_| None);
        assert!(matches!(rule, None | Some(Rule::Timestamps)), "{rule:?}");
    }
    for (bytes, now) in [
        (of(Codec::None, 100, 1000), brief(&zstd)),
        (of(Codec::None, 5_000, 1000), brief(&plain)),
        (set(100), old_brief(&plain)),
    ] {
        validate(&mut bytes.clone(), &now).expect("done at once");
    }
    let refusal = validate(&mut of(Codec::Lz4, 1_000, too_late), &brief(&plain)).expect_err("refused");
    assert_eq!(refusal.rule, Rule::Timestamps);
}
