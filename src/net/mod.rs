//! Listeners and connections: frames in, responses out, limits. Sockets are known here alone.
//!
//! ```text
//! Listener::accept ─ quotas ─► thread for its requests: connection loop
//!    FrameReader ─► api::dispatch ─► ResponseWriter, one request at a time, answers in request order
//! ```
//!
//! A peer is slowed down by not reading from it, never by queueing what it sends. A peer that does not read what it is
//! told holds at most one answer and 256 KiB of answers before it, whatever it asks for: while a write waits, nothing more
//! is served. Records of an answer are ranges of files and cost nothing while they wait; what was read of them already is
//! read again when the peer takes more. Such a peer is idle, and closed after `connections.max.idle.ms`, also when a
//! request of its own is parked meanwhile.
//!
//! What was tried, on two EPYC cores shared with the load, kernel 6.18, loopback; CPU of the broker against the same run
//! without it, medians of two to four interleaved rounds:
//!
//! - Gulps of 256 KiB where requests are small (`reader`), kept: 0.71 for 100-byte records in 16 KiB requests (and 1.44
//!   times the records per second), 0.80 for lz4 in 64 KiB, 0.93 for 1 KiB records in 16 KiB, nothing for single records.
//!   What is left of a 16 KiB request is half its `pwrite`: small writes make small folios in the page cache, and the
//!   limit program writes many requests at once. Appending what arrived together by one write is not tried.
//! - One timer per connection for its parked fetches (`api::alarm`), kept: with ten consumers at one tail 5.2 wake-up
//!   calls per append in place of 13.6, by strace; its effect on CPU is not measured. Those left are as many as half the
//!   consumers: wakes of the other data runtime, it seems.
//! - `sendfile` from 32 KiB on, the bytes up to the first page border with the head of the answer in one packet (`writer`),
//!   kept: with what is said of instructions below 0.76 (0.68 to 0.89) s/GB with eight consumers at one tail, 0.68 (0.62 to
//!   0.82) with ten; three pairs on a busy machine. A packet takes 17 pieces. The head is one and 64 KiB that begin inside a
//!   page are 17: a head sent with `MSG_MORE` in front of all of them makes two packets, and a kernel that paces (bbr does)
//!   arms a timer for the second. That way had lost: 1.14 with ten consumers. A bare loop, 64 KiB just written to eight
//!   readers in turn, µs of the sender for each: `pread` and `write` 16 to 50, by how busy the memory is; head, then
//!   `sendfile` 15 to 20; `MSG_MORE`, then `sendfile` from within a page 39, from a page border 13; as it is now 14. For
//!   32 KiB 12 where `pread` and `write` take 17, for 8 KiB 10 where they take 9.
//!   Beside one thread that only appends and sends (row 5's bare tail), on a busy machine: 1.21 to 1.26 times its CPU per GB
//!   that eight or ten consumers get.
//! - One data runtime in place of one per core, not kept: 0.71 with ten consumers at one tail and 0.82 with four
//!   producers of one partition, which no longer wake or wait for each other; nothing or 5 % fewer requests per second
//!   elsewhere. `num.network.threads=1` gets it where the broker shares two cores with its clients.
//!
//! The broker counts the cores that it may use: pinned to one it has one data runtime, and no wake crosses threads.
//!
//! User-space instructions of a request with one batch of one record, by callgrind; 12,000 produced and 8,000 fetched are
//! wanted. No function has more than 5 % of them itself. Ratios are of builds without link-time optimisation.
//!
//! - `api::dispatch` with its seldom handlers boxed, kept: its future is made anew for each request. With fewer lookups of
//!   the topic and shorter walks (`storage`) a produced record takes 0.93 and a hundred records 0.53 of what they took, a
//!   fetch 0.98. With link-time optimisation that was 13,700 produced, 30,600 for a hundred records, 13,300 fetched.
//! - Lists of one where they are (12 allocations for a fetch in place of 17, 9 for a produce in place of 12), the wait of a
//!   fetch boxed apart, so that the future fits the 1,032 bytes up to which glibc keeps a list per thread, one hash of a
//!   topic's name for the metadata and one for the table, one parse of an append's heads once it is checked, what watches a
//!   connection polled when it wakes alone, two or three readings of the clock fewer, all kept: 0.88 produced, 0.84 fetched.
//! - A hundred records of 100 bytes were 14,700 more: 5,800 for their CRC, with 24 bytes a step, and 88 each for the walk.
//!   With a CRC of 192 bytes a turn (`wire::crc32c`) and a walk that passes over records like the one before: 3,750 more, of
//!   which 1,700 are the CRC. Its floor is one instruction for eight bytes: 1,400.
//! - What can be answered at once is, where its frame lies and without a future; small answers are written as they are
//!   queued; no buffer is taken for a socket that has nothing: kept, 0.88 produced, 0.94 with a hundred records, 0.86
//!   fetched. Half of what was saved are the future's and the frame's own memory.
//! - Reading clocks with `rustix`, not kept: fewer instructions than std's, but it does not run under valgrind.
//! - A client id kept from one request to the next, no timer of a connection's own (each sleep looked through the timers three
//!   times and set one in the kernel), one reading of the clock fewer, an answer without a count, each header parsed once:
//!   kept, 0.92 produced, 0.96 fetched.
//! - Topics hashed by ahash in place of SipHash, no question whether a socket is ready where that is known or found out by
//!   trying, the size of a frame looked at once, the newest batches asked before the index: kept, 0.93 produced, 0.92 fetched.
//! - A fetch's lists of partitions where they are, not kept: what 115 instructions save for each allocation, moving structures
//!   of 60 to 180 bytes around takes again.
//!
//! Memory of connections, resident, the same build:
//!
//! - Only the head of a connection's first request is read on the control thread (`FrameReader::fill_head`): 4,000 that
//!   send 16 KiB each at once take 29 MB in place of 43. What they had read ahead before they moved were pool buffers.
//! - What a connection carries from thread to thread is boxed, so is the watch over it, and so is a write that has to wait:
//!   5.3 to 3.7 KB for one that is idle. A future has room for its arguments and for what becomes of them.
//!
//! A broker at rest has 0.8 MB of its own; 9.4 MB are pages of the program and its libraries that are mapped. 1,000 partitions
//! add 5 MB of the former, 0.9 of which the allocator keeps though they are free, and 1.2 of the latter.
//!
//! Four consumers of a cached log in answers of 1 MiB: one `sendfile` takes each whole, beside it are a `recv`, a `sendmsg`,
//! two looks at the page cache and two reads of batch heads, by strace. All that perf finds above 1 % is the kernel's, in the
//! packets' way through the loopback and the wake of the reader; there was nothing to take away.

pub mod listener;
pub mod outgoing;
pub mod tcp;

mod activity;
mod budget;
mod connection;
mod ebb;
mod line;
mod piece;
mod pool;
mod quotas;
mod reader;
mod server;
mod stranger;
mod thread;
mod writer;

pub use listener::{Incoming, Listener, OpenStream, Stream};
pub use quotas::{ConnectionQuotas, Limits as ConnectionLimits};
pub use server::Server;
