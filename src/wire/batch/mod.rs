//! Record batches (magic 2): the unit that producers send, logs store and consumers read.

mod header;

pub use header::{BatchHeader, HEADER_LEN, HeaderError, LOG_OVERHEAD};
