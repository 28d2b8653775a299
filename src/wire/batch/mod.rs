//! Record batches (magic 2): the unit that producers send, logs store and consumers read.
//!
//! Readers borrow: batches from the bytes they arrived in, records from a decompressed payload ([`Records`]) or, one by one,
//! from a stream that decompresses as it goes ([`RecordStream`]).

mod header;
// The rest in reading order.
mod batches;
mod records;
pub mod stamp;
mod stream;
// Writing.
mod builder;
mod control;

pub use batches::{Batch, Batches, CutError, HEADER_UP_TO_MAGIC, RawBatch};
pub use builder::{BatchBuilder, BatchOptions, BuildError};
pub use control::{BadControlRecord, ControlRecord, Marker, marker_batch};
pub use header::{BatchHeader, HEADER_LEN, HeaderError, LOG_OVERHEAD};
pub use records::{Header, Headers, Record, RecordError, Records, Survey};
pub use stream::{OpenRecord, RecordHead, RecordStream, StreamError};

#[cfg(test)]
mod tests;
