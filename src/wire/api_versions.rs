//! The one table of APIs: key, versions, first flexible version.
//!
//! Both the ApiVersions answer and the dispatch of requests are made from it, so what is advertised is what is served.
//! The ranges are those a 3.9 broker in ZooKeeper mode advertises, seen on a live 3.9.1; they are never taken from a
//! codec crate at run time.

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
}

macro_rules! table {
    ($($name:ident = $key:literal, $min:literal ..= $max:literal, $flexible:expr;)*) => {
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
                    };
                    &ROW
                })* }
            }
        }

        /// Every API of a 3.9 broker in ZooKeeper mode, by ascending key.
        pub const TABLE: &[ApiKey] = &[$(ApiKey::$name,)*];
    };
}

// Name = key, versions, flexible from.
table! {
    Produce = 0, 0..=11, 9;
    Fetch = 1, 0..=17, 12;
    ListOffsets = 2, 0..=9, 6;
    Metadata = 3, 0..=12, 9;
    LeaderAndIsr = 4, 0..=7, 4;
    StopReplica = 5, 0..=4, 2;
    UpdateMetadata = 6, 0..=8, 6;
    ControlledShutdown = 7, 0..=3, 3;
    OffsetCommit = 8, 0..=9, 8;
    OffsetFetch = 9, 0..=9, 6;
    FindCoordinator = 10, 0..=6, 3;
    JoinGroup = 11, 0..=9, 6;
    Heartbeat = 12, 0..=4, 4;
    LeaveGroup = 13, 0..=5, 4;
    SyncGroup = 14, 0..=5, 4;
    DescribeGroups = 15, 0..=5, 5;
    ListGroups = 16, 0..=5, 3;
    SaslHandshake = 17, 0..=1, NEVER;
    ApiVersions = 18, 0..=4, 3;
    CreateTopics = 19, 0..=7, 5;
    DeleteTopics = 20, 0..=6, 4;
    DeleteRecords = 21, 0..=2, 2;
    InitProducerId = 22, 0..=5, 2;
    OffsetForLeaderEpoch = 23, 0..=4, 4;
    AddPartitionsToTxn = 24, 0..=5, 3;
    AddOffsetsToTxn = 25, 0..=4, 3;
    EndTxn = 26, 0..=4, 3;
    WriteTxnMarkers = 27, 0..=1, 1;
    TxnOffsetCommit = 28, 0..=4, 3;
    DescribeAcls = 29, 0..=3, 2;
    CreateAcls = 30, 0..=3, 2;
    DeleteAcls = 31, 0..=3, 2;
    DescribeConfigs = 32, 0..=4, 4;
    AlterConfigs = 33, 0..=2, 2;
    AlterReplicaLogDirs = 34, 0..=2, 2;
    DescribeLogDirs = 35, 0..=4, 2;
    SaslAuthenticate = 36, 0..=2, 2;
    CreatePartitions = 37, 0..=3, 2;
    CreateDelegationToken = 38, 0..=3, 2;
    RenewDelegationToken = 39, 0..=2, 2;
    ExpireDelegationToken = 40, 0..=2, 2;
    DescribeDelegationToken = 41, 0..=3, 2;
    DeleteGroups = 42, 0..=2, 2;
    ElectLeaders = 43, 0..=2, 2;
    IncrementalAlterConfigs = 44, 0..=1, 1;
    AlterPartitionReassignments = 45, 0..=0, 0;
    ListPartitionReassignments = 46, 0..=0, 0;
    OffsetDelete = 47, 0..=0, NEVER;
    DescribeClientQuotas = 48, 0..=1, 1;
    AlterClientQuotas = 49, 0..=1, 1;
    DescribeUserScramCredentials = 50, 0..=0, 0;
    AlterUserScramCredentials = 51, 0..=0, 0;
    AlterPartition = 56, 0..=3, 0;
    UpdateFeatures = 57, 0..=1, 0;
    Envelope = 58, 0..=0, 0;
    DescribeCluster = 60, 0..=1, 0;
    DescribeProducers = 61, 0..=0, 0;
    DescribeTransactions = 65, 0..=0, 0;
    ListTransactions = 66, 0..=1, 0;
    AllocateProducerIds = 67, 0..=0, 0;
    ConsumerGroupHeartbeat = 68, 0..=0, 0;
    ConsumerGroupDescribe = 69, 0..=0, 0;
}

impl ApiKey {
    pub fn code(self) -> i16 {
        self as i16
    }

    /// Whether a request of this version may be dispatched.
    pub fn serves(self, version: i16) -> bool {
        let row = self.row();
        (row.min_version..=row.max_version).contains(&version)
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
    TABLE.iter().map(|key| key.row())
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
