//! Batches per partition, requests per leader, and what becomes of them.
//!
//! ```text
//! append ── Draft per partition ── full, due or nothing else on its way ── Frame ── Pipe of the leader (up to 5 in flight)
//!                                                                 └── retry: after the answers of the rest, metadata anew
//! ```
//! Without `linger.ms` a batch grows for as long as an earlier one is unanswered: single lines go out at once, a stream in
//! large batches. Producers here have no id: a request whose answer is lost and that is sent again may be there twice.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use kafka_protocol::ResponseError;

use super::frame::{self, Draft, Frame};
use super::lines::Parts;
use super::options::Settings;
use super::partitioner::Partitioner;
use super::pipe::{Event, Input, Pipe};
use crate::cli::admin::Admin;
use crate::cli::client::Caller;
use crate::cli::layout::{Layout, await_layout};
use crate::clock::{Clock, SystemClock};
use crate::random::SystemRandom;
use crate::wire::error_code::ErrorCode;

/// Sends the records of one topic.
pub struct Sender<'a> {
    settings: &'a Settings,
    admin: Admin,
    topic: &'a str,
    clock: SystemClock,
    layout: Layout,
    partitioner: Partitioner,
    drafts: BTreeMap<i32, Draft>,
    /// Bytes of all drafts.
    held: usize,
    pipes: HashMap<String, Pipe>,
    next_pipe: u64,
    /// Frames sent whose answer or loss has not been told, on all pipes, those that broke too.
    unanswered: usize,
    retry: Vec<Frame>,
    retrying: bool,
    why: String,
    inputs: VecDeque<Input>,
    events: mpsc::Receiver<Event>,
    events_in: mpsc::Sender<Event>,
    /// Records the broker has refused, or that were tried too often.
    pub failed: u64,
}

impl<'a> Sender<'a> {
    /// Waits for the topic's leaders, which may create it.
    pub fn connect(settings: &'a Settings, bootstrap: &str, topic: &'a str) -> anyhow::Result<Sender<'a>> {
        let clock = SystemClock::default();
        let mut admin = Admin::connect(bootstrap, Caller::default())?;
        let layout = await_layout(&mut admin, topic, settings.max_block)?;
        let (events_in, events) = mpsc::channel();
        Ok(Sender {
            settings,
            admin,
            topic,
            clock,
            partitioner: Partitioner::new(&layout, &SystemRandom),
            layout,
            drafts: BTreeMap::new(),
            held: 0,
            pipes: HashMap::new(),
            next_pipe: 0,
            unanswered: 0,
            retry: Vec::new(),
            retrying: false,
            why: String::new(),
            inputs: VecDeque::new(),
            events,
            events_in,
            failed: 0,
        })
    }

    /// Where input goes, to come out of [`Sender::next_input`].
    pub fn events(&self) -> mpsc::Sender<Event> {
        self.events_in.clone()
    }

    pub fn wall_ms(&self) -> i64 {
        self.clock.wall_ms()
    }

    /// Takes the record in; may wait until there is room for it.
    pub fn append(&mut self, parts: &Parts<'_>, timestamp_ms: i64) -> anyhow::Result<()> {
        let size = frame::size(parts);
        let mut partition = self.partitioner.partition(parts.key, &self.layout);
        let full = |draft: &Draft| draft.size + size > self.settings.batch_size;
        if self.drafts.get(&partition).is_some_and(full) {
            self.send_draft(partition)?;
            partition = self.partitioner.partition(parts.key, &self.layout);
        }
        let draft = match self.drafts.remove(&partition) {
            Some(draft) => draft,
            None => Draft::begin(self.settings, self.topic, partition, self.clock.monotonic_ms())?,
        };
        self.drafts.entry(partition).or_insert(draft).append(parts, timestamp_ms)?;
        self.held += size;
        if self.settings.sync {
            self.finish()
        } else if self.held > self.settings.max_memory {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Waits for input; sends and hears answers meanwhile.
    pub fn next_input(&mut self) -> anyhow::Result<Input> {
        loop {
            if let Some(input) = self.inputs.pop_front() {
                return Ok(input);
            }
            if let Ok(event) = self.events.try_recv() {
                self.handle(event)?;
                continue;
            }
            self.send_again()?;
            let event = match self.settings.linger_ms {
                None => {
                    if self.unanswered == 0 {
                        self.flush()?;
                    }
                    Some(self.events.recv()?)
                }
                Some(linger_ms) => self.await_due(linger_ms)?,
            };
            if let Some(event) = event {
                self.handle(event)?;
            }
        }
    }

    /// The next event, or none when a draft has waited long enough; that one is sent.
    fn await_due(&mut self, linger_ms: i64) -> anyhow::Result<Option<Event>> {
        let Some(begun_ms) = self.drafts.values().map(|draft| draft.begun_ms).min() else {
            return Ok(Some(self.events.recv()?));
        };
        let left = begun_ms.saturating_add(linger_ms).saturating_sub(self.clock.monotonic_ms());
        match self.events.recv_timeout(Duration::from_millis(left.max(0) as u64)) {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => {
                let now_ms = self.clock.monotonic_ms();
                let due = |draft: &Draft| draft.begun_ms.saturating_add(linger_ms) <= now_ms;
                let due: Vec<i32> = self.drafts.iter().filter(|(_, draft)| due(draft)).map(|(n, _)| *n).collect();
                due.into_iter().try_for_each(|partition| self.send_draft(partition))?;
                Ok(None)
            }
            Err(RecvTimeoutError::Disconnected) => Err(anyhow!("the reading of input has ended")),
        }
    }

    /// Sends everything and waits for all answers.
    pub fn finish(&mut self) -> anyhow::Result<()> {
        self.flush()?;
        while self.unanswered > 0 || !self.retry.is_empty() {
            if self.unanswered > 0 {
                let event = self.events.recv()?;
                self.handle(event)?;
            } else {
                self.send_again()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let partitions: Vec<i32> = self.drafts.keys().copied().collect();
        partitions.into_iter().try_for_each(|partition| self.send_draft(partition))
    }

    fn send_draft(&mut self, partition: i32) -> anyhow::Result<()> {
        let Some(draft) = self.drafts.remove(&partition) else { return Ok(()) };
        self.held = self.held.saturating_sub(draft.size);
        self.partitioner.filled(partition, &self.layout, &SystemRandom);
        self.send_again()?;
        self.send(draft.finish()?)
    }

    /// To the leader, when it has fewer unanswered requests than allowed.
    fn send(&mut self, frame: Frame) -> anyhow::Result<()> {
        let Some(Some(address)) = self.layout.get(&frame.partition).cloned() else {
            self.put_off(frame, "the partition has no leader".to_owned());
            return Ok(());
        };
        while self.pipes.get(&address).is_some_and(|pipe| pipe.in_flight >= self.settings.in_flight) {
            let event = self.events.recv()?;
            self.handle(event)?;
        }
        let mut pipe = match self.pipes.remove(&address) {
            Some(pipe) => pipe,
            None => {
                self.next_pipe += 1;
                match Pipe::open(self.next_pipe, &address, self.events_in.clone()) {
                    Ok(pipe) => pipe,
                    Err(error) => {
                        self.put_off(frame, format!("{error:#}"));
                        return Ok(());
                    }
                }
            }
        };
        match pipe.send(frame, self.settings.acks != 0) {
            Ok(()) => {
                self.unanswered += usize::from(self.settings.acks != 0);
                self.pipes.insert(address, pipe);
            }
            Err((frame, error)) => {
                // What is in flight on this pipe comes back as lost.
                self.put_off(frame, error);
            }
        }
        Ok(())
    }

    fn put_off(&mut self, frame: Frame, why: String) {
        self.why = why;
        self.retry.push(frame);
    }

    /// Sends what failed anew, after all answers that are still to come, in the order of the records.
    fn send_again(&mut self) -> anyhow::Result<()> {
        if self.retry.is_empty() || self.retrying {
            return Ok(());
        }
        self.retrying = true;
        let result = self.send_all_again();
        self.retrying = false;
        result
    }

    fn send_all_again(&mut self) -> anyhow::Result<()> {
        while self.unanswered > 0 {
            let event = self.events.recv()?;
            self.handle(event)?;
        }
        thread::sleep(self.settings.retry_backoff);
        match await_layout(&mut self.admin, self.topic, self.settings.max_block) {
            Ok(layout) => self.layout = layout,
            Err(error) => self.why = format!("{error:#}"),
        }
        for mut frame in std::mem::take(&mut self.retry) {
            frame.attempts += 1;
            if frame.attempts > self.settings.retries {
                let why = format!("{} (tried {} times)", self.why, frame.attempts);
                self.fail(&frame, &why);
            } else {
                self.send(frame)?;
            }
        }
        Ok(())
    }

    fn fail(&mut self, frame: &Frame, why: &str) {
        eprintln!("{} records for {}-{} could not be sent: {why}", frame.records, self.topic, frame.partition);
        self.failed += frame.records;
    }

    fn handle(&mut self, event: Event) -> anyhow::Result<()> {
        match event {
            Event::Input(input) => self.inputs.push_back(input),
            Event::Lost { pipe, frame, error } => {
                self.unanswered = self.unanswered.saturating_sub(1);
                self.pipes.retain(|_, open| open.id != pipe);
                self.put_off(frame, error);
            }
            Event::Answered { pipe, frame, answer } => {
                self.unanswered = self.unanswered.saturating_sub(1);
                if let Some(pipe) = self.pipes.values_mut().find(|open| open.id == pipe) {
                    pipe.in_flight = pipe.in_flight.saturating_sub(1);
                }
                let code = ErrorCode::answered(answer.code);
                let why = answer.message.map_or(code.to_string(), |message| format!("{code}: {message}"));
                let retriable = || ResponseError::try_from_code(answer.code).is_some_and(|error| error.is_retriable());
                match code {
                    ErrorCode::None => {}
                    ErrorCode::MessageTooLarge if frame.records > 1 => {
                        for half in frame.split(self.settings, self.topic)? {
                            self.put_off(half, why.clone());
                        }
                    }
                    _ if retriable() => self.put_off(frame, why),
                    _ => self.fail(&frame, &why),
                }
            }
        }
        Ok(())
    }
}
