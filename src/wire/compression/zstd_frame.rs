//! What a zstd frame header says about memory (RFC 8878 §3.1.1.1).

const FRAME_MAGIC: u32 = 0xFD2F_B528;

/// Bytes that the decoder must keep of its output, or `None` when `frame` does not begin with a data frame's header.
pub(super) fn window(frame: &[u8]) -> Option<u64> {
    let (magic, rest) = frame.split_first_chunk()?;
    if u32::from_le_bytes(*magic) != FRAME_MAGIC {
        return None;
    }
    let (&descriptor, rest) = rest.split_first()?;
    let single_segment = descriptor & 0b10_0000 != 0;
    if !single_segment {
        let window = *rest.first()?;
        let base = 1u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 0b111));
    }
    let dictionary_id_len = [0, 1, 2, 4][usize::from(descriptor & 0b11)];
    let size = rest.get(dictionary_id_len..)?;
    Some(match descriptor >> 6 {
        0 => u64::from(*size.first()?),
        1 => u64::from(u16::from_le_bytes(*size.first_chunk()?)) + 256,
        2 => u64::from(u32::from_le_bytes(*size.first_chunk()?)),
        _ => u64::from_le_bytes(*size.first_chunk()?),
    })
}
