//! What the controller is asked: features, producer ids for other brokers; and what only a KRaft cluster would serve.

use anyhow::Result;
use kafka_protocol::messages::alter_partition_reassignments_request::{ReassignablePartition, ReassignableTopic};
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics;
use kafka_protocol::messages::update_features_request::FeatureUpdateKey;
use kafka_protocol::messages::*;

use super::super::requests::{assigned, counted, create, metadata_topic, text, topic_name};
use super::super::script::Script;
use crate::broker::BROKER_ID;

pub fn features(script: &mut Script) -> Result<()> {
    let update = |version: i16, name: &str, level: i16, kind: i8| {
        let update = FeatureUpdateKey::default().with_feature(text(name)).with_max_version_level(level);
        if version == 0 { update.with_allow_downgrade(kind > 1) } else { update.with_upgrade_type(kind) }
    };
    script.ask_all("none", ApiKey::UpdateFeatures, |_, _| {
        RequestKind::UpdateFeatures(UpdateFeaturesRequest::default().with_timeout_ms(1000))
    })?;
    for name in ["metadata.version", "", "nobody.knows.it"] {
        for level in [-1, 0, 1, 21, i16::MAX] {
            for kind in [0, 1, 2, 3, 4] {
                script.ask_all(
                    &format!("{name:?} to {level}, type {kind}"),
                    ApiKey::UpdateFeatures,
                    |version, _| {
                        let updates = vec![update(version, name, level, kind)];
                        RequestKind::UpdateFeatures(
                            UpdateFeaturesRequest::default().with_timeout_ms(1000).with_feature_updates(updates),
                        )
                    },
                )?;
            }
        }
    }
    script.ask_all("several, one twice", ApiKey::UpdateFeatures, |version, _| {
        let updates = [("a", 1), ("b", 0), ("a", 0)].map(|(name, level)| update(version, name, level, 1));
        RequestKind::UpdateFeatures(UpdateFeaturesRequest::default().with_feature_updates(updates.to_vec()))
    })?;
    script.ask("only looked at", ApiKey::UpdateFeatures, 1, |_| {
        let updates = vec![update(1, "a", 1, 1)];
        let request = UpdateFeaturesRequest::default().with_feature_updates(updates);
        RequestKind::UpdateFeatures(request.with_validate_only(true))
    })
}

pub fn producer_id_blocks(script: &mut Script) -> Result<()> {
    for (step, broker, epoch) in
        [("an unknown broker", 9, 0), ("no broker", -1, -1), ("another epoch", 1, 1 << 40), ("no epoch", 1, -1)]
    {
        script.ask_all(step, ApiKey::AllocateProducerIds, |_, _| {
            let request = AllocateProducerIdsRequest::default().with_broker_id(BrokerId(broker));
            RequestKind::AllocateProducerIds(request.with_broker_epoch(epoch))
        })?;
    }
    Ok(())
}

pub fn elections(script: &mut Script) -> Result<()> {
    let led = script.topic("led");
    let behind = script.topic("behind");
    script.ask("topics", ApiKey::CreateTopics, 5, |_| {
        let topics = vec![
            assigned(&led, &[(0, &[BROKER_ID, 8]), (1, &[BROKER_ID, 9])]),
            assigned(&behind, &[(0, &[9, BROKER_ID])]),
        ];
        RequestKind::CreateTopics(create(topics).with_timeout_ms(1000))
    })?;
    script.await_topic(&led, 2)?;
    script.await_topic(&behind, 1)?;
    let elect = |version: i16, kind: i8, topics: Option<&[(&str, &[i32])]>| {
        let topic = |(name, partitions): &(&str, &[i32])| {
            TopicPartitions::default().with_topic(topic_name(name)).with_partitions(partitions.to_vec())
        };
        let request = ElectLeadersRequest::default()
            .with_timeout_ms(5000)
            .with_topic_partitions(topics.map(|topics| topics.iter().map(topic).collect()));
        RequestKind::ElectLeaders(if version >= 1 { request.with_election_type(kind) } else { request })
    };
    for kind in [0, 1, 2, -1] {
        let named: &[(&str, &[i32])] =
            &[(&led, &[0, 1, 7]), (&behind, &[0]), ("no.such-topic", &[0]), ("no/topic", &[-1])];
        for (step, topics) in [("named ones", Some(named)), ("none", Some(&[][..])), ("all", None)] {
            script.ask_all(&format!("{step}, type {kind}"), ApiKey::ElectLeaders, |version, _| {
                elect(version, kind, topics)
            })?;
        }
    }
    script.ask("without time", ApiKey::ElectLeaders, 2, |_| {
        let RequestKind::ElectLeaders(request) = elect(2, 0, Some(&[(&behind, &[0])])) else { unreachable!("above") };
        RequestKind::ElectLeaders(request.with_timeout_ms(0))
    })?;
    script.ask("leaders are who they were", ApiKey::Metadata, 12, |_| {
        let topics = [&led, &behind].map(|name| metadata_topic(text(name)));
        RequestKind::Metadata(MetadataRequest::default().with_topics(Some(topics.to_vec())))
    })
}

/// One topic's partitions with the replicas they are to have.
fn reassign(topics: &[(&str, &[(i32, Option<&[i32]>)])]) -> RequestKind {
    let partition = |(index, replicas): &(i32, Option<&[i32]>)| {
        let replicas = replicas.map(|ids| ids.iter().map(|id| BrokerId(*id)).collect());
        ReassignablePartition::default().with_partition_index(*index).with_replicas(replicas)
    };
    let topics = topics.iter().map(|(name, partitions)| {
        ReassignableTopic::default()
            .with_name(topic_name(name))
            .with_partitions(partitions.iter().map(partition).collect())
    });
    let request = AlterPartitionReassignmentsRequest::default().with_topics(topics.collect());
    RequestKind::AlterPartitionReassignments(request.with_timeout_ms(5000))
}

pub fn reassignments(script: &mut Script) -> Result<()> {
    let api = ApiKey::AlterPartitionReassignments;
    let (whole, wide) = (script.topic("whole"), script.topic("wide"));
    script.ask("topics", ApiKey::CreateTopics, 5, |_| {
        let topics = vec![counted(&whole, 2, 1), assigned(&wide, &[(0, &[BROKER_ID, 8, 9]), (1, &[8, BROKER_ID, 9])])];
        RequestKind::CreateTopics(create(topics))
    })?;
    script.await_topic(&whole, 2)?;
    script.await_topic(&wide, 2)?;
    script.ask_all("nothing", api, |_, _| reassign(&[]))?;
    for (step, replicas) in [
        ("nobody", Some(&[][..])),
        ("one twice", Some(&[BROKER_ID, BROKER_ID])),
        ("a negative id", Some(&[-1])),
        ("unknown brokers", Some(&[7, 6])),
        ("one unknown broker", Some(&[BROKER_ID, 7])),
        ("a cancellation", None),
        ("what is there", Some(&[BROKER_ID])),
    ] {
        script.ask_all(step, api, |_, _| {
            reassign(&[
                (&whole, &[(0, replicas), (7, replicas)]),
                ("no.such-topic", &[(0, replicas)]),
                ("no/topic", &[(-1, replicas)]),
            ])
        })?;
    }
    script.ask_all("a partition twice", api, |_, _| {
        reassign(&[(&whole, &[(1, None), (1, Some(&[BROKER_ID]))]), (&whole, &[(1, Some(&[]))])])
    })?;
    script.ask_all("fewer replicas", api, |_, _| {
        reassign(&[(&wide, &[(0, Some(&[BROKER_ID, 9])), (1, Some(&[BROKER_ID]))])])
    })?;
    let list = |topics: Option<&[(&str, &[i32])]>| {
        let topic = |(name, partitions): &(&str, &[i32])| {
            ListPartitionReassignmentsTopics::default()
                .with_name(topic_name(name))
                .with_partition_indexes(partitions.to_vec())
        };
        let request = ListPartitionReassignmentsRequest::default().with_timeout_ms(5000);
        RequestKind::ListPartitionReassignments(
            request.with_topics(topics.map(|topics| topics.iter().map(topic).collect())),
        )
    };
    for (step, topics) in [
        ("all", None),
        ("none", Some(&[][..])),
        ("named ones", Some(&[(&*whole, &[0, 7][..]), (&*wide, &[0, 1, 1]), ("no.such-topic", &[0])])),
    ] {
        script.ask_all(step, ApiKey::ListPartitionReassignments, |_, _| list(topics))?;
    }
    script.ask_all("one that waits for a dead broker", api, |_, _| reassign(&[(&wide, &[(0, Some(&[9]))])]))?;
    script.ask_all("is listed", ApiKey::ListPartitionReassignments, |_, _| list(None))?;
    script.ask("partitions are not added meanwhile", ApiKey::CreatePartitions, 3, |_| {
        let topic = CreatePartitionsTopic::default().with_name(topic_name(&wide)).with_count(5).with_assignments(None);
        RequestKind::CreatePartitions(CreatePartitionsRequest::default().with_topics(vec![topic]).with_timeout_ms(5000))
    })?;
    script.ask_all("another target", api, |_, _| reassign(&[(&wide, &[(0, Some(&[9, BROKER_ID]))])]))?;
    script.ask_all("is listed", ApiKey::ListPartitionReassignments, |_, _| list(None))?;
    script.ask_all("and taken back", api, |_, _| reassign(&[(&wide, &[(0, None)])]))?;
    script.ask_all("nothing is listed", ApiKey::ListPartitionReassignments, |_, _| list(None))?;
    script.ask("what became of it", ApiKey::Metadata, 12, |_| {
        let topics = [&whole, &wide].map(|name| metadata_topic(text(name)));
        RequestKind::Metadata(MetadataRequest::default().with_topics(Some(topics.to_vec())))
    })
}

pub fn only_with_kraft(script: &mut Script) -> Result<()> {
    script.ask_all("a forwarded request", ApiKey::Envelope, |_, _| {
        RequestKind::Envelope(EnvelopeRequest::default().with_request_principal(None))
    })?;
    for epoch in [0, -1, 5] {
        script.ask_all(&format!("a member of epoch {epoch}"), ApiKey::ConsumerGroupHeartbeat, |_, _| {
            let request = ConsumerGroupHeartbeatRequest::default()
                .with_group_id(GroupId(text("new")))
                .with_member_id(text("member"))
                .with_member_epoch(epoch)
                .with_rebalance_timeout_ms(1000)
                .with_subscribed_topic_names(Some(vec![TopicName(text("a"))]));
            RequestKind::ConsumerGroupHeartbeat(request)
        })?;
    }
    for groups in [vec![], vec!["a"], vec!["a", "", "a", "b"]] {
        script.ask_all(&format!("groups {groups:?}"), ApiKey::ConsumerGroupDescribe, |_, _| {
            let ids = groups.iter().map(|group| GroupId(text(group))).collect();
            RequestKind::ConsumerGroupDescribe(ConsumerGroupDescribeRequest::default().with_group_ids(ids))
        })?;
    }
    Ok(())
}
