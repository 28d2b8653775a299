//! What is done to a log before and while a disk stops, as lists of steps.

use std::sync::Arc;

use super::model::Model;
use crate::clock::ManualClock;
use crate::sim::disk::SimDisk;
use crate::storage::log::{AppendParams, Log, Origin};
use crate::storage::manager::LogManager;
use crate::storage::testing::{Row, Sender, World, batch_of, client, keyed, marker};
use crate::types::{LeaderEpoch, Offset};
use crate::wire::batch::{BatchOptions, stamp};

/// One thing done to the log of `t-0`, or to the directory it lies in.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// So many batches of two records by an idempotent producer; four fill a segment.
    Append(u32),
    /// So many batches as a follower takes them.
    Follow(u32),
    /// One that begins so many offsets behind the log end: a leader has compacted what lay there.
    FollowBehind(i64),
    /// A new leader epoch begins at the log end.
    Epoch(i32),
    /// A batch inside a transaction.
    Begin,
    /// The transaction's end marker.
    Abort,
    Commit,
    Flush,
    /// The high watermark reaches the log end.
    Replicate,
    /// The cleaner comes by.
    Clean,
    /// Truncation by so many offsets.
    Cut(i64),
    /// Truncation of everything; the log begins again there.
    Restart(i64),
    /// DeleteRecords below there.
    Raise(i64),
    /// Enough time passes for every due task, which then run: checkpoints, retention, removals, fsync of rolled segments.
    Tasks,
    /// The partition is deleted; the next step makes it again.
    Delete,
    /// An orderly stop; the next step starts again.
    Stop,
}

pub struct Script {
    pub name: &'static str,
    /// Done without a crash; the process is then killed.
    pub before: &'static [Step],
    /// Done with the disk stopping at every change.
    pub steps: &'static [Step],
    pub retention_bytes: i64,
    /// The topic is compacted: of five keys, whose records take turns.
    pub compact: bool,
}

const fn compacted(name: &'static str, before: &'static [Step], steps: &'static [Step]) -> Script {
    Script { name, before, steps, retention_bytes: -1, compact: true }
}

const fn script(name: &'static str, before: &'static [Step], steps: &'static [Step]) -> Script {
    Script { name, before, steps, retention_bytes: -1, compact: false }
}

use Step::*;

pub const SCRIPTS: &[Script] = &[
    script("the first start and the first records", &[], &[Append(1), Flush]),
    script("appends, flushes and a roll", &[Append(3), Flush], &[Append(1), Flush, Append(3), Flush, Append(1)]),
    script("rolls, and what due tasks make of them", &[Append(2)], &[Append(7), Tasks, Append(6), Tasks, Append(1)]),
    script(
        "checkpoints",
        &[Append(2), Flush, Replicate, Tasks],
        &[Append(2), Flush, Replicate, Tasks, Append(1), Replicate, Tasks],
    ),
    script("truncation of unflushed records", &[Append(2), Flush, Append(7)], &[Cut(9), Append(2), Flush]),
    script(
        "truncation below the checkpointed recovery point, then rolls",
        &[Append(12), Flush, Replicate, Tasks],
        &[Cut(13), Epoch(1), Append(7), Flush],
    ),
    script("truncation to nothing", &[Append(6), Flush, Replicate, Tasks], &[Restart(40), Append(5), Flush, Append(1)]),
    script(
        "a start below the checkpointed log start",
        &[Append(12), Flush, Replicate, Raise(11), Tasks],
        &[Restart(4), Append(2), Flush, Append(1)],
    ),
    script(
        "leader epochs",
        &[Append(1)],
        &[Epoch(1), Append(1), Flush, Epoch(2), Epoch(3), Append(4), Flush, Cut(6), Epoch(4), Append(1), Flush],
    ),
    script("a follower", &[Append(2)], &[Epoch(2), Follow(4), Flush, Cut(3), Epoch(3), Follow(3), Flush]),
    script(
        "aborted transactions and producer snapshots",
        &[Append(1)],
        &[Begin, Abort, Begin, Append(3), Abort, Flush, Begin, Append(3), Commit, Begin, Flush, Tasks],
    ),
    script(
        "a truncated abort",
        &[Append(1), Begin, Abort, Append(1), Begin, Abort, Flush],
        &[Cut(2), Append(2), Begin, Flush],
    ),
    script(
        "DeleteRecords",
        &[Append(12), Flush, Replicate, Tasks],
        &[Raise(3), Tasks, Raise(11), Tasks, Append(1), Tasks, Raise(17), Tasks],
    ),
    Script {
        name: "retention",
        before: &[Append(10), Flush, Replicate, Tasks],
        steps: &[Append(8), Replicate, Tasks, Append(2), Tasks],
        retention_bytes: 1600,
        compact: false,
    },
    script(
        "deletion of the partition, and another of its name",
        &[Append(6), Flush, Replicate, Raise(5), Tasks],
        &[Delete, Append(1), Flush, Tasks, Append(1)],
    ),
    script("a stop with nothing done since a recovery", &[Append(6), Flush, Append(1)], &[Stop, Stop, Tasks]),
    script("orderly stops", &[Append(6), Flush, Stop], &[Append(2), Stop, Append(3), Replicate, Stop, Tasks]),
    compacted(
        "compaction of what is flushed",
        &[Append(14), Flush, Replicate, Tasks],
        &[Clean, Append(1), Flush, Tasks],
    ),
    compacted("compaction of what is not", &[Append(2)], &[Append(12), Replicate, Clean, Append(1), Tasks]),
    compacted(
        "compaction again and again, and a start between",
        &[Append(10), Replicate, Clean, Append(3)],
        &[Append(6), Replicate, Clean, Stop, Append(7), Replicate, Clean, Tasks],
    ),
    compacted(
        "compaction of aborted transactions",
        &[Append(1), Begin, Append(3), Abort, Begin, Commit, Append(4), Replicate],
        &[Clean, Begin, Abort, Append(6), Replicate, Clean, Tasks],
    ),
    compacted(
        "a follower of what was compacted",
        &[Follow(3), FollowBehind(7)],
        &[
            FollowBehind(5),
            Follow(2),
            FollowBehind(1),
            FollowBehind(9),
            Flush,
            FollowBehind(3),
            Follow(2),
            FollowBehind(1 << 31),
            Follow(3),
            Flush,
            FollowBehind(20),
        ],
    ),
    compacted(
        "truncation behind what was compacted",
        &[Append(14), Flush, Replicate, Clean, Tasks],
        &[Cut(3), Epoch(1), Append(9), Replicate, Clean, Flush, Tasks],
    ),
];

impl Script {
    pub fn world(&self, disk: &SimDisk) -> World {
        let mut world = world(disk, self.retention_bytes);
        world.topic.cleanup_compact = self.compact;
        world.topic.cleanup_delete = !self.compact;
        world.topic.min_cleanable_dirty_ratio = 0.0;
        world
    }
}

/// A player has the script's model, and the process while it runs.
pub struct Player<'a> {
    pub model: &'a mut Model,
    world: World,
    manager: Option<LogManager>,
}

/// The world of every script on `disk`.
pub fn world(disk: &SimDisk, retention_bytes: i64) -> World {
    let mut world = World::new(Arc::new(disk.clone()), "/logs", Arc::new(ManualClock::at(1_000_000)));
    world.topic.segment_bytes = 500;
    world.topic.index_interval_bytes = 100;
    world.topic.retention_bytes = retention_bytes;
    world
}

/// Whether a failing disk was noticed, or the steps just came to their end.
#[derive(Debug)]
pub struct Ended {
    pub done: Result<(), String>,
    /// The directory is offline, or the process could not start.
    pub offline: bool,
}

impl<'a> Player<'a> {
    pub fn new(disk: &SimDisk, script: &Script, model: &'a mut Model) -> Player<'a> {
        Player { model, world: script.world(disk), manager: None }
    }

    /// Plays until a step fails.
    pub fn play(mut self, steps: &[Step]) -> Ended {
        let done = steps.iter().try_for_each(|step| self.step(*step).map_err(|e| format!("{step:?}: {e}")));
        let offline = self.manager.map_or(done.is_err(), |manager| manager.any_offline());
        Ended { done, offline }
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        let text = |e: &dyn std::fmt::Display| e.to_string();
        let manager = match &mut self.manager {
            Some(manager) => manager,
            none => none.insert(self.world.start().map_err(|e| text(&e))?),
        };
        let log = self.world.log(manager, "t").map_err(|e| text(&e))?;
        self.model.sees(&log);
        match step {
            Append(count) => (0..count).try_for_each(|_| self.append(&log, 5, false))?,
            Begin => self.append(&log, 9, true)?,
            Abort => self.marker(&log, false)?,
            Commit => self.marker(&log, true)?,
            Follow(count) => (0..count).try_for_each(|_| self.follow(&log, 0))?,
            FollowBehind(gap) => self.follow(&log, gap)?,
            Epoch(epoch) => {
                self.model.epoch = epoch;
                log.assign_epoch(LeaderEpoch(epoch)).map_err(|e| text(&e))?;
            }
            Flush => {
                log.flush().map_err(|e| text(&e))?;
                self.model.is_flushed();
            }
            Replicate => self.model.replicated_to(log.set_high_watermark(log.log_end())),
            Clean => {
                self.model.is_compacted();
                manager.clean_dirtiest();
                if manager.any_offline() {
                    return Err("offline".to_owned());
                }
            }
            Cut(by) => {
                let to = log.log_end() + -by;
                self.model.will_be_cut(to);
                log.truncate_to(to).map_err(|e| text(&e))?;
            }
            Restart(at) => {
                self.model.will_restart(Offset(at));
                log.truncate_fully_and_start_at(Offset(at)).map_err(|e| text(&e))?;
            }
            Raise(to) => {
                self.model.may_start_at(Offset(to));
                log.raise_log_start(Offset(to));
            }
            Tasks => {
                self.model.may_start_at(log.offsets().high_watermark);
                self.world.clock.advance(400_000);
                manager.run_all_due_tasks();
                if manager.any_offline() {
                    return Err("offline".to_owned());
                }
                self.model.is_checkpointed(&log);
            }
            Delete => {
                self.model.is_forgotten();
                manager.delete(log.topic_partition()).map_err(|e| text(&e))?;
            }
            Stop => {
                manager.close();
                if manager.any_offline() {
                    return Err("offline".to_owned());
                }
                self.model.is_flushed();
                self.model.is_checkpointed(&log);
                self.manager = None;
            }
        }
        Ok(())
    }

    fn append(&mut self, log: &Log, id: i64, transactional: bool) -> Result<(), String> {
        let known = log.producers().into_iter().find(|(known, _)| *known == id);
        let sequence = known.map_or(0, |(_, state)| state.last_sequence() + 1);
        let sender = Sender { id, epoch: 0, sequence, transactional };
        let timestamp_ms = self.model.next_timestamp();
        let bytes = match self.world.topic.cleanup_compact {
            true => of_five_keys(timestamp_ms, sender),
            false => batch_of(2, timestamp_ms, 20, Some(sender)),
        };
        self.lead(log, bytes, client(self.model.epoch, 1_000_000))
    }

    fn marker(&mut self, log: &Log, commit: bool) -> Result<(), String> {
        let by = AppendParams { origin: Origin::Coordinator, ..client(self.model.epoch, 1_000_000) };
        self.lead(log, marker(9, 0, commit, 1), by)
    }

    fn lead(&mut self, log: &Log, mut bytes: Vec<u8>, by: AppendParams) -> Result<(), String> {
        let end = log.log_end();
        let appended = log.append_as_leader(&mut bytes, by);
        // What was written of a batch that failed is as it would have been.
        stamp::set_base_offset(&mut bytes, end);
        stamp::set_leader_epoch(&mut bytes, by.leader_epoch);
        self.model.is_appended(end, bytes, appended.map(drop).map_err(|e| e.to_string()))
    }

    fn follow(&mut self, log: &Log, gap: i64) -> Result<(), String> {
        let end = log.log_end() + gap;
        let timestamp_ms = self.model.next_timestamp();
        let mut bytes = match self.world.topic.cleanup_compact {
            true => {
                self.model.is_compacted();
                of_five_keys(timestamp_ms, Sender { id: -1, epoch: -1, sequence: -1, transactional: false })
            }
            false => batch_of(2, timestamp_ms, 20, None),
        };
        stamp::set_base_offset(&mut bytes, end);
        stamp::set_leader_epoch(&mut bytes, LeaderEpoch(self.model.epoch));
        let appended = log.append_as_follower(&bytes, 1_000_000);
        self.model.is_appended(end, bytes, appended.map(drop).map_err(|e| e.to_string()))
    }
}

/// Two records with the keys whose turn it is.
fn of_five_keys(timestamp_ms: i64, sender: Sender) -> Vec<u8> {
    let row = |at: i64| -> Row { (format!("k{}", (2 * timestamp_ms + at) % 5), Some(format!("{timestamp_ms}.{at}"))) };
    let options = BatchOptions {
        producer_id: sender.id,
        producer_epoch: sender.epoch,
        base_sequence: sender.sequence,
        transactional: sender.transactional,
        ..BatchOptions::default()
    };
    keyed(&[row(0), row(1)], 10 * timestamp_ms, options)
}
