//! Zigzag varints of record batches (protobuf's `sint32` and `sint64`).
//!
//! At most 5 bytes for 32 bits and 10 for 64; bits past the width are dropped, as Kafka's `ByteUtils` drops them.
//! The unsigned varints of flexible request bodies are not made here.

/// Bytes that end inside a varint, or a varint that does not end in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VarintError {
    #[error("the bytes end inside a varint")]
    Short,
    #[error("a varint is longer than {0} bytes")]
    Long(usize),
}

/// The longest varint of 64 bits, in bytes.
pub const VARLONG_MAX: usize = 10;
/// The longest varint of 32 bits, in bytes.
pub const VARINT_MAX: usize = 5;

/// Takes a 32-bit varint from the front of `bytes`.
#[inline]
pub fn take_i32(bytes: &mut &[u8]) -> Result<i32, VarintError> {
    // Lengths and deltas of small records fit in one byte.
    if let [first, rest @ ..] = *bytes
        && *first < 0x80
    {
        *bytes = rest;
        return Ok(unzigzag_32(u32::from(*first)));
    }
    take(bytes, VARINT_MAX).map(|raw| unzigzag_32(raw as u32))
}

/// Takes a 64-bit varint from the front of `bytes`.
#[inline]
pub fn take_i64(bytes: &mut &[u8]) -> Result<i64, VarintError> {
    take(bytes, VARLONG_MAX).map(unzigzag_64)
}

fn take(bytes: &mut &[u8], max: usize) -> Result<u64, VarintError> {
    let mut raw = 0u64;
    for (index, byte) in bytes.iter().take(max).enumerate() {
        raw |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            *bytes = &bytes[index + 1..];
            return Ok(raw);
        }
    }
    Err(if bytes.len() < max { VarintError::Short } else { VarintError::Long(max) })
}

/// Appends a 32-bit varint.
pub fn put_i32(out: &mut Vec<u8>, value: i32) {
    put_i64(out, i64::from(value));
}

/// Appends a 64-bit varint.
pub fn put_i64(out: &mut Vec<u8>, value: i64) {
    let mut raw = zigzag(value);
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

/// Bytes that `value` takes.
pub fn len_i64(value: i64) -> usize {
    let bits = 64 - (zigzag(value) | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// A length as it stands in a record, zigzag not undone; `None` for a negative one, which is null.
#[inline]
pub fn length(raw: u32) -> Option<usize> {
    (raw & 1 == 0).then_some((raw >> 1) as usize)
}

#[inline]
pub fn unzigzag_32(raw: u32) -> i32 {
    (raw >> 1) as i32 ^ -((raw & 1) as i32)
}

fn unzigzag_64(raw: u64) -> i64 {
    (raw >> 1) as i64 ^ -((raw & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_encodings() {
        for (value, bytes) in [
            (0i32, &[0u8][..]),
            (-1, &[1]),
            (1, &[2]),
            (63, &[0x7e]),
            (64, &[0x80, 1]),
            (-65, &[0x81, 1]),
            (i32::MAX, &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
            (i32::MIN, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        ] {
            let mut out = Vec::new();
            put_i32(&mut out, value);
            assert_eq!(out, bytes, "{value}");
            assert_eq!(take_i32(&mut &bytes[..]), Ok(value));
            assert_eq!(len_i64(value.into()), bytes.len());
        }
    }

    #[test]
    fn too_short_and_too_long() {
        assert_eq!(take_i32(&mut &[][..]), Err(VarintError::Short));
        assert_eq!(take_i32(&mut &[0x80; 4][..]), Err(VarintError::Short));
        assert_eq!(take_i32(&mut &[0x80; 5][..]), Err(VarintError::Long(5)));
        assert_eq!(take_i64(&mut &[0x80; 9][..]), Err(VarintError::Short));
        assert_eq!(take_i64(&mut &[0xff; 11][..]), Err(VarintError::Long(10)));
    }

    #[test]
    fn bits_past_the_width_are_dropped() {
        assert_eq!(take_i32(&mut &[0xff, 0xff, 0xff, 0xff, 0x7f][..]), Ok(i32::MIN));
    }

    proptest! {
        #[test]
        fn round_trip(value: i64, tail: Vec<u8>) {
            let mut out = Vec::new();
            put_i64(&mut out, value);
            prop_assert_eq!(out.len(), len_i64(value));
            out.extend_from_slice(&tail);
            let mut rest = &out[..];
            prop_assert_eq!(take_i64(&mut rest), Ok(value));
            prop_assert_eq!(rest, &tail[..]);
        }
    }
}
