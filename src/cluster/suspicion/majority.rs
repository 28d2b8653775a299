//! Who may suspect, and how many. A broker that was cut off sees everybody refuse: the others are right then.

/// The registered brokers, counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Majority {
    /// This broker is one of them.
    pub is_registered: bool,
    pub registered: usize,
    /// To how many of them this broker has a connection, itself counted. A suspect may be among them: it has
    /// connected again, and not answered.
    pub connected: usize,
    /// Suspected already.
    pub suspected: usize,
}

impl Majority {
    /// At least half are there to be spoken to. One of two is half.
    pub fn is_connected(self) -> bool {
        self.is_registered && 2 * self.connected >= self.registered
    }

    /// One more suspicion leaves at least half of them unsuspected.
    pub fn leaves_half(self) -> bool {
        2 * self.registered.saturating_sub(self.suspected + 1) >= self.registered
    }
}
