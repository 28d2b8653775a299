//! What was fetched, record by record, without control records and, with read_committed, without aborted ones.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};

use anyhow::bail;

use super::fetcher::{Fetched, behind};
use super::format::Format;
use super::options::Settings;
use crate::cli::progress::Progress;
use crate::cli::rows::{Kind, Row, for_each_row};
use crate::wire::batch::{BatchHeader, Batches, ControlRecord, RawBatch};
use crate::wire::compression::Scratch;

/// Writes records until there are enough.
pub struct Printer<'a> {
    settings: &'a Settings,
    format: &'a Format,
    scratch: Scratch,
    pub printed: u64,
    /// Next offset of each partition; all before it is printed, or not to be.
    pub positions: BTreeMap<i32, i64>,
}

/// Aborted transactions of one answer.
struct Aborted {
    /// Not begun yet, by first offset, the last first.
    ahead: Vec<(i64, i64)>,
    /// Producers in the middle of one.
    open: HashSet<i64>,
}

impl Aborted {
    fn new(producers: &[(i64, i64)]) -> Aborted {
        let mut ahead = producers.to_vec();
        ahead.sort_unstable_by_key(|(_, first)| std::cmp::Reverse(*first));
        Aborted { ahead, open: HashSet::new() }
    }

    /// Whether the records of a transactional batch do not count.
    fn covers(&mut self, header: &BatchHeader) -> bool {
        while let Some((producer, _)) = self.ahead.pop_if(|(_, first)| *first <= header.last_offset().0) {
            self.open.insert(producer);
        }
        header.is_transactional() && self.open.contains(&header.producer_id)
    }
}

/// Why writing a record stops: stdout, or enough of them.
enum Stop {
    Enough,
    Out(io::Error),
}

impl<'a> Printer<'a> {
    pub fn new(settings: &'a Settings, format: &'a Format) -> Printer<'a> {
        Printer { settings, format, scratch: Scratch::default(), printed: 0, positions: BTreeMap::new() }
    }

    pub fn has_enough(&self) -> bool {
        self.settings.max_messages.is_some_and(|max| self.printed >= max)
    }

    /// An error of `out`, or, unless errors are skipped, a batch that cannot be read.
    pub fn print(&mut self, fetched: &Fetched, progress: &mut Progress, out: &mut impl Write) -> anyhow::Result<()> {
        for (part, from) in &fetched.parts {
            let mut aborted = Aborted::new(&part.aborted);
            let records = fetched.body.get(part.records.clone()).unwrap_or_default();
            for raw in Batches::new(records) {
                if self.has_enough() {
                    return Ok(());
                }
                let raw = raw?;
                progress.bytes += raw.bytes.len() as u64;
                let mut stop = None;
                let read = self.print_batch(&raw, part.partition, *from, &mut aborted, &mut stop, out);
                progress.records = self.printed;
                match (read, stop) {
                    (_, Some(Stop::Out(error))) => return Err(error.into()),
                    (_, Some(Stop::Enough)) => return Ok(()),
                    (Ok(()), None) => {}
                    (Err(error), None) if self.settings.skip_on_error => {
                        eprintln!("partition {}, batch at offset {}: {error:#}", part.partition, raw.offset().0);
                    }
                    (Err(error), None) => {
                        return Err(error.context(format!(
                            "partition {}, batch at offset {} cannot be read",
                            part.partition,
                            raw.offset().0
                        )));
                    }
                }
                self.positions.insert(part.partition, behind(&raw)?.0.max(*from));
            }
        }
        Ok(())
    }

    fn print_batch(
        &mut self,
        raw: &RawBatch<'_>,
        partition: i32,
        from: i64,
        aborted: &mut Aborted,
        stop: &mut Option<Stop>,
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        if self.settings.check_crcs && !raw.crc_matches() {
            bail!("its checksum is wrong");
        }
        let attributes;
        if raw.magic == 2 {
            let header = raw.v2()?.header;
            attributes = header.attributes;
            let covered = aborted.covers(&header);
            if header.is_control() {
                return self.end_transaction(raw, &header, aborted);
            }
            if covered {
                return Ok(());
            }
        } else {
            attributes = raw.message()?.attributes.into();
        }
        let timestamp_type = match (raw.magic, attributes & 1 << 3) {
            (0, _) => None,
            (_, 0) => Some("CreateTime"),
            _ => Some("LogAppendTime"),
        };
        let Printer { settings, format, scratch, printed, positions } = self;
        let enough = |printed: u64| settings.max_messages.is_some_and(|max| printed >= max);
        let print = |row: Row<'_>| {
            if row.offset.0 < from {
                return Ok(());
            }
            if enough(*printed) {
                *stop = Some(Stop::Enough);
                bail!("enough");
            }
            if let Err(error) = format.write(&row, partition, timestamp_type, out) {
                *stop = Some(Stop::Out(error));
                bail!("stdout");
            }
            *printed += 1;
            positions.insert(partition, row.offset.0 + 1);
            Ok(())
        };
        for_each_row(raw, scratch, print)
    }

    /// A transaction that was aborted ends at its marker.
    fn end_transaction(
        &mut self,
        raw: &RawBatch<'_>,
        header: &BatchHeader,
        aborted: &mut Aborted,
    ) -> anyhow::Result<()> {
        for_each_row(raw, &mut self.scratch, |row| {
            if let Kind::Record { control: Some(ControlRecord::EndTransaction(marker)), .. } = row.kind
                && !marker.commit
            {
                aborted.open.remove(&header.producer_id);
            }
            Ok(())
        })
    }
}
