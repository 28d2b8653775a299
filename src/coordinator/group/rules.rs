//! Rules that a test can switch off, to see that the pool finds what they are for.

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

#[cfg(not(test))]
pub const fn holds(_: Rule) -> bool {
    true
}

#[cfg(test)]
thread_local! {
    static OFF: std::cell::Cell<Option<Rule>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub fn holds(rule: Rule) -> bool {
    OFF.get() != Some(rule)
}

/// Runs `work` without `rule`, on this thread.
#[cfg(test)]
pub fn without<T>(rule: Rule, work: impl FnOnce() -> T) -> T {
    OFF.set(Some(rule));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    OFF.set(None);
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
