//! ApiVersions, DescribeCluster, DescribeLogDirs, AlterReplicaLogDirs.

use anyhow::Result;
use kafka_protocol::messages::alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::{
    AlterReplicaLogDirsRequest, ApiKey, ApiVersionsRequest, DescribeClusterRequest, DescribeLogDirsRequest, RequestKind,
};

use super::super::requests::{counted, create, produce_one, text, topic_name};
use super::super::script::Script;
use crate::raw::frame_around;
use crate::records::Batch;

pub fn run(script: &mut Script) -> Result<()> {
    let software = |name: &str, version: &str| {
        let request = ApiVersionsRequest::default().with_client_software_name(text(name));
        RequestKind::ApiVersions(request.with_client_software_version(text(version)))
    };
    script.ask_all("plain", ApiKey::ApiVersions, |version, _| {
        if version >= 3 { software("a.b-c", "1.0") } else { RequestKind::ApiVersions(ApiVersionsRequest::default()) }
    })?;
    for version in [3, 4] {
        for (name, number) in
            [("", ""), ("-a", "1"), ("a-", "1"), ("a b", "1"), ("a", ""), ("a", "1..2"), ("ä", "1"), ("A", "0")]
        {
            script.ask(&format!("software {name:?} {number:?}"), ApiKey::ApiVersions, version, |_| {
                software(name, number)
            })?;
        }
    }
    // Above (and below) the range: the oldest layout with 35, and the connection lives on.
    for version in [5, 99, i16::MAX, -1] {
        let bytes = frame_around(18, version, 77, 2, b"\x02a\x02b\0")?;
        script.raw("a version out of range", ApiKey::ApiVersions, version, &bytes)?;
    }
    script.ask("after it", ApiKey::ApiVersions, 0, |_| RequestKind::ApiVersions(ApiVersionsRequest::default()))?;

    for operations in [false, true] {
        script.ask_all(&format!("authorized operations {operations}"), ApiKey::DescribeCluster, |_, _| {
            let request = DescribeClusterRequest::default();
            RequestKind::DescribeCluster(
                request.with_include_cluster_authorized_operations(operations).with_endpoint_type(1),
            )
        })?;
    }
    for endpoint in [0, 2, 3] {
        script.ask(&format!("endpoint type {endpoint}"), ApiKey::DescribeCluster, 1, |_| {
            RequestKind::DescribeCluster(DescribeClusterRequest::default().with_endpoint_type(endpoint))
        })?;
    }
    Ok(())
}

pub fn log_dirs(script: &mut Script) -> Result<()> {
    let (one, two) = (script.topic("one"), script.topic("two"));
    script.ask("topics", ApiKey::CreateTopics, 5, |_| {
        RequestKind::CreateTopics(create(vec![counted(&one, 2, 1), counted(&two, 1, 1)]))
    })?;
    script.await_topic(&one, 2)?;
    script.await_topic(&two, 1)?;
    script.ask("records", ApiKey::Produce, 7, |_| produce_one(&one, 1, Batch::stamped(&[1, 2, 3]).encode()))?;
    let named = |topics: &[(&str, &[i32])]| {
        let topics = topics.iter().map(|(name, partitions)| {
            DescribableLogDirTopic::default().with_topic(topic_name(name)).with_partitions(partitions.to_vec())
        });
        RequestKind::DescribeLogDirs(DescribeLogDirsRequest::default().with_topics(Some(topics.collect())))
    };
    script.ask_all("named partitions", ApiKey::DescribeLogDirs, |_, _| named(&[(&one, &[0, 1]), (&two, &[0])]))?;
    script.ask_all("one twice", ApiKey::DescribeLogDirs, |_, _| named(&[(&one, &[1, 1])]))?;
    script.ask_all("unknown ones", ApiKey::DescribeLogDirs, |_, _| named(&[(&one, &[7]), ("nowhere", &[0])]))?;
    script.ask_all("no topics", ApiKey::DescribeLogDirs, |_, _| named(&[]))?;
    script.ask_all("a topic without partitions", ApiKey::DescribeLogDirs, |_, _| named(&[(&one, &[])]))?;
    script.ask_all("everything", ApiKey::DescribeLogDirs, |_, _| {
        RequestKind::DescribeLogDirs(DescribeLogDirsRequest::default().with_topics(None))
    })
}

/// The brokers have one directory each: there is nowhere to go.
pub fn alter_log_dirs(script: &mut Script) -> Result<()> {
    let (here, later, long) = (script.topic("here"), script.topic("later"), "l".repeat(230));
    script.make_topic(&here, 2)?;
    script.make_topic(&long, 1)?;
    let api = ApiKey::AlterReplicaLogDirs;
    let to = |dirs: &[(&str, &str, &[i32])]| {
        let dirs = dirs.iter().map(|(path, topic, partitions)| {
            let topic = AlterReplicaLogDirTopic::default().with_name(topic_name(topic));
            let topics = vec![topic.with_partitions(partitions.to_vec())];
            AlterReplicaLogDir::default().with_path(text(path)).with_topics(topics)
        });
        RequestKind::AlterReplicaLogDirs(AlterReplicaLogDirsRequest::default().with_dirs(dirs.collect()))
    };
    script.ask_all("nothing", api, |_, _| to(&[]))?;
    script.ask_all("where it is", api, |_, side| to(&[(side.log_dir(), &here, &[0, 1])]))?;
    script.ask_all("unknown directories", api, |_, _| {
        to(&[("/nowhere", &here, &[0]), ("", &here, &[1]), ("relative", &later, &[0]), ("/nowhere", &long, &[0])])
    })?;
    script.ask_all("a directory's other spelling", api, |_, side| {
        let spelled = format!("{}/", side.log_dir());
        to(&[(&spelled, &here, &[0])])
    })?;
    script.ask_all("unknown partitions", api, |_, side| {
        to(&[(side.log_dir(), &here, &[7, -1]), (side.log_dir(), &later, &[0]), (side.log_dir(), "no/topic", &[0])])
    })?;
    script.ask_all("a long name", api, |_, side| to(&[(side.log_dir(), &long, &[0])]))?;
    script.ask_all("one twice", api, |_, side| to(&[("/nowhere", &here, &[0]), (side.log_dir(), &here, &[0])]))?;
    script.ask_all("one twice, the other way", api, |_, side| {
        to(&[(side.log_dir(), &here, &[0]), ("/nowhere", &here, &[0])])
    })
}
