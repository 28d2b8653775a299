use super::*;

const BROKER_RECORD: &str = include_str!("../../../tests/fixtures/kafka-3.9.1-broker-configs.tsv");
const TOPIC_RECORD: &str = include_str!("../../../tests/fixtures/kafka-3.9.1-topic-configs.tsv");

/// The range as Kafka prints it.
fn validator(key: &Key) -> String {
    match key.check {
        Check::Any => String::new(),
        Check::NonEmpty => "non-empty string".into(),
        Check::OneOfAnyCase(allowed) => format!("(case insensitive) [{}]", allowed.join(", ")),
        Check::ThrottledReplicas => "[partitionId]:[brokerId],[partitionId]:[brokerId],...".into(),
        Check::MetadataVersion => "release".into(),
        _ => key.allowed(),
    }
}

fn row(key: &Key, broker: bool) -> String {
    let scope = match key.scope {
        _ if !broker => "-",
        Scope::ReadOnly => "read-only",
        Scope::PerBroker => "per-broker",
        Scope::ClusterWide => "cluster-wide",
    };
    let importance = format!("{:?}", key.importance).to_uppercase();
    let default = key.default.unwrap_or("\\N");
    [key.name, key.kind.name(), default, &validator(key), &importance, scope, &key.internal.to_string()].join("\t")
}

/// Ranges that only a KRaft node checks, and "not null", which no text can be.
const NOT_CHECKED: &[&str] =
    &["authorizer.class.name", "controller.quorum.bootstrap.servers", "controller.quorum.voters"];

fn compare<'a>(record: &str, keys: impl Iterator<Item = &'a Key>, broker: bool) {
    let mut ours: Vec<String> = keys.map(|key| row(key, broker)).collect();
    let mut theirs: Vec<String> = record.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    for line in &mut theirs {
        let mut columns: Vec<&str> = line.split('\t').collect();
        if NOT_CHECKED.contains(&columns[0]) {
            columns[3] = "";
        }
        *line = columns.join("\t");
    }
    ours.sort();
    theirs.sort();
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), theirs.len());
}

#[test]
fn every_broker_key_is_as_kafka_has_it() {
    compare(BROKER_RECORD, broker_keys(), true);
}

#[test]
fn every_topic_key_is_as_kafka_has_it() {
    compare(TOPIC_RECORD, topic_keys(), false);
}

#[test]
fn every_row_is_complete() {
    for key in BROKER_INDEX.values().chain(TOPIC_INDEX.values()) {
        assert!(key.doc.ends_with('.') && key.doc.len() > 10, "{}", key.name);
        if let Some(default) = key.default {
            key.parse(default).unwrap_or_else(|error| panic!("{error}"));
        }
    }
    for (topic_key, broker_keys) in SYNONYMS {
        assert!(topic(topic_key).is_some(), "{topic_key}");
        assert!(broker_keys.iter().all(|key| broker(key).is_some()), "{broker_keys:?}");
    }
}

#[test]
fn no_key_stands_in_two_tables() {
    let rows: usize = BROKER.iter().map(|(_, keys)| keys.len()).sum();
    assert_eq!(rows, BROKER_INDEX.len());
}
