//! What the controller is asked: features, producer ids for other brokers; and what only a KRaft cluster would serve.

use anyhow::Result;
use kafka_protocol::messages::update_features_request::FeatureUpdateKey;
use kafka_protocol::messages::*;

use super::super::requests::text;
use super::super::script::Script;

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
