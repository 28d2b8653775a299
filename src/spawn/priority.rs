//! Who goes first when there are more threads than processors.

use std::thread;

/// Added to the niceness of a thread that others need not wait for: beside one that always has work it gets a tenth of a
/// processor, and alone all of it.
const LOW: i32 = 10;

/// Of a thread among those of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    Normal,
    Low,
}

impl Priority {
    /// The thread that calls has it from now on.
    pub fn take(self) {
        if self == Priority::Low {
            // Refused by no kernel; where it is, the thread is one like the others.
            let _ = rustix::process::nice(LOW);
        }
    }
}

/// Lets other threads have the processor that are ready. Work that takes long says so now and then: without it the kernel
/// looks at its next tick only, up to 10 ms later.
pub fn give_way() {
    thread::yield_now();
}
