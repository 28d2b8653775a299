//! Which thread serves a connection: what brokers say to each other must not wait behind a client's append to a disk that
//! does not answer.
//!
//! ```text
//! control   what the controller tells and is asked; every connection until it is known
//! replicas  what followers fetch
//! lengthy   requests of clients that take the processor for long: large lists, descriptions of all there is, and what is
//!           long itself until it is there
//! data      everything else, and all that is appended
//! ```
//! A connection moves between two requests, with the bytes it has read ahead. Connections to `control.plane.listener.name`
//! stay where they begin.

use std::sync::atomic::Ordering;

use crate::api::Connection;
use crate::cluster::Cluster;
use crate::wire::api_versions::ApiKey;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread {
    Control,
    Replicas,
    Lengthy,
    Data,
}

/// Bytes from which on the elements of a list are work for a millisecond and more.
const LONG_LIST: usize = 16 << 10;

/// Of a fetch request, whose elements cost less: 2,000 partitions of a client without sessions.
const LONG_FETCH: usize = 64 << 10;

/// Of any request that is still coming: fresh pages for its bytes, and moving them into larger buffers, cost milliseconds.
const LONG_READ: usize = 4 << 20;

/// What is known of a request.
#[derive(Clone, Copy, Debug)]
pub struct Coming {
    pub key: Option<ApiKey>,
    /// In bytes; 0 while that is not known.
    pub size: usize,
    /// All of it is there.
    pub whole: bool,
}

impl Thread {
    /// Where the next request of `connection`, which is at `self`, is to be read on and served.
    pub fn for_request(self, coming: Coming, connection: &Connection, cluster: &Cluster) -> Thread {
        let key = coming.key;
        if connection.of_controller {
            return Thread::Control;
        }
        match key {
            Some(
                ApiKey::LeaderAndIsr
                | ApiKey::StopReplica
                | ApiKey::UpdateMetadata
                | ApiKey::ControlledShutdown
                | ApiKey::AlterPartition
                | ApiKey::AllocateProducerIds,
            ) => Thread::Control,
            _ => match connection.of_follower.get() {
                Some(true) => Thread::Replicas,
                _ if key.is_some_and(|key| takes_long(key, coming, connection, cluster)) => Thread::Lengthy,
                Some(false) => Thread::Data,
                // A follower's first request is this one.
                None if key == Some(ApiKey::Fetch) && self == Thread::Control => Thread::Replicas,
                None if key == Some(ApiKey::Fetch) && self != Thread::Lengthy => self,
                None => Thread::Data,
            },
        }
    }
}

/// Records are not looked at here: what of them takes long is done elsewhere, see `api/produce.rs`.
fn takes_long(key: ApiKey, coming: Coming, connection: &Connection, cluster: &Cluster) -> bool {
    use ApiKey::*;
    let Coming { size, whole, .. } = coming;
    match key {
        _ if size > LONG_READ && !whole => true,
        Produce => false,
        Fetch => size > LONG_FETCH || connection.fetches_much.load(Ordering::Relaxed),
        Metadata => size > LONG_LIST || cluster.is_large(),
        // Of all topics and groups, as they are asked.
        DescribeConfigs | DescribeLogDirs | DescribeGroups | ListGroups => true,
        DescribeClientQuotas | ListPartitionReassignments => true,
        _ => size > LONG_LIST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Snapshot;

    #[test]
    fn brokers_are_kept_apart_from_clients() {
        let begun = |of_controller| Connection::new(1, "L".into(), std::net::Ipv4Addr::LOCALHOST.into(), of_controller);
        let connection = begun(false);
        let next = |at: Thread, key| at.for_request(whole(Some(key), 100), &connection, &small());
        assert_eq!(next(Thread::Control, ApiKey::UpdateMetadata), Thread::Control);
        assert_eq!(next(Thread::Control, ApiKey::ApiVersions), Thread::Data);
        assert_eq!(next(Thread::Data, ApiKey::AlterPartition), Thread::Control);
        assert_eq!(next(Thread::Data, ApiKey::Fetch), Thread::Data, "most likely a consumer");
        assert_eq!(next(Thread::Control, ApiKey::Fetch), Thread::Replicas);
        assert_eq!(Thread::Control.for_request(whole(None, 100), &connection, &small()), Thread::Data, "a stranger");

        let (follower, consumer) = (begun(false), begun(false));
        follower.of_follower.set(true).expect("the first");
        consumer.of_follower.set(false).expect("the first");
        for key in [ApiKey::Fetch, ApiKey::OffsetForLeaderEpoch, ApiKey::ListOffsets] {
            assert_eq!(Thread::Replicas.for_request(whole(Some(key), 100), &follower, &small()), Thread::Replicas);
            assert_eq!(Thread::Data.for_request(whole(Some(key), 100), &follower, &small()), Thread::Replicas);
            assert_eq!(Thread::Replicas.for_request(whole(Some(key), 100), &consumer, &small()), Thread::Data);
        }

        assert_eq!(
            Thread::Control.for_request(whole(Some(ApiKey::ApiVersions), 100), &begun(true), &small()),
            Thread::Control
        );
    }

    fn whole(key: Option<ApiKey>, size: usize) -> Coming {
        Coming { key, size, whole: true }
    }

    fn small() -> Cluster {
        Cluster::new(Snapshot::default())
    }

    #[test]
    fn clients_do_not_wait_for_what_takes_long() {
        let begun = |of_controller| Connection::new(1, "L".into(), std::net::Ipv4Addr::LOCALHOST.into(), of_controller);
        let (client, follower) = (begun(false), begun(false));
        follower.of_follower.set(true).expect("the first");
        let next = |at: Thread, key, size| at.for_request(whole(Some(key), size), &client, &small());
        for (key, long) in [
            (ApiKey::Metadata, LONG_LIST),
            (ApiKey::OffsetCommit, LONG_LIST),
            (ApiKey::DeleteTopics, LONG_LIST),
            (ApiKey::ApiVersions, LONG_LIST),
            (ApiKey::Fetch, LONG_FETCH),
        ] {
            assert_eq!(next(Thread::Data, key, long), Thread::Data, "{key:?}");
            assert_eq!(next(Thread::Data, key, long + 1), Thread::Lengthy, "{key:?}");
            assert_eq!(next(Thread::Control, key, long + 1), Thread::Lengthy, "{key:?}");
            assert_eq!(next(Thread::Lengthy, key, long), Thread::Data, "{key:?}: it comes back");
        }
        assert_eq!(next(Thread::Data, ApiKey::ListGroups, 10), Thread::Lengthy);
        assert_eq!(next(Thread::Data, ApiKey::Produce, 100 << 20), Thread::Data, "records");
        for key in [ApiKey::UpdateMetadata, ApiKey::LeaderAndIsr] {
            assert_eq!(next(Thread::Data, key, 100 << 20), Thread::Control, "a controller's");
        }
        let of_follower = Thread::Replicas.for_request(whole(Some(ApiKey::Fetch), 100 << 20), &follower, &small());
        assert_eq!(of_follower, Thread::Replicas);
        let of_controller = Thread::Control.for_request(whole(Some(ApiKey::ListGroups), 10), &begun(true), &small());
        assert_eq!(of_controller, Thread::Control);

        // Records too are read elsewhere until they are there.
        let inside = |at: Thread, size| {
            let coming = Coming { whole: false, ..whole(Some(ApiKey::Produce), size) };
            at.for_request(coming, &client, &small())
        };
        assert_eq!(inside(Thread::Data, LONG_READ), Thread::Data);
        assert_eq!(inside(Thread::Data, LONG_READ + 1), Thread::Lengthy);
        assert_eq!(inside(Thread::Lengthy, LONG_READ + 1), Thread::Lengthy);
        assert_eq!(next(Thread::Lengthy, ApiKey::Produce, LONG_READ + 1), Thread::Data, "all of it is there");

        client.fetches_much.store(true, Ordering::Relaxed);
        assert_eq!(next(Thread::Lengthy, ApiKey::Fetch, 10), Thread::Lengthy);
        assert_eq!(next(Thread::Lengthy, ApiKey::Heartbeat, 10), Thread::Data);
    }
}
