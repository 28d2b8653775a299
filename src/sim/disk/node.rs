//! Files and directories of the simulated disk, each with what is live, what is durable, and what lies between.

use std::collections::BTreeMap;

use crate::random::Random;

/// What a crash leaves of what was not synced.
#[derive(Clone, Copy)]
pub enum Keep<'a> {
    /// Nothing: the strictest disk.
    Nothing,
    /// Names, no bytes: what was written beside and renamed without an fsync is there and empty.
    Names,
    /// Bytes, no names: the content of files whose directory entry was synced before.
    Bytes,
    /// Names and lengths; the bytes themselves are zeros.
    Zeros,
    /// Everything but the second half of each file's last write.
    Torn,
    /// Of each file a random number of its first unsynced writes, the last one torn; of each directory likewise.
    Prefix(&'a dyn Random),
    /// Everything.
    Everything,
}

#[derive(Clone)]
pub(super) enum Node {
    File(FileNode),
    Dir(DirNode),
}

impl Node {
    pub fn crash(&mut self, keep: Keep<'_>) {
        match self {
            Node::File(file) => file.crash(keep),
            Node::Dir(dir) => dir.crash(keep),
        }
    }
}

#[derive(Clone, Default)]
pub(super) struct FileNode {
    pub live: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<FileChange>,
    pub modified_ms: i64,
}

#[derive(Clone)]
pub(super) enum FileChange {
    Write(u64, Vec<u8>),
    Len(u64),
}

impl FileChange {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            FileChange::Write(position, data) => {
                let end = *position as usize + data.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*position as usize..end].copy_from_slice(data);
            }
            FileChange::Len(len) => bytes.resize(*len as usize, 0),
        }
    }

    /// Keeps the first `len` bytes of a write; a size changes whole.
    fn tear(&mut self, len: impl FnOnce(usize) -> usize) {
        if let FileChange::Write(_, data) = self {
            data.truncate(len(data.len()));
        }
    }
}

impl FileNode {
    pub fn new(modified_ms: i64) -> FileNode {
        FileNode { modified_ms, ..FileNode::default() }
    }

    pub fn change(&mut self, change: FileChange, now_ms: i64) {
        change.apply(&mut self.live);
        self.unsynced.push(change);
        self.modified_ms = now_ms;
    }

    pub fn sync(&mut self) {
        self.unsynced.drain(..).for_each(|change| change.apply(&mut self.durable));
    }

    /// As after a failed fsync: the pages count as clean, and nothing will save them.
    pub fn forget_unsynced(&mut self) {
        self.unsynced.clear();
    }

    /// Puts other bytes in place, synced.
    pub fn replace(&mut self, bytes: Vec<u8>) {
        self.unsynced.clear();
        self.durable.clone_from(&bytes);
        self.live = bytes;
    }

    fn crash(&mut self, keep: Keep<'_>) {
        match keep {
            Keep::Nothing | Keep::Names => {}
            Keep::Bytes | Keep::Everything => self.sync(),
            Keep::Zeros => self.durable.resize(self.live.len(), 0),
            Keep::Torn => {
                if let Some(last) = self.unsynced.last_mut() {
                    last.tear(|len| len / 2);
                }
                self.sync();
            }
            Keep::Prefix(random) => {
                self.unsynced.truncate(random.below(self.unsynced.len() as u64 + 1) as usize);
                if let Some(last) = self.unsynced.last_mut() {
                    last.tear(|len| random.below(len as u64 + 1) as usize);
                }
                self.sync();
            }
        }
        self.unsynced.clear();
        self.live.clone_from(&self.durable);
    }
}

/// Names of one change, which become durable together, as in a rename. `None` removes one.
pub(super) type NamesChange = Vec<(String, Option<u64>)>;

#[derive(Clone, Default)]
pub(super) struct DirNode {
    pub live: BTreeMap<String, u64>,
    durable: BTreeMap<String, u64>,
    unsynced: Vec<NamesChange>,
}

fn apply(change: &NamesChange, names: &mut BTreeMap<String, u64>) {
    for (name, to) in change {
        match to {
            Some(id) => names.insert(name.clone(), *id),
            None => names.remove(name),
        };
    }
}

impl DirNode {
    pub fn change(&mut self, change: NamesChange) {
        apply(&change, &mut self.live);
        self.unsynced.push(change);
    }

    pub fn sync(&mut self) {
        self.unsynced.drain(..).for_each(|change| apply(&change, &mut self.durable));
    }

    fn crash(&mut self, keep: Keep<'_>) {
        match keep {
            Keep::Nothing | Keep::Bytes => {}
            Keep::Names | Keep::Zeros | Keep::Torn | Keep::Everything => self.sync(),
            Keep::Prefix(random) => {
                self.unsynced.truncate(random.below(self.unsynced.len() as u64 + 1) as usize);
                self.sync();
            }
        }
        self.unsynced.clear();
        self.live.clone_from(&self.durable);
    }
}
