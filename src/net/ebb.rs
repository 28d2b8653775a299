//! When a crowd of connections has gone: the moment to give the memory they used back to the system.
//!
//! The allocator keeps what was freed for the next who asks. After a crowd that is megabytes for nobody; giving pages back
//! and touching them again costs more than the memory is worth for anything smaller.

/// Fewer connections than this are no crowd.
const CROWD: usize = 1_000;

/// Of a crowd this part is left when it has gone.
const LEFT: usize = 4;

/// The most connections since memory was last given back.
#[derive(Debug, Default)]
pub struct Ebb {
    most: usize,
}

impl Ebb {
    /// A connection came and there are `now`.
    pub fn came(&mut self, now: usize) {
        self.most = self.most.max(now);
    }

    /// A connection went and there are `now`. True once for each crowd that has gone; what is left may be one itself.
    pub fn went(&mut self, now: usize) -> bool {
        let gone = self.most >= CROWD && now <= self.most / LEFT;
        if gone {
            self.most = now;
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often memory is given back while the connections become `counts`, one after the other.
    fn times(ebb: &mut Ebb, counts: &[usize]) -> usize {
        let mut now = 0;
        let mut times = 0;
        for count in counts {
            while now < *count {
                now += 1;
                ebb.came(now);
            }
            while now > *count {
                now -= 1;
                times += usize::from(ebb.went(now));
            }
        }
        times
    }

    #[test]
    fn memory_is_given_back_once_for_each_crowd() {
        let mut ebb = Ebb::default();
        assert_eq!(times(&mut ebb, &[999, 0, 999, 0]), 0, "no crowd");
        assert_eq!(times(&mut ebb, &[3_000, 751, 2_000, 751]), 0, "it is still there");
        assert_eq!(times(&mut ebb, &[3_000, 0]), 1);
        assert_eq!(times(&mut ebb, &[2_000, 0, 1_000, 0]), 2);
    }
}
