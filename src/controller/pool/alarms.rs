//! Brokers that the controller takes for dead, rightly or not, and that answer later on.

use super::scripts::{ONE, THREE, TWO};
use super::{Counts, Off, Pool, Rule, Verdict};
use crate::cluster::suspicion::Incarnation;
use crate::controller::decide::Event;
use crate::types::BrokerId;

impl Pool {
    /// Now and then: a broker is suspected, or a suspect that lives answers. At least half stay unsuspected, and nobody is
    /// suspected who could not die here either.
    pub(super) fn alarm(&mut self, nth: usize) {
        let id = self.nodes[nth].id;
        let state = &self.controller.state;
        match state.live.get(&id).map(|broker| broker.epoch) {
            Some(czxid) if 2 * (state.live.len() - 1) >= self.nodes.len() && self.can_spare(nth) => {
                self.counts.alarms += 1;
                self.tell(|| format!("{id} is suspected"));
                self.controller.event(Event::BrokerSuspected(Incarnation { id, czxid }));
            }
            None => self.hear(id),
            Some(_) => return,
        }
        self.work_on();
    }

    /// All suspects that live answer.
    pub(super) fn hear_all(&mut self) {
        let all: Vec<BrokerId> = self.nodes.iter().map(|node| node.id).collect();
        all.into_iter().for_each(|id| self.hear(id));
    }

    fn hear(&mut self, id: BrokerId) {
        let (up, epoch) = (self.node(id).up, self.node(id).epoch);
        if up {
            self.tell(|| format!("{id} answers in {epoch}"));
            self.controller.event(Event::SuspectAnswered(Incarnation { id, czxid: epoch }));
        }
    }
}

/// Seeds that came upon something: requests for a suspect that were refused, and granted when they came again.
const FOUND: [u64; 2] = [14_656, 466];

#[test]
fn true_and_false_alarms_keep_what_was_committed() {
    let mut sum = Counts::default();
    for seed in super::schedules::schedules().chain(FOUND) {
        match (Pool { has_alarms: true, ..Pool::new(seed, Off(&[])) }).run() {
            Err(what) => panic!("seed {seed}: {what}"),
            Ok(counts) => {
                sum.alarms += counts.alarms;
                sum.committed += counts.committed;
                sum.elections += counts.elections;
                sum.lost += counts.lost;
            }
        }
    }
    println!("{sum:?}");
    assert!(sum.alarms > 0 && sum.committed > 0 && sum.elections > 0, "too quiet: {sum:?}");
}

/// All in the ISR but its leader are dead, and that one's port refuses for a moment.
fn the_last_member_is_suspected(off: Off) -> Verdict {
    let mut pool = Pool { has_alarms: true, ..Pool::of_three(off) };
    pool.goes_on_without_two()?;
    pool.dies(THREE);
    pool.controller_tells(&[ONE, TWO])?;
    let czxid = pool.node(ONE).epoch;
    match off.has(Rule::F3) {
        true => pool.controller.bury(ONE, &pool.store),
        false => pool.controller.event(Event::BrokerSuspected(Incarnation { id: ONE, czxid })),
    }
    pool.reach(&[TWO])?;
    pool.calm()
}

/// Where two must be in sync, one of two is suspected, and the other one writes.
fn a_follower_that_is_needed_is_suspected(off: Off) -> Verdict {
    let mut pool = Pool { has_alarms: true, ..Pool::of_three(off) };
    pool.goes_on_without_two()?;
    let suspect = Incarnation { id: THREE, czxid: pool.node(THREE).epoch };
    pool.controller.event(Event::BrokerSuspected(suspect));
    pool.reach(&[ONE])?;
    let isr = pool.store.at(super::scripts::OF).state.isr.clone();
    super::ensure(isr.len() == 2, || format!("{isr:?} are in sync: writers are refused that were to wait a moment"))?;
    pool.controller.event(Event::SuspectAnswered(suspect));
    pool.reach(&[ONE, THREE])?;
    pool.calm()
}

#[test]
fn a_suspicion_has_no_writer_refused() {
    assert_eq!(a_follower_that_is_needed_is_suspected(Off(&[])), Ok(()));
    let without = a_follower_that_is_needed_is_suspected(Off(&[Rule::MinIsr]));
    assert!(without.is_err_and(|what| what.contains("writers are refused")), "MinIsr is not missed");
}

/// A leader asks for a suspect and does not get it; once that one has answered the same request comes once more.
#[test]
fn a_suspect_joins_nothing_behind_its_leaders_back() {
    let mut pool = Pool { has_alarms: true, ..Pool::of_three(Off(&[])) };
    let story = |pool: &mut Pool| -> Verdict {
        pool.goes_on_without_two()?;
        pool.catches_up(TWO, ONE)?;
        pool.fetches(TWO, false);
        let asked = pool.node(ONE).alter().ok_or("it is not that story")?;
        let suspect = Incarnation { id: TWO, czxid: pool.node(TWO).epoch };
        pool.controller.event(Event::BrokerSuspected(suspect));
        pool.reach(&[ONE, THREE])?;
        pool.deliver(asked.clone());
        pool.reach(&[ONE, THREE])?;
        pool.controller.event(Event::SuspectAnswered(suspect));
        pool.work(usize::MAX);
        pool.deliver(asked);
        pool.work(usize::MAX);
        let isr = pool.store.at(super::scripts::OF).state.isr.clone();
        let leading = pool.on(ONE).role.leading.as_ref().ok_or("it is not that story")?;
        let counted: Vec<BrokerId> = leading.membership().isr.maximal().collect();
        let counts_on_all = isr.iter().all(|member| counted.contains(member));
        super::ensure(counts_on_all, || format!("{isr:?} are in the ISR, the leader counts on {counted:?}"))?;
        pool.calm()
    };
    assert_eq!(story(&mut pool), Ok(()));
}

#[test]
fn a_suspicion_elects_nobody_from_outside_the_isr() {
    assert_eq!(the_last_member_is_suspected(Off(&[])), Ok(()));
    let without = the_last_member_is_suspected(Off(&[Rule::F3]));
    println!("{without:?}");
    assert!(without.is_err_and(|what| what.contains("lacks committed records")), "F3 is not missed");
}
