//! Batches for tests.

use crate::wire::batch::{HEADER_LEN, LOG_OVERHEAD, stamp};

/// Who sends a batch: producer id, epoch, base sequence.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    pub id: i64,
    pub epoch: i16,
    pub sequence: i32,
    pub transactional: bool,
}

/// A batch of `count` small records with timestamp 1000, as a producer without idempotence sends it.
pub fn batch(count: i32) -> Vec<u8> {
    batch_of(count, 1000, 10, None)
}

/// A batch of `count` records with values of `value_len` bytes.
pub fn batch_of(count: i32, timestamp_ms: i64, value_len: usize, sender: Option<Sender>) -> Vec<u8> {
    let mut records = Vec::new();
    for at in 0..count {
        let mut body = vec![0];
        varint(&mut body, 0);
        varint(&mut body, at.into());
        varint(&mut body, -1);
        varint(&mut body, value_len as i64);
        body.extend((0..value_len).map(|n| b'a' + ((n + at as usize) % 26) as u8));
        varint(&mut body, 0);
        varint(&mut records, body.len() as i64);
        records.extend(body);
    }
    finish(count, timestamp_ms, &records, sender, false)
}

/// An end marker.
pub fn marker(id: i64, epoch: i16, commit: bool, coordinator_epoch: i32) -> Vec<u8> {
    let mut body = vec![0];
    varint(&mut body, 0);
    varint(&mut body, 0);
    varint(&mut body, 4);
    body.extend([0, 0, 0, u8::from(commit)]);
    varint(&mut body, 6);
    body.extend([0, 0]);
    body.extend(coordinator_epoch.to_be_bytes());
    varint(&mut body, 0);
    let mut records = Vec::new();
    varint(&mut records, body.len() as i64);
    records.extend(body);
    finish(1, 1000, &records, Some(Sender { id, epoch, sequence: -1, transactional: true }), true)
}

fn finish(count: i32, timestamp_ms: i64, records: &[u8], sender: Option<Sender>, control: bool) -> Vec<u8> {
    let mut out = vec![0; HEADER_LEN];
    out.extend(records);
    let length = (out.len() - LOG_OVERHEAD) as i32;
    let sender = sender.unwrap_or(Sender { id: -1, epoch: -1, sequence: -1, transactional: false });
    let attributes = i16::from(sender.transactional) << 4 | i16::from(control) << 5;
    out[8..12].copy_from_slice(&length.to_be_bytes());
    out[12..16].copy_from_slice(&(-1_i32).to_be_bytes());
    out[16] = 2;
    out[21..23].copy_from_slice(&attributes.to_be_bytes());
    out[23..27].copy_from_slice(&(count - 1).to_be_bytes());
    out[27..35].copy_from_slice(&timestamp_ms.to_be_bytes());
    out[35..43].copy_from_slice(&timestamp_ms.to_be_bytes());
    out[43..51].copy_from_slice(&sender.id.to_be_bytes());
    out[51..53].copy_from_slice(&sender.epoch.to_be_bytes());
    out[53..57].copy_from_slice(&sender.sequence.to_be_bytes());
    out[57..61].copy_from_slice(&count.to_be_bytes());
    stamp::set_checksum(&mut out);
    out
}

fn varint(out: &mut Vec<u8>, value: i64) {
    let mut left = (value << 1 ^ value >> 63) as u64;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}
