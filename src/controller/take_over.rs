//! Taking the office of controller from a suspect ([`crate::cluster::suspicion`]), whose session is not over.
//!
//! First `/controller_epoch` is read, then `/controller`; then one transaction sets the epoch, on the version that was read,
//! deletes the holder's node and makes one of this broker's own. The version of the epoch is what guards it: `/controller`
//! has version 0 in every hand, so a delete "of that version" removes whoever holds it by then. Nothing is deleted without
//! something put there in the same transaction: who lives behind a port that refuses would else elect itself again, and be
//! deleted again, for ever. For the same reason a broker tries once in each epoch.

use crate::cluster::suspicion::{Incarnation, Majority};
use crate::metastore::schema::{Controller, ControllerEpoch, paths};
use crate::metastore::{CreateMode, Error, MultiError, Op, OpResult};
use crate::types::BrokerId;

/// `/controller_epoch`, and then `/controller`, as read in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Office {
    pub epoch: i32,
    /// zkVersion of `/controller_epoch`.
    pub epoch_version: i32,
    /// `None` when nobody holds it.
    pub holder: Option<Holder>,
}

/// Who `/controller` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    pub id: BrokerId,
    /// Of the node.
    pub session: i64,
}

/// Why the office stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nobody holds it: an ordinary election is due.
    Vacant,
    /// Somebody else holds it, or the suspect in another session than that of its registration.
    NotTheSuspect,
    /// It was cleared since, or this broker is cut off.
    NotProven,
    /// This broker has tried in this epoch.
    Tried,
}

/// What the transaction came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// This broker is the controller, with this epoch and the version of its node.
    Won { epoch: i32, epoch_version: i32 },
    /// Somebody was elected since it was read.
    TooLate,
    /// The holder went by itself: an ordinary election is due.
    Vacant,
    /// The answer was lost: what `/controller` says now decides.
    Unknown,
    /// The metastore refused it otherwise; not tried again in this epoch.
    Failed,
}

/// One broker's attempts.
#[derive(Debug)]
pub struct TakeOver {
    me: BrokerId,
    /// Epoch of the last attempt.
    tried: Option<i32>,
}

impl TakeOver {
    pub fn new(me: BrokerId) -> TakeOver {
        TakeOver { me, tried: None }
    }

    /// The transaction that takes the office from `suspect`, which registered in `session`.
    ///
    /// `is_suspected` and `majority` are as they stand after `office` was read: who answered meanwhile keeps it.
    pub fn attempt(
        &mut self,
        office: Office,
        suspect: (Incarnation, i64),
        is_suspected: bool,
        majority: Majority,
        now_ms: i64,
    ) -> Result<Vec<Op>, Left> {
        let (suspect, session) = suspect;
        let holder = office.holder.ok_or(Left::Vacant)?;
        if holder.id == self.me || holder != (Holder { id: suspect.id, session }) {
            return Err(Left::NotTheSuspect);
        }
        if !is_suspected || !majority.is_connected() {
            return Err(Left::NotProven);
        }
        if self.tried.is_some_and(|tried| tried >= office.epoch) {
            return Err(Left::Tried);
        }
        self.tried = Some(office.epoch);
        let own = Controller { broker_id: self.me, timestamp_ms: now_ms, kraft_controller_epoch: -1 };
        let epoch = ControllerEpoch(office.epoch + 1).encode();
        let (path, data) = (paths::CONTROLLER, Some(own.encode()));
        Ok(vec![
            Op::Set { path: paths::CONTROLLER_EPOCH.into(), data: epoch, version: office.epoch_version },
            Op::Delete { path: path.into(), version: -1 },
            Op::Create { path: path.into(), data, mode: CreateMode::Ephemeral },
        ])
    }

    /// What the answer to [`TakeOver::attempt`]'s transaction means.
    pub fn outcome(office: Office, answer: Result<&[OpResult], &MultiError>) -> Taken {
        match answer {
            Ok([OpResult::Set(stat), ..]) => Taken::Won { epoch: office.epoch + 1, epoch_version: stat.version },
            Ok(_) => Taken::Unknown,
            Err(MultiError { error: Error::Unknown, .. }) => Taken::Unknown,
            Err(MultiError { index: 0, error: Error::BadVersion(_) }) => Taken::TooLate,
            Err(MultiError { index: 1, error: Error::NoNode(_) }) => Taken::Vacant,
            Err(_) => Taken::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::ManualClock;
    use crate::metastore::Metastore;
    use crate::metastore::embedded::EmbeddedStore;

    const MAJORITY: Majority = Majority { is_registered: true, registered: 4, connected: 3, suspected: 1 };

    fn who(id: i32) -> Incarnation {
        Incarnation { id: BrokerId(id), czxid: 100 + i64::from(id) }
    }

    async fn read(store: &dyn Metastore) -> Office {
        let (data, stat) = store.get(paths::CONTROLLER_EPOCH).await.unwrap();
        let epoch = ControllerEpoch::decode(paths::CONTROLLER_EPOCH, &data).unwrap().0;
        let holder = match store.get(paths::CONTROLLER).await {
            Ok((data, stat)) => Some(Holder {
                id: Controller::decode(paths::CONTROLLER, &data).unwrap().broker_id,
                session: stat.ephemeral_owner,
            }),
            Err(_) => None,
        };
        Office { epoch, epoch_version: stat.version, holder }
    }

    /// Broker 1 is the controller of epoch 7.
    async fn held() -> (Arc<EmbeddedStore>, Arc<dyn Metastore>) {
        let tree = EmbeddedStore::in_memory(Arc::new(ManualClock::at(1_000)));
        let former = tree.session();
        let own = Controller { broker_id: BrokerId(1), timestamp_ms: 0, kraft_controller_epoch: -1 };
        let epoch = Some(ControllerEpoch(7).encode());
        former.create(paths::CONTROLLER_EPOCH, epoch, CreateMode::Persistent).await.unwrap();
        former.create(paths::CONTROLLER, Some(own.encode()), CreateMode::Ephemeral).await.unwrap();
        (tree, former)
    }

    #[tokio::test(start_paused = true)]
    async fn of_three_takers_that_read_the_same_one_wins_and_stays() {
        let (tree, former) = held().await;
        let suspect = (who(1), former.session_id());
        let mut delayed = Vec::new();
        for id in 2..=4 {
            let session = tree.session();
            let office = read(&*session).await;
            let ops = TakeOver::new(BrokerId(id)).attempt(office, suspect, true, MAJORITY, 5).unwrap();
            delayed.push((session, office, ops));
        }
        let mut outcomes = Vec::new();
        for (session, office, ops) in &delayed {
            let answer = session.multi(ops.clone()).await;
            outcomes.push(TakeOver::outcome(*office, answer.as_deref()));
        }
        assert_eq!(outcomes, [Taken::Won { epoch: 8, epoch_version: 1 }, Taken::TooLate, Taken::TooLate]);
        let holder = Some(Holder { id: BrokerId(2), session: delayed[0].0.session_id() });
        assert_eq!(read(&*former).await, Office { epoch: 8, epoch_version: 1, holder });
    }

    /// `/controller` has version 0 in every hand.
    #[tokio::test(start_paused = true)]
    async fn a_delete_by_version_would_remove_who_has_just_won() {
        let (tree, former) = held().await;
        let suspect = (who(1), former.session_id());
        let mut takers = Vec::new();
        for id in 2..=3 {
            let session = tree.session();
            let office = read(&*session).await;
            let ops = TakeOver::new(BrokerId(id)).attempt(office, suspect, true, MAJORITY, 5).unwrap();
            let mut unguarded = ops[1..].to_vec();
            if let Some(Op::Delete { version, .. }) = unguarded.first_mut() {
                *version = 0;
            }
            takers.push((session, unguarded));
        }
        for (session, ops) in &takers {
            session.multi(ops.clone()).await.unwrap();
            assert_eq!(read(&*former).await.holder.map(|holder| holder.session), Some(session.session_id()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_holder_that_went_by_itself_is_followed_by_an_election() {
        let (tree, former) = held().await;
        let session = tree.session();
        let office = read(&*session).await;
        let suspect = (who(1), former.session_id());
        let ops = TakeOver::new(BrokerId(2)).attempt(office, suspect, true, MAJORITY, 5).unwrap();
        tree.expire(former.session_id()).await.unwrap();
        let answer = session.multi(ops).await;
        assert_eq!(TakeOver::outcome(office, answer.as_deref()), Taken::Vacant);
        assert_eq!(read(&*session).await, Office { epoch: 7, epoch_version: 0, holder: None });
    }

    #[test]
    fn the_office_is_left_where_it_is() {
        let holder = Some(Holder { id: BrokerId(1), session: 10 });
        let office = Office { epoch: 7, epoch_version: 3, holder };
        let suspect = (who(1), 10);
        let mut taker = TakeOver::new(BrokerId(2));
        let vacant = Office { holder: None, ..office };
        assert_eq!(taker.attempt(vacant, suspect, true, MAJORITY, 5), Err(Left::Vacant));
        assert_eq!(taker.attempt(office, (who(3), 10), true, MAJORITY, 5), Err(Left::NotTheSuspect));
        assert_eq!(taker.attempt(office, (who(1), 11), true, MAJORITY, 5), Err(Left::NotTheSuspect));
        assert_eq!(taker.attempt(office, suspect, false, MAJORITY, 5), Err(Left::NotProven));
        let cut_off = Majority { connected: 1, ..MAJORITY };
        assert_eq!(taker.attempt(office, suspect, true, cut_off, 5), Err(Left::NotProven));
        assert_eq!(TakeOver::new(BrokerId(1)).attempt(office, suspect, true, MAJORITY, 5), Err(Left::NotTheSuspect));
        assert!(taker.attempt(office, suspect, true, MAJORITY, 5).is_ok());
        assert_eq!(taker.attempt(office, suspect, true, MAJORITY, 5), Err(Left::Tried), "once in an epoch");
        assert!(taker.attempt(Office { epoch: 8, epoch_version: 4, holder }, suspect, true, MAJORITY, 5).is_ok());
    }
}
