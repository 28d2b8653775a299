//! Who waits for what to change. A watch triggers once and is gone.

use std::collections::BTreeMap;

/// One armed watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub u64);

/// What a watch waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Creation, deletion, new data.
    Data,
    /// Deletion, a child more or less.
    Children,
}

#[derive(Debug)]
struct Armed {
    id: WatchId,
    session: i64,
}

/// All armed watches.
#[derive(Debug, Default)]
pub struct Watches {
    armed: BTreeMap<(Kind, Box<str>), Vec<Armed>>,
    paths: BTreeMap<WatchId, (Kind, Box<str>)>,
    last: u64,
}

impl Watches {
    pub fn add(&mut self, session: i64, kind: Kind, path: &str) -> WatchId {
        self.last += 1;
        let id = WatchId(self.last);
        self.armed.entry((kind, path.into())).or_default().push(Armed { id, session });
        self.paths.insert(id, (kind, path.into()));
        id
    }

    pub fn remove(&mut self, id: WatchId) {
        let Some(key) = self.paths.remove(&id) else { return };
        if let Some(armed) = self.armed.get_mut(&key) {
            armed.retain(|watch| watch.id != id);
            if armed.is_empty() {
                self.armed.remove(&key);
            }
        }
    }

    /// Disarms and returns the session's watches.
    pub fn remove_session(&mut self, session: i64) -> Vec<WatchId> {
        let ids: Vec<WatchId> =
            self.armed.values().flatten().filter(|watch| watch.session == session).map(|watch| watch.id).collect();
        for id in &ids {
            self.remove(*id);
        }
        ids
    }

    pub fn trigger_created(&mut self, path: &str, out: &mut Vec<WatchId>) {
        self.trigger(Kind::Data, path, out);
        self.trigger_parent(path, out);
    }

    pub fn trigger_set(&mut self, path: &str, out: &mut Vec<WatchId>) {
        self.trigger(Kind::Data, path, out);
    }

    pub fn trigger_deleted(&mut self, path: &str, out: &mut Vec<WatchId>) {
        self.trigger(Kind::Data, path, out);
        self.trigger(Kind::Children, path, out);
        self.trigger_parent(path, out);
    }

    fn trigger_parent(&mut self, path: &str, out: &mut Vec<WatchId>) {
        if let Some((parent, _)) = crate::metastore::path::split(path) {
            self.trigger(Kind::Children, parent, out);
        }
    }

    fn trigger(&mut self, kind: Kind, path: &str, out: &mut Vec<WatchId>) {
        for watch in self.armed.remove(&(kind, path.into())).unwrap_or_default() {
            self.paths.remove(&watch.id);
            out.push(watch.id);
        }
    }
}
