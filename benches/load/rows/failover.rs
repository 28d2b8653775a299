//! Brokers of three end, one way or another, while a writer with acks=all goes on: row 12. Sessions are Kafka's default, 18 s.

use std::collections::BTreeMap;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Rival, Row};
use crate::admin::{Metadata, create_assigned};
use crate::cluster::{Cluster, all_in_sync_at};
use crate::connection::Connection;
use crate::cores;
use crate::drive::Outcome;
use crate::figure::{Figure, Sheet};
use crate::fleet::{Fleet, Who};
use crate::wire::{Batch, Produce, produce_result};

const TOPIC: &str = "written";
const ALL: i16 = -1;
const FEW: usize = 1;
const MANY: usize = 1_000;
/// Of the writer, at rest and at the end.
const BEFORE: Duration = Duration::from_secs(1);
const AFTER: Duration = Duration::from_secs(3);
/// Three default sessions.
const PATIENCE: Duration = Duration::from_secs(60);

const KILLED_1: Figure = Figure::less("1 partition: gap ms").of_value(1000.0, 500.0);
const KILLED_1000: Figure = Figure::less("1,000 partitions: gap ms").of_value(2000.0, 800.0);
const STOPPED_1: Figure = Figure::less("1 partition: gap ms").of_value(150.0, 50.0);
const STOPPED_1000: Figure = Figure::less("1,000 partitions: gap ms").of_value(500.0, 500.0);
const CREATED_1: Figure = Figure::less("1 partition: until a topic is created ms").of_value(1000.0, 500.0);
const CREATED_1000: Figure = Figure::less("1,000 partitions: until a topic is created ms").of_value(2000.0, 800.0);

/// Who ends, and how.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// kill -9 of a leader that is not the controller.
    Leader,
    /// kill -9 of the controller; of many partitions it leads a third.
    Controller,
    /// kill -9 of a broker that leads nothing.
    Follower,
    /// SIGTERM of a leader that is not the controller.
    Stop,
}

impl End {
    fn signal(self) -> Signal {
        match self {
            End::Stop => Signal::TERM,
            End::Leader | End::Controller | End::Follower => Signal::KILL,
        }
    }

    /// Who ends, and the replicas of `partitions` partitions; all brokers are in `ids`.
    fn places(self, controller: i32, ids: &[i32], partitions: usize) -> (i32, Vec<Vec<i32>>) {
        let others: Vec<i32> = ids.iter().copied().filter(|id| *id != controller).collect();
        let ends = if self == End::Controller { controller } else { others[0] };
        let stay: Vec<i32> = ids.iter().copied().filter(|id| *id != ends).collect();
        let replicas = |nth: usize| match (self, partitions) {
            (End::Follower, _) => vec![stay[nth % 2], stay[(nth + 1) % 2], ends],
            (End::Controller, FEW) => vec![stay[0], stay[1], ends],
            (_, FEW) => vec![ends, stay[0], stay[1]],
            _ => (0..ids.len()).map(|i| ids[(nth + i) % ids.len()]).collect(),
        };
        (ends, (0..partitions).map(replicas).collect())
    }
}

pub fn rows() -> Vec<Row> {
    let row = |id, what, figures: &[Figure], end: End| {
        let measure =
            move |fleet: &mut Fleet, who, sheet: &mut Sheet| cores::on_all(|| measure(fleet, who, sheet, end))?;
        Row::new(id, "12", what, figures.to_vec(), measure).without_limit().rival(Rival::Once)
    };
    let killed = [KILLED_1, KILLED_1000];
    let controller = [KILLED_1, CREATED_1, KILLED_1000, CREATED_1000];
    vec![
        row("failover-leader", "kill -9 of a leader: longest wait of a writer with acks=all", &killed, End::Leader),
        row(
            "failover-controller",
            "kill -9 of the controller, and until a topic can be created",
            &controller,
            End::Controller,
        ),
        row("failover-follower", "kill -9 of a follower", &killed, End::Follower),
        row("failover-stop", "SIGTERM of a leader", &[STOPPED_1, STOPPED_1000], End::Stop),
    ]
}

fn measure(fleet: &mut Fleet, who: Who, sheet: &mut Sheet, end: End) -> Outcome<()> {
    let names = [(FEW, KILLED_1.name, CREATED_1.name), (MANY, KILLED_1000.name, CREATED_1000.name)];
    for (partitions, gap, created) in names {
        let seen = seen(fleet, who, end, partitions)?;
        sheet.add(gap, seen.gap.as_secs_f64() * 1e3)?;
        if let Some(until) = seen.created {
            sheet.add(created, until.as_secs_f64() * 1e3)?;
        }
    }
    Ok(())
}

struct Seen {
    /// The longest time between two acknowledgements in any partition.
    gap: Duration,
    /// From the signal on, until a topic was created.
    created: Option<Duration>,
}

/// On brokers of its own: of what ended before, nothing is left.
fn seen(fleet: &mut Fleet, who: Who, end: End, partitions: usize) -> Outcome<Seen> {
    let mut cluster = fleet.fresh_cluster(who)?;
    let known = cluster.metadata("", 0)?;
    let ids: Vec<i32> = known.brokers.keys().copied().collect();
    let (ends, places) = end.places(known.controller, &ids, partitions);
    let at = known.brokers.get(&known.controller).ok_or("no controller")?;
    create_assigned(at, TOPIC, &places, &[("min.insync.replicas", "2")])?;
    for addr in known.brokers.values() {
        all_in_sync_at(addr, TOPIC, partitions, ids.len())?;
    }

    let batch = Batch::new(1, 100, fleet.timestamp_ms);
    let mut writer = Writer::new(&batch, partitions, &cluster.metadata(TOPIC, 0)?);
    let begin = Instant::now();
    while begin.elapsed() < BEFORE || writer.has_gaps_since(begin) {
        writer.turn(&cluster, 0)?;
        within(begin, "writes do not begin")?;
    }
    let stay: Vec<i32> = ids.into_iter().filter(|id| *id != ends).collect();
    let told = writer.forget_gaps();
    cluster.broker(ends)?.signal(end.signal())?;
    let creates = (end == End::Controller).then(|| {
        let survivors: Vec<String> = stay.iter().filter_map(|id| known.brokers.get(id).cloned()).collect();
        thread::spawn(move || until_created(&survivors, &stay, told))
    });
    while told.elapsed() < AFTER || writer.has_gaps_since(told + AFTER) {
        writer.turn(&cluster, ends)?;
        within(told, "writes stand still")?;
    }
    cluster.broker_mut(ends)?.ended()?;
    let created = creates.map(|thread| thread.join().map_err(|_| "who creates a topic panicked")?).transpose()?;
    Ok(Seen { gap: writer.longest, created })
}

fn within(since: Instant, what: &str) -> Outcome<()> {
    if since.elapsed() > PATIENCE { Err(what.into()) } else { Ok(()) }
}

/// From `told` on until one of `survivors` has made a topic with replicas on `stay`.
fn until_created(survivors: &[String], stay: &[i32], told: Instant) -> Result<Duration, String> {
    for addr in survivors.iter().cycle() {
        match create_assigned(addr, "made-meanwhile", &[stay.to_vec()], &[]) {
            Ok(()) => return Ok(told.elapsed()),
            Err(why) if told.elapsed() > PATIENCE => return Err(format!("no topic is made: {why}")),
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
    Err("nobody to ask".to_owned())
}

/// Sends a record to each partition, waits for all acknowledgements, and does so again. Asks who leads whenever it is
/// refused or cut off, without a pause.
struct Writer<'a> {
    batch: &'a Batch,
    /// By address.
    links: BTreeMap<String, Link>,
    /// Each partition is written to over one of them.
    reaches_all: bool,
    /// When each partition acknowledged last.
    acked: Vec<Instant>,
    longest: Duration,
}

struct Link {
    connection: Connection,
    /// To what is led there.
    request: Produce,
}

impl<'a> Writer<'a> {
    fn new(batch: &'a Batch, partitions: usize, known: &Metadata) -> Writer<'a> {
        let acked = vec![Instant::now(); partitions];
        let mut writer = Writer { batch, links: BTreeMap::new(), reaches_all: false, acked, longest: Duration::ZERO };
        writer.turn_to(known);
        writer
    }

    /// `without` is not asked who leads.
    fn turn(&mut self, cluster: &Cluster, without: i32) -> Outcome<()> {
        let mut is_fine = self.reaches_all;
        let mut cut_off = Vec::new();
        for (addr, link) in &mut self.links {
            if link.connection.send(&link.request.head, &link.request.body).is_err() {
                cut_off.push(addr.clone());
            }
        }
        for (addr, link) in self.links.iter_mut().filter(|(addr, _)| !cut_off.contains(addr)).collect::<Vec<_>>() {
            let (acked, longest) = (&mut self.acked, &mut self.longest);
            match receive(link, acked, longest) {
                Ok(all) => is_fine &= all,
                Err(_) => cut_off.push(addr.clone()),
            }
        }
        if is_fine && cut_off.is_empty() {
            return Ok(());
        }
        self.links.retain(|addr, _| !cut_off.contains(addr));
        self.turn_to(&cluster.metadata(TOPIC, without)?);
        thread::sleep(Duration::from_millis(1));
        Ok(())
    }

    /// Writes where the leaders are now. Who does not let it in is asked again in the next turn.
    fn turn_to(&mut self, known: &Metadata) {
        let mut led: BTreeMap<&String, Vec<i32>> = BTreeMap::new();
        for (partition, one) in &known.partitions {
            if let Some(addr) = known.brokers.get(&one.leader) {
                led.entry(addr).or_default().push(*partition);
            }
        }
        let mut before = std::mem::take(&mut self.links);
        let mut reached = 0;
        for (addr, partitions) in led {
            let kept = before.remove(addr).map(|link| link.connection);
            let Some(connection) = kept.or_else(|| Connection::open(addr).ok()) else { continue };
            reached += partitions.len();
            let request = Produce::many(TOPIC, partitions.into_iter(), ALL, self.batch);
            self.links.insert(addr.clone(), Link { connection, request });
        }
        self.reaches_all = reached == self.acked.len();
    }

    /// A partition has acknowledged nothing since.
    fn has_gaps_since(&self, since: Instant) -> bool {
        self.acked.iter().any(|acked| *acked < since)
    }

    /// From now on they are counted.
    fn forget_gaps(&mut self) -> Instant {
        self.longest = Duration::ZERO;
        Instant::now()
    }
}

/// Whether all partitions acknowledge.
fn receive(link: &mut Link, acked: &mut [Instant], longest: &mut Duration) -> io::Result<bool> {
    let frame = link.connection.receive()?;
    let now = Instant::now();
    let mut all = true;
    produce_result(frame, |partition, error, _| match acked.get_mut(partition as usize).filter(|_| error == 0) {
        Some(acked) => {
            *longest = (*longest).max(now - *acked);
            *acked = now;
        }
        None => all = false,
    })?;
    Ok(all)
}
