//! `klamm consume`: the records of a topic to stdout, with kafka-console-consumer's flags and format (3.9.1).
//!
//! Reads all partitions there are at the start by itself, or those that a group gives it. One thread fetches per leader, the
//! main thread writes through one buffer. When stdout is closed the program ends quietly.

mod answer;
mod assignor;
mod fetcher;
mod format;
mod membership;
mod options;
mod printer;

use std::collections::BTreeMap;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::thread;
use std::time::Duration;

use anyhow::{anyhow, bail};
use kafka_protocol::protocol::StrBytes;

use super::admin::{Admin, EARLIEST, LATEST};
use super::client::Caller;
use super::layout::{await_layout, current_layout};
use super::progress::Progress;
use super::properties::Properties;
use crate::clock::{Clock, SystemClock};
use crate::types::{IsolationLevel, TopicPartition};
use fetcher::{Assignments, Event, Read};
use format::Format;
use membership::Membership;
pub use options::Args;
use options::{Settings, Start};
use printer::Printer;

const OUT_BUFFER: usize = 256 * 1024;
/// How long a topic may be without leaders at the start.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// How long leaving a group may take, as `KafkaConsumer.close` takes without being told.
const CLOSING: Duration = Duration::from_secs(30);
/// Between the end of a fetcher and the start of the next.
const BACKOFF: Duration = Duration::from_millis(100);

pub fn main(args: Args) -> ExitCode {
    match consume(&args) {
        Ok(messages) => {
            eprintln!("Processed a total of {messages} messages");
            ExitCode::SUCCESS
        }
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => super::failed(&error),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn consume(args: &Args) -> anyhow::Result<u64> {
    let settings = Settings::new(args)?;
    let format = Format::new(Properties::read(args.formatter_config.as_deref(), &args.property)?)?;
    let (sender, events) = mpsc::sync_channel(1);
    let caller = Caller { client_id: StrBytes::from_string(settings.client_id.clone()), ..Caller::default() };
    let admin = Admin::connect(&args.bootstrap_server, caller.clone())?;
    let begin = |group| Membership::begin(&settings, group, &args.bootstrap_server, caller, sender.clone());
    let membership = settings.group.as_ref().map(begin).transpose()?;
    let clock = SystemClock::default();
    let mut reader = Reader {
        settings: &settings,
        admin,
        membership,
        assignments: Assignments::default(),
        events: sender,
        heard_ms: clock.monotonic_ms(),
        clock,
    };
    if reader.membership.is_none() {
        reader.begin()?;
    }
    // From here on what does not work comes back as an event, while other partitions are read.
    reader.admin.set_patience(Duration::ZERO);
    reader.hear_interrupts()?;
    let mut progress = Progress::new(!io::stdout().is_terminal());
    let mut out = BufWriter::with_capacity(OUT_BUFFER, io::stdout().lock());
    let mut printer = Printer::new(&settings, &format);
    let done = reader.print(&events, &mut printer, &mut progress, &mut out);
    let flushed = out.flush();
    progress.finish();
    if let Some(membership) = &reader.membership {
        if flushed.is_ok() {
            membership.reached(printer.positions);
        }
        reader.admin.set_patience(CLOSING);
        // Whatever went wrong before is the error that counts.
        if let Err(error) = membership.leave(&mut reader.admin) {
            eprintln!("leaving the group: {error:#}");
        }
    }
    done?;
    flushed?;
    Ok(printer.printed)
}

struct Reader<'a> {
    settings: &'a Settings,
    admin: Admin,
    membership: Option<Membership>,
    assignments: Assignments,
    events: SyncSender<Event>,
    clock: SystemClock,
    /// When the last record was written, or the beginning.
    heard_ms: i64,
}

impl Reader<'_> {
    /// Starts on all partitions, or on the one that is wanted.
    fn begin(&mut self) -> anyhow::Result<()> {
        let layout = await_layout(&mut self.admin, &self.settings.topic, MAX_WAIT)?;
        let wanted = |partition: &i32| self.settings.partition.is_none_or(|wanted| wanted == *partition);
        let positions: Vec<_> =
            layout.into_keys().filter(wanted).map(|partition| (partition, self.settings.start)).collect();
        if positions.is_empty() {
            bail!("topic {} has no partition {}", self.settings.topic, self.settings.partition.unwrap_or_default());
        }
        self.fetch_from(positions)
    }

    /// Starts a fetcher per leader. Partitions without one come back as an event.
    fn fetch_from(&mut self, positions: Vec<(i32, Start)>) -> anyhow::Result<()> {
        let layout = current_layout(&mut self.admin, &self.settings.topic)?;
        let leader = |partition: &i32| layout.get(partition).and_then(Option::as_deref);
        let (led, waiting): (Vec<_>, Vec<_>) =
            positions.into_iter().partition(|(partition, _)| leader(partition).is_some());
        let mut by_leader: BTreeMap<&str, Vec<(i32, i64)>> = BTreeMap::new();
        for (partition, offset) in self.resolve(&led)? {
            by_leader.entry(leader(&partition).unwrap_or_default()).or_default().push((partition, offset));
        }
        for (leader, positions) in by_leader {
            if let Some(membership) = &self.membership {
                membership.reached(positions.iter().copied());
            }
            let assignments = self.assignments.clone();
            fetcher::spawn(self.settings.clone(), leader.to_owned(), positions, assignments, self.events.clone())?;
        }
        if let Some((partition, _)) = waiting.first() {
            let why = format!("partition {partition} has no leader");
            self.hear_again(waiting, why);
        }
        Ok(())
    }

    /// Asks the leaders what earliest and latest are.
    fn resolve(&mut self, positions: &[(i32, Start)]) -> anyhow::Result<Vec<(i32, i64)>> {
        let mut found = Vec::with_capacity(positions.len());
        let mut asked = BTreeMap::new();
        for (partition, start) in positions {
            let timestamp = match start {
                Start::At(offset) => {
                    found.push((*partition, *offset));
                    continue;
                }
                Start::Latest => LATEST,
                Start::Earliest => EARLIEST,
            };
            asked.insert(TopicPartition::new(self.settings.topic.as_str(), *partition), timestamp);
        }
        let isolation = match self.settings.read_committed {
            true => IsolationLevel::ReadCommitted,
            false => IsolationLevel::ReadUncommitted,
        };
        for (of, offset) in self.admin.list_offsets(&asked, isolation)? {
            let offset = offset.map_err(|code| anyhow!("offsets of partition {}: {code}", of.partition))?;
            found.push((of.partition, offset));
        }
        Ok(found)
    }

    /// Ctrl-C ends the program in order, a second one at once.
    fn hear_interrupts(&self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let events = self.events.clone();
        let listener = move || {
            if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
                let again = thread::spawn(move || {
                    let _ = runtime.block_on(tokio::signal::ctrl_c());
                    std::process::exit(130);
                });
                let _ = events.send(Event::Interrupted);
                let _ = again.join();
            }
        };
        thread::Builder::new().name("signals".to_owned()).spawn(listener)?;
        Ok(())
    }

    /// Until there is enough, nothing comes, or Ctrl-C.
    fn print(
        &mut self,
        events: &Receiver<Event>,
        printer: &mut Printer<'_>,
        progress: &mut Progress,
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        let mut told = String::new();
        while !printer.has_enough() {
            let event = match events.try_recv() {
                Ok(event) => event,
                Err(TryRecvError::Disconnected) => return Ok(()),
                Err(TryRecvError::Empty) => {
                    out.flush()?;
                    match self.next(events) {
                        Some(event) => event,
                        None => return Ok(()),
                    }
                }
            };
            match event {
                Event::Interrupted => return Ok(()),
                Event::Failed(error) => return Err(error),
                Event::Revoked(acknowledge) => {
                    self.assignments.end_current();
                    printer.positions.clear();
                    // The member's thread may have ended.
                    let _ = acknowledge.send(());
                }
                Event::Assigned(positions) => self.fetch_or_hear_of_it(positions),
                // Of an assignment that has ended.
                Event::Read(assignment, _) if assignment != self.assignments.current() => {}
                Event::Read(_, Read::Failed(error)) => return Err(error),
                Event::Read(_, Read::Fetched(fetched)) => {
                    told.clear();
                    printer.print(&fetched, progress, out)?;
                    self.heard_ms = self.clock.monotonic_ms();
                    progress.tick();
                    if let Some(membership) = &self.membership {
                        out.flush()?;
                        membership.reached(printer.positions.iter().map(|(partition, offset)| (*partition, *offset)));
                    }
                }
                Event::Read(_, Read::Ended { positions, .. }) if positions.is_empty() => {}
                Event::Read(_, Read::Ended { positions, why }) => {
                    if why != told {
                        eprintln!("{}: {why}", self.settings.topic);
                        told = why;
                    }
                    thread::sleep(BACKOFF);
                    self.fetch_or_hear_of_it(positions);
                }
            }
        }
        Ok(())
    }

    /// What cannot be fetched comes back as an event, to be tried again.
    fn fetch_or_hear_of_it(&mut self, positions: Vec<(i32, Start)>) {
        if let Err(error) = self.fetch_from(positions.clone()) {
            self.hear_again(positions, format!("{error:#}"));
        }
    }

    fn hear_again(&self, positions: Vec<(i32, Start)>, why: String) {
        let (events, assignment) = (self.events.clone(), self.assignments.current());
        // Not from here: the channel may be full, and only this thread empties it.
        thread::spawn(move || events.send(Event::Read(assignment, Read::Ended { positions, why })));
    }

    /// `None` when no record has come for as long as was said, whatever else has.
    fn next(&self, events: &Receiver<Event>) -> Option<Event> {
        let Some(timeout) = self.settings.timeout else { return events.recv().ok() };
        let timeout_ms = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
        let left_ms = self.heard_ms.saturating_add(timeout_ms).saturating_sub(self.clock.monotonic_ms());
        match events.recv_timeout(Duration::from_millis(u64::try_from(left_ms).unwrap_or(0))) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                eprintln!("no record has come for {timeout_ms} ms");
                None
            }
        }
    }
}
