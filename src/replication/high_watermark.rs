//! The number everything rests on: how far a partition is committed.

use crate::types::Offset;

/// The high watermark after a look at the replicas: the smallest log end among those that count, never below `current`.
///
/// `counted_ends` are the log ends of the maximal ISR (leader included) and of replicas about to join it; an empty
/// iterator leaves the mark where it is. Exclusive, like every end offset.
pub fn high_watermark(current: Offset, counted_ends: impl IntoIterator<Item = Offset>) -> Offset {
    counted_ends.into_iter().min().map_or(current, |lowest| lowest.max(current))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By the definition: the largest offset such that every replica has everything below it.
    fn slow(current: Offset, ends: &[Offset]) -> Offset {
        let mut mark = current;
        while !ends.is_empty() && ends.iter().all(|end| *end > mark) {
            mark += 1;
        }
        mark
    }

    #[test]
    fn the_slowest_counted_replica_decides() {
        assert_eq!(high_watermark(Offset(3), [9, 5, 7].map(Offset)), Offset(5));
    }

    #[test]
    fn it_never_goes_back() {
        assert_eq!(high_watermark(Offset(8), [9, 5].map(Offset)), Offset(8));
        assert_eq!(high_watermark(Offset(8), []), Offset(8));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn agrees_with_the_definition(current in 0i64..60, ends in proptest::collection::vec(0i64..60, 0..6)) {
            let ends: Vec<Offset> = ends.into_iter().map(Offset).collect();
            prop_assert_eq!(high_watermark(Offset(current), ends.iter().copied()), slow(Offset(current), &ends));
        }
    }
}
