//! Record batches (magic 2): the unit that producers send, logs store and consumers read.
//!
//! Everything here borrows: batches from the bytes they arrived in, records from a (decompressed) payload.

mod header;
// The rest in reading order.
mod batches;
mod records;
pub mod stamp;

pub use batches::{Batch, Batches, CutError, HEADER_UP_TO_MAGIC, RawBatch};
pub use header::{BatchHeader, HEADER_LEN, HeaderError, LOG_OVERHEAD};
pub use records::{Header, Headers, Record, RecordError, Records};
