//! The one table of APIs: key, versions, first flexible version, whether this broker serves it.
//!
//! Both the ApiVersions answer and the dispatch of requests are made from it, so what is advertised is what is served.
//! The ranges are those a 3.9 broker in ZooKeeper mode advertises, seen on a live 3.9.1; they are never taken from a
//! codec crate at run time. An API that is not served yet keeps its row and is neither advertised nor dispatched.

/// Where a version is flexible from when none is.
const NEVER: i16 = i16::MAX;

/// What the table says of one API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub key: ApiKey,
    /// Inclusive.
    pub min_version: i16,
    /// Inclusive.
    pub max_version: i16,
    /// First version with compact types and tagged fields (KIP-482).
    pub flexible_from: i16,
    /// Advertised and dispatched.
    pub served: bool,
}

macro_rules! table {
    ($($name:ident = $key:literal, $min:literal ..= $max:literal, $flexible:expr, $served:literal;)*) => {
        /// An API by Kafka's name and number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i16)]
        pub enum ApiKey { $($name = $key,)* }

        impl ApiKey {
            pub fn from_code(code: i16) -> Option<ApiKey> {
                match code { $($key => Some(ApiKey::$name),)* _ => None }
            }

            /// Whether the controller alone sends it.
            pub fn is_of_controller(self) -> bool {
                matches!(self, ApiKey::LeaderAndIsr | ApiKey::StopReplica | ApiKey::UpdateMetadata)
            }

            pub fn name(self) -> &'static str {
                match self { $(ApiKey::$name => stringify!($name),)* }
            }

            /// What the table says of this API.
            pub fn row(self) -> &'static Row {
                match self { $(ApiKey::$name => {
                    const ROW: Row = Row {
                        key: ApiKey::$name,
                        min_version: $min,
                        max_version: $max,
                        flexible_from: $flexible,
                        served: $served,
                    };
                    &ROW
                })* }
            }
        }

        /// Every API of a 3.9 broker in ZooKeeper mode, by ascending key.
        pub const TABLE: &[ApiKey] = &[$(ApiKey::$name,)*];
    };
}

// Name = key, versions, flexible from, served.
table! {
    Produce = 0, 0..=11, 9, true;
    Fetch = 1, 0..=17, 12, true;
    ListOffsets = 2, 0..=9, 6, true;
    Metadata = 3, 0..=12, 9, true;
    LeaderAndIsr = 4, 0..=7, 4, true;
    StopReplica = 5, 0..=4, 2, true;
    UpdateMetadata = 6, 0..=8, 6, true;
    ControlledShutdown = 7, 0..=3, 3, true;
    OffsetCommit = 8, 0..=9, 8, true;
    OffsetFetch = 9, 0..=9, 6, true;
    FindCoordinator = 10, 0..=6, 3, true;
    JoinGroup = 11, 0..=9, 6, true;
    Heartbeat = 12, 0..=4, 4, true;
    LeaveGroup = 13, 0..=5, 4, true;
    SyncGroup = 14, 0..=5, 4, true;
    DescribeGroups = 15, 0..=5, 5, true;
    ListGroups = 16, 0..=5, 3, true;
    SaslHandshake = 17, 0..=1, NEVER, true;
    ApiVersions = 18, 0..=4, 3, true;
    CreateTopics = 19, 0..=7, 5, true;
    DeleteTopics = 20, 0..=6, 4, true;
    DeleteRecords = 21, 0..=2, 2, true;
    InitProducerId = 22, 0..=5, 2, true;
    OffsetForLeaderEpoch = 23, 0..=4, 4, true;
    AddPartitionsToTxn = 24, 0..=5, 3, true;
    AddOffsetsToTxn = 25, 0..=4, 3, true;
    EndTxn = 26, 0..=4, 3, true;
    WriteTxnMarkers = 27, 0..=1, 1, true;
    TxnOffsetCommit = 28, 0..=4, 3, true;
    DescribeAcls = 29, 0..=3, 2, true;
    CreateAcls = 30, 0..=3, 2, true;
    DeleteAcls = 31, 0..=3, 2, true;
    DescribeConfigs = 32, 0..=4, 4, true;
    AlterConfigs = 33, 0..=2, 2, true;
    AlterReplicaLogDirs = 34, 0..=2, 2, true;
    DescribeLogDirs = 35, 0..=4, 2, true;
    SaslAuthenticate = 36, 0..=2, 2, true;
    CreatePartitions = 37, 0..=3, 2, true;
    CreateDelegationToken = 38, 0..=3, 2, true;
    RenewDelegationToken = 39, 0..=2, 2, true;
    ExpireDelegationToken = 40, 0..=2, 2, true;
    DescribeDelegationToken = 41, 0..=3, 2, true;
    DeleteGroups = 42, 0..=2, 2, true;
    ElectLeaders = 43, 0..=2, 2, true;
    IncrementalAlterConfigs = 44, 0..=1, 1, true;
    AlterPartitionReassignments = 45, 0..=0, 0, true;
    ListPartitionReassignments = 46, 0..=0, 0, true;
    OffsetDelete = 47, 0..=0, NEVER, true;
    DescribeClientQuotas = 48, 0..=1, 1, true;
    AlterClientQuotas = 49, 0..=1, 1, true;
    DescribeUserScramCredentials = 50, 0..=0, 0, true;
    AlterUserScramCredentials = 51, 0..=0, 0, true;
    AlterPartition = 56, 0..=3, 0, true;
    UpdateFeatures = 57, 0..=1, 0, true;
    Envelope = 58, 0..=0, 0, true;
    DescribeCluster = 60, 0..=1, 0, true;
    DescribeProducers = 61, 0..=0, 0, true;
    DescribeTransactions = 65, 0..=0, 0, true;
    ListTransactions = 66, 0..=1, 0, true;
    AllocateProducerIds = 67, 0..=0, 0, true;
    ConsumerGroupHeartbeat = 68, 0..=0, 0, true;
    ConsumerGroupDescribe = 69, 0..=0, 0, true;
}

impl ApiKey {
    pub fn code(self) -> i16 {
        self as i16
    }

    /// Whether a request of this version may be dispatched.
    pub fn serves(self, version: i16) -> bool {
        let row = self.row();
        row.served && (row.min_version..=row.max_version).contains(&version)
    }

    pub fn is_flexible(self, version: i16) -> bool {
        version >= self.row().flexible_from
    }

    /// 0, 1 or 2. ControlledShutdown v0 is the only one without a client id.
    pub fn request_header_version(self, version: i16) -> i16 {
        match (self, version) {
            (ApiKey::ControlledShutdown, ..=0) => 0,
            _ if self.is_flexible(version) => 2,
            _ => 1,
        }
    }

    /// 0 or 1. ApiVersions is always 0: the client may not know yet what the broker speaks (KIP-511).
    pub fn response_header_version(self, version: i16) -> i16 {
        i16::from(self != ApiKey::ApiVersions && self.is_flexible(version))
    }
}

/// The rows that ApiVersions advertises, by ascending key.
pub fn advertised() -> impl Iterator<Item = &'static Row> {
    TABLE.iter().map(|key| key.row()).filter(|row| row.served)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::ApiKey as Theirs;

    #[test]
    fn header_versions_agree_with_an_independent_codec() {
        for key in TABLE {
            let theirs = Theirs::try_from(key.code()).expect("a key of 3.9");
            let range = theirs.valid_versions();
            let row = key.row();
            assert_eq!((range.min, range.max), (row.min_version, row.max_version), "{key:?}");
            for version in row.min_version..=row.max_version {
                assert_eq!(theirs.request_header_version(version), key.request_header_version(version), "{key:?}");
                assert_eq!(theirs.response_header_version(version), key.response_header_version(version), "{key:?}");
            }
        }
    }

    #[test]
    fn a_zookeeper_mode_broker_has_62_apis_in_ascending_order() {
        assert_eq!(TABLE.len(), 62);
        assert!(TABLE.is_sorted());
        assert_eq!(TABLE.iter().filter(|key| ApiKey::from_code(key.code()) == Some(**key)).count(), 62);
    }

    #[test]
    fn what_is_served_is_advertised_and_no_more() {
        let keys: Vec<ApiKey> = advertised().map(|row| row.key).collect();
        assert_eq!(keys, TABLE, "all that a 3.9 broker has");
        assert!(ApiKey::Metadata.serves(12) && !ApiKey::Metadata.serves(13) && !ApiKey::Metadata.serves(-1));
    }
}
