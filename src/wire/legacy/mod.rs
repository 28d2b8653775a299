//! Message sets of magic 0 and 1: what clients before 0.11 send and read, and what old segments hold.
//!
//! A set has no header of its own: messages stand one behind another, cut by [`Batches`](super::batch::Batches). A compressed
//! message is a *wrapper*: its value is a compressed set, its offset that of the last message inside.

mod message;
mod wrapper;
mod writer;

pub use message::{Message, MessageError, crc_matches};
pub use wrapper::{InnerMessages, WrapperError};
pub use writer::{MessageSetBuilder, SetOptions};

#[cfg(test)]
mod tests;
