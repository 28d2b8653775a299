//! Answers as klamm's own commands read them: API, version, then the body a broker might send.
#![no_main]

use bytes::Bytes;
use kafka_protocol::messages as theirs;
use kafka_protocol::protocol::Request;
use klamm::wire::api_versions::ApiKey;
use klamm::wire::guard;
use klamm_fuzz::bounded;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [api, version, body @ ..] = bytes else { return };
    let (Some(api), version) = (ApiKey::from_code((*api).into()), i16::from(*version)) else { return };
    if !(api.row().min_version..=api.row().max_version).contains(&version) {
        return;
    }
    match api {
        ApiKey::Produce => read::<theirs::ProduceRequest>(body, version),
        ApiKey::Fetch => read::<theirs::FetchRequest>(body, version),
        ApiKey::ListOffsets => read::<theirs::ListOffsetsRequest>(body, version),
        ApiKey::Metadata => read::<theirs::MetadataRequest>(body, version),
        ApiKey::ApiVersions => read::<theirs::ApiVersionsRequest>(body, version),
        ApiKey::CreateTopics => read::<theirs::CreateTopicsRequest>(body, version),
        ApiKey::DeleteTopics => read::<theirs::DeleteTopicsRequest>(body, version),
        ApiKey::CreatePartitions => read::<theirs::CreatePartitionsRequest>(body, version),
        ApiKey::DescribeConfigs => read::<theirs::DescribeConfigsRequest>(body, version),
        ApiKey::IncrementalAlterConfigs => read::<theirs::IncrementalAlterConfigsRequest>(body, version),
        ApiKey::DescribeCluster => read::<theirs::DescribeClusterRequest>(body, version),
        _ => {}
    }
});

/// Read whole or refused. That the codec writes again what it read is not asked: it writes requests here, never answers.
fn read<R: Request>(body: &[u8], version: i16) {
    let shared = Bytes::copy_from_slice(body);
    let _ = bounded(body.len(), || guard::decode::<R::Response>(shared.clone(), version));
}
