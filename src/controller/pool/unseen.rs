//! Brokers that lose the end of their logs and are back before anybody saw that they were gone, step by step: with the rules
//! all ends well, without them committed records are lost.

use super::scripts::{OF, ONE, THREE, TWO};
use super::{Message, Off, Pool, Rule, SESSION_MS, Verdict, ensure};
use crate::types::BrokerId;

const ALL: [BrokerId; 3] = [ONE, TWO, THREE];

impl Pool {
    /// A power cut: nothing was synced. Its session lives on.
    fn loses_all(&mut self, id: BrokerId) {
        self.on(id).log.crash(0);
        self.node(id).crash();
    }

    /// Its process is there, as long as it takes it to register.
    fn is_back(&mut self, id: BrokerId) {
        let nth = id.0 as usize - 1;
        self.start(nth);
        self.now_ms += SESSION_MS;
        while !self.node(id).up {
            self.start(nth);
        }
    }

    /// Everyone hears what a new controller makes of it.
    fn another_controller(&mut self) -> Verdict {
        self.replace_controller();
        self.reach(&ALL)
    }

    /// The two others die for good, one after the other.
    fn is_left_alone(&mut self, id: BrokerId) -> Verdict {
        for other in ALL.into_iter().filter(|other| *other != id) {
            self.dies(other);
            self.controller_tells(&[id])?;
        }
        Ok(())
    }

    /// What the follower asks now, on its way.
    fn asks(&mut self, id: BrokerId) -> Message {
        self.now_ms += 200;
        let (now_ms, off) = (self.now_ms, self.off);
        let around = self.node(id).around(now_ms, off);
        self.on(id).ask(&around, OF).expect("it follows")
    }

    /// [`TWO`] fell behind, and is no member any more. Something is committed without it.
    pub(super) fn goes_on_without_two(&mut self) -> Verdict {
        self.writes(ONE);
        self.now_ms += 2 * super::LAG_MS;
        self.catches_up(THREE, ONE)?;
        self.fetches(THREE, true);
        let answer = self.shrinks(ONE);
        answer.into_iter().for_each(|message| self.deliver(message));
        self.look()?;
        ensure(self.store.at(OF).state.isr == [ONE, THREE] && self.seen[0].visible.len() == 1, || {
            "it is not that story".to_owned()
        })
    }
}

/// The leader is back under another controller before anybody missed it.
fn a_leader_bounces(off: Off) -> Verdict {
    let mut pool = Pool::of_three(off);
    pool.writes(ONE);
    pool.both_follow()?;
    pool.look()?;
    ensure(pool.seen[0].visible.len() == 1, || "it is not that story".to_owned())?;
    pool.loses_all(ONE);
    pool.start(0);
    pool.another_controller()?;
    pool.is_back(ONE);
    pool.controller_tells(&ALL)?;
    pool.calm()
}

/// A member waited as long as it may; a controller that has not seen it yet writes a state that counts on it, and is replaced.
fn a_write_hides_a_bounce(off: Off) -> Verdict {
    let mut pool = Pool::of_three(off);
    pool.writes(ONE);
    pool.both_follow()?;
    pool.look()?;
    pool.loses_all(TWO);
    pool.is_back(TWO);
    pool.prefers(THREE, &[ONE, THREE])?;
    pool.another_controller()?;
    pool.is_left_alone(TWO)?;
    pool.calm()
}

/// A leader asks for a member that is not what it was when it fetched.
fn a_member_is_added_that_has_bounced(off: Off) -> Verdict {
    let mut pool = Pool::of_three(off);
    pool.goes_on_without_two()?;
    pool.catches_up(TWO, ONE)?;
    pool.fetches(TWO, false);
    let asked = pool.node(ONE).alter().ok_or("it is not that story")?;
    pool.loses_all(TWO);
    pool.is_back(TWO);
    pool.controller_tells(&ALL)?;
    pool.deliver(asked);
    pool.reach(&ALL)?;
    pool.is_left_alone(TWO)?;
    pool.calm()
}

/// A fetch of an earlier life arrives after one of the later.
fn a_fetch_arrives_late(off: Off) -> Verdict {
    let mut pool = Pool::of_three(off);
    pool.goes_on_without_two()?;
    for _ in 0..100 {
        if pool.on(TWO).log.end() == pool.on(ONE).log.end() {
            break;
        }
        let asked = pool.asks(TWO);
        pool.deliver(asked);
        // As far as the leader heard it has nothing yet.
        let answers: Vec<Message> = std::mem::take(&mut pool.messages);
        answers.into_iter().for_each(|answer| pool.deliver(answer));
    }
    let late = pool.asks(TWO);
    pool.loses_all(TWO);
    pool.is_back(TWO);
    pool.controller_tells(&ALL)?;
    pool.fetches(TWO, false);
    pool.deliver(late);
    pool.messages.clear();
    let asked = pool.node(ONE).alter();
    asked.into_iter().for_each(|message| pool.deliver(message));
    pool.reach(&ALL)?;
    pool.is_left_alone(TWO)?;
    pool.calm()
}

#[test]
fn who_comes_back_unseen_is_counted_on_only_without_the_rules() {
    type Story = fn(Off) -> Verdict;
    // What ends well, and what does not.
    type Case = (Story, &'static [&'static [Rule]], &'static [Rule]);
    let cases: [Case; 4] = [
        (a_leader_bounces, &[&[], &[Rule::F7], &[Rule::F8]], &[Rule::F7, Rule::F8]),
        (a_write_hides_a_bounce, &[&[]], &[Rule::Lives]),
        (a_member_is_added_that_has_bounced, &[&[]], &[Rule::B5]),
        (a_fetch_arrives_late, &[&[]], &[Rule::F9]),
    ];
    for (nth, (story, well, badly)) in cases.into_iter().enumerate() {
        for off in well {
            assert_eq!(story(Off(off)), Ok(()), "story {nth} without {off:?}");
        }
        let without = story(Off(badly));
        println!("story {nth} without {badly:?}: {without:?}");
        assert!(without.is_err_and(|what| !what.contains("not that story")), "story {nth}: {badly:?} are not missed");
    }
}
