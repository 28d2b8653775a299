//! Somebody between brokers, and between them and their metastore, who takes a rule away: to see that it is missed.

use std::fmt;
use std::io;
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};

use crate::cluster::peer::Link;
use crate::cluster::suspicion::Ended;
use crate::metastore::Op;

/// What becomes of what passes.
pub trait Meddler: Send + Sync {
    /// A request from one broker to another, header and body.
    fn request(&self, request: Bytes) -> Bytes {
        request
    }

    /// A write to the metastore, alone or in a transaction.
    fn write(&self, op: Op) -> Op {
        op
    }
}

/// Nobody.
struct Nobody;

impl Meddler for Nobody {}

/// Shared by all that it is between.
#[derive(Clone)]
pub(super) struct Meddling(pub std::sync::Arc<dyn Meddler>);

impl Default for Meddling {
    fn default() -> Meddling {
        Meddling(std::sync::Arc::new(Nobody))
    }
}

impl fmt::Debug for Meddling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meddling")
    }
}

/// A link with somebody on it.
pub(super) struct Meddled {
    pub link: Box<dyn Link>,
    pub with: Meddling,
}

#[async_trait]
impl Link for Meddled {
    async fn ask(&mut self, request: Bytes) -> io::Result<BytesMut> {
        self.link.ask(self.with.0.request(request)).await
    }

    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        self.link.poll_ended(cx)
    }
}
