//! Names of partition directories, as Kafka makes and reads them.
//!
//! ```text
//! orders-0                                              serving
//! orders-0.9f1c…(32 hex)-delete                         awaits removal
//! orders-0.9f1c…(32 hex)-stray                          not in the metadata; kept
//! orders-0.9f1c…(32 hex)-future                         copy from another directory in progress
//! ```

use uuid::Uuid;

use crate::types::TopicPartition;

/// Longest file name of the usual file systems, in bytes.
const NAME_MAX: usize = 255;

/// What a directory's name says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionDirName {
    Current(TopicPartition),
    Delete(TopicPartition),
    Stray(TopicPartition),
    Future(TopicPartition),
}

impl PartitionDirName {
    /// `None` when no Kafka broker makes such a name.
    pub fn parse(name: &str) -> Option<PartitionDirName> {
        type Make = fn(TopicPartition) -> PartitionDirName;
        let kinds: [(&str, Make); 3] = [
            ("-delete", PartitionDirName::Delete),
            ("-stray", PartitionDirName::Stray),
            ("-future", PartitionDirName::Future),
        ];
        for (suffix, make) in kinds {
            if let Some((front, id)) = name.strip_suffix(suffix).and_then(|front| front.rsplit_once('.'))
                && id.len() == 32
                && id.bytes().all(|b| b.is_ascii_hexdigit())
            {
                return topic_partition(front).map(make);
            }
        }
        topic_partition(name).map(PartitionDirName::Current)
    }
}

/// The name under which a partition's directory awaits removal; the topic is cut where the name would grow too long.
pub fn delete_name(tp: &TopicPartition, id: Uuid) -> String {
    suffixed(tp, id, "delete")
}

/// The name under which a directory is kept that belongs to no partition of the metadata.
pub fn stray_name(tp: &TopicPartition, id: Uuid) -> String {
    suffixed(tp, id, "stray")
}

/// The name under which a copy grows in another directory. It is not cut: it must say whose copy it is.
/// `None` where it would be longer than a file name may be.
pub fn future_name(tp: &TopicPartition, id: Uuid) -> Option<String> {
    let name = format!("{tp}.{}-future", id.simple());
    (name.len() <= NAME_MAX).then_some(name)
}

fn suffixed(tp: &TopicPartition, id: Uuid, suffix: &str) -> String {
    let tail = format!("-{}.{}-{suffix}", tp.partition, id.simple());
    let room = NAME_MAX.saturating_sub(tail.len());
    let topic = tp.topic.get(..room).unwrap_or(&tp.topic);
    format!("{topic}{tail}")
}

/// Splits at the last `-`. Topic names are 1 to 249 of `[a-zA-Z0-9._-]`.
fn topic_partition(name: &str) -> Option<TopicPartition> {
    let (topic, partition) = name.rsplit_once('-')?;
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if topic.is_empty() || topic.len() > 249 || !topic.bytes().all(legal) {
        return None;
    }
    if partition.is_empty() || !partition.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(TopicPartition::new(topic, partition.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kafkas() {
        let tp = TopicPartition::new("a-b.c", 7);
        let hex = "0123456789abcdef0123456789abcdef";
        assert_eq!(PartitionDirName::parse("a-b.c-7"), Some(PartitionDirName::Current(tp.clone())));
        assert_eq!(
            PartitionDirName::parse(&format!("a-b.c-7.{hex}-delete")),
            Some(PartitionDirName::Delete(tp.clone()))
        );
        assert_eq!(
            PartitionDirName::parse(&format!("a-b.c-7.{hex}-future")),
            Some(PartitionDirName::Future(tp.clone()))
        );
        assert_eq!(PartitionDirName::parse(&format!("a-b.c-7.{hex}-stray")), Some(PartitionDirName::Stray(tp)));
        for bad in ["lost+found", "data", "t-x", "t-", "-0", "t-0.abc-delete", "t--1x", "t-99999999999"] {
            assert_eq!(PartitionDirName::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_delete_name_fits_and_parses() {
        let tp = TopicPartition::new("t".repeat(249), 12);
        let name = delete_name(&tp, Uuid::from_u128(5));
        assert_eq!(name.len(), 255);
        assert!(matches!(PartitionDirName::parse(&name), Some(PartitionDirName::Delete(_))));
    }
}
