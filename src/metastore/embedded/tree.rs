//! The tree itself: nodes, versions, sessions and watches as one value. No clock, no disk, no waiting.
//!
//! ```text
//! nodes     "/brokers/ids/1" -> data, versions, owner, names of the children
//! sessions  id -> paths of its ephemeral nodes
//! watches   (data or children, path) -> ids, each removed when it triggers
//! ```
//!
//! Numbers follow ZooKeeper 3.8: one transaction id per transaction however many operations it has; a failed
//! transaction has none. A sequence number counts the children ever created below a node, whatever their mode; the
//! child version shown counts creations and deletions.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::metastore::path;
use crate::metastore::{CreateMode, Error, MultiError, Op, OpResult, Stat};

use super::watches::{Kind, WatchId, Watches};

/// One node. Its path is its key in the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// `None` = null, which ZooKeeper tells apart from empty.
    pub data: Option<Bytes>,
    pub czxid: i64,
    pub mzxid: i64,
    pub ctime_ms: i64,
    pub mtime_ms: i64,
    pub version: i32,
    /// Children ever created here: the next sequence number.
    pub creates: i32,
    /// Session of an ephemeral node, else 0.
    pub owner: i64,
    pub children: BTreeSet<Box<str>>,
}

impl Node {
    pub fn stat(&self) -> Stat {
        let num_children = i32::try_from(self.children.len()).unwrap_or(i32::MAX);
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            version: self.version,
            cversion: self.creates.wrapping_mul(2).wrapping_sub(num_children),
            num_children,
            ephemeral_owner: self.owner,
            ctime_ms: self.ctime_ms,
            mtime_ms: self.mtime_ms,
        }
    }
}

/// What a successful transaction did.
#[derive(Debug)]
pub struct Applied {
    pub results: Vec<OpResult>,
    /// Watches to complete; they are no longer armed.
    pub triggered: Vec<WatchId>,
}

/// How to take back one operation of a transaction.
enum Undo {
    Created(String),
    Set { path: String, data: Option<Bytes>, version: i32, mzxid: i64, mtime_ms: i64 },
    Deleted(String, Box<Node>),
}

/// Everything the store knows.
#[derive(Debug)]
pub struct Tree {
    nodes: BTreeMap<Box<str>, Node>,
    zxid: i64,
    sessions: BTreeMap<i64, BTreeSet<String>>,
    last_session: i64,
    watches: Watches,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree {
            nodes: BTreeMap::from([("/".into(), Node::default())]),
            zxid: 0,
            sessions: BTreeMap::new(),
            last_session: 0,
            watches: Watches::default(),
        }
    }
}

impl Tree {
    /// A tree of these nodes as of `zxid`; the children's names are derived. `None` when a node lacks its parent or
    /// the root is missing.
    pub fn from_nodes(zxid: i64, nodes: impl IntoIterator<Item = (String, Node)>) -> Option<Tree> {
        let mut tree = Tree { zxid, ..Tree::default() };
        let mut names = Vec::new();
        for (path, node) in nodes {
            if let Some((parent, name)) = path::split(&path) {
                names.push((parent.to_owned(), Box::from(name)));
            }
            if node.owner != 0 {
                tree.sessions.entry(node.owner).or_default().insert(path.clone());
            }
            tree.nodes.insert(path.into(), node);
        }
        for (parent, name) in names {
            tree.nodes.get_mut(parent.as_str())?.children.insert(name);
        }
        Some(tree)
    }

    /// The last transaction.
    pub fn zxid(&self) -> i64 {
        self.zxid
    }

    /// In path order.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(path, node)| (&**path, node))
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn get(&self, path: &str) -> Result<&Node, Error> {
        path::validate(path, false)?;
        self.nodes.get(path).ok_or_else(|| Error::NoNode(path.to_owned()))
    }

    /// Begins a new life of the store: transaction ids jump to the next multiple of 2^32, as with a new ZooKeeper
    /// leader, and what earlier sessions left behind is removed.
    pub fn begin_epoch(&mut self) {
        for session in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.remove_session(session);
        }
        self.zxid = ((self.zxid >> 32) + 1) << 32;
    }

    /// Registers a session, by a number that no other session of any life of the store has.
    pub fn open_session(&mut self) -> i64 {
        self.last_session = self.last_session.max(self.zxid >> 32 << 32) + 1;
        self.sessions.insert(self.last_session, BTreeSet::new());
        self.last_session
    }

    pub fn has_session(&self, session: i64) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Registers a session by its number, when a journal is replayed.
    pub fn ensure_session(&mut self, session: i64) {
        self.sessions.entry(session).or_default();
    }

    /// Ends a session: its ephemeral nodes are deleted in one transaction, its watches and those triggered are returned.
    pub fn close_session(&mut self, session: i64) -> Vec<WatchId> {
        let mut triggered = self.watches.remove_session(session);
        if let Some(paths) = self.remove_session(session) {
            self.zxid += 1;
            for path in paths {
                self.watches.trigger_deleted(&path, &mut triggered);
            }
        }
        triggered
    }

    /// Paths deleted; `None` for an unknown session.
    fn remove_session(&mut self, session: i64) -> Option<BTreeSet<String>> {
        let paths = self.sessions.remove(&session)?;
        for path in &paths {
            self.nodes.remove(path.as_str());
            if let Some((parent, name)) = path::split(path)
                && let Some(parent) = self.nodes.get_mut(parent)
            {
                parent.children.remove(name);
            }
        }
        Some(paths)
    }

    /// Arms a watch for creation, deletion or new data of `path`, which need not exist.
    pub fn watch_data(&mut self, session: i64, path: &str) -> WatchId {
        self.watches.add(session, Kind::Data, path)
    }

    /// Arms a watch for deletion or another child list of `path`.
    pub fn watch_children(&mut self, session: i64, path: &str) -> WatchId {
        self.watches.add(session, Kind::Children, path)
    }

    pub fn unwatch(&mut self, id: WatchId) {
        self.watches.remove(id);
    }

    /// Carries out all of `ops` as one transaction, or none.
    pub fn apply(&mut self, session: i64, ops: &[Op], now_ms: i64) -> Result<Applied, MultiError> {
        if !self.has_session(session) {
            return Err(MultiError { index: 0, error: Error::SessionExpired });
        }
        let zxid = self.zxid + 1;
        let mut undo = Vec::new();
        let mut results = Vec::with_capacity(ops.len());
        for (index, op) in ops.iter().enumerate() {
            match self.apply_one(session, op, zxid, now_ms, &mut undo) {
                Ok(result) => results.push(result),
                Err(error) => {
                    for step in undo.into_iter().rev() {
                        self.take_back(step);
                    }
                    return Err(MultiError { index, error });
                }
            }
        }
        self.zxid = zxid;
        let mut triggered = Vec::new();
        for step in &undo {
            match step {
                Undo::Created(path) => self.watches.trigger_created(path, &mut triggered),
                Undo::Set { path, .. } => self.watches.trigger_set(path, &mut triggered),
                Undo::Deleted(path, _) => self.watches.trigger_deleted(path, &mut triggered),
            }
        }
        Ok(Applied { results, triggered })
    }

    fn apply_one(
        &mut self,
        session: i64,
        op: &Op,
        zxid: i64,
        now_ms: i64,
        undo: &mut Vec<Undo>,
    ) -> Result<OpResult, Error> {
        match op {
            Op::Check { path, version } => {
                expect_version(self.get(path)?, path, *version)?;
                Ok(OpResult::Checked)
            }
            Op::Create { path, data, mode } => {
                let node = Node {
                    data: data.clone(),
                    czxid: zxid,
                    mzxid: zxid,
                    ctime_ms: now_ms,
                    mtime_ms: now_ms,
                    ..Node::default()
                };
                let path = self.create(session, path, node, *mode)?;
                undo.push(Undo::Created(path.clone()));
                Ok(OpResult::Created(path))
            }
            Op::Set { path, data, version } => {
                expect_version(self.get(path)?, path, *version)?;
                let node = self.nodes.get_mut(path.as_str()).ok_or_else(|| Error::NoNode(path.clone()))?;
                undo.push(Undo::Set {
                    path: path.clone(),
                    data: node.data.replace(data.clone()),
                    version: node.version,
                    mzxid: node.mzxid,
                    mtime_ms: node.mtime_ms,
                });
                node.version = node.version.wrapping_add(1);
                node.mzxid = zxid;
                node.mtime_ms = now_ms;
                Ok(OpResult::Set(node.stat()))
            }
            Op::Delete { path, version } => {
                let node = self.delete(path, *version)?;
                undo.push(Undo::Deleted(path.clone(), Box::new(node)));
                Ok(OpResult::Deleted)
            }
        }
    }

    fn create(&mut self, session: i64, path: &str, mut node: Node, mode: CreateMode) -> Result<String, Error> {
        let sequential = mode == CreateMode::PersistentSequential;
        path::validate(path, sequential)?;
        let Some(slash) = path.rfind('/').filter(|_| path != "/" || sequential) else {
            return Err(Error::NodeExists(path.to_owned()));
        };
        let parent_path = if slash == 0 { "/" } else { &path[..slash] };
        let parent = self.nodes.get_mut(parent_path).ok_or_else(|| Error::NoNode(path.to_owned()))?;
        let full = if sequential { format!("{path}{:010}", parent.creates) } else { path.to_owned() };
        let name = &full[slash + 1..];
        if parent.children.contains(name) {
            return Err(Error::NodeExists(full));
        }
        if parent.owner != 0 {
            return Err(Error::NoChildrenForEphemerals(full));
        }
        parent.children.insert(name.into());
        parent.creates = parent.creates.wrapping_add(1);
        if mode == CreateMode::Ephemeral {
            node.owner = session;
            self.sessions.entry(session).or_default().insert(full.clone());
        }
        self.nodes.insert(full.as_str().into(), node);
        Ok(full)
    }

    fn delete(&mut self, path: &str, version: i32) -> Result<Node, Error> {
        let Some((parent, name)) = path::split(path) else { return Err(Error::BadPath(path.to_owned())) };
        let node = self.get(path)?;
        expect_version(node, path, version)?;
        if !node.children.is_empty() {
            return Err(Error::NotEmpty(path.to_owned()));
        }
        let node = self.nodes.remove(path).ok_or_else(|| Error::NoNode(path.to_owned()))?;
        if let Some(parent) = self.nodes.get_mut(parent) {
            parent.children.remove(name);
        }
        if let Some(paths) = self.sessions.get_mut(&node.owner) {
            paths.remove(path);
        }
        Ok(node)
    }

    fn take_back(&mut self, step: Undo) {
        match step {
            Undo::Created(path) => {
                let owner = self.nodes.remove(path.as_str()).map_or(0, |node| node.owner);
                if let Some(paths) = self.sessions.get_mut(&owner) {
                    paths.remove(&path);
                }
                if let Some((parent, name)) = path::split(&path)
                    && let Some(parent) = self.nodes.get_mut(parent)
                {
                    parent.children.remove(name);
                    parent.creates = parent.creates.wrapping_sub(1);
                }
            }
            Undo::Set { path, data, version, mzxid, mtime_ms } => {
                if let Some(node) = self.nodes.get_mut(path.as_str()) {
                    *node = Node { data, version, mzxid, mtime_ms, ..std::mem::take(node) };
                }
            }
            Undo::Deleted(path, node) => {
                if let Some((parent, name)) = path::split(&path)
                    && let Some(parent) = self.nodes.get_mut(parent)
                {
                    parent.children.insert(name.into());
                }
                if node.owner != 0 {
                    self.sessions.entry(node.owner).or_default().insert(path.clone());
                }
                self.nodes.insert(path.into(), *node);
            }
        }
    }
}

fn expect_version(node: &Node, path: &str, version: i32) -> Result<(), Error> {
    if version == -1 || version == node.version { Ok(()) } else { Err(Error::BadVersion(path.to_owned())) }
}
