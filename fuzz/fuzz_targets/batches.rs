//! Batches of any magic: cut, read by both readers, which must agree on uncompressed records, and built anew in every
//! codec, which must give the same records.
#![no_main]

use klamm::types::Offset;
use klamm::wire::batch::{
    Batch, BatchBuilder, BatchHeader, BatchOptions, Batches, BuildError, ControlRecord, RecordStream,
};
use klamm::wire::compression::{Codec, Decompressor, Scratch};
use klamm_fuzz::bounded;
use libfuzzer_sys::fuzz_target;

/// Bytes that a payload may decompress to.
const LIMIT: usize = 1 << 20;

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

/// A record out of its batch.
#[derive(Debug, PartialEq, Eq)]
struct Plain {
    offset: Offset,
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

fuzz_target!(|bytes: &[u8]| {
    for (nth, raw) in Batches::new(bytes).flatten().enumerate() {
        let _ = raw.crc_matches();
        let Ok(batch) = raw.v2() else { continue };
        let header = batch.header;
        assert_eq!(BatchHeader::parse(&header.to_bytes()), Ok(header));
        let walked = bounded(raw.bytes.len(), || walk(&batch));
        let read = records(&batch);
        if header.codec_bits() == 0 && batch.payload().len() < LIMIT {
            assert_eq!(walked, batch.check_records().is_ok());
        }
        let Some(read) = read else { continue };
        assert!(walked, "read whole, but not walked");
        // One codec a batch: an input of several tries them all.
        let codec = CODECS[(nth + bytes.len()) % CODECS.len()];
        if let Some(built) = build(&header, &read, codec) {
            let again = Batch::parse(&built).expect("a batch");
            assert!(again.crc_matches());
            assert_eq!(records(&again).as_ref(), Some(&read), "in {codec:?}");
        }
    }
});

/// Heads alone, and the records whose payload is as received. Whether it all was sound.
fn walk(batch: &Batch<'_>) -> bool {
    let header = batch.header;
    let _ = (header.next_offset(), header.last_sequence());
    for record in batch.records().flatten() {
        let _ = (record.offset(&header), record.timestamp(&header), record.headers().count());
        let _ = ControlRecord::parse(&record);
    }
    let mut scratch = Scratch::default();
    let Some(mut stream) = stream(batch, &mut scratch) else { return false };
    loop {
        match stream.next_head() {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

fn stream<'a, 's>(batch: &Batch<'a>, scratch: &'s mut Scratch) -> Option<RecordStream<'a, 's>> {
    let codec = batch.header.codec().ok()?;
    let source = Decompressor::new(codec, 2, batch.payload(), LIMIT, scratch).ok()?;
    RecordStream::new(&batch.header, source).ok()
}

/// All records, if all are sound.
fn records(batch: &Batch<'_>) -> Option<Vec<Plain>> {
    let mut scratch = Scratch::default();
    let mut stream = stream(batch, &mut scratch)?;
    let mut buffer = Vec::new();
    let mut records = Vec::new();
    while let Some(record) = stream.next_record(&mut buffer).ok()? {
        records.push(Plain {
            offset: record.offset(&batch.header),
            timestamp: record.timestamp(&batch.header),
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers: record.headers().map(|h| (h.key.to_vec(), h.value.map(<[u8]>::to_vec))).collect(),
        });
    }
    Some(records)
}

/// `None` where records of these offsets cannot stand in one batch.
fn build(header: &BatchHeader, records: &[Plain], codec: Codec) -> Option<Vec<u8>> {
    let options = BatchOptions {
        base_offset: header.base_offset,
        codec,
        log_append_time_ms: header.is_log_append_time().then_some(header.max_timestamp),
        ..BatchOptions::default()
    };
    let mut builder = BatchBuilder::new(options).expect("a builder");
    let mut last = None;
    for record in records {
        // Only what a log can hold: offsets that rise.
        if last >= Some(record.offset) {
            return None;
        }
        last = Some(record.offset);
        let one = single(record)?;
        let inner = Batch::parse(&one).expect("a batch");
        let inner = inner.records().next()?.expect("a record");
        match builder.append_record(record.offset, record.timestamp, &inner) {
            Ok(()) => {}
            Err(BuildError::Offset { .. }) => return None,
            Err(error) => panic!("{error}"),
        }
    }
    Some(builder.finish().expect("a batch"))
}

/// The record alone in a batch, headers included.
fn single(record: &Plain) -> Option<Vec<u8>> {
    let headers: Vec<(&[u8], Option<&[u8]>)> =
        record.headers.iter().map(|(key, value)| (&key[..], value.as_deref())).collect();
    let mut builder = BatchBuilder::new(BatchOptions::default()).expect("a builder");
    builder.append(0, record.key.as_deref(), record.value.as_deref(), &headers).ok()?;
    Some(builder.finish().expect("a batch"))
}
