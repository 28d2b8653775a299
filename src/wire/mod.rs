//! Bytes to values and back: frames, headers, the table of API versions, error codes, record batches,
//! message sets, compression. Knows no sockets and no files.

pub mod api_versions;
pub mod batch;
pub mod compression;
pub mod convert;
pub mod crc32c;
pub mod error_code;
pub mod fetch;
pub mod frame;
pub mod guard;
pub mod header;
pub mod leader;
pub mod legacy;
pub mod metadata;
pub mod produce;
pub mod reader;
pub mod throttle_time;
pub mod varint;
pub mod writer;
