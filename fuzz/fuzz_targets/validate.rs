//! The leader's checks on any bytes, CRC made to fit: what is accepted must be one sound batch.
#![no_main]

use klamm::config::TopicConfig;
use klamm::config::topic::CompressionType;
use klamm::storage::log::Origin;
use klamm::storage::validator::{Context, validate};
use klamm::types::{LeaderEpoch, Offset};
use klamm::wire::batch::{Batch, stamp};
use klamm::wire::compression::DECOMPRESSED_MAX;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if bytes.get(16) == Some(&2) {
        stamp::set_checksum(&mut bytes);
    }
    let compression_type = match choice & 3 {
        0 => CompressionType::Producer,
        1 => CompressionType::Uncompressed,
        2 => CompressionType::Lz4,
        _ => CompressionType::Zstd,
    };
    let config = TopicConfig { compression_type, cleanup_compact: choice & 4 != 0, ..TopicConfig::default() };
    let context = Context {
        origin: Origin::Client { produce_version: if choice & 8 != 0 { 2 } else { 9 } },
        config: &config,
        next_offset: Offset(1000),
        leader_epoch: LeaderEpoch(1),
        now_ms: 0,
        decompressed_max: DECOMPRESSED_MAX,
    };
    if let Ok(Some(valid)) = validate(&mut bytes, &context) {
        let written = Batch::parse(valid.bytes(&bytes)).expect("a batch");
        assert_eq!(written.header, valid.header);
        assert!(written.crc_matches());
        assert_eq!(written.header.last_offset().0, 999 + i64::from(written.header.record_count));
    }
});
