//! Attempts to reach a broker: rounds over all its endpoints, and when enough of them were in vain.

use super::evidence::{Outcome, Ticket};
use super::rule::{Rule, Rules};
use crate::types::Endpoint;

/// From the end of the first round to the begin of the last, where every address refused, ms. A process that restarts its
/// listener is back by then.
const REFUSED_MS: i64 = 100;
/// The same where one could not be reached or had no address, ms: routes and names come and go.
const ABSENT_MS: i64 = 1_000;
/// A round may last so long, ms; what is not told by then has timed out.
const PATIENCE_MS: i64 = 1_000;

/// A round in which nobody was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    pub began_ms: i64,
    pub ended_ms: i64,
    /// Not every address refused: one was unreachable, or a name without any.
    pub absent: bool,
}

/// What a round has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Not all is told.
    Open,
    /// Nobody knows.
    TimedOut,
    /// In vain, and it is not enough.
    Again,
    Enough,
}

#[derive(Clone, Debug)]
struct Pending {
    ticket: Ticket,
    began_ms: i64,
    untold: Vec<Endpoint>,
    absent: bool,
}

/// Rounds in a row.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds {
    done: Vec<Round>,
    pending: Option<Pending>,
}

impl Rounds {
    pub fn begin(&mut self, ticket: Ticket, endpoints: &[Endpoint], now_ms: i64) {
        self.pending = Some(Pending { ticket, began_ms: now_ms, untold: endpoints.to_vec(), absent: false });
    }

    pub fn is_waiting_for(&self, ticket: Ticket) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.ticket == ticket)
    }

    /// An address that accepts is another's business, and none of a round's.
    pub fn told(&mut self, at: &Endpoint, outcomes: &[Outcome], now_ms: i64, rules: &Rules) -> Progress {
        let Some(pending) = &mut self.pending else { return Progress::Open };
        let has_timed_out = outcomes.is_empty() || outcomes.contains(&Outcome::TimedOut);
        if has_timed_out && rules.hold(Rule::TimeOut) {
            return Progress::TimedOut;
        }
        pending.absent |= outcomes.iter().any(|outcome| matches!(outcome, Outcome::Unreachable | Outcome::Unresolved));
        pending.untold.retain(|untold| untold != at);
        if !pending.untold.is_empty() {
            return Progress::Open;
        }
        self.done.push(Round { began_ms: pending.began_ms, ended_ms: now_ms, absent: pending.absent });
        self.pending = None;
        match self.is_enough(rules) {
            true => Progress::Enough,
            false => Progress::Again,
        }
    }

    /// When the next round begins, or the one under way has timed out, ms.
    pub fn due_ms(&self, rules: &Rules) -> i64 {
        match (&self.pending, self.done.first(), self.done.last()) {
            (Some(pending), ..) => pending.began_ms + PATIENCE_MS,
            (None, Some(first), Some(last)) => (first.ended_ms + self.spread_ms(rules)).max(last.ended_ms + REFUSED_MS),
            (None, ..) => i64::MIN,
        }
    }

    pub fn is_open(&self) -> bool {
        self.pending.is_some()
    }

    pub fn into_done(self) -> Vec<Round> {
        self.done
    }

    fn spread_ms(&self, rules: &Rules) -> i64 {
        match self.done.iter().any(|round| round.absent) && rules.hold(Rule::Absence) {
            true => ABSENT_MS,
            false => REFUSED_MS,
        }
    }

    fn is_enough(&self, rules: &Rules) -> bool {
        let (Some(first), Some(last)) = (self.done.first(), self.done.last()) else { return false };
        !rules.hold(Rule::TwoRounds) || last.began_ms - first.ended_ms >= self.spread_ms(rules)
    }
}
