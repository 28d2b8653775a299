//! One followed partition: what to ask its leader next, and what an answer means for the log.
//!
//! ```text
//!            ┌── records, divergence ──┐
//!            ▼                         │      OFFSET_OUT_OF_RANGE        lower than the leader's start
//!         Fetching ────────────────────┴──► LookingForEnd ──────────► LookingForStart ──► Fetching
//!            │  ▲
//!            │  └── after replica.fetch.backoff.ms ── Resting ◄── every other error, unreachable leader; shorter at
//!            │                                                  first where the leader has not heard that it leads
//!            └──► Parked: FENCED_LEADER_EPOCH, until the controller says more      Failed: the disk
//! ```
//! A pure core: time comes in, what is to be done to the log goes out as a [`Step`]. The next fetch begins at the log end,
//! wherever that is. The log is cut where epochs part (KIP-101, KIP-279, KIP-595), never at the high watermark, but for a
//! log without any epoch, which has nothing else to go by.
//!
//! Rules: Kafka's `AbstractFetcherThread` and `ReplicaFetcherThread` with truncation on fetch.

use crate::types::{LeaderEpoch, Offset};
use crate::wire::error_code::ErrorCode;
use crate::wire::fetch::DivergingEpoch;

/// The first rest, in ms, where a leader does not know yet that it leads: the controller tells both at once, and who is told
/// first asks too early. Each next rest is twice as long, up to the back-off. (Kafka rests for the whole back-off, 1 s, in
/// which acks=all writes stand still.)
const FIRST_REST_MS: i64 = 5;

/// What a follower's log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub log_start: Offset,
    pub high_watermark: Offset,
    pub log_end: Offset,
    /// [`LeaderEpoch::NONE`] without any.
    pub last_epoch: LeaderEpoch,
}

/// The log, as far as the rules look at it.
pub trait FollowerLog {
    fn held(&self) -> Held;
    /// The largest epoch not above `epoch` and where it ends; `None` when undefined.
    fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)>;
}

/// What the leader is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    Fetch(Position),
    /// ListOffsets -1: where the leader's log ends.
    LogEnd,
    /// ListOffsets -2 (-4 where logs are tiered): where it starts.
    LogStart,
}

/// One partition of a fetch request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub leader_epoch: LeaderEpoch,
    pub offset: Offset,
    /// [`LeaderEpoch::NONE`] when the log has no epochs.
    pub last_fetched_epoch: LeaderEpoch,
    pub log_start: Offset,
}

/// What came back for a [`Position`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    pub error: ErrorCode,
    pub high_watermark: Offset,
    /// -1 when not told.
    pub log_start: Offset,
    pub diverging: Option<DivergingEpoch>,
}

/// What is to be done to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Nothing,
    /// Append what came, unchanged, if anything came; then take the leader's high watermark as far as the log goes, and
    /// its log start where that is later.
    Take {
        high_watermark: Offset,
        log_start: Offset,
    },
    /// Remove what lies at or behind.
    Truncate(Offset),
    /// Remove everything and begin again, empty.
    RestartAt(Offset),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fetching,
    LookingForEnd,
    LookingForStart,
    /// Monotonic ms.
    Resting {
        until_ms: i64,
    },
    Parked,
    Failed,
}

/// A partition that is followed in one leader epoch; a later epoch makes a new one.
#[derive(Clone, Debug)]
pub struct Follower {
    leader_epoch: LeaderEpoch,
    state: State,
    /// How long to rest when the leader does not know yet that it leads, in ms.
    short_rest_ms: i64,
}

impl Follower {
    pub fn new(leader_epoch: LeaderEpoch) -> Follower {
        Follower { leader_epoch, state: State::Fetching, short_rest_ms: FIRST_REST_MS }
    }

    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch
    }

    /// Before the first question: records without any epoch are trusted as far as they are known to be committed.
    pub fn begin(&self, log: &impl FollowerLog) -> Step {
        let held = log.held();
        match held.last_epoch == LeaderEpoch::NONE && held.high_watermark < held.log_end {
            true => Step::Truncate(held.high_watermark),
            false => Step::Nothing,
        }
    }

    /// What to ask now; `None` while it rests, is parked or failed.
    pub fn question(&mut self, now_ms: i64, log: &impl FollowerLog) -> Option<Question> {
        if let State::Resting { until_ms } = self.state
            && until_ms <= now_ms
        {
            self.state = State::Fetching;
        }
        match self.state {
            State::Fetching => {
                let held = log.held();
                Some(Question::Fetch(Position {
                    leader_epoch: self.leader_epoch,
                    offset: held.log_end,
                    last_fetched_epoch: held.last_epoch,
                    log_start: held.log_start,
                }))
            }
            State::LookingForEnd => Some(Question::LogEnd),
            State::LookingForStart => Some(Question::LogStart),
            State::Resting { .. } | State::Parked | State::Failed => None,
        }
    }

    /// When a resting one asks again, monotonic ms.
    pub fn rests_until(&self) -> Option<i64> {
        match self.state {
            State::Resting { until_ms } => Some(until_ms),
            _ => None,
        }
    }

    /// The answer to a fetch at `asked`. One to a question that is no longer the present one is passed over.
    pub fn fetched(
        &mut self,
        asked: &Position,
        answer: &Fetched,
        log: &impl FollowerLog,
        now_ms: i64,
        backoff_ms: i64,
    ) -> Step {
        let held = log.held();
        if self.state != State::Fetching || asked.leader_epoch != self.leader_epoch || asked.offset != held.log_end {
            return Step::Nothing;
        }
        match answer.error {
            ErrorCode::None => {
                self.short_rest_ms = FIRST_REST_MS;
                match answer.diverging {
                    Some(diverging) => Step::Truncate(parting(diverging, asked.offset, &held, log)),
                    None => Step::Take { high_watermark: answer.high_watermark, log_start: answer.log_start },
                }
            }
            ErrorCode::OffsetOutOfRange => {
                self.state = State::LookingForEnd;
                Step::Nothing
            }
            error => self.refused(error, now_ms, backoff_ms),
        }
    }

    /// The answer to [`Question::LogEnd`] or [`Question::LogStart`].
    pub fn offset_found(
        &mut self,
        question: Question,
        answer: Result<Offset, ErrorCode>,
        log: &impl FollowerLog,
        now_ms: i64,
        backoff_ms: i64,
    ) -> Step {
        let held = log.held();
        match (self.state, question, answer) {
            (State::LookingForEnd, Question::LogEnd, Ok(end)) if end < held.log_end => {
                self.state = State::Fetching;
                Step::Truncate(end)
            }
            (State::LookingForEnd, Question::LogEnd, Ok(_)) => {
                self.state = State::LookingForStart;
                Step::Nothing
            }
            (State::LookingForStart, Question::LogStart, Ok(start)) => {
                self.state = State::Fetching;
                if start > held.log_end { Step::RestartAt(start) } else { Step::Nothing }
            }
            (State::LookingForEnd, Question::LogEnd, Err(error))
            | (State::LookingForStart, Question::LogStart, Err(error)) => self.refused(error, now_ms, backoff_ms),
            _ => Step::Nothing,
        }
    }

    fn refused(&mut self, error: ErrorCode, now_ms: i64, backoff_ms: i64) -> Step {
        match error {
            // The controller's word about the next epoch is on its way.
            ErrorCode::FencedLeaderEpoch => self.state = State::Parked,
            ErrorCode::UnknownLeaderEpoch
            | ErrorCode::NotLeaderOrFollower
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::UnknownTopicId => {
                let rest_ms = self.short_rest_ms.min(backoff_ms);
                self.short_rest_ms = rest_ms.saturating_mul(2);
                self.rest(now_ms, rest_ms);
            }
            _ => self.rest(now_ms, backoff_ms),
        }
        Step::Nothing
    }

    /// The leader was not reached, or what it sent was not taken: the same again after `backoff_ms`.
    pub fn rest(&mut self, now_ms: i64, backoff_ms: i64) {
        if !matches!(self.state, State::Parked | State::Failed) {
            self.state = State::Resting { until_ms: now_ms.saturating_add(backoff_ms) };
        }
    }

    /// The log's directory failed: nothing is asked any more.
    pub fn fail(&mut self) {
        self.state = State::Failed;
    }
}

/// Up to where a log may agree with a leader that found it diverging.
fn parting(leader: DivergingEpoch, asked: Offset, held: &Held, log: &impl FollowerLog) -> Offset {
    if leader.end_offset < Offset::ZERO {
        return asked;
    }
    if leader.epoch == LeaderEpoch::NONE {
        return leader.end_offset.min(held.log_end);
    }
    match log.end_offset_for_epoch(leader.epoch) {
        None => leader.end_offset.min(held.log_end),
        // The leader's epoch is unknown here: what lies behind the last one below it is not the leader's. The next fetch
        // finds out where that one ends there.
        Some((epoch, end)) if epoch != leader.epoch => end.min(held.log_end),
        Some((_, end)) => end.min(leader.end_offset).min(held.log_end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::epoch_cache::EpochCache;

    const BACKOFF_MS: i64 = 1_000;

    struct Model {
        start: i64,
        mark: i64,
        end: i64,
        epochs: EpochCache,
    }

    impl FollowerLog for Model {
        fn held(&self) -> Held {
            let last_epoch = self.epochs.latest().unwrap_or(LeaderEpoch::NONE);
            Held {
                log_start: Offset(self.start),
                high_watermark: Offset(self.mark),
                log_end: Offset(self.end),
                last_epoch,
            }
        }
        fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
            self.epochs.end_offset_for(epoch, Offset(self.end))
        }
    }

    fn log(start: i64, mark: i64, end: i64, epochs: &[(i32, i64)]) -> Model {
        let epochs = EpochCache::from_entries(epochs.iter().map(|(epoch, at)| (LeaderEpoch(*epoch), Offset(*at))));
        Model { start, mark, end, epochs }
    }

    fn position(follower: &mut Follower, now_ms: i64, log: &Model) -> Position {
        match follower.question(now_ms, log) {
            Some(Question::Fetch(position)) => position,
            other => panic!("{other:?}"),
        }
    }

    fn answer(error: ErrorCode) -> Fetched {
        let high_watermark = if error.is_error() { Offset::NONE } else { Offset(7) };
        Fetched { error, high_watermark, log_start: Offset(2), diverging: None }
    }

    fn diverging(epoch: i32, end_offset: i64) -> Fetched {
        let diverging = Some(DivergingEpoch { epoch: LeaderEpoch(epoch), end_offset: Offset(end_offset) });
        Fetched { diverging, ..answer(ErrorCode::None) }
    }

    #[test]
    fn asks_from_the_log_end_with_the_last_epoch_it_has() {
        let mut follower = Follower::new(LeaderEpoch(4));
        let log = log(1, 3, 8, &[(0, 1), (2, 5)]);
        assert_eq!(follower.begin(&log), Step::Nothing);
        let asked = position(&mut follower, 0, &log);
        let expected = Position {
            leader_epoch: LeaderEpoch(4),
            offset: Offset(8),
            last_fetched_epoch: LeaderEpoch(2),
            log_start: Offset(1),
        };
        assert_eq!(asked, expected);
        let took = follower.fetched(&asked, &answer(ErrorCode::None), &log, 0, BACKOFF_MS);
        assert_eq!(took, Step::Take { high_watermark: Offset(7), log_start: Offset(2) });
    }

    #[test]
    fn a_log_without_epochs_is_trusted_to_its_high_watermark_alone() {
        let follower = Follower::new(LeaderEpoch(4));
        assert_eq!(follower.begin(&log(0, 3, 8, &[])), Step::Truncate(Offset(3)));
        assert_eq!(follower.begin(&log(0, 8, 8, &[])), Step::Nothing);
        assert_eq!(follower.begin(&log(0, 3, 8, &[(0, 0)])), Step::Nothing, "committed data is never cut by a mark");
    }

    #[test]
    fn each_error_has_its_reaction() {
        let log = log(0, 3, 8, &[(0, 0)]);
        let rests = [
            ErrorCode::InconsistentTopicId,
            ErrorCode::OffsetMovedToTieredStorage,
            ErrorCode::CorruptMessage,
            ErrorCode::KafkaStorageError,
            ErrorCode::UnknownServerError,
        ];
        for error in rests {
            let mut follower = Follower::new(LeaderEpoch(4));
            let asked = position(&mut follower, 0, &log);
            assert_eq!(follower.fetched(&asked, &answer(error), &log, 50, BACKOFF_MS), Step::Nothing, "{error}");
            assert_eq!(follower.question(1_049, &log), None, "{error}");
            assert_eq!(follower.rests_until(), Some(1_050));
            assert_eq!(position(&mut follower, 1_050, &log), asked, "{error}: the same again");
        }
        let not_yet = [
            ErrorCode::UnknownLeaderEpoch,
            ErrorCode::NotLeaderOrFollower,
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::UnknownTopicId,
        ];
        for error in not_yet {
            let mut follower = Follower::new(LeaderEpoch(4));
            let mut now_ms = 0;
            for rest_ms in [5, 10, 20, 40, 80, 160, 320, 640, 1_000, 1_000] {
                let asked = position(&mut follower, now_ms, &log);
                assert_eq!(follower.fetched(&asked, &answer(error), &log, now_ms, BACKOFF_MS), Step::Nothing);
                now_ms += rest_ms;
                assert_eq!(follower.rests_until(), Some(now_ms), "{error}");
            }
            let asked = position(&mut follower, now_ms, &log);
            follower.fetched(&asked, &answer(ErrorCode::None), &log, now_ms, BACKOFF_MS);
            follower.fetched(&asked, &answer(error), &log, now_ms, BACKOFF_MS);
            assert_eq!(follower.rests_until(), Some(now_ms + 5), "{error} after it had led");
        }
        let mut follower = Follower::new(LeaderEpoch(4));
        let asked = position(&mut follower, 0, &log);
        let fenced = answer(ErrorCode::FencedLeaderEpoch);
        assert_eq!(follower.fetched(&asked, &fenced, &log, 50, BACKOFF_MS), Step::Nothing);
        assert_eq!(follower.question(i64::MAX, &log), None, "until the controller says more");
        follower.rest(60, 0);
        assert_eq!(follower.question(i64::MAX, &log), None);
        let mut failed = Follower::new(LeaderEpoch(4));
        failed.fail();
        failed.rest(0, 0);
        assert_eq!(failed.question(i64::MAX, &log), None);
    }

    #[test]
    fn out_of_range_looks_for_the_leaders_ends() {
        let log = log(0, 3, 8, &[(0, 0)]);
        let out = |log: &Model| {
            let mut follower = Follower::new(LeaderEpoch(4));
            let asked = position(&mut follower, 0, log);
            follower.fetched(&asked, &answer(ErrorCode::OffsetOutOfRange), log, 0, BACKOFF_MS);
            assert_eq!(follower.question(0, log), Some(Question::LogEnd));
            follower
        };
        let found = |follower: &mut Follower, question, offset| {
            follower.offset_found(question, Ok(Offset(offset)), &log, 0, BACKOFF_MS)
        };
        let mut beyond = out(&log);
        assert_eq!(found(&mut beyond, Question::LogEnd, 6), Step::Truncate(Offset(6)));
        assert!(matches!(beyond.question(0, &log), Some(Question::Fetch(_))));

        let mut behind = out(&log);
        assert_eq!(found(&mut behind, Question::LogStart, 20), Step::Nothing, "nobody asked for that yet");
        assert_eq!(found(&mut behind, Question::LogEnd, 30), Step::Nothing);
        assert_eq!(behind.question(0, &log), Some(Question::LogStart));
        assert_eq!(found(&mut behind, Question::LogStart, 20), Step::RestartAt(Offset(20)));

        let mut within = out(&log);
        found(&mut within, Question::LogEnd, 8);
        assert_eq!(found(&mut within, Question::LogStart, 5), Step::Nothing, "goes on where it is");
        assert!(matches!(within.question(0, &log), Some(Question::Fetch(_))));

        let mut refused = out(&log);
        refused.offset_found(Question::LogEnd, Err(ErrorCode::KafkaStorageError), &log, 10, BACKOFF_MS);
        assert_eq!((refused.question(1_009, &log), refused.rests_until()), (None, Some(1_010)));
        let mut fenced = out(&log);
        fenced.offset_found(Question::LogEnd, Err(ErrorCode::FencedLeaderEpoch), &log, 10, BACKOFF_MS);
        assert_eq!(fenced.question(i64::MAX, &log), None);
    }

    #[test]
    fn an_answer_to_an_earlier_question_is_passed_over() {
        let mut follower = Follower::new(LeaderEpoch(4));
        let before = log(0, 3, 8, &[(0, 0)]);
        let asked = position(&mut follower, 0, &before);
        let cut = log(0, 3, 5, &[(0, 0)]);
        assert_eq!(follower.fetched(&asked, &answer(ErrorCode::None), &cut, 0, BACKOFF_MS), Step::Nothing);
        let mut later = Follower::new(LeaderEpoch(5));
        assert_eq!(later.fetched(&asked, &answer(ErrorCode::None), &before, 0, BACKOFF_MS), Step::Nothing);
        follower.rest(0, BACKOFF_MS);
        assert_eq!(follower.fetched(&asked, &answer(ErrorCode::None), &before, 0, BACKOFF_MS), Step::Nothing);
    }

    /// What it is, the follower's epochs and log end, the leader's answer, where the log is cut.
    type Parting<'a> = (&'a str, &'a [(i32, i64)], i64, (i32, i64), i64);

    #[test]
    fn a_diverging_log_is_cut_where_the_epochs_part() {
        let own: &[(i32, i64)] = &[(0, 0), (1, 5)];
        let cases: &[Parting<'_>] = &[
            ("an epoch nobody else wrote", own, 8, (0, 5), 5),
            ("the leader's epoch ended before ours did", own, 8, (1, 6), 6),
            ("ours ended before the leader's did", own, 8, (0, 7), 5),
            ("the leader names an epoch we do not have: the one below it ends first", &[(0, 0), (3, 4)], 8, (2, 6), 4),
            ("the leader has no such epoch at all", own, 8, (-1, 3), 3),
            ("our cache begins behind the leader's epoch", &[(3, 4)], 8, (2, 2), 2),
            ("we have no epochs", &[], 8, (2, 6), 6),
            ("the leader's log goes on beyond ours", own, 8, (1, 20), 8),
            ("the leader does not know an end", own, 8, (0, -1), 8),
            ("an epoch of ours without a record", &[(0, 0), (5, 8)], 8, (0, 8), 8),
        ];
        for (what, epochs, end, (epoch, leader_end), to) in cases {
            let log = log(0, 3, *end, epochs);
            let mut follower = Follower::new(LeaderEpoch(9));
            let asked = position(&mut follower, 0, &log);
            let step = follower.fetched(&asked, &diverging(*epoch, *leader_end), &log, 0, BACKOFF_MS);
            assert_eq!(step, Step::Truncate(Offset(*to)), "{what}");
        }
    }

    /// Leader {(0, 0), (2, 5)}, log end 9; follower {(0, 0), (1, 5)}, log end 8.
    #[test]
    fn two_histories_are_joined_where_they_part() {
        let leader = log(0, 5, 9, &[(0, 0), (2, 5)]);
        let mut follows = log(0, 5, 8, &[(0, 0), (1, 5)]);
        let mut follower = Follower::new(LeaderEpoch(2));
        let asked = position(&mut follower, 0, &follows);
        assert_eq!((asked.offset, asked.last_fetched_epoch), (Offset(8), LeaderEpoch(1)));
        let (epoch, end) = leader.end_offset_for_epoch(asked.last_fetched_epoch).unwrap();
        assert_eq!((epoch, end), (LeaderEpoch(0), Offset(5)));
        let step = follower.fetched(&asked, &diverging(epoch.0, end.0), &follows, 0, BACKOFF_MS);
        assert_eq!(step, Step::Truncate(Offset(5)));
        follows.epochs.truncate_from_end(Offset(5));
        follows.end = 5;
        let asked = position(&mut follower, 0, &follows);
        assert_eq!((asked.offset, asked.last_fetched_epoch), (Offset(5), LeaderEpoch(0)));
    }
}
