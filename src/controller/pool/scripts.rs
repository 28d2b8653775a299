//! Failures that others had, step by step: with the rule that was missing all ends well, without it the invariants do not hold.

use super::node::{LAG_MS, Replica};
use super::{Message, Off, Pool, Rule, Verdict, ensure};
use crate::types::{BrokerId, Offset};

pub(super) const ONE: BrokerId = BrokerId(1);
pub(super) const TWO: BrokerId = BrokerId(2);
pub(super) const THREE: BrokerId = BrokerId(3);

/// The one partition.
pub(super) const OF: i32 = 0;

impl Pool {
    /// The replica of a broker.
    pub(super) fn on(&mut self, id: BrokerId) -> &mut Replica {
        self.node(id).at(OF)
    }

    /// One record on `leader`.
    pub(super) fn writes(&mut self, leader: BrokerId) {
        self.next_value += 1;
        let (value, now_ms, off) = (self.next_value, self.now_ms, self.off);
        let around = self.node(leader).around(now_ms, off);
        self.on(leader).produce(&around, value);
    }

    /// One fetch that arrives; whether its answer does is the story's.
    pub(super) fn fetches(&mut self, id: BrokerId, is_answered: bool) {
        self.now_ms += 200;
        let (now_ms, off) = (self.now_ms, self.off);
        let around = self.node(id).around(now_ms, off);
        let asked = self.on(id).ask(&around, OF);
        asked.into_iter().for_each(|message| self.deliver(message));
        let answers: Vec<Message> = std::mem::take(&mut self.messages);
        answers.into_iter().filter(|_| is_answered).for_each(|message| self.deliver(message));
    }

    /// Until it has as much as `leader`, which does not know it yet.
    pub(super) fn catches_up(&mut self, id: BrokerId, leader: BrokerId) -> Verdict {
        for _ in 0..100 {
            if self.on(id).log.end() == self.on(leader).log.end() {
                return self.look();
            }
            self.fetches(id, true);
            self.look()?;
        }
        Err(format!("{id} does not catch up"))
    }

    /// The two others have as much as [`ONE`], which knows it.
    pub(super) fn both_follow(&mut self) -> Verdict {
        for follower in [TWO, THREE] {
            self.catches_up(follower, ONE)?;
            self.fetches(follower, true);
        }
        Ok(())
    }

    pub(super) fn dies(&mut self, id: BrokerId) {
        let held = self.on(id).log.records.len();
        self.on(id).log.crash(held);
        self.node(id).crash();
        self.store.registrations.remove(&id);
    }

    pub(super) fn starts(&mut self, id: BrokerId) {
        while !self.node(id).up {
            self.start(id.0 as usize - 1);
        }
    }

    /// The controller looks who lives, and `whom` hears of what it makes of it.
    pub(super) fn controller_tells(&mut self, whom: &[BrokerId]) -> Verdict {
        self.controller.look();
        self.reach(whom)
    }

    /// Leadership moves, the ISR stays: a preferred election.
    pub(super) fn prefers(&mut self, leader: BrokerId, whom: &[BrokerId]) -> Verdict {
        self.controller.hand_over(OF, leader);
        self.reach(whom)
    }

    pub(super) fn reach(&mut self, whom: &[BrokerId]) -> Verdict {
        self.work(usize::MAX);
        let others: Vec<_> = self.controller.channels.keys().filter(|(id, _)| !whom.contains(id)).copied().collect();
        let kept: Vec<_> = others.iter().filter_map(|to| self.controller.channels.remove_entry(to)).collect();
        self.deliver_all_control();
        self.controller.channels.extend(kept);
        let answers: Vec<Message> = std::mem::take(&mut self.messages);
        answers.into_iter().for_each(|answer| self.deliver(answer));
        self.look()
    }

    /// Asks the controller for the ISR without who lags. The answer, on its way.
    pub(super) fn shrinks(&mut self, id: BrokerId) -> Option<Message> {
        let (now_ms, off) = (self.now_ms, self.off);
        let around = self.node(id).around(now_ms, off);
        self.on(id).shrink(&around);
        let asked = self.node(id).alter()?;
        self.deliver(asked);
        self.work(usize::MAX);
        self.messages.pop()
    }
}

/// Followers that cut their logs at a high watermark they had not heard of yet, and a second leader that dies.
fn kafka_1211(off: Off) -> Verdict {
    let mut pool = Pool::of_three(off);
    pool.writes(ONE);
    for follower in [TWO, THREE] {
        pool.catches_up(follower, ONE)?;
        pool.fetches(follower, false);
    }
    pool.look()?;
    ensure(pool.seen[0].visible.len() == 1 && pool.on(THREE).log.mark == Offset(0), || {
        "it is not that story".to_owned()
    })?;
    pool.dies(ONE);
    pool.controller_tells(&[TWO, THREE])?;
    pool.dies(TWO);
    pool.controller_tells(&[THREE])?;
    ensure(pool.on(THREE).leads(), || "nobody leads".to_owned())
}

/// Two changes of leader faster than a follower follows: an epoch that only one of both knows.
fn kafka_6361(off: Off) -> Verdict {
    let mut pool = Pool::of_three(off);
    pool.writes(ONE);
    pool.both_follow()?;
    pool.writes(ONE);
    pool.prefers(TWO, &[TWO])?;
    pool.writes(TWO);
    pool.prefers(ONE, &[ONE, TWO, THREE])?;
    pool.writes(ONE);
    pool.both_follow()?;
    pool.look()?;
    ensure(pool.seen[0].visible.len() == 3, || "it is not that story".to_owned())?;
    pool.dies(ONE);
    pool.controller_tells(&[TWO, THREE])?;
    pool.calm()
}

/// A leader whose session ended, which goes on changing the ISR in a version of long ago.
fn kafka_2729(off: Off) -> Verdict {
    let mut pool = Pool::of_three(off);
    pool.writes(ONE);
    pool.both_follow()?;
    pool.store.registrations.remove(&ONE);
    pool.controller_tells(&[TWO, THREE])?;
    ensure(pool.on(TWO).leads() && pool.on(ONE).leads(), || "it is not that story".to_owned())?;
    pool.writes(ONE);
    pool.now_ms += 2 * LAG_MS;
    let epoch = pool.store.register(ONE);
    pool.node(ONE).epoch = epoch;
    pool.controller_tells(&[])?;
    let answer = pool.shrinks(ONE);
    pool.writes(TWO);
    pool.catches_up(THREE, TWO)?;
    pool.fetches(THREE, true);
    pool.look()?;
    pool.dies(TWO);
    pool.controller_tells(&[ONE, THREE])?;
    answer.into_iter().for_each(|message| pool.deliver(message));
    pool.look()?;
    pool.calm()
}

/// An answer to AlterPartition that arrives after the LeaderAndIsr that came later.
fn kafka_12686(off: Off) -> Verdict {
    let mut pool = Pool::of_three(off);
    pool.writes(ONE);
    pool.now_ms += 2 * LAG_MS;
    pool.catches_up(TWO, ONE)?;
    pool.fetches(TWO, true);
    let answer = pool.shrinks(ONE);
    ensure(pool.store.at(OF).state.isr == [ONE, TWO] && answer.is_some(), || "it is not that story".to_owned())?;
    pool.dies(TWO);
    pool.controller_tells(&[ONE])?;
    answer.into_iter().for_each(|message| pool.deliver(message));
    pool.look()?;
    let isr = pool.on(ONE).role.leading.as_ref().map(|leading| leading.isr());
    ensure(isr == Some(vec![ONE]), || format!("{isr:?} is the ISR of before"))?;
    pool.calm()
}

/// The last member of the ISR comes back with an empty disk.
fn kafka_14139(off: Off) -> Verdict {
    let mut pool = Pool::of_three(off);
    pool.writes(ONE);
    pool.both_follow()?;
    pool.writes(ONE);
    pool.now_ms += 2 * LAG_MS;
    let answer = pool.shrinks(ONE);
    answer.into_iter().for_each(|message| pool.deliver(message));
    ensure(pool.store.at(OF).state.isr == [ONE], || "it is not that story".to_owned())?;
    pool.dies(ONE);
    pool.controller_tells(&[TWO, THREE])?;
    pool.on(ONE).log.wipe();
    pool.starts(ONE);
    pool.controller_tells(&[ONE, TWO, THREE])?;
    ensure(!pool.on(ONE).leads(), || "it leads with an empty log".to_owned())?;
    let kept = [TWO, THREE].map(|id| pool.on(id).log.records.len());
    ensure(kept == [1, 1], || format!("others have {kept:?} of what was committed"))
}

#[test]
fn old_stories_end_well_with_the_rule_that_was_missing_and_badly_without() {
    type Story = fn(Off) -> Verdict;
    let stories: [(&str, Story, &'static [Rule]); 5] = [
        ("KAFKA-1211", kafka_1211, &[Rule::B1]),
        ("KAFKA-6361", kafka_6361, &[Rule::B2]),
        ("KAFKA-2729", kafka_2729, &[Rule::B4]),
        ("KAFKA-12686", kafka_12686, &[Rule::LateAnswers]),
        ("KAFKA-14139", kafka_14139, &[Rule::B8]),
    ];
    for (name, story, rules) in stories {
        assert_eq!(story(Off(&[])), Ok(()), "{name}");
        let without = story(Off(rules));
        println!("{name} without {rules:?}: {without:?}");
        assert!(without.is_err_and(|what| !what.contains("not that story")), "{name}: {rules:?} are not missed");
    }
}
