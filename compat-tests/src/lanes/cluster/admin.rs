//! What an operator asks of the cluster, each of its controller.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use bytes::Bytes;
use kafka_protocol::messages::alter_partition_reassignments_request::{ReassignablePartition, ReassignableTopic};
use kafka_protocol::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use kafka_protocol::messages::create_partitions_request::{CreatePartitionsAssignment, CreatePartitionsTopic};
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::*;

use crate::cluster::Cluster;
use crate::raw::Connection;
use crate::twin::requests::{
    DELETE, Entity, SET, alter_quotas, assigned, create, incremental, text, topic_name, with_configs,
};
use crate::wait::until;

/// In ms.
const TIMEOUT: i32 = 30_000;

/// A topic whose partitions, from 0 up, have these replicas.
pub fn create_topic(
    cluster: &Cluster,
    name: &str,
    replicas: &[&[i32]],
    configs: &[(&str, Option<&str>)],
) -> Result<()> {
    let assignment: Vec<(i32, &[i32])> = (0..).zip(replicas.iter().copied()).collect();
    let topic = with_configs(assigned(name, &assignment), configs);
    let request = RequestKind::CreateTopics(create(vec![topic]));
    let ResponseKind::CreateTopics(answer) = ask(cluster, ApiKey::CreateTopics, 5, &request)? else {
        bail!("no CreateTopics response")
    };
    let errors = answer.topics.iter().map(|topic| topic.error_code);
    accepted(&format!("create {name}"), errors)
}

/// Adds one partition with these replicas.
pub fn add_partition(cluster: &Cluster, topic: &str, count: i32, replicas: &[i32]) -> Result<()> {
    let ids = replicas.iter().map(|&id| BrokerId(id)).collect();
    let topic = CreatePartitionsTopic::default()
        .with_name(topic_name(topic))
        .with_count(count)
        .with_assignments(Some(vec![CreatePartitionsAssignment::default().with_broker_ids(ids)]));
    let request = CreatePartitionsRequest::default().with_topics(vec![topic]).with_timeout_ms(TIMEOUT);
    let request = RequestKind::CreatePartitions(request);
    let ResponseKind::CreatePartitions(answer) = ask(cluster, ApiKey::CreatePartitions, 2, &request)? else {
        bail!("no CreatePartitions response")
    };
    accepted("add a partition", answer.results.iter().map(|topic| topic.error_code))
}

/// The first replicas of these partitions are to lead. Those that do already are no error.
pub fn elect_preferred(cluster: &Cluster, topic: &str, partitions: &[i32]) -> Result<()> {
    const ELECTION_NOT_NEEDED: i16 = 84;
    let partitions = TopicPartitions::default().with_topic(topic_name(topic)).with_partitions(partitions.to_vec());
    let request = ElectLeadersRequest::default().with_topic_partitions(Some(vec![partitions])).with_timeout_ms(TIMEOUT);
    let ResponseKind::ElectLeaders(answer) =
        ask(cluster, ApiKey::ElectLeaders, 2, &RequestKind::ElectLeaders(request))?
    else {
        bail!("no ElectLeaders response")
    };
    let results = answer.replica_election_results.iter().flat_map(|topic| &topic.partition_result);
    let errors = results.map(|partition| partition.error_code).filter(|&error| error != ELECTION_NOT_NEEDED);
    accepted("elect the preferred leaders", errors.chain([answer.error_code]))
}

/// Starts to move a partition to these replicas.
pub fn reassign(cluster: &Cluster, topic: &str, partition: i32, replicas: &[i32]) -> Result<()> {
    let ids = replicas.iter().map(|&id| BrokerId(id)).collect();
    let partition = ReassignablePartition::default().with_partition_index(partition).with_replicas(Some(ids));
    let topic = ReassignableTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition]);
    let request = AlterPartitionReassignmentsRequest::default().with_topics(vec![topic]).with_timeout_ms(TIMEOUT);
    let request = RequestKind::AlterPartitionReassignments(request);
    let ResponseKind::AlterPartitionReassignments(answer) =
        ask(cluster, ApiKey::AlterPartitionReassignments, 0, &request)?
    else {
        bail!("no AlterPartitionReassignments response")
    };
    let each = answer.responses.iter().flat_map(|topic| &topic.partitions).map(|partition| partition.error_code);
    accepted("reassign", each.chain([answer.error_code]))
}

pub fn delete_topic(cluster: &Cluster, topic: &str) -> Result<()> {
    let request = DeleteTopicsRequest::default().with_topic_names(vec![topic_name(topic)]).with_timeout_ms(TIMEOUT);
    let ResponseKind::DeleteTopics(answer) =
        ask(cluster, ApiKey::DeleteTopics, 4, &RequestKind::DeleteTopics(request))?
    else {
        bail!("no DeleteTopics response")
    };
    accepted("delete", answer.responses.iter().map(|topic| topic.error_code))
}

/// Sets or, with `None`, deletes configs of a topic or of a broker, as the broker at `address` is asked to.
pub fn alter_configs(address: &str, kind: i8, name: &str, changes: &[(&str, Option<&str>)]) -> Result<()> {
    let changes: Vec<(&str, i8, Option<&str>)> =
        changes.iter().map(|&(key, value)| (key, if value.is_some() { SET } else { DELETE }, value)).collect();
    let request = incremental(&[(kind, name, &changes)], false);
    let answer = Connection::open(address)?.ask(ApiKey::IncrementalAlterConfigs, 1, &request)?;
    let ResponseKind::IncrementalAlterConfigs(answer) = answer else { bail!("no IncrementalAlterConfigs response") };
    accepted("alter configs", answer.responses.iter().map(|resource| resource.error_code))
}

/// Sets or deletes a quota of an entity: its types with names, `None` for the default.
pub fn alter_quota(address: &str, entity: Entity, key: &str, value: Option<f64>) -> Result<()> {
    let request = alter_quotas(&[(entity, &[(key, value)])], false);
    let answer = Connection::open(address)?.ask(ApiKey::AlterClientQuotas, 1, &request)?;
    let ResponseKind::AlterClientQuotas(answer) = answer else { bail!("no AlterClientQuotas response") };
    accepted("alter quotas", answer.entries.iter().map(|entry| entry.error_code))
}

/// Gives a user a credential, its salt and its salted password after 4,096 rounds, or takes the one there is.
pub fn alter_scram(cluster: &Cluster, user: &str, mechanism: i8, credential: Option<(Bytes, Bytes)>) -> Result<()> {
    let mut request = AlterUserScramCredentialsRequest::default();
    match credential {
        Some((salt, salted)) => request.upsertions.push(
            ScramCredentialUpsertion::default()
                .with_name(text(user))
                .with_mechanism(mechanism)
                .with_iterations(4096)
                .with_salt(salt)
                .with_salted_password(salted),
        ),
        None => {
            request.deletions.push(ScramCredentialDeletion::default().with_name(text(user)).with_mechanism(mechanism))
        }
    }
    let request = RequestKind::AlterUserScramCredentials(request);
    let ResponseKind::AlterUserScramCredentials(answer) = ask(cluster, ApiKey::AlterUserScramCredentials, 0, &request)?
    else {
        bail!("no AlterUserScramCredentials response")
    };
    accepted("alter SCRAM credentials", answer.results.iter().map(|result| result.error_code))
}

/// The broker that coordinates this group, once there is one.
pub fn coordinator(cluster: &Cluster, group: &str) -> Result<i32> {
    let request = FindCoordinatorRequest::default().with_coordinator_keys(vec![text(group)]);
    until("a coordinator", Duration::from_secs(30), || {
        let Some(&asked) = cluster.running().first() else { bail!("no broker runs") };
        let ResponseKind::FindCoordinator(answer) = Connection::open(&cluster.address(asked)?)?.ask(
            ApiKey::FindCoordinator,
            4,
            &RequestKind::FindCoordinator(request.clone()),
        )?
        else {
            bail!("no FindCoordinator response")
        };
        accepted("find a coordinator", answer.coordinators.iter().map(|one| one.error_code))?;
        answer.coordinators.first().map(|one| one.node_id.0).ok_or_else(|| anyhow::anyhow!("none is named"))
    })
}

fn ask(cluster: &Cluster, api: ApiKey, version: i16, request: &RequestKind) -> Result<ResponseKind> {
    Connection::open(&cluster.address(cluster.controller()?)?)?.ask(api, version, request)
}

fn accepted(what: &str, errors: impl Iterator<Item = i16>) -> Result<()> {
    let errors: Vec<i16> = errors.filter(|&error| error != 0).collect();
    ensure!(errors.is_empty(), "{what}: errors {errors:?}");
    Ok(())
}
