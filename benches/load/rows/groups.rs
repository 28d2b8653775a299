//! Consumer groups: how soon one is stable, what a commit costs, how long and how large groups load.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Rival, Row, Sizes};
use crate::admin::{create_topic, delete_topic, settle};
use crate::connection::{Connection, PATIENCE};
use crate::drive::{Ledger, Members, Outcome, Peer, Rate};
use crate::figure::{Figure, Sheet};
use crate::fleet::{Fleet, Who};
use crate::machine::server::Mode;
use crate::meter::resident_mb;
use crate::wire::{Batch, Produce, groups};

/// Groups that are loaded, and partitions each has an offset of.
const GROUPS: usize = 10_000;
const OFFSETS: i32 = 10;
const TOPIC: &str = "loaded";
/// Of commits and produces beside each other, per second: what every server has time for.
const RATE: f64 = 2_000.0;
/// At least so long at that rate, seconds, for p99 to mean something.
const SECS: f64 = 4.0;
/// What a server is given to come to rest.
const REST: Duration = Duration::from_millis(1500);

const STABLE: Figure = Figure::less("stable ms");
const COMMITS_S: Figure = Figure::more("commits/s").of_value(20_000.0, 30_000.0);
const US_COMMIT: Figure = Figure::less("CPU µs/commit").of_value(50.0, 30.0);
const COMMIT_P99: Figure = Figure::less("commit p99 µs");
const PRODUCE_P99: Figure = Figure::less("produce p99 µs");
const P99_RATIO: Figure = Figure::less("commit p99 / produce p99").of_value(2.0, 1.2);
const LOADED_MS: Figure = Figure::less("loaded ms").of_value(2000.0, 500.0);
const LOADED_MB: Figure = Figure::less("loaded MB").of_value(40.0, 25.0);

pub fn rows(sizes: Sizes) -> Vec<Row> {
    let members = |id, what, stable: Figure, more: &[Figure], count: usize, each: i32, beat: u64| {
        let figures = [&[stable][..], more].concat();
        let measure = move |fleet: &mut Fleet, who, sheet: &mut Sheet| {
            run(fleet, who, sheet, (count, each, Duration::from_millis(beat)), sizes)
        };
        Row::new(id, "", what, figures, measure).without_limit()
    };
    let commits = [COMMITS_S, US_COMMIT, COMMIT_P99, PRODUCE_P99, P99_RATIO];
    vec![
        members(
            "group-10",
            "10 members join at once, without initial delay, heartbeats of 1 ms; then each commits, one after the other; p99 at \
             2,000/s, open loop, of commits and of produces over as many connections to one partition, acks=all",
            STABLE.of_value(10.0, 6.0),
            &commits,
            10,
            1,
            1,
        ),
        members(
            "group-200",
            "200 members on 400 partitions join at once, without initial delay, heartbeats of 20 ms",
            STABLE.of_value(2000.0, 500.0),
            &[],
            200,
            2,
            20,
        ),
        Row::new(
            "groups-load",
            "",
            "10,000 groups with 10 offsets each, exec to the last partition of them loaded; MB beside an empty broker",
            vec![LOADED_MS, LOADED_MB],
            load,
        )
        .without_limit()
        .rival(Rival::Once),
    ]
}

fn run(
    fleet: &mut Fleet,
    who: Who,
    sheet: &mut Sheet,
    (count, each, beat): (usize, i32, Duration),
    sizes: Sizes,
) -> Outcome<()> {
    let (peer, topic) = (fleet.peer(who, Mode::Sink)?, fleet.fresh_topic());
    create_topic(&peer.addr, &topic, count as i32 * each, &[])?;
    let group = format!("g-{topic}");
    let plan = Members { group: &group, topic: &topic, count, each, beat };
    let mut settled = plan.settle(&peer)?;
    sheet.add(STABLE.name, settled.took.as_secs_f64() * 1e3)?;
    if sheet.has(COMMITS_S.name) {
        settled.commit(&peer, 0.5)?;
        let committed = settled.commit(&peer, sizes.secs)?;
        sheet.add(COMMITS_S.name, committed.commits / committed.spent.secs)?;
        sheet.add(US_COMMIT.name, committed.spent.cpu * 1e6 / committed.commits)?;
        let rate = Rate { per_second: RATE, warm: 0.5, measured: sizes.secs.max(SECS) };
        let commit_us = settled.commit_at(rate)?.value_at_quantile(0.99) as f64 / 1e3;
        let produce_us = produce_p99(fleet, &peer, &topic, count, rate)?;
        sheet.add(COMMIT_P99.name, commit_us)?;
        sheet.add(PRODUCE_P99.name, produce_us)?;
        sheet.add(P99_RATIO.name, commit_us / produce_us)?;
    }
    settled.leave()?;
    Ok(delete_topic(&peer.addr, &topic)?)
}

/// As the members' commits: over as many connections, at their rate, to one partition, one small record each.
fn produce_p99(fleet: &Fleet, peer: &Peer, topic: &str, connections: usize, rate: Rate) -> Outcome<f64> {
    let batch = Batch::new(1, 100, fleet.timestamp_ms);
    let request = Produce::one(topic, 0, -1, &batch);
    settle(&mut Connection::open(&peer.addr)?, &request)?;
    let mut ledger = Ledger::open(peer, topic, 1, &batch)?;
    let mut lanes = (0..connections).map(|_| Connection::open(&peer.addr)).collect::<Result<Vec<_>, _>>()?;
    let send = |_, connection: &mut Connection| connection.send(&request.head, &request.body);
    let times = rate.in_turn(&mut lanes, send, |frame| Ok(ledger.answered(frame)?))?;
    ledger.check()?;
    Ok(times.value_at_quantile(0.99) as f64 / 1e3)
}

fn load(fleet: &mut Fleet, who: Who, sheet: &mut Sheet) -> Outcome<()> {
    let empty = fleet.fresh(who)?;
    empty.listening()?;
    create_topic(&empty.addr, TOPIC, OFFSETS, &[])?;
    until_loaded(&empty.peer(), &[group(0)], None)?;
    let mut server = empty;
    again(&mut server)?;
    until_loaded(&server.peer(), &[group(0)], None)?;
    std::thread::sleep(REST);
    let empty_mb = resident_mb(server.pid());

    let offsets: Vec<(i32, i64)> = (0..OFFSETS).map(|partition| (partition, 1_000 + i64::from(partition))).collect();
    let names: Vec<String> = (0..GROUPS).map(group).collect();
    let mut connection = Connection::open(&server.addr)?;
    for name in &names {
        match groups::commit_result(connection.call(&groups::commit(name, -1, "", TOPIC, &offsets))?)? {
            0 => {}
            error => return Err(format!("OffsetCommit of {name} answered error {error}").into()),
        }
    }
    drop(connection);
    again(&mut server)?;
    // With so many groups each partition of the offsets topic has some.
    until_loaded(&server.peer(), &names[..GROUPS / 10], Some(&offsets))?;
    sheet.add(LOADED_MS.name, server.started.elapsed().as_secs_f64() * 1e3)?;
    std::thread::sleep(REST);
    sheet.add(LOADED_MB.name, resident_mb(server.pid()) - empty_mb)?;
    until_loaded(&server.peer(), &names, Some(&offsets))
}

fn group(n: usize) -> String {
    format!("group-{n}")
}

fn again(server: &mut crate::process::Server) -> Outcome<()> {
    server.stop(Signal::TERM)?;
    server.again()?;
    server.listening()
}

/// Until each group is answered; with exactly these offsets.
fn until_loaded(peer: &Peer, names: &[String], offsets: Option<&[(i32, i64)]>) -> Outcome<()> {
    let until = Instant::now() + PATIENCE;
    let mut connection = Connection::open(&peer.addr)?;
    for name in names {
        loop {
            connection.call(&groups::find_coordinator(name))?;
            let frame = groups::fetch_offsets(name, TOPIC, 0..OFFSETS);
            match groups::fetch_offsets_result(connection.call(&frame)?)? {
                Ok(found) if offsets.is_none_or(|offsets| offsets == found) => break,
                Ok(found) => return Err(format!("{name} has {found:?}").into()),
                Err(error) if Instant::now() > until => return Err(format!("{name}: error {error}").into()),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
    Ok(())
}
