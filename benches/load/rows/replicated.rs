//! Three brokers, three replicas, acks=all: row 8, and what a cluster is measured by beside it.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Rival, Row, Sizes};
use crate::admin::{controller_addr, create_replicated, delete_topic, leader_addr, settle};
use crate::cluster::{BROKERS, Cluster, all_in_sync_at, in_sync_at};
use crate::connection::Connection;
use crate::cores;
use crate::drive::{Amount, Closed, Ledger, Outcome, Paced, Produced, Rate};
use crate::figure::{Figure, Sheet};
use crate::fleet::{Fleet, Who};
use crate::meter::{Mark, resident_mb, sleeps, written};
use crate::wire::{Batch, Produce};

const ALL: i16 = -1;
const WARM_SECS: f64 = 0.5;
/// Requests per second of the open loop.
const RATE: f64 = 200.0;
const STILL: Duration = Duration::from_secs(10);
/// What a cluster is given to come to rest.
const REST: Duration = Duration::from_secs(3);
/// How far a follower is behind when it starts.
const BEHIND_BYTES: u64 = 1_000_000_000;

const S_GB: Figure = Figure::less("CPU s/GB, all brokers");
const MB_S: Figure = Figure::more("MB/s");
const REQ_S: Figure = Figure::more("requests/s");
const US_REQ: Figure = Figure::less("CPU µs/request, all brokers");
const ACK_P50: Figure = Figure::less("ack p50 ms");
const ACK_P99: Figure = Figure::less("ack p99 ms").of_value(2.0, 2.0);
const MS_100: Figure = Figure::less("100 partitions: ms").of_value(100.0, 100.0);
const MS_1000: Figure = Figure::less("1,000 partitions: ms").of_value(2000.0, 2000.0);
const TOGETHER: Figure = Figure::less("three brokers MB").of_value(48.0, 48.0);
const WAKE_UPS: Figure = Figure::less("wake-ups/s of one").of_value(50.0, 50.0);
const WRITTEN: Figure = Figure::less("bytes written/s, together").of_value(0.0, 0.0);
const RETURN_S: Figure = Figure::less("from listening to the ISR s").of_value(3.0, 3.0);
const LEADER: Figure = Figure::less("leader CPU s/GB");
const FOLLOWER: Figure = Figure::less("follower CPU s/GB");
const WIDE_S: Figure = Figure::less("created s");
const WIDE_MB: Figure = Figure::less("MB of the largest broker");
const WIDE_RETURN_S: Figure = Figure::less("from kill -9 to whole ISRs s");

#[derive(Clone, Copy)]
enum Load {
    Bytes { batch: usize, window: usize, bytes: u64 },
    Time { batch: usize, window: usize },
    OneRecord { connections: usize },
}

pub fn rows(sizes: Sizes) -> Vec<Row> {
    type Measure = fn(&mut Fleet, Who, &mut Sheet) -> Outcome<()>;
    let row = |id, what, figures: &[Figure], measure: Measure| {
        let measure = move |fleet: &mut Fleet, who, sheet: &mut Sheet| cores::on_all(|| measure(fleet, who, sheet))?;
        Row::new(id, "8", what, figures.to_vec(), measure).without_limit().touches(4.0)
    };
    let produced = |id, what, figures: &[Figure], load: Load| {
        let measure = move |fleet: &mut Fleet, who, sheet: &mut Sheet| {
            cores::on_all(|| fleet.on_cluster(who, |cluster, topic, at| produce(cluster, topic, at, load, sizes)))?
                .and_then(|produced| fill_in(sheet, &produced))
        };
        Row::new(id, "8", what, figures.to_vec(), measure).without_limit().touches(4.0)
    };
    let many = {
        let measure = move |fleet: &mut Fleet, who, sheet: &mut Sheet| {
            cores::on_all(|| wide(fleet, who, sheet, sizes.partitions))?
        };
        let what = "10,000 partitions of 3 replicas; a broker is killed and started again";
        // Kafka does not start before the dead broker's session is over.
        Row::new("rf3-wide", "8", what, vec![WIDE_S, WIDE_RETURN_S, WIDE_MB], measure)
            .without_limit()
            .rival(Rival::Never)
    };
    let large = Load::Bytes { batch: 512 << 10, window: 4, bytes: 1_000_000_000 };
    vec![
        row("rf3-idle", "three idle brokers, just started", &[TOGETHER, WAKE_UPS, WRITTEN], idle).rival(Rival::Once),
        produced("rf3-512k", "512 KiB requests, acks=all, 3 replicas", &[S_GB, MB_S], large),
        produced(
            "rf3-16k",
            "16 KiB requests, 16 in flight, acks=all, 3 replicas",
            &[US_REQ, MB_S],
            Load::Time { batch: 16 << 10, window: 16 },
        ),
        produced(
            "rf3-1rec-64",
            "1 record of 100 B per request, 64 connections, acks=all, 3 replicas",
            &[REQ_S, US_REQ],
            Load::OneRecord { connections: 64 },
        ),
        row("rf3-ack-200", "200 requests/s of one record, open loop, acks=all", &[ACK_P50, ACK_P99], acks),
        row("rf3-topics", "a topic of 3 replicas, until each partition has a leader", &[MS_100, MS_1000], topics),
        row("rf3-behind", "a follower starts 1 GB behind", &[RETURN_S, LEADER, FOLLOWER], behind).rival(Rival::Once),
        many,
    ]
}

fn idle(fleet: &mut Fleet, who: Who, sheet: &mut Sheet) -> Outcome<()> {
    let cluster = fleet.fresh_cluster(who)?;
    // Nothing tells that a cluster has come to rest.
    std::thread::sleep(REST);
    let pids = cluster.pids();
    let sums = |of: fn(u32) -> f64| pids.iter().map(|pid| of(*pid)).collect::<Vec<_>>();
    let (before, slept) = (sums(written), sums(sleeps));
    std::thread::sleep(STILL);
    let secs = STILL.as_secs_f64();
    let most = sums(sleeps).iter().zip(&slept).map(|(now, before)| (now - before) / secs).fold(0.0, f64::max);
    sheet.add(TOGETHER.name, sums(resident_mb).iter().sum())?;
    sheet.add(WAKE_UPS.name, most)?;
    let bytes = sums(written).iter().sum::<f64>() - before.iter().sum::<f64>();
    Ok(sheet.add(WRITTEN.name, bytes / secs)?)
}

/// Creates a topic of one partition; answers its leader, when that one takes records.
fn led(cluster: &Cluster, topic: &str, request: &Produce) -> Outcome<i32> {
    let addr = &cluster.any(0)?.addr;
    create_replicated(addr, topic, 1, BROKERS as i16, &[("min.insync.replicas", "2")])?;
    settle(&mut Connection::open(&leader_addr(addr, topic)?)?, request)?;
    cluster.leader(topic)
}

fn produce(cluster: &mut Cluster, topic: &str, timestamp_ms: i64, load: Load, sizes: Sizes) -> Outcome<Produced> {
    let batch = match load {
        Load::Bytes { batch, .. } | Load::Time { batch, .. } => Batch::filling(batch, 1024, timestamp_ms),
        Load::OneRecord { .. } => Batch::new(1, 100, timestamp_ms),
    };
    let (connections, window) = match load {
        Load::Bytes { window, .. } | Load::Time { window, .. } => (1, window),
        Load::OneRecord { connections } => (connections, 1),
    };
    let measured = match load {
        Load::Bytes { bytes, .. } => Amount::Bytes(bytes),
        Load::Time { .. } | Load::OneRecord { .. } => Amount::Secs(sizes.secs.max(2.0)),
    };
    let requests = [Produce::one(topic, 0, ALL, &batch)];
    let leader = led(cluster, topic, &requests[0])?;
    let peer = cluster.peer(leader)?;
    let mut ledger = Ledger::open(&peer, topic, 1, &batch)?;
    let load = Closed { requests: &requests, connections, window, warm: Amount::Secs(WARM_SECS), measured };
    let produced = load.run(&peer, &mut ledger)?;
    ledger.check()?;
    delete(cluster, topic)?;
    Ok(produced)
}

fn fill_in(sheet: &mut Sheet, produced: &Produced) -> Outcome<()> {
    for (figure, value) in [
        (S_GB, produced.cpu_per_gb()),
        (MB_S, produced.mb_s()),
        (REQ_S, produced.requests_s()),
        (US_REQ, produced.cpu_us_per_request()),
    ] {
        if sheet.has(figure.name) {
            sheet.add(figure.name, value)?;
        }
    }
    Ok(())
}

/// By the controller: others refuse.
fn delete(cluster: &Cluster, topic: &str) -> Outcome<()> {
    Ok(delete_topic(&controller_addr(&cluster.any(0)?.addr)?, topic)?)
}

fn acks(fleet: &mut Fleet, who: Who, sheet: &mut Sheet) -> Outcome<()> {
    let timed = fleet.on_cluster(who, |cluster, topic, at| {
        let batch = Batch::new(1, 1024, at);
        let request = Produce::one(topic, 0, ALL, &batch);
        let leader = led(cluster, topic, &request)?;
        let peer = cluster.peer(leader)?;
        let mut ledger = Ledger::open(&peer, topic, 1, &batch)?;
        let rate = Rate { per_second: RATE, warm: 1.0, measured: 5.0 };
        let load = Paced { topic, request: &request, batch: &batch, rate, tails: 0 };
        let timed = load.run(&peer, &mut ledger)?;
        ledger.check()?;
        delete(cluster, topic)?;
        Ok(timed)
    })?;
    sheet.add(ACK_P50.name, timed.acked.value_at_quantile(0.5) as f64 / 1e6)?;
    Ok(sheet.add(ACK_P99.name, timed.acked.value_at_quantile(0.99) as f64 / 1e6)?)
}

fn topics(fleet: &mut Fleet, who: Who, sheet: &mut Sheet) -> Outcome<()> {
    for (figure, partitions) in [(MS_100, 100), (MS_1000, 1000)] {
        let ms = fleet.on_cluster(who, |cluster, topic, _| {
            // Asked of the controller: a client knows it, and finding it is not what is measured.
            let addr = controller_addr(&cluster.any(0)?.addr)?;
            let start = Instant::now();
            create_replicated(&addr, topic, partitions, BROKERS as i16, &[])?;
            let ms = start.elapsed().as_secs_f64() * 1e3;
            delete(cluster, topic)?;
            // What a deletion leaves to do is not the next one's.
            std::thread::sleep(REST);
            Ok(ms)
        })?;
        sheet.add(figure.name, ms)?;
    }
    Ok(())
}

fn behind(fleet: &mut Fleet, who: Who, sheet: &mut Sheet) -> Outcome<()> {
    let (secs, leader, follower) = fleet.on_cluster(who, |cluster, topic, at| {
        let batch = Batch::filling(512 << 10, 1024, at);
        let requests = [Produce::one(topic, 0, ALL, &batch)];
        let leader = led(cluster, topic, &requests[0])?;
        cluster.in_sync(topic, BROKERS as usize)?;
        let follower = leader % BROKERS + 1;
        cluster.broker_mut(follower)?.stop(Signal::TERM)?;
        let peer = cluster.peer(leader)?;
        let mut ledger = Ledger::open(&peer, topic, 1, &batch)?;
        let (warm, measured) = (Amount::Bytes(0), Amount::Bytes(BEHIND_BYTES));
        Closed { requests: &requests, connections: 1, window: 4, warm, measured }.run(&peer, &mut ledger)?;
        ledger.check()?;
        cluster.in_sync(topic, BROKERS as usize - 1)?;
        cluster.broker_mut(follower)?.again()?;
        cluster.broker(follower)?.listening()?;
        let leads = Mark::now(&[cluster.broker(leader)?.pid()]);
        let follows = Mark::now(&[cluster.broker(follower)?.pid()]);
        in_sync_at(&cluster.broker(leader)?.addr, topic, BROKERS as usize)?;
        let (leads, follows) = (leads.spent(), follows.spent());
        delete(cluster, topic)?;
        let gb = BEHIND_BYTES as f64 / 1e9;
        Ok((leads.secs, leads.cpu / gb, follows.cpu / gb))
    })?;
    sheet.add(RETURN_S.name, secs)?;
    sheet.add(LEADER.name, leader)?;
    Ok(sheet.add(FOLLOWER.name, follower)?)
}

fn wide(fleet: &mut Fleet, who: Who, sheet: &mut Sheet, partitions: i32) -> Outcome<()> {
    let mut cluster = fleet.fresh_cluster(who)?;
    let (topic, replicas) = ("wide", BROKERS as usize);
    let addr = controller_addr(&cluster.any(0)?.addr)?;
    let start = Instant::now();
    create_replicated(&addr, topic, partitions, BROKERS as i16, &[])?;
    sheet.add(WIDE_S.name, start.elapsed().as_secs_f64())?;
    let start = Instant::now();
    let killed = cluster.broker_mut(BROKERS)?;
    killed.stop(Signal::KILL)?;
    killed.again()?;
    // It listens once no ISR counts on its last life.
    killed.listening()?;
    let witness = cluster.broker(1)?.addr.clone();
    all_in_sync_at(&witness, topic, usize::try_from(partitions)?, replicas)?;
    sheet.add(WIDE_RETURN_S.name, start.elapsed().as_secs_f64())?;
    Ok(sheet.add(WIDE_MB.name, cluster.pids().into_iter().map(resident_mb).fold(0.0, f64::max))?)
}
