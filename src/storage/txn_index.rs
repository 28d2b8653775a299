//! `.txnindex`: the aborted transactions whose marker lies in the segment beside it.
//!
//! ```text
//! i16 version 0, i64 producer id, i64 first offset, i64 last offset (the marker's), i64 last stable offset     34 bytes
//! ```
//! The file is made on the first abort and written entry by entry: aborts are rare.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::entry::{i16_at, i64_at};
use super::file_cache::LazyFile;
use crate::types::Offset;

const LEN: usize = 34;

/// One aborted transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTxn {
    pub producer_id: i64,
    pub first_offset: Offset,
    /// Inclusive: the abort marker's.
    pub last_offset: Offset,
    /// First offset of the next open transaction when the marker was written, else marker + 1.
    pub last_stable_offset: Offset,
}

impl AbortedTxn {
    fn encode(&self) -> [u8; LEN] {
        let mut out = [0; LEN];
        for (at, value) in [
            (2, self.producer_id),
            (10, self.first_offset.0),
            (18, self.last_offset.0),
            (26, self.last_stable_offset.0),
        ] {
            out[at..at + 8].copy_from_slice(&value.to_be_bytes());
        }
        out
    }

    fn decode(bytes: &[u8]) -> Option<AbortedTxn> {
        (i16_at(bytes, 0) == 0).then(|| AbortedTxn {
            producer_id: i64_at(bytes, 2),
            first_offset: Offset(i64_at(bytes, 10)),
            last_offset: Offset(i64_at(bytes, 18)),
            last_stable_offset: Offset(i64_at(bytes, 26)),
        })
    }
}

/// The entries of a whole file whose segment begins at `base`; `None` when no broker wrote it.
pub fn decode(bytes: &[u8], base: Offset) -> Option<Vec<AbortedTxn>> {
    let (entries, []) = bytes.as_chunks::<LEN>() else { return None };
    let mut last = base.0 - 1;
    let entry = |bytes: &[u8; LEN]| {
        let entry = AbortedTxn::decode(bytes).filter(|entry| entry.last_offset.0 > last)?;
        last = entry.last_offset.0;
        Some(entry)
    };
    entries.iter().map(entry).collect()
}

/// Aborted transactions in the order of their markers.
#[derive(Debug)]
pub struct TxnIndex {
    base: Offset,
    file: Arc<LazyFile>,
    entries: Mutex<Option<Arc<Vec<AbortedTxn>>>>,
}

impl TxnIndex {
    /// Without a file.
    pub fn empty(base: Offset, file: Arc<LazyFile>) -> TxnIndex {
        TxnIndex { base, file, entries: Mutex::new(Some(Arc::default())) }
    }

    /// Over the file there is.
    pub fn unread(base: Offset, file: Arc<LazyFile>) -> TxnIndex {
        TxnIndex { base, file, entries: Mutex::new(None) }
    }

    pub fn file(&self) -> &Arc<LazyFile> {
        &self.file
    }

    /// All entries; `InvalidData` when the file cannot be what a broker wrote.
    pub fn all(&self) -> io::Result<Arc<Vec<AbortedTxn>>> {
        let mut entries = self.entries.lock();
        if let Some(entries) = &*entries {
            return Ok(entries.clone());
        }
        let file = self.file.get()?;
        let len = file.len()?;
        let insane =
            || io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged", self.file.path().display()));
        if len > i32::MAX as u64 {
            return Err(insane());
        }
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let list = Arc::new(decode(&bytes, self.base).ok_or_else(insane)?);
        *entries = Some(list.clone());
        Ok(list)
    }

    pub fn push(&self, entry: AbortedTxn) -> io::Result<()> {
        let list = self.all()?;
        self.file.create()?.write_all_at(&entry.encode(), (list.len() * LEN) as u64)?;
        let mut list = list.as_ref().clone();
        list.push(entry);
        *self.entries.lock() = Some(Arc::new(list));
        Ok(())
    }

    /// Fills an index without entries.
    pub fn fill(&self, list: Vec<AbortedTxn>) -> io::Result<()> {
        if !list.is_empty() {
            let bytes: Vec<u8> = list.iter().flat_map(AbortedTxn::encode).collect();
            self.file.create()?.write_all_at(&bytes, 0)?;
        }
        *self.entries.lock() = Some(Arc::new(list));
        Ok(())
    }

    /// Removes the entries whose marker is at or past `from`.
    pub fn truncate(&self, from: Offset) -> io::Result<()> {
        let list = self.all()?;
        let keep = list.partition_point(|entry| entry.last_offset < from);
        if keep < list.len() {
            self.file.get()?.set_len((keep * LEN) as u64)?;
            *self.entries.lock() = Some(Arc::new(list[..keep].to_vec()));
        }
        Ok(())
    }

    /// Forgets everything, the file too.
    pub fn reset(&self) -> io::Result<()> {
        self.file.remove()?;
        *self.entries.lock() = Some(Arc::default());
        Ok(())
    }

    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_if_there()
    }
}
