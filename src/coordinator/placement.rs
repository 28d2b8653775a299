//! Which partition of an internal topic a group or a transactional id lives in.

/// Kafka's `Utils.abs(key.hashCode) % partitions`: Java's hash over UTF-16 units, and its smallest value counts as 0.
pub fn partition_of(key: &str, partitions: i32) -> i32 {
    let hash = key.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    hash.checked_abs().unwrap_or(0).checked_rem(partitions).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `jshell` prints `"…".hashCode()`.
    #[test]
    fn a_key_goes_where_java_puts_it() {
        assert_eq!(partition_of("", 50), 0);
        assert_eq!(partition_of("gold", i32::MAX), 3_178_592);
        // Outside the basic plane: two units.
        assert_eq!(partition_of("\u{1f980}", i32::MAX), 1_772_802);
        // The hash is the smallest number there is, which has no absolute value.
        assert_eq!(partition_of("polygenelubricants", 50), 0);
        // A negative hash.
        assert_eq!(partition_of("zzzzzz", i32::MAX), 685_785_664);
    }
}
