//! What 100,000 idempotent producers of one partition cost, and that they are forgotten. One test in a process of its own:
//! it looks at the process's memory.

use std::fs;

use klamm::storage::log::Verification;
use klamm::storage::producer_state::{ProducerStates, Sequence};
use klamm::types::{LeaderEpoch, Offset};
use klamm::wire::batch::BatchHeader;

const PRODUCERS: i64 = 100_000;
/// More than are remembered.
const BATCHES_EACH: i32 = 7;
const HOUR_MS: i64 = 3_600_000;

fn header(producer_id: i64, sequence: i32, base_offset: i64) -> BatchHeader {
    BatchHeader {
        base_offset: Offset(base_offset),
        batch_length: 100,
        leader_epoch: LeaderEpoch(0),
        crc: 0,
        attributes: 0,
        last_offset_delta: 0,
        base_timestamp: producer_id,
        max_timestamp: producer_id,
        producer_id,
        producer_epoch: 0,
        base_sequence: sequence,
        record_count: 1,
    }
}

/// Bytes of memory this process has.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a field of status");
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse::<usize>().expect("a number") << 10
}

#[test]
fn a_hundred_thousand_producers_fit_into_100_mb_and_expire() {
    let before = resident();
    let mut states = ProducerStates::default();
    let mut offset = 0;
    for sequence in 0..BATCHES_EACH {
        for id in 0..PRODUCERS {
            let batch = header(id, sequence, offset);
            assert_eq!(states.check(&batch, true, Verification::NotAsked), Ok(Sequence::Next));
            states.apply(&batch);
            offset += 1;
        }
    }
    let grown = resident().saturating_sub(before);
    assert!(grown <= 100_000_000, "{grown} bytes");
    assert_eq!(states.len() as i64, PRODUCERS);
    assert!(matches!(states.check(&header(5, 3, offset), true, Verification::NotAsked), Ok(Sequence::Duplicate(_))));
    // Each wrote last at the millisecond that is its id: the older half goes.
    states.expire(PRODUCERS / 2 + HOUR_MS, HOUR_MS);
    assert_eq!(states.len() as i64, PRODUCERS / 2 - 1);
    assert!(states.get(PRODUCERS / 2).is_none() && states.get(PRODUCERS / 2 + 1).is_some());
}
