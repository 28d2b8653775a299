//! Producer ids: blocks of 1,000 that brokers take from the metastore, and the ids a broker hands out of its own.
//!
//! ```text
//! /latest_producer_id_block   given so far; a version-checked write takes the block behind it: the controller's, or each
//!                             broker's own where `inter.broker.protocol.version` is below 3.0
//! ProducerIds                 current block ── next block, fetched when 90 % of the current one are used
//! ```
//! A block whose write was not confirmed is never used: ids may be lost, none comes twice. Whoever restarts takes a new
//! block. Source: Kafka's `ZkProducerIdManager` and `RPCProducerIdManager`.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::AllocateProducerIdsRequest;
use parking_lot::Mutex;

use crate::cluster::peer::ToController;
use crate::cluster::{Session, settle};
use crate::metastore::schema::{Malformed, ProducerIdBlock, paths};
use crate::metastore::{CreateMode, Error, Metastore};
use crate::spawn::Spawner;
use crate::types::BrokerId;
use crate::wire::error_code::ErrorCode;

/// Ids in a block.
const BLOCK_SIZE: i64 = 1_000;
/// With so many left in the current block the next one is fetched.
const LOW: i64 = BLOCK_SIZE / 10;
/// Between attempts to fetch a block.
const BACK_OFF: Duration = Duration::from_millis(100);

/// Why no block could be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    #[error(transparent)]
    Store(#[from] Error),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("no whole block of producer ids is left behind {0}")]
    UsedUp(i64),
    #[error("the controller was not reached: {0}")]
    NotReached(String),
    #[error("the controller answered {0}")]
    Refused(ErrorCode),
}

/// The block behind `given`, the last one that anybody got.
pub fn next_block(given: Option<ProducerIdBlock>, broker_id: BrokerId) -> Result<ProducerIdBlock, BlockError> {
    let Some(last_given) = given.map(|block| block.last) else {
        return Ok(ProducerIdBlock { broker_id, first: 0, last: BLOCK_SIZE - 1 });
    };
    match last_given.checked_add(BLOCK_SIZE) {
        Some(last) if last_given >= -1 => Ok(ProducerIdBlock { broker_id, first: last_given + 1, last }),
        _ => Err(BlockError::UsedUp(last_given)),
    }
}

/// Takes the next block for `broker`, which is nobody else's from then on.
pub async fn take_block(store: &dyn Metastore, broker: BrokerId) -> Result<ProducerIdBlock, BlockError> {
    let path = paths::PRODUCER_ID_BLOCK;
    loop {
        let (given, version) = match store.get(path).await {
            Ok((data, stat)) => (ProducerIdBlock::decode(path, &data)?, Some(stat.version)),
            Err(Error::NoNode(_)) => (None, None),
            Err(error) => return Err(error.into()),
        };
        let block = next_block(given, broker)?;
        let written = match version {
            Some(version) => store.set(path, block.encode(), version).await.map(drop),
            None => store.create(path, Some(block.encode()), CreateMode::Persistent).await.map(drop),
        };
        match written {
            Ok(()) => return Ok(block),
            // Another broker was faster.
            Err(Error::BadVersion(_) | Error::NodeExists(_) | Error::NoNode(_)) => {}
            // If it was written, what is read next begins behind it. That the same text stands there proves nothing: a
            // controller that was replaced may have written it for the same broker.
            Err(Error::Unknown) => settle(store).await,
            Err(error) => return Err(error.into()),
        }
    }
}

/// This broker's epoch, at the moment.
pub type BrokerEpoch = Box<dyn Fn() -> i64 + Send + Sync>;

/// Where this broker's blocks come from.
pub enum Blocks {
    /// Below `inter.broker.protocol.version` 3.0.
    Metastore(Arc<Session>),
    Controller(Arc<dyn ToController>, BrokerEpoch),
}

impl Blocks {
    async fn take(&self, broker: BrokerId) -> Result<ProducerIdBlock, BlockError> {
        let (controller, epoch) = match self {
            Blocks::Metastore(session) => return take_block(&*session.store(), broker).await,
            Blocks::Controller(controller, epoch) => (controller, epoch()),
        };
        let request = AllocateProducerIdsRequest::default().with_broker_id(broker.0.into()).with_broker_epoch(epoch);
        let answer = controller.allocate_producer_ids(request).await;
        let answer = answer.map_err(|error| BlockError::NotReached(error.to_string()))?;
        ErrorCode::check(answer.error_code).map_err(BlockError::Refused)?;
        let first = answer.producer_id_start.0;
        match first.checked_add(i64::from(answer.producer_id_len) - 1) {
            Some(last) if first >= 0 && last >= first => Ok(ProducerIdBlock { broker_id: broker, first, last }),
            _ => Err(BlockError::Refused(ErrorCode::UnknownServerError)),
        }
    }
}

/// What is left of the blocks this broker has.
#[derive(Debug)]
struct Ids {
    current: Range<i64>,
    next: Option<Range<i64>>,
    /// A task is on its way for the next block.
    fetching: bool,
}

impl Ids {
    /// Has none, so that the first request for one fetches a block, as Kafka's does.
    fn none() -> Ids {
        Ids { current: 0..0, next: None, fetching: false }
    }

    fn take(&mut self) -> Option<i64> {
        if self.current.is_empty()
            && let Some(next) = self.next.take()
        {
            self.current = next;
        }
        self.current.next()
    }

    /// Whether a block must be fetched now; the caller does it.
    fn begin_fetch(&mut self) -> bool {
        let low = self.current.end - self.current.start <= LOW;
        let begins = low && self.next.is_none() && !self.fetching;
        self.fetching |= begins;
        begins
    }

    fn fetched(&mut self, block: ProducerIdBlock) {
        self.next = Some(block.first..block.last.saturating_add(1));
        self.fetching = false;
    }
}

/// Hands out producer ids of this broker.
pub struct ProducerIds {
    broker: BrokerId,
    blocks: Arc<Blocks>,
    spawner: Arc<dyn Spawner>,
    ids: Arc<Mutex<Ids>>,
}

impl ProducerIds {
    pub fn new(broker: BrokerId, blocks: Blocks, spawner: Arc<dyn Spawner>) -> ProducerIds {
        ProducerIds { broker, blocks: Arc::new(blocks), spawner, ids: Arc::new(Mutex::new(Ids::none())) }
    }

    /// An id that no producer had before. COORDINATOR_LOAD_IN_PROGRESS while a block is on its way: clients ask again.
    pub fn generate(&self) -> Result<i64, ErrorCode> {
        let (id, fetch) = {
            let mut ids = self.ids.lock();
            (ids.take(), ids.begin_fetch())
        };
        if fetch {
            let (broker, blocks, ids) = (self.broker, self.blocks.clone(), self.ids.clone());
            self.spawner.control(Box::pin(async move {
                let block = fetch_block(&blocks, broker).await;
                ids.lock().fetched(block);
            }));
        }
        id.ok_or(ErrorCode::CoordinatorLoadInProgress)
    }
}

/// Asks until there is a block, of whoever is asked then.
async fn fetch_block(blocks: &Blocks, broker: BrokerId) -> ProducerIdBlock {
    let mut told = None;
    loop {
        match blocks.take(broker).await {
            Ok(block) => {
                tracing::info!(first = block.first, last = block.last, "producer ids");
                return block;
            }
            Err(error) => {
                if told.as_ref() != Some(&error) {
                    tracing::warn!(%error, "no producer ids: idempotent producers cannot start");
                }
                told = Some(error);
            }
        }
        tokio::time::sleep(BACK_OFF).await;
    }
}

#[cfg(test)]
mod tests;
