//! Metadata (3), versions 0 to 12: the first thing every client asks and keeps asking, so read and written by hand.

mod request;
mod response;
#[cfg(test)]
mod tests;

pub use request::{MetadataRequest, TopicAsked};
pub use response::{MetadataResponse, Node, PartitionResponse, TopicResponse};

/// First version with compact types and tags.
pub const FIRST_FLEXIBLE: i16 = 9;

/// "Not asked", for authorized operations.
pub const NOT_ASKED: i32 = i32::MIN;
