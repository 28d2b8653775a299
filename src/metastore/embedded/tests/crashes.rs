//! The files after every crash point of a script, and after damage that no crash explains.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use parking_lot::Mutex;

use crate::clock::{Clock, ManualClock};
use crate::metastore::embedded::files::{Files, JOURNAL, OpenError, SNAPSHOT};
use crate::metastore::embedded::tree::{Node, Tree};
use crate::metastore::embedded::{EmbeddedStore, OpenOptions};
use crate::metastore::{CreateMode, Error, Metastore, Op, SessionState};
use crate::sim::crash::{at_every_change, outcomes};
use crate::sim::disk::{Keep, SimDisk, Stop};
use crate::spawn::{Spawner, Task};
use crate::storage::disk::{Disk, Open};

const DIR: &str = "/data";
/// A journal that is full after every few frames.
const OPTIONS: OpenOptions = OpenOptions { compact_above: 1 << 20, grow_by: 300 };

/// Runs blocking jobs in line.
struct InLine;

impl Spawner for InLine {
    fn data(&self, _: Task) {}
    fn control(&self, _: Task) {}
    fn blocking(&self, job: Box<dyn FnOnce() + Send>) {
        job();
    }
}

/// Keeps blocking jobs until told.
#[derive(Default)]
struct Later(Mutex<VecDeque<Box<dyn FnOnce() + Send>>>);

impl Later {
    fn run(&self) -> usize {
        let jobs = std::mem::take(&mut *self.0.lock());
        let count = jobs.len();
        jobs.into_iter().for_each(|job| job());
        count
    }
}

impl Spawner for Later {
    fn data(&self, _: Task) {}
    fn control(&self, _: Task) {}
    fn blocking(&self, job: Box<dyn FnOnce() + Send>) {
        self.0.lock().push_back(job);
    }
}

fn open_with(disk: &SimDisk, spawner: Arc<dyn Spawner>, compact_above: u64) -> Result<Arc<EmbeddedStore>, OpenError> {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(5));
    let options = OpenOptions { compact_above, ..OPTIONS };
    EmbeddedStore::open_with(Arc::new(disk.clone()), &[PathBuf::from(DIR)], clock, spawner, options)
}

fn open(disk: &SimDisk) -> Result<Arc<EmbeddedStore>, OpenError> {
    open_with(disk, Arc::new(InLine), 1 << 20)
}

/// With the store's directory on it.
fn disk() -> SimDisk {
    let disk = SimDisk::new(Arc::new(ManualClock::at(5)));
    disk.create_dir_all(Path::new(DIR)).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

fn file(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

/// Every kind of change, sized so that a small journal is compacted several times.
fn script() -> Vec<Vec<Op>> {
    let create = |path: String, mode| Op::Create { path, data: Some(Bytes::from_static(b"some data")), mode };
    let mut script = Vec::new();
    for n in 0..6 {
        script.push(vec![create(format!("/t{n}"), CreateMode::Persistent)]);
        script.push(vec![
            Op::Create { path: format!("/t{n}/p"), data: None, mode: CreateMode::Persistent },
            create(format!("/t{n}/p/state"), CreateMode::Persistent),
        ]);
        script.push(vec![create(format!("/e{n}"), CreateMode::Ephemeral)]);
        script.push(vec![create("/t0/seq-".to_owned(), CreateMode::PersistentSequential)]);
        let path = format!("/t{n}/p/state");
        script.push(vec![Op::Set { path, data: Bytes::from(vec![b'x'; 40]), version: -1 }]);
        if n % 2 == 1 {
            script.push(vec![
                Op::Delete { path: format!("/t{n}/p/state"), version: 1 },
                Op::Delete { path: format!("/t{n}/p"), version: 0 },
                Op::Set { path: format!("/t{n}"), data: Bytes::new(), version: 0 },
            ]);
        }
    }
    script
}

/// Trees after each prefix of the script, as the next process must see them.
fn expected() -> Vec<Vec<(String, Node)>> {
    let script = script();
    (0..=script.len())
        .map(|len| {
            let mut tree = Tree::default();
            tree.begin_epoch();
            let session = tree.open_session();
            for ops in &script[..len] {
                tree.apply(session, ops, 5).unwrap();
            }
            tree.begin_epoch();
            nodes(&tree)
        })
        .collect()
}

fn nodes(tree: &Tree) -> Vec<(String, Node)> {
    tree.nodes().map(|(path, node)| (path.to_owned(), node.clone())).collect()
}

/// Opens the files and shows the tree; they must open.
fn reopened(disk: &SimDisk) -> Vec<(String, Node)> {
    let (_, tree) = Files::open(Arc::new(disk.clone()), Path::new(DIR), 5, OPTIONS).unwrap();
    nodes(&tree)
}

/// Runs the script until the disk stops. Returns the number of acknowledged transactions.
fn run_script(disk: &SimDisk) -> usize {
    let Ok(store) = open_with(disk, Arc::new(InLine), 600) else { return 0 };
    let session = store.session();
    let mut acknowledged = 0;
    for ops in script() {
        match session.multi(ops).now_or_never().unwrap() {
            Ok(_) => acknowledged += 1,
            Err(_) => break,
        }
    }
    std::mem::forget(session);
    acknowledged
}

#[tokio::test]
async fn conforms_on_a_disk() {
    let store = open_with(&disk(), Arc::new(InLine), 10_000).unwrap();
    crate::metastore::conformance::run(Arc::new(store)).await;
}

#[test]
fn every_crash_point_keeps_what_was_acknowledged() {
    let expected = expected();
    let changes = at_every_change(&disk(), Stop::PowerLost, run_script, |at, stopped, acknowledged| {
        for (outcome, after) in outcomes(stopped, 2) {
            let what = format!("stopped at {at}, {outcome}, {acknowledged} acknowledged");
            let found = reopened(&after.fork());
            let possible = &expected[acknowledged..=(acknowledged + 1).min(expected.len() - 1)];
            assert!(possible.contains(&found), "{what}");
            // And a crash while the first was being repaired.
            at_every_change(
                &after,
                Stop::PowerLost,
                |disk| drop(open(disk)),
                |again, stopped, ()| {
                    for (outcome, after) in outcomes(stopped, 0) {
                        assert_eq!(reopened(&after), found, "{what}, again at {again}, {outcome}");
                    }
                },
            );
        }
    });
    // Write and sync each; making a file is six changes, a compaction makes two files.
    assert!(changes as usize >= 2 * (script().len() + 1) + 6 + 2 * 12, "the script compacts twice: {changes}");
}

#[test]
fn a_change_that_fails_ends_the_store_and_costs_nothing_acknowledged() {
    let expected = expected();
    for stop in [Stop::Error, Stop::Full] {
        at_every_change(&disk(), stop, run_script, |at, stopped, acknowledged| {
            let what = format!("{stop:?} at {at}, {acknowledged} acknowledged");
            assert!(!stopped.has_stopped() || acknowledged < script().len(), "{what}: and nobody noticed");
            for keep in [Keep::Nothing, Keep::Everything] {
                let found = reopened(&stopped.after_crash(keep));
                let possible = &expected[acknowledged..=(acknowledged + 1).min(expected.len() - 1)];
                assert!(possible.contains(&found), "{what}");
            }
        });
    }
}

#[test]
fn damage_that_no_crash_explains_is_refused() {
    let disk = disk();
    run_script(&disk);
    let refused = |edit: &dyn Fn(&SimDisk)| {
        let damaged = disk.after_crash(Keep::Everything);
        edit(&damaged);
        match open(&damaged) {
            Err(OpenError::Damaged { path, what }) => format!("{}: {what}", path.display()),
            other => panic!("{:?}", other.map(|_| ())),
        }
    };
    let (journal, snapshot) = (file(JOURNAL), file(SNAPSHOT));
    assert!(refused(&|disk| disk.edit(&journal, |bytes| bytes[40] ^= 1).unwrap()).contains("is broken, the one at"));
    assert!(refused(&|disk| disk.edit(&journal, |bytes| bytes[8] ^= 1).unwrap()).contains("header"));
    assert!(refused(&|disk| disk.edit(&journal, |bytes| bytes.truncate(10)).unwrap()).contains("shorter"));
    assert!(refused(&|disk| disk.edit(&snapshot, |bytes| bytes[100] ^= 1).unwrap()).contains("checksum"));
    assert!(refused(&|disk| disk.edit(&snapshot, Vec::clear).unwrap()).contains("shorter"));
    assert!(refused(&|disk| disk.remove_file(&snapshot).unwrap()).contains("but the snapshot ends at 0"));
    assert!(refused(&|disk| disk.remove_file(&journal).unwrap()).contains("missing beside"));
}

#[test]
fn a_commit_that_finds_room_changes_no_size() {
    let disk = disk();
    let store = open(&disk).unwrap();
    let (session, len) = (store.session(), || disk.info(&file(JOURNAL)).unwrap().len);
    let mut lens = vec![len()];
    for n in 0..20 {
        let path = format!("/n{n:02}");
        session.create(&path, None, CreateMode::Persistent).now_or_never().unwrap().unwrap();
        lens.push(len());
    }
    let grown = lens.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((2..=7).contains(&grown), "{lens:?}");
    assert!(lens.is_sorted());
    // The room that is left serves the next process.
    drop((session, store));
    let before = len();
    drop(open(&disk).unwrap());
    assert!(len() == before || len() == before + OPTIONS.grow_by as u64);
}

#[test]
fn an_unfinished_last_write_is_cut() {
    let disk = disk();
    run_script(&disk);
    let whole = reopened(&disk.after_crash(Keep::Everything));
    for torn in [&b"KLMF"[..], b"KLMF\xff\xff\xff\x7f\0\0\0\0x", &[0; 5000], b"x"] {
        let damaged = disk.after_crash(Keep::Everything);
        damaged.edit(&file(JOURNAL), |bytes| bytes.extend_from_slice(torn)).unwrap();
        assert_eq!(reopened(&damaged), whole);
        assert_eq!(reopened(&damaged), whole);
    }
}

#[test]
fn a_second_life_has_higher_numbers_and_none_of_the_first_ones_ephemerals() {
    let disk = disk();
    let store = open(&disk).unwrap();
    let first = store.session();
    let create = |store: &Arc<dyn Metastore>, path: &str, mode| {
        store.create(path, None, mode).now_or_never().unwrap().unwrap();
        store.get(path).now_or_never().unwrap().unwrap().1
    };
    let before = create(&first, "/p", CreateMode::Persistent);
    create(&first, "/e", CreateMode::Ephemeral);
    let disk = disk.after_crash(Keep::Nothing);
    let second = open(&disk).unwrap().session();
    assert_eq!(second.get("/p").now_or_never().unwrap().unwrap().1, before);
    assert_eq!(second.exists("/e").now_or_never().unwrap(), Ok(None));
    let after = create(&second, "/e", CreateMode::Ephemeral);
    assert!(after.czxid > before.czxid);
    assert_ne!(second.session_id(), first.session_id());
    let root = second.get("/").now_or_never().unwrap().unwrap().1;
    assert_eq!((root.num_children, root.cversion), (2, 4));
}

#[test]
fn waiting_calls_share_one_sync_and_nothing_is_told_before_it() {
    let disk = disk();
    let spawner = Arc::new(Later::default());
    let store = open_with(&disk, spawner.clone(), 1 << 20).unwrap();
    let session = store.session();
    let mut watch = session.exists_watch("/0").now_or_never().unwrap().unwrap().1;
    let before = disk.syncs();
    let paths = ["/0", "/1", "/2"];
    let mut creates: Vec<_> = paths.iter().map(|path| session.create(path, None, CreateMode::Persistent)).collect();
    for create in &mut creates {
        assert!(create.now_or_never().is_none());
    }
    let mut read = session.exists("/0");
    assert!((&mut read).now_or_never().is_none());
    assert!((&mut watch).now_or_never().is_none());
    assert_eq!(spawner.run(), 1);
    assert_eq!(disk.syncs(), before + 1);
    assert!((&mut watch).now_or_never().is_some());
    for (create, path) in creates.into_iter().zip(paths) {
        assert_eq!(create.now_or_never().unwrap().as_deref(), Ok(path));
    }
    assert!(read.now_or_never().unwrap().unwrap().is_some());
    assert!(session.exists("/0").now_or_never().unwrap().unwrap().is_some());
}

#[test]
fn a_failed_journal_ends_the_store() {
    let disk = disk();
    let store = open(&disk).unwrap();
    let session = store.session();
    let states = session.session_states();
    session.create("/a", None, CreateMode::Persistent).now_or_never().unwrap().unwrap();
    let (_, _, watch) = session.get_watch("/a").now_or_never().unwrap().unwrap();
    disk.stop_at(0, Stop::PowerLost);
    let lost = session.create("/b", None, CreateMode::Persistent).now_or_never().unwrap();
    assert_eq!(lost, Err(Error::Unknown));
    watch.now_or_never().unwrap();
    assert_eq!(*states.borrow(), SessionState::Disconnected);
    let Err(Error::Other(why)) = session.get("/a").now_or_never().unwrap() else { panic!("it answered") };
    assert_eq!(why, "the metastore's journal failed: the power is gone");
    let Err(Error::Other(_)) = store.session().exists("/a").now_or_never().unwrap() else { panic!("it answered") };
}

fn plant(disk: &SimDisk, path: &str) {
    let path = Path::new(path);
    disk.create_dir_all(path.parent().unwrap()).unwrap();
    disk.open(path, Open::Create).unwrap();
}

#[test]
fn an_empty_store_is_not_begun_over_foreign_data() {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(5));
    let dirs = [PathBuf::from("/data"), PathBuf::from("/more")];
    for (name, what) in [
        ("/data/meta.properties", "/data holds meta.properties but no klamm-metastore.journal"),
        ("/data/my.topic-0/00000000000000000000.log", "/data holds the partition my.topic-0 but"),
        ("/more/t-12.f00-delete/00000000000000000000.log", "/more holds the partition t-12.f00-delete but"),
    ] {
        let disk = disk();
        plant(&disk, name);
        let opened = EmbeddedStore::open(Arc::new(disk.clone()), &dirs, clock.clone(), Arc::new(InLine));
        let Err(OpenError::Foreign(words)) = opened else { panic!("{name} was accepted") };
        assert!(words.starts_with(what), "{words}");
    }
    let disk = disk();
    for harmless in ["/data/.lock", "/data/recovery-point-offset-checkpoint", "/data/lost+found/x", "/data/topic/x"] {
        plant(&disk, harmless);
    }
    drop(EmbeddedStore::open(Arc::new(disk.clone()), &dirs, clock.clone(), Arc::new(InLine)).unwrap());
    disk.open(Path::new("/data/meta.properties"), Open::Create).unwrap();
    assert!(EmbeddedStore::open(Arc::new(disk), &dirs, clock, Arc::new(InLine)).is_ok());
}
