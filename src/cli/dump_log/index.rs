//! `.index` and `.timeindex`, checked against the `.log` beside them.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf, absolute};

use anyhow::{Context, bail};
use indexmap::IndexMap;

use super::base_offset;
use super::contents::LogFile;
use crate::cli::rows::for_each_row;
use crate::storage::index_file::IndexEntry;
use crate::storage::offset_index::OffsetEntry;
use crate::storage::time_index::TimeEntry;
use crate::types::Offset;
use crate::wire::compression::Scratch;

/// What is done with an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Entries are printed and compared with the log.
    Print,
    /// Compared only.
    Verify,
    /// As the broker looks at it on start.
    Sanity,
}

/// Whole entries of the file; Kafka's tool ignores a broken one at the end too.
fn entries<E: IndexEntry>(path: &Path) -> io::Result<Vec<E>> {
    Ok(fs::read(path)?.chunks_exact(E::LEN).map(E::decode).collect())
}

fn log_beside(path: &Path, base: &str) -> anyhow::Result<LogFile> {
    let log = path.with_file_name(format!("{base}.log"));
    LogFile::open(&log).with_context(|| format!("{}", log.display()))
}

fn stem(path: &Path) -> &str {
    path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
}

pub fn dump_offsets(
    path: &Path,
    check: Check,
    max_message_size: u32,
    findings: &mut Findings,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let base = base_offset(path)?;
    let log = log_beside(path, stem(path))?;
    let entries = entries::<OffsetEntry>(path)?;
    let Some(last) = entries.last() else { return Ok(writeln!(out, "{} is empty.", path.display())?) };
    if check == Check::Sanity {
        return report_sanity(path, last.insanity(entries.len() as u64, log.len), out);
    }
    for (n, entry) in entries.iter().enumerate() {
        // An index of a running broker is longer than its entries: zeros follow.
        if n > 0 && entry.relative == 0 {
            break;
        }
        let offset = base + i64::from(entry.relative);
        let position = entry.position.max(0) as u64;
        let found = log.heads(position, position + u64::from(max_message_size)).next_entry()?;
        let Some((_, batch)) = found else { bail!("no batch at position {} of the log", entry.position) };
        if batch.last_offset != offset {
            findings.offset_mismatch(path, offset, batch.last_offset);
        }
        if check == Check::Print {
            writeln!(out, "offset: {} position: {}", offset.0, entry.position)?;
        }
    }
    Ok(())
}

pub fn dump_times(path: &Path, check: Check, findings: &mut Findings, out: &mut impl Write) -> anyhow::Result<()> {
    let base = base_offset(path)?;
    let log = log_beside(path, stem(path))?;
    let entries = entries::<TimeEntry>(path)?;
    if check == Check::Sanity {
        return report_sanity(path, entries.last().and_then(|last| last.insanity(entries.len() as u64)), out);
    }
    let offsets = path.with_extension("index");
    let positions = self::entries::<OffsetEntry>(&offsets).with_context(|| format!("{}", offsets.display()))?;
    // Zeros behind the entries of a running broker do not count.
    let rising = positions.windows(2).take_while(|pair| matches!(pair, [a, b] if a.relative < b.relative)).count();
    let positions = positions.get(..=rising).unwrap_or(&positions);
    let (mut buffer, mut scratch) = (Vec::new(), Scratch::default());
    let mut previous = -1;
    for (n, entry) in entries.iter().enumerate() {
        if n > 0 && entry.relative == 0 {
            break;
        }
        let offset = base + i64::from(entry.relative);
        let before = positions.partition_point(|position| position.relative <= entry.relative);
        let position = before.checked_sub(1).and_then(|at| positions.get(at)).map_or(0, |at| at.position.max(0) as u64);
        let mut heads = log.heads(position, log.len);
        let found = loop {
            match heads.next_entry()? {
                Some((_, batch)) if batch.last_offset < offset => {}
                found => break found,
            }
        };
        match found {
            None => findings.not_found(path, offset, Offset(-1)),
            Some((_, batch)) if batch.last_offset != offset => findings.not_found(path, offset, batch.last_offset),
            Some((position, batch)) => {
                let raw = log.read(position, &batch, &mut buffer)?;
                let mut largest = -1;
                for_each_row(&raw, &mut scratch, |row| {
                    largest = largest.max(row.timestamp);
                    Ok(())
                })?;
                if largest != entry.timestamp_ms {
                    findings.timestamp_mismatch(path, entry.timestamp_ms, largest);
                }
                if previous >= entry.timestamp_ms {
                    findings.out_of_order(path, entry.timestamp_ms, previous);
                }
            }
        }
        if check == Check::Print {
            writeln!(out, "timestamp: {} offset: {}", entry.timestamp_ms, offset.0)?;
        }
        previous = entry.timestamp_ms;
    }
    Ok(())
}

fn report_sanity(path: &Path, insanity: Option<String>, out: &mut impl Write) -> anyhow::Result<()> {
    match insanity {
        Some(what) => bail!("the index has {what}"),
        None => Ok(writeln!(out, "{} passed sanity check.", path.display())?),
    }
}

type Pairs = IndexMap<PathBuf, Vec<(i64, i64)>>;

/// What does not fit together; told after all files, file by file.
#[derive(Debug, Default)]
pub struct Findings {
    offsets: Pairs,
    timestamps: Pairs,
    order: Pairs,
    not_found: Pairs,
    gaps: Pairs,
}

fn note(pairs: &mut Pairs, path: &Path, pair: (i64, i64)) {
    let path = absolute(path).unwrap_or_else(|_| path.to_owned());
    pairs.entry(path).or_default().push(pair);
}

impl Findings {
    fn offset_mismatch(&mut self, path: &Path, indexed: Offset, found: Offset) {
        note(&mut self.offsets, path, (indexed.0, found.0));
    }

    fn timestamp_mismatch(&mut self, path: &Path, indexed: i64, found: i64) {
        note(&mut self.timestamps, path, (indexed, found));
    }

    fn out_of_order(&mut self, path: &Path, indexed: i64, previous: i64) {
        note(&mut self.order, path, (indexed, previous));
    }

    fn not_found(&mut self, path: &Path, indexed: Offset, found: Offset) {
        note(&mut self.not_found, path, (indexed.0, found.0));
    }

    /// Offsets of two neighbours that do not follow each other.
    pub fn gap(&mut self, path: &Path, first: Offset, second: Offset) {
        note(&mut self.gaps, path, (first.0, second.0));
    }

    pub fn report(&self, err: &mut impl Write) -> io::Result<()> {
        for (path, pairs) in &self.offsets {
            writeln!(err, "Mismatches in :{}", path.display())?;
            for (indexed, found) in pairs {
                writeln!(err, "  Index offset: {indexed}, log offset: {found}")?;
            }
        }
        for (path, pairs) in &self.timestamps {
            writeln!(err, "Found timestamp mismatch in :{}", path.display())?;
            for (indexed, found) in pairs {
                writeln!(err, "  Index timestamp: {indexed}, log timestamp: {found}")?;
            }
        }
        for (path, pairs) in &self.order {
            writeln!(err, "Found out of order timestamp in :{}", path.display())?;
            for (indexed, previous) in pairs {
                writeln!(err, "  Index timestamp: {indexed}, Previously indexed timestamp: {previous}")?;
            }
        }
        for pairs in self.not_found.values() {
            writeln!(err, "The following indexed offsets are not found in the log.")?;
            for (indexed, found) in pairs {
                writeln!(err, "Indexed offset: {indexed}, found log offset: {found}")?;
            }
        }
        for (path, pairs) in &self.gaps {
            writeln!(err, "Non-consecutive offsets in {}", path.display())?;
            for (first, second) in pairs {
                writeln!(err, "  {first} is followed by {second}")?;
            }
        }
        Ok(())
    }
}
