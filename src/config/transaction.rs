//! What `server.properties` says of transactions. Names are the keys'.

use super::values::Values;

/// Keys that begin with `transaction.` and `transactional.`, but those that alter while a broker runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionConfig {
    pub abort_timed_out_transaction_cleanup_interval_ms: i32,
    pub remove_expired_transaction_cleanup_interval_ms: i32,
    pub state_log_load_buffer_size: i32,
    pub state_log_num_partitions: i32,
    pub state_log_segment_bytes: i32,
    pub transactional_id_expiration_ms: i32,
}

impl TransactionConfig {
    pub(super) fn build(values: &Values) -> TransactionConfig {
        TransactionConfig {
            abort_timed_out_transaction_cleanup_interval_ms: values
                .number("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            remove_expired_transaction_cleanup_interval_ms: values
                .number("transaction.remove.expired.transaction.cleanup.interval.ms"),
            state_log_load_buffer_size: values.number("transaction.state.log.load.buffer.size"),
            state_log_num_partitions: values.number("transaction.state.log.num.partitions"),
            state_log_segment_bytes: values.number("transaction.state.log.segment.bytes"),
            transactional_id_expiration_ms: values.number("transactional.id.expiration.ms"),
        }
    }
}

impl Default for TransactionConfig {
    fn default() -> TransactionConfig {
        TransactionConfig {
            abort_timed_out_transaction_cleanup_interval_ms: 10_000,
            remove_expired_transaction_cleanup_interval_ms: 3_600_000,
            state_log_load_buffer_size: 5_242_880,
            state_log_num_partitions: 50,
            state_log_segment_bytes: 104_857_600,
            transactional_id_expiration_ms: 604_800_000,
        }
    }
}
