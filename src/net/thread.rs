//! Which thread serves a connection: what brokers say to each other must not wait behind a client's append to a disk that
//! does not answer.
//!
//! ```text
//! control   what the controller tells and is asked; every connection until it is known
//! replicas  what followers fetch
//! data      everything else, and all that is appended
//! ```
//! A connection moves between two requests, with the bytes it has read ahead. Connections to `control.plane.listener.name`
//! stay where they begin.

use crate::api::Connection;
use crate::wire::api_versions::ApiKey;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread {
    Control,
    Replicas,
    Data,
}

impl Thread {
    /// Where the next request of `connection`, which is at `self`, is to be served.
    pub fn for_request(self, key: Option<ApiKey>, connection: &Connection) -> Thread {
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
                Some(false) => Thread::Data,
                // A follower's first request is this one.
                None if key == Some(ApiKey::Fetch) && self == Thread::Control => Thread::Replicas,
                None if key == Some(ApiKey::Fetch) => self,
                None => Thread::Data,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_are_kept_apart_from_clients() {
        let begun = |of_controller| Connection::new(1, "L".into(), std::net::Ipv4Addr::LOCALHOST.into(), of_controller);
        let connection = begun(false);
        let next = |at: Thread, key| at.for_request(Some(key), &connection);
        assert_eq!(next(Thread::Control, ApiKey::UpdateMetadata), Thread::Control);
        assert_eq!(next(Thread::Control, ApiKey::ApiVersions), Thread::Data);
        assert_eq!(next(Thread::Data, ApiKey::AlterPartition), Thread::Control);
        assert_eq!(next(Thread::Data, ApiKey::Fetch), Thread::Data, "most likely a consumer");
        assert_eq!(next(Thread::Control, ApiKey::Fetch), Thread::Replicas);
        assert_eq!(Thread::Control.for_request(None, &connection), Thread::Data, "a stranger");

        let (follower, consumer) = (begun(false), begun(false));
        follower.of_follower.set(true).expect("the first");
        consumer.of_follower.set(false).expect("the first");
        for key in [ApiKey::Fetch, ApiKey::OffsetForLeaderEpoch, ApiKey::ListOffsets] {
            assert_eq!(Thread::Replicas.for_request(Some(key), &follower), Thread::Replicas);
            assert_eq!(Thread::Data.for_request(Some(key), &follower), Thread::Replicas);
            assert_eq!(Thread::Replicas.for_request(Some(key), &consumer), Thread::Data);
        }

        assert_eq!(Thread::Control.for_request(Some(ApiKey::ApiVersions), &begun(true)), Thread::Control);
    }
}
