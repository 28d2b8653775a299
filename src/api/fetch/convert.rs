//! Records for clients that know only message sets: Fetch v0-1 gets magic 0, v2-3 magic 1.
//!
//! Reading and converting take a thread of the blocking pool, and at most [`PER_REQUEST`] stored bytes per request beside
//! the first batch: what does not fit is asked for again. As in Kafka a partition answers as many bytes as are stored, or its
//! first converted batch when that is larger, and the last message may be cut off there.

use std::io;

use bytes::Bytes;

use super::Answer;
use super::records::{Records, refused};
use crate::api::context::Services;
use crate::spawn::for_request;
use crate::storage::log::FileSlice;
use crate::types::Offset;
use crate::wire::batch::LOG_OVERHEAD;
use crate::wire::compression::Scratch;
use crate::wire::convert::{ConvertError, DownConversion};
use crate::wire::error_code::ErrorCode;

/// Stored bytes, 8 MiB.
const PER_REQUEST: usize = 8 << 20;

/// What one partition read, and from which offset on it is wanted.
struct Stored {
    at: usize,
    slice: FileSlice,
    from: Offset,
}

/// Converts every answer's records for a request of version 0 to 3.
pub async fn down(services: &Services, version: i16, answers: &mut [Answer]) {
    let mut stored = Vec::new();
    for (at, (_, answer)) in answers.iter_mut().enumerate() {
        if let Records::Stored { slice, from } = &answer.records {
            stored.push(Stored { at, slice: slice.clone(), from: *from });
            answer.records = Records::None;
        }
    }
    if stored.is_empty() {
        return;
    }
    let to_magic = if version <= 1 { 0 } else { 1 };
    let converted = for_request(&*services.spawner, move || convert_all(stored, to_magic)).await;
    for (at, outcome) in converted.unwrap_or_default() {
        let Some((_, answer)) = answers.get_mut(at) else { continue };
        match outcome {
            Ok(bytes) => answer.records = Records::Converted(Bytes::from(bytes).into()),
            Err(code) => *answer = refused(answer.partition, code),
        }
    }
}

fn convert_all(all: Vec<Stored>, to_magic: i8) -> Vec<(usize, Result<Vec<u8>, ErrorCode>)> {
    let mut scratch = Scratch::default();
    let mut left = PER_REQUEST;
    let mut outcomes = Vec::new();
    for stored in all.into_iter() {
        if left == 0 {
            break;
        }
        let outcome = read(&stored.slice, left).map_err(|error| {
            tracing::error!(%error, "stored records could not be read for conversion");
            // What KAFKA_STORAGE_ERROR is called in these versions.
            ErrorCode::NotLeaderOrFollower
        });
        let outcome = outcome.and_then(|bytes| {
            left = left.saturating_sub(bytes.len());
            convert(&bytes, stored.from, to_magic, &mut scratch)
        });
        outcomes.push((stored.at, outcome));
    }
    outcomes
}

/// The slice's first batch, and more up to `limit` bytes.
fn read(slice: &FileSlice, limit: usize) -> io::Result<Vec<u8>> {
    let mut head = [0; LOG_OVERHEAD];
    slice.file.read_exact_at(&mut head, slice.position)?;
    let [.., a, b, c, d] = head;
    let first = usize::try_from(i32::from_be_bytes([a, b, c, d])).unwrap_or(0).saturating_add(LOG_OVERHEAD);
    let mut bytes = vec![0; limit.max(first).min(slice.len)];
    slice.file.read_exact_at(&mut bytes, slice.position)?;
    Ok(bytes)
}

fn convert(stored: &[u8], from: Offset, to_magic: i8, scratch: &mut Scratch) -> Result<Vec<u8>, ErrorCode> {
    let mut conversion = DownConversion::new(stored, to_magic, from);
    let mut out = Vec::new();
    let mut limit = None;
    while limit.is_none_or(|limit| out.len() < limit) {
        match conversion.convert_next(&mut out, scratch) {
            Ok(true) => limit = limit.or(Some(stored.len().max(out.len()))),
            Ok(false) => break,
            // What was converted is sent; the client meets the rest with its next request.
            Err(_) if !out.is_empty() => break,
            Err(ConvertError::Zstd(_)) => return Err(ErrorCode::UnsupportedCompressionType),
            Err(error) => {
                tracing::warn!(%error, "stored records could not be converted");
                return Err(ErrorCode::CorruptMessage);
            }
        }
    }
    out.truncate(limit.unwrap_or(0));
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TopicConfig;
    use crate::replication::testing::bench;
    use crate::storage::testing::client;
    use crate::types::Acks;
    use crate::wire::batch::{BatchBuilder, BatchOptions};
    use crate::wire::compression::Codec;
    use crate::wire::fetch::Payload;

    fn records(codec: Codec) -> Vec<u8> {
        let mut batch = BatchBuilder::new(BatchOptions { codec, ..BatchOptions::default() }).unwrap();
        batch.append(1_000, Some(b"k"), Some(b"v"), &[]).unwrap();
        batch.finish().unwrap()
    }

    /// What a topic that holds a plain batch and then one of zstd answers from `from` on.
    fn converted(from: i64, to_magic: i8) -> Result<Vec<u8>, ErrorCode> {
        let bench = bench(TopicConfig::default());
        let partition = bench.leader(&[1]);
        for codec in [Codec::None, Codec::Zstd] {
            partition.append_to_leader(&mut records(codec), Acks::Leader, client(-1, 1_000)).unwrap();
        }
        let from = Offset(from);
        let read = partition.log().unwrap().read(from, Offset(2), 1 << 20, true).unwrap();
        let stored = Stored { at: 0, slice: read.slice.unwrap(), from };
        convert_all(vec![stored], to_magic).pop().unwrap().1
    }

    #[test]
    fn zstd_is_refused_only_where_nothing_comes_before_it() {
        for magic in [0, 1] {
            let plain = converted(0, magic).unwrap();
            assert_eq!((plain[16] as i8, &plain[..8]), (magic, &[0; 8][..]));
            assert_eq!(converted(1, magic), Err(ErrorCode::UnsupportedCompressionType));
        }
    }

    #[test]
    fn a_refused_partition_has_null_records() {
        let answer = refused(3, ErrorCode::UnsupportedCompressionType);
        assert_eq!((answer.partition, answer.error.code(), answer.records.len()), (3, 76, None));
    }
}
