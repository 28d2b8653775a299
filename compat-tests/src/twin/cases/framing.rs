//! Frames that are no requests, cut ones, counts that promise too much, and the order of answers.

use anyhow::Result;
use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::*;

use super::super::requests::{
    assigned, at, counted, create, fetch, fetch_topic, list_offsets, produce, text, with_configs,
};
use super::super::script::Script;
use crate::raw::{frame, frame_around, sized};
use crate::records::Batch;

/// A well-formed request of each API that changes nothing by being cut.
fn sample(api: ApiKey, version: i16) -> Option<RequestKind> {
    let topic = "framing";
    Some(match api {
        ApiKey::Produce => RequestKind::Produce(produce(-1, &[(topic, 0, Some(Batch::stamped(&[1]).encode()))])),
        ApiKey::Fetch => RequestKind::Fetch(fetch(
            version,
            vec![fetch_topic(topic, uuid::Uuid::from_u128(7), version, vec![at(0, 0)])],
        )),
        ApiKey::ListOffsets => RequestKind::ListOffsets(list_offsets(topic, &[(0, -1)])),
        ApiKey::Metadata => {
            // A name that is not created by asking for it.
            let topic = MetadataRequestTopic::default().with_name(Some(TopicName(text("a/b"))));
            RequestKind::Metadata(MetadataRequest::default().with_topics(Some(vec![topic])))
        }
        ApiKey::ApiVersions if version >= 3 => {
            let request = ApiVersionsRequest::default().with_client_software_name(text("a"));
            RequestKind::ApiVersions(request.with_client_software_version(text("b")))
        }
        ApiKey::ApiVersions => RequestKind::ApiVersions(ApiVersionsRequest::default()),
        ApiKey::CreateTopics => {
            let topic = with_configs(counted(topic, 1, 1), &[("retention.ms", Some("1000"))]);
            RequestKind::CreateTopics(create(vec![topic, assigned("framing-b", &[(0, &[1])])]))
        }
        ApiKey::DeleteTopics => {
            let request = DeleteTopicsRequest::default().with_timeout_ms(1000);
            let name = Some(TopicName(text(topic)));
            RequestKind::DeleteTopics(if version >= 6 {
                let state = delete_topics_request::DeleteTopicState::default().with_name(name);
                request.with_topics(vec![state])
            } else {
                request.with_topic_names(name.into_iter().collect())
            })
        }
        ApiKey::DeleteRecords => {
            use delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
            let topic = DeleteRecordsTopic::default().with_name(TopicName(text(topic)));
            let topic = topic.with_partitions(vec![DeleteRecordsPartition::default().with_offset(1)]);
            RequestKind::DeleteRecords(DeleteRecordsRequest::default().with_topics(vec![topic]))
        }
        ApiKey::OffsetForLeaderEpoch => {
            use offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
            let topic = OffsetForLeaderTopic::default().with_topic(TopicName(text(topic)));
            let topic = topic.with_partitions(vec![OffsetForLeaderPartition::default()]);
            RequestKind::OffsetForLeaderEpoch(OffsetForLeaderEpochRequest::default().with_topics(vec![topic]))
        }
        ApiKey::DescribeConfigs => {
            use describe_configs_request::DescribeConfigsResource;
            let resource = DescribeConfigsResource::default().with_resource_type(2).with_resource_name(text(topic));
            let resource = resource.with_configuration_keys(Some(vec![text("retention.ms")]));
            RequestKind::DescribeConfigs(DescribeConfigsRequest::default().with_resources(vec![resource]))
        }
        ApiKey::AlterConfigs => {
            use alter_configs_request::{AlterConfigsResource, AlterableConfig};
            let config = AlterableConfig::default().with_name(text("retention.ms")).with_value(Some(text("1")));
            let resource = AlterConfigsResource::default().with_resource_type(2).with_resource_name(text(topic));
            RequestKind::AlterConfigs(
                AlterConfigsRequest::default().with_resources(vec![resource.with_configs(vec![config])]),
            )
        }
        ApiKey::IncrementalAlterConfigs => {
            use incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
            let config = AlterableConfig::default().with_name(text("retention.ms")).with_value(Some(text("1")));
            let resource = AlterConfigsResource::default().with_resource_type(2).with_resource_name(text(topic));
            let resources = vec![resource.with_configs(vec![config])];
            RequestKind::IncrementalAlterConfigs(IncrementalAlterConfigsRequest::default().with_resources(resources))
        }
        ApiKey::DescribeLogDirs => RequestKind::DescribeLogDirs(DescribeLogDirsRequest::default().with_topics(None)),
        ApiKey::CreatePartitions => {
            let topic = create_partitions_request::CreatePartitionsTopic::default().with_name(TopicName(text(topic)));
            let topic = topic.with_count(4).with_assignments(None);
            RequestKind::CreatePartitions(CreatePartitionsRequest::default().with_topics(vec![topic]))
        }
        ApiKey::DescribeCluster => {
            RequestKind::DescribeCluster(DescribeClusterRequest::default().with_endpoint_type(1))
        }
        _ => return None,
    })
}

pub fn run(script: &mut Script) -> Result<()> {
    no_requests(script)?;
    cut(script)?;
    counts(script)?;
    headers(script)?;
    order(script)
}

fn no_requests(script: &mut Script) -> Result<()> {
    let api = ApiKey::ApiVersions;
    script.raw("a frame of 0 bytes", api, 0, &[0; 4])?;
    for size in [-1, -2, i32::MIN, i32::MAX, 104_857_601] {
        let bytes = [&i32::to_be_bytes(size)[..], &[0; 16]].concat();
        script.raw(&format!("a frame of {size} bytes"), api, 0, &bytes)?;
    }
    for length in 1..8 {
        script.raw(&format!("a header of {length} bytes"), api, 0, &sized(&[0, 18, 0, 0, 0, 0, 0, 1][..length]))?;
    }
    script.raw("an HTTP request", api, 0, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")?;
    script.raw("a TLS hello", api, 0, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03aaaaaaaaaaaaaaaaaaaaaaaa")?;
    for key in [-1, 52, 59, 71, 75, 93, 1000, i16::MAX] {
        script.raw(&format!("API key {key}"), api, 0, &frame_around(key, 0, 1, 1, &[])?)?;
    }
    for (&key, &(_, last)) in &script.served.clone() {
        if key == ApiKey::ApiVersions as i16 {
            continue;
        }
        for version in [last + 1, -1, i16::MAX] {
            script.raw(
                &format!("API key {key} version {version}"),
                api,
                0,
                &frame_around(key, version, 1, 2, &[0; 64])?,
            )?;
        }
    }
    Ok(())
}

/// Every version of every API: without its last byte it is malformed; with bytes behind it it is served.
fn cut(script: &mut Script) -> Result<()> {
    for (&key, &(first, last)) in &script.served.clone() {
        let Ok(api) = ApiKey::try_from(key) else { continue };
        for version in first..=last {
            let Some(request) = sample(api, version) else { continue };
            let mut body = BytesMut::new();
            if request.encode(&mut body, version).is_err() || body.is_empty() {
                continue;
            }
            let header = api.request_header_version(version);
            let short = frame_around(key, version, 5, header, &body[..body.len() - 1])?;
            script.raw("the last byte is missing", api, version, &short)?;
            let shorter = frame_around(key, version, 5, header, &body[..body.len() / 2])?;
            script.raw("the second half is missing", api, version, &shorter)?;
            if matches!(api, ApiKey::ApiVersions | ApiKey::Metadata | ApiKey::ListOffsets | ApiKey::DescribeCluster) {
                body.extend_from_slice(b"more");
                let long = frame_around(key, version, 5, header, &body)?;
                script.raw("bytes behind the body", api, version, &long)?;
            }
        }
    }
    Ok(())
}

fn counts(script: &mut Script) -> Result<()> {
    for count in [i32::MAX, -2, i32::MIN, 100_000_000] {
        let number = count.to_be_bytes();
        for version in 0..9 {
            script.raw(
                &format!("{count} topics"),
                ApiKey::Metadata,
                version,
                &frame_around(3, version, 1, 1, &[&number[..], &[0; 8]].concat())?,
            )?;
        }
        script.raw(
            &format!("{count} topics"),
            ApiKey::DeleteTopics,
            1,
            &frame_around(20, 1, 1, 1, &[&number[..], &[0; 4]].concat())?,
        )?;
        script.raw(
            &format!("{count} topics"),
            ApiKey::CreateTopics,
            1,
            &frame_around(19, 1, 1, 1, &[&number[..], &[0; 5]].concat())?,
        )?;
        script.raw(
            &format!("{count} topics"),
            ApiKey::ListOffsets,
            1,
            &frame_around(2, 1, 1, 1, &[&[255; 4][..], &number[..]].concat())?,
        )?;
        script.raw(
            &format!("{count} topics"),
            ApiKey::Produce,
            3,
            &frame_around(0, 3, 1, 1, &[&[255, 255, 255, 255, 0, 0, 0, 9][..], &number[..]].concat())?,
        )?;
        script.raw(
            &format!("{count} topics"),
            ApiKey::Fetch,
            4,
            &frame_around(1, 4, 1, 1, &[&[255; 4][..], &[0; 13], &number[..]].concat())?,
        )?;
        script.raw(
            &format!("{count} resources"),
            ApiKey::DescribeConfigs,
            1,
            &frame_around(32, 1, 1, 1, &[&number[..], &[0; 1]].concat())?,
        )?;
    }
    // Compact counts: one more than the number of items.
    for (name, count) in [
        ("2^32 - 2", &b"\xff\xff\xff\xff\x0f"[..]),
        ("2^31 - 2", b"\xff\xff\xff\xff\x07"),
        ("five bytes too long", b"\xff\xff\xff\xff\xff\x01"),
    ] {
        for version in [9, 12] {
            script.raw(
                &format!("{name} topics"),
                ApiKey::Metadata,
                version,
                &frame_around(3, version, 1, 2, &[count, &[0; 8]].concat())?,
            )?;
        }
        script.raw(
            &format!("{name} topics"),
            ApiKey::ListOffsets,
            6,
            &frame_around(2, 6, 1, 2, &[&[255, 255, 255, 255, 0][..], count].concat())?,
        )?;
        script.raw(
            &format!("{name} topics"),
            ApiKey::Produce,
            9,
            &frame_around(0, 9, 1, 2, &[&[0, 255, 255, 0, 0, 0, 9][..], count].concat())?,
        )?;
        script.raw(
            &format!("{name} tags"),
            ApiKey::DescribeCluster,
            0,
            &frame_around(60, 0, 1, 2, &[&[0][..], count].concat())?,
        )?;
    }
    // Unknown tags are skipped, in the header and in the body.
    let header = b"\0\x3c\0\0\0\0\0\x09\0\x01a\x02\x63\x02ab\x64\x00";
    script.raw("unknown tags", ApiKey::DescribeCluster, 0, &sized(&[&header[..], b"\0\x01\x65\x01x"].concat()))?;
    script.raw(
        "tags in descending order",
        ApiKey::DescribeCluster,
        0,
        &sized(b"\0\x3c\0\0\0\0\0\x09\0\x01a\x02\x64\x00\x63\x00\0\0"),
    )?;
    script.raw(
        "the same tag twice",
        ApiKey::DescribeCluster,
        0,
        &sized(b"\0\x3c\0\0\0\0\0\x09\0\x01a\x02\x63\x00\x63\x00\0\0"),
    )?;
    script.raw(
        "a tag longer than the frame",
        ApiKey::DescribeCluster,
        0,
        &sized(b"\0\x3c\0\0\0\0\0\x09\0\x01a\x01\x63\x7f\0\0"),
    )
}

fn headers(script: &mut Script) -> Result<()> {
    let header = |length: i16, id: &[u8], correlation: i32| {
        let mut bytes = BytesMut::new();
        bytes.put_i16(18);
        bytes.put_i16(0);
        bytes.put_i32(correlation);
        bytes.put_i16(length);
        bytes.put_slice(id);
        sized(&bytes)
    };
    script.raw("no client id", ApiKey::ApiVersions, 0, &header(-1, b"", 3))?;
    script.raw("an empty client id", ApiKey::ApiVersions, 0, &header(0, b"", 3))?;
    script.raw("a client id of -2 bytes", ApiKey::ApiVersions, 0, &header(-2, b"", 3))?;
    script.raw("a client id longer than the frame", ApiKey::ApiVersions, 0, &header(100, b"abc", 3))?;
    script.raw("a client id that is no UTF-8", ApiKey::ApiVersions, 0, &header(2, b"\xff\xfe", 3))?;
    for correlation in [-1, i32::MIN, i32::MAX, 0] {
        script.raw(&format!("correlation id {correlation}"), ApiKey::ApiVersions, 0, &header(1, b"a", correlation))?;
    }
    Ok(())
}

fn order(script: &mut Script) -> Result<()> {
    let versions = || RequestKind::ApiVersions(ApiVersionsRequest::default());
    let metadata = || RequestKind::Metadata(MetadataRequest::default().with_topics(Some(Vec::new())));
    let waits = RequestKind::Fetch(fetch(4, Vec::new()).with_max_wait_ms(300));
    script.pipelined(
        "pipelined",
        &[
            (ApiKey::ApiVersions, 0, versions()),
            (ApiKey::Metadata, 1, metadata()),
            (ApiKey::Fetch, 4, waits),
            (ApiKey::ApiVersions, 2, versions()),
            (ApiKey::Metadata, 9, metadata()),
        ],
    )?;
    // A request that closes the connection takes nothing back of what was answered before it.
    let good = frame(ApiKey::ApiVersions, 0, 1, &versions())?;
    let bad = frame_around(1000, 0, 2, 1, &[])?;
    script.raw("good, then bad", ApiKey::ApiVersions, 0, &[&good[..], &bad[..]].concat())?;
    script.raw("after bad", ApiKey::ApiVersions, 0, &[])?;
    script.reconnect();
    Ok(())
}
