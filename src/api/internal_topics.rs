//! Topics that the broker writes for itself.

/// Whether clients may neither produce to it nor delete its records.
pub fn is_internal(topic: &str) -> bool {
    matches!(topic, "__consumer_offsets" | "__transaction_state")
}
