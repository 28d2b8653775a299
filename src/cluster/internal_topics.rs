//! Topics that the broker writes for itself.

/// The groups of all clients and what they committed.
pub const GROUP_METADATA: &str = "__consumer_offsets";
/// The transactions of all producers.
pub const TRANSACTION_STATE: &str = "__transaction_state";

/// Whether clients may neither produce to it nor delete its records.
pub fn is_internal(topic: &str) -> bool {
    matches!(topic, GROUP_METADATA | TRANSACTION_STATE)
}
