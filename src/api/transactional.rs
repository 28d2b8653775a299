//! What the APIs of transactional producers have in common.

use crate::wire::error_code::ErrorCode;

/// The first version of most of them whose clients know PRODUCER_FENCED.
pub const FIRST_WITH_FENCED: i16 = 2;

/// Before version `first` clients do not know PRODUCER_FENCED, and are told INVALID_PRODUCER_EPOCH.
pub fn fenced_before(first: i16, version: i16, code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::ProducerFenced if version < first => ErrorCode::InvalidProducerEpoch,
        code => code,
    }
}
