//! What a broker that was killed left in the metastore, and what its next life has to wait for.
//!
//! ZooKeeper keeps a dead broker's ephemeral nodes until its session is over. Who knows for certain that the process is
//! dead removes them and need not wait. But it must not be back before anybody saw that it was gone: its log may have lost
//! its end, and a controller that never missed it would go on in the same leader epoch, in which followers cut off what was
//! committed. So it registers when no ISR counts on it any more.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use tokio::time::{Instant, timeout_at};

use super::registration::registered;
use super::session::until_known;
use crate::metastore::schema::{ControllerEpoch, PartitionState, TopicAssignment, paths};
use crate::metastore::{Error, Metastore, Op, Watch};
use crate::types::{BrokerId, TopicPartition};

/// What a start read of the topics while nobody was registered under the broker's id, so that it need not read it again.
pub struct Replicas {
    /// Those with others beside the one on this broker.
    pub partitions: Vec<TopicPartition>,
    /// Fires when somebody registers: what ISRs have counted on since was not read.
    pub registered: Watch,
}

impl Replicas {
    fn still(self) -> Option<Vec<TopicPartition>> {
        self.registered.now_or_never().is_none().then_some(self.partitions)
    }
}

/// Fires when somebody registers as `broker`; `None` when somebody is.
pub async fn absence(store: &dyn Metastore, broker: BrokerId) -> Result<Option<Watch>, Error> {
    let path = paths::broker(broker);
    let (there, change) = until_known(store, || store.exists_watch(&path)).await?;
    Ok(there.is_none().then_some(change))
}

/// Partitions of the topic with a replica on `broker`, and others.
pub fn replicated_on(
    broker: BrokerId,
    topic: &Arc<str>,
    assignment: &TopicAssignment,
) -> impl Iterator<Item = TopicPartition> {
    let ours =
        assignment.partitions.iter().filter(move |(_, of)| of.replicas.len() > 1 && of.replicas.contains(&broker));
    ours.map(|(index, _)| TopicPartition::new(Arc::clone(topic), *index))
}

/// Reads under way at once.
const IN_FLIGHT: usize = 64;

/// Removes the registration of `broker` and `/controller` where `dead`, a session whose process is dead, owns them.
pub async fn end_former_life(store: &dyn Metastore, broker: BrokerId, dead: i64) -> Result<(), Error> {
    let path = paths::broker(broker);
    if registered(store, broker).await?.is_some_and(|stat| stat.ephemeral_owner == dead) {
        tracing::warn!(
            %broker,
            session = dead,
            "this broker's last life is over, its session is not: its lock was free, its registration is removed"
        );
        match until_known(store, || store.delete(&path, -1)).await {
            Ok(()) | Err(Error::NoNode(_)) => {}
            Err(error) => return Err(error),
        }
    }
    remove_controller(store, dead).await
}

/// With a higher controller epoch in the same transaction: that `/controller` and no other goes, and what its owner sent
/// with its last breath comes too late. The next one is elected by whoever is there.
async fn remove_controller(store: &dyn Metastore, dead: i64) -> Result<(), Error> {
    loop {
        let (data, stat) = match until_known(store, || store.get(paths::CONTROLLER_EPOCH)).await {
            Ok(read) => read,
            Err(Error::NoNode(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let holder = until_known(store, || store.exists(paths::CONTROLLER)).await?;
        if holder.is_none_or(|holder| holder.ephemeral_owner != dead) {
            return Ok(());
        }
        let epoch = ControllerEpoch::decode(paths::CONTROLLER_EPOCH, &data);
        let ControllerEpoch(epoch) = epoch.map_err(|error| Error::Other(error.to_string()))?;
        let next = ControllerEpoch(epoch.saturating_add(1)).encode();
        let ops = vec![
            Op::Set { path: paths::CONTROLLER_EPOCH.into(), data: next, version: stat.version },
            Op::Delete { path: paths::CONTROLLER.into(), version: -1 },
        ];
        match store.multi(ops).await.map_err(|failed| failed.error) {
            Ok(_) => {
                tracing::warn!(session = dead, epoch = epoch + 1, "it was the controller: the office is free");
                return Ok(());
            }
            // Somebody was elected meanwhile, or a try whose reply was lost has done it: read again.
            Err(Error::BadVersion(_) | Error::NoNode(_)) => {}
            Err(Error::Unknown) => super::session::settle(store).await,
            Err(error) => return Err(error),
        }
    }
}

/// Returns when no partition with more than one member in its ISR counts on `broker`, when no other broker is registered
/// that could be misled, or after `limit`. Nobody is registered as `broker`. Topics that are being deleted stay as they are:
/// no ISR of theirs changes any more.
pub async fn await_out_of_isrs(
    store: &dyn Metastore,
    broker: BrokerId,
    mut read: Option<Replicas>,
    limit: Duration,
) -> Result<(), Error> {
    let deadline = Instant::now() + limit;
    let mut candidates = None;
    loop {
        until_known(store, || store.sync("/")).await?;
        let (brokers, brokers_change) = until_known(store, || store.children_watch(paths::BROKER_IDS)).await?;
        let own = broker.to_string();
        if brokers.iter().all(|name| *name == own) {
            return Ok(());
        }
        let asked = match candidates.take() {
            Some(partitions) => partitions,
            None => {
                let doomed = children(store, paths::DELETE_TOPICS).await?;
                let mut partitions = match read.take().and_then(Replicas::still) {
                    Some(partitions) => partitions,
                    None => replicas_of(store, broker).await?,
                };
                partitions.retain(|tp| !doomed.iter().any(|topic| **topic == *tp.topic));
                partitions
            }
        };
        let counted_on = counted_on(store, broker, asked).await?;
        let Some(first) = counted_on.first() else { return Ok(()) };
        let Some(change) = watch_while_counted_on(store, broker, first).await? else {
            candidates = Some(counted_on);
            continue;
        };
        tracing::info!(%broker, partitions = counted_on.len(), %first, "ISRs count on the last life of this broker");
        let changed = async {
            tokio::select! { biased; () = brokers_change => {}, () = change => {} }
        };
        if timeout_at(deadline, changed).await.is_err() {
            tracing::warn!(%broker, partitions = counted_on.len(), %first, "no controller took it out of ISRs in time");
            return Ok(());
        }
        candidates = Some(counted_on);
    }
}

async fn replicas_of(store: &dyn Metastore, broker: BrokerId) -> Result<Vec<TopicPartition>, Error> {
    let topics = children(store, paths::TOPICS).await?;
    let read = topics.into_iter().map(|name| async move {
        let path = paths::topic(&name);
        let assignment = match until_known(store, || store.get(&path)).await {
            // Whoever may lead it cannot read it either.
            Ok((data, _)) => TopicAssignment::decode(&path, &data).ok(),
            Err(Error::NoNode(_)) => None,
            Err(error) => return Err(error),
        };
        Ok((Arc::from(name), assignment))
    });
    let mut found = Vec::new();
    let mut read = stream::iter(read).buffered(IN_FLIGHT);
    while let Some(topic) = read.next().await {
        let (name, assignment): (Arc<str>, Option<TopicAssignment>) = topic?;
        found.extend(assignment.iter().flat_map(|assignment| replicated_on(broker, &name, assignment)));
    }
    Ok(found)
}

/// None of a node that is not there.
async fn children(store: &dyn Metastore, path: &str) -> Result<Vec<String>, Error> {
    match until_known(store, || store.children(path)).await {
        Err(Error::NoNode(_)) => Ok(Vec::new()),
        read => read,
    }
}

async fn counted_on(
    store: &dyn Metastore,
    broker: BrokerId,
    partitions: Vec<TopicPartition>,
) -> Result<Vec<TopicPartition>, Error> {
    let read = partitions.into_iter().map(|tp| async move {
        let path = paths::partition_state(&tp.topic, tp.partition);
        match until_known(store, || store.get(&path)).await {
            Ok((data, _)) => Ok(counts_on(broker, &path, &data).then_some(tp)),
            Err(Error::NoNode(_)) => Ok(None),
            Err(error) => Err(error),
        }
    });
    let mut read = stream::iter(read).buffered(IN_FLIGHT);
    let mut found = Vec::new();
    while let Some(tp) = read.next().await {
        found.extend(tp?);
    }
    Ok(found)
}

/// Fires when the partition's state changes; `None` when `broker` is not counted on any more.
async fn watch_while_counted_on(
    store: &dyn Metastore,
    broker: BrokerId,
    tp: &TopicPartition,
) -> Result<Option<Watch>, Error> {
    let path = paths::partition_state(&tp.topic, tp.partition);
    match until_known(store, || store.get_watch(&path)).await {
        Ok((data, _, change)) => Ok(counts_on(broker, &path, &data).then_some(change)),
        Err(Error::NoNode(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The last member of an ISR is never taken out.
fn counts_on(broker: BrokerId, path: &str, state: &[u8]) -> bool {
    PartitionState::decode(path, state).is_ok_and(|state| state.isr.len() > 1 && state.isr.contains(&broker))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::cluster::ensure_path;
    use crate::metastore::CreateMode;
    use crate::metastore::embedded::EmbeddedStore;
    use crate::metastore::schema::ReplicaAssignment;
    use crate::types::LeaderEpoch;

    const ME: BrokerId = BrokerId(1);
    const LIMIT: Duration = Duration::from_secs(18);

    async fn tree() -> Arc<EmbeddedStore> {
        let tree = EmbeddedStore::in_memory(Arc::new(ManualClock::at(0)));
        for path in [paths::BROKER_IDS, paths::TOPICS, paths::DELETE_TOPICS] {
            ensure_path(&*tree.session(), path).await.unwrap();
        }
        tree
    }

    async fn create(store: &dyn Metastore, path: &str, data: &[u8], mode: CreateMode) {
        store.create(path, Some(data.to_vec().into()), mode).await.unwrap();
    }

    fn state(isr: &[i32]) -> PartitionState {
        PartitionState {
            leader: BrokerId(isr[0]),
            leader_epoch: LeaderEpoch(0),
            controller_epoch: 1,
            isr: isr.iter().copied().map(BrokerId).collect(),
            recovering: false,
        }
    }

    /// Topic `t` with a partition on 1 and 2 for each ISR.
    async fn topic(store: &dyn Metastore, isrs: &[&[i32]]) {
        let of = |_: &&[i32]| ReplicaAssignment { replicas: vec![ME, BrokerId(2)], adding: vec![], removing: vec![] };
        let partitions = (0..).zip(isrs.iter().map(of)).collect();
        let assignment = TopicAssignment { id: None, partitions };
        create(store, &paths::topic("t"), &assignment.encode(), CreateMode::Persistent).await;
        for (index, isr) in (0..).zip(isrs) {
            ensure_path(store, &paths::partition("t", index)).await.unwrap();
            let path = paths::partition_state("t", index);
            create(store, &path, &state(isr).encode(), CreateMode::Persistent).await;
        }
    }

    async fn set_isr(store: &dyn Metastore, partition: i32, isr: &[i32]) {
        store.set(&paths::partition_state("t", partition), state(isr).encode(), -1).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_the_dead_session_owns_is_removed() {
        let tree = tree().await;
        let (dead, other, store) = (tree.session(), tree.session(), tree.session());
        create(&*store, paths::CONTROLLER_EPOCH, b"7", CreateMode::Persistent).await;
        create(&*other, &paths::broker(ME), b"", CreateMode::Ephemeral).await;
        create(&*other, paths::CONTROLLER, b"", CreateMode::Ephemeral).await;
        end_former_life(&*store, ME, dead.session_id()).await.unwrap();
        assert!(store.exists(&paths::broker(ME)).await.unwrap().is_some());
        assert!(store.exists(paths::CONTROLLER).await.unwrap().is_some());
        assert_eq!(&store.get(paths::CONTROLLER_EPOCH).await.unwrap().0[..], b"7");

        end_former_life(&*store, ME, other.session_id()).await.unwrap();
        assert!(store.exists(&paths::broker(ME)).await.unwrap().is_none());
        assert!(store.exists(paths::CONTROLLER).await.unwrap().is_none());
        assert_eq!(&store.get(paths::CONTROLLER_EPOCH).await.unwrap().0[..], b"8");
    }

    #[tokio::test(start_paused = true)]
    async fn it_waits_until_no_isr_counts_on_it() {
        let tree = tree().await;
        let (two, store) = (tree.session(), tree.session());
        create(&*two, &paths::broker(BrokerId(2)), b"", CreateMode::Ephemeral).await;
        topic(&*store, &[&[2, 1], &[1], &[2], &[1, 2]]).await;
        let waited = tokio::spawn({
            let store = tree.session();
            async move { await_out_of_isrs(&*store, ME, None, LIMIT).await }
        });
        for (partition, isr) in [(3, [2]), (0, [2])] {
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert!(!waited.is_finished(), "partition {partition} counts on it");
            set_isr(&*store, partition, &isr).await;
        }
        let begun = Instant::now();
        waited.await.unwrap().unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO, "the last change is the end of it");
    }

    #[tokio::test(start_paused = true)]
    async fn it_waits_for_nobody_when_alone_and_never_longer_than_a_session() {
        let tree = tree().await;
        let (one, two, store) = (tree.session(), tree.session(), tree.session());
        create(&*one, &paths::broker(ME), b"", CreateMode::Ephemeral).await;
        topic(&*store, &[&[2, 1]]).await;
        let begun = Instant::now();
        await_out_of_isrs(&*store, ME, None, LIMIT).await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO, "nobody could be misled");

        create(&*two, &paths::broker(BrokerId(2)), b"", CreateMode::Ephemeral).await;
        await_out_of_isrs(&*store, ME, None, LIMIT).await.unwrap();
        assert_eq!(begun.elapsed(), LIMIT);

        let waiting = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(two);
        };
        let (waited, ()) = tokio::join!(await_out_of_isrs(&*store, ME, None, LIMIT), waiting);
        waited.unwrap();
        assert_eq!(begun.elapsed(), LIMIT + Duration::from_secs(1), "the last other broker went");
    }

    #[tokio::test(start_paused = true)]
    async fn nonsense_and_topics_being_deleted_hold_nobody_up() {
        let tree = tree().await;
        let (two, store) = (tree.session(), tree.session());
        create(&*two, &paths::broker(BrokerId(2)), b"", CreateMode::Ephemeral).await;
        topic(&*store, &[&[2, 1]]).await;
        create(&*store, &paths::topic("odd"), b"{", CreateMode::Persistent).await;
        create(&*store, &paths::delete_topic("t"), b"", CreateMode::Persistent).await;
        let begun = Instant::now();
        await_out_of_isrs(&*store, ME, None, LIMIT).await.unwrap();
        store.delete(&paths::delete_topic("t"), -1).await.unwrap();
        store.set(&paths::partition_state("t", 0), b"nonsense".to_vec().into(), -1).await.unwrap();
        await_out_of_isrs(&*store, ME, None, LIMIT).await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
    /// What was read before is as good as what is read now, until somebody was registered in between.
    #[tokio::test(start_paused = true)]
    async fn what_was_read_counts_until_somebody_registers() {
        let tree = tree().await;
        let (one, two, store) = (tree.session(), tree.session(), tree.session());
        create(&*two, &paths::broker(BrokerId(2)), b"", CreateMode::Ephemeral).await;
        topic(&*store, &[&[2, 1], &[2, 1]]).await;
        let read = async |partitions: &[i32]| Replicas {
            partitions: partitions.iter().map(|index| TopicPartition::new("t", *index)).collect(),
            registered: absence(&*store, ME).await.unwrap().unwrap(),
        };
        let begun = Instant::now();
        // It is believed: a partition that is not named is not looked at.
        await_out_of_isrs(&*store, ME, Some(read(&[]).await), LIMIT).await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO);
        await_out_of_isrs(&*store, ME, Some(read(&[1]).await), LIMIT).await.unwrap();
        assert_eq!(begun.elapsed(), LIMIT);
        let before = read(&[]).await;
        create(&*one, &paths::broker(ME), b"", CreateMode::Ephemeral).await;
        assert!(absence(&*store, ME).await.unwrap().is_none());
        store.delete(&paths::broker(ME), -1).await.unwrap();
        await_out_of_isrs(&*store, ME, Some(before), LIMIT).await.unwrap();
        assert_eq!(begun.elapsed(), 2 * LIMIT, "the other life may have joined any ISR");
    }
}
