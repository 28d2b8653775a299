//! Peers that mean harm or speak another protocol, while an honest producer works: the broker lives, and its memory stays
//! within 8 MiB and sixteen times the bytes that arrived.

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use kafka_protocol::messages::ApiKey;

use super::load::{self, Ledger};
use crate::broker::On;
use crate::lane::Run;
use crate::raw::{Connection, Heard, frame_around, sized};
use crate::records::{Batch, GZIP, LZ4, SNAPPY, ZSTD, compress};
use crate::twin::requests::produce_one;

const MIB: u64 = 1 << 20;
const TOPIC: &str = "hostile";

pub fn lane(run: &mut Run) -> Result<()> {
    let address = run.address()?;
    load::create_topic(&address, TOPIC, 4)?;
    // Everything that is made once is made before memory is measured.
    let mut warm = vec![vec![(3, Ledger::default())]];
    load::run(&address, TOPIC, -1, &mut warm, |total| load::await_count(total, 50, Duration::from_secs(20)))?;
    let attacks: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("an HTTP request, 200 times at once", vec![b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(); 200]),
        (
            "a TLS hello, 200 times at once",
            vec![b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".to_vec(); 200],
        ),
        (
            "frames of 100 MiB announced, 200 times at once",
            vec![[&104_857_600i32.to_be_bytes()[..], b"\0\x03\0\x01"].concat(); 200],
        ),
        ("frames of 2 GiB announced", vec![i32::MAX.to_be_bytes().to_vec(); 50]),
        ("negative sizes", vec![(-2i32).to_be_bytes().to_vec(); 50]),
        ("cut headers", (0..14).map(|n| sized(&b"\0\x03\0\x01\0\0\0\x01\0\x04abcd"[..n]).to_vec()).collect()),
        ("counts of every size in every API", counts()?),
        ("random bytes in every API", noise()?),
        ("batches that promise too much", batches(&address)?),
    ];
    for (name, frames) in &attacks {
        let result = attack(run, &address, frames);
        run.settled(*name, result);
    }
    let result = bombs(run, &address);
    run.settled("compressed batches that grow a thousandfold", result);
    let result = silent_crowd(run, &address);
    run.settled("200 connections that say nothing", result);
    Ok(())
}

/// Sends every frame on a connection of its own, all of them at once, while a producer works.
fn attack(run: &mut Run, address: &str, frames: &[Vec<u8>]) -> Result<()> {
    let sent: u64 = frames.iter().map(|frame| frame.len() as u64).sum();
    let before = memory(run)?;
    let mut writers = vec![vec![(0, Ledger::default())]];
    load::run(address, TOPIC, -1, &mut writers, |total| {
        thread::scope(|scope| {
            for chunk in frames.chunks(frames.len().div_ceil(8).max(1)) {
                scope.spawn(move || {
                    let open = chunk.iter().filter_map(|frame| {
                        let mut connection = Connection::open(address).ok()?;
                        connection.send(frame);
                        Some(connection)
                    });
                    let open: Vec<Connection> = open.collect();
                    for mut connection in open {
                        // A reply, a close, or (a frame that is still awaited) silence: all are right.
                        let _ = connection.hear(Duration::from_millis(20));
                    }
                });
            }
        });
        // The producer never noticed.
        load::await_count(total, 20, Duration::from_secs(20))
    })?;
    let honest: u64 = writers[0][0].1.next * 300;
    bounded(run, before, sent + honest)
}

fn memory(run: &mut Run) -> Result<Option<u64>> {
    let broker = run.broker()?;
    if let Some(status) = broker.exited()? {
        anyhow::bail!("the broker ended: {status}: {}", broker.log_tail(20));
    }
    Ok(if *broker.on() == On::Klamm { Some(broker.resident()?) } else { None })
}

fn bounded(run: &mut Run, before: Option<u64>, arrived: u64) -> Result<()> {
    if let (Some(before), Some(after)) = (before, memory(run)?) {
        let most = before + 8 * MIB + 16 * arrived;
        ensure!(
            after <= most,
            "{} KiB resident, {} KiB before, {} KiB arrived",
            after >> 10,
            before >> 10,
            arrived >> 10
        );
    }
    Ok(())
}

/// Bodies of which every fourth byte starts a count, for each version of each API.
fn counts() -> Result<Vec<Vec<u8>>> {
    let mut frames = Vec::new();
    for key in 0..=68 {
        let Ok(api) = ApiKey::try_from(key) else { continue };
        let versions = api.valid_versions();
        for version in versions.min..=versions.max {
            for count in [i32::MAX, -2, i32::MIN, 50_000_000] {
                for lead in [0usize, 1, 2, 4, 6, 8] {
                    let body = [vec![0; lead], count.to_be_bytes().repeat(8)].concat();
                    frames.push(frame_around(key, version, 1, api.request_header_version(version), &body)?.to_vec());
                }
            }
            for lead in [0usize, 1, 4, 7] {
                let body = [vec![0; lead], b"\xff\xff\xff\xff\x0f".repeat(6)].concat();
                frames.push(frame_around(key, version, 1, api.request_header_version(version), &body)?.to_vec());
            }
        }
    }
    Ok(frames)
}

/// The same noise every time.
fn noise() -> Result<Vec<Vec<u8>>> {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut frames = Vec::new();
    for key in 0..=68 {
        let Ok(api) = ApiKey::try_from(key) else { continue };
        let versions = api.valid_versions();
        for version in versions.min..=versions.max {
            for _ in 0..3 {
                let body: Vec<u8> = (0..next() % 200).map(|_| next() as u8).collect();
                frames.push(frame_around(key, version, 1, api.request_header_version(version), &body)?.to_vec());
            }
        }
    }
    Ok(frames)
}

fn batches(_: &str) -> Result<Vec<Vec<u8>>> {
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
    ];
    let mut frames = Vec::new();
    for batch in bad {
        for version in [3, 7, 9] {
            let request = produce_one(TOPIC, 1, batch.encode());
            frames.push(crate::raw::frame(ApiKey::Produce, version, 1, &request)?.to_vec());
        }
    }
    Ok(frames)
}

/// Zeros pack a thousandfold: what they unpack to must not all be held.
fn bombs(run: &mut Run, address: &str) -> Result<()> {
    let zeros = vec![0; 300 * MIB as usize];
    let before = memory(run)?;
    let mut arrived = 0;
    for codec in [GZIP, LZ4, ZSTD, SNAPPY] {
        let plain = if codec == SNAPPY { &zeros[..20 << 20] } else { &zeros[..] };
        let batch = Batch { payload: Some(compress(codec, plain)), ..Batch::stamped(&[1]).codec(codec) };
        let bytes = batch.encode();
        arrived += bytes.len() as u64;
        let mut connection = Connection::open(address)?;
        connection.send(&crate::raw::frame(ApiKey::Produce, 7, 1, &produce_one(TOPIC, 1, bytes))?);
        let heard = connection.hear(Duration::from_secs(60))?;
        ensure!(heard != Heard::Silent, "codec {codec}: no answer");
    }
    // Memory once used for unpacking may be kept for the next batch.
    bounded(run, before, arrived.max(2 * MIB))
}

fn silent_crowd(run: &mut Run, address: &str) -> Result<()> {
    let before = memory(run)?;
    let crowd: Vec<Connection> = (0..200).map(|_| Connection::open(address)).collect::<Result<_>>()?;
    let mut writers = vec![vec![(2, Ledger::default())]];
    load::run(address, TOPIC, -1, &mut writers, |total| load::await_count(total, 50, Duration::from_secs(20)))?;
    bounded(run, before, writers[0][0].1.next * 300)?;
    drop(crowd);
    load::verify(address, TOPIC, 2, &writers[0][0].1).map(|_| ())
}
