//! Listeners and connections: frames in, responses out, limits. Sockets are known here alone.
//!
//! ```text
//! Listener::accept ─ quotas ─► data runtime: connection loop
//!    FrameReader ─► api::dispatch ─► ResponseWriter, one request at a time, answers in request order
//! ```
//!
//! A peer is slowed down by not reading from it, never by queueing what it sends.

pub mod listener;
pub mod tcp;

mod budget;
mod connection;
mod creation_rate;
mod pool;
mod quotas;
mod reader;
mod server;
mod stranger;
mod writer;

pub use listener::{Incoming, Listener, Stream};
pub use server::Server;
