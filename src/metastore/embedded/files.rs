//! The store's two files in the first log directory, and how each crash is survived.
//!
//! ```text
//! klamm-metastore.snapshot   magic 8, zxid i64, node count u32, nodes, CRC32C u32 of all before
//! klamm-metastore.journal    magic 8, base zxid i64, CRC32C u32 of both, then frames
//! frame                      magic 4, length u32, CRC32C u32 of length and body, body = transactions
//! ```
//!
//! A frame holds every transaction that one fsync made durable, so it counts whole or not at all, and the next frame
//! is only written once it is synced. Behind the last frame lie zeros: a write into them changes no size, so that its
//! fsync waits for these bytes alone and not for the file system's own journal with everybody's files in it. On opening:
//!
//! | found | because | done |
//! |---|---|---|
//! | no file | first start | a journal is made (temporary file, fsync, rename, fsync of the directory) |
//! | zeros after the last frame | room for the next ones | filled |
//! | a last frame that is short or fails its CRC | crash while it was written; nobody was told of it | cut |
//! | a broken frame with an intact one after it | the disk lost what it had synced | refused; nothing is touched |
//! | frames up to the snapshot's zxid | crash between the snapshot's rename and the new journal's | skipped |
//! | journal whose base is above the snapshot's zxid, or a snapshot that fails its CRC | a file was lost or replaced | refused |
//! | a temporary file | crash before its rename | removed |
//!
//! The caller holds the directory's `.lock`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::storage::disk::{Disk, DiskFile, Open};
use crate::wire::crc32c::{self, crc32c};

use super::OpenOptions;
use super::codec::{Change, ChangeRef, Malformed, Reader, put_node, put_transaction};
use super::tree::Tree;

pub const SNAPSHOT: &str = "klamm-metastore.snapshot";
pub const JOURNAL: &str = "klamm-metastore.journal";

const SNAPSHOT_MAGIC: &[u8; 8] = b"KLMSNAP1";
const JOURNAL_MAGIC: &[u8; 8] = b"KLMJRNL1";
const FRAME_MAGIC: &[u8; 4] = b"KLMF";
const JOURNAL_HEADER: usize = 20;
const FRAME_HEADER: usize = 12;

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: io::Error },
    #[error("{path} is damaged: {what}")]
    Damaged { path: PathBuf, what: String },
    /// Kafka's data without the store that goes with it.
    #[error("{0}")]
    Foreign(String),
}

/// The open journal.
#[derive(Debug)]
pub struct Files {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    journal: Arc<dyn DiskFile>,
    /// Bytes up to the end of the last frame.
    len: u64,
    /// Bytes of the file.
    room: u64,
    snapshot_len: u64,
    options: OpenOptions,
}

impl Files {
    /// Whether `dir` holds a store.
    pub fn exist(disk: &dyn Disk, dir: &Path) -> Result<bool, OpenError> {
        let mut found = false;
        for name in [SNAPSHOT, JOURNAL] {
            found |= info(disk, &dir.join(name))?;
        }
        Ok(found)
    }

    /// Reads the tree as of the last durable transaction, and begins a new epoch.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        now_ms: i64,
        options: OpenOptions,
    ) -> Result<(Files, Tree), OpenError> {
        for name in [SNAPSHOT, JOURNAL] {
            let path = temporary(&dir.join(name));
            if info(&*disk, &path)? {
                disk.remove_file(&path).map_err(at(&path))?;
            }
        }
        let snapshot_path = dir.join(SNAPSHOT);
        let (mut tree, snapshot_len) = match read(&*disk, &snapshot_path)? {
            Some(bytes) => (decode_snapshot(&bytes).map_err(damaged(&snapshot_path))?, bytes.len() as u64),
            None => (Tree::default(), 0),
        };
        let journal_path = dir.join(JOURNAL);
        let (journal, len, room) = match read(&*disk, &journal_path)? {
            None if snapshot_len > 0 => {
                return Err(damaged(&journal_path)(format!("missing beside {}", snapshot_path.display())));
            }
            None => new_journal(&*disk, dir, tree.zxid(), options.grow_by)?,
            Some(bytes) => {
                let valid = replay(&bytes, &mut tree).map_err(damaged(&journal_path))?;
                let journal = disk.open(&journal_path, Open::ReadWrite).map_err(at(&journal_path))?;
                let mut room = bytes.len() as u64;
                let unfinished = bytes[valid..].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                if unfinished > 0 {
                    tracing::warn!(
                        file = %journal_path.display(),
                        bytes = unfinished,
                        "cut an unfinished write from the metastore journal"
                    );
                    room = valid as u64;
                    journal.set_len(room).and_then(|()| journal.sync()).map_err(at(&journal_path))?;
                }
                (journal, valid as u64, room)
            }
        };
        let dir = dir.to_owned();
        let mut files = Files { disk, dir, journal, len, room, snapshot_len, options };
        tree.begin_epoch();
        let mut opened = Vec::new();
        put_transaction(&mut opened, tree.zxid(), now_ms, 0, ChangeRef::Opened);
        files.append(&opened).map_err(at(&journal_path))?;
        Ok((files, tree))
    }

    /// Makes `transactions` durable. After an error the file's end is unknown: the store must not go on.
    pub fn append(&mut self, transactions: &[u8]) -> io::Result<()> {
        let mut frame = Vec::with_capacity(FRAME_HEADER + transactions.len());
        let len = (transactions.len() as u32).to_le_bytes();
        frame.extend_from_slice(FRAME_MAGIC);
        frame.extend_from_slice(&len);
        frame.extend_from_slice(&crc32c::append(crc32c(&len), transactions).to_le_bytes());
        frame.extend_from_slice(transactions);
        let end = self.len + frame.len() as u64;
        if end > self.room {
            frame.resize(frame.len() + self.options.grow_by, 0);
        }
        self.journal.write_all_at(&frame, self.len)?;
        self.journal.sync()?;
        self.room = self.room.max(self.len + frame.len() as u64);
        self.len = end;
        Ok(())
    }

    /// Whether the journal has grown enough to be replaced by a snapshot.
    pub fn wants_compaction(&self) -> bool {
        self.len > self.options.compact_above.max(2 * self.snapshot_len)
    }

    /// Replaces snapshot and journal. `snapshot` is [`encode_snapshot`] of the tree, as of `zxid`.
    pub fn compact(&mut self, snapshot: &[u8], zxid: i64) -> Result<(), OpenError> {
        replace(&*self.disk, &self.dir, SNAPSHOT, snapshot)?;
        self.snapshot_len = snapshot.len() as u64;
        (self.journal, self.len, self.room) = new_journal(&*self.disk, &self.dir, zxid, self.options.grow_by)?;
        Ok(())
    }
}

/// Refuses to begin an empty store over data that belongs to another: a lost setting must not hide a cluster's topics.
pub fn refuse_foreign(disk: &dyn Disk, dir: &Path) -> Result<(), OpenError> {
    let entries = match disk.list(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(at(dir)(error)),
    };
    let what = entries.iter().find_map(|entry| match entry.name.as_str() {
        "meta.properties" => Some("meta.properties".to_owned()),
        name if entry.is_dir && is_partition(name) => Some(format!("the partition {name}")),
        _ => None,
    });
    what.map_or(Ok(()), |what| {
        Err(OpenError::Foreign(format!(
            "{} holds {what} but no {JOURNAL}: its topics are described in ZooKeeper (set zookeeper.connect), by KRaft, \
             or in a store that was lost",
            dir.display()
        )))
    })
}

/// `topic-0`, or one being deleted, moved or set aside (`topic-0.<id>-delete`).
fn is_partition(name: &str) -> bool {
    name.rsplit_once('-').is_some_and(|(topic, last)| {
        !topic.is_empty() && (last.parse::<u32>().is_ok() || matches!(last, "delete" | "future" | "stray"))
    })
}

/// The file, the end of its header and its length.
fn new_journal(
    disk: &dyn Disk,
    dir: &Path,
    base: i64,
    grow_by: usize,
) -> Result<(Arc<dyn DiskFile>, u64, u64), OpenError> {
    let mut header = Vec::with_capacity(JOURNAL_HEADER + grow_by);
    header.extend_from_slice(JOURNAL_MAGIC);
    header.extend_from_slice(&base.to_le_bytes());
    header.extend_from_slice(&crc32c(&header).to_le_bytes());
    header.resize(JOURNAL_HEADER + grow_by, 0);
    let file = replace(disk, dir, JOURNAL, &header)?;
    Ok((file, JOURNAL_HEADER as u64, header.len() as u64))
}

/// Writes `name` whole: temporary file, fsync, rename, fsync of the directory.
fn replace(disk: &dyn Disk, dir: &Path, name: &str, bytes: &[u8]) -> Result<Arc<dyn DiskFile>, OpenError> {
    let path = dir.join(name);
    let temporary = temporary(&path);
    let write = || -> io::Result<Arc<dyn DiskFile>> {
        let file = disk.open(&temporary, Open::Create)?;
        file.set_len(0)?;
        file.write_all_at(bytes, 0)?;
        file.sync()?;
        disk.rename(&temporary, &path)?;
        disk.sync_dir(dir)?;
        Ok(file)
    };
    write().map_err(at(&path))
}

fn temporary(path: &Path) -> PathBuf {
    path.with_extension(format!("{}.tmp", path.extension().unwrap_or_default().display()))
}

fn info(disk: &dyn Disk, path: &Path) -> Result<bool, OpenError> {
    match disk.info(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(at(path)(error)),
    }
}

/// The whole file; `None` when there is none.
fn read(disk: &dyn Disk, path: &Path) -> Result<Option<Vec<u8>>, OpenError> {
    let read = || -> io::Result<Vec<u8>> {
        let file = disk.open(path, Open::Read)?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at(path)(error)),
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> OpenError + '_ {
    move |error| OpenError::Io { path: path.to_owned(), error }
}

fn damaged<E: ToString>(path: &Path) -> impl Fn(E) -> OpenError + '_ {
    move |what| OpenError::Damaged { path: path.to_owned(), what: what.to_string() }
}

/// The tree as a snapshot file.
pub fn encode_snapshot(tree: &Tree) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(SNAPSHOT_MAGIC);
    out.extend_from_slice(&tree.zxid().to_le_bytes());
    out.extend_from_slice(&(tree.len() as u32).to_le_bytes());
    for (path, node) in tree.nodes() {
        put_node(&mut out, path, node);
    }
    out.extend_from_slice(&crc32c(&out).to_le_bytes());
    out
}

fn decode_snapshot(bytes: &[u8]) -> Result<Tree, String> {
    let (body, crc) = bytes.split_last_chunk::<4>().ok_or("shorter than its checksum")?;
    if crc32c(body) != u32::from_le_bytes(*crc) {
        return Err("checksum does not match".to_owned());
    }
    let body = body.strip_prefix(SNAPSHOT_MAGIC).ok_or("written by another version")?;
    let mut reader = Reader::new(body);
    let parse = |reader: &mut Reader<'_>| {
        let zxid = reader.i64()?;
        let count = reader.u32()?;
        let nodes = (0..count).map(|_| reader.node()).collect::<Result<Vec<_>, Malformed>>()?;
        Ok((zxid, nodes))
    };
    let (zxid, nodes) = parse(&mut reader).map_err(|error: Malformed| error.to_string())?;
    Tree::from_nodes(zxid, nodes).ok_or_else(|| "a node lacks its parent".to_owned())
}

/// Applies the journal's frames to the snapshot's tree. Returns the length of the valid part.
fn replay(bytes: &[u8], tree: &mut Tree) -> Result<usize, String> {
    let header = bytes.get(..JOURNAL_HEADER).ok_or("shorter than its header")?;
    let (fields, crc) = header.split_at(JOURNAL_HEADER - 4);
    if crc32c(fields).to_le_bytes() != crc {
        return Err("the header's checksum does not match".to_owned());
    }
    let base = fields.strip_prefix(JOURNAL_MAGIC).ok_or("written by another version")?;
    let base = Reader::new(base).i64().map_err(|error| error.to_string())?;
    if base > tree.zxid() {
        return Err(format!("it follows transaction {base} but the snapshot ends at {}", tree.zxid()));
    }
    let mut position = JOURNAL_HEADER;
    while let Some((body, next)) = frame(bytes, position) {
        let mut reader = Reader::new(body);
        while !reader.is_at_end() {
            let transaction = reader.transaction().map_err(|error| format!("frame at {position}: {error}"))?;
            if transaction.zxid <= tree.zxid() {
                continue;
            }
            let zxid = transaction.zxid;
            match transaction.change {
                Change::Multi(ops) => {
                    tree.ensure_session(transaction.session);
                    tree.apply(transaction.session, &ops, transaction.time_ms)
                        .map_err(|error| format!("transaction {zxid}: {error}"))?;
                }
                Change::SessionClosed => {
                    tree.ensure_session(transaction.session);
                    tree.close_session(transaction.session);
                }
                Change::Opened => tree.begin_epoch(),
            }
            if tree.zxid() != zxid {
                return Err(format!("transaction {zxid} found where {} was due", tree.zxid()));
            }
        }
        position = next;
    }
    match (position + 1..bytes.len()).find(|&later| frame(bytes, later).is_some()) {
        Some(later) => Err(format!("the frame at byte {position} is broken, the one at {later} is not")),
        None => Ok(position),
    }
}

/// Body of the intact frame at `position` and where it ends.
fn frame(bytes: &[u8], position: usize) -> Option<(&[u8], usize)> {
    let rest = bytes.get(position..)?.strip_prefix(FRAME_MAGIC)?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    let body = rest.get(..u32::from_le_bytes(*len) as usize)?;
    let intact = crc32c::append(crc32c(len), body) == u32::from_le_bytes(*crc);
    intact.then_some((body, position + FRAME_HEADER + body.len()))
}
