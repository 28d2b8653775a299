//! The controller: `decide(state, event) -> effects`, and the driver that carries effects out through the
//! metastore. Also what every broker writes to the metastore on behalf of a request ([`admin`]).
//!
//! # Start order
//!
//! There is one way, with one broker or many. Before: session, the nodes every broker makes, identity, all overrides and
//! topic ids read, logs loaded, listeners bound (their ports may be advertised). Then
//!
//! 1. [`receiver::ControlReceiver`]: the broker's end of the control channel, over partition table and metadata;
//! 2. [`start`]: registers, which gives the broker epoch, and runs the driver and the configuration listener on the
//!    control thread. Leadership arrives through the control channel, also on the controller's own broker;
//! 3. [`admin::Admin`], for the handlers.
//!
//! Stop: [`leave::leave`] while requests are still served, then requests, then [`ControllerHandle::stop`], then the logs; dropping the session frees `/controller` and
//! the registration.

pub mod topic_names;

pub mod message;
pub mod placement;

pub mod election;
pub mod state;
pub mod status;

mod batch;
pub mod decide;

pub mod channel;
mod lanes;
pub mod receiver;

pub mod ask;
pub mod rpc;
pub mod serving;
pub mod to_controller;

pub mod driver;
pub mod fence;

pub mod leave;
pub mod start;
pub mod stored_epochs;
pub mod take_over;

pub mod admin;
pub mod features;
pub mod producer_ids;

pub use start::{ControllerHandle, start};

#[cfg(test)]
mod pool;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
