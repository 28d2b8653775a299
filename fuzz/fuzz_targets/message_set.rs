//! Message sets of magic 0 and 1, their conversion down as a fetch does it, and up as a produce does.
#![no_main]

use klamm::config::TopicConfig;
use klamm::storage::log::Origin;
use klamm::storage::validator::{Context, validate};
use klamm::types::{LeaderEpoch, Offset};
use klamm::wire::batch::{Batch, Batches};
use klamm::wire::compression::{DECOMPRESSED_MAX, Scratch};
use klamm::wire::convert::DownConversion;
use klamm::wire::legacy::InnerMessages;
use klamm_fuzz::bounded;
use klamm_fuzz::files::fit_batches;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if choice & 1 != 0 {
        fit_batches(&mut bytes);
    }
    for raw in Batches::new(&bytes).flatten() {
        let Ok(message) = raw.message() else { continue };
        bounded(raw.bytes.len(), || {
            let mut scratch = Scratch::default();
            let Ok(mut inner) = InnerMessages::new(message, &mut scratch) else { return };
            while let Ok(Some(_)) = inner.next_message() {}
        });
    }
    for magic in [0, 1] {
        let mut scratch = Scratch::default();
        let mut out = Vec::new();
        let mut conversion = DownConversion::new(&bytes, magic, Offset(1));
        let mut before = 0;
        while let Ok(true) = conversion.convert_next(&mut out, &mut scratch) {
            assert!(out.len() > before, "a conversion that says nothing");
            before = out.len();
        }
        assert_eq!(out.len(), before, "an error leaves what was converted before");
        for raw in Batches::new(&out) {
            assert!(raw.expect("a message set").magic <= magic);
        }
    }
    convert_up(&bytes, choice >> 1);
});

/// One batch comes of a set, at the log's end, and going down again gives messages at the same offsets. (Uncompressed
/// records of magic 2 keep what offsets they came with, as in Kafka.)
fn convert_up(bytes: &[u8], version: u8) {
    let config = TopicConfig::default();
    let context = Context {
        origin: Origin::Client { produce_version: i16::from(version % 3) },
        config: &config,
        next_offset: Offset(1000),
        leader_epoch: LeaderEpoch(1),
        now_ms: 0,
        decompressed_max: DECOMPRESSED_MAX,
    };
    let mut received = bytes.to_vec();
    let Ok(Some(valid)) = validate(&mut received, &context) else { return };
    let stored = valid.bytes(&received);
    let batch = Batch::parse(stored).expect("a batch");
    assert_eq!(batch.header, valid.header);
    assert!(batch.crc_matches());
    let last = batch.header.last_offset();
    assert_eq!(last.0, 999 + i64::from(batch.header.record_count));
    let mut out = Vec::new();
    let mut down = DownConversion::new(stored, 1, Offset(1000));
    let with_gaps = batch.header.codec_bits() == 0
        && !batch.records().flatten().map(|record| i64::from(record.offset_delta)).eq(0..last.0 - 999);
    if !with_gaps && down.convert_next(&mut out, &mut Scratch::default()).is_ok_and(|found| found) {
        let offset = Batches::new(&out).flatten().last().map(|raw| raw.offset());
        assert_eq!(offset, Some(last));
    }
}
