//! What was acknowledged, to be compared with what the log holds.

use std::io;

use super::{Outcome, Peer, read_back};
use crate::admin::end_offsets;
use crate::wire::{Batch, produce_result};

/// Partitions whose records are read back, and bytes at each end of one.
const READ_PARTITIONS: i32 = 6;
const READ_BYTES: u64 = 32 << 20;

#[derive(Clone, Copy, Default)]
struct Partition {
    /// Log end before the first request.
    start: i64,
    acks: i64,
    /// Of all base offsets answered: a repeated or skipped one changes it.
    bases: i128,
}

/// One topic, into which one batch goes again and again.
pub struct Ledger<'a> {
    peer: &'a Peer,
    topic: &'a str,
    batch: &'a Batch,
    partitions: Vec<Partition>,
}

impl<'a> Ledger<'a> {
    pub fn open(peer: &'a Peer, topic: &'a str, partitions: i32, batch: &'a Batch) -> Outcome<Ledger<'a>> {
        let starts = if peer.broker { end_offsets(&peer.addr, topic, partitions)? } else { Vec::new() };
        let partitions = starts.into_iter().map(|start| Partition { start, ..Partition::default() }).collect();
        Ok(Ledger { peer, topic, batch, partitions })
    }

    /// One Produce response. An error in it is one here.
    pub fn answered(&mut self, frame: &[u8]) -> io::Result<()> {
        if !self.peer.broker {
            return Ok(());
        }
        let mut worst = 0;
        produce_result(frame, |partition, error, base| {
            worst = if error == 0 { worst } else { error };
            if let Some(slot) = self.partitions.get_mut(partition as usize) {
                slot.acks += 1;
                slot.bases += i128::from(base);
            }
        })?;
        if worst == 0 { Ok(()) } else { Err(io::Error::other(format!("produce answered error {worst}"))) }
    }

    /// Every acknowledged batch has its own offsets, the log ends behind the last one, and what is read at both ends
    /// of the log is what was sent.
    pub fn check(&self) -> Outcome<()> {
        if !self.peer.broker {
            return Ok(());
        }
        let records = self.batch.records;
        let ends = end_offsets(&self.peer.addr, self.topic, self.partitions.len() as i32)?;
        for (n, (partition, end)) in self.partitions.iter().zip(&ends).enumerate() {
            let Partition { start, acks, bases } = *partition;
            if start + acks * records != *end {
                let wanted = start + acks * records;
                return Err(format!("partition {n} ends at {end}, acknowledged up to {wanted}").into());
            }
            let expected =
                i128::from(acks) * i128::from(start) + i128::from(records) * i128::from(acks * (acks - 1) / 2);
            if bases != expected {
                return Err(format!("partition {n}: base offsets are not one after the other").into());
            }
        }
        for (n, end) in ends.iter().enumerate().take(READ_PARTITIONS as usize) {
            let start = self.partitions[n].start;
            let n = n as i32;
            read_back(self.peer, self.topic, n, start..*end, READ_BYTES, self.batch)?;
            let batches = (READ_BYTES / self.batch.bytes.len() as u64) as i64;
            let tail = (end - batches * records).max(start);
            read_back(self.peer, self.topic, n, tail..*end, READ_BYTES, self.batch)?;
        }
        Ok(())
    }
}
