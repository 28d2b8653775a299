//! Why records are refused, and what the client is told.

use crate::storage::log::RecordError;
use crate::wire::error_code::ErrorCode;

/// Which of Kafka 3.9's rules a set of records breaks, in the order in which they are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The first batch has a magic that Kafka has never used.
    Magic,
    /// Bytes that cannot be cut into batches: a size below the smallest message, an unknown magic behind the first batch.
    Cut,
    /// Produce v3+ without a complete batch.
    NoBatch,
    /// Produce v3+ with message sets.
    OldMagic,
    /// Produce v3+ with a batch that ends before its producer fields.
    ShortHeader,
    /// zstd before Produce v7.
    EarlyZstd,
    /// More than one batch where one is allowed.
    SeveralBatches,
    /// A client's batch that does not begin at offset 0.
    BaseOffset,
    /// Larger than `max.message.bytes`, as received or as rewritten.
    TooLarge,
    /// The CRC does not fit, or the batch is too short to have one.
    Corrupt,
    /// More bytes than there is time for, see [`Context::decompressed_max`](super::Context::decompressed_max). No client is
    /// told.
    Lengthy,
    /// Codec numbers 5 to 7.
    UnknownCodec,
    /// Messages of different magic in one set or wrapper.
    MixedMagic,
    /// Record count and last offset delta disagree, or there is no record.
    Count,
    /// A client's control batch.
    Control,
    /// A producer id without a sequence number.
    Sequence,
    /// Compressed bytes that do not decompress, or old messages whose fields do not fit into them.
    Undecodable,
    /// Compressed records whose offset deltas are not 0, 1, 2 and so on, where the batch could have been kept as it came.
    Gaps,
    /// Records that do not parse, or are not as many as announced.
    Malformed,
    /// Records that break a rule of the topic, none of them its time limits.
    Records,
    /// Records that break a rule of the topic, at least one of them its time limits.
    Timestamps,
}

impl Rule {
    pub fn code(self) -> ErrorCode {
        match self {
            Rule::Magic | Rule::Cut | Rule::Corrupt => ErrorCode::CorruptMessage,
            Rule::EarlyZstd => ErrorCode::UnsupportedCompressionType,
            Rule::TooLarge => ErrorCode::MessageTooLarge,
            // Kafka fails with exceptions that have no code of their own (seen on a live 3.9.1).
            Rule::ShortHeader | Rule::UnknownCodec | Rule::Undecodable | Rule::Gaps | Rule::Lengthy => {
                ErrorCode::UnknownServerError
            }
            Rule::Timestamps => ErrorCode::InvalidTimestamp,
            Rule::NoBatch
            | Rule::OldMagic
            | Rule::SeveralBatches
            | Rule::BaseOffset
            | Rule::MixedMagic
            | Rule::Count
            | Rule::Control
            | Rule::Sequence
            | Rule::Malformed
            | Rule::Records => ErrorCode::InvalidRecord,
        }
    }

    /// Whether Produce answers the log start offset beside the error; -1 otherwise (seen on a live 3.9.1).
    pub fn answers_log_start(self) -> bool {
        !matches!(
            self,
            Rule::Magic
                | Rule::Cut
                | Rule::NoBatch
                | Rule::OldMagic
                | Rule::ShortHeader
                | Rule::EarlyZstd
                | Rule::SeveralBatches
                | Rule::TooLarge
                | Rule::Corrupt
        )
    }

    /// Whether Produce v8+ fills `error_message`.
    pub fn tells_client(self) -> bool {
        matches!(self, Rule::Magic | Rule::Records | Rule::Timestamps)
    }
}

/// A set of records refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub rule: Rule,
    pub message: String,
    /// Empty unless the rule is [`Rule::Records`] or [`Rule::Timestamps`].
    pub record_errors: Vec<RecordError>,
}

impl Refusal {
    pub fn new(rule: Rule, message: impl Into<String>) -> Refusal {
        Refusal { rule, message: message.into(), record_errors: Vec::new() }
    }

    pub fn code(&self) -> ErrorCode {
        self.rule.code()
    }
}
