//! Fetch (1), versions 0 to 17: the request copied into flat lists, the response written around its records; for
//! followers also the other way round.

mod answer;
mod request;
mod response;
#[cfg(test)]
mod tests;

pub use answer::{FetchAnswer, PartitionAnswer};
pub use request::{FetchRequest, ForgottenPartition, PartitionRequest, TopicRef, session_id};
pub use response::{DivergingEpoch, FetchResponse, PartitionResponse, Payload, ResponseTopic};

/// First version with compact types and tags.
pub const FIRST_FLEXIBLE: i16 = 12;
/// First version that names topics by id.
pub const FIRST_WITH_IDS: i16 = 13;
