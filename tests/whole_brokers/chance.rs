//! The system's chance, which the seed decides as well: the keys of std's hash maps, and what tokio draws from them, as whom
//! of several waiters to wake first.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

static DRAWN: AtomicU64 = AtomicU64::new(0);

/// From now on what is drawn follows from `seed`.
pub fn begin(seed: u64) {
    DRAWN.store(seed << 32, Ordering::Relaxed);
}

/// Takes the place of the C library's in this program, whose run of one thread is the only one that draws.
///
/// # Safety
/// `bytes` points to `len` bytes that may be written, as whoever calls getrandom(2) promises.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(bytes: *mut u8, len: usize, _flags: u32) -> isize {
    for at in 0..len {
        let drawn = DRAWN.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // SAFETY: `at` is below `len`.
        unsafe { bytes.add(at).write((drawn >> 56) as u8) };
    }
    isize::try_from(len).unwrap_or(isize::MAX)
}
