use super::*;

fn texts(pairs: &[(&str, &str)]) -> Texts {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// The broker of the recorded answers: `server.properties` of the fixture, and what was then altered.
fn recorded() -> (BrokerConfig, Texts, Texts) {
    let file = include_bytes!("../../../tests/fixtures/describe-3.9.1/server.properties");
    let (fixed, _) = BrokerConfig::load(file, &[]).unwrap();
    let default = texts(&[
        ("log.retention.ms", "77777"),
        ("log.segment.bytes", "5000000"),
        ("my.dynamic", "1"),
        ("log.flush.interval.ms", "900"),
    ]);
    let own = texts(&[
        ("log.retention.ms", "66666"),
        ("log.cleaner.threads", "2"),
        ("max.connections", "500"),
        ("log.message.timestamp.after.max.ms", "4000"),
    ]);
    (fixed, default, own)
}

fn source(source: Source) -> &'static str {
    match source {
        Source::Topic => "DYNAMIC_TOPIC_CONFIG",
        Source::DynamicBroker => "DYNAMIC_BROKER_CONFIG",
        Source::DynamicDefaultBroker => "DYNAMIC_DEFAULT_BROKER_CONFIG",
        Source::StaticBroker => "STATIC_BROKER_CONFIG",
        Source::Default => "DEFAULT_CONFIG",
        Source::BrokerLogger => "DYNAMIC_BROKER_LOGGER_CONFIG",
    }
}

/// As the recorded answers are written down.
fn line(entry: &Entry) -> String {
    let null = || "null".to_owned();
    let synonyms: String = entry
        .synonyms
        .iter()
        .map(|s| format!("{}={}@{};", s.name, s.value.clone().unwrap_or_else(null), source(s.source)))
        .collect();
    [
        entry.name.clone(),
        entry.value.clone().unwrap_or_else(null),
        source(entry.source).into(),
        entry.sensitive.to_string(),
        entry.read_only.to_string(),
        entry.kind.map_or("UNKNOWN", Kind::name).into(),
        entry.documentation.is_some().to_string(),
        synonyms,
    ]
    .join("\t")
}

fn compare(record: &str, entries: &[Entry]) {
    let ours: Vec<String> = entries.iter().map(line).collect();
    for (ours, theirs) in ours.iter().zip(record.lines()) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), record.lines().count());
}

#[test]
fn a_broker_is_described_as_kafka_describes_it() {
    let (fixed, default, own) = recorded();
    let layers = Layers { fixed: &fixed, default: &default, own: &own };
    compare(include_str!("../../../tests/fixtures/describe-3.9.1/broker.tsv"), &layers.broker_entries());
    compare(include_str!("../../../tests/fixtures/describe-3.9.1/broker-default.tsv"), &layers.default_entries());
}

#[test]
fn a_topic_is_described_as_kafka_describes_it() {
    let (fixed, default, own) = recorded();
    let layers = Layers { fixed: &fixed, default: &default, own: &own };
    let overrides = texts(&[
        ("segment.bytes", "2000000"),
        ("cleanup.policy", " compact , delete "),
        ("flush.ms", "1000"),
        ("message.timestamp.after.max.ms", "300"),
    ]);
    compare(include_str!("../../../tests/fixtures/describe-3.9.1/topic.tsv"), &layers.topic_entries(&overrides));
}

/// It may be a secret for all that is known of it.
#[test]
fn what_is_stored_for_a_topic_under_an_unknown_name_is_told_to_nobody() {
    let (fixed, default, own) = recorded();
    let layers = Layers { fixed: &fixed, default: &default, own: &own };
    let entries = layers.topic_entries(&texts(&[("no.such", "a secret")]));
    let entry = entries.iter().find(|entry| entry.name == "no.such").unwrap();
    assert_eq!(
        line(entry),
        "no.such\tnull\tDYNAMIC_TOPIC_CONFIG\ttrue\tfalse\tUNKNOWN\tfalse\tno.such=null@DYNAMIC_TOPIC_CONFIG;"
    );
}

#[test]
fn dynamic_values_reach_the_topic_defaults() {
    let (fixed, default, own) = recorded();
    let none = Texts::new();
    let topics = Layers { fixed: &fixed, default: &default, own: &own }.topic_defaults();
    assert_eq!((topics.retention_ms, topics.segment_bytes, topics.flush_ms), (66_666, 5_000_000, 900));
    let layers = Layers { fixed: &fixed, default: &default, own: &none };
    assert_eq!(layers.topic_defaults().retention_ms, 77_777);
    assert_eq!(layers.resolve().unwrap().properties, fixed.properties, "what the file says stays what the file says");
    let topics = Layers { fixed: &fixed, default: &none, own: &none }.topic_defaults();
    assert_eq!(topics.retention_ms, 86_400_000);
}

#[test]
fn bad_stored_values_are_left_out() {
    let (fixed, _, none) = (BrokerConfig::default(), (), Texts::new());
    let own = texts(&[("log.segment.bytes", "x"), ("num.partitions", "5"), ("log.retention.ms", "9")]);
    let config = Layers { fixed: &fixed, default: &none, own: &own }.resolve().unwrap();
    assert_eq!((config.topic_defaults.segment_bytes, config.num_partitions), (1_073_741_824, 1));
    assert_eq!(config.topic_defaults.retention_ms, 9);
    let own = texts(&[("log.retention.ms", "0")]);
    let layers = Layers { fixed: &fixed, default: &none, own: &own };
    assert!(layers.resolve().is_err());
    assert_eq!(layers.topic_defaults(), fixed.topic_defaults);
}

#[test]
fn rates_of_replication_are_a_brokers_own_before_those_of_all() {
    let (fixed, none) = (BrokerConfig::default(), Texts::new());
    let rates = |default: &Texts, own: &Texts| {
        let rates = Layers { fixed: &fixed, default, own }.resolve().unwrap().throttled_rates;
        (rates.leader, rates.follower, rates.log_dirs)
    };
    let [leader, follower, log_dirs] = [
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    ];
    let all = texts(&[(leader, "7"), (follower, "-1"), (log_dirs, "5")]);
    let own = texts(&[(leader, "9"), (log_dirs, "0")]);
    assert_eq!(rates(&none, &none), (i64::MAX, i64::MAX, i64::MAX));
    assert_eq!(rates(&all, &none), (7, i64::MAX, 5));
    assert_eq!(rates(&all, &own), (9, i64::MAX, 0));
    // As in Kafka a file cannot give them: a start begins without a limit, whatever is said there.
    let given = [leader, follower, log_dirs].map(|key| format!("{key}=3"));
    let (in_file, _) = BrokerConfig::load(b"", &given).unwrap();
    let from_file = Layers { fixed: &in_file, default: &none, own: &none }.resolve().unwrap();
    assert_eq!(from_file.throttled_rates, in_file.throttled_rates);
    assert_eq!(from_file.throttled_rates.log_dirs, i64::MAX);
}

#[test]
fn what_may_be_altered() {
    let (fixed, none) = (BrokerConfig::default(), Texts::new());
    let layers = Layers { fixed: &fixed, default: &none, own: &none };
    let check = |key: &str, value: &str, all| layers.check(&texts(&[(key, value)]), all).map_err(|e| e.to_string());
    for (key, value, all) in [
        ("log.retention.ms", "5", false),
        ("log.retention.ms", "5", true),
        ("num.network.threads", "6", false),
        ("custom.key", "anything", true),
        ("max.connections.per.ip.overrides", "127.0.0.1:5", false),
        ("listener.name.plaintext.max.connections", "5", false),
        ("sasl.kerberos.min.time.before.relogin", "58000", false),
        ("sasl.enabled.mechanisms", "GSSAPI", false),
        ("ssl.cipher.suites", "a,b", false),
        ("ssl.protocol", "TLSv1.2", false),
        ("metric.reporters", "org.apache.kafka.common.metrics.JmxReporter", true),
    ] {
        assert_eq!(check(key, value, all), Ok(()), "{key}={value}");
    }
    for (key, value, all, error) in [
        ("num.partitions", "3", false, "num.partitions cannot be altered while the broker runs"),
        ("log.retention.hours", "3", true, "log.retention.hours cannot be altered while the broker runs"),
        (
            "log.segment.bytes",
            "5",
            true,
            "Invalid value 5 for configuration log.segment.bytes: Value must be at least 14",
        ),
        ("log.retention.ms", "0", false, "log.retention.ms=0: should be -1 (no limit) or at least 1"),
        ("num.network.threads", "7", false, "num.network.threads=7: a pool of 3 threads can be altered to 1 up to 6"),
        ("ssl.keystore.location", "/x", true, "can be altered only for one listener"),
        ("ssl.truststore.type", "PKCS12", false, "can be altered only for one listener"),
        ("ssl.key.password", "s", false, "can be altered only for one listener"),
        ("sasl.kerberos.min.time.before.relogin", "58000", true, "not for all"),
        ("listeners", "PLAINTEXT://:1", true, "not for all"),
        ("listeners", "PLAINTEXT://:1", false, "cannot be changed while the broker runs"),
        ("listener.name.a.ssl.key.password", "s", false, "password.encoder.secret is not set"),
        ("log.cleaner.dedupe.buffer.size", "5", false, "should be more than 1 MiB"),
        ("metric.reporters", "no.such.Class", true, "metric.reporters: there is no class no.such.Class"),
    ] {
        let answer = check(key, value, all).unwrap_err();
        assert!(answer.contains(error), "{key}={value}: {answer}");
    }
}
