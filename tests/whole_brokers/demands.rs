//! What is demanded once nothing is broken any more: it all becomes whole, within simulated time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use klamm::metastore::schema::paths;
use tokio::time::{Instant, sleep};

use crate::admin::Admin;
use crate::cluster::Cluster;
use crate::dump;
use crate::group;
use crate::producer::Producer;
use crate::stage::{PARTITIONS, Stage, TOPIC};

/// How long it may take until all is in sync.
const WHOLE: Duration = Duration::from_secs(120);
const SOON: Duration = Duration::from_secs(60);

/// Everybody runs, every replica is in sync, nothing is pending, and all brokers say the same.
pub async fn whole(stage: &Arc<Stage>, cluster: &mut Cluster, admin: &mut Admin) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        cluster.tend().await;
        for id in 1..=stage.brokers {
            cluster.start_broker(id);
        }
        let is_whole = match cluster.is_any_stopping() {
            // Who is about to end says nothing of that.
            true => Err("somebody was asked to end".to_owned()),
            false => is_whole(stage, admin).await,
        };
        match is_whole {
            Ok(()) => return Ok(()),
            Err(why) if begun.elapsed() > WHOLE => {
                return Err(format!("not whole within {} s: {why}", WHOLE.as_secs()));
            }
            Err(_) => sleep(Duration::from_millis(300)).await,
        }
    }
}

async fn is_whole(stage: &Stage, admin: &mut Admin) -> Result<(), String> {
    let ids = stage.names(paths::BROKER_IDS).await;
    if ids.len() != stage.brokers as usize {
        return Err(format!("registered are {ids:?}"));
    }
    for path in [paths::DELETE_TOPICS, paths::REASSIGN_PARTITIONS] {
        let pending = stage.names(path).await;
        if !pending.is_empty() {
            return Err(format!("{path} holds {pending:?}"));
        }
    }
    if stage.admin().exists(paths::REASSIGN_PARTITIONS).await.map_err(|error| error.to_string())?.is_some() {
        return Err("partitions are moving".to_owned());
    }
    let topics = stage.topics().await;
    if let Some(gone) = admin.gone.iter().find(|name| topics.contains_key(*name)) {
        return Err(format!("{gone} was deleted and is there"));
    }
    if let Some(missing) = admin.there.iter().find(|name| !topics.contains_key(*name)) {
        return Err(format!("{missing} was made and is not there"));
    }
    let stored = stage.partitions().await;
    for one in &stored {
        let members: BTreeSet<_> = one.state.isr.iter().collect();
        if one.is_moving || one.state.leader.0 < 0 || members != one.replicas.iter().collect() {
            return Err(format!("{one:?}"));
        }
    }
    for broker in 1..=stage.brokers {
        let told = admin.told_by(broker).await.ok_or_else(|| format!("broker {broker} does not know all others"))?;
        for one in &stored {
            let isr: BTreeSet<i32> = one.state.isr.iter().map(|id| id.0).collect();
            let wanted = Some((one.state.leader.0, isr));
            let told = told.get(&(one.topic.clone(), one.partition)).cloned();
            if told != wanted {
                return Err(format!("broker {broker} tells {told:?} of {}-{}: {wanted:?}", one.topic, one.partition));
            }
        }
        let is_there = |topic: &str| stored.iter().any(|one| one.topic == topic);
        // Whom the controller that deleted a topic did not reach is told of that by no later one.
        if let Some((topic, _)) = told.keys().find(|(topic, _)| !is_there(topic) && !admin.gone.contains(topic)) {
            return Err(format!("broker {broker} tells of {topic}, which is not there"));
        }
    }
    Ok(())
}

/// Every partition takes a write.
pub async fn writes(stage: &Arc<Stage>, admin: &Admin, last: &mut Producer) -> Result<(), String> {
    let topics = stage.topics().await;
    let ours = topics.iter().filter(|(name, _)| *name == TOPIC || admin.there.contains(*name));
    for (name, partitions) in ours {
        for partition in (0..).take(*partitions) {
            if !last.write(name, partition).await {
                return Err(format!("{name}-{partition} takes no write"));
            }
        }
    }
    Ok(())
}

/// The group has read and committed everything.
pub async fn group_finishes(admin: &mut Admin) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let mut ends = Vec::new();
        for partition in 0..PARTITIONS {
            ends.push(admin.latest(TOPIC, partition).await);
        }
        let committed = group::progress(admin.client()).await;
        let has = committed.as_ref().map(|all| all.values().map(|offset| Some(*offset)).collect::<Vec<_>>());
        if has.as_ref() == Some(&ends) {
            return Ok(());
        }
        if begun.elapsed() > SOON {
            return Err(format!("the group has committed {committed:?} of {ends:?}"));
        }
        sleep(Duration::from_millis(300)).await;
    }
}

/// High watermarks are log ends, and replicas are equally long.
pub async fn marks_are_ends(stage: &Arc<Stage>, cluster: &Cluster, admin: &mut Admin) -> Result<(), String> {
    let stored = stage.partitions().await;
    let known: Vec<_> = stored.iter().filter(|one| one.topic == TOPIC || admin.there.contains(&one.topic)).collect();
    for one in known {
        let begun = Instant::now();
        loop {
            let mark = admin.latest(&one.topic, one.partition).await;
            let ends: Vec<Option<i64>> = one
                .replicas
                .iter()
                .map(|id| cluster.disk(id.0).map(|disk| dump::end(disk, id.0, &one.topic, one.partition)))
                .collect();
            if mark.is_some() && ends.iter().all(|end| *end == mark) {
                break;
            }
            if begun.elapsed() > SOON {
                let (topic, partition) = (&one.topic, one.partition);
                return Err(format!("{topic}-{partition}: high watermark {mark:?}, log ends {ends:?}"));
            }
            sleep(Duration::from_millis(300)).await;
        }
    }
    Ok(())
}

/// All brokers end in order.
pub async fn stops(cluster: &mut Cluster, brokers: i32) -> Result<(), String> {
    (1..=brokers).for_each(|id| cluster.ask_to_stop(id));
    let begun = Instant::now();
    while !cluster.running().is_empty() {
        cluster.tend().await;
        if begun.elapsed() > SOON {
            return Err(format!("brokers {:?} do not end", cluster.running()));
        }
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Puts down whether a demand was met.
pub fn reached(what: &str, stage: &Stage, outcome: Result<(), String>) -> bool {
    match outcome {
        Ok(()) => {
            stage.chronicle.note(format_args!("{what}: so it is"));
            true
        }
        Err(why) => {
            stage.chronicle.wrong(format_args!("{what}: {why}"));
            false
        }
    }
}
