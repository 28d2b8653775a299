//! Checksums and copies.

use super::{MIB, rate, rate_line};

pub fn lines() -> std::io::Result<Vec<String>> {
    let block = vec![0x5au8; MIB];
    let checksum = rate(4096, || {
        std::hint::black_box(crc32c::crc32c(std::hint::black_box(&block)));
        Ok(())
    })?;
    // Larger than the caches, and written once before, so that only the copy is timed.
    let mut target = vec![1u8; 256 * MIB];
    let mut i = 0;
    let copy = rate(2048, || {
        let at = i % 256 * MIB;
        target[at..at + MIB].copy_from_slice(&block);
        std::hint::black_box(&mut target);
        i += 1;
        Ok(())
    })?;
    Ok(vec![rate_line("CRC-32C", checksum), rate_line("memcpy, target not cached", copy)])
}
