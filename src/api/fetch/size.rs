//! The size of an answer before it is given, which its client's quota is charged with.

use bytes::BytesMut;

use super::Answer;
use crate::api::fetch_session::Context;
use crate::wire::error_code::ErrorCode;
use crate::wire::fetch::{self, FetchResponse, PartitionResponse, Payload, ResponseTopic};
use crate::wire::writer::Writer;

/// Records of which only the length matters.
struct Length(Option<usize>);

impl Payload for Length {
    fn len(&self) -> Option<usize> {
        self.0
    }
}

/// Bytes of the body that `answers` make before conversion, with its length in front: Kafka's measure.
pub fn of(context: &Context, version: i16, answers: &[Answer]) -> usize {
    let told: Vec<(ResponseTopic, PartitionResponse<Length>)> = context
        .told(answers)
        .into_iter()
        .map(|(topic, answer)| {
            let sized = PartitionResponse {
                partition: answer.partition,
                error: answer.error,
                high_watermark: answer.high_watermark,
                last_stable_offset: answer.last_stable_offset,
                log_start_offset: answer.log_start_offset,
                aborted: answer.aborted.clone(),
                preferred_read_replica: answer.preferred_read_replica,
                records: Length(answer.records.len()),
                diverging: answer.diverging,
                current_leader: answer.current_leader,
            };
            (topic.clone(), sized)
        })
        .collect();
    let mut out = Writer::new(BytesMut::new(), version >= fetch::FIRST_FLEXIBLE);
    let response =
        FetchResponse { throttle_ms: 0, error: ErrorCode::None, session_id: 0, partitions: &told, node_endpoints: &[] };
    response.encode(&mut out, version);
    let records: usize = told.iter().filter_map(|(_, answer)| answer.records.len()).sum();
    4 + out.buf.len() + records
}
