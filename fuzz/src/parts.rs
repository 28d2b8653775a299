//! One input that stands for several files.
//!
//! ```text
//! flags u8, then parts:  kind u8, length u16 (little endian), bytes      (the last part may be short)
//! ```

/// Reads an input. `kinds` is how many kinds there are; larger numbers wrap around.
pub fn split(input: &[u8], kinds: u8) -> (u8, Vec<(u8, &[u8])>) {
    let Some((flags, mut rest)) = input.split_first() else { return (0, Vec::new()) };
    let mut parts = Vec::new();
    while let Some(([kind, low, high], after)) = rest.split_first_chunk::<3>() {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (bytes, after) = after.split_at(length);
        parts.push((kind % kinds, bytes));
        rest = after;
    }
    (*flags, parts)
}
