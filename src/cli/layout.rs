//! Where the partitions of a topic are led.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{anyhow, bail};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{MetadataRequest, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::client::Client;
use crate::clock::{Clock, SystemClock};
use crate::wire::error_code::ErrorCode;

/// Between two looks at metadata that is not complete yet.
const RETRY: Duration = Duration::from_millis(100);

/// Partition to `host:port` of its leader; `None` without a live one.
pub type Layout = BTreeMap<i32, Option<String>>;

/// Asks until every partition has a leader, but not longer than `max_wait`; asking creates the topic where the broker does so.
pub fn await_layout(bootstrap: &str, topic: &str, max_wait: Duration, clock: &SystemClock) -> anyhow::Result<Layout> {
    let deadline = clock.monotonic_ms().saturating_add(i64::try_from(max_wait.as_millis())?);
    let mut client = Client::connect(bootstrap)?;
    loop {
        let (error, layout) = layout(&mut client, topic)?;
        match error {
            ErrorCode::None if !layout.is_empty() && layout.values().all(Option::is_some) => return Ok(layout),
            ErrorCode::None | ErrorCode::UnknownTopicOrPartition | ErrorCode::LeaderNotAvailable => {}
            other => bail!("topic {topic}: {other}"),
        }
        if clock.monotonic_ms() >= deadline {
            // Partitions that do have a leader can still be served.
            if layout.values().any(Option::is_some) {
                return Ok(layout);
            }
            bail!("topic {topic} has no leader after {} ms: {error}", max_wait.as_millis());
        }
        thread::sleep(RETRY);
    }
}

fn layout(client: &mut Client, topic: &str) -> anyhow::Result<(ErrorCode, Layout)> {
    let name = TopicName(StrBytes::from_string(topic.to_owned()));
    let asked = MetadataRequestTopic::default().with_name(Some(name));
    let answer = client.send(&MetadataRequest::default().with_topics(Some(vec![asked])))?;
    let found = answer.topics.into_iter().next().ok_or_else(|| anyhow!("the broker says nothing of topic {topic}"))?;
    let address = |id| {
        let broker = answer.brokers.iter().find(|broker| broker.node_id == id)?;
        Some(format!("{}:{}", broker.host, broker.port))
    };
    let partitions = found.partitions.iter().map(|partition| (partition.partition_index, address(partition.leader_id)));
    Ok((ErrorCode::answered(found.error_code), partitions.collect()))
}
