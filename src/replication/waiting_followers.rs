//! The fetches of followers that wait, by follower.
//!
//! A follower has one fetch under way to each leader and waits for its answer before it asks for more partitions: up to
//! `replica.fetch.wait.max.ms` in which nothing is acknowledged in those it does not ask for yet. Who begins to lead a
//! partition answers what its replicas have asked, and nobody else's.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::waiters::Parked;
use crate::types::BrokerId;

#[derive(Debug, Default)]
pub struct WaitingFollowers(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// How often somebody was released.
    releases: u64,
    parked: Vec<(BrokerId, Weak<Parked>)>,
}

/// A follower's fetch that may have to wait. Taken before it is looked at what it finds, so that no release in between is
/// missed.
#[derive(Debug)]
pub struct FollowersWait {
    all: Arc<WaitingFollowers>,
    follower: BrokerId,
    releases: u64,
}

impl WaitingFollowers {
    pub fn begin(self: &Arc<Self>, follower: BrokerId) -> FollowersWait {
        FollowersWait { all: Arc::clone(self), follower, releases: self.0.lock().releases }
    }

    /// What followers asked that are `whom` is answered now, with what there is.
    pub fn release(&self, whom: impl Fn(BrokerId) -> bool) {
        let mut waiting = self.0.lock();
        waiting.releases += 1;
        for (_, fetch) in waiting.parked.iter().filter(|(follower, _)| whom(*follower)) {
            if let Some(fetch) = fetch.upgrade() {
                fetch.release();
            }
        }
    }
}

impl FollowersWait {
    /// `fetch` waits from now on, for as long as it lives.
    pub fn park(&self, fetch: &Arc<Parked>) {
        let mut waiting = self.all.0.lock();
        let parked = &mut waiting.parked;
        // Before the list would grow, those that were answered go.
        if parked.len() == parked.capacity() {
            parked.retain(|(_, fetch)| fetch.strong_count() > 0);
        }
        parked.push((self.follower, Arc::downgrade(fetch)));
        if waiting.releases != self.releases {
            fetch.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: BrokerId = BrokerId(1);
    const B: BrokerId = BrokerId(2);

    #[test]
    fn those_who_are_meant_are_released_and_no_others() {
        let all = Arc::<WaitingFollowers>::default();
        let [a, again, b] = [(); 3].map(|()| Parked::new(1));
        for (follower, fetch) in [(A, &a), (A, &again), (B, &b)] {
            all.begin(follower).park(fetch);
        }
        all.release(|follower| follower == A);
        assert_eq!([a, again, b].map(|fetch| fetch.is_released()), [true, true, false]);
    }

    #[test]
    fn a_release_between_the_look_and_the_wait_counts() {
        let all = Arc::<WaitingFollowers>::default();
        let [before, after] = [(); 2].map(|()| Parked::new(1));
        let wait = all.begin(A);
        all.release(|_| true);
        wait.park(&before);
        all.begin(A).park(&after);
        assert_eq!([before, after].map(|fetch| fetch.is_released()), [true, false]);
    }

    #[test]
    fn fetches_that_were_answered_do_not_pile_up() {
        let all = Arc::<WaitingFollowers>::default();
        let alive = Parked::new(1);
        all.begin(A).park(&alive);
        (0..10_000).for_each(|_| all.begin(B).park(&Parked::new(1)));
        assert!(all.0.lock().parked.len() <= 16);
        all.release(|follower| follower == A);
        assert!(alive.is_released());
    }
}
