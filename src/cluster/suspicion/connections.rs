//! The connections with one life of a broker, and who ended them.

use std::collections::BTreeSet;
use std::io;

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

impl Ended {
    /// What a read or write that failed tells. A time-out is nobody's word.
    pub fn by(error: &io::Error) -> Ended {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Ended::Fin,
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Ended::Reset,
            _ => Ended::ByUs,
        }
    }

    /// The other side did it, and not for want of anything to say.
    pub fn is_its_own(self) -> bool {
        matches!(self, Ended::Fin | Ended::Reset)
    }
}

/// Those that are open, and what the ended ones prove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Connections {
    open: BTreeSet<ConnectionId>,
    /// Ends that were its doing, after its last sign of life.
    closed_by_it: u32,
    closed_at_ms: i64,
}

impl Connections {
    pub fn opened(&mut self, connection: ConnectionId) {
        self.open.insert(connection);
        self.forget();
    }

    /// False when it is none of these. `heard_ms`: when its last byte came. `counts_all`: as if every end were the other
    /// side's.
    pub fn closed(
        &mut self,
        connection: ConnectionId,
        how: Ended,
        heard_ms: i64,
        now_ms: i64,
        counts_all: bool,
    ) -> bool {
        if !self.open.remove(&connection) {
            return false;
        }
        if heard_ms > self.closed_at_ms {
            self.forget();
        }
        if how.is_its_own() || counts_all {
            self.closed_by_it += 1;
            self.closed_at_ms = now_ms;
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

    /// Its own ends since its last sign of life, and when the last was; `None` while one is open, or without any.
    pub fn all_closed_by_it(&self) -> Option<(u32, i64)> {
        (self.open.is_empty() && self.closed_by_it > 0).then_some((self.closed_by_it, self.closed_at_ms))
    }
}
