//! Topic names: which are legal, which clash. Rules: Kafka's `Topic` (verified on a live 3.9.1).

/// Longest legal name, characters (all of them ASCII).
const MAX_LENGTH: usize = 249;

/// Topics only the broker writes to.
pub const GROUP_METADATA_TOPIC: &str = "__consumer_offsets";
pub const TRANSACTION_STATE_TOPIC: &str = "__transaction_state";
/// Reserved: KRaft's metadata log. Never a topic here.
pub const CLUSTER_METADATA_TOPIC: &str = "__cluster_metadata";

/// Marked internal in Metadata; clients cannot produce to it or delete records of it.
pub fn is_internal(name: &str) -> bool {
    name == GROUP_METADATA_TOPIC || name == TRANSACTION_STATE_TOPIC
}

/// Why `name` cannot be a topic's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    #[error("a topic name cannot be empty")]
    Empty,
    #[error("a topic cannot be named '{0}'")]
    Dots(String),
    #[error("topic name '{0}' is longer than 249 characters")]
    TooLong(String),
    #[error("topic name '{0}' has characters other than ASCII letters, digits, '.', '_' and '-'")]
    Character(String),
}

pub fn validate(name: &str) -> Result<(), BadName> {
    if name.is_empty() {
        return Err(BadName::Empty);
    }
    if name == "." || name == ".." {
        return Err(BadName::Dots(name.into()));
    }
    if name.len() > MAX_LENGTH {
        return Err(BadName::TooLong(name.into()));
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')) {
        return Err(BadName::Character(name.into()));
    }
    Ok(())
}

/// Whether two different names would collide in metric names, where `.` becomes `_`.
pub fn clash(one: &str, other: &str) -> bool {
    one != other && one.len() == other.len() && one.bytes().map(unified).eq(other.bytes().map(unified))
}

fn unified(byte: u8) -> u8 {
    if byte == b'.' { b'_' } else { byte }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legal_and_illegal_names() {
        for legal in ["a", "...", "a.b_c-D9", &"x".repeat(249)] {
            assert_eq!(validate(legal), Ok(()), "{legal}");
        }
        assert_eq!(validate(""), Err(BadName::Empty));
        assert_eq!(validate(".."), Err(BadName::Dots("..".into())));
        assert!(matches!(validate(&"x".repeat(250)), Err(BadName::TooLong(_))));
        for illegal in ["a/b", "a b", "ä", "a\0"] {
            assert!(matches!(validate(illegal), Err(BadName::Character(_))), "{illegal}");
        }
    }

    #[test]
    fn a_dot_clashes_with_an_underscore() {
        assert!(clash("a.b", "a_b"));
        assert!(!clash("a.b", "a.b"), "the same topic");
        assert!(!clash("a.b", "a-b"));
    }
}
