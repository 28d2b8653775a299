//! The process's allocator: the system's, with two additions.
//!
//! - Reservations of [`LARGE`] bytes and more are mapped without a claim on memory, so that a page costs something only
//!   once it is touched. A decoder that reserves what a peer announced (up to 309 GB) reserves addresses, not memory.
//! - Each thread counts the bytes it ever reserved, for [`crate::wire::guard`] to see such a reservation and end the decode.
//!
//! It never keeps freed large blocks: they are unmapped at once. Small ones are kept until [`give_back`].
//!
//! Under strict overcommit (`vm.overcommit_memory=2`) Linux ignores the wish not to claim memory and refuses a mapping
//! beyond what is left to commit. Safe Rust has no way to take a refused `Vec::with_capacity` back: the process ends with
//! a sentence. A frame's own buffer grows by what arrived, so this concerns the arrays of `kafka-protocol` alone; on such
//! a machine `socket.request.max.bytes` does not bound them, and the broker belongs behind a network that is trusted.
#![allow(unsafe_code)] // A global allocator is unsafe to implement; nothing but the calls below is.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;

use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap, munmap};

/// From this size on a block is a mapping of its own.
pub const LARGE: usize = 4 << 20;

/// Mappings begin at a page; a stricter alignment is left to the system's allocator.
const PAGE: usize = 4096;

thread_local! {
    static RESERVED: Cell<u64> = const { Cell::new(0) };
}

/// Bytes this thread has reserved since it began; what it freed is not taken off.
pub fn reserved_by_thread() -> u64 {
    RESERVED.try_with(Cell::get).unwrap_or(0)
}

fn count(bytes: usize) {
    // Fails only while the thread ends, when nobody asks any more.
    let _ = RESERVED.try_with(|reserved| reserved.set(reserved.get().wrapping_add(bytes as u64)));
}

/// Of `malloc.h`. Bytes, which wrap at 4 GiB: `mallinfo2` has wider ones, and is missing before glibc 2.33.
#[cfg(target_env = "gnu")]
#[repr(C)]
struct Mallinfo {
    _arena: u32,
    _ordblks: u32,
    _smblks: u32,
    _hblks: u32,
    _hblkhd: u32,
    _usmblks: u32,
    _fsmblks: u32,
    uordblks: u32,
    fordblks: u32,
    _keepcost: u32,
}

#[cfg(target_env = "gnu")]
unsafe extern "C" {
    fn malloc_trim(keep: usize) -> i32;
    fn mallinfo() -> Mallinfo;
}

/// Memory of small blocks, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// Freed, and still resident.
    pub free: usize,
    pub used: usize,
}

/// What is kept for later, about; blocks of [`LARGE`] bytes and more are not in it. `None` where nobody says.
pub fn kept() -> Option<Kept> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: glibc's own function; it takes the locks it needs and changes nothing.
        let info = unsafe { mallinfo() };
        let used = usize::try_from(info.uordblks).ok()?;
        // What was given back counts as free all the same: no more is kept than is resident and not in use.
        let free = usize::try_from(info.fordblks).ok()?.min(resident()?.saturating_sub(used));
        Some(Kept { free, used })
    }
    #[cfg(not(target_env = "gnu"))]
    None
}

/// Bytes of this process's own that are in memory, as Linux tells them.
#[cfg(target_env = "gnu")]
fn resident() -> Option<usize> {
    let told = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = told.split_ascii_whitespace().skip(1).map(str::parse::<usize>);
    let (all, of_files) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(all.saturating_sub(of_files) * rustix::param::page_size())
}

/// Gives the pages that were freed and are kept for later back to the system; takes milliseconds. Without glibc it does
/// nothing.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: glibc's own function; it takes the locks it needs and touches nothing that is in use.
    unsafe {
        malloc_trim(0);
    }
}

/// See the module's head.
#[derive(Debug)]
pub struct LazyLarge;

fn is_mapped(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= PAGE
}

fn map(size: usize) -> *mut u8 {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a fresh private mapping at an address of the kernel's choice overlaps nothing.
    let block = unsafe { mmap_anonymous(ptr::null_mut(), size, ProtFlags::READ | ProtFlags::WRITE, flags) };
    block.map_or(ptr::null_mut(), <*mut _>::cast)
}

// SAFETY: whether a block is mapped follows from its layout alone, which the caller hands back unchanged on `dealloc` and
// `realloc`; both kinds come back aligned (mappings to a page) and are given back to where they came from.
unsafe impl GlobalAlloc for LazyLarge {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        if is_mapped(layout) {
            return map(layout.size());
        }
        // SAFETY: the caller's promises on `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        if is_mapped(layout) {
            return map(layout.size());
        }
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_mapped(layout) {
            // SAFETY: `block` was mapped by `map` with this size. An error leaves the mapping in place, which is a leak.
            let _ = unsafe { munmap(block.cast(), layout.size()) };
            return;
        }
        // SAFETY: `block` is the system's.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        let Ok(new_layout) = Layout::from_size_align(new_size, layout.align()) else { return ptr::null_mut() };
        match (is_mapped(layout), is_mapped(new_layout)) {
            // SAFETY: `block` is the system's and stays so.
            (false, false) => unsafe { System.realloc(block, layout, new_size) },
            (true, true) => {
                // SAFETY: `block` is a mapping of `layout.size()` bytes; nobody uses it while it is moved.
                let moved = unsafe { mremap(block.cast(), layout.size(), new_size, MremapFlags::MAYMOVE) };
                moved.map_or(ptr::null_mut(), <*mut _>::cast)
            }
            _ => {
                // SAFETY: `new_layout` has a size above zero, as the caller promises of `new_size`; the blocks do not
                // overlap; the old one is freed only after its bytes were copied.
                unsafe {
                    let new = self.alloc(new_layout);
                    if !new.is_null() {
                        ptr::copy_nonoverlapping(block, new, layout.size().min(new_size));
                        self.dealloc(block, layout);
                    }
                    new
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_reservation_costs_no_memory_and_holds_what_is_written() {
        let before = reserved_by_thread();
        let mut bytes: Vec<u8> = Vec::with_capacity(200 << 30);
        assert!(reserved_by_thread() - before >= 200 << 30);
        bytes.extend_from_slice(b"touched");
        bytes.shrink_to(40 << 20);
        assert_eq!(&bytes[..], b"touched");
        bytes.shrink_to_fit();
        assert_eq!(&bytes[..], b"touched");
    }

    /// Other tests run beside it, with large blocks of their own, and give back too: it is to be seen once.
    #[test]
    #[cfg(target_env = "gnu")]
    fn what_was_freed_is_kept_until_it_is_given_back() {
        const BLOCK: usize = 64 << 10;
        const ALL: usize = 2048 * BLOCK;
        let free = || kept().map_or(0, |kept| kept.free);
        let is_seen = || {
            let blocks: Vec<Vec<u8>> = (0..ALL / BLOCK).map(|_| vec![1; BLOCK]).collect();
            let used = kept().map_or(0, |kept| kept.used);
            // The last one stays, so that none before it can be given back by itself.
            let last = blocks.into_iter().next_back();
            let before = free();
            give_back();
            let after = free();
            drop(last);
            used >= ALL && before > ALL / 2 && after < ALL / 2
        };
        assert!((0..50).any(|_| is_seen()));
    }

    #[test]
    fn a_block_survives_growing_across_the_threshold() {
        let mut bytes = vec![7u8; LARGE - 1];
        bytes.push(8);
        bytes.reserve_exact(LARGE);
        assert!(bytes[..LARGE - 1].iter().all(|&b| b == 7));
        assert_eq!(bytes[LARGE - 1], 8);
        assert!(vec![0u8; LARGE + 1].iter().all(|&b| b == 0));
    }
}
