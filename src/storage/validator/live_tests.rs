//! Replays what a live Kafka 3.9.1 was asked: same bytes in, same code, offsets and stored batch out.
//! `tests/fixtures/validator-3.9.1.txt` has one request a line; its head names the columns.

use super::*;
use crate::wire::batch::Batch;
use crate::wire::compression::{DECOMPRESSED_MAX, decompress};

const LINES: &str = include_str!("../../../tests/fixtures/validator-3.9.1.txt");

struct Case<'a> {
    name: &'a str,
    topic: &'a str,
    version: i16,
    records: Vec<u8>,
    code: i16,
    start: &'a str,
    message: &'a str,
    indices: &'a str,
    base_offset: i64,
    stored: Option<Vec<u8>>,
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
}

fn cases() -> impl Iterator<Item = Case<'static>> {
    LINES.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, topic, version, records, code, start, message, indices, base, stored] = columns[..] else {
            panic!("{line}")
        };
        Case {
            name,
            topic,
            version: version.parse().unwrap(),
            records: hex(records),
            code: code.parse().unwrap(),
            start,
            message,
            indices,
            base_offset: base.parse().unwrap(),
            stored: (stored != "-").then(|| hex(stored)),
        }
    })
}

fn config(topic: &str) -> TopicConfig {
    let default = TopicConfig::default();
    let compressed = |compression_type| TopicConfig { compression_type, ..TopicConfig::default() };
    match topic {
        "plain" => default,
        "compact" => TopicConfig { cleanup_compact: true, cleanup_delete: false, ..default },
        "lat" => TopicConfig { message_timestamp_type: TimestampType::LogAppendTime, ..default },
        "small" => TopicConfig { max_message_bytes: 200, ..default },
        "limits" => TopicConfig {
            message_timestamp_before_max_ms: 3_600_000,
            message_timestamp_after_max_ms: 3_600_000,
            ..default
        },
        codec => compressed(codec.parse().unwrap()),
    }
}

fn payload(bytes: &[u8]) -> Vec<u8> {
    let batch = Batch::parse(bytes).unwrap();
    let mut out = Vec::new();
    let codec = batch.header.codec().unwrap();
    decompress(codec, 2, batch.payload(), DECOMPRESSED_MAX, &mut Scratch::default(), &mut out).unwrap();
    out
}

fn yes(flag: bool) -> &'static str {
    if flag { "yes" } else { "no" }
}

/// `None` when all is as it was there.
fn difference(case: &Case<'_>) -> Option<String> {
    let config = config(case.topic);
    let stored_header = case.stored.as_deref().map(|stored| BatchHeader::parse(stored).unwrap());
    let context = Context {
        origin: Origin::Client { produce_version: case.version },
        config: &config,
        next_offset: Offset(case.base_offset),
        leader_epoch: LeaderEpoch(0),
        now_ms: match (case.topic, stored_header) {
            ("lat", Some(header)) => header.max_timestamp,
            _ => 1_796_000_000_000,
        },
        decompressed_max: DECOMPRESSED_MAX,
    };
    let mut records = case.records.clone();
    let valid = match validate(&mut records, &context) {
        Err(refusal) => {
            let rule = refusal.rule;
            let indices: Vec<String> = refusal.record_errors.iter().map(|e| e.batch_index.to_string()).collect();
            let mut ours =
                (refusal.code().code(), yes(rule.answers_log_start()), yes(rule.tells_client()), indices.join(","));
            if case.version < 5 {
                ours.1 = "-";
            }
            if case.version < 8 {
                (ours.2, ours.3) = ("-", "-".to_owned());
            }
            let theirs = (case.code, case.start, case.message, case.indices.to_owned());
            return (ours != theirs).then(|| format!("{ours:?} where Kafka says {theirs:?}: {refusal}"));
        }
        Ok(valid) => valid,
    };
    if case.code != 0 {
        return Some(format!("accepted where Kafka says {}", case.code));
    }
    let (Some(valid), Some(stored), Some(stored_header)) = (&valid, &case.stored, stored_header) else {
        return (valid.is_some() || case.stored.is_some()).then(|| "stored by one side only".to_owned());
    };
    let written = valid.bytes(&records);
    if written == stored {
        return None;
    }
    // Compressed anew: the compressed bytes may differ, what they hold may not.
    let ours = BatchHeader { crc: 0, batch_length: 0, ..valid.header };
    let theirs = BatchHeader { crc: 0, batch_length: 0, ..stored_header };
    let anew = matches!(valid.written, Written::Rewritten(_)) && valid.header.codec_bits() != 0;
    (!anew || ours != theirs || payload(written) != payload(stored)).then(|| format!("{ours:?}\n{theirs:?}"))
}

#[test]
fn same_answers_as_a_live_kafka() {
    let mut count = 0;
    let differences: Vec<String> = cases()
        .inspect(|_| count += 1)
        .filter_map(|case| Some(format!("{} to {}: {}", case.name, case.topic, difference(&case)?)))
        .collect();
    assert!(differences.is_empty(), "{} of {count}:\n{}", differences.len(), differences.join("\n"));
    assert!(count > 150);
}
