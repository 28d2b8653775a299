//! Crashes: each script of [`script::SCRIPTS`] with the disk stopping at every change it makes, each outcome recovered
//! and checked against the [`model::Model`], and each recovery crashed again at every change of its own.
//!
//! | the disk stops with | what may be left | what must be there |
//! |---|---|---|
//! | power lost: this change and what was not synced may survive | nothing of it; names alone; bytes alone; zeros of the right length; all but half of the last write; a random part; everything | a beginning of what was appended, with everything a finished fsync covered |
//! | the process killed | everything | everything that was acknowledged |
//! | one change answering EIO (a write half done, an fsync without effect) | everything written; after a power loss only what was synced | the directory is offline or the start was refused; then as above |
//! | no space from one change on | everything that found space | the same |
//!
//! After each: no gap, offsets within their order, every epoch with records and no other, every producer at its last
//! sequence, every abort listed, every offset and timestamp found, no file left that no start would make; a second start
//! changes no byte; and the log goes on: appended to, flushed, stopped in order, started.
//!
//! With `KLAMM_LONG_CRASHES` set every recovery is cut short at every change, and the next one too; without it those of
//! the strictest disk at every second crash, once.
//!
//! Of a compacted log it is a selection of what was appended, with the last record of each key.
//!
//! What is left out: bytes that change by themselves, see `damage`.

mod model;
mod script;

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashSet};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::model::Model;
pub(super) use self::model::check_lookups;
pub(super) use self::script::world;
use self::script::{Ended, Player, SCRIPTS, Script, Step};
use crate::clock::ManualClock;
use crate::sim::crash::{at_every_change, outcomes};
use crate::sim::disk::{Keep, SimDisk, Stop};
use crate::storage::log::Log;
use crate::storage::manager::LogManager;
use crate::storage::testing::batches;
use crate::types::TopicPartition;

impl Script {
    /// The disk and what is known of it before the steps.
    fn begin(&self) -> (SimDisk, Model) {
        let disk = SimDisk::new(Arc::new(ManualClock::at(1_000_000)));
        let mut model = Model::default();
        let ended = Player::new(&disk, self, &mut model).play(self.before);
        assert_eq!(ended.done, Ok(()), "{}", self.name);
        // The process is killed; what was not synced stays so.
        (disk.fork(), model)
    }

    fn play(&self, disk: &SimDisk, model: &Model) -> (Model, Ended) {
        let mut model = model.clone();
        let ended = Player::new(disk, self, &mut model).play(self.steps);
        (model, ended)
    }
}

/// Starts on disks and looks; a disk it has seen with the same demands it passes over.
struct Judge<'a> {
    script: &'a Script,
    seen: HashSet<u64>,
}

impl Judge<'_> {
    /// Checks what a start makes of `disk`; with `again` also what becomes of it when that start is cut short, so many
    /// times in a row.
    fn judge(&mut self, model: &Model, disk: &SimDisk, what: &str, again: u32) {
        let mut hasher = DefaultHasher::new();
        (disk.tree(), model).hash(&mut hasher);
        if !self.seen.insert(hasher.finish()) {
            return;
        }
        self.recovers(model, disk.fork(), what);
        if again > 0 {
            let start = |disk: &SimDisk| drop(self.script.world(disk).start());
            let mut left = Vec::new();
            at_every_change(disk, Stop::PowerLost, start, |at, stopped, ()| {
                let what = |outcome| format!("{what}; the next start stops at {at}, {outcome}");
                left.extend(outcomes(stopped, 0).into_iter().map(|(outcome, disk)| (what(outcome), disk)));
            });
            left.iter().for_each(|(what, disk)| self.judge(model, disk, what, again - 1));
        }
    }

    fn start(&self, disk: &SimDisk, what: &str) -> (LogManager, Option<Arc<Log>>) {
        let manager = self.script.world(disk).start().unwrap_or_else(|e| panic!("{what}: {e}"));
        let log = manager.get(&TopicPartition::new("t", 0));
        (manager, log)
    }

    fn recovers(&self, model: &Model, disk: SimDisk, what: &str) {
        let was_stopped = disk.tree().contains_key(Path::new("/logs/.kafka_cleanshutdown"));
        let (manager, log) = self.start(&disk, what);
        let Some(log) = log else {
            let world = self.script.world(&disk);
            model.check(&world.log(&manager, "t").unwrap(), &format!("{what}, made anew"));
            return;
        };
        model.check(&log, what);
        no_file_is_left_over(&disk, what);
        let (found, offsets) = (batches(&log), log.offsets());

        // After an orderly stop the first start believes what the second checks.
        let disk = if was_stopped { disk.fork() } else { disk };
        if was_stopped {
            self.start(&disk, what);
        }
        let again = disk.fork();
        let (_, second) = self.start(&again, what);
        let second = second.unwrap_or_else(|| panic!("{what}: gone the second time"));
        assert_eq!((batches(&second), second.offsets()), (found, offsets), "{what}, then started once more");
        let (before, after) = (disk.tree(), again.tree());
        let names: BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
        let changed: Vec<_> = names.into_iter().filter(|name| before.get(*name) != after.get(*name)).collect();
        assert!(changed.is_empty(), "{what}: the second start changes {changed:?}");

        let mut model = model.goes_on_with(&second);
        let disk = again.fork();
        let mut steps = vec![Step::Append(1), Step::Flush, Step::Append(1)];
        if self.script.compact {
            steps.extend([Step::Append(4), Step::Replicate, Step::Clean]);
        }
        steps.extend([Step::Tasks, Step::Tasks, Step::Stop]);
        let ended = Player::new(&disk, self.script, &mut model).play(&steps);
        assert_eq!(ended.done, Ok(()), "{what}, then used");
        let awaits_removal = |path: &PathBuf| path.to_string_lossy().contains("delete");
        let left = disk.tree().into_keys().find(awaits_removal);
        assert_eq!(left, None, "{what}, then used for long");
        let (_manager, log) = self.start(&disk, what);
        model.check(&log.unwrap_or_else(|| panic!("{what}: gone")), &format!("{what}, then used and stopped"));
    }
}

/// Beside what a running broker keeps there may be the beginning of one small file, which the next write of it replaces.
fn no_file_is_left_over(disk: &SimDisk, what: &str) {
    let tree = disk.tree();
    for path in tree.keys().filter(|path| path.starts_with("/logs/t-0")) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let known = match name.split_once('.') {
            Some((base, "log" | "index" | "timeindex" | "txnindex" | "snapshot")) => {
                let log = Path::new("/logs/t-0").join(format!("{base}.log"));
                name.ends_with("snapshot") || tree.contains_key(&log)
            }
            _ => matches!(
                &*name,
                "leader-epoch-checkpoint"
                    | "leader-epoch-checkpoint.tmp"
                    | "partition.metadata"
                    | "partition.metadata.tmp"
            ),
        };
        assert!(known, "{what}: {} is left over", path.display());
    }
}

/// A script whose disk stopped.
struct Stopped<'a> {
    disk: &'a SimDisk,
    model: Model,
    ended: Ended,
    /// Script, change and last step.
    what: String,
}

/// Every script with `stop` at each of its changes, in as many threads as scripts; `then` judges what is left.
fn at_every_change_of_every_script(stop: Stop, then: impl Fn(&mut Judge<'_>, u64, Stopped<'_>) + Sync) {
    let play = &|script: &Script| {
        let (disk, model) = script.begin();
        let mut judge = Judge { script, seen: HashSet::new() };
        let step = |at, disk: &SimDisk, (model, ended): (Model, Ended)| {
            let what = format!("{}: {stop:?} at {at} ({:?})", script.name, ended.done);
            then(&mut judge, at, Stopped { disk, model, ended, what });
        };
        let changes = at_every_change(&disk, stop, |disk| script.play(disk, &model), step);
        assert!(changes > 15, "{} makes only {changes} changes", script.name);
    };
    std::thread::scope(|scope| SCRIPTS.iter().for_each(|script| drop(scope.spawn(move || play(script)))));
}

#[test]
fn nothing_flushed_is_lost_wherever_the_power_fails() {
    // Minutes: recoveries of every outcome cut short at every change, twice in a row.
    let long = std::env::var_os("KLAMM_LONG_CRASHES").is_some();
    at_every_change_of_every_script(Stop::PowerLost, |judge, at, stopped| {
        for (n, (outcome, left)) in outcomes(stopped.disk, 1).into_iter().enumerate() {
            let again = if long { 2 } else { u32::from(n == 0 && at % 2 == 0) };
            judge.judge(&stopped.model, &left, &format!("{}, {outcome}", stopped.what), again);
        }
    });
}

#[test]
fn nothing_acknowledged_is_lost_wherever_the_process_is_killed() {
    at_every_change_of_every_script(Stop::PowerLost, |judge, _, stopped| {
        judge.judge(&stopped.model.killed(), &stopped.disk.fork(), &format!("{}, killed", stopped.what), 0);
    });
}

/// The directory that met the failure is offline, or what failed serves nobody.
fn is_noticed(stopped: &Stopped<'_>) {
    // The lock is let go of with the process.
    let harmless = stopped.disk.stopped_at().is_none_or(|path| path.ends_with(".lock"));
    assert!(harmless || stopped.ended.offline, "{}: {:?} and nobody says so", stopped.what, stopped.disk.stopped_at());
}

#[test]
fn a_failed_change_takes_the_directory_offline_and_costs_nothing_acknowledged() {
    at_every_change_of_every_script(Stop::Error, |judge, _, stopped| {
        is_noticed(&stopped);
        judge.judge(&stopped.model.killed(), &stopped.disk.fork(), &stopped.what, 0);
        let dark = stopped.disk.after_crash(Keep::Nothing);
        judge.judge(&stopped.model, &dark, &format!("{}, then power lost", stopped.what), 0);
    });
}

#[test]
fn a_disk_that_fills_up_takes_the_directory_offline_and_costs_nothing_acknowledged() {
    at_every_change_of_every_script(Stop::Full, |judge, _, stopped| {
        is_noticed(&stopped);
        judge.judge(&stopped.model.killed(), &stopped.disk.fork(), &stopped.what, 0);
    });
}
