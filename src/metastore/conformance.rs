//! What every store must do, as cases that run on any. Each case has a node of its own to work below.
//!
//! The cases were written against ZooKeeper 3.8 and hold for it; the embedded store follows.

// Test code, though tests outside the crate run it too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;

use super::{CreateMode, Error, Metastore, MultiError, Op, OpResult, Sessions, Watch};

/// Where a case runs.
pub struct Bench {
    sessions: Arc<dyn Sessions>,
    /// The case's own session.
    store: Arc<dyn Metastore>,
    root: String,
}

type Run = fn(Bench) -> Pin<Box<dyn Future<Output = ()> + Send>>;

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        /// Name and code of every case.
        pub const CASES: &[(&str, Run)] = &[$((stringify!($name), |bench| Box::pin($name(bench)))),*];
    };
}

cases![
    creates_and_reads,
    sets_by_version,
    deletes_by_version,
    counts_children,
    numbers_sequential_nodes,
    forgets_a_deleted_node,
    ephemerals_belong_to_their_session,
    ephemerals_go_with_their_session,
    a_transaction_is_one,
    a_failed_transaction_did_nothing,
    a_transaction_sees_its_own_steps,
    data_watches,
    armed_on_an_absent_node,
    child_watches,
    transactions_trigger_watches,
    a_watch_comes_before_the_news,
    sessions_watch_apart,
    calls_take_effect_in_order,
    refuses_bad_paths,
    syncs,
    elects_as_kafka_does,
    registers_as_kafka_does,
    holds_large_nodes,
];

/// Runs every case. Panics in the first that fails, having named it on standard error.
pub async fn run(sessions: Arc<dyn Sessions>) {
    for (name, case) in CASES {
        eprintln!("conformance: {name}");
        let store = sessions.open_session().await.expect("a session");
        let root = format!("/conformance-{name}");
        store.create(&root, None, CreateMode::Persistent).await.expect("a node for the case");
        case(Bench { sessions: sessions.clone(), store, root }).await;
    }
}

impl Bench {
    fn path(&self, below: &str) -> String {
        format!("{}/{below}", self.root)
    }

    async fn other_session(&self) -> Arc<dyn Metastore> {
        self.sessions.open_session().await.expect("another session")
    }

    async fn make(&self, below: &str) -> String {
        let path = self.path(below);
        assert_eq!(self.store.create(&path, None, CreateMode::Persistent).await.as_ref(), Ok(&path));
        path
    }
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn create(path: &str, data: &'static str, mode: CreateMode) -> Op {
    Op::Create { path: path.to_owned(), data: Some(bytes(data)), mode }
}

fn set(path: &str, data: &'static str, version: i32) -> Op {
    Op::Set { path: path.to_owned(), data: bytes(data), version }
}

fn check(path: &str, version: i32) -> Op {
    Op::Check { path: path.to_owned(), version }
}

fn delete(path: &str) -> Op {
    Op::Delete { path: path.to_owned(), version: -1 }
}

/// Whether the watch has not completed, after everything before has reached this session.
async fn still_armed(store: &Arc<dyn Metastore>, root: &str, watch: &mut Watch) -> bool {
    store.sync(root).await.expect("sync");
    store.exists(root).await.expect("a read");
    watch.now_or_never().is_none()
}

async fn creates_and_reads(bench: Bench) {
    let store = &bench.store;
    let path = bench.path("a");
    assert_eq!(store.exists(&path).await, Ok(None));
    assert_eq!(store.get(&path).await, Err(Error::NoNode(path.clone())));
    assert_eq!(store.children(&path).await, Err(Error::NoNode(path.clone())));
    assert_eq!(store.create(&path, Some(bytes("x")), CreateMode::Persistent).await.as_ref(), Ok(&path));
    let (data, stat) = store.get(&path).await.unwrap();
    assert_eq!(data, "x");
    assert_eq!((stat.version, stat.cversion, stat.num_children, stat.ephemeral_owner), (0, 0, 0, 0));
    assert_eq!((stat.mzxid, stat.mtime_ms), (stat.czxid, stat.ctime_ms));
    assert!(stat.czxid > 0);
    assert_eq!(store.exists(&path).await, Ok(Some(stat)));
    let again = store.create(&path, None, CreateMode::Persistent).await;
    assert_eq!(again, Err(Error::NodeExists(path.clone())));
    let orphan = bench.path("b/c");
    assert_eq!(store.create(&orphan, None, CreateMode::Persistent).await, Err(Error::NoNode(orphan)));
    let null = bench.make("null").await;
    assert_eq!(store.get(&null).await.unwrap().0, "");
    assert_eq!(store.create("/", None, CreateMode::Persistent).await, Err(Error::NodeExists("/".into())));
}

async fn sets_by_version(bench: Bench) {
    let store = &bench.store;
    let path = bench.make("a").await;
    let (_, before) = store.get(&path).await.unwrap();
    let first = store.set(&path, bytes("1"), 0).await.unwrap();
    assert_eq!((first.version, first.czxid, first.ctime_ms), (1, before.czxid, before.ctime_ms));
    assert!(first.mzxid > before.mzxid);
    assert_eq!(store.get(&path).await, Ok((bytes("1"), first)));
    for stale in [0, 2, -2] {
        assert_eq!(store.set(&path, bytes("no"), stale).await, Err(Error::BadVersion(path.clone())));
    }
    assert_eq!(store.set(&path, bytes(""), -1).await.unwrap().version, 2);
    assert_eq!(store.get(&path).await.unwrap().0, "");
    let absent = bench.path("absent");
    assert_eq!(store.set(&absent, bytes("1"), -1).await, Err(Error::NoNode(absent.clone())));
    assert_eq!(store.set(&absent, bytes("1"), 7).await, Err(Error::NoNode(absent)));
}

async fn deletes_by_version(bench: Bench) {
    let store = &bench.store;
    let path = bench.make("a").await;
    let child = bench.make("a/b").await;
    assert_eq!(store.delete(&path, -1).await, Err(Error::NotEmpty(path.clone())));
    assert_eq!(store.delete(&child, 1).await, Err(Error::BadVersion(child.clone())));
    assert_eq!(store.delete(&path, 1).await, Err(Error::BadVersion(path.clone())));
    assert_eq!(store.delete(&child, 0).await, Ok(()));
    assert_eq!(store.delete(&child, -1).await, Err(Error::NoNode(child)));
    assert_eq!(store.delete(&path, -1).await, Ok(()));
    assert_eq!(store.exists(&path).await, Ok(None));
}

async fn counts_children(bench: Bench) {
    let store = &bench.store;
    let path = bench.make("a").await;
    let (_, before) = store.get(&path).await.unwrap();
    for name in ["a/z", "a/y", "a/x"] {
        bench.make(name).await;
    }
    store.delete(&bench.path("a/y"), -1).await.unwrap();
    store.set(&bench.path("a/x"), bytes("1"), -1).await.unwrap();
    let mut names = store.children(&path).await.unwrap();
    names.sort();
    assert_eq!(names, ["x", "z"]);
    let (_, stat) = store.get(&path).await.unwrap();
    assert_eq!((stat.num_children, stat.cversion), (2, 4));
    assert_eq!((stat.version, stat.mzxid, stat.mtime_ms), (0, before.mzxid, before.mtime_ms));
}

async fn numbers_sequential_nodes(bench: Bench) {
    let store = &bench.store;
    let prefix = bench.path("config_change_");
    let next = || store.create(&prefix, Some(bytes("x")), CreateMode::PersistentSequential);
    assert_eq!(next().await, Ok(format!("{prefix}0000000000")));
    assert_eq!(next().await, Ok(format!("{prefix}0000000001")));
    bench.make("other").await;
    store.delete(&format!("{prefix}0000000001"), -1).await.unwrap();
    assert_eq!(next().await, Ok(format!("{prefix}0000000003")));
    let bare = bench.make("d").await + "/";
    let bare = store.create(&bare, None, CreateMode::PersistentSequential).await;
    assert_eq!(bare, Ok(bench.path("d/0000000000")));
    let results = store
        .multi(vec![
            create(&prefix, "1", CreateMode::PersistentSequential),
            create(&prefix, "2", CreateMode::PersistentSequential),
        ])
        .await;
    let created = ["0000000005", "0000000006"].map(|n| OpResult::Created(format!("{prefix}{n}")));
    assert_eq!(results.as_deref(), Ok(&created[..]));
}

async fn forgets_a_deleted_node(bench: Bench) {
    let store = &bench.store;
    let path = bench.make("a").await;
    store.set(&path, bytes("1"), -1).await.unwrap();
    bench.make("a/b").await;
    store.delete(&bench.path("a/b"), -1).await.unwrap();
    let (_, old) = store.get(&path).await.unwrap();
    store.delete(&path, -1).await.unwrap();
    bench.make("a").await;
    let (data, new) = store.get(&path).await.unwrap();
    assert_eq!(data, "");
    assert_eq!((new.version, new.cversion), (0, 0));
    assert!(new.czxid > old.mzxid);
}

async fn ephemerals_belong_to_their_session(bench: Bench) {
    let store = &bench.store;
    let path = bench.path("e");
    store.create(&path, None, CreateMode::Ephemeral).await.unwrap();
    let (_, stat) = store.get(&path).await.unwrap();
    assert_ne!(stat.ephemeral_owner, 0);
    assert_eq!(stat.ephemeral_owner, store.session_id());
    let child = bench.path("e/c");
    let refused = store.create(&child, None, CreateMode::Persistent).await;
    assert_eq!(refused, Err(Error::NoChildrenForEphemerals(child)));
    let other = bench.other_session().await;
    assert_ne!(other.session_id(), store.session_id());
    assert_eq!(other.create(&path, None, CreateMode::Ephemeral).await, Err(Error::NodeExists(path.clone())));
    // Any session may delete it, as a restarted broker does with what its dead one left.
    assert_eq!(other.delete(&path, -1).await, Ok(()));
    other.create(&path, None, CreateMode::Ephemeral).await.unwrap();
    store.sync(&path).await.unwrap();
    assert_eq!(store.get(&path).await.unwrap().1.ephemeral_owner, other.session_id());
}

async fn ephemerals_go_with_their_session(bench: Bench) {
    let other = bench.other_session().await;
    let (a, b, kept) = (bench.path("a"), bench.path("b"), bench.path("kept"));
    other.create(&a, None, CreateMode::Ephemeral).await.unwrap();
    other.create(&b, None, CreateMode::Ephemeral).await.unwrap();
    other.create(&kept, None, CreateMode::Persistent).await.unwrap();
    other.delete(&b, -1).await.unwrap();
    bench.store.sync(&b).await.unwrap();
    bench.store.create(&b, None, CreateMode::Ephemeral).await.unwrap();
    let (there, gone) = bench.store.exists_watch(&a).await.unwrap();
    assert!(there.is_some());
    let (_, fewer) = bench.store.children_watch(&bench.root).await.unwrap();
    drop(other);
    gone.await;
    fewer.await;
    let mut names = bench.store.children(&bench.root).await.unwrap();
    names.sort();
    assert_eq!(names, ["b", "kept"]);
}

async fn a_transaction_is_one(bench: Bench) {
    let store = &bench.store;
    let (a, b, c) = (bench.make("a").await, bench.path("b"), bench.make("c").await);
    let results = store
        .multi(vec![check(&a, 0), create(&b, "b", CreateMode::Persistent), set(&a, "1", 0), delete(&c)])
        .await
        .unwrap();
    let [OpResult::Checked, OpResult::Created(created), OpResult::Set(stat), OpResult::Deleted] = results.as_slice()
    else {
        panic!("{results:?}");
    };
    assert_eq!(created, &b);
    assert_eq!(store.get(&a).await, Ok((bytes("1"), *stat)));
    let (data, made) = store.get(&b).await.unwrap();
    assert_eq!(data, "b");
    assert_eq!(made.czxid, stat.mzxid);
    assert_eq!(store.exists(&c).await, Ok(None));
    assert_eq!(store.multi(vec![]).await, Ok(vec![]));
}

async fn a_failed_transaction_did_nothing(bench: Bench) {
    let store = &bench.store;
    let (a, b) = (bench.make("a").await, bench.path("b"));
    bench.make("a/child").await;
    let before = (store.get(&a).await.unwrap(), store.get(&bench.root).await.unwrap());
    let absent = bench.path("absent");
    for (index, error, ops) in [
        (0, Error::BadVersion(a.clone()), vec![check(&a, 1), create(&b, "", CreateMode::Persistent)]),
        (
            2,
            Error::NodeExists(a.clone()),
            vec![create(&b, "", CreateMode::Persistent), set(&a, "1", -1), create(&a, "", CreateMode::Persistent)],
        ),
        (1, Error::NoNode(absent.clone()), vec![delete(&bench.path("a/child")), check(&absent, -1)]),
        (1, Error::NotEmpty(a.clone()), vec![create(&b, "", CreateMode::Ephemeral), delete(&a)]),
        (1, Error::BadVersion(a.clone()), vec![set(&a, "1", 0), set(&a, "2", 0)]),
    ] {
        assert_eq!(store.multi(ops).await, Err(MultiError { index, error }));
    }
    assert_eq!((store.get(&a).await.unwrap(), store.get(&bench.root).await.unwrap()), before);
    assert_eq!(store.exists(&b).await, Ok(None));
    assert!(store.exists(&bench.path("a/child")).await.unwrap().is_some());
    // A name taken back does not use up a number.
    let next = store.create(&bench.path("n"), None, CreateMode::PersistentSequential).await;
    assert_eq!(next, Ok(bench.path("n0000000001")));
}

async fn a_transaction_sees_its_own_steps(bench: Bench) {
    let store = &bench.store;
    let (a, b) = (bench.path("a"), bench.path("a/b"));
    let results = store
        .multi(vec![
            create(&a, "", CreateMode::Persistent),
            create(&b, "", CreateMode::Persistent),
            set(&a, "1", 0),
            check(&a, 1),
            delete(&b),
        ])
        .await
        .unwrap();
    assert_eq!(results.len(), 5);
    let (data, stat) = store.get(&a).await.unwrap();
    assert_eq!(data, "1");
    assert_eq!((stat.version, stat.cversion, stat.num_children), (1, 2, 0));
    store.multi(vec![delete(&a), create(&a, "2", CreateMode::Persistent)]).await.unwrap();
    assert_eq!(store.get(&a).await.unwrap().1.version, 0);
}

async fn data_watches(bench: Bench) {
    let store = &bench.store;
    let path = bench.make("a").await;
    let (_, _, changed) = store.get_watch(&path).await.unwrap();
    let (there, changed_too) = store.exists_watch(&path).await.unwrap();
    assert!(there.is_some());
    store.set(&path, bytes("1"), -1).await.unwrap();
    changed.await;
    changed_too.await;

    let (data, stat, mut watch) = store.get_watch(&path).await.unwrap();
    assert_eq!((data, stat.version), (bytes("1"), 1));
    bench.make("a/b").await;
    store.delete(&bench.path("a/b"), -1).await.unwrap();
    assert_eq!(store.set(&path, bytes("no"), 7).await, Err(Error::BadVersion(path.clone())));
    assert!(still_armed(store, &bench.root, &mut watch).await);
    store.delete(&path, -1).await.unwrap();
    watch.await;

    assert_eq!(store.get_watch(&path).await.err(), Some(Error::NoNode(path)));
}

async fn armed_on_an_absent_node(bench: Bench) {
    let store = &bench.store;
    let path = bench.path("a");
    let (there, mut watch) = store.exists_watch(&path).await.unwrap();
    assert_eq!(there, None);
    bench.make("b").await;
    assert!(still_armed(store, &bench.root, &mut watch).await);
    bench.make("a").await;
    watch.await;
    let (there, watch) = store.exists_watch(&path).await.unwrap();
    assert!(there.is_some());
    store.delete(&path, -1).await.unwrap();
    watch.await;
    // Even the parent may be absent.
    let (there, watch) = store.exists_watch(&bench.path("a/deep")).await.unwrap();
    assert_eq!(there, None);
    bench.make("a").await;
    bench.make("a/deep").await;
    watch.await;
}

async fn child_watches(bench: Bench) {
    let store = &bench.store;
    let path = bench.make("a").await;
    let (names, watch) = store.children_watch(&path).await.unwrap();
    assert!(names.is_empty());
    let child = bench.make("a/b").await;
    watch.await;

    let (names, mut watch) = store.children_watch(&path).await.unwrap();
    assert_eq!(names, ["b"]);
    store.set(&path, bytes("1"), -1).await.unwrap();
    store.set(&child, bytes("1"), -1).await.unwrap();
    let grandchild = bench.make("a/b/c").await;
    store.delete(&grandchild, -1).await.unwrap();
    assert!(still_armed(store, &bench.root, &mut watch).await);
    store.delete(&child, -1).await.unwrap();
    watch.await;

    let (_, watch) = store.children_watch(&path).await.unwrap();
    store.delete(&path, -1).await.unwrap();
    watch.await;
    assert_eq!(store.children_watch(&path).await.err(), Some(Error::NoNode(path)));
}

async fn transactions_trigger_watches(bench: Bench) {
    let store = &bench.store;
    let (a, b, c) = (bench.make("a").await, bench.path("b"), bench.make("c").await);
    let (_, _, mut of_a) = store.get_watch(&a).await.unwrap();
    let (_, mut of_b) = store.exists_watch(&b).await.unwrap();
    let (_, mut of_c) = store.exists_watch(&c).await.unwrap();
    let (_, mut of_root) = store.children_watch(&bench.root).await.unwrap();
    let failing = vec![set(&a, "1", -1), create(&b, "", CreateMode::Persistent), delete(&c), check(&a, 99)];
    assert_eq!(store.multi(failing).await.map_err(|failed| failed.index), Err(3));
    for watch in [&mut of_a, &mut of_b, &mut of_c, &mut of_root] {
        assert!(still_armed(store, &bench.root, watch).await);
    }
    store.multi(vec![set(&a, "1", -1), create(&b, "", CreateMode::Persistent), delete(&c)]).await.unwrap();
    for watch in [of_a, of_b, of_c, of_root] {
        watch.await;
    }
}

async fn a_watch_comes_before_the_news(bench: Bench) {
    let path = bench.make("a").await;
    let watcher = bench.other_session().await;
    watcher.sync(&path).await.unwrap();
    for round in 1..20 {
        let (_, stat, mut watch) = watcher.get_watch(&path).await.unwrap();
        let (set, read) = futures_util::future::join(bench.store.set(&path, bytes("x"), -1), async {
            loop {
                let (_, now) = watcher.get(&path).await.unwrap();
                if now.version > stat.version {
                    return watch.as_mut().now_or_never();
                }
            }
        })
        .await;
        assert_eq!(set.unwrap().version, round);
        assert_eq!(read, Some(()), "round {round}");
    }
}

async fn sessions_watch_apart(bench: Bench) {
    let path = bench.make("a").await;
    let other = bench.other_session().await;
    other.sync(&path).await.unwrap();
    let (_, _, mine) = bench.store.get_watch(&path).await.unwrap();
    let (_, _, dropped) = bench.store.get_watch(&path).await.unwrap();
    let (_, _, theirs) = other.get_watch(&path).await.unwrap();
    drop(dropped);
    bench.store.set(&path, bytes("1"), -1).await.unwrap();
    mine.await;
    theirs.await;
    assert_eq!(other.get(&path).await.unwrap().0, "1");
}

async fn calls_take_effect_in_order(bench: Bench) {
    let store = &bench.store;
    let path = bench.path("a");
    let calls = (
        store.create(&path, None, CreateMode::Persistent),
        store.set(&path, bytes("1"), 0),
        store.get(&path),
        store.multi(vec![set(&path, "2", 1)]),
        store.children(&bench.root),
        store.delete(&path, 2),
        store.exists(&path),
    );
    let (created, first, read, second, names, deleted, gone) =
        tokio::join!(calls.0, calls.1, calls.2, calls.3, calls.4, calls.5, calls.6);
    assert_eq!(created.as_ref(), Ok(&path));
    assert_eq!(first.unwrap().version, 1);
    assert_eq!(read.unwrap().0, "1");
    assert!(second.is_ok());
    assert_eq!(names.unwrap(), ["a"]);
    assert_eq!((deleted, gone), (Ok(()), Ok(None)));
}

async fn refuses_bad_paths(bench: Bench) {
    let store = &bench.store;
    for path in ["", "a", "/a/", "//", "/a//b", "/.", "/a/..", "/a\0b", "/a\u{1f}"] {
        let bad = Error::BadPath(path.to_owned());
        assert_eq!(store.create(path, None, CreateMode::Persistent).await, Err(bad.clone()));
        assert_eq!(store.get(path).await, Err(bad.clone()));
        assert_eq!(store.get_watch(path).await.err(), Some(bad.clone()));
        assert_eq!(store.exists(path).await, Err(bad.clone()));
        assert_eq!(store.exists_watch(path).await.err(), Some(bad.clone()));
        assert_eq!(store.children(path).await, Err(bad.clone()));
        assert_eq!(store.children_watch(path).await.err(), Some(bad.clone()));
        assert_eq!(store.set(path, Bytes::new(), -1).await, Err(bad.clone()));
        assert_eq!(store.delete(path, -1).await, Err(bad.clone()));
        assert_eq!(store.sync(path).await, Err(bad.clone()));
        let failed = store.multi(vec![check(&bench.root, -1), set(path, "", -1)]).await;
        assert_eq!(failed, Err(MultiError { index: 1, error: bad }));
    }
    assert_eq!(store.delete("/", -1).await, Err(Error::BadPath("/".into())));
    bench.make("<default>").await;
    bench.make("u%20x%2A").await;
    bench.make("ünï").await;
}

async fn syncs(bench: Bench) {
    let other = bench.other_session().await;
    for version in 1..20 {
        bench.store.set(&bench.root, bytes("x"), -1).await.unwrap();
        other.sync(&bench.root).await.unwrap();
        assert_eq!(other.get(&bench.root).await.unwrap().1.version, version);
    }
    assert_eq!(other.sync(&bench.path("absent")).await, Ok(()));
}

async fn elects_as_kafka_does(bench: Bench) {
    let (controller, epoch) = (bench.path("controller"), bench.path("controller_epoch"));
    bench.store.create(&epoch, Some(bytes("0")), CreateMode::Persistent).await.unwrap();
    let rival = bench.other_session().await;
    rival.sync(&epoch).await.unwrap();
    let bid = || vec![create(&controller, "{}", CreateMode::Ephemeral), set(&epoch, "1", 0)];
    let won = bench.store.multi(bid()).await.unwrap();
    let [OpResult::Created(_), OpResult::Set(stat)] = won.as_slice() else { panic!("{won:?}") };
    assert_eq!(stat.version, 1);
    let lost = rival.multi(bid()).await;
    assert_eq!(lost, Err(MultiError { index: 0, error: Error::NodeExists(controller.clone()) }));
    rival.sync(&controller).await.unwrap();
    let (_, gone) = rival.exists_watch(&controller).await.unwrap();
    let fenced = |version| vec![check(&epoch, version), create(&bench.path("t"), "", CreateMode::Persistent)];
    bench.store.multi(fenced(1)).await.unwrap();
    bench.store.delete(&controller, -1).await.unwrap();
    gone.await;
    rival.multi(vec![create(&controller, "{}", CreateMode::Ephemeral), set(&epoch, "2", 1)]).await.unwrap();
    let late = bench.store.multi(fenced(1)).await;
    assert_eq!(late, Err(MultiError { index: 0, error: Error::BadVersion(epoch.clone()) }));
}

async fn registers_as_kafka_does(bench: Bench) {
    let path = bench.path("1");
    let register = || {
        let create = Op::Create { path: path.clone(), data: None, mode: CreateMode::Ephemeral };
        vec![create, set(&path, "{}", 0)]
    };
    let mut epochs = Vec::new();
    for _ in 0..2 {
        let results = bench.store.multi(register()).await.unwrap();
        let [OpResult::Created(_), OpResult::Set(stat)] = results.as_slice() else { panic!("{results:?}") };
        assert_eq!(bench.store.get(&path).await, Ok((bytes("{}"), *stat)));
        assert_eq!((stat.version, stat.ephemeral_owner), (1, bench.store.session_id()));
        epochs.push(stat.czxid);
        bench.store.delete(&path, -1).await.unwrap();
    }
    assert!(epochs[0] < epochs[1], "{epochs:?}");
}

async fn holds_large_nodes(bench: Bench) {
    let path = bench.make("a").await;
    let large = Bytes::from(vec![b'x'; 900 * 1024]);
    bench.store.set(&path, large.clone(), -1).await.unwrap();
    assert_eq!(bench.store.get(&path).await.unwrap().0, large);
    let many: Vec<Op> = (0..1000).map(|n| create(&format!("{path}/{n}"), "", CreateMode::Persistent)).collect();
    assert_eq!(bench.store.multi(many).await.unwrap().len(), 1000);
    assert_eq!(bench.store.children(&path).await.unwrap().len(), 1000);
}
