//! DescribeLogDirs (35), versions 0-4: what lies in each log directory, and how much room there is (v4).
//!
//! Null topics mean all. A directory is listed even when nothing that was asked for lies in it. One that is offline answers
//! KAFKA_STORAGE_ERROR and nothing else. A replica that is being moved between directories is listed in both: where it grows
//! as a future one, with the offsets it has to catch up. A leader's own lag is 0.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use kafka_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use kafka_protocol::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::context::RequestContext;
use super::serve::Close;
use crate::storage::log::Log;
use crate::storage::manager::LogDirInfo;
use crate::wire::error_code::ErrorCode;

/// A log; a copy with the log it is to replace.
type Listed = (Arc<Log>, Option<Arc<Log>>);
/// A directory's logs by topic.
type Topics = BTreeMap<Arc<str>, Vec<Listed>>;

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: DescribeLogDirsRequest,
) -> Result<DescribeLogDirsResponse, Close> {
    let wanted: Option<HashSet<(&str, i32)>> = request.topics.as_ref().map(|topics| {
        let all = topics.iter().flat_map(|topic| topic.partitions.iter().map(|index| (topic.topic.as_str(), *index)));
        all.collect()
    });
    let logs = ctx.services.partitions.logs();
    let mut by_dir: BTreeMap<PathBuf, Topics> = BTreeMap::new();
    let serving = logs.all().into_iter().map(|log| (log, None));
    let growing = logs.futures().into_iter().filter_map(|future| {
        let log = logs.get(future.topic_partition())?;
        Some((future, Some(log)))
    });
    for (log, replaces) in serving.chain(growing) {
        let tp = log.topic_partition();
        if wanted.as_ref().is_none_or(|wanted| wanted.contains(&(&*tp.topic, tp.partition))) {
            let topics = by_dir.entry(log.dir()).or_default();
            topics.entry(Arc::clone(&tp.topic)).or_default().push((log, replaces));
        }
    }
    let results = logs.dirs().into_iter().map(|dir| {
        let topics = by_dir.remove(&dir.path).unwrap_or_default();
        result(dir, topics)
    });
    Ok(DescribeLogDirsResponse::default().with_results(results.collect()))
}

fn result(dir: LogDirInfo, topics: Topics) -> DescribeLogDirsResult {
    let path = StrBytes::from_string(dir.shown.to_string_lossy().into_owned());
    let result = DescribeLogDirsResult::default().with_log_dir(path);
    if !dir.online {
        return result.with_error_code(ErrorCode::KafkaStorageError.code());
    }
    let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let topics = topics.into_iter().map(|(name, mut logs)| {
        logs.sort_by_key(|(log, _)| log.topic_partition().partition);
        let partitions = logs.iter().map(|(log, replaces)| {
            let end = |log: &Log| log.offsets().log_end;
            DescribeLogDirsPartition::default()
                .with_partition_index(log.topic_partition().partition)
                .with_partition_size(bytes(log.size()))
                .with_offset_lag(replaces.as_ref().map_or(0, |log_now| (end(log_now) - end(log)).max(0)))
                .with_is_future_key(replaces.is_some())
        });
        DescribeLogDirsTopic::default()
            .with_name(TopicName(StrBytes::from_string(name.to_string())))
            .with_partitions(partitions.collect())
    });
    result
        .with_topics(topics.collect())
        .with_total_bytes(dir.space.map_or(-1, |space| bytes(space.total)))
        .with_usable_bytes(dir.space.map_or(-1, |space| bytes(space.usable)))
}
