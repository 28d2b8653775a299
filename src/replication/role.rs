//! What a broker is for one partition: leader with in-sync replicas and follower progress, or follower.
//!
//! A pure core: no log, no clock, no locks but those around a follower's progress. Rules: Kafka's `Partition` and
//! `Replica`; KIP-966's gate on the high watermark as released in 3.9.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::high_watermark::high_watermark;
use super::isr::{Confirmed, IsrState, Membership, Outcome, Proposal};
use super::table::LeaderAndIsr;
use crate::types::{BrokerId, LeaderEpoch, Offset};
use crate::wire::error_code::ErrorCode;

/// A partition's leadership as this broker last learned it.
#[derive(Debug)]
pub struct Role {
    pub leader: BrokerId,
    pub leader_epoch: LeaderEpoch,
    /// Assignment order.
    pub replicas: Vec<BrokerId>,
    /// `Some` on the leader.
    pub leading: Option<Leading>,
    /// The next leader epoch is about to begin at the log end, which must not move.
    changing: bool,
}

/// Why a partition takes no records here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotInCharge {
    /// Another leads, or this broker does in name alone.
    NotLeading,
    /// It leads, and its next leader epoch begins.
    Changing,
}

/// What only a leader knows.
#[derive(Debug)]
pub struct Leading {
    leader_epoch: LeaderEpoch,
    /// With a lock of its own: ISR changes and appends do not wait for each other.
    membership: Mutex<Membership>,
    /// Log end when this leader epoch began.
    pub epoch_start: Offset,
    followers: BTreeMap<BrokerId, Mutex<Progress>>,
    /// It is led in a later epoch already, of which the controller has not told yet.
    superseded: AtomicBool,
}

/// How far a follower got, from its fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Exclusive; -1 until its first fetch.
    pub log_end: Offset,
    pub log_start: Offset,
    /// Leader's log end at the previous fetch.
    last_fetch_leader_end: Offset,
    /// Monotonic ms; 0 = never.
    last_fetch_ms: i64,
    last_caught_up_ms: i64,
    /// From its fetches; -1 unknown.
    pub broker_epoch: i64,
}

/// One follower fetch, as recorded.
#[derive(Clone, Copy, Debug)]
pub struct FollowerFetch {
    pub id: BrokerId,
    pub broker_epoch: i64,
    pub offset: Offset,
    pub log_start: Offset,
    /// Leader's log end before the data was read.
    pub leader_end: Offset,
    /// Monotonic.
    pub now_ms: i64,
}

impl Progress {
    /// A follower of a leader that was not leader before: counts as caught up when it is in the ISR.
    fn unknown(in_isr: bool, now_ms: i64) -> Progress {
        Progress {
            log_end: Offset::NONE,
            log_start: Offset::NONE,
            last_fetch_leader_end: Offset::ZERO,
            last_fetch_ms: 0,
            last_caught_up_ms: if in_isr { now_ms } else { 0 },
            broker_epoch: -1,
        }
    }

    /// The leader was elected again: what the follower has is still known.
    fn kept(self, in_isr: bool, leader_end: Offset, now_ms: i64) -> Progress {
        let since = if in_isr { now_ms } else { 0 };
        Progress { last_fetch_leader_end: leader_end, last_fetch_ms: since, last_caught_up_ms: since, ..self }
    }

    /// True when its log starts later than before.
    fn record(&mut self, fetch: &FollowerFetch) -> bool {
        if fetch.offset >= fetch.leader_end {
            self.last_caught_up_ms = self.last_caught_up_ms.max(fetch.now_ms);
        } else if fetch.offset >= self.last_fetch_leader_end {
            self.last_caught_up_ms = self.last_caught_up_ms.max(self.last_fetch_ms);
        }
        self.log_end = fetch.offset;
        let log_start_rose = fetch.log_start > self.log_start;
        self.log_start = fetch.log_start;
        self.last_fetch_leader_end = fetch.leader_end;
        self.last_fetch_ms = fetch.now_ms;
        self.broker_epoch = self.broker_epoch.max(fetch.broker_epoch);
        log_start_rose
    }

    /// How long ago it was caught up, ms.
    pub fn behind_ms(&self, now_ms: i64) -> i64 {
        now_ms - self.last_caught_up_ms
    }

    /// Has all, or had it no longer ago than `lag_max_ms`.
    pub fn caught_up(&self, leader_end: Offset, now_ms: i64, lag_max_ms: i64) -> bool {
        self.log_end == leader_end || self.behind_ms(now_ms) <= lag_max_ms
    }
}

impl Role {
    /// A partition nobody leads yet.
    pub fn unknown() -> Role {
        Role {
            leader: BrokerId::NONE,
            leader_epoch: LeaderEpoch::NONE,
            replicas: Vec::new(),
            leading: None,
            changing: false,
        }
    }

    /// From now on nothing is appended, by a leader or a follower, until the next role begins or [`Role::keep`].
    pub fn change(&mut self) {
        self.changing = true;
    }

    pub fn is_changing(&self) -> bool {
        self.changing
    }

    /// The role stays.
    pub fn keep(&mut self) {
        self.changing = false;
    }

    /// Who takes records, if that is this broker.
    pub fn in_charge(&self) -> Result<&Leading, NotInCharge> {
        match self.leading.as_ref().filter(|leading| !leading.is_superseded()) {
            Some(_) if self.changing => Err(NotInCharge::Changing),
            Some(leading) => Ok(leading),
            None => Err(NotInCharge::NotLeading),
        }
    }

    /// Whether the log follows that of the leader of `epoch`.
    pub fn follows_in(&self, epoch: LeaderEpoch) -> bool {
        self.leading.is_none() && !self.changing && self.leader_epoch == epoch
    }

    /// Takes the leadership `change` gives to `me`. True when the leader epoch rose: the epoch cache must then have noted
    /// that it begins at `log_end`.
    pub fn lead(&mut self, me: BrokerId, change: &LeaderAndIsr, log_end: Offset, now_ms: i64) -> bool {
        let rose = change.leader_epoch > self.leader_epoch;
        let before = self.leading.take();
        let epoch_start = match &before {
            Some(leading) if !rose => leading.epoch_start,
            _ => log_end,
        };
        let followers = change.replicas.iter().filter(|id| **id != me).map(|id| {
            let in_isr = change.isr.contains(id);
            let progress = match before.as_ref().and_then(|leading| leading.progress(*id)) {
                Some(known) => known.kept(in_isr, log_end, now_ms),
                None => Progress::unknown(in_isr, now_ms),
            };
            (*id, Mutex::new(progress))
        });
        let isr = IsrState::Committed(change.isr.clone());
        let leading = Leading {
            leader_epoch: change.leader_epoch,
            membership: Mutex::new(Membership { isr, partition_epoch: change.partition_epoch }),
            epoch_start,
            followers: followers.collect(),
            superseded: AtomicBool::new(false),
        };
        self.adopt(change);
        self.leading = Some(leading);
        rose
    }

    /// Follows whom `change` names (nobody, when it names none).
    pub fn follow(&mut self, change: &LeaderAndIsr) {
        self.adopt(change);
        self.leading = None;
    }

    fn adopt(&mut self, change: &LeaderAndIsr) {
        self.changing = false;
        self.leader = change.leader;
        self.leader_epoch = change.leader_epoch;
        self.replicas.clone_from(&change.replicas);
    }

    /// FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, then NOT_LEADER_OR_FOLLOWER: an epoch says more than a role.
    pub fn check(&self, current: LeaderEpoch, only_leader: bool) -> Result<(), ErrorCode> {
        if current != LeaderEpoch::NONE && current < self.leader_epoch {
            return Err(ErrorCode::FencedLeaderEpoch);
        }
        if current != LeaderEpoch::NONE && current > self.leader_epoch {
            return Err(ErrorCode::UnknownLeaderEpoch);
        }
        if only_leader && self.leading.is_none() {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        Ok(())
    }

    /// `min.insync.replicas`, or the number of replicas where that is smaller (seen on a live 3.9.1: 3 of 2 is met by 2).
    pub fn effective_min_isr(&self, min_insync_replicas: i32) -> usize {
        usize::try_from(min_insync_replicas).unwrap_or(0).min(self.replicas.len())
    }
}

impl Leading {
    /// The committed ISR.
    pub fn isr(&self) -> Vec<BrokerId> {
        self.membership.lock().isr.committed().clone()
    }

    /// Members of the committed ISR.
    pub fn in_sync(&self) -> usize {
        self.membership.lock().isr.committed().len()
    }

    /// Members of the maximal ISR.
    pub fn at_most_in_sync(&self) -> usize {
        self.membership.lock().isr.maximal_len()
    }

    /// Leads in name alone.
    pub fn is_superseded(&self) -> bool {
        self.superseded.load(Ordering::Acquire)
    }

    /// Leads in name alone from now on. Whether it did before.
    pub fn supersede(&self) -> bool {
        self.superseded.swap(true, Ordering::AcqRel)
    }

    /// Whether `follower` is in the committed ISR.
    pub fn has_in_sync(&self, follower: BrokerId) -> bool {
        self.membership.lock().isr.committed().contains(&follower)
    }

    /// How long ago the follower in the committed ISR that is silent longest has fetched, or this role began, ms.
    pub fn silent_ms(&self, now_ms: i64) -> i64 {
        let membership = self.membership.lock();
        let followers = membership.isr.committed().iter().filter_map(|id| self.progress(*id));
        followers.map(|it| now_ms - it.last_fetch_ms.max(it.last_caught_up_ms)).max().unwrap_or(0)
    }

    /// The state as known, and whether a change is in flight.
    pub fn membership(&self) -> Membership {
        self.membership.lock().clone()
    }

    /// Whether `follower` is no member and no change is in flight.
    pub fn may_be_joined_by(&self, follower: BrokerId) -> bool {
        let membership = self.membership.lock();
        !membership.isr.in_flight() && !membership.isr.committed().contains(&follower)
    }

    /// The ISR with `follower`, when it may join: all below `high_watermark` and the start of this leader epoch is there,
    /// and no change is in flight. Whether the broker lives in the epoch it fetches in is the caller's to check.
    pub fn propose_joining(&self, follower: BrokerId, high_watermark: Offset) -> Option<Proposal> {
        // KIP-207: until everything from before this epoch is committed, its end counts, not the mark, which may lag.
        self.propose_with(follower, high_watermark.max(self.epoch_start))
    }

    /// The ISR with `follower`, when it has everything below `needed`.
    pub(crate) fn propose_with(&self, follower: BrokerId, needed: Offset) -> Option<Proposal> {
        if self.progress(follower)?.log_end < needed {
            return None;
        }
        let mut membership = self.membership.lock();
        let isr = membership.isr.propose_adding(follower)?;
        Some(Proposal { leader_epoch: self.leader_epoch, partition_epoch: membership.partition_epoch, isr })
    }

    /// The ISR without those that have not been caught up for longer than `lag_max_ms`, when there are any and no change
    /// is in flight.
    pub fn propose_leaving(&self, local_end: Offset, now_ms: i64, lag_max_ms: i64) -> Option<Proposal> {
        let mut membership = self.membership.lock();
        let behind = |id: &BrokerId| self.progress(*id).is_some_and(|it| !it.caught_up(local_end, now_ms, lag_max_ms));
        let leaving: Vec<BrokerId> = membership.isr.committed().iter().copied().filter(behind).collect();
        let isr = membership.isr.propose_removing(&leaving)?;
        Some(Proposal { leader_epoch: self.leader_epoch, partition_epoch: membership.partition_epoch, isr })
    }

    /// The controller's answer to a proposal.
    pub fn answered(&self, proposal: &Proposal, answer: Result<Confirmed, ErrorCode>) -> Outcome {
        self.membership.lock().answered(self.leader_epoch, proposal, answer)
    }

    /// Those of the committed ISR that hold `offset` or await it next.
    pub fn in_sync_at(&self, offset: Offset) -> impl Iterator<Item = (BrokerId, Progress)> + '_ {
        let known = self.isr().into_iter().filter_map(|id| Some((id, self.progress(id)?)));
        known.filter(move |(_, progress)| progress.log_start <= offset && offset <= progress.log_end)
    }

    pub fn progress(&self, follower: BrokerId) -> Option<Progress> {
        self.followers.get(&follower).map(|progress| *progress.lock())
    }

    /// Records a fetch; true when the follower's log starts later than before. A broker that is no replica, or whose
    /// earlier life is fetching, is NOT_LEADER_OR_FOLLOWER (UNKNOWN_LEADER_EPOCH for the former where the request named an
    /// epoch: the caller's part).
    pub fn record(&self, fetch: &FollowerFetch) -> Result<bool, ErrorCode> {
        let mut progress = self.followers.get(&fetch.id).ok_or(ErrorCode::NotLeaderOrFollower)?.lock();
        if fetch.broker_epoch >= 0 && fetch.broker_epoch < progress.broker_epoch {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        Ok(progress.record(fetch))
    }

    /// Where the high watermark belongs. Stays while the committed ISR is below `effective_min_isr`.
    ///
    /// Counted are the maximal ISR and every follower that is caught up by time and `eligible` with the broker epoch it
    /// fetches in: it is about to join, and waiting for it now keeps it from joining with a log end below the mark.
    pub fn high_watermark(
        &self,
        current: Offset,
        local_end: Offset,
        effective_min_isr: usize,
        now_ms: i64,
        lag_max_ms: i64,
        eligible: impl Fn(BrokerId, i64) -> bool,
    ) -> Offset {
        let membership = self.membership.lock();
        if membership.isr.committed().len() < effective_min_isr {
            return current;
        }
        let counted = self.followers.iter().filter_map(|(id, progress)| {
            let progress = progress.lock();
            let counts = membership.isr.maximal().any(|member| member == *id)
                || (progress.last_fetch_ms > 0
                    && progress.caught_up(local_end, now_ms, lag_max_ms)
                    && eligible(*id, progress.broker_epoch));
            counts.then_some(progress.log_end)
        });
        high_watermark(current, counted.chain([local_end]))
    }

    /// Smallest log start of the leader (`local_start`) and its `alive` followers.
    pub fn low_watermark(&self, local_start: Offset, alive: impl Fn(BrokerId) -> bool) -> Offset {
        let starts = self.followers.iter().filter(|(id, _)| alive(**id)).map(|(_, progress)| progress.lock().log_start);
        starts.chain([local_start]).min().unwrap_or(local_start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{TopicId, TopicPartition};

    const LAG_MAX_MS: i64 = 30_000;

    fn ids(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    fn change(leader: i32, leader_epoch: i32, isr: &[i32], replicas: &[i32]) -> LeaderAndIsr {
        LeaderAndIsr {
            tp: TopicPartition::new("t", 0),
            topic_id: TopicId::ZERO,
            controller_epoch: 1,
            leader: BrokerId(leader),
            leader_epoch: LeaderEpoch(leader_epoch),
            isr: ids(isr),
            partition_epoch: leader_epoch,
            replicas: ids(replicas),
            adding_replicas: Vec::new(),
            removing_replicas: Vec::new(),
            is_new: false,
            recovering: false,
        }
    }

    fn leader(isr: &[i32], replicas: &[i32], log_end: i64) -> Role {
        let mut role = Role::unknown();
        assert!(role.lead(BrokerId(1), &change(1, 0, isr, replicas), Offset(log_end), 1000));
        role
    }

    fn fetch(id: i32, offset: i64, leader_end: i64, now_ms: i64) -> FollowerFetch {
        FollowerFetch {
            id: BrokerId(id),
            broker_epoch: -1,
            offset: Offset(offset),
            log_start: Offset::ZERO,
            leader_end: Offset(leader_end),
            now_ms,
        }
    }

    fn mark(role: &Role, current: i64, end: i64, min_isr: i32, now_ms: i64) -> i64 {
        let leading = role.leading.as_ref().expect("leads");
        leading
            .high_watermark(
                Offset(current),
                Offset(end),
                role.effective_min_isr(min_isr),
                now_ms,
                LAG_MAX_MS,
                |_, _| true,
            )
            .0
    }

    #[test]
    fn a_sole_member_commits_by_itself() {
        let role = leader(&[1], &[1], 0);
        assert_eq!(mark(&role, 0, 7, 1, 1000), 7);
    }

    #[test]
    fn the_mark_waits_for_every_member_of_the_isr() {
        let role = leader(&[1, 2, 3], &[1, 2, 3], 0);
        assert_eq!(mark(&role, 0, 10, 1, 1000), 0);
        let leading = role.leading.as_ref().expect("leads");
        leading.record(&fetch(2, 10, 10, 1001)).expect("a replica");
        assert_eq!(mark(&role, 0, 10, 1, 1001), 0);
        leading.record(&fetch(3, 8, 10, 1002)).expect("a replica");
        assert_eq!(mark(&role, 0, 10, 1, 1002), 8);
    }

    #[test]
    fn the_mark_waits_for_a_replica_about_to_join() {
        let role = leader(&[1], &[1, 2], 0);
        let leading = role.leading.as_ref().expect("leads");
        assert_eq!(mark(&role, 0, 4, 1, 1000), 4, "never fetched: does not count");
        leading.record(&fetch(2, 4, 4, 2000)).expect("a replica");
        assert_eq!(mark(&role, 4, 6, 1, 2001), 4, "was caught up a moment ago: counts");
        assert_eq!(mark(&role, 4, 6, 1, 2000 + LAG_MAX_MS + 1), 6, "fell behind: no longer counts");
    }

    #[test]
    fn who_has_all_may_join_and_who_falls_behind_leaves() {
        let role = leader(&[1, 2], &[1, 2, 3], 6);
        let leading = role.leading.as_ref().expect("leads");
        leading.record(&fetch(2, 9, 9, 2000)).expect("a replica");
        leading.record(&fetch(3, 5, 9, 2000)).expect("a replica");
        assert_eq!(leading.propose_joining(BrokerId(3), Offset(4)), None, "below the start of the epoch");
        leading.record(&fetch(3, 7, 9, 2000)).expect("a replica");
        assert_eq!(leading.propose_joining(BrokerId(3), Offset(8)), None, "below the high watermark");
        assert_eq!(leading.propose_joining(BrokerId(2), Offset(0)), None, "a member");
        let joining = leading.propose_joining(BrokerId(3), Offset(7)).expect("has all");
        assert_eq!((&joining.isr, joining.partition_epoch), (&ids(&[1, 2, 3]), 0));
        assert_eq!(leading.propose_leaving(Offset(9), i64::MAX, 0), None, "one change at a time");
        let confirmed = Confirmed { leader_epoch: LeaderEpoch(0), partition_epoch: 1, isr: joining.isr.clone() };
        assert_eq!(leading.answered(&joining, Ok(confirmed)), Outcome::Settled);
        assert_eq!(leading.isr(), ids(&[1, 2, 3]));
        assert_eq!(leading.propose_leaving(Offset(9), LAG_MAX_MS, LAG_MAX_MS), None);
        leading.record(&fetch(2, 9, 9, 2001)).expect("a replica");
        let leaving = leading.propose_leaving(Offset(10), 2001 + LAG_MAX_MS, LAG_MAX_MS).expect("one is behind");
        assert_eq!((leaving.isr, leaving.partition_epoch), (ids(&[1, 2]), 1));
    }

    #[test]
    fn the_mark_does_not_wait_for_who_may_not_join() {
        let role = leader(&[1], &[1, 2], 0);
        let leading = role.leading.as_ref().expect("leads");
        leading.record(&FollowerFetch { broker_epoch: 7, ..fetch(2, 4, 4, 2000) }).expect("a replica");
        let mark = |alive| leading.high_watermark(Offset(4), Offset(6), 1, 2001, LAG_MAX_MS, |_, epoch| epoch == alive);
        assert_eq!((mark(7), mark(8)), (Offset(4), Offset(6)));
    }

    #[test]
    fn below_min_isr_nothing_is_committed() {
        let role = leader(&[1], &[1, 2, 3], 0);
        assert_eq!(mark(&role, 0, 5, 2, 1000), 0);
        assert_eq!(role.effective_min_isr(9), 3);
    }

    #[test]
    fn a_fetch_from_an_earlier_life_is_refused() {
        let role = leader(&[1], &[1, 2], 0);
        let leading = role.leading.as_ref().expect("leads");
        leading.record(&FollowerFetch { broker_epoch: 7, ..fetch(2, 0, 0, 1) }).expect("a replica");
        let stale = FollowerFetch { broker_epoch: 6, ..fetch(2, 0, 0, 2) };
        assert_eq!(leading.record(&stale), Err(ErrorCode::NotLeaderOrFollower));
        assert_eq!(leading.record(&fetch(9, 0, 0, 2)), Err(ErrorCode::NotLeaderOrFollower));
    }

    #[test]
    fn the_epoch_begins_where_the_log_ended_and_stays_when_only_the_isr_changes() {
        let mut role = leader(&[1], &[1, 2], 5);
        assert!(!role.lead(BrokerId(1), &change(1, 0, &[1, 2], &[1, 2]), Offset(9), 2000));
        assert_eq!(role.leading.as_ref().map(|leading| leading.epoch_start), Some(Offset(5)));
        assert!(role.lead(BrokerId(1), &change(1, 1, &[1, 2], &[1, 2]), Offset(9), 2000));
        assert_eq!(role.leading.as_ref().map(|leading| leading.epoch_start), Some(Offset(9)));
    }

    #[test]
    fn the_epoch_is_checked_before_the_role() {
        let mut role = leader(&[1], &[1], 0);
        role.follow(&change(2, 4, &[2], &[1, 2]));
        assert_eq!(role.check(LeaderEpoch(3), true), Err(ErrorCode::FencedLeaderEpoch));
        assert_eq!(role.check(LeaderEpoch(5), true), Err(ErrorCode::UnknownLeaderEpoch));
        assert_eq!(role.check(LeaderEpoch(4), true), Err(ErrorCode::NotLeaderOrFollower));
        assert_eq!(role.check(LeaderEpoch::NONE, true), Err(ErrorCode::NotLeaderOrFollower));
        assert_eq!(role.check(LeaderEpoch(4), false), Ok(()));
    }
}
