//! Hand-built frames of non-flexible versions, encoded once and sent as they are: the client costs next to nothing.

mod batch;
mod fields;
pub mod groups;
mod requests;

pub use batch::{Batch, batches, offsets};
pub use fields::{Reader, Writer};
pub use requests::{Produce, fetch, fetch_result, produce_result};
