//! `leader.replication.throttled.replicas` and its sibling: whose copying is throttled.

use std::sync::Arc;

use crate::types::BrokerId;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ThrottledReplicas {
    #[default]
    None,
    /// `*`.
    All,
    /// Partition and broker.
    Some(Arc<[(i32, BrokerId)]>),
}

impl ThrottledReplicas {
    /// Of a list that passed its check: `*`, or `partition:broker` each.
    pub(super) fn of(list: &[String]) -> ThrottledReplicas {
        let pair = |text: &String| {
            let (partition, broker) = text.split_once(':')?;
            Some((partition.trim().parse().ok()?, BrokerId(broker.trim().parse().ok()?)))
        };
        match list {
            [] => ThrottledReplicas::None,
            [all] if all == "*" => ThrottledReplicas::All,
            some => ThrottledReplicas::Some(some.iter().filter_map(pair).collect()),
        }
    }

    pub fn include(&self, partition: i32, broker: BrokerId) -> bool {
        match self {
            ThrottledReplicas::None => false,
            ThrottledReplicas::All => true,
            ThrottledReplicas::Some(pairs) => pairs.contains(&(partition, broker)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_replicas_and_a_star_all_of_them() {
        let of = |list: &[&str]| ThrottledReplicas::of(&list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
        let includes = |list: &[&str]| [(0, 1), (1, 1), (0, 2)].map(|(p, b)| of(list).include(p, BrokerId(b)));
        assert_eq!(includes(&[]), [false; 3]);
        assert_eq!(includes(&["*"]), [true; 3]);
        assert_eq!(includes(&["0:1", "0:2"]), [true, false, true]);
    }
}
