//! What handlers ask the active controller: answered when all that follows from it is done.

use std::collections::BTreeMap;

use super::Driver;
use crate::controller::ask::{Asked, Elected, Reassigned};
use crate::controller::decide::Event;
use crate::controller::fence::Lost;
use crate::controller::state::Leadership;
use crate::types::TopicPartition;
use crate::wire::error_code::ErrorCode;

/// Collected for the question that is being answered.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) elected: Elected,
    pub(super) reassigned: Reassigned,
    pub(super) isrs: BTreeMap<usize, Result<(TopicPartition, Leadership), ErrorCode>>,
    pub(super) still_led: Vec<TopicPartition>,
    /// Instead of all others.
    pub(super) refused: Option<ErrorCode>,
}

impl Driver {
    /// A question is answered when all that follows from it is done; whoever asked may be gone by then.
    pub(super) async fn answer(&mut self, asked: Asked) -> Result<(), Lost> {
        if self.term.is_none() {
            return Ok(());
        }
        match asked {
            Asked::ElectLeaders { partitions, kind, answer } => {
                self.process(Event::ElectLeaders { partitions, kind }).await?;
                let _ = answer.send(self.take_answer().elected);
            }
            Asked::AlterReassignments { wanted, answer } => {
                self.process(Event::AlterReassignments(wanted)).await?;
                let _ = answer.send(self.take_answer().reassigned);
            }
            Asked::AlterPartition { request, answer } => {
                self.process(Event::AlterPartition(request)).await?;
                let Answer { isrs, refused, .. } = self.take_answer();
                let changed = isrs.values().flatten().map(|(tp, _)| tp.clone()).collect();
                let altered = isrs.into_values().map(|outcome| outcome.map(|(_, leadership)| leadership)).collect();
                let _ = answer.send(refused.map_or(Ok(altered), Err));
                // A reassignment it completes moves on under a later epoch, of which the leader must not hear first.
                self.process(Event::IsrAnswered(changed)).await?;
            }
            Asked::ControlledShutdown { broker, broker_epoch, answer } => {
                self.process(Event::ControlledShutdown { broker, broker_epoch }).await?;
                let Answer { still_led, refused, .. } = self.take_answer();
                let _ = answer.send(refused.map_or(Ok(still_led), Err));
            }
            Asked::ListReassignments { answer } => {
                let running = self.term.as_ref().map(|term| term.state.reassignments());
                let _ = answer.send(running.unwrap_or_default());
            }
        }
        Ok(())
    }

    pub(super) fn take_answer(&mut self) -> Answer {
        self.term.as_mut().map(|term| std::mem::take(&mut term.answer)).unwrap_or_default()
    }
}
