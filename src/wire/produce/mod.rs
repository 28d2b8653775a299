//! Produce (0), versions 0 to 11: the request is read in place, the response written from flat lists.

mod request;
mod response;
#[cfg(test)]
mod tests;

pub use request::{PartitionData, ProduceRequest};
pub use response::{PartitionResponse, ProduceResponse, RecordErrors};

/// First version with compact types and tags.
pub const FIRST_FLEXIBLE: i16 = 9;
