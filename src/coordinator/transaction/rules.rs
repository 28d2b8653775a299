//! The rules of transactions that a test can switch off, see [`rules`](crate::coordinator::rules).

pub use crate::coordinator::rules::holds;
#[cfg(test)]
pub use crate::coordinator::rules::without;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Who has another epoch is fenced.
    EpochIsChecked,
    /// A producer that is taken over, or that ran out of time, is fenced by a higher epoch.
    FenceRaisesEpoch,
    /// Markers are sent when the decision is replicated.
    MarkersAfterDecision,
    /// A transaction is complete when every leader has its marker.
    CompleteWhenMarked,
    /// While one transaction is being ended no other is begun.
    OneAtATime,
    /// What was decided is gone on with by who takes over.
    TakenOverIsEnded,
}
