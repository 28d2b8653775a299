//! A broker under attack: an honest producer beside the attackers, and what is demanded of the broker afterwards.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use std::{fmt, fs};

use anyhow::{Context, Result, bail, ensure};

use super::honest::{self, Honest};
use super::machine::{Cores, Rank, spend_without_a_broker};
use crate::broker::{Broker, On, klamm};
use crate::lane::{Form, Run};
use crate::lanes::load;

pub const MIB: u64 = 1 << 20;

const CHOICE: &str = "KLAMM_HOSTILE";

/// Where the honest producer writes; the other three partitions are the attackers'.
pub const TOPIC: &str = "hostile";
const HONEST_PARTITION: i32 = 0;
pub const ATTACKED_PARTITION: i32 = 1;

/// Long enough for a loaded machine; reached only when the broker does not do what it must.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What memory may grow by whatever arrives: the number.
const FREE: u64 = 8 * MIB;
/// And per byte that arrived.
const PER_BYTE: u64 = 16;

/// Acknowledgements that a 99th percentile is taken of.
const WINDOW: usize = 300;
/// Windows, of whose percentiles the middle one counts: what else happens on a machine hits one or two of them.
const WINDOWS: usize = 5;
const SAMPLES: usize = WINDOW * WINDOWS;

/// The percentile under attack may be so many times that of the calm.
const TIMES: u32 = 5;

/// Pools and the allocator may keep so much once attackers are gone, however often they come back.
const KEPT: u64 = 32 * MIB;

/// An attack while it runs.
pub struct Attack<'a> {
    pub address: &'a str,
    pub form: Form,
    broker: &'a Broker,
    sent: AtomicU64,
    allowed: AtomicU64,
}

impl Attack<'_> {
    /// Counts bytes that the broker is sent.
    pub fn count(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Memory that is no answer to bytes but has another bound, written where it is held; the most at any time counts.
    pub fn allow_at_once(&self, bytes: u64) {
        self.allowed.fetch_max(bytes, Ordering::Relaxed);
    }

    /// `light` or `full`, by the form that is run.
    pub fn sized<T>(&self, light: T, full: T) -> T {
        if self.form == Form::Full { full } else { light }
    }

    /// Waits until the broker has at most `most` sockets.
    pub fn await_sockets(&self, most: usize) -> Result<()> {
        await_sockets(self.broker, most)
    }

    /// The broker's open sockets; 0 for a broker whose process is not ours to look at.
    pub fn sockets(&self) -> Result<usize> {
        sockets(self.broker)
    }
}

/// One line of the table.
pub struct Row {
    pub family: String,
    pub arrived: u64,
    /// Of resident memory at its peak and afterwards, over what it was before; `None` for a broker that is not Klamm.
    pub grown: Option<(u64, u64)>,
    /// Of the honest producer's 99th percentile: alone, or beside the attackers' own work where that costs more.
    pub calm: Option<Duration>,
    pub attacked: Option<Duration>,
    pub acknowledged: usize,
    /// The longest any of them took.
    pub slowest: Duration,
    pub took: Duration,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} KiB arrived", self.arrived >> 10)?;
        if let Some((peak, after)) = self.grown {
            write!(f, ", memory +{} KiB, +{} KiB afterwards", peak >> 10, after >> 10)?;
        }
        write!(f, ", {} acknowledgements, the slowest {:.1?}", self.acknowledged, self.slowest)?;
        if let Some((calm, attacked)) = self.calm.zip(self.attacked) {
            write!(f, ", p99 {attacked:.1?} ({calm:.1?} in calm)")?;
        }
        write!(f, ", {:.1} s", self.took.as_secs_f32())
    }
}

pub struct Scene<'r> {
    run: &'r mut Run,
    broker: Broker,
    address: String,
    honest: Honest,
    pub rows: Vec<Row>,
    /// The 99th percentile beside what attackers do without a broker; full form.
    own_work: Duration,
    /// Only families whose names have this text are played.
    chosen: Option<String>,
    _cores: Cores,
}

impl<'r> Scene<'r> {
    /// Starts a broker and warms it up: what is made once is made before memory is measured.
    pub fn start(run: &'r mut Run, settings: &[(&str, &str)]) -> Result<Scene<'r>> {
        let mut all = vec![("log.retention.ms", "-1")];
        all.extend_from_slice(settings);
        // Built before its core is given to it.
        if run.on == On::Klamm {
            klamm()?;
        }
        let cores = Cores::take(run.full())?;
        let broker = cores.for_broker(|| Broker::start(&run.on, &all))?;
        let address = broker.address();
        load::create_topic(&address, TOPIC, 4)?;
        let honest = Honest::new(TOPIC, HONEST_PARTITION);
        let (rows, own_work, chosen) = (Vec::new(), Duration::ZERO, std::env::var(CHOICE).ok());
        let mut scene = Scene { run, broker, address, honest, rows, own_work, chosen, _cores: cores };
        scene.calm(50)?;
        if scene.is_full() {
            let latencies =
                honest::beside(&scene.address, &mut scene.honest, SAMPLES, Rank::Last, spend_without_a_broker)?;
            scene.own_work = p99(&latencies);
            let line = format!("what attackers cost without a broker: p99 {:.1?}", scene.own_work);
            scene.run.settled(line, Ok(()));
        }
        Ok(scene)
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn settled(&mut self, name: &str, result: Result<()>) {
        self.run.settled(name, result);
    }

    pub fn is_full(&self) -> bool {
        self.run.full()
    }

    /// Runs one family of attacks while the honest producer works, then looks at what became of the broker.
    pub fn family(&mut self, name: &str, attack: impl Fn(&Attack) -> Result<()> + Sync) {
        if self.chosen.as_ref().is_some_and(|part| !name.contains(part.as_str())) {
            return;
        }
        let outcome = self.attacked(name, attack);
        let line = match (&outcome, self.rows.last()) {
            (Ok(()), Some(row)) => format!("{name}: {row}"),
            _ => name.to_owned(),
        };
        self.run.settled(line, outcome);
    }

    fn attacked(&mut self, name: &str, attack: impl Fn(&Attack) -> Result<()> + Sync) -> Result<()> {
        let began = Instant::now();
        let full = self.run.full();
        let calm = if full { Some(self.calm(SAMPLES)?) } else { None };
        let before = self.memory()?;
        let connected = sockets(&self.broker)?;
        self.forget_peak()?;
        let (form, address) = (self.run.form, self.address.clone());
        let (sent, allowed, latencies) = {
            let broker = &self.broker;
            let state = Attack { address: &address, form, broker, sent: AtomicU64::new(0), allowed: AtomicU64::new(0) };
            let (samples, rank) = if full { (SAMPLES, Rank::Last) } else { (20, Rank::Normal) };
            let latencies = honest::beside(&address, &mut self.honest, samples, rank, || attack(&state));
            let latencies = latencies.with_context(|| format!("while: {name}"))?;
            (state.sent.into_inner(), state.allowed.into_inner(), latencies)
        };
        let acknowledged = latencies.len();
        let arrived = sent + self.honest.bytes_of(acknowledged);
        let most = FREE + PER_BYTE * arrived + allowed;
        let peak = self.peak()?;
        await_sockets(&self.broker, connected)?;
        let after = self.await_memory(before.map(|before| before + KEPT))?;
        let grown = before
            .zip(peak)
            .zip(after)
            .map(|((before, peak), after)| (peak.saturating_sub(before), after.saturating_sub(before)));
        let row = Row {
            family: name.to_owned(),
            arrived,
            grown,
            calm: calm.map(|calm| p99(&calm).max(self.own_work)),
            attacked: full.then(|| p99(&latencies)),
            acknowledged,
            slowest: latencies.iter().max().copied().unwrap_or_default(),
            took: began.elapsed(),
        };
        let (peak, afterwards) = row.grown.unwrap_or_default();
        let slow = row.calm.zip(row.attacked).filter(|(calm, attacked)| *attacked > *calm * TIMES);
        let line = row.to_string();
        self.rows.push(row);
        self.unharmed()?;
        ensure!(peak <= most, "memory grew by {} KiB, {} KiB are allowed: {line}", peak >> 10, most >> 10);
        ensure!(afterwards <= KEPT, "{} KiB of memory did not come back: {line}", afterwards >> 10);
        if let Some((calm, attacked)) = slow {
            bail!("p99 {attacked:.1?} under attack, {calm:.1?} in calm: {line}");
        }
        Ok(())
    }

    /// The honest producer alone, until it has `acks` more acknowledgements.
    fn calm(&mut self, acks: usize) -> Result<Vec<Duration>> {
        honest::beside(&self.address, &mut self.honest, acks, Rank::Normal, honest::calm)
    }

    /// Everything that was acknowledged is there, in order, once.
    pub fn close(mut self) -> Vec<Row> {
        let verified = load::verify(&self.address, TOPIC, HONEST_PARTITION, self.honest.ledger());
        let count = self.honest.ledger().acknowledged.len();
        self.run.settled(format!("all {count} records that were acknowledged meanwhile"), verified.map(|_| ()));
        if self.run.failures() > 0 {
            println!("-- end of the broker's log\n{}", self.broker.log_tail(30));
        }
        std::mem::take(&mut self.rows)
    }

    fn unharmed(&mut self) -> Result<()> {
        if let Some(status) = self.broker.exited()? {
            bail!("the broker ended: {status}: {}", self.broker.log_tail(20));
        }
        let log = self.broker.log_text();
        if let Some(line) = log.lines().find(|line| line.contains("panicked")) {
            bail!("a panic: {line}");
        }
        Ok(())
    }

    fn is_ours(&self) -> bool {
        *self.broker.on() == On::Klamm
    }

    fn memory(&self) -> Result<Option<u64>> {
        if self.is_ours() { self.broker.status_bytes("VmRSS:").map(Some) } else { Ok(None) }
    }

    fn peak(&self) -> Result<Option<u64>> {
        if self.is_ours() { self.broker.status_bytes("VmHWM:").map(Some) } else { Ok(None) }
    }

    /// From here on the kernel's peak of resident memory is counted anew.
    fn forget_peak(&self) -> Result<()> {
        if self.is_ours() {
            fs::write(format!("/proc/{}/clear_refs", self.broker.pid()?), "5")?;
        }
        Ok(())
    }

    /// Memory once it is at most `most`, or after a while.
    fn await_memory(&self, most: Option<u64>) -> Result<Option<u64>> {
        let until = Instant::now() + PATIENCE / 3;
        loop {
            let now = self.memory()?;
            if now <= most || Instant::now() > until {
                return Ok(now);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn sockets(broker: &Broker) -> Result<usize> {
    if *broker.on() != On::Klamm {
        return Ok(0);
    }
    let mut sockets = 0;
    for entry in fs::read_dir(format!("/proc/{}/fd", broker.pid()?))? {
        // One that is closed meanwhile names nothing.
        let names = fs::read_link(entry?.path());
        sockets += usize::from(names.is_ok_and(|to| to.to_string_lossy().starts_with("socket:")));
    }
    Ok(sockets)
}

/// Attackers that went away leave nothing behind. Files may have been opened meanwhile: a frame that is not hostile at all
/// makes a topic.
fn await_sockets(broker: &Broker, most: usize) -> Result<()> {
    // The honest producer may have another connection than before.
    let most = most + 2;
    let until = Instant::now() + PATIENCE;
    loop {
        let now = sockets(broker)?;
        if now <= most {
            return Ok(());
        }
        ensure!(Instant::now() < until, "{now} sockets are open, {most} at most were expected");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The middle one of the windows' percentiles.
fn p99(latencies: &[Duration]) -> Duration {
    let windows = latencies.chunks(WINDOW).filter(|window| window.len() == WINDOW || latencies.len() < WINDOW);
    let mut each: Vec<Duration> = windows
        .map(|window| {
            let mut sorted = window.to_vec();
            sorted.sort_unstable();
            sorted.get(sorted.len().saturating_mul(99) / 100).copied().unwrap_or_default()
        })
        .collect();
    each.sort_unstable();
    each.get(each.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_window_counts_and_all_of_it() {
        let ms = Duration::from_millis;
        let window = |slow: usize, time| (0..WINDOW).map(|n| if n < slow { time } else { ms(1) }).collect::<Vec<_>>();
        let (calm, noisy) = (window(2, ms(50)), window(3, ms(50)));
        assert_eq!(p99(&[calm.clone(), noisy.clone(), calm.clone()].concat()), ms(1));
        assert_eq!(p99(&[noisy.clone(), noisy.clone(), calm.clone()].concat()), ms(50));
        // What is left over is no window.
        assert_eq!(p99(&[calm, vec![ms(50); WINDOW - 1]].concat()), ms(1));
        assert_eq!(p99(&[ms(2)]), ms(2));
    }
}
