//! The records of a fetch answer: from the file as they lie there, or converted for a client that knows only old formats.

use bytes::BytesMut;

use crate::api::context::{Part, Services};
use crate::config::topic::CompressionType;
use crate::storage::log::FileSlice;
use crate::types::Offset;
use crate::wire::error_code::ErrorCode;
use crate::wire::fetch::{PartitionResponse, Payload, ResponseTopic};

/// One partition's records.
#[derive(Clone, Debug, Default)]
pub enum Records {
    #[default]
    None,
    /// Where Kafka forgets to say "none".
    Null,
    /// As they lie in the file; `from` is the offset that was asked for.
    Stored {
        slice: FileSlice,
        from: Offset,
    },
    Converted(BytesMut),
}

impl Payload for Records {
    fn len(&self) -> Option<usize> {
        match self {
            Records::None => Some(0),
            Records::Null => None,
            Records::Stored { slice, .. } => Some(slice.len),
            Records::Converted(bytes) => Some(bytes.len()),
        }
    }
}

impl Records {
    pub fn into_part(self) -> Option<Part> {
        match self {
            Records::None | Records::Null => None,
            Records::Stored { slice, .. } => Some(Part::File(slice)),
            Records::Converted(bytes) => Some(Part::Bytes(bytes)),
        }
    }
}

/// Makes one partition's answer fit what the request's version knows.
pub fn fit(
    services: &Services,
    version: i16,
    is_follower: bool,
    topic: &ResponseTopic,
    answer: &mut PartitionResponse<Records>,
) {
    if version <= 5 && answer.error == ErrorCode::KafkaStorageError {
        answer.error = ErrorCode::NotLeaderOrFollower;
    }
    if version >= 10 || answer.error.is_error() {
        return;
    }
    let log = services.partitions.get(&topic.name, answer.partition).and_then(|partition| partition.log().ok());
    let Some(config) = log.map(|log| log.config()) else { return };
    if config.compression_type == CompressionType::Zstd {
        *answer = refused(answer.partition, ErrorCode::UnsupportedCompressionType);
    } else if version <= 3 && !is_follower && !config.message_downconversion_enable {
        *answer = refused(answer.partition, ErrorCode::UnsupportedVersion);
    }
}

/// An error found before, or after, the log was read: an empty aborted list and null records.
pub fn refused(partition: i32, error: ErrorCode) -> PartitionResponse<Records> {
    let mut answer = PartitionResponse::failed(partition, error);
    answer.records = Records::Null;
    answer.aborted = Some(Vec::new());
    answer
}
