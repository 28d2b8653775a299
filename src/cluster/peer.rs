//! Connections to other brokers, as those see them who speak there: the network makes them, a simulation its own.
//!
//! ```text
//! controller ── LeaderAndIsr, UpdateMetadata, StopReplica ──► every broker
//! follower ──── Fetch, OffsetForLeaderEpoch, ListOffsets ───► leader
//! leader ────── AlterPartition, AllocateProducerIds ────────► controller ([`ToController`])
//! ```
//! Who speaks knows the versions: they follow `inter.broker.protocol.version`, without a prior ApiVersions.

use std::io;
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{
    AllocateProducerIdsRequest, AllocateProducerIdsResponse, AlterPartitionRequest, AlterPartitionResponse,
};

use super::suspicion::{Ended, Outcome};
use crate::types::Endpoint;

/// Opens connections to brokers.
#[async_trait]
pub trait Connector: Send + Sync {
    /// A connection of the caller's own. The name is resolved anew each time.
    async fn connect(&self, to: &Endpoint) -> io::Result<Box<dyn Link>>;

    /// Whether somebody is there: an outcome for each address of the name, or the one that there is none. Who accepts hears
    /// nothing and is left at once. Takes a second at most. One that cannot tell says so.
    async fn probe(&self, _at: &Endpoint) -> Vec<Outcome> {
        vec![Outcome::TimedOut]
    }
}

/// One connection. After an error it is of no use any more; a call that was given up leaves it so, too.
#[async_trait]
pub trait Link: Send {
    /// Sends a request, header and body without the length in front, and waits for the next frame that comes.
    /// How long is the caller's business.
    async fn ask(&mut self, request: Bytes) -> io::Result<BytesMut>;

    /// Ready when the connection ends while nothing is asked, with how. Pending for ever where that cannot be told.
    fn poll_ended(&mut self, _cx: &mut Context<'_>) -> Poll<Ended> {
        Poll::Pending
    }
}

/// Requests to whoever is the active controller, this broker included.
#[async_trait]
pub trait ToController: Send + Sync {
    /// Fails when no controller is known or the way to it broke: whether it was done is unknown then.
    async fn alter_partition(&self, request: AlterPartitionRequest) -> io::Result<AlterPartitionResponse>;
    /// As [`ToController::alter_partition`].
    async fn allocate_producer_ids(
        &self,
        request: AllocateProducerIdsRequest,
    ) -> io::Result<AllocateProducerIdsResponse>;
}
