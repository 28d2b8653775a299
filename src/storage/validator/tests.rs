use super::*;
use crate::wire::batch::Batch;

fn context(config: &TopicConfig) -> Context<'_> {
    Context {
        origin: Origin::Client { produce_version: 9 },
        config,
        next_offset: Offset(100),
        leader_epoch: LeaderEpoch(7),
        now_ms: 5_000,
    }
}

/// One batch with one record: key `k`, value `v`, timestamp 1000, made by hand.
fn one_record() -> Vec<u8> {
    let record = [16, 0, 0, 0, 2, b'k', 2, b'v', 0];
    let mut batch = Vec::new();
    batch.extend(0i64.to_be_bytes());
    batch.extend((49 + record.len() as i32).to_be_bytes());
    batch.extend((-1i32).to_be_bytes());
    batch.push(2);
    batch.extend(0u32.to_be_bytes());
    batch.extend(0i16.to_be_bytes());
    batch.extend(0i32.to_be_bytes());
    batch.extend(1000i64.to_be_bytes());
    batch.extend((-1i64).to_be_bytes());
    batch.extend((-1i64).to_be_bytes());
    batch.extend((-1i16).to_be_bytes());
    batch.extend((-1i32).to_be_bytes());
    batch.extend(1i32.to_be_bytes());
    batch.extend(record);
    stamp::set_checksum(&mut batch);
    batch
}

#[test]
fn offsets_epoch_and_max_timestamp_are_stamped_in_place() {
    let config = TopicConfig::default();
    let mut bytes = one_record();
    let len = bytes.len();
    bytes.extend([1, 2, 3]);
    let valid = validate(&mut bytes, &context(&config)).unwrap().unwrap();
    assert_eq!(valid.written, Written::InPlace(len));
    assert_eq!(valid.header.base_offset, Offset(100));
    assert_eq!(valid.header.leader_epoch, LeaderEpoch(7));
    assert_eq!(valid.header.max_timestamp, 1000);
    assert_eq!(valid.log_append_time_ms, -1);
    let written = Batch::parse(valid.bytes(&bytes)).unwrap();
    assert_eq!(written.header, valid.header);
    assert!(written.crc_matches());
}
