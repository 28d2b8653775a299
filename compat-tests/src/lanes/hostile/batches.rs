//! Batches that promise what they do not hold, and compressed ones that become a thousand times as large.

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use kafka_protocol::messages::{ApiKey, ResponseKind};

use super::bombs::{self, Bomb};
use super::scene::{ATTACKED_PARTITION, Attack, PATIENCE, Scene, TOPIC};
use super::volley::volley;
use crate::raw::{Connection, Heard, decode, frame};
use crate::records::{Batch, GZIP, LZ4, SNAPPY, ZSTD, message_set};
use crate::twin::requests::produce_one;

/// Unpacking as much as 2 GiB takes a while.
const UNPACKING: std::time::Duration = std::time::Duration::from_secs(120);

pub fn run(scene: &mut Scene) -> Result<()> {
    scene.family("batches that promise too much", |attack| {
        volley(attack, &promises()?, PATIENCE, |frame, heard| {
            ensure!(heard != Heard::Silent, "no answer and no end after {frame:x?}");
            Ok(())
        })
    });
    for bomb in bombs::all(scene.is_full()) {
        scene.family(&bomb.name, |attack| explode(attack, &bomb));
    }
    Ok(())
}

fn explode(attack: &Attack, bomb: &Bomb) -> Result<()> {
    let mut connection = Connection::open(attack.address)?;
    let request = produce_one(TOPIC, ATTACKED_PARTITION, bomb.records.clone());
    let bytes = frame(ApiKey::Produce, bomb.version, 1, &request)?;
    attack.count(bytes.len());
    connection.send(&bytes);
    match connection.hear(UNPACKING)? {
        Heard::Reply(bytes) => {
            let (_, ResponseKind::Produce(response)) = decode(ApiKey::Produce, bomb.version, bytes)? else {
                bail!("no Produce response")
            };
            let partition = response.responses.first().and_then(|topic| topic.partition_responses.first());
            let error = partition.context("an answer for the partition")?.error_code;
            // Taken or refused; KAFKA_STORAGE_ERROR would mean a log directory went offline for it.
            ensure!(error != 56, "error {error}");
            Ok(())
        }
        other => bail!("{other:?}"),
    }
}

fn promises() -> Result<Vec<Bytes>> {
    let good = Batch::stamped(&[1, 2, 3]);
    let bad = [
        Batch { count: Some(i32::MAX), last_offset_delta: Some(i32::MAX - 1), ..good.clone() },
        Batch { count: Some(-2), last_offset_delta: Some(-3), ..good.clone() },
        Batch { count: Some(i32::MIN), ..good.clone() },
        Batch { last_offset_delta: Some(i32::MAX), ..good.clone() },
        Batch { crc_error: 1, ..good.clone() },
        Batch { base_offset: i64::MAX, ..good.clone() },
        Batch { base_offset: i64::MIN, ..good.clone() },
        Batch { attributes: 1 << 5, ..good.clone() },
        Batch { max_timestamp: Some(i64::MIN), ..good.clone() },
        Batch { payload: Some(vec![0xff; 40]), ..good.clone() },
        Batch { payload: Some(vec![0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0]), ..good.clone() },
        Batch { payload: Some(b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01\x7f\xff\xff\xff".to_vec()), ..good.clone() }
            .codec(SNAPPY),
        // A raw snappy block that claims 4 GiB.
        Batch { payload: Some(vec![0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0]), ..good.clone() }.codec(SNAPPY),
        // A block of lz4 that claims 2 GiB, in blocks of 4 MiB.
        Batch { payload: Some(b"\x04\x22\x4d\x18\x60\x70\x73\xff\xff\xff\x7f".to_vec()), ..good.clone() }.codec(LZ4),
        // A window of 2 GiB, and a frame of 2^62 bytes.
        Batch { payload: Some(b"\x28\xb5\x2f\xfd\0\xa8\x01\0\0".to_vec()), ..good.clone() }.codec(ZSTD),
        Batch { payload: Some(b"\x28\xb5\x2f\xfd\xe0\0\0\0\0\0\0\0\x40\x01\0\0".to_vec()), ..good.clone() }.codec(ZSTD),
    ];
    let mut frames = Vec::new();
    let mut put = |version, records: Vec<u8>| -> Result<()> {
        frames.push(frame(ApiKey::Produce, version, 1, &produce_one(TOPIC, ATTACKED_PARTITION, records))?);
        Ok(())
    };
    for batch in bad {
        let bytes = batch.encode();
        for version in [3, 7, 9, 11] {
            put(version, bytes.clone())?;
        }
        // Its length, and each of its last bytes missing.
        for length in [i32::MAX, -1, i32::MIN, 0, 14, 1 << 24] {
            let mut lying = bytes.clone();
            lying[8..12].copy_from_slice(&length.to_be_bytes());
            put(7, lying)?;
        }
    }
    for codec in [GZIP, SNAPPY, LZ4, ZSTD] {
        let whole = Batch::stamped(&[1, 2, 3]).codec(codec).encode();
        (0..whole.len()).try_for_each(|end| put(7, whole[..end].to_vec()))?;
    }
    for (magic, version) in [(0, 1), (1, 2)] {
        for codec in [0, GZIP, SNAPPY, LZ4] {
            let whole = message_set(magic, codec, &Batch::stamped(&[1, 2, 3]).records);
            (0..whole.len()).try_for_each(|end| put(version, whole[..end].to_vec()))?;
        }
    }
    Ok(frames)
}
