//! An error for each partition of a request, topic by topic, in the order in which they were first named. Of a partition
//! that was named twice the last error stays.

use indexmap::IndexMap;
use kafka_protocol::messages::TopicName;

use crate::wire::error_code::ErrorCode;

#[derive(Debug, Default)]
pub struct PartitionErrors(IndexMap<TopicName, IndexMap<i32, ErrorCode>>);

impl PartitionErrors {
    pub fn insert(&mut self, topic: &TopicName, partition: i32, error: ErrorCode) {
        match self.0.get_mut(topic) {
            Some(partitions) => {
                partitions.insert(partition, error);
            }
            None => {
                self.0.insert(topic.clone(), IndexMap::from([(partition, error)]));
            }
        }
    }

    /// The topics as a response has them: `topic` makes one of a name and what `partition` made of its partitions.
    pub fn response<P, T>(
        self,
        partition: impl Fn(i32, ErrorCode) -> P,
        topic: impl Fn(TopicName, Vec<P>) -> T,
    ) -> Vec<T> {
        let topics = self.0.into_iter().map(|(name, errors)| {
            let partitions = errors.into_iter().map(|(index, error)| partition(index, error));
            topic(name, partitions.collect())
        });
        topics.collect()
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::protocol::StrBytes;

    use super::*;

    #[test]
    fn partitions_are_answered_once_under_one_topic() {
        let (a, b) = (TopicName(StrBytes::from_static_str("a")), TopicName(StrBytes::from_static_str("b")));
        let mut errors = PartitionErrors::default();
        errors.insert(&a, 1, ErrorCode::None);
        errors.insert(&b, 0, ErrorCode::None);
        errors.insert(&a, 0, ErrorCode::None);
        errors.insert(&a, 1, ErrorCode::OffsetMetadataTooLarge);
        let answered = errors.response(|index, error| (index, error), |topic, partitions| (topic, partitions));
        let of_a = vec![(1, ErrorCode::OffsetMetadataTooLarge), (0, ErrorCode::None)];
        assert_eq!(answered, [(a, of_a), (b, vec![(0, ErrorCode::None)])]);
    }
}
