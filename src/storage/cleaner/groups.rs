//! Which neighbouring segments become one: as many as fit, so that a log does not end up as thousands of remainders.

use std::ops::Range;

use crate::types::Offset;

/// What grouping needs to know of a segment.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    pub base: Offset,
    pub bytes: u64,
    /// Bytes of its index files.
    pub offset_index_bytes: u64,
    pub time_index_bytes: u64,
}

/// What one segment may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// `segment.bytes`.
    pub bytes: u64,
    /// `segment.index.bytes`, of each index.
    pub index_bytes: u64,
}

/// Cuts `members` into runs, each to become one segment at the base of its first; `end` is the offset behind the last one.
pub fn group(members: &[Member], end: Offset, limits: Limits) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut sum = Sum::default();
    for (at, member) in members.iter().enumerate() {
        // The offset behind a segment is known from the next one; an empty one reaches nowhere.
        let next = members.get(at + 1).map_or(end, |next| next.base);
        if let Some(group) = groups.last_mut() {
            let span = next.0 - 1 - members[group.start].base.0;
            let fits = member.bytes == 0 || span <= i64::from(i32::MAX);
            if fits && sum.with(member).is_within(limits) {
                sum = sum.with(member);
                group.end = at + 1;
                continue;
            }
        }
        groups.push(at..at + 1);
        sum = Sum::default().with(member);
    }
    groups
}

#[derive(Clone, Copy, Default)]
struct Sum {
    bytes: u64,
    offset_index_bytes: u64,
    time_index_bytes: u64,
}

impl Sum {
    fn with(self, member: &Member) -> Sum {
        Sum {
            bytes: self.bytes + member.bytes,
            offset_index_bytes: self.offset_index_bytes + member.offset_index_bytes,
            time_index_bytes: self.time_index_bytes + member.time_index_bytes,
        }
    }

    fn is_within(self, limits: Limits) -> bool {
        self.bytes <= limits.bytes
            && self.offset_index_bytes <= limits.index_bytes
            && self.time_index_bytes <= limits.index_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { bytes: 100, index_bytes: 24 };

    fn members(list: &[(i64, u64, u64)]) -> Vec<Member> {
        let member = |&(base, bytes, index): &(i64, u64, u64)| Member {
            base: Offset(base),
            bytes,
            offset_index_bytes: index,
            time_index_bytes: 0,
        };
        list.iter().map(member).collect()
    }

    #[test]
    fn segments_are_joined_while_they_fit() {
        let groups = |list: &[(i64, u64, u64)]| group(&members(list), Offset(1 << 40), LIMITS);
        assert_eq!(groups(&[]), Vec::<Range<usize>>::new());
        assert_eq!(groups(&[(0, 60, 0), (10, 40, 0), (20, 1, 0)])[0], 0..2, "as many bytes as may be");
        assert_eq!(groups(&[(0, 500, 0), (10, 1, 0)])[0], 0..1, "one that is too large already");
        assert_eq!(groups(&[(0, 1, 16), (10, 1, 8), (20, 1, 8), (30, 1, 0)])[0], 0..2, "as many index bytes");
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init)] // One group is meant.
    fn offsets_stay_within_reach_of_the_base() {
        let far = i64::from(i32::MAX);
        let groups = |end: i64, bytes| group(&members(&[(0, 1, 0), (10, bytes, 0)]), Offset(end), LIMITS);
        assert_eq!(groups(far + 1, 1), [0..2], "the last offset is 2³¹ - 1");
        assert_eq!(groups(far + 2, 1), [0..1, 1..2]);
        assert_eq!(groups(far + 2, 0), [0..2], "an empty one reaches nowhere");
        let spread = members(&[(0, 1, 0), (10, 1, 0), (far, 1, 0), (far + 5, 1, 0)]);
        assert_eq!(group(&spread, Offset(far + 9), LIMITS), [0..2, 2..4]);
    }
}
