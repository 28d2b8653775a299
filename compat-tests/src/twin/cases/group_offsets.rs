//! OffsetCommit, OffsetFetch, OffsetDelete.

use anyhow::Result;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::{
    ApiKey, DescribeGroupsRequest, OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest, RequestKind,
};
use kafka_protocol::protocol::StrBytes;

use super::super::requests::{text, topic_name};
use super::super::script::Script;
use super::groups::group_id;

const COMMIT: ApiKey = ApiKey::OffsetCommit;
const FETCH: ApiKey = ApiKey::OffsetFetch;

/// `(topic, partition, offset, metadata)`; partitions of one topic stand together.
pub fn commit(
    version: i16,
    group: &str,
    generation: i32,
    member: StrBytes,
    offsets: &[(&str, i32, i64, &str)],
) -> RequestKind {
    let mut topics: Vec<OffsetCommitRequestTopic> = Vec::new();
    for &(topic, partition, offset, metadata) in offsets {
        let at = OffsetCommitRequestPartition::default()
            .with_partition_index(partition)
            .with_committed_offset(offset)
            .with_committed_metadata(Some(text(metadata)));
        match topics.last_mut() {
            Some(last) if *last.name == text(topic) => last.partitions.push(at),
            _ => {
                topics.push(OffsetCommitRequestTopic::default().with_name(topic_name(topic)).with_partitions(vec![at]))
            }
        }
    }
    let request = OffsetCommitRequest::default().with_group_id(group_id(group)).with_topics(topics);
    RequestKind::OffsetCommit(match version >= 1 {
        true => request.with_generation_id_or_member_epoch(generation).with_member_id(member),
        false => request,
    })
}

type Wanted<'a> = Option<&'a [(&'a str, &'a [i32])]>;

/// One group's; `None` is everything.
pub fn fetch_one(version: i16, group: &str, wanted: Wanted) -> RequestKind {
    if version >= 8 {
        return fetch_several(&[(group, wanted)], false);
    }
    let topics = wanted.map(|topics| {
        let topic = |(name, partitions): &(&str, &[i32])| {
            OffsetFetchRequestTopic::default().with_name(topic_name(name)).with_partition_indexes(partitions.to_vec())
        };
        topics.iter().map(topic).collect()
    });
    RequestKind::OffsetFetch(OffsetFetchRequest::default().with_group_id(group_id(group)).with_topics(topics))
}

fn fetch_several(groups: &[(&str, Wanted)], stable: bool) -> RequestKind {
    let groups = groups.iter().map(|(group, wanted)| {
        let topics = wanted.map(|topics| {
            let topic = |(name, partitions): &(&str, &[i32])| {
                OffsetFetchRequestTopics::default()
                    .with_name(topic_name(name))
                    .with_partition_indexes(partitions.to_vec())
            };
            topics.iter().map(topic).collect()
        });
        OffsetFetchRequestGroup::default().with_group_id(group_id(group)).with_topics(topics)
    });
    RequestKind::OffsetFetch(OffsetFetchRequest::default().with_groups(groups.collect()).with_require_stable(stable))
}

pub fn delete_offsets(group: &str, topics: &[(&str, &[i32])]) -> RequestKind {
    let topics = topics.iter().map(|(name, partitions)| {
        let partitions =
            partitions.iter().map(|&index| OffsetDeleteRequestPartition::default().with_partition_index(index));
        OffsetDeleteRequestTopic::default().with_name(topic_name(name)).with_partitions(partitions.collect())
    });
    RequestKind::OffsetDelete(
        OffsetDeleteRequest::default().with_group_id(group_id(group)).with_topics(topics.collect()),
    )
}

/// Groups that only commit.
pub fn run(script: &mut Script) -> Result<()> {
    let (a, b) = (script.topic("a"), script.topic("b"));
    let (a, b) = (a.as_str(), b.as_str());
    script.make_topic(a, 3)?;
    script.make_topic(b, 1)?;
    let (longest, longer) = ("x".repeat(4096), "x".repeat(4097));
    for version in script.versions(COMMIT).filter(|version| *version >= 1) {
        let group = script.topic(&format!("g{version}"));
        let group = group.as_str();
        let plain = |offsets: &[(&str, i32, i64, &str)]| commit(version, group, -1, text(""), offsets);
        let fetched = |wanted: Wanted| fetch_one(version, group, wanted);
        script.ask("fetched before there is anything", FETCH, version, |_| fetched(Some(&[(a, &[0, 7])])))?;
        script.ask("nothing", COMMIT, version, |_| plain(&[]))?;
        script.ask("some", COMMIT, version, |_| plain(&[(a, 0, 1, "one"), (a, 2, 2, ""), (b, 0, 3, "drei é")]))?;
        script.ask("unknown ones among them", COMMIT, version, |_| {
            plain(&[("nowhere", 0, 1, ""), (a, 1, 4, ""), (a, 9, 4, ""), ("", 0, 1, "")])
        })?;
        script.ask("unknown ones alone", COMMIT, version, |_| plain(&[("nowhere", 0, 1, ""), (a, -1, 4, "")]))?;
        script.ask("a long text", COMMIT, version, |_| plain(&[(a, 0, 5, &longer), (a, 1, 6, &longest)]))?;
        script.ask("a long text alone", COMMIT, version, |_| plain(&[(a, 0, 5, &longer)]))?;
        script.ask("an offset below zero", COMMIT, version, |_| plain(&[(b, 0, -7, "")]))?;
        script.ask("a topic twice", COMMIT, version, |_| plain(&[(a, 0, 8, ""), (b, 0, 9, ""), (a, 1, 10, "")]))?;
        script.ask("a partition twice", COMMIT, version, |_| plain(&[(a, 0, 11, ""), (a, 0, 12, "")]))?;
        script.ask("a generation", COMMIT, version, |_| commit(version, group, 3, text("m"), &[(a, 0, 1, "")]))?;
        script.ask("a member without a generation", COMMIT, version, |_| {
            commit(version, group, -1, text("m"), &[(a, 0, 13, "")])
        })?;
        script.ask("a generation of a group that is not", COMMIT, version, |_| {
            commit(version, "nowhere", 1, text("m"), &[(a, 0, 1, "")])
        })?;
        script.ask("no metadata", COMMIT, version, |_| {
            let RequestKind::OffsetCommit(mut request) = plain(&[(a, 2, 14, "")]) else { unreachable!("a commit") };
            request.topics[0].partitions[0].committed_metadata = None;
            RequestKind::OffsetCommit(request)
        })?;
        if version == 1 {
            script.ask("a time", COMMIT, version, |_| {
                let RequestKind::OffsetCommit(mut request) = plain(&[(a, 2, 15, "")]) else { unreachable!("a commit") };
                request.topics[0].partitions[0].commit_timestamp = 1_700_000_000_000;
                RequestKind::OffsetCommit(request)
            })?;
        }
        if (2..=4).contains(&version) {
            script.ask("a retention", COMMIT, version, |_| {
                let RequestKind::OffsetCommit(request) = plain(&[(a, 2, 16, "")]) else { unreachable!("a commit") };
                RequestKind::OffsetCommit(request.with_retention_time_ms(3_600_000))
            })?;
        }
        if version >= 6 {
            for epoch in [0, 7, -1, -5] {
                script.ask(&format!("leader epoch {epoch}"), COMMIT, version, |_| {
                    let RequestKind::OffsetCommit(mut request) = plain(&[(b, 0, 17, "")]) else {
                        unreachable!("a commit")
                    };
                    request.topics[0].partitions[0].committed_leader_epoch = epoch;
                    RequestKind::OffsetCommit(request)
                })?;
                script.ask("it is kept", FETCH, version, |_| fetched(Some(&[(b, &[0])])))?;
            }
        }
        script.ask("no group", COMMIT, version, |_| commit(version, "", -1, text(""), &[(a, 0, 1, "")]))?;
        script.ask("no group, fetched", FETCH, version, |_| fetch_one(version, "", Some(&[(a, &[0])])))?;
        script
            .ask("fetched", FETCH, version, |_| fetched(Some(&[(a, &[2, 0, 1, 9]), (b, &[0]), ("nowhere", &[0])])))?;
        script.ask("fetched, a topic and a partition twice", FETCH, version, |_| {
            fetched(Some(&[(a, &[0, 0]), (b, &[0]), (a, &[1])]))
        })?;
        script.ask("fetched, no topics", FETCH, version, |_| fetched(Some(&[])))?;
        script.ask("fetched, no partitions", FETCH, version, |_| fetched(Some(&[(a, &[])])))?;
        if version >= 2 {
            script.ask("fetched, everything", FETCH, version, |_| fetched(None))?;
            script.ask("fetched, everything of nobody", FETCH, version, |_| fetch_one(version, "nowhere", None))?;
        }
        if version == 7 {
            script.ask("stable ones", FETCH, version, |_| {
                let RequestKind::OffsetFetch(request) = fetched(None) else { unreachable!("a fetch") };
                RequestKind::OffsetFetch(request.with_require_stable(true))
            })?;
        }
        if version >= 8 {
            let several: &[(&str, Wanted)] =
                &[(group, None), ("nowhere", Some(&[(a, &[0])])), (group, Some(&[(a, &[0])])), ("", None)];
            script.ask("several groups", FETCH, version, |_| fetch_several(several, false))?;
            script.ask("several groups, stable ones", FETCH, version, |_| fetch_several(several, true))?;
        }
        if version >= 9 {
            script.ask("a member and its epoch", FETCH, version, |_| {
                let RequestKind::OffsetFetch(mut request) = fetched(Some(&[(a, &[0])])) else {
                    unreachable!("a fetch")
                };
                request.groups[0].member_id = Some(text("m"));
                request.groups[0].member_epoch = 4;
                RequestKind::OffsetFetch(request)
            })?;
        }
        script.ask("described", ApiKey::DescribeGroups, 5, |_| {
            RequestKind::DescribeGroups(DescribeGroupsRequest::default().with_groups(vec![group_id(group)]))
        })?;
        script.ask("deleted", ApiKey::OffsetDelete, 0, |_| delete_offsets(group, &[(a, &[0]), (b, &[0])]))?;
        script.ask("what is left", FETCH, version, |_| fetched(Some(&[(a, &[0, 1, 2]), (b, &[0])])))?;
    }
    Ok(())
}

/// Version 0 of both.
pub fn in_zookeeper(script: &mut Script) -> Result<()> {
    let topic = script.topic("t");
    let topic = topic.as_str();
    script.make_topic(topic, 2)?;
    let longer = "x".repeat(4097);
    let plain = |group: &str, offsets: &[(&str, i32, i64, &str)]| commit(0, group, -1, text(""), offsets);
    script.ask("fetched before there is anything", FETCH, 0, |_| fetch_one(0, "zk", Some(&[(topic, &[0, 7])])))?;
    script.ask("some", COMMIT, 0, |_| {
        plain("zk", &[(topic, 0, 5, "a text"), (topic, 7, 1, ""), ("nowhere", 0, 1, "")])
    })?;
    script.ask("a long text", COMMIT, 0, |_| plain("zk", &[(topic, 1, 5, &longer)]))?;
    script.ask("again", COMMIT, 0, |_| plain("zk", &[(topic, 0, 6, "")]))?;
    script.ask("nothing", COMMIT, 0, |_| plain("zk", &[]))?;
    script.ask("fetched", FETCH, 0, |_| fetch_one(0, "zk", Some(&[(topic, &[0, 1, 7]), ("nowhere", &[0])])))?;
    script.ask("fetched, no topics", FETCH, 0, |_| fetch_one(0, "zk", Some(&[])))?;
    script.ask("the coordinator knows nothing of it", FETCH, 1, |_| fetch_one(1, "zk", Some(&[(topic, &[0])])))?;
    script.ask("no group", COMMIT, 0, |_| plain("", &[(topic, 0, 5, "")]))?;
    script.ask("no group, fetched", FETCH, 0, |_| fetch_one(0, "", Some(&[(topic, &[0])])))
}
