//! How a copy grows: chunk after chunk, after what the log has lost is cut from it.

use std::io;
use std::sync::Arc;

use crate::storage::entry::read_up_to;
use crate::storage::log::{AppendError, Log, ReadError};
use crate::types::{LeaderEpoch, Offset};

/// Bytes copied at once, and what may be missing when appends begin to wait for the rest.
const CHUNK: usize = 1 << 20;

/// How far a step of copying came.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes copied.
    pub bytes: usize,
    /// At most a chunk was missing.
    pub almost: bool,
}

/// Appends a chunk of `log` to `future`, after cutting what `log` does not have (any more).
pub fn copy(log: &Log, future: &Log, buffer: &mut Vec<u8>) -> io::Result<Step> {
    agree(log, future)?;
    future.set_config(Arc::clone(&log.config()));
    let (from, end) = (future.log_end(), log.log_end());
    let read = match log.read(from, end, CHUNK, true) {
        Ok(read) => read,
        // What was to be copied next is deleted.
        Err(ReadError::OutOfRange { log_start, .. }) if from < log_start => {
            future.truncate_fully_and_start_at(log_start)?;
            return Ok(Step { bytes: 0, almost: false });
        }
        Err(error) => return Err(io::Error::other(error.to_string())),
    };
    let Some(slice) = read.slice else {
        return match from == end {
            true => Ok(Step { bytes: 0, almost: true }),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, format!("no records in [{from}, {end})"))),
        };
    };
    buffer.resize(slice.len, 0);
    read_up_to(slice.file.as_ref(), buffer, slice.position)?;
    let appended = future.append_as_follower(buffer, log.log_dir().now_ms()).map_err(|error| match error {
        AppendError::Storage { source, .. } => io::Error::new(source.kind(), source.to_string()),
        refused => io::Error::new(io::ErrorKind::InvalidData, refused.to_string()),
    })?;
    if appended.last_offset == Offset::NONE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("no whole batch at offset {from}")));
    }
    Ok(Step { bytes: buffer.len(), almost: buffer.len() < CHUNK })
}

/// Cuts from the copy what the log, a follower's, has lost since: as a follower finds out where it differs from its leader.
fn agree(log: &Log, future: &Log) -> io::Result<()> {
    while let Some(latest) = future.latest_epoch() {
        let (epoch, end) = log.end_offset_for_epoch(latest).unwrap_or((LeaderEpoch::NONE, future.log_start()));
        if epoch == latest && end >= future.log_end() {
            return Ok(());
        }
        let before = future.log_end();
        future.truncate_to(end.min(before))?;
        if future.log_end() == before {
            break;
        }
    }
    let end = log.log_end();
    if future.log_end() > end { future.truncate_to(end) } else { Ok(()) }
}
