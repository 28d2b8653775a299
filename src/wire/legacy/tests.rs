use super::message::crc_matches;
use super::*;
use crate::types::Offset;
use crate::wire::batch::Batches;
use crate::wire::compression::{Codec, Scratch};
use proptest::prelude::*;

const OLD_CODECS: [Codec; 4] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4];

fn options(magic: i8, codec: Codec, base: i64) -> SetOptions {
    SetOptions { magic, codec, base_offset: Offset(base), log_append_time_ms: None }
}

type Row = (i64, i64, Option<Vec<u8>>, Option<Vec<u8>>);

fn build(options: SetOptions, rows: &[Row]) -> Vec<u8> {
    let mut set = MessageSetBuilder::append_to(Vec::new(), options).unwrap();
    for (offset, timestamp, key, value) in rows {
        set.append(Offset(*offset), *timestamp, key.as_deref(), value.as_deref()).unwrap();
    }
    set.finish().unwrap()
}

fn row(message: &Message<'_>) -> Row {
    (message.offset.0, message.timestamp, message.key.map(<[u8]>::to_vec), message.value.map(<[u8]>::to_vec))
}

fn read(bytes: &[u8]) -> Result<Vec<Row>, WrapperError> {
    let mut rows = Vec::new();
    for raw in Batches::new(bytes) {
        let raw = raw.expect("a message");
        assert!(raw.crc_matches());
        let message = raw.message()?;
        if message.codec()? == Codec::None {
            rows.push(row(&message));
            continue;
        }
        let mut scratch = Scratch::default();
        let mut inner = InnerMessages::new(message, &mut scratch)?;
        while let Some(message) = inner.next_message()? {
            rows.push(row(&message));
        }
    }
    Ok(rows)
}

fn rows(magic: i8) -> Vec<Row> {
    let time = |n| if magic == 0 { -1 } else { n };
    vec![
        (20, time(5), None, Some(b"a".to_vec())),
        (21, time(9), Some(b"k".to_vec()), None),
        (24, time(7), Some(Vec::new()), Some(vec![1; 100_000])),
    ]
}

#[test]
fn what_is_written_is_read() {
    for magic in [0, 1] {
        for codec in OLD_CODECS {
            assert_eq!(read(&build(options(magic, codec, 20), &rows(magic))).unwrap(), rows(magic), "{magic} {codec}");
        }
    }
}

#[test]
fn a_wrapper_carries_last_offset_and_largest_timestamp() {
    let bytes = build(options(1, Codec::Gzip, 20), &rows(1));
    let wrapper = Message::parse(&bytes).unwrap();
    assert_eq!((wrapper.offset, wrapper.timestamp, wrapper.key), (Offset(24), 9, None));
}

#[test]
fn log_append_time_overrides_inner_timestamps() {
    for codec in OLD_CODECS {
        let bytes = build(SetOptions { log_append_time_ms: Some(77), ..options(1, codec, 20) }, &rows(1));
        assert!(Message::parse(&bytes).unwrap().is_log_append_time());
        assert!(read(&bytes).unwrap().iter().all(|row| row.1 == 77), "{codec}");
    }
}

#[test]
fn a_wrapper_of_magic_1_at_offset_0_counts_from_0() {
    let mut bytes = build(options(1, Codec::Gzip, 20), &rows(1));
    bytes[..8].copy_from_slice(&0i64.to_be_bytes());
    assert_eq!(read(&bytes).unwrap().iter().map(|row| row.0).collect::<Vec<_>>(), [0, 1, 4]);
    bytes[..8].copy_from_slice(&3i64.to_be_bytes());
    assert_eq!(read(&bytes), Err(WrapperError::Offset { wrapper: Offset(3), inner: Offset(4) }));
}

fn wrap(magic: i8, codec: u8, value: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = build(options(magic, Codec::None, 0), &[(9, 5, None, value.map(<[u8]>::to_vec))]);
    bytes[17] = codec;
    let crc = crc32fast::hash(&bytes[16..]).to_be_bytes();
    bytes[12..16].copy_from_slice(&crc);
    bytes
}

#[test]
fn bad_wrappers() {
    let gzip = |bytes: &[u8]| crate::wire::compression::compress(Codec::Gzip, None, 1, bytes, Vec::new()).unwrap();
    let plain = build(options(1, Codec::None, 0), &rows(1));
    let inner_gzip = build(options(1, Codec::Gzip, 0), &rows(1));
    assert_eq!(read(&wrap(1, 1, None)), Err(WrapperError::Null));
    assert_eq!(read(&wrap(1, 1, Some(&gzip(&[])))), Err(WrapperError::Empty));
    assert_eq!(read(&wrap(1, 4, Some(&[]))), Err(WrapperError::Zstd(1)));
    assert!(matches!(read(&wrap(1, 6, Some(&[]))), Err(WrapperError::Codec(_))));
    assert_eq!(read(&wrap(0, 1, Some(&gzip(&inner_gzip)))), Err(WrapperError::Nested));
    let mut damaged = plain.clone();
    damaged[20] ^= 1;
    assert_eq!(read(&wrap(0, 1, Some(&gzip(&damaged)))), Err(WrapperError::Crc));
    // An unfinished message at the end is dropped.
    assert_eq!(read(&wrap(0, 1, Some(&gzip(&plain[..plain.len() - 1])))).unwrap().len(), 2);
    let mut huge = plain[..17].to_vec();
    huge[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
    assert_eq!(read(&wrap(0, 1, Some(&gzip(&huge)))), Err(WrapperError::TooLarge(i32::MAX as usize)));
    huge[8..12].copy_from_slice(&(-2i32).to_be_bytes());
    assert_eq!(read(&wrap(0, 1, Some(&gzip(&huge)))), Err(WrapperError::Size(-2)));
}

#[test]
fn a_message_shorter_than_its_fields_is_none() {
    let bytes = build(options(1, Codec::None, 0), &rows(1)[..1]);
    for cut in 0..bytes.len() {
        assert!(Message::parse(&bytes[..cut]).is_err(), "{cut}");
    }
    assert!(!crc_matches(&bytes[..15]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_sets_never_panic(
        magic in 0i8..2,
        codec in 0usize..4,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        fix_crc: bool,
    ) {
        let mut bytes = build(options(magic, OLD_CODECS[codec], 20), &rows(magic)[..2]);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if fix_crc {
            let crc = crc32fast::hash(&bytes[16..]).to_be_bytes();
            bytes[12..16].copy_from_slice(&crc);
        }
        for raw in Batches::new(&bytes).flatten() {
            let Ok(message) = raw.message() else { continue };
            let mut scratch = Scratch::default();
            let Ok(mut inner) = InnerMessages::new(message, &mut scratch) else { continue };
            while let Ok(Some(_)) = inner.next_message() {}
        }
    }
}
