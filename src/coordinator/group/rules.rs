//! The rules of groups that a test can switch off, see [`rules`](crate::coordinator::rules).

pub use crate::coordinator::rules::holds;
#[cfg(test)]
pub use crate::coordinator::rules::without;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// What anybody but the leader assigns is not looked at.
    LeaderAssigns,
    /// An assignment counts in the generation it was made for.
    AssignmentOfGeneration,
    /// Who is removed is told, whatever it waits for.
    RemovedAreTold,
    /// An offset counts once its record is replicated.
    CommittedWhenReplicated,
    /// A heartbeat of another generation is refused.
    GenerationOfHeartbeat,
    /// Of a group whose members have all left, any protocol will do.
    NobodyIsAll,
}
