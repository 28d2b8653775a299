//! A follower's end of an incremental fetch session (KIP-227): which request comes next.
//!
//! ```text
//! new ── full (0, 0) ──► id n granted ── (n, 1) (n, 2) … ──► id 0 or an error: new
//!            ▲                                 │
//!            └── (n, 0): n closed, full ◄──────┘  topic ids come or go, the leader's view differs
//! ```
//! Source: Kafka's `FetchSessionHandler`.

use crate::wire::error_code::ErrorCode;

/// What the next request says of its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// 0 for none.
    pub id: i32,
    /// 0: everything is named, and a session is asked for.
    pub epoch: i32,
    uses_topic_ids: bool,
}

impl Session {
    pub fn is_full(&self) -> bool {
        self.epoch == 0
    }

    /// Topics are named by id from now on, or are not: a session knows one of both.
    pub fn use_topic_ids(&mut self, uses: bool) {
        if self.uses_topic_ids != uses {
            *self = Session { epoch: 0, uses_topic_ids: uses, ..*self };
        }
    }

    /// An answer came. Whether its partitions are to be looked at.
    pub fn answered(&mut self, error: ErrorCode, id: i32) -> bool {
        let accepted = !error.is_error();
        (self.id, self.epoch) = match error {
            ErrorCode::None if id != 0 => (id, if self.epoch == i32::MAX { 1 } else { self.epoch + 1 }),
            ErrorCode::None | ErrorCode::FetchSessionIdNotFound => (0, 0),
            _ => (self.id, 0),
        };
        accepted
    }

    /// The connection is gone, and what the leader knew with it.
    pub fn lost(&mut self) {
        (self.id, self.epoch) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(session: &Session) -> (i32, i32) {
        (session.id, session.epoch)
    }

    #[test]
    fn a_session_goes_on_until_the_leader_ends_it() {
        let mut session = Session::default();
        assert_eq!(seen(&session), (0, 0));
        assert!(session.answered(ErrorCode::None, 0), "no room");
        assert_eq!(seen(&session), (0, 0));
        assert!(session.answered(ErrorCode::None, 9));
        assert_eq!(seen(&session), (9, 1));
        session.epoch = i32::MAX;
        assert!(session.answered(ErrorCode::None, 9));
        assert_eq!(seen(&session), (9, 1), "after the largest comes 1");
        assert!(!session.answered(ErrorCode::InvalidFetchSessionEpoch, 0));
        assert_eq!(seen(&session), (9, 0), "closed, and a new one asked for");
        assert!(session.answered(ErrorCode::None, 10));
        assert!(!session.answered(ErrorCode::FetchSessionIdNotFound, 0));
        assert_eq!(seen(&session), (0, 0));
    }

    #[test]
    fn topic_ids_and_names_do_not_meet_in_a_session() {
        let mut session = Session::default();
        session.use_topic_ids(true);
        session.answered(ErrorCode::None, 9);
        session.use_topic_ids(true);
        assert_eq!(seen(&session), (9, 1));
        session.use_topic_ids(false);
        assert_eq!(seen(&session), (9, 0));
        session.lost();
        assert_eq!(seen(&session), (0, 0));
    }
}
