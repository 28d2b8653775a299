//! AlterReplicaLogDirs (34), versions 0-2: moves replicas of this broker between its log directories.
//!
//! Paths are compared as DescribeLogDirs shows them. The answer is there when the move has begun; DescribeLogDirs shows the
//! copy (`is_future_key`) until it is done. Errors are those of
//! [`move_log`](crate::replication::table::PartitionTable::move_log). A partition that is named with several directories is
//! moved to the last one, and answered once.

use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;
use kafka_protocol::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
};
use kafka_protocol::messages::{AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, TopicName};

use super::context::RequestContext;
use super::group_member::text;
use super::serve::{Close, bounded};
use crate::spawn::for_request;
use crate::types::TopicPartition;
use crate::wire::error_code::ErrorCode;

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: AlterReplicaLogDirsRequest,
) -> Result<AlterReplicaLogDirsResponse, Close> {
    let named = request.dirs.iter().flat_map(|dir| &dir.topics).map(|topic| topic.partitions.len()).sum();
    bounded(ctx, named)?;
    let mut wanted: IndexMap<TopicPartition, Arc<PathBuf>> = IndexMap::with_capacity(named);
    for dir in &request.dirs {
        let path = Arc::new(PathBuf::from(dir.path.as_str()));
        for topic in &dir.topics {
            let name: Arc<str> = topic.name.as_str().into();
            for index in &topic.partitions {
                wanted.insert(TopicPartition::new(Arc::clone(&name), *index), Arc::clone(&path));
            }
        }
    }
    let table = Arc::clone(&ctx.services.partitions);
    let work = move || {
        let moved = |(tp, path): (TopicPartition, Arc<PathBuf>)| {
            let code = table.move_log(&tp, &path).err().unwrap_or(ErrorCode::None);
            (tp, code)
        };
        wanted.into_iter().map(moved).collect::<Vec<_>>()
    };
    let outcomes = for_request(&*ctx.services.spawner, work).await;
    let outcomes = outcomes.ok_or_else(|| Close("the broker is stopping".into()))?;
    let mut topics: IndexMap<Arc<str>, Vec<AlterReplicaLogDirPartitionResult>> = IndexMap::new();
    for (tp, code) in outcomes {
        let result = AlterReplicaLogDirPartitionResult::default();
        let result = result.with_partition_index(tp.partition).with_error_code(code.code());
        topics.entry(tp.topic).or_default().push(result);
    }
    let results = topics.into_iter().map(|(topic, partitions)| {
        AlterReplicaLogDirTopicResult::default().with_topic_name(TopicName(text(&topic))).with_partitions(partitions)
    });
    Ok(AlterReplicaLogDirsResponse::default().with_results(results.collect()))
}
