//! What subcommands ask of a cluster beyond a single request: finds the broker that answers for a group or a partition, and
//! asks again while that broker is loading, moving or not there yet.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::{
    BrokerId, FindCoordinatorRequest, GroupId, ListGroupsRequest, ListOffsetsRequest, MetadataRequest,
    MetadataResponse, OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, TopicName,
};
use kafka_protocol::protocol::{Request, StrBytes};

use super::client::{Caller, Client, is_unanswered};
use super::refusal;
use crate::clock::{Clock, SystemClock};
use crate::types::{IsolationLevel, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// Between two tries.
const RETRY: Duration = Duration::from_millis(100);
/// `ListOffsets` timestamps that are none.
pub const LATEST: i64 = -1;
pub const EARLIEST: i64 = -2;

/// Where a group is looked after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coordinator {
    pub id: BrokerId,
    pub host: String,
    pub port: i32,
}

/// A cluster and how long its answers are waited for.
pub struct Admin {
    client: Client,
    clock: SystemClock,
    patience: Duration,
}

impl Admin {
    /// `bootstrap`: `host:port,host:port`. An error at once when none of them answers; what is asked later is asked anew for as
    /// long as the caller's patience lasts, as Kafka's `AdminClient` does for `default.api.timeout.ms`.
    pub fn connect(bootstrap: &str, caller: Caller) -> anyhow::Result<Admin> {
        let patience = caller.patience;
        Ok(Admin { client: Client::connect(caller, bootstrap)?, clock: SystemClock::default(), patience })
    }

    /// For what is asked from now on; zero allows one try.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Asks until there is an answer that is no passing error, or patience ends; then that error is the answer. A broker that
    /// is gone counts as a passing error: `ask` looks anew for the one in charge.
    pub fn patiently<T>(
        &mut self,
        ask: impl FnMut(&mut Client) -> anyhow::Result<Result<T, ErrorCode>>,
    ) -> anyhow::Result<Result<T, ErrorCode>> {
        self.patiently_for(self.patience, ask)
    }

    /// As the caller is patient, with a patience of its own.
    pub fn patiently_for<T>(
        &mut self,
        patience: Duration,
        mut ask: impl FnMut(&mut Client) -> anyhow::Result<Result<T, ErrorCode>>,
    ) -> anyhow::Result<Result<T, ErrorCode>> {
        let patience_ms = i64::try_from(patience.as_millis()).unwrap_or(i64::MAX);
        let deadline = self.clock.monotonic_ms().saturating_add(patience_ms);
        loop {
            let answer = ask(&mut self.client);
            let passing = match &answer {
                Ok(Ok(_)) => false,
                Ok(Err(code)) => passes(*code),
                Err(error) => is_unanswered(error),
            };
            if !passing || self.clock.monotonic_ms() >= deadline {
                return answer;
            }
            thread::sleep(RETRY);
        }
    }

    /// Of any broker.
    pub fn ask<R: Request>(&mut self, request: &R) -> anyhow::Result<R::Response> {
        self.unrefused(|client| client.send(request))
    }

    /// Of one broker.
    pub fn ask_broker<R: Request>(&mut self, id: BrokerId, request: &R) -> anyhow::Result<R::Response> {
        self.unrefused(|client| client.send_to(id, request))
    }

    /// As [`Admin::of_group`], of the broker that is named.
    pub fn patiently_of<R: Request>(
        &mut self,
        id: BrokerId,
        request: &R,
        error: impl Fn(&R::Response) -> i16,
    ) -> anyhow::Result<Result<R::Response, ErrorCode>> {
        self.patiently(|client| {
            let answer = client.send_to(id, request)?;
            Ok(ErrorCode::check(error(&answer)).map(|()| answer))
        })
    }

    /// All topics.
    pub fn metadata(&mut self) -> anyhow::Result<MetadataResponse> {
        self.unrefused(Client::metadata)
    }

    /// The cluster without its topics.
    pub fn cluster(&mut self) -> anyhow::Result<MetadataResponse> {
        self.unrefused(Client::cluster)
    }

    /// As [`Admin::patiently`], where any answer will do.
    fn unrefused<T>(&mut self, mut ask: impl FnMut(&mut Client) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let answer = self.patiently(|client| Ok(Ok(ask(client)?)))?;
        answer.map_err(|code| anyhow!("{code}"))
    }

    pub fn coordinator(&mut self, group: &str) -> anyhow::Result<Coordinator> {
        let found = self.patiently(|client| coordinator(client, group))?;
        found.map_err(|code| anyhow!("the coordinator of group '{group}': {code}"))
    }

    /// Sends to the group's coordinator. `error` reads the answer's error code, which the caller is given when it stays.
    pub fn of_group<R: Request>(
        &mut self,
        group: &str,
        request: &R,
        error: impl Fn(&R::Response) -> i16,
    ) -> anyhow::Result<Result<R::Response, ErrorCode>> {
        self.patiently(|client| {
            let id = match coordinator(client, group)? {
                Ok(coordinator) => coordinator.id,
                Err(code) => return Ok(Err(code)),
            };
            let answer = client.send_to(id, request)?;
            Ok(ErrorCode::check(error(&answer)).map(|()| answer))
        })
    }

    /// Sends to the active controller, as [`Admin::of_group`] to a coordinator.
    pub fn of_controller<R: Request>(
        &mut self,
        request: &R,
        error: impl Fn(&R::Response) -> i16,
    ) -> anyhow::Result<Result<R::Response, ErrorCode>> {
        self.patiently(|client| {
            let answer = client.send_to_controller(request)?;
            Ok(ErrorCode::check(error(&answer)).map(|()| answer))
        })
    }

    /// As [`Admin::of_controller`], for an answer that has no error code of its own: `codes` are those of what was asked for.
    pub fn ask_controller<R: Request>(
        &mut self,
        request: &R,
        codes: impl Fn(&R::Response) -> Vec<i16>,
    ) -> anyhow::Result<R::Response> {
        let answer = self.of_controller(request, |answer| not_controller(codes(answer)))?;
        answer.map_err(|code| anyhow!("{code}"))
    }

    /// The groups of all brokers, by id. Empty filters let everything through.
    pub fn groups(&mut self, states: &[String], types: &[String]) -> anyhow::Result<Vec<ListedGroup>> {
        let texts = |names: &[String]| names.iter().cloned().map(StrBytes::from_string).collect();
        let request = ListGroupsRequest::default().with_states_filter(texts(states)).with_types_filter(texts(types));
        // From the brokers on: the groups of one that has gone are at others.
        let groups = self.patiently(|client| {
            let mut groups = BTreeMap::new();
            for broker in client.cluster()?.brokers {
                let answer = client.send_to(broker.node_id, &request)?;
                if let Err(code) = ErrorCode::check(answer.error_code) {
                    return Ok(Err(code));
                }
                groups.extend(answer.groups.into_iter().map(|group| (group.group_id.to_string(), group)));
            }
            Ok(Ok(groups))
        })?;
        Ok(groups.map_err(|code| anyhow!("the groups: {code}"))?.into_values().collect())
    }

    /// What the group has committed.
    pub fn committed(&mut self, group: &str) -> anyhow::Result<BTreeMap<TopicPartition, i64>> {
        let asked = OffsetFetchRequestGroup::default().with_group_id(group_id(group)).with_topics(None);
        let request = OffsetFetchRequest::default().with_groups(vec![asked]);
        let answer =
            self.of_group(group, &request, |answer| answer.groups.first().map_or(0, |group| group.error_code))?;
        let answer = answer.map_err(|code| anyhow!("the offsets of group '{group}': {code}"))?;
        let mut committed = BTreeMap::new();
        for topic in answer.groups.into_iter().flat_map(|group| group.topics) {
            for partition in topic.partitions {
                let of = TopicPartition::new(topic.name.as_str(), partition.partition_index);
                refusal::refuse(partition.error_code, None).with_context(|| of.to_string())?;
                if partition.committed_offset >= 0 {
                    committed.insert(of, partition.committed_offset);
                }
            }
        }
        Ok(committed)
    }

    /// Commits for a group that has no members.
    pub fn commit(&mut self, group: &str, offsets: &BTreeMap<TopicPartition, i64>) -> anyhow::Result<()> {
        let partitions = offsets.iter().map(|(of, offset)| {
            let partition = OffsetCommitRequestPartition::default().with_partition_index(of.partition);
            (of, partition.with_committed_offset(*offset))
        });
        let topics = by_topic(partitions).into_iter().map(|(name, partitions)| {
            OffsetCommitRequestTopic::default().with_name(topic_name(name)).with_partitions(partitions)
        });
        let request = OffsetCommitRequest::default().with_group_id(group_id(group)).with_topics(topics.collect());
        let answer = self.of_group(group, &request, first_error)?;
        answer.map(|_| ()).map_err(|code| anyhow!("the offsets of group '{group}' are not committed: {code}"))
    }

    /// Those of the named topics that exist; none is created.
    pub fn topics(&mut self, names: &BTreeSet<&str>) -> anyhow::Result<Vec<MetadataResponseTopic>> {
        Ok(self.unrefused(|client| named_topics(client, names))?.1)
    }

    /// The partitions of a topic in order; UNKNOWN_TOPIC_OR_PARTITION without such a topic.
    pub fn partitions(&mut self, topic: &str) -> anyhow::Result<Result<Vec<i32>, ErrorCode>> {
        let found = self.topics(&BTreeSet::from([topic]))?;
        let found = found.first().ok_or_else(|| anyhow!("the broker says nothing of topic {topic}"))?;
        let mut partitions: Vec<i32> = found.partitions.iter().map(|partition| partition.partition_index).collect();
        partitions.sort_unstable();
        Ok(match ErrorCode::answered(found.error_code) {
            ErrorCode::None | ErrorCode::LeaderNotAvailable => Ok(partitions),
            code => Err(code),
        })
    }

    /// Asks the leaders; each partition with its timestamp in ms, [`LATEST`] or [`EARLIEST`]. An offset of -1 stands for no
    /// record so late. Partitions that are not there, or stay without a leader, answer their error.
    pub fn list_offsets(
        &mut self,
        asked: &BTreeMap<TopicPartition, i64>,
        isolation: IsolationLevel,
    ) -> anyhow::Result<BTreeMap<TopicPartition, Result<i64, ErrorCode>>> {
        let mut found = BTreeMap::new();
        // What does not pass is among what was found.
        let _passing = self.patiently(|client| {
            let open = asked.iter().filter(|(of, _)| !matches!(found.get(*of), Some(Ok(_))));
            let open: BTreeMap<TopicPartition, i64> = open.map(|(of, timestamp)| (of.clone(), *timestamp)).collect();
            ask_leaders(client, &open, isolation, &mut found)?;
            let passing = found.values().filter_map(|answer| answer.err()).find(|code| passes(*code));
            Ok(passing.map_or(Ok(()), Err))
        })?;
        Ok(found)
    }

    /// As [`Admin::list_offsets`] with one timestamp for all; an error when one partition answers one.
    pub fn all_offsets<'a>(
        &mut self,
        of: impl IntoIterator<Item = &'a TopicPartition>,
        timestamp: i64,
    ) -> anyhow::Result<BTreeMap<TopicPartition, i64>> {
        let asked = of.into_iter().map(|of| (of.clone(), timestamp)).collect();
        let found = self.list_offsets(&asked, IsolationLevel::ReadUncommitted)?;
        found
            .into_iter()
            .map(|(of, offset)| match offset {
                Ok(offset) => Ok((of, offset)),
                Err(code) => bail!("the offset of {of}: {code}"),
            })
            .collect()
    }
}

/// Errors that a cluster gets over by itself.
fn passes(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::CoordinatorNotAvailable
            | ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::NotCoordinator
            | ErrorCode::NotController
            | ErrorCode::NotLeaderOrFollower
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::RequestTimedOut
    )
}

/// Of the partitions that were to be committed; 0 when all were.
pub fn first_error(answer: &OffsetCommitResponse) -> i16 {
    let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.map(|partition| partition.error_code).find(|code| *code != 0).unwrap_or(0)
}

/// The code of a controller that is none any more, if it stands in for what was asked; 0 otherwise.
pub fn not_controller(codes: impl IntoIterator<Item = i16>) -> i16 {
    codes.into_iter().find(|code| *code == ErrorCode::NotController.code()).unwrap_or(0)
}

fn coordinator(client: &mut Client, group: &str) -> anyhow::Result<Result<Coordinator, ErrorCode>> {
    let keys = vec![StrBytes::from_string(group.to_owned())];
    let answer = client.send(&FindCoordinatorRequest::default().with_coordinator_keys(keys))?;
    let found = answer.coordinators.into_iter().next();
    let found = found.ok_or_else(|| anyhow!("the broker says nothing of group {group}"))?;
    Ok(match ErrorCode::answered(found.error_code) {
        ErrorCode::None => Ok(Coordinator { id: found.node_id, host: found.host.to_string(), port: found.port }),
        code => Err(code),
    })
}

/// Live brokers, and the topics as they were asked for.
fn named_topics(
    client: &mut Client,
    names: &BTreeSet<&str>,
) -> anyhow::Result<(BTreeSet<BrokerId>, Vec<MetadataResponseTopic>)> {
    let topics = names.iter().map(|name| MetadataRequestTopic::default().with_name(Some(topic_name(name))));
    let request = MetadataRequest::default().with_topics(Some(topics.collect())).with_allow_auto_topic_creation(false);
    let answer = client.send_metadata(&request)?;
    Ok((answer.brokers.iter().map(|broker| broker.node_id).collect(), answer.topics))
}

fn ask_leaders(
    client: &mut Client,
    asked: &BTreeMap<TopicPartition, i64>,
    isolation: IsolationLevel,
    found: &mut BTreeMap<TopicPartition, Result<i64, ErrorCode>>,
) -> anyhow::Result<()> {
    let names: BTreeSet<&str> = asked.keys().map(|of| &*of.topic).collect();
    let (brokers, topics) = named_topics(client, &names)?;
    let mut leaders = BTreeMap::new();
    for topic in &topics {
        let name = topic.name.as_ref().map_or("", |name| name.as_str());
        for partition in &topic.partitions {
            leaders.insert((name, partition.partition_index), partition.leader_id);
        }
    }
    let mut by_leader: BTreeMap<BrokerId, BTreeMap<&str, Vec<ListOffsetsPartition>>> = BTreeMap::new();
    for (of, timestamp) in asked {
        match leaders.get(&(&*of.topic, of.partition)) {
            Some(leader) if brokers.contains(leader) => {
                let partition = ListOffsetsPartition::default().with_partition_index(of.partition);
                let partition = partition.with_timestamp(*timestamp).with_current_leader_epoch(-1);
                by_leader.entry(*leader).or_default().entry(&of.topic).or_default().push(partition);
            }
            Some(_) => {
                found.insert(of.clone(), Err(ErrorCode::LeaderNotAvailable));
            }
            None => {
                found.insert(of.clone(), Err(ErrorCode::UnknownTopicOrPartition));
            }
        }
    }
    for (leader, topics) in by_leader {
        let topics = topics.into_iter().map(|(name, partitions)| {
            ListOffsetsTopic::default().with_name(topic_name(name)).with_partitions(partitions)
        });
        let request = ListOffsetsRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_isolation_level(isolation as i8)
            .with_topics(topics.collect());
        let answer = client.send_to(leader, &request)?;
        for topic in answer.topics {
            for partition in topic.partitions {
                let of = TopicPartition::new(topic.name.as_str(), partition.partition_index);
                found.insert(of, ErrorCode::check(partition.error_code).map(|()| partition.offset));
            }
        }
    }
    Ok(())
}

/// What belongs to partitions, by their topics.
pub fn by_topic<'a, T>(of: impl IntoIterator<Item = (&'a TopicPartition, T)>) -> BTreeMap<&'a str, Vec<T>> {
    let mut topics: BTreeMap<&str, Vec<T>> = BTreeMap::new();
    for (of, what) in of {
        topics.entry(&of.topic).or_default().push(what);
    }
    topics
}

pub fn group_id(name: &str) -> GroupId {
    GroupId(StrBytes::from_string(name.to_owned()))
}

pub fn topic_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}

#[cfg(test)]
mod tests;
