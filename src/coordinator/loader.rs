//! Reads a partition of an internal topic from its log start to its end, record by record.
//!
//! A batch or record that cannot be read is skipped and said, with its offset: what it held is lost, the rest is not.

#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::io;

use super::records::BadRecord;
use crate::storage::entry::{Entry, entries};
use crate::storage::log::{FileSlice, Log, ReadError};
use crate::types::{Offset, TopicPartition};
use crate::wire::batch::{Batch, ControlRecord, RecordStream};
use crate::wire::compression::{Codec, DECOMPRESSED_MAX, Decompressor, Scratch};
use crate::wire::legacy::{InnerMessages, Message, crc_matches};

/// What is made of records, in the order of the log.
pub trait Replay: Default {
    /// Takes over one record. `producer_id` is that of a transactional batch. A record that cannot be read changes
    /// nothing.
    fn replay(
        &mut self,
        record: Offset,
        producer_id: Option<i64>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), BadRecord>;

    /// A control record: the producer's transaction ended here.
    fn end_transaction(&mut self, producer_id: i64, commit: bool);
}

/// What was read.
#[derive(Debug, Default)]
pub struct Loaded<R> {
    pub loading: R,
    pub records: u64,
    /// Where records and batches lie that could not be read.
    pub skipped: Vec<Offset>,
}

/// The log could not be read on.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Log(#[from] ReadError),
    #[error(transparent)]
    File(#[from] io::Error),
}

/// Reads everything below the log end, not only what is replicated: the leader's log is what there is.
/// `buffer` is how many bytes are read at once, or one batch. Blocks on the disk.
pub fn load<R: Replay>(log: &Log, buffer: usize) -> Result<Loaded<R>, LoadError> {
    let mut loader = Loader {
        partition: log.topic_partition().clone(),
        next: Offset::ZERO,
        loaded: Loaded { loading: R::default(), records: 0, skipped: Vec::new() },
        scratch: Scratch::default(),
        record: Vec::new(),
    };
    let mut bytes = Vec::new();
    loop {
        let offsets = log.offsets();
        let from = loader.next.max(offsets.log_start);
        if from >= offsets.log_end {
            return Ok(loader.loaded);
        }
        let Some(slice) = log.read(from, offsets.log_end, buffer, true)?.slice else { return Ok(loader.loaded) };
        read(&slice, &mut bytes)?;
        loader.entries(&bytes, from);
        if loader.next <= from {
            return Err(io::Error::other(format!("no whole batch at offset {from}")).into());
        }
    }
}

fn read(slice: &FileSlice, into: &mut Vec<u8>) -> io::Result<()> {
    into.resize(slice.len, 0);
    slice.file.read_exact_at(into, slice.position)
}

struct Loader<R> {
    partition: TopicPartition,
    next: Offset,
    loaded: Loaded<R>,
    scratch: Scratch,
    record: Vec<u8>,
}

impl<R: Replay> Loader<R> {
    fn entries(&mut self, bytes: &[u8], from: Offset) {
        for (at, entry) in entries(bytes) {
            self.next = entry.last_offset + 1;
            if entry.last_offset < from {
                continue;
            }
            let Some(bytes) = bytes.get(at..at + entry.size as usize) else { return };
            let outcome = if entry.magic == 2 { self.batch(bytes, &entry, from) } else { self.message(bytes, from) };
            if let Err(why) = outcome {
                self.skip(entry.base_offset, &why);
            }
        }
    }

    fn skip(&mut self, at: Offset, why: &dyn Display) {
        self.loaded.skipped.push(at);
        tracing::error!(partition = %self.partition, offset = at.0, %why, "what cannot be read here is skipped");
    }

    fn batch(&mut self, bytes: &[u8], entry: &Entry, from: Offset) -> Result<(), String> {
        let batch = Batch::parse(bytes).map_err(text)?;
        if !batch.crc_matches() {
            return Err("the checksum does not fit".to_owned());
        }
        let header = batch.header;
        let producer_id = (header.has_producer() && header.is_transactional()).then_some(header.producer_id);
        let codec = Codec::from_bits(header.codec_bits()).map_err(text)?;
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut buffer = std::mem::take(&mut self.record);
        let payload = Decompressor::new(codec, 2, batch.payload(), DECOMPRESSED_MAX, &mut scratch).map_err(text)?;
        let mut records = RecordStream::new(&header, payload).map_err(text)?;
        while let Some(record) = records.next_record(&mut buffer).map_err(text)? {
            let offset = entry.base_offset + i64::from(record.offset_delta);
            if header.is_control() {
                if let Ok(ControlRecord::EndTransaction(marker)) = ControlRecord::parse(&record) {
                    self.loaded.loading.end_transaction(header.producer_id, marker.commit);
                }
            } else if offset >= from {
                self.replay(offset, producer_id, record.key, record.value);
            }
        }
        drop(records);
        (self.scratch, self.record) = (scratch, buffer);
        Ok(())
    }

    /// What a broker from before 0.11 wrote.
    fn message(&mut self, bytes: &[u8], from: Offset) -> Result<(), String> {
        if !crc_matches(bytes) {
            return Err("the checksum does not fit".to_owned());
        }
        let message = Message::parse(bytes).map_err(text)?;
        if message.codec().map_err(text)? == Codec::None {
            self.replay(message.offset, None, message.key, message.value);
            return Ok(());
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut inner = InnerMessages::new(message, &mut scratch).map_err(text)?;
        while let Some(message) = inner.next_message().map_err(text)? {
            if message.offset >= from {
                self.replay(message.offset, None, message.key, message.value);
            }
        }
        Ok(())
    }

    fn replay(&mut self, offset: Offset, producer_id: Option<i64>, key: Option<&[u8]>, value: Option<&[u8]>) {
        self.loaded.records += 1;
        let outcome = match key {
            Some(key) => self.loaded.loading.replay(offset, producer_id, key, value).map_err(text),
            None => Err("a record without a key".to_owned()),
        };
        if let Err(why) = outcome {
            self.skip(offset, &why);
        }
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
}
