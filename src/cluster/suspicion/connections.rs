//! The connections with one life of a broker, and who ended them.

use std::collections::BTreeSet;

/// Never used twice in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// Who ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The other side, in order.
    Fin,
    /// The other side, at once.
    Reset,
    /// Either side, for nothing was said for too long.
    Idle,
    /// This side, for any other reason, a request without an answer included.
    ByUs,
}

/// Those that are open, and what the ended ones prove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Connections {
    open: BTreeSet<ConnectionId>,
    closed_by_it: u32,
    closed_at_ms: i64,
}

impl Connections {
    pub fn opened(&mut self, connection: ConnectionId) {
        self.open.insert(connection);
    }

    /// False when it is none of these. `counts_all`: as if every end were the other side's.
    pub fn closed(&mut self, connection: ConnectionId, how: Ended, now_ms: i64, counts_all: bool) -> bool {
        if !self.open.remove(&connection) {
            return false;
        }
        match how {
            Ended::Idle | Ended::ByUs if !counts_all => self.forget(),
            _ => {
                self.closed_by_it += 1;
                self.closed_at_ms = now_ms;
            }
        }
        true
    }

    /// What has ended proves nothing any more.
    pub fn forget(&mut self) {
        self.closed_by_it = 0;
    }

    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Ends since the last one that was not the other side's doing, and when the last was; `None` while one is open, or
    /// without any.
    pub fn all_closed_by_it(&self) -> Option<(u32, i64)> {
        (self.open.is_empty() && self.closed_by_it > 0).then_some((self.closed_by_it, self.closed_at_ms))
    }
}
