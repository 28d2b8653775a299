//! Where the partitions of a topic are led.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{anyhow, bail};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{MetadataRequest, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::admin::Admin;
use super::client::Client;
use crate::wire::error_code::ErrorCode;

/// Partition to `host:port` of its leader; `None` without a live one.
pub type Layout = BTreeMap<i32, Option<String>>;

/// Asks until every partition has a leader, but not longer than `max_wait`; asking creates the topic where the broker does so.
pub fn await_layout(admin: &mut Admin, topic: &str, max_wait: Duration) -> anyhow::Result<Layout> {
    let mut latest = Layout::new();
    let mut why = ErrorCode::None;
    let complete = admin.patiently_for(max_wait, |client| {
        (why, latest) = layout(client, topic)?;
        Ok(match why {
            ErrorCode::None if !latest.is_empty() && latest.values().all(Option::is_some) => Ok(()),
            ErrorCode::None | ErrorCode::UnknownTopicOrPartition => Err(ErrorCode::LeaderNotAvailable),
            other => Err(other),
        })
    })?;
    match complete {
        Ok(()) => Ok(latest),
        // Partitions that do have a leader can still be served.
        Err(ErrorCode::LeaderNotAvailable) if latest.values().any(Option::is_some) => Ok(latest),
        Err(ErrorCode::LeaderNotAvailable) => {
            bail!("topic {topic} has no leader after {} ms: {why}", max_wait.as_millis())
        }
        Err(other) => bail!("topic {topic}: {other}"),
    }
}

/// As it is now.
pub fn current_layout(admin: &mut Admin, topic: &str) -> anyhow::Result<Layout> {
    let found = admin.patiently_for(Duration::ZERO, |client| Ok(Ok(layout(client, topic)?)))?;
    let (why, layout) = found.map_err(|code| anyhow!("topic {topic}: {code}"))?;
    match layout.is_empty() {
        true => bail!("topic {topic}: {why}"),
        false => Ok(layout),
    }
}

fn layout(client: &mut Client, topic: &str) -> anyhow::Result<(ErrorCode, Layout)> {
    let name = TopicName(StrBytes::from_string(topic.to_owned()));
    let asked = MetadataRequestTopic::default().with_name(Some(name));
    let answer = client.send_metadata(&MetadataRequest::default().with_topics(Some(vec![asked])))?;
    let found = answer.topics.into_iter().next().ok_or_else(|| anyhow!("the broker says nothing of topic {topic}"))?;
    let address = |id| {
        let broker = answer.brokers.iter().find(|broker| broker.node_id == id)?;
        Some(format!("{}:{}", broker.host, broker.port))
    };
    let partitions = found.partitions.iter().map(|partition| (partition.partition_index, address(partition.leader_id)));
    Ok((ErrorCode::answered(found.error_code), partitions.collect()))
}
