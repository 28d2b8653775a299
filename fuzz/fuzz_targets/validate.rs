//! The leader's checks on any bytes, CRC made to fit: what is accepted must be one sound batch at the log's end, and be
//! accepted again.
#![no_main]

use klamm::config::TopicConfig;
use klamm::config::topic::{CompressionType, TimestampType};
use klamm::storage::log::Origin;
use klamm::storage::validator::{Context, Refusal, Validated, validate};
use klamm::types::{LeaderEpoch, Offset};
use klamm::wire::batch::{Batch, stamp};
use klamm::wire::compression::DECOMPRESSED_MAX;
use klamm_fuzz::bounded;
use klamm_fuzz::files::fit_batches;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let mut bytes = bytes.to_vec();
    fit_batches(&mut bytes);
    let (compression_type, codec) = match choice & 7 {
        0..=2 => (CompressionType::Producer, None),
        3 => (CompressionType::Uncompressed, Some(0)),
        4 => (CompressionType::Gzip, Some(1)),
        5 => (CompressionType::Snappy, Some(2)),
        6 => (CompressionType::Lz4, Some(3)),
        _ => (CompressionType::Zstd, Some(4)),
    };
    let stamps = choice & 32 != 0;
    let config = TopicConfig {
        compression_type,
        cleanup_compact: choice & 8 != 0,
        message_timestamp_type: if stamps { TimestampType::LogAppendTime } else { TimestampType::CreateTime },
        ..TopicConfig::default()
    };
    let context = Context {
        origin: Origin::Client { produce_version: if choice & 16 != 0 { 2 } else { 9 } },
        config: &config,
        next_offset: Offset(1000),
        leader_epoch: LeaderEpoch(1),
        now_ms: 1_700_000_000_000,
        decompressed_max: if choice & 64 != 0 { 1 << 16 } else { DECOMPRESSED_MAX },
    };
    let Ok(Some((received, valid))) = bounded(bytes.len(), || accepted(&bytes, &context)) else { return };
    let stored = valid.bytes(&received);
    let written = Batch::parse(stored).expect("a batch");
    assert_eq!(written.header, valid.header);
    assert!(written.crc_matches());
    assert_eq!(written.header.last_offset().0, 999 + i64::from(written.header.record_count));
    assert_eq!(written.header.leader_epoch, LeaderEpoch(1));
    if let Some(codec) = codec {
        assert_eq!(written.header.codec_bits(), codec);
    }
    if stamps {
        // No producer may send such a batch: that would be refused.
        assert_eq!(written.header.max_timestamp, context.now_ms);
        return;
    }
    if Batch::parse(&bytes).is_ok_and(|sent| sent.header.is_log_append_time()) {
        // Its records count with the time in its head, and with their own once it is stored, as in Kafka.
        return;
    }
    // As a client would send it: its offsets are the leader's to give.
    let mut sent = stored.to_vec();
    stamp::set_base_offset(&mut sent, Offset(0));
    let context =
        Context { origin: Origin::Client { produce_version: 9 }, decompressed_max: DECOMPRESSED_MAX, ..context };
    let (again, valid) = accepted(&sent, &context).expect("accepted before").expect("a batch");
    assert!(valid.bytes(&again) == stored, "another batch the second time");
});

/// The bytes as they lie after the checks, and what was found.
fn accepted(bytes: &[u8], context: &Context<'_>) -> Result<Option<(Vec<u8>, Validated)>, Refusal> {
    let mut received = bytes.to_vec();
    let valid = validate(&mut received, context)?;
    Ok(valid.map(|valid| (received, valid)))
}
