//! Rules that a test can switch off, to see that the pool finds what they are for.

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
