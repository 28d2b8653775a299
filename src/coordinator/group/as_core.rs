//! Groups as the driver of an internal topic's partitions knows them.

use std::convert::Infallible;

use super::{Effect, Groups, JoinAnswer, SyncAnswer};
use crate::coordinator::cores::{self, AppendId, Core, Now};
use crate::types::Offset;
use crate::wire::error_code::ErrorCode;

/// What who asked is told.
#[derive(Debug)]
pub enum Answer {
    Joined(JoinAnswer),
    Synced(SyncAnswer),
    /// An error for each partition, in the order of the request.
    Committed(Vec<ErrorCode>),
}

impl From<Effect> for cores::Effect<Answer, Infallible> {
    fn from(effect: Effect) -> Self {
        match effect {
            Effect::Joined(request, answer) => cores::Effect::Answer(request, Answer::Joined(answer)),
            Effect::Synced(request, answer) => cores::Effect::Answer(request, Answer::Synced(answer)),
            Effect::Committed(request, errors) => cores::Effect::Answer(request, Answer::Committed(errors)),
            Effect::Append(append) => cores::Effect::Append(append),
        }
    }
}

impl Core for Groups {
    type Answer = Answer;
    type Task = Infallible;

    fn take_effects(&mut self) -> Vec<cores::Effect<Answer, Infallible>> {
        Groups::take_effects(self).into_iter().map(Into::into).collect()
    }

    fn next_due_ms(&self) -> Option<i64> {
        Groups::next_due_ms(self)
    }

    fn tick(&mut self, now: Now) {
        Groups::tick(self, now);
    }

    fn appended(&mut self, now: Now, id: AppendId, outcome: Result<Offset, ErrorCode>) {
        Groups::appended(self, now, id, outcome);
    }

    fn end_transaction(&mut self, producer_id: i64, commit: bool) {
        Groups::end_transaction(self, producer_id, commit);
    }

    fn resign(self) -> Vec<cores::Effect<Answer, Infallible>> {
        Groups::resign(self).into_iter().map(Into::into).collect()
    }
}
