//! Listeners and connections: frames in, responses out, limits. Sockets are known here alone.
//!
//! ```text
//! Listener::accept ─ quotas ─► data runtime: connection loop
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
//! - `sendfile` from 32 KiB on in place of 64, the bytes before it with `MSG_MORE`, not kept: with ten consumers of fresh
//!   64 KiB batches 1.14 in spite of the timers, and 1.26 times the median delay. The machine was busy then and the
//!   spreads overlap (0.80 to 1.13 against 0.90 to 1.03 s/GB): no gain was shown, a loss is likely.
//! - One data runtime in place of one per core, not kept: 0.71 with ten consumers at one tail and 0.82 with four
//!   producers of one partition, which no longer wake or wait for each other; nothing or 5 % fewer requests per second
//!   elsewhere. `num.network.threads=1` gets it where the broker shares two cores with its clients.
//!
//! User-space instructions of a request with one batch of one record, by callgrind, without link-time optimisation, which
//! is not measured: 17,900 produced, 18,200 fetched, where 12,000 and 8,000 are wanted. No function has more than 5 % of
//! them itself. By kind, produced and fetched: the broker's own code 6,300 and 5,900, tokio and mio 2,950 both, the
//! allocator 2,200 and 3,550 (a pair of `malloc` and `free` is 135, and some 40 more above 1,032 bytes, where glibc keeps
//! no list per thread), reading clocks 780 both, SipHash of topic names 610 and 820, parsing batch heads 750 (an append
//! parses its own four times) and none, `arc-swap` 450 and 190.
//!
//! - `api::dispatch` with its seldom handlers boxed, kept: its future, made anew for each request, has 1,128 bytes in place
//!   of 1,792. With fewer lookups of the topic and shorter walks (`storage`) a produced record takes 0.93 and a hundred
//!   records 0.53 of what they took, a fetch 0.98.
//! - Not tried: a future below 1,032 bytes, one clock reading per request, one parse of an append's heads, one hash of a
//!   topic's name per request (the metadata and the table of partitions each take their own), fewer lists per fetch.

pub mod listener;
pub mod tcp;

mod budget;
mod connection;
mod creation_rate;
mod ebb;
mod pool;
mod quotas;
mod reader;
mod server;
mod stranger;
mod writer;

pub use listener::{Incoming, Listener, Stream};
pub use server::Server;
