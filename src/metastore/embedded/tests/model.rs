//! Random transactions on the tree and on the plainest thing that could be right.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use crate::metastore::embedded::tree::Tree;
use crate::metastore::{CreateMode, Error, MultiError, Op, OpResult, Stat};

#[derive(Clone, Debug)]
struct ModelNode {
    data: Bytes,
    czxid: i64,
    mzxid: i64,
    version: i32,
    created: i32,
    deleted: i32,
    owner: i64,
    ctime_ms: i64,
    mtime_ms: i64,
}

/// A flat map that is copied whole before each transaction.
#[derive(Clone, Debug)]
struct Model {
    nodes: BTreeMap<String, ModelNode>,
    zxid: i64,
}

fn parent(path: &str) -> String {
    match path.rsplit_once('/').unwrap() {
        ("", _) => "/".to_owned(),
        (parent, _) => parent.to_owned(),
    }
}

impl Model {
    fn children(&self, path: &str) -> Vec<String> {
        let below = self.nodes.keys().filter(|other| *other != "/" && parent(other) == path);
        below.map(|other| other.rsplit_once('/').unwrap().1.to_owned()).collect()
    }

    fn stat(&self, path: &str) -> Option<Stat> {
        let node = self.nodes.get(path)?;
        Some(Stat {
            czxid: node.czxid,
            mzxid: node.mzxid,
            version: node.version,
            cversion: node.created + node.deleted,
            num_children: self.children(path).len() as i32,
            ephemeral_owner: node.owner,
            ctime_ms: node.ctime_ms,
            mtime_ms: node.mtime_ms,
        })
    }

    fn check(&self, path: &str, version: i32) -> Result<(), Error> {
        match self.nodes.get(path) {
            None => Err(Error::NoNode(path.to_owned())),
            Some(node) if version != -1 && version != node.version => Err(Error::BadVersion(path.to_owned())),
            Some(_) => Ok(()),
        }
    }

    fn step(&mut self, session: i64, op: &Op, zxid: i64, now_ms: i64) -> Result<OpResult, Error> {
        match op {
            Op::Check { path, version } => self.check(path, *version).map(|()| OpResult::Checked),
            Op::Create { path, data, mode } => {
                let above = parent(path);
                let Some(holder) = self.nodes.get(&above).cloned() else { return Err(Error::NoNode(path.clone())) };
                let sequential = *mode == CreateMode::PersistentSequential;
                let path = if sequential { format!("{path}{:010}", holder.created) } else { path.clone() };
                if self.nodes.contains_key(&path) {
                    return Err(Error::NodeExists(path));
                }
                if holder.owner != 0 {
                    return Err(Error::NoChildrenForEphemerals(path));
                }
                self.nodes.get_mut(&above).unwrap().created += 1;
                let owner = if *mode == CreateMode::Ephemeral { session } else { 0 };
                let data = data.clone().unwrap_or_default();
                let node = ModelNode {
                    data,
                    czxid: zxid,
                    mzxid: zxid,
                    version: 0,
                    created: 0,
                    deleted: 0,
                    owner,
                    ctime_ms: now_ms,
                    mtime_ms: now_ms,
                };
                self.nodes.insert(path.clone(), node);
                Ok(OpResult::Created(path))
            }
            Op::Set { path, data, version } => {
                self.check(path, *version)?;
                let node = self.nodes.get_mut(path).unwrap();
                node.data = data.clone();
                node.version += 1;
                node.mzxid = zxid;
                node.mtime_ms = now_ms;
                Ok(OpResult::Set(self.stat(path).unwrap()))
            }
            Op::Delete { path, version } => {
                self.check(path, *version)?;
                if !self.children(path).is_empty() {
                    return Err(Error::NotEmpty(path.clone()));
                }
                self.remove(path);
                Ok(OpResult::Deleted)
            }
        }
    }

    fn remove(&mut self, path: &str) {
        self.nodes.remove(path);
        self.nodes.get_mut(&parent(path)).unwrap().deleted += 1;
    }

    fn apply(&mut self, session: i64, ops: &[Op], now_ms: i64) -> Result<Vec<OpResult>, MultiError> {
        let before = self.clone();
        let zxid = self.zxid + 1;
        let mut results = Vec::new();
        for (index, op) in ops.iter().enumerate() {
            match self.step(session, op, zxid, now_ms) {
                Ok(result) => results.push(result),
                Err(error) => {
                    *self = before;
                    return Err(MultiError { index, error });
                }
            }
        }
        self.zxid = zxid;
        Ok(results)
    }

    fn close(&mut self, session: i64) {
        let owned: Vec<String> =
            self.nodes.iter().filter(|(_, node)| node.owner == session).map(|(path, _)| path.clone()).collect();
        for path in owned {
            self.remove(&path);
        }
        self.zxid += 1;
    }
}

#[derive(Clone, Debug)]
enum Step {
    Multi(usize, Vec<Op>),
    /// The session ends and another takes its place.
    Replace(usize),
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..4)
        .prop_map(|names| format!("/{}", names.join("/")))
}

fn op() -> impl Strategy<Value = Op> {
    let version = prop_oneof![3 => Just(-1), 1 => 0..3];
    let mode = prop_oneof![
        4 => Just(CreateMode::Persistent),
        1 => Just(CreateMode::Ephemeral),
        1 => Just(CreateMode::PersistentSequential),
    ];
    let data = || prop::collection::vec(any::<u8>(), 0..4).prop_map(Bytes::from);
    prop_oneof![
        1 => (path(), version.clone()).prop_map(|(path, version)| Op::Check { path, version }),
        4 => (path(), prop::option::of(data()), mode).prop_map(|(path, data, mode)| Op::Create { path, data, mode }),
        2 => (path(), data(), version.clone()).prop_map(|(path, data, version)| Op::Set { path, data, version }),
        2 => (path(), version).prop_map(|(path, version)| Op::Delete { path, version }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (0..2usize, prop::collection::vec(op(), 1..4)).prop_map(|(session, ops)| Step::Multi(session, ops)),
        1 => (0..2usize).prop_map(Step::Replace),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn the_tree_is_what_the_model_says(steps in prop::collection::vec(step(), 1..60)) {
        let mut tree = Tree::default();
        let mut sessions = [tree.open_session(), tree.open_session()];
        let root = ModelNode {
            data: Bytes::new(), czxid: 0, mzxid: 0, version: 0, created: 0, deleted: 0, owner: 0, ctime_ms: 0, mtime_ms: 0,
        };
        let mut model = Model { nodes: BTreeMap::from([("/".to_owned(), root)]), zxid: 0 };
        for (now_ms, step) in (100..).zip(&steps) {
            match step {
                Step::Multi(session, ops) => {
                    let applied = tree.apply(sessions[*session], ops, now_ms).map(|applied| applied.results);
                    prop_assert_eq!(applied, model.apply(sessions[*session], ops, now_ms));
                }
                Step::Replace(session) => {
                    tree.close_session(sessions[*session]);
                    model.close(sessions[*session]);
                    sessions[*session] = tree.open_session();
                }
            }
            prop_assert_eq!(tree.zxid(), model.zxid);
            let paths: Vec<&str> = tree.nodes().map(|(path, _)| path).collect();
            prop_assert_eq!(&paths, &model.nodes.keys().map(String::as_str).collect::<Vec<_>>());
            for (path, node) in tree.nodes() {
                prop_assert_eq!(Some(node.stat()), model.stat(path));
                prop_assert_eq!(node.data.clone().unwrap_or_default(), &model.nodes[path].data);
                prop_assert_eq!(node.children.iter().map(|name| name.to_string()).collect::<Vec<_>>(), model.children(path));
            }
        }
    }
}
