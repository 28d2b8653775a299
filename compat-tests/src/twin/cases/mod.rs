//! The conversations, by subject.

mod between_brokers;
mod broker_configs;
mod cluster;
mod configs;
mod controller;
mod fetch;
mod framing;
mod group_offsets;
mod groups;
mod metadata;
mod offsets;
mod produce;
mod producers;
mod quotas;
mod records;
mod security;
mod sessions;
mod topics;
mod transactions;

use anyhow::Result;
use kafka_protocol::messages::ApiKey;

use super::script::Script;

type Case = fn(&mut Script) -> Result<()>;

/// In this order: the early ones see brokers without topics.
pub const ALL: &[(&str, Case)] = &[
    ("cluster", cluster::run),
    // Sizes depend on who compressed: before there is anything else.
    ("log-dirs", cluster::log_dirs),
    ("alter-log-dirs", cluster::alter_log_dirs),
    ("framing", framing::run),
    ("metadata", metadata::run),
    ("topics", topics::run),
    ("partitions", topics::partitions),
    ("produce", produce::run),
    ("old-formats", produce::old_formats),
    ("bad-batches", produce::bad_batches),
    ("producer-ids", produce::producer_ids),
    ("init-producer-id", producers::ids),
    ("producers", producers::described),
    ("markers", producers::markers),
    ("transactions", producers::open_transactions),
    ("topic-settings", produce::topic_settings),
    ("fetch", fetch::run),
    ("fetch-limits", fetch::limits),
    ("codecs", fetch::codecs),
    ("sessions", sessions::run),
    ("list-offsets", offsets::list),
    ("epochs", offsets::epochs),
    ("delete-records", records::run),
    ("configs", configs::describe),
    ("alter-configs", configs::alter),
    ("sasl", security::sasl),
    ("acls", security::acls),
    ("delegation-tokens", security::delegation_tokens),
    ("scram-users", security::scram_users),
    ("features", controller::features),
    ("producer-id-blocks", controller::producer_id_blocks),
    ("elections", controller::elections),
    ("reassignments", controller::reassignments),
    ("controllers-of-before", between_brokers::controllers_of_before),
    ("strangers", between_brokers::strangers),
    ("only-with-kraft", controller::only_with_kraft),
    ("client-quotas", quotas::client_quotas),
    // Last: the topic of the groups is made.
    ("coordinators", groups::coordinators),
    ("groups", groups::lives),
    ("group-errors", groups::refusals),
    ("static-members", groups::static_members),
    ("rebalances", groups::rebalances),
    ("group-offsets", group_offsets::run),
    ("zookeeper-offsets", group_offsets::in_zookeeper),
    ("group-admin", groups::admin),
    ("transaction-coordinator", groups::transaction_coordinator),
    ("transaction-lives", transactions::lives),
    ("transactions-of-brokers", transactions::between_brokers),
];

/// Only in the full form: Kafka acts on what they change when ZooKeeper tells it to, and on a busy machine that comes late.
pub const SLOW: &[(&str, Case)] = &[("mutation-quotas", quotas::mutations), ("broker-configs", broker_configs::run)];

/// What the conversations speak of; an API served beyond these needs one.
pub const APIS: &[ApiKey] = &[
    ApiKey::Produce,
    ApiKey::Fetch,
    ApiKey::ListOffsets,
    ApiKey::Metadata,
    ApiKey::ApiVersions,
    ApiKey::CreateTopics,
    ApiKey::DeleteTopics,
    ApiKey::DeleteRecords,
    ApiKey::InitProducerId,
    ApiKey::OffsetForLeaderEpoch,
    ApiKey::WriteTxnMarkers,
    ApiKey::AddPartitionsToTxn,
    ApiKey::AddOffsetsToTxn,
    ApiKey::EndTxn,
    ApiKey::TxnOffsetCommit,
    ApiKey::DescribeTransactions,
    ApiKey::ListTransactions,
    ApiKey::DescribeConfigs,
    ApiKey::AlterConfigs,
    ApiKey::DescribeLogDirs,
    ApiKey::CreatePartitions,
    ApiKey::IncrementalAlterConfigs,
    ApiKey::DescribeCluster,
    ApiKey::DescribeProducers,
    ApiKey::OffsetCommit,
    ApiKey::OffsetFetch,
    ApiKey::FindCoordinator,
    ApiKey::JoinGroup,
    ApiKey::Heartbeat,
    ApiKey::LeaveGroup,
    ApiKey::SyncGroup,
    ApiKey::DescribeGroups,
    ApiKey::ListGroups,
    ApiKey::DeleteGroups,
    ApiKey::OffsetDelete,
    ApiKey::AlterReplicaLogDirs,
    ApiKey::ElectLeaders,
    ApiKey::AlterPartitionReassignments,
    ApiKey::ListPartitionReassignments,
    ApiKey::DescribeUserScramCredentials,
    ApiKey::AlterUserScramCredentials,
    ApiKey::UpdateFeatures,
    ApiKey::SaslHandshake,
    ApiKey::DescribeAcls,
    ApiKey::CreateAcls,
    ApiKey::DeleteAcls,
    ApiKey::SaslAuthenticate,
    ApiKey::CreateDelegationToken,
    ApiKey::RenewDelegationToken,
    ApiKey::ExpireDelegationToken,
    ApiKey::DescribeDelegationToken,
    ApiKey::Envelope,
    ApiKey::AllocateProducerIds,
    ApiKey::LeaderAndIsr,
    ApiKey::StopReplica,
    ApiKey::UpdateMetadata,
    ApiKey::ControlledShutdown,
    ApiKey::AlterPartition,
    ApiKey::ConsumerGroupHeartbeat,
    ApiKey::ConsumerGroupDescribe,
    ApiKey::DescribeClientQuotas,
    ApiKey::AlterClientQuotas,
];
