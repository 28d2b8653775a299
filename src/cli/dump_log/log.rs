//! `.log`: a line per batch and, on demand, one per record.

use std::io::Write;
use std::path::Path;

use anyhow::bail;

use super::base_offset;
use super::contents::{LogFile, optional_long};
use super::index::Findings;
use crate::cli::rows::{Kind, Row, for_each_row};
use crate::storage::entry::Entry;
use crate::types::Offset;
use crate::wire::batch::{ControlRecord, RawBatch};
use crate::wire::compression::{Codec, Scratch};

/// How much is printed of what lies in batches.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    pub records: bool,
    pub metadata: bool,
    pub contents: bool,
}

/// Prints the batches that end within `max_bytes`.
pub fn dump(
    path: &Path,
    depth: Depth,
    max_bytes: u32,
    findings: &mut Findings,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    writeln!(out, "Log starting offset: {}", base_offset(path)?.0)?;
    let log = LogFile::open(path)?;
    let mut heads = log.heads(0, max_bytes.into());
    let (mut buffer, mut scratch) = (Vec::new(), Scratch::default());
    let mut last: Option<Offset> = None;
    while let Some((position, entry)) = heads.next_entry()? {
        let raw = log.read(position, &entry, &mut buffer)?;
        print_batch(&entry, &raw, position, out)?;
        if !depth.records {
            continue;
        }
        let timestamp_type = timestamp_type(&entry);
        for_each_row(&raw, &mut scratch, |row| {
            if let Some(last) = last.filter(|last| last.0.wrapping_add(1) != row.offset.0) {
                findings.gap(path, last, row.offset);
            }
            last = Some(row.offset);
            print_row(&row, timestamp_type, depth, out)
        })?;
    }
    if let Some(damage) = log.damage(&heads, max_bytes.into())? {
        bail!("{damage}, {} bytes into the file", heads.position());
    }
    let rest = log.len.saturating_sub(heads.position());
    if rest > 0 && max_bytes == i32::MAX as u32 {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        writeln!(out, "Found {rest} invalid bytes at the end of {name}")?;
    }
    Ok(())
}

fn timestamp_type(entry: &Entry) -> &'static str {
    match entry.magic {
        0 => "NoTimestampType",
        _ if entry.attributes & 1 << 3 != 0 => "LogAppendTime",
        _ => "CreateTime",
    }
}

fn print_batch(entry: &Entry, raw: &RawBatch<'_>, position: u64, out: &mut impl Write) -> anyhow::Result<()> {
    match &entry.batch {
        Some(header) => write!(
            out,
            "baseOffset: {} lastOffset: {} count: {} baseSequence: {} lastSequence: {} producerId: {} producerEpoch: {} \
             partitionLeaderEpoch: {} isTransactional: {} isControl: {} deleteHorizonMs: {}",
            header.base_offset.0,
            header.last_offset().0,
            header.record_count,
            header.base_sequence,
            header.last_sequence(),
            header.producer_id,
            header.producer_epoch,
            header.leader_epoch.0,
            header.is_transactional(),
            header.is_control(),
            optional_long(header.has_delete_horizon().then_some(header.base_timestamp)),
        )?,
        None => write!(out, "offset: {}", entry.last_offset.0)?,
    }
    let codec = Codec::from_bits(entry.attributes as u8)?;
    writeln!(
        out,
        " position: {position} {}: {} size: {} magic: {} compresscodec: {codec} crc: {} isvalid: {}",
        timestamp_type(entry),
        entry.max_timestamp,
        entry.size,
        entry.magic,
        entry.crc,
        raw.crc_matches()
    )?;
    Ok(())
}

fn print_row(row: &Row<'_>, timestamp_type: &str, depth: Depth, out: &mut impl Write) -> anyhow::Result<()> {
    let size = |field: Option<&[u8]>| field.map_or(-1, |bytes| bytes.len() as i64);
    let text = |bytes| String::from_utf8_lossy(bytes);
    // Kafka puts the bar before metadata or else before the key: without both there is none.
    let is_control = matches!(row.kind, Kind::Record { control: Some(_), .. });
    let contents = depth.contents && !is_control;
    if depth.metadata || (contents && row.key.is_some()) {
        write!(out, "|")?;
    }
    if depth.metadata {
        let (key, value) = (size(row.key), size(row.value));
        write!(out, " offset: {} {timestamp_type}: {}", row.offset.0, row.timestamp)?;
        write!(out, " keySize: {key} valueSize: {value}")?;
        match &row.kind {
            // The brace is Kafka's.
            Kind::Message { crc, crc_matches } => write!(out, " isValid: {crc_matches} crc: {crc}}}")?,
            Kind::Record { record, sequence, control } => {
                write!(out, " sequence: {sequence} headerKeys: [")?;
                for (n, header) in record.headers().enumerate() {
                    write!(out, "{}{}", if n > 0 { "," } else { "" }, text(header.key))?;
                }
                write!(out, "]")?;
                print_control(*control, out)?;
            }
        }
    }
    if contents {
        if let Some(key) = row.key {
            write!(out, " key: {}", text(key))?;
        }
        if let Some(value) = row.value {
            write!(out, " payload: {}", text(value))?;
        }
    }
    Ok(writeln!(out)?)
}

fn print_control(control: Option<ControlRecord>, out: &mut impl Write) -> anyhow::Result<()> {
    match control {
        None => {}
        Some(ControlRecord::EndTransaction(marker)) => {
            let kind = if marker.commit { "COMMIT" } else { "ABORT" };
            write!(out, " endTxnMarker: {kind} coordinatorEpoch: {}", marker.coordinator_epoch)?;
        }
        Some(ControlRecord::Other { kind }) => {
            let name = match kind {
                2 => "LEADER_CHANGE",
                3 => "SNAPSHOT_HEADER",
                4 => "SNAPSHOT_FOOTER",
                5 => "KRAFT_VERSION",
                6 => "KRAFT_VOTERS",
                _ => "UNKNOWN",
            };
            write!(out, " controlType: {name}({kind})")?;
        }
    }
    Ok(())
}
