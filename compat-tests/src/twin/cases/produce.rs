//! Produce: every version and format, every refusal and which one wins.

use anyhow::Result;
use bytes::BufMut;
use kafka_protocol::messages::{ApiKey, RequestKind};

use super::super::requests::{
    at, counted, create, fetch, fetch_topic, produce, produce_one, transactional, with_configs,
};
use super::super::script::Script;
use crate::records::{Batch, GZIP, LZ4, NONE, Record, SNAPPY, ZSTD, message_set, put_record, put_varint};

const API: ApiKey = ApiKey::Produce;

/// Records in the newest format that a version of Produce carries.
fn for_version(version: i16, batch: &Batch) -> Vec<u8> {
    match version {
        0 | 1 => message_set(0, batch.attributes & 7, &batch.records),
        2 => message_set(1, batch.attributes & 7, &batch.records),
        _ => batch.encode(),
    }
}

/// Makes a topic and waits for it.
pub fn topic(script: &mut Script, name: &str, partitions: i32, configs: &[(&str, &str)]) -> Result<String> {
    let name = script.topic(name);
    let configs: Vec<(&str, Option<&str>)> = configs.iter().map(|&(key, value)| (key, Some(value))).collect();
    script.ask("the topic", ApiKey::CreateTopics, 5, |_| {
        RequestKind::CreateTopics(create(vec![with_configs(counted(&name, partitions, 1), &configs)]))
    })?;
    script.await_topic(&name, partitions as usize)?;
    Ok(name)
}

/// What lies in a partition now, in the oldest version that shows everything and in the newest.
pub fn read_back(script: &mut Script, name: &str, partition: i32) -> Result<()> {
    for version in [4, 12] {
        script.ask("read back", ApiKey::Fetch, version, |side| {
            RequestKind::Fetch(fetch(version, vec![fetch_topic(name, side.id(name), version, vec![at(partition, 0)])]))
        })?;
    }
    Ok(())
}

pub fn run(script: &mut Script) -> Result<()> {
    for version in script.versions(API) {
        let name = topic(script, &format!("v{version}"), 3, &[])?;
        let batch = for_version(version, &Batch::stamped(&[1000, 1005, 1001]));
        for acks in [-1, 1] {
            script.ask(&format!("acks {acks}"), API, version, |_| {
                RequestKind::Produce(produce(acks, &[(&name, 0, Some(batch.clone())), (&name, 1, Some(batch.clone()))]))
            })?;
        }
        script.unanswered("acks 0", API, version, |_| {
            RequestKind::Produce(produce(0, &[(&name, 2, Some(batch.clone()))]))
        })?;
        script.unanswered("acks 0 to an unknown topic", API, version, |_| {
            RequestKind::Produce(produce(0, &[("nowhere", 0, Some(batch.clone()))]))
        })?;
        for acks in [2, -2, i16::MAX] {
            script.ask(&format!("acks {acks}"), API, version, |_| {
                RequestKind::Produce(produce(
                    acks,
                    &[(&name, 0, Some(batch.clone())), ("nowhere", 0, Some(batch.clone()))],
                ))
            })?;
        }
        script.ask("no topics", API, version, |_| RequestKind::Produce(produce(-1, &[])))?;
        script.ask("some good, some bad", API, version, |_| {
            RequestKind::Produce(produce(
                -1,
                &[
                    (&name, 0, Some(batch.clone())),
                    (&name, 9, Some(batch.clone())),
                    (&name, -1, Some(batch.clone())),
                    ("nowhere", 0, Some(batch.clone())),
                ],
            ))
        })?;
        script.ask("a name no topic can have", API, version, |_| produce_one("a/b", 0, batch.clone()))?;
        script.ask("a transactional id and plain records", API, version, |_| {
            transactional(produce(-1, &[(&name, 0, Some(batch.clone()))]), "tx")
        })?;
        for partition in 0..3 {
            read_back(script, &name, partition)?;
        }
    }
    Ok(())
}

/// Message sets of magic 0 and 1 in the versions that carry them, in every codec.
pub fn old_formats(script: &mut Script) -> Result<()> {
    let records = Batch::stamped(&[1000, 1005, 1001]).records;
    for version in 0..=2 {
        for magic in [0, 1] {
            let name = topic(script, &format!("v{version}m{magic}"), 1, &[])?;
            for codec in [NONE, GZIP, SNAPPY, LZ4] {
                let set = message_set(magic, codec, &records);
                script.ask(&format!("magic {magic} codec {codec}"), API, version, |_| {
                    produce_one(&name, 0, set.clone())
                })?;
                let mut broken = set.clone();
                let last = broken.len() - 1;
                broken[last] ^= 1;
                script.ask(&format!("magic {magic} codec {codec}, a wrong byte"), API, version, |_| {
                    produce_one(&name, 0, broken.clone())
                })?;
            }
            let unkeyed = [Record { timestamp: -1, value: None, ..Record::default() }];
            script.ask("null key and value, no timestamp", API, version, |_| {
                produce_one(&name, 0, message_set(magic, NONE, &unkeyed))
            })?;
            let set = message_set(magic, NONE, &records);
            script.ask("cut in its last message", API, version, |_| {
                produce_one(&name, 0, set[..set.len() - 3].to_vec())
            })?;
            script.ask("cut in its first message", API, version, |_| produce_one(&name, 0, set[..20].to_vec()))?;
            script.ask("empty", API, version, |_| produce_one(&name, 0, Vec::new()))?;
            script.ask("zstd", API, version, |_| produce_one(&name, 0, message_set(magic, ZSTD, &records)))?;
            read_back(script, &name, 0)?;
            for old in 0..4 {
                script.ask("read back down-converted", ApiKey::Fetch, old, |side| {
                    RequestKind::Fetch(fetch(old, vec![fetch_topic(&name, side.id(&name), old, vec![at(0, 0)])]))
                })?;
            }
        }
        let name = topic(script, &format!("v{version}batch"), 1, &[])?;
        script.ask("a batch of magic 2", API, version, |_| produce_one(&name, 0, Batch::stamped(&[7]).encode()))?;
        read_back(script, &name, 0)?;
    }
    for version in [3, 8] {
        let name = topic(script, &format!("v{version}"), 1, &[])?;
        for magic in [0, 1] {
            script.ask(&format!("magic {magic}"), API, version, |_| {
                produce_one(&name, 0, message_set(magic, NONE, &records))
            })?;
        }
    }
    Ok(())
}

pub fn bad_batches(script: &mut Script) -> Result<()> {
    for version in [3, 7, 8, 9, 11] {
        let name = topic(script, &format!("v{version}"), 2, &[])?;
        let good = Batch::stamped(&[1000, 1005, 1001]);
        let payload = |length: i64, count: usize| {
            let mut bytes = Vec::new();
            for i in 0..count {
                put_record(&mut bytes, &good.records[0], i as i64, 0);
            }
            if length > 0 {
                bytes.clear();
                put_varint(&mut bytes, length);
                bytes.extend_from_slice(&[0; 10]);
            }
            bytes
        };
        let two_in_one = [good.encode(), good.encode()].concat();
        let cut = {
            let bytes = good.encode();
            bytes[..bytes.len() - 2].to_vec()
        };
        let mut longer = good.encode();
        longer.extend_from_slice(b"tail");
        let mut negative_size = good.encode();
        negative_size[8..12].copy_from_slice(&(-5i32).to_be_bytes());
        let mut small_size = good.encode();
        small_size[8..12].copy_from_slice(&10i32.to_be_bytes());
        let mut huge_size = good.encode();
        huge_size[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
        let headers_promised = {
            let mut body = vec![0, 0, 0, 1, 1];
            put_varint(&mut body, i64::from(i32::MAX));
            let mut bytes = Vec::new();
            put_varint(&mut bytes, body.len() as i64);
            bytes.extend_from_slice(&body);
            bytes
        };
        let null_header_key = {
            let body = [0, 0, 0, 1, 1, 2, 1, 0];
            let mut bytes = vec![body.len() as u8 * 2];
            bytes.extend_from_slice(&body);
            bytes
        };
        let trailing_in_record = {
            let body = [0, 0, 0, 1, 1, 0, 7, 7];
            let mut bytes = vec![body.len() as u8 * 2];
            bytes.extend_from_slice(&body);
            bytes
        };
        let offset_delta_5 = {
            let mut bytes = Vec::new();
            put_record(&mut bytes, &good.records[0], 5, 0);
            bytes
        };
        let one = Batch { records: good.records[..1].to_vec(), ..good.clone() };
        let cases: Vec<(&str, Vec<u8>)> = vec![
            ("good", good.encode()),
            ("empty", vec![]),
            ("5 bytes", vec![1; 5]),
            ("60 bytes", vec![0; 60]),
            ("two batches", two_in_one),
            ("cut", cut),
            ("bytes behind", longer),
            ("a size of -5", negative_size),
            ("a size of 10", small_size),
            ("a size of 2^31 - 1", huge_size),
            ("a wrong CRC", Batch { crc_error: 1, ..good.clone() }.encode()),
            ("magic 3", Batch { magic: 3, ..good.clone() }.encode()),
            ("magic -1", Batch { magic: -1, ..good.clone() }.encode()),
            ("base offset 7", Batch { base_offset: 7, ..good.clone() }.encode()),
            ("base offset -1", Batch { base_offset: -1, ..good.clone() }.encode()),
            ("a control batch", Batch { attributes: 1 << 5, ..good.clone() }.encode()),
            ("a transactional batch", Batch { attributes: 1 << 4, ..good.clone() }.encode()),
            ("attribute bit 6", Batch { attributes: 1 << 6, ..good.clone() }.encode()),
            ("attribute bits 7 to 15", Batch { attributes: -128, ..good.clone() }.encode()),
            ("the broker's time", Batch { attributes: 1 << 3, ..good.clone() }.encode()),
            ("codec 5", Batch { attributes: 5, ..good.clone() }.encode()),
            ("codec 7", Batch { attributes: 7, ..good.clone() }.encode()),
            ("count 4 of 3", Batch { count: Some(4), ..good.clone() }.encode()),
            ("count 2 of 3", Batch { count: Some(2), ..good.clone() }.encode()),
            (
                "count 4 and last delta 3 of 3",
                Batch { count: Some(4), last_offset_delta: Some(3), ..good.clone() }.encode(),
            ),
            (
                "count 2 and last delta 1 of 3",
                Batch { count: Some(2), last_offset_delta: Some(1), ..good.clone() }.encode(),
            ),
            (
                "count 2^31 - 1",
                Batch { count: Some(i32::MAX), last_offset_delta: Some(i32::MAX - 1), ..good.clone() }.encode(),
            ),
            ("count -2", Batch { count: Some(-2), last_offset_delta: Some(-3), ..good.clone() }.encode()),
            (
                "count 0",
                Batch { count: Some(0), last_offset_delta: Some(-1), records: vec![], ..good.clone() }.encode(),
            ),
            (
                "no records, count 0, last delta 0",
                Batch { count: Some(0), last_offset_delta: Some(0), records: vec![], ..good.clone() }.encode(),
            ),
            ("last delta 9", Batch { last_offset_delta: Some(9), ..good.clone() }.encode()),
            ("last delta -1", Batch { last_offset_delta: Some(-1), ..good.clone() }.encode()),
            ("a record longer than its batch", Batch { payload: Some(payload(1000, 0)), ..one.clone() }.encode()),
            (
                "a record of a negative length",
                Batch { payload: Some(vec![3, 0, 0, 0, 0, 0, 0]), ..one.clone() }.encode(),
            ),
            ("count 3, one record", Batch { payload: Some(payload(0, 1)), ..good.clone() }.encode()),
            ("count 1, three records", Batch { payload: Some(payload(0, 3)), ..one.clone() }.encode()),
            ("2^31 - 1 headers", Batch { payload: Some(headers_promised), ..one.clone() }.encode()),
            ("a null header key", Batch { payload: Some(null_header_key), ..one.clone() }.encode()),
            ("bytes behind the headers", Batch { payload: Some(trailing_in_record), ..one.clone() }.encode()),
            ("an offset delta of 5", Batch { payload: Some(offset_delta_5), ..one.clone() }.encode()),
            ("leader epoch 0", Batch { leader_epoch: 0, ..good.clone() }.encode()),
            ("leader epoch 77", Batch { leader_epoch: 77, ..good.clone() }.encode()),
            ("a max timestamp of -1", Batch { max_timestamp: Some(-1), ..Batch::stamped(&[5, 1, 9, 3]) }.encode()),
            ("a max timestamp too large", Batch { max_timestamp: Some(i64::MAX), ..good.clone() }.encode()),
            ("no timestamps", Batch::stamped(&[-1, -1]).encode()),
            ("timestamps below -1", Batch::stamped(&[-5]).encode()),
            ("far apart timestamps", Batch::stamped(&[0, 9_000_000_000_000]).encode()),
            (
                "headers",
                Batch::new(vec![Record {
                    timestamp: 3,
                    headers: vec![(b"h".to_vec(), Some(b"1".to_vec())), (b"h".to_vec(), None), (vec![], Some(vec![]))],
                    ..Record::default()
                }])
                .encode(),
            ),
            ("a producer id without a sequence", Batch { producer_id: 5, producer_epoch: 0, ..good.clone() }.encode()),
            (
                "garbage as gzip",
                Batch { attributes: GZIP, payload: Some(b"not gzip at all".to_vec()), ..good.clone() }.encode(),
            ),
            (
                "garbage as snappy",
                Batch { attributes: SNAPPY, payload: Some(b"not snappy at all".to_vec()), ..good.clone() }.encode(),
            ),
            (
                "garbage as lz4",
                Batch { attributes: LZ4, payload: Some(b"not lz4 at all, not".to_vec()), ..good.clone() }.encode(),
            ),
            (
                "garbage as zstd",
                Batch { attributes: ZSTD, payload: Some(b"not zstd at all".to_vec()), ..good.clone() }.encode(),
            ),
            ("zstd", good.clone().codec(ZSTD).encode()),
            (
                "count 4 of 3 in gzip",
                Batch { count: Some(4), last_offset_delta: Some(3), ..good.clone().codec(GZIP) }.encode(),
            ),
            (
                "count 2 of 3 in gzip",
                Batch { count: Some(2), last_offset_delta: Some(1), ..good.clone().codec(GZIP) }.encode(),
            ),
        ];
        for (case, bytes) in &cases {
            script.ask(case, API, version, |_| {
                RequestKind::Produce(produce(-1, &[(&name, 0, Some(bytes.clone())), (&name, 1, Some(good.encode()))]))
            })?;
        }
        script.unanswered("a wrong CRC with acks 0", API, version, |_| {
            RequestKind::Produce(produce(0, &[(&name, 0, Some(Batch { crc_error: 1, ..good.clone() }.encode()))]))
        })?;
        read_back(script, &name, 0)?;
    }
    Ok(())
}

/// Idempotent batches as they come with an id from elsewhere: sequences, epochs, duplicates.
pub fn producer_ids(script: &mut Script) -> Result<()> {
    let version = 8;
    let name = topic(script, "t", 2, &[])?;
    let batch = |id: i64, epoch: i16, sequence: i32, count: i64| {
        let stamps: Vec<i64> = (0..count).collect();
        Batch { producer_id: id, producer_epoch: epoch, base_sequence: sequence, ..Batch::stamped(&stamps) }.encode()
    };
    let mut step = |what: &str, id: i64, epoch: i16, sequence: i32, count: i64| {
        let bytes = batch(id, epoch, sequence, count);
        script.ask(what, API, version, |_| produce_one(&name, 0, bytes.clone()))
    };
    for sequence in 0..7 {
        step("in order", 100, 0, sequence, 1)?;
    }
    for sequence in [6, 4, 2, 1, 0] {
        step(&format!("sequence {sequence} once more"), 100, 0, sequence, 1)?;
    }
    step("a gap", 100, 0, 9, 1)?;
    step("part of it stored", 100, 0, 6, 2)?;
    step("a new epoch from 0", 100, 1, 0, 2)?;
    step("the old epoch", 100, 0, 7, 1)?;
    step("a new epoch not from 0", 100, 2, 5, 1)?;
    step("a first sequence of 50", 101, 0, 50, 1)?;
    step("on from 51", 101, 0, 51, 3)?;
    step("the last sequences", 102, 0, i32::MAX - 1, 2)?;
    step("wrapped", 102, 0, 0, 1)?;
    step("wrapping inside", 103, 0, i32::MAX, 3)?;
    step("after it", 103, 0, 2, 1)?;
    step("sequence -2", 104, 0, -2, 1)?;
    step("epoch -1", 105, -1, 0, 1)?;
    let transactional_batch =
        Batch { attributes: 1 << 4, producer_id: 200, producer_epoch: 0, base_sequence: 0, ..Batch::stamped(&[1]) };
    script.ask("transactional without an id", API, version, |_| produce_one(&name, 1, transactional_batch.encode()))?;
    read_back(script, &name, 0)?;
    read_back(script, &name, 1)
}

/// Topic configs that change what is accepted and what is stored.
pub fn topic_settings(script: &mut Script) -> Result<()> {
    let version = 8;
    let good = Batch::stamped(&[1000, 1005, 1001]);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_millis() as i64;

    let compacted = topic(script, "compacted", 1, &[("cleanup.policy", "compact")])?;
    let unkeyed = |i: i64| Record { timestamp: i, value: Some(b"v".to_vec()), ..Record::default() };
    let mixed = Batch::new(vec![good.records[0].clone(), unkeyed(1), good.records[2].clone(), unkeyed(3)]);
    for version in [3, 7, 8, 9] {
        script.ask("no key on a compacted topic", API, version, |_| produce_one(&compacted, 0, mixed.encode()))?;
        script.ask("no key on a compacted topic, gzip", API, version, |_| {
            produce_one(&compacted, 0, mixed.clone().codec(GZIP).encode())
        })?;
        script.ask("keys on a compacted topic", API, version, |_| produce_one(&compacted, 0, good.encode()))?;
    }
    script.ask("no key on a compacted topic, magic 1", API, 2, |_| {
        produce_one(&compacted, 0, message_set(1, NONE, &mixed.records))
    })?;
    script.ask("no key on a compacted topic, magic 0", API, 1, |_| {
        produce_one(&compacted, 0, message_set(0, GZIP, &mixed.records))
    })?;
    read_back(script, &compacted, 0)?;

    let small = topic(script, "small", 1, &[("max.message.bytes", "200")])?;
    let large = Batch::new(vec![Record { timestamp: 1, value: Some(vec![b'x'; 300]), ..Record::default() }]);
    for version in [2, 3, 8, 9] {
        script.ask("too large", API, version, |_| produce_one(&small, 0, for_version(version, &large)))?;
        script.ask("large, but compressed", API, version, |_| {
            produce_one(&small, 0, for_version(version, &large.clone().codec(GZIP)))
        })?;
        script.ask("too large and a wrong CRC", API, version, |_| {
            produce_one(&small, 0, Batch { crc_error: 3, ..large.clone() }.encode())
        })?;
    }
    read_back(script, &small, 0)?;

    let segment = topic(script, "segment", 1, &[("segment.bytes", "1000"), ("max.message.bytes", "100000")])?;
    let larger = Batch::new(vec![Record { timestamp: 1, value: Some(vec![b'x'; 2000]), ..Record::default() }]);
    script.ask("larger than a segment", API, version, |_| produce_one(&segment, 0, larger.encode()))?;
    for _ in 0..12 {
        script.ask("rolling", API, version, |_| produce_one(&segment, 0, good.encode()))?;
    }
    read_back(script, &segment, 0)?;

    let broker_time = topic(script, "broker-time", 1, &[("message.timestamp.type", "LogAppendTime")])?;
    for version in [1, 2, 3, 8] {
        script.ask("the broker's time", API, version, |_| produce_one(&broker_time, 0, for_version(version, &good)))?;
        script.ask("the broker's time, gzip", API, version, |_| {
            produce_one(&broker_time, 0, for_version(version, &good.clone().codec(GZIP)))
        })?;
    }
    script.ask("the broker's time, already set", API, version, |_| {
        produce_one(&broker_time, 0, Batch { attributes: 8, ..good.clone() }.encode())
    })?;
    read_back(script, &broker_time, 0)?;
    for old in 0..4 {
        script.ask("the broker's time, down-converted", ApiKey::Fetch, old, |side| {
            RequestKind::Fetch(fetch(old, vec![fetch_topic(&broker_time, side.id(&broker_time), old, vec![at(0, 0)])]))
        })?;
    }

    let strict = topic(
        script,
        "strict",
        1,
        &[("message.timestamp.before.max.ms", "60000"), ("message.timestamp.after.max.ms", "60000")],
    )?;
    for version in [2, 3, 8] {
        for (what, stamps) in [
            ("too early", vec![now, now - 3_600_000, now]),
            ("too late", vec![now + 3_600_000]),
            ("all too early", vec![5, 6, 7]),
            ("in time", vec![now]),
            ("none", vec![-1]),
        ] {
            for codec in [NONE, GZIP] {
                let batch = Batch::stamped(&stamps).codec(codec);
                script.ask(&format!("timestamps {what}, codec {codec}"), API, version, |_| {
                    produce_one(&strict, 0, for_version(version, &batch))
                })?;
            }
        }
    }
    read_back(script, &strict, 0)?;

    let far = topic(script, "far", 1, &[])?;
    script.ask("two hours ahead on a topic of defaults", API, version, |_| {
        produce_one(&far, 0, Batch::stamped(&[now + 7_200_000]).encode())
    })?;

    for target in ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"] {
        let name = topic(script, &format!("to-{target}"), 1, &[("compression.type", target)])?;
        for codec in [NONE, GZIP, SNAPPY, LZ4, ZSTD] {
            for version in [1, 2, 7] {
                let batch = Batch { leader_epoch: 3, ..good.clone().codec(codec) };
                script.ask(&format!("codec {codec}"), API, version, |_| {
                    produce_one(&name, 0, for_version(version, &batch))
                })?;
            }
        }
        let mut bad = Vec::new();
        bad.put_slice(b"not compressed");
        let bad = Batch { attributes: GZIP, payload: Some(bad), ..good.clone() };
        script.ask("undecodable", API, version, |_| produce_one(&name, 0, bad.encode()))?;
        read_back(script, &name, 0)?;
        for old in 0..4 {
            script.ask("down-converted", ApiKey::Fetch, old, |side| {
                RequestKind::Fetch(fetch(old, vec![fetch_topic(&name, side.id(&name), old, vec![at(0, 0)])]))
            })?;
        }
    }

    let two_replicas = topic(script, "min-isr", 1, &[("min.insync.replicas", "2")])?;
    for version in [3, 8] {
        for acks in [-1, 1] {
            script.ask(&format!("two in-sync replicas wanted, acks {acks}"), API, version, |_| {
                RequestKind::Produce(produce(acks, &[(&two_replicas, 0, Some(good.encode()))]))
            })?;
        }
        script.ask("two wanted and a wrong CRC", API, version, |_| {
            produce_one(&two_replicas, 0, Batch { crc_error: 1, ..good.clone() }.encode())
        })?;
    }
    Ok(())
}
