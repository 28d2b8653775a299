//! The end marker of a transaction: the one record of a control batch.
//!
//! ```text
//! record: varint length, i8 attributes, varlong timestamp delta, varint offset delta,
//!         varint 4, i16 version, i16 type (0 ABORT, 1 COMMIT), varint n, i16 version, i32 coordinator epoch
//! ```

use super::entry::{i16_at, i32_at};

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndMarker {
    pub commit: bool,
    pub coordinator_epoch: i32,
}

impl EndMarker {
    /// Reads the first record after a control batch's header. `None` for other kinds of control record, or damage.
    pub fn parse(records: &[u8]) -> Option<EndMarker> {
        let mut rest = records;
        varint(&mut rest)?;
        rest = rest.get(1..)?;
        varint(&mut rest)?;
        varint(&mut rest)?;
        let key_len = usize::try_from(varint(&mut rest)?).ok()?;
        let key = rest.get(..key_len)?;
        rest = rest.get(key_len..)?;
        let value_len = usize::try_from(varint(&mut rest)?).ok()?;
        let value = rest.get(..value_len)?;
        let commit = match (key_len >= 4).then(|| i16_at(key, 2))? {
            0 => false,
            1 => true,
            _ => return None,
        };
        (value_len >= 6).then(|| EndMarker { commit, coordinator_epoch: i32_at(value, 2) })
    }
}

fn varint(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    None
}
