//! A history read and sorted: by partition, by client, by transaction.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::BufRead;
use std::ops::Deref;

use anyhow::{Context, Result, bail};

use crate::event::{
    Commit, Committed, End, Event, Fault, Outcome, Partition, Poll, Polled, Replica, Seek, Send, Stored, Transaction,
};
use crate::verdict::Fact;

/// Something with the line it was read from.
#[derive(Clone, Debug)]
pub struct At<T> {
    pub line: usize,
    pub it: T,
}

impl<T> At<T> {
    pub fn fact(&self, says: impl Into<String>) -> Fact {
        Fact { line: self.line, says: says.into() }
    }
}

impl<T> Deref for At<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.it
    }
}

/// A replica's log at the end of the run.
#[derive(Clone, Debug, Default)]
pub struct Log {
    pub broker: i32,
    pub log_start_offset: i64,
    pub high_watermark: i64,
    /// In the order of the dump, which a check may find wrong.
    pub records: Vec<At<Stored>>,
    /// The last line of it, for what it lacks.
    pub line: usize,
}

impl Log {
    pub fn at(&self, offset: i64) -> Option<&At<Stored>> {
        // A log whose offsets do not ascend is a finding of its own.
        self.records.binary_search_by_key(&offset, |record| record.offset).ok().map(|i| &self.records[i])
    }

    /// The value at an offset, if it holds a record there that is no control record.
    pub fn value_at(&self, offset: i64) -> Option<&str> {
        self.at(offset)?.value.as_deref()
    }

    /// What it holds but control records, each with its record.
    pub fn values(&self) -> impl Iterator<Item = (&str, &At<Stored>)> {
        self.records.iter().filter_map(|record| Some((record.value.as_deref()?, record)))
    }

    /// The offset that the send was given, if it is there.
    pub fn keeps(&self, send: &Send) -> Option<i64> {
        let Outcome::Stored { offset } = send.outcome else { return None };
        (self.value_at(offset) == Some(&send.value)).then_some(offset)
    }

    /// What it holds at an offset, or lacks there.
    pub fn fact(&self, partition: &Partition, offset: i64) -> Fact {
        let broker = self.broker;
        match self.at(offset) {
            Some(record) => record.fact(match &record.value {
                Some(value) => format!("broker {broker} holds {value} at offset {offset} of {partition}"),
                None => format!("broker {broker} holds a control record at offset {offset} of {partition}"),
            }),
            None => {
                let says = format!("broker {broker} holds nothing at offset {offset} of {partition}");
                Fact { line: self.line, says }
            }
        }
    }
}

/// What happened to one partition.
#[derive(Debug, Default)]
pub struct Scene {
    pub sends: Vec<At<Send>>,
    /// By client, in the order of the lines.
    pub polls: BTreeMap<String, Vec<Read>>,
    pub commits: Vec<At<Commit>>,
    pub committed: Vec<At<Committed>>,
    pub leader: Option<Log>,
    pub followers: BTreeMap<i32, Log>,
    pub compacted: bool,
}

/// A step of a client that reads.
#[derive(Debug)]
pub enum Read {
    Seek(At<Seek>),
    Poll(At<Poll>),
}

impl Scene {
    /// All polls of all clients.
    pub fn all_polls(&self) -> impl Iterator<Item = &At<Poll>> {
        self.polls.values().flatten().filter_map(|read| match read {
            Read::Poll(poll) => Some(poll),
            Read::Seek(_) => None,
        })
    }

    /// Every record that somebody was given.
    pub fn read(&self) -> impl Iterator<Item = (&At<Poll>, &Polled)> {
        self.all_polls().flat_map(|poll| poll.records.iter().map(move |record| (poll, record)))
    }

    /// Whether the record at an offset may be missing from the log though it was committed: retention took it, or a later
    /// one of its key.
    pub fn may_be_gone(&self, log: &Log, offset: i64, key: Option<&str>) -> bool {
        let later = |record: &At<Stored>| record.offset > offset && record.key.as_deref() == key;
        offset < log.log_start_offset || (self.compacted && key.is_some() && log.records.iter().any(later))
    }
}

#[derive(Debug, Default)]
pub struct Story {
    pub scenes: BTreeMap<Partition, Scene>,
    pub transactions: HashMap<String, At<Transaction>>,
    pub faults: Vec<At<Fault>>,
    /// The last time that everything was whole again.
    pub healed_us: Option<At<u64>>,
    pub spoilt: Vec<String>,
    pub events: usize,
}

impl Story {
    /// An error names the line that can not be read.
    pub fn read(lines: impl BufRead) -> Result<Story> {
        let mut story = Story::default();
        let mut compacted = BTreeSet::new();
        for (i, text) in lines.lines().enumerate() {
            let line = i + 1;
            let text = text.with_context(|| format!("line {line}"))?;
            if text.trim().is_empty() {
                continue;
            }
            let event = serde_json::from_str(&text).with_context(|| format!("line {line}"))?;
            story.events += 1;
            story.add(line, event, &mut compacted).with_context(|| format!("line {line}"))?;
        }
        for (partition, scene) in &mut story.scenes {
            scene.compacted = compacted.contains(&partition.topic);
        }
        Ok(story)
    }

    fn scene(&mut self, partition: &Partition) -> &mut Scene {
        if !self.scenes.contains_key(partition) {
            self.scenes.insert(partition.clone(), Scene::default());
        }
        self.scenes.get_mut(partition).expect("put there")
    }

    fn add(&mut self, line: usize, event: Event, compacted: &mut BTreeSet<String>) -> Result<()> {
        match event {
            Event::Send(it) => self.scene(&it.at.clone()).sends.push(At { line, it }),
            Event::Poll(it) => {
                let reads = &mut self.scene(&it.at.clone()).polls;
                reads.entry(it.client.clone()).or_default().push(Read::Poll(At { line, it }));
            }
            Event::Seek(it) => {
                let reads = &mut self.scene(&it.at.clone()).polls;
                reads.entry(it.client.clone()).or_default().push(Read::Seek(At { line, it }));
            }
            Event::Commit(it) => self.scene(&it.at.clone()).commits.push(At { line, it }),
            Event::Committed(it) => self.scene(&it.at.clone()).committed.push(At { line, it }),
            Event::Transaction(it) => {
                if let Some(other) = self.transactions.insert(it.transaction.clone(), At { line, it }) {
                    bail!("transaction {} ended in line {} already", other.transaction, other.line);
                }
            }
            Event::Replica(it) => self.replica(line, it)?,
            Event::Compacted { topic } => {
                compacted.insert(topic);
            }
            Event::Fault(it) => self.faults.push(At { line, it }),
            Event::Healed { at_us } => self.healed_us = Some(At { line, it: at_us }),
            Event::Spoilt { why } => self.spoilt.push(why),
        }
        Ok(())
    }

    fn replica(&mut self, line: usize, replica: Replica) -> Result<()> {
        let scene = self.scene(&replica.at);
        let log = if replica.leader {
            let log = scene.leader.get_or_insert_default();
            if log.line != 0 && log.broker != replica.broker {
                bail!("{} has two leaders, {} and {}", replica.at, log.broker, replica.broker);
            }
            log
        } else {
            scene.followers.entry(replica.broker).or_default()
        };
        log.broker = replica.broker;
        log.log_start_offset = replica.log_start_offset;
        log.high_watermark = replica.high_watermark;
        log.line = line;
        log.records.extend(replica.records.into_iter().map(|it| At { line, it }));
        Ok(())
    }

    /// How a transaction ended; one without an end in the history is unknown.
    pub fn end(&self, transaction: &str) -> End {
        self.transactions.get(transaction).map_or(End::Unknown, |it| it.end)
    }

    /// Why this history would be sound whatever the cluster did.
    pub fn shows_nothing(&self) -> Vec<String> {
        let mut why: Vec<String> = self.spoilt.clone();
        let unshown = self.faults.iter().filter(|fault| fault.shown_by.is_none());
        why.extend(unshown.map(|fault| format!("line {}: nothing shows that {} happened", fault.line, fault.name)));
        let stored = |send: &At<Send>| matches!(send.outcome, Outcome::Stored { .. });
        if !self.scenes.values().any(|scene| scene.sends.iter().any(stored)) {
            why.push("nothing was acknowledged".into());
        }
        let unseen = self.scenes.iter().filter(|(_, scene)| !scene.sends.is_empty() && scene.leader.is_none());
        why.extend(unseen.map(|(partition, _)| format!("the log of {partition}'s leader is missing")));
        why
    }
}
