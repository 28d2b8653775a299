//! What the targets share: a bound on memory, inputs of several parts, checksums that fit.

pub mod files;
pub mod parts;

use std::fs;

use klamm::alloc::reserved_by_thread;

const PAGE: u64 = 4096;

/// Bytes of memory that reading `input` bytes may cost: the bound that holds for a whole broker and its peers.
pub fn memory_bound(input: usize) -> u64 {
    (8 << 20) + 16 * input as u64
}

/// Runs `work` and fails when it took more than [`memory_bound`] of `input` bytes. What it reserved is counted first; a
/// reservation of addresses alone is allowed, so when that was more it runs again and the pages it touched are counted.
pub fn bounded<T>(input: usize, work: impl Fn() -> T) -> T {
    let before = reserved_by_thread();
    let result = work();
    if reserved_by_thread() - before <= memory_bound(input) {
        return result;
    }
    drop(result);
    let before = page_faults();
    let result = work();
    let touched = (page_faults() - before) * PAGE;
    assert!(touched <= memory_bound(input), "{input} bytes of input took {touched} bytes of memory");
    result
}

/// Of this thread, so far.
fn page_faults() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/stat").expect("procfs");
    // The program's name may hold blanks; the faults are the eighth field behind it.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_whitespace().nth(7).and_then(|faults| faults.parse().ok()).expect("a number of page faults")
}
