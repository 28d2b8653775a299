//! What keeps partitions whole. Each can be taken away from outside, to see that it is missed.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{FetchRequest, RequestHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request};
use klamm::metastore::Op;
use klamm::sim::meddler::Meddler;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Logs are cut where epochs part (KIP-101, KIP-595's diverging epochs).
    Epochs,
    /// States are written by compare-and-set, under the controller's epoch.
    CompareAndSet,
}

/// With a seed that misses each.
pub const ALL: [(Rule, u64); 2] = [(Rule::Epochs, 1), (Rule::CompareAndSet, 0)];

impl Rule {
    pub fn named(name: &str) -> Option<Rule> {
        ALL.into_iter().map(|(rule, _)| rule).find(|rule| format!("{rule:?}") == name)
    }

    /// Who takes it away.
    pub fn meddler(self) -> Arc<dyn Meddler> {
        match self {
            Rule::Epochs => Arc::new(NoEpochs),
            Rule::CompareAndSet => Arc::new(NoVersions),
        }
    }
}

/// Followers do not say in which epoch their logs end.
struct NoEpochs;

impl Meddler for NoEpochs {
    fn request(&self, request: Bytes) -> Bytes {
        let (key, version) =
            (i16::from_be_bytes([request[0], request[1]]), i16::from_be_bytes([request[2], request[3]]));
        if key != FetchRequest::KEY {
            return request;
        }
        let mut rest = request;
        let header = RequestHeader::decode(&mut rest, FetchRequest::header_version(version)).expect("a header");
        let mut fetch = FetchRequest::decode(&mut rest, version).expect("a fetch");
        for topic in &mut fetch.topics {
            topic.partitions.iter_mut().for_each(|partition| partition.last_fetched_epoch = -1);
        }
        let mut out = BytesMut::new();
        header.encode(&mut out, FetchRequest::header_version(version)).expect("a header");
        fetch.encode(&mut out, version).expect("a fetch");
        out.freeze()
    }
}

/// Every write finds the version it wants, and every writer is the controller of the moment.
struct NoVersions;

impl Meddler for NoVersions {
    fn write(&self, op: Op) -> Op {
        match op {
            Op::Check { path, .. } => Op::Check { path, version: -1 },
            Op::Set { path, data, .. } => Op::Set { path, data, version: -1 },
            other => other,
        }
    }
}
