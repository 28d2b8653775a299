//! A file of fixed-size, ordered entries: in memory while its segment is active, searched in the file afterwards.
//!
//! The file of an active segment is written when the segment is sealed or the log is closed, whole and exactly as long
//! as its entries: a crash before leaves no usable index, and recovery makes one from the log. So an append touches
//! memory alone, and a Kafka that opens the directory finds trimmed indexes.

use std::io;
use std::sync::Arc;

use parking_lot::RwLock;

use super::entry::read_up_to;
use super::file_cache::LazyFile;

/// An entry of an index.
pub trait IndexEntry: Copy + std::fmt::Debug {
    /// Bytes in the file.
    const LEN: usize;
    fn encode(&self, out: &mut Vec<u8>);
    /// `bytes` has [`IndexEntry::LEN`] bytes.
    fn decode(bytes: &[u8]) -> Self;
}

/// Entries in ascending order.
#[derive(Debug)]
pub struct IndexFile<E> {
    file: Arc<LazyFile>,
    entries: RwLock<Entries<E>>,
}

#[derive(Debug)]
enum Entries<E> {
    /// The file's content is as good as memory would be, not looked at yet.
    Unread,
    /// The file is behind.
    Memory(Vec<E>),
    /// The file is complete.
    Sealed { count: u64, last: Option<E> },
}

/// Below so many entries a search reads them all at once instead of halving further.
const SEARCH_BLOCK: u64 = 256;

impl<E: IndexEntry> IndexFile<E> {
    /// A new index without entries; nothing is written yet.
    pub fn empty(file: Arc<LazyFile>) -> IndexFile<E> {
        IndexFile { file, entries: RwLock::new(Entries::Memory(Vec::new())) }
    }

    /// An index whose file is complete; it is read when first asked.
    pub fn unread(file: Arc<LazyFile>) -> IndexFile<E> {
        IndexFile { file, entries: RwLock::new(Entries::Unread) }
    }

    pub fn file(&self) -> &Arc<LazyFile> {
        &self.file
    }

    fn stat(&self) -> io::Result<()> {
        let mut entries = self.entries.write();
        if !matches!(*entries, Entries::Unread) {
            return Ok(());
        }
        let file = self.file.get()?;
        let len = file.len()?;
        if len % E::LEN as u64 != 0 {
            return Err(self.insane(format!("{len} bytes, no multiple of {}", E::LEN)));
        }
        let count = len / E::LEN as u64;
        let last = match count {
            0 => None,
            n => {
                let mut bytes = vec![0; E::LEN];
                file.read_exact_at(&mut bytes, (n - 1) * E::LEN as u64)?;
                Some(E::decode(&bytes))
            }
        };
        *entries = Entries::Sealed { count, last };
        Ok(())
    }

    /// Error for content no index can have.
    pub fn insane(&self, what: String) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, format!("index {} has {what}", self.file.path().display()))
    }

    /// Whether the entries were made by this process (or taken over by it).
    pub fn in_memory(&self) -> bool {
        matches!(*self.entries.read(), Entries::Memory(_))
    }

    pub fn count(&self) -> io::Result<u64> {
        loop {
            match &*self.entries.read() {
                Entries::Memory(list) => return Ok(list.len() as u64),
                Entries::Sealed { count, .. } => return Ok(*count),
                Entries::Unread => {}
            }
            self.stat()?;
        }
    }

    pub fn last(&self) -> io::Result<Option<E>> {
        loop {
            match &*self.entries.read() {
                Entries::Memory(list) => return Ok(list.last().copied()),
                Entries::Sealed { last, .. } => return Ok(*last),
                Entries::Unread => {}
            }
            self.stat()?;
        }
    }

    /// The last entry for which `before` holds and the first for which it does not; `before` holds for a prefix.
    pub fn split(&self, before: impl Fn(&E) -> bool) -> io::Result<(Option<E>, Option<E>)> {
        loop {
            match &*self.entries.read() {
                Entries::Memory(list) => {
                    let at = list.partition_point(&before);
                    return Ok((at.checked_sub(1).map(|at| list[at]), list.get(at).copied()));
                }
                Entries::Sealed { count, last } => {
                    if last.is_none_or(|last| before(&last)) {
                        return Ok((*last, None));
                    }
                    return self.split_file(*count, before);
                }
                Entries::Unread => {}
            }
            self.stat()?;
        }
    }

    fn split_file(&self, count: u64, before: impl Fn(&E) -> bool) -> io::Result<(Option<E>, Option<E>)> {
        let file = self.file.get()?;
        let (mut low, mut high) = (0, count);
        let mut bytes = vec![0; E::LEN];
        while high - low > SEARCH_BLOCK {
            let middle = low + (high - low) / 2;
            file.read_exact_at(&mut bytes, middle * E::LEN as u64)?;
            if before(&E::decode(&bytes)) { low = middle } else { high = middle + 1 }
        }
        let mut block = vec![0; (high - low) as usize * E::LEN];
        file.read_exact_at(&mut block, low * E::LEN as u64)?;
        let mut previous = None;
        for bytes in block.chunks_exact(E::LEN) {
            let entry = E::decode(bytes);
            if !before(&entry) {
                return Ok((previous, Some(entry)));
            }
            previous = Some(entry);
        }
        Ok((previous, None))
    }

    /// All entries.
    pub fn all(&self) -> io::Result<Vec<E>> {
        loop {
            match &*self.entries.read() {
                Entries::Memory(list) => return Ok(list.clone()),
                Entries::Sealed { count, .. } => return self.read_all(*count),
                Entries::Unread => {}
            }
            self.stat()?;
        }
    }

    fn read_all(&self, count: u64) -> io::Result<Vec<E>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut bytes = vec![0; count as usize * E::LEN];
        read_up_to(self.file.get()?.as_ref(), &mut bytes, 0)?;
        Ok(bytes.chunks_exact(E::LEN).map(E::decode).collect())
    }

    /// Brings the entries to memory, to go on with appends.
    pub fn unseal(&self) -> io::Result<()> {
        if matches!(*self.entries.read(), Entries::Memory(_)) {
            return Ok(());
        }
        let list = self.all()?;
        *self.entries.write() = Entries::Memory(list);
        // Memory leads from now on.
        self.file.close();
        Ok(())
    }

    /// Appends; the index must be in memory (see [`IndexFile::unseal`]), else the entry is dropped, which an index may.
    pub fn push(&self, entry: E) {
        if let Entries::Memory(list) = &mut *self.entries.write() {
            list.push(entry);
        }
    }

    /// Keeps the prefix for which `keep` holds.
    pub fn truncate(&self, keep: impl Fn(&E) -> bool) -> io::Result<()> {
        self.unseal()?;
        if let Entries::Memory(list) = &mut *self.entries.write() {
            let at = list.partition_point(keep);
            list.truncate(at);
        }
        Ok(())
    }

    /// Forgets everything, also what the file holds.
    pub fn reset(&self) {
        *self.entries.write() = Entries::Memory(Vec::new());
    }

    /// Writes the file, exactly as long as its entries. The entries stay in memory until [`IndexFile::seal`].
    pub fn write(&self) -> io::Result<()> {
        if let Entries::Memory(list) = &*self.entries.read() {
            let mut bytes = Vec::with_capacity(list.len() * E::LEN);
            list.iter().for_each(|entry| entry.encode(&mut bytes));
            let file = self.file.create()?;
            file.set_len(bytes.len() as u64)?;
            file.write_all_at(&bytes, 0)?;
        }
        Ok(())
    }

    /// Writes the file and lets go of the memory: no entry comes any more.
    pub fn seal(&self) -> io::Result<()> {
        self.write()?;
        let mut entries = self.entries.write();
        if let Entries::Memory(list) = &*entries {
            *entries = Entries::Sealed { count: list.len() as u64, last: list.last().copied() };
        }
        Ok(())
    }

    /// fsync of what was written.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_if_there()
    }
}
