//! The look at a partition's records that comes before any partition is looked up: how many batches, of what kind.
//! Kafka's `ProduceRequest.validateRecords` and `RequestUtils.hasTransactionalRecords`.

use crate::wire::batch::{HEADER_LEN, LOG_OVERHEAD};
use crate::wire::error_code::ErrorCode;

/// Bytes of the smallest record of magic 0 behind its offset and size: no entry can be smaller.
const SMALLEST_ENTRY: usize = 14;
/// Bytes up to and with the magic.
const UP_TO_MAGIC: usize = 17;
/// Codec number of zstd in the attributes.
const ZSTD: i16 = 4;

/// What stands at the front of some records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lead {
    Batch(FirstBatch),
    /// No whole batch.
    Nothing,
    /// A size or a magic that cannot be, with a sentence for the client.
    Corrupt(String),
    /// Magic 2, but smaller than its header.
    Garbled,
}

/// The first batch or message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstBatch {
    pub magic: i8,
    /// Bytes.
    pub size: usize,
    pub codec: i16,
    pub is_transactional: bool,
    pub has_producer: bool,
}

/// Looks at the front of `records`.
pub fn first(records: &[u8]) -> Lead {
    if records.len() < LOG_OVERHEAD {
        return Lead::Nothing;
    }
    let announced = i32_at(records, 8).unwrap_or_default();
    let announced = match usize::try_from(announced) {
        Ok(size) if size >= SMALLEST_ENTRY => size,
        _ => return Lead::Corrupt(format!("a batch of {announced} bytes is smaller than any record")),
    };
    let Some(magic) = records.get(UP_TO_MAGIC - 1).map(|byte| *byte as i8) else { return Lead::Nothing };
    if !(0..=2).contains(&magic) {
        return Lead::Corrupt(format!("magic {magic} is unknown"));
    }
    let size = announced + LOG_OVERHEAD;
    if i32::try_from(size).is_err() {
        // Kafka's sum wraps around to below 0 there, and the whole request fails (seen on a live 3.9.1).
        return Lead::Garbled;
    }
    if records.len() < size {
        return Lead::Nothing;
    }
    if magic < 2 {
        let codec = i16::from(records.get(UP_TO_MAGIC).copied().unwrap_or_default() & 0b111);
        return Lead::Batch(FirstBatch { magic, size, codec, is_transactional: false, has_producer: false });
    }
    if size < HEADER_LEN {
        return Lead::Garbled;
    }
    let attributes = records.get(21..23).map_or(0, |bytes| i16::from_be_bytes([bytes[0], bytes[1]]));
    let producer_id = records.get(43..51).and_then(|bytes| bytes.try_into().ok()).map_or(-1, i64::from_be_bytes);
    Lead::Batch(FirstBatch {
        magic,
        size,
        codec: attributes & 0b111,
        is_transactional: attributes & 1 << 4 != 0,
        has_producer: producer_id >= 0,
    })
}

/// Who sent a batch of magic 2, in which epoch, and the sequence of its first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Producer {
    pub id: i64,
    pub epoch: i16,
    pub base_sequence: i32,
}

/// Who sent the first batch, which is whole and of magic 2.
pub fn producer(records: &[u8]) -> Option<Producer> {
    Some(Producer {
        id: i64::from_be_bytes(records.get(43..51)?.try_into().ok()?),
        epoch: i16::from_be_bytes(records.get(51..53)?.try_into().ok()?),
        base_sequence: i32_at(records, 53)?,
    })
}

/// The latest timestamp of the first batch, ms; `None` before magic 1, which has none.
pub fn max_timestamp(records: &[u8]) -> Option<i64> {
    let at = match records.get(UP_TO_MAGIC - 1)? {
        2 => 35,
        1 => 18,
        _ => return None,
    };
    Some(i64::from_be_bytes(records.get(at..at + 8)?.try_into().ok()?))
}

/// Whether Kafka stumbles over the batch: below v7 it asks for its codec, and the number is none. The whole request fails then.
pub fn has_no_codec(records: &[u8], version: i16) -> bool {
    let known = |batch: FirstBatch| batch.magic != 2 || batch.codec <= ZSTD;
    (3..7).contains(&version) && matches!(first(records), Lead::Batch(batch) if !known(batch))
}

/// The one batch that Produce v3+ carries per partition.
pub fn only(records: &[u8], version: i16) -> Result<FirstBatch, ErrorCode> {
    let batch = match first(records) {
        Lead::Batch(batch) => batch,
        Lead::Nothing => return Err(ErrorCode::InvalidRecord),
        Lead::Corrupt(_) => return Err(ErrorCode::CorruptMessage),
        Lead::Garbled => return Err(ErrorCode::UnknownServerError),
    };
    if batch.magic != 2 {
        return Err(ErrorCode::InvalidRecord);
    }
    if version < 7 && batch.codec == ZSTD {
        return Err(ErrorCode::UnsupportedCompressionType);
    }
    match first(records.get(batch.size..).unwrap_or_default()) {
        Lead::Nothing => Ok(batch),
        Lead::Batch(_) | Lead::Garbled => Err(ErrorCode::InvalidRecord),
        Lead::Corrupt(_) => Err(ErrorCode::CorruptMessage),
    }
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry of `size` bytes in all that says it is of `magic`.
    fn entry(magic: u8, size: usize, attributes: u8) -> Vec<u8> {
        let mut bytes = vec![0; size.max(UP_TO_MAGIC)];
        bytes[8..12].copy_from_slice(&(size as i32 - LOG_OVERHEAD as i32).to_be_bytes());
        bytes[UP_TO_MAGIC - 1] = magic;
        if size > 22 {
            bytes[if magic == 2 { 22 } else { 17 }] = attributes;
        }
        bytes
    }

    #[test]
    fn one_whole_batch_of_magic_2_is_what_v3_takes() {
        let batch = entry(2, 70, 0);
        assert_eq!(only(&batch, 3).map(|batch| batch.size), Ok(70));
        // A tail too short to be an entry, or cut off inside one, is left to the log, which drops it.
        for tail in [&[1, 2, 3][..], &[0; 11], &entry(2, 70, 0)[..60]] {
            assert!(only(&[&batch[..], tail].concat(), 3).is_ok(), "{} bytes", tail.len());
        }
        for (records, code) in [
            (vec![], ErrorCode::InvalidRecord),
            (vec![0; 11], ErrorCode::InvalidRecord),
            (entry(2, 70, 0)[..69].to_vec(), ErrorCode::InvalidRecord),
            (entry(1, 70, 0), ErrorCode::InvalidRecord),
            ([&batch[..], &batch].concat(), ErrorCode::InvalidRecord),
            ([&batch[..], &[0; 14]].concat(), ErrorCode::CorruptMessage),
            (entry(3, 70, 0), ErrorCode::CorruptMessage),
            (entry(0xff, 70, 0), ErrorCode::CorruptMessage),
            (entry(2, LOG_OVERHEAD + 13, 0), ErrorCode::CorruptMessage),
            (entry(2, LOG_OVERHEAD + 20, 0), ErrorCode::UnknownServerError),
        ] {
            assert_eq!(only(&records, 3), Err(code), "{records:?}");
        }
    }

    #[test]
    fn zstd_needs_v7_and_an_unknown_codec_is_met_below_it() {
        let (zstd, unknown) = (entry(2, 70, 4), entry(2, 70, 5));
        assert_eq!(only(&zstd, 6), Err(ErrorCode::UnsupportedCompressionType));
        assert!(only(&zstd, 7).is_ok());
        let met: Vec<i16> = (0..=11).filter(|version| has_no_codec(&unknown, *version)).collect();
        assert_eq!(met, [3, 4, 5, 6]);
        assert!(!has_no_codec(&zstd, 3));
    }

    #[test]
    fn the_first_batch_says_whether_it_is_transactional() {
        let flags = |attributes| match first(&entry(2, 70, attributes)) {
            Lead::Batch(batch) => Some((batch.is_transactional, batch.has_producer)),
            _ => None,
        };
        assert_eq!((flags(0), flags(16)), (Some((false, true)), Some((true, true))));
        let mut nobody = entry(2, 70, 16);
        nobody[43..51].fill(0xff);
        assert!(matches!(first(&nobody), Lead::Batch(FirstBatch { has_producer: false, .. })));
    }
}
