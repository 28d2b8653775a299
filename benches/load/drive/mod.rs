//! Ways of loading a server, shared by the rows. Each checks what it was answered.

mod closed;
mod consume;
mod ledger;
mod members;
mod pace;
mod paced;

pub use closed::{Amount, Closed, Produced};
pub use consume::{ANSWER, Consume, Consumed, read_back, whole_batches};
pub use ledger::Ledger;
pub use members::Members;
pub use pace::Rate;
pub use paced::{Paced, Timed};

use std::error::Error;

use hdrhistogram::Histogram;

pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// A server being loaded.
#[derive(Clone, Debug)]
pub struct Peer {
    pub addr: String,
    pub pid: u32,
    /// The processes whose time is counted: its own, in a cluster those of all brokers.
    pub paying: Vec<u32>,
    /// False for the limit program: no topics, no answers to read.
    pub broker: bool,
}

/// Nanoseconds up to two minutes, to three digits.
pub fn histogram() -> Outcome<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, 120_000_000_000, 3)?)
}
