//! What brokers say to each other, by `inter.broker.protocol.version`. The one table of it; whoever listens understands
//! every older version too.

use super::error::ConfigError;
use super::release::{RELEASES, named};

/// Lowest release whose protocol is spoken: the first in which every control request carries topic ids.
const LOWEST: &str = "2.8-IV1";

/// Versions of the requests that brokers send to each other without asking what the other one knows first
/// (3.9's `MetadataVersion` and `ControllerBrokerRequestBatch`). Those of ControlledShutdown, WriteTxnMarkers and
/// AllocateProducerIds are the same in all releases spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterBrokerProtocol {
    pub leader_and_isr: i16,
    pub update_metadata: i16,
    pub stop_replica: i16,
    /// Kafka negotiates it; this is the highest that a controller of the release has.
    pub alter_partition: i16,
    /// Of followers; 12 at most where a topic has no id.
    pub fetch: i16,
    pub list_offsets: i16,
    pub offset_for_leader_epoch: i16,
    /// Blocks of producer ids come from the controller; else each broker takes them from the metastore.
    pub allocates_producer_ids: bool,
}

impl InterBrokerProtocol {
    /// Of the release that `text` names; refuses those below 2.8.
    pub fn of(text: &str) -> Result<InterBrokerProtocol, ConfigError> {
        let at = |release: &str| RELEASES.iter().position(|known| *known == release);
        let spoken = named(text).and_then(at);
        if spoken < at(LOWEST) {
            let why = "brokers speak the protocol of 2.8 and later among themselves: bring the cluster to 2.8 first";
            return Err(ConfigError::rule("inter.broker.protocol.version", text, why));
        }
        let since = |release: &str| spoken >= at(release);
        let first = |table: &[(&str, i16)], oldest: i16| {
            table.iter().find(|(release, _)| since(release)).map_or(oldest, |(_, version)| *version)
        };
        Ok(InterBrokerProtocol {
            leader_and_isr: first(&[("3.4-IV0", 7), ("3.2-IV0", 6)], 5),
            update_metadata: first(&[("3.4-IV0", 8)], 7),
            stop_replica: first(&[("3.4-IV0", 4)], 3),
            alter_partition: first(&[("3.5-IV0", 3), ("3.3-IV0", 2), ("3.2-IV0", 1)], 0),
            fetch: first(&[("3.9-IV0", 17), ("3.7-IV4", 16), ("3.5-IV1", 15), ("3.5-IV0", 14), ("3.1-IV0", 13)], 12),
            list_offsets: first(&[("3.9-IV0", 9), ("3.5-IV0", 8), ("3.0-IV1", 7)], 6),
            offset_for_leader_epoch: 4,
            allocates_producer_ids: since("3.0-IV0"),
        })
    }
}

impl Default for InterBrokerProtocol {
    /// That of 3.9.
    fn default() -> InterBrokerProtocol {
        InterBrokerProtocol {
            leader_and_isr: 7,
            update_metadata: 8,
            stop_replica: 4,
            alter_partition: 3,
            fetch: 17,
            list_offsets: 9,
            offset_for_leader_epoch: 4,
            allocates_producer_ids: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(text: &str) -> [i16; 6] {
        let it = InterBrokerProtocol::of(text).expect(text);
        [it.leader_and_isr, it.update_metadata, it.stop_replica, it.alter_partition, it.fetch, it.list_offsets]
    }

    #[test]
    fn each_release_speaks_as_kafka_does_at_it() {
        let cases = [
            ("2.8", [5, 7, 3, 0, 12, 6]),
            ("2.8-IV1", [5, 7, 3, 0, 12, 6]),
            ("3.0-IV0", [5, 7, 3, 0, 12, 6]),
            ("3.0", [5, 7, 3, 0, 12, 7]),
            ("3.1", [5, 7, 3, 0, 13, 7]),
            ("3.2", [6, 7, 3, 1, 13, 7]),
            ("3.3", [6, 7, 3, 2, 13, 7]),
            ("3.4", [7, 8, 4, 2, 13, 7]),
            ("3.5-IV0", [7, 8, 4, 3, 14, 8]),
            ("3.6.1", [7, 8, 4, 3, 15, 8]),
            ("3.7-IV3", [7, 8, 4, 3, 15, 8]),
            ("3.7", [7, 8, 4, 3, 16, 8]),
            ("3.9", [7, 8, 4, 3, 17, 9]),
        ];
        for (release, versions) in cases {
            assert_eq!(control(release), versions, "{release}");
        }
        assert_eq!(InterBrokerProtocol::of("3.9-IV0").ok(), Some(InterBrokerProtocol::default()));
        assert!(!InterBrokerProtocol::of("2.8").expect("spoken").allocates_producer_ids);
    }

    #[test]
    fn what_is_older_is_refused_in_words() {
        for release in ["0.8.0", "0.11.0", "2.0", "2.7", "2.8-IV0"] {
            let error = InterBrokerProtocol::of(release).expect_err("too old").to_string();
            assert!(error.contains(release) && error.contains("2.8 and later"), "{error}");
        }
    }
}
