//! What keeps a living broker from being suspected, rule by rule.

/// Each can be left out by a test, to see that it is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// There was a connection, and none is open.
    Connections,
    /// Ends by this side and by idle time prove nothing.
    ItsOwnEnd,
    /// One refusal may fall into a restart of the listener.
    TwoRounds,
    /// One address, one listener, may refuse alone.
    EveryAddress,
    /// What cannot be reached is looked at for longer than what refuses.
    Absence,
    /// Silence of an address is no refusal.
    TimeOut,
    /// A connection that is made meanwhile ends a series of rounds.
    Opening,
    /// The registration is read again before the verdict.
    Reread,
    /// A broker that is cut off suspects nobody.
    Connected,
    /// At least half stay unsuspected.
    HalfStay,
    /// Nobody suspects itself.
    NotOneself,
    /// Only an answer from the same cluster, in the same life, clears a suspicion.
    Answer,
    /// Who was suspected and lives is left alone for a session time-out.
    Respite,
}

/// Those that hold: all, but in tests.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    #[cfg(test)]
    pub(super) off: Vec<Rule>,
}

impl Rules {
    #[cfg(test)]
    pub(super) fn hold(&self, rule: Rule) -> bool {
        !self.off.contains(&rule)
    }

    #[cfg(not(test))]
    #[allow(clippy::unused_self, reason = "a test's rules are its own")]
    pub(super) fn hold(&self, _: Rule) -> bool {
        true
    }
}

#[cfg(test)]
impl Rule {
    pub(super) const ALL: [Rule; 13] = [
        Rule::Connections,
        Rule::ItsOwnEnd,
        Rule::TwoRounds,
        Rule::EveryAddress,
        Rule::Absence,
        Rule::TimeOut,
        Rule::Opening,
        Rule::Reread,
        Rule::Connected,
        Rule::HalfStay,
        Rule::NotOneself,
        Rule::Answer,
        Rule::Respite,
    ];
}
