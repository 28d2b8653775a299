//! Brokers that the controller takes for dead, rightly or not, and that answer later on.

use super::{Counts, Off, Pool};
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

#[test]
fn true_and_false_alarms_keep_what_was_committed() {
    let mut sum = Counts::default();
    for seed in super::schedules::schedules() {
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
