//! Single records inside what a segment stores: for lookups by time, where batch heads are not enough.

use std::io;

use super::entry::Entry;
use crate::types::Offset;
use crate::wire::batch::{Batch, RecordStream};
use crate::wire::compression::{Codec, DECOMPRESSED_MAX, Decompressor, Scratch};
use crate::wire::legacy::{InnerMessages, Message};

/// Offset and timestamp of the first record in an entry for which `wanted` holds. `bytes` is the whole entry.
pub fn find(bytes: &[u8], entry: &Entry, wanted: impl Fn(Offset, i64) -> bool) -> io::Result<Option<(Offset, i64)>> {
    let mut scratch = Scratch::default();
    let found = if entry.magic == 2 {
        find_in_batch(bytes, &wanted, &mut scratch)
    } else {
        find_in_message(bytes, &wanted, &mut scratch)
    };
    found.map_err(|what| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the batch that ends at offset {}: {what}", entry.last_offset),
        )
    })
}

type Found = Result<Option<(Offset, i64)>, String>;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn find_in_batch(bytes: &[u8], wanted: impl Fn(Offset, i64) -> bool, scratch: &mut Scratch) -> Found {
    let batch = Batch::parse(bytes).map_err(text)?;
    let header = &batch.header;
    let codec = Codec::from_bits(header.codec_bits()).map_err(text)?;
    let payload = Decompressor::new(codec, 2, batch.payload(), DECOMPRESSED_MAX, scratch).map_err(text)?;
    let mut records = RecordStream::new(header, payload).map_err(text)?;
    while let Some(record) = records.next_head().map_err(text)? {
        let offset = header.base_offset + i64::from(record.offset_delta);
        let timestamp = header.record_timestamp(record.timestamp_delta);
        if wanted(offset, timestamp) {
            return Ok(Some((offset, timestamp)));
        }
    }
    Ok(None)
}

fn find_in_message(bytes: &[u8], wanted: impl Fn(Offset, i64) -> bool, scratch: &mut Scratch) -> Found {
    let message = Message::parse(bytes).map_err(text)?;
    if message.codec().map_err(text)? == Codec::None {
        return Ok(Some((message.offset, message.timestamp)).filter(|(offset, time)| wanted(*offset, *time)));
    }
    let mut inner = InnerMessages::new(message, scratch).map_err(text)?;
    while let Some(message) = inner.next_message().map_err(text)? {
        if wanted(message.offset, message.timestamp) {
            return Ok(Some((message.offset, message.timestamp)));
        }
    }
    Ok(None)
}
