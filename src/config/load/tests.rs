use super::*;

fn load(text: &str) -> Result<(BrokerConfig, Vec<Warning>), ConfigError> {
    BrokerConfig::load(text.as_bytes(), &[])
}

#[test]
fn an_empty_file_is_the_default() {
    let (config, warnings) = load("").unwrap();
    assert_eq!(config, BrokerConfig::default());
    assert_eq!(warnings, []);
}

fn refused(text: &str) -> String {
    load(text).unwrap_err().to_string()
}

#[test]
fn the_later_override_wins() {
    let overrides = ["num.partitions=3".to_owned(), "num.partitions=4".to_owned(), "broker.rack=a=b".to_owned()];
    let (config, _) = BrokerConfig::load(b"num.partitions=2", &overrides).unwrap();
    assert_eq!((config.num_partitions, config.rack.as_deref()), (4, Some("a=b")));
    assert_eq!(config.properties.get("num.partitions").map(String::as_str), Some("4"));
    let error = BrokerConfig::load(b"", &["novalue".to_owned()]).unwrap_err();
    assert_eq!(error.to_string(), "--override novalue: should be key=value");
}

#[test]
fn the_finer_unit_wins() {
    let retention = |text: &str| load(text).unwrap().0.topic_defaults.retention_ms;
    assert_eq!(retention("log.retention.hours=1"), 3_600_000);
    assert_eq!(retention("log.retention.hours=1\nlog.retention.minutes=2"), 120_000);
    assert_eq!(retention("log.retention.hours=1\nlog.retention.minutes=2\nlog.retention.ms=3"), 3);
    assert_eq!(retention("log.retention.hours=-1"), -1);
    assert_eq!(retention("log.retention.ms=-5"), -1);
    let config = load("log.roll.hours=2\nlog.roll.jitter.hours=1\nlog.flush.scheduler.interval.ms=9").unwrap().0;
    assert_eq!(config.topic_defaults.segment_ms, 7_200_000);
    assert_eq!(config.topic_defaults.segment_jitter_ms, 3_600_000);
    assert_eq!(config.topic_defaults.flush_ms, 9);
    assert_eq!(
        load("log.flush.scheduler.interval.ms=9\nlog.flush.interval.ms=7").unwrap().0.topic_defaults.flush_ms,
        7
    );
}

#[test]
fn log_dirs_hides_log_dir() {
    let dirs = |text: &str| load(text).unwrap().0.log_dirs;
    assert_eq!(dirs("log.dir=/a"), [PathBuf::from("/a")]);
    assert_eq!(dirs("log.dir=/a\nlog.dirs=/b, /c"), [PathBuf::from("/b"), PathBuf::from("/c")]);
    assert!(refused("log.dirs=,").starts_with("log.dirs=,: should name at least one directory"));
}

#[test]
fn the_older_timestamp_bound_counts_where_the_newer_is_at_its_default() {
    let bounds = |text: &str| {
        let topic = load(text).unwrap().0.topic_defaults;
        (topic.message_timestamp_before_max_ms, topic.message_timestamp_after_max_ms)
    };
    assert_eq!(bounds("log.message.timestamp.difference.max.ms=5"), (5, 5));
    assert_eq!(bounds("log.message.timestamp.difference.max.ms=5\nlog.message.timestamp.after.max.ms=6"), (5, 6));
    assert_eq!(bounds(&format!("log.message.timestamp.after.max.ms={}", i64::MAX)), (i64::MAX, i64::MAX));
}

#[test]
fn replication_of_internal_topics_follows_the_metastore() {
    let factors = |text: &str| {
        let config = load(text).unwrap().0;
        let transaction = config.transaction_state_log_replication_factor;
        (config.offsets_topic_replication_factor, transaction, config.transaction_state_log_min_isr)
    };
    assert_eq!(factors(""), (1, 1, 1));
    assert_eq!(factors("zookeeper.connect=zk:2181"), (3, 3, 2));
    assert_eq!(factors("offsets.topic.replication.factor=2"), (2, 1, 1));
}

#[test]
fn node_id_is_broker_id() {
    assert_eq!(load("node.id=7").unwrap().0.broker_id, 7);
    assert_eq!(load("node.id=7\nbroker.id=7").unwrap().0.broker_id, 7);
    assert_eq!(
        refused("node.id=7\nbroker.id=8"),
        "node.id=7: broker.id is 8; give one of the two, or both the same value"
    );
    assert_eq!(
        refused("broker.id=1001"),
        "broker.id=1001: should be from -1 (generated) to reserved.broker.max.id=1000"
    );
    assert_eq!(load("broker.id=1001\nbroker.id.generation.enable=false").unwrap().0.broker_id, 1001);
}

#[test]
fn bad_values_are_refused_in_words() {
    for (text, error) in [
        ("num.partitions=0", "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        ("num.partitions=x", "Invalid value x for configuration num.partitions: Not a number of type INT"),
        (
            "auto.create.topics.enable=yes",
            "Invalid value yes for configuration auto.create.topics.enable: Expected value to be either true or false",
        ),
        ("a=\\u12", "line 1: \\u must be followed by four hexadecimal digits"),
        (
            "queued.max.request.bytes=5",
            "queued.max.request.bytes=5: should be -1 (no limit) or at least socket.request.max.bytes",
        ),
    ] {
        assert_eq!(refused(text), error);
    }
}

#[test]
fn listeners_by_name() {
    let text = "listeners=internal://:19092,EXTERNAL://[::1]:9093\n\
                advertised.listeners=INTERNAL://b1:19092,EXTERNAL://kafka.example.org:443\n\
                listener.security.protocol.map=INTERNAL:PLAINTEXT,external:plaintext\n\
                inter.broker.listener.name=INTERNAL";
    let config = load(text).unwrap().0;
    let shown: Vec<String> = config.listeners.iter().map(Listener::to_string).collect();
    assert_eq!(shown, ["INTERNAL://:19092", "EXTERNAL://[::1]:9093"]);
    assert_eq!(config.advertised_listeners[1].host, "kafka.example.org");
    assert_eq!(config.inter_broker_listener_name, "INTERNAL");
}

#[test]
fn listeners_that_cannot_work() {
    for (text, words) in [
        ("listeners=PLAINTEXT://0.0.0.0:9092", "set advertised.listeners to the name"),
        ("advertised.listeners=PLAINTEXT://0.0.0.0:9092", "advertised.listeners=PLAINTEXT://0.0.0.0:9092: clients"),
        ("listeners=SSL://:9093", "listener SSL speaks SSL, which is not there yet"),
        ("listeners=A://:1", "listener name A has no protocol"),
        ("listeners=PLAINTEXT://:1,PLAINTEXT://:2", "stands in it twice"),
        (
            "listeners=PLAINTEXT://:1,X://:1\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,X:PLAINTEXT",
            "share port 1",
        ),
        ("listeners=PLAINTEXT://localhost", "should look like NAME://host:port"),
        ("listeners=PLAINTEXT://:99999", "port `99999` should be a number from 0 to 65535"),
        ("advertised.listeners=SSL://h:1", "listener SSL is not in listeners=PLAINTEXT://:9092"),
        ("inter.broker.listener.name=X", "advertised.listeners has only PLAINTEXT"),
        ("security.inter.broker.protocol=SSL", "advertised.listeners has only PLAINTEXT"),
        ("control.plane.listener.name=X", "no listener of this name is in listeners"),
        ("control.plane.listener.name=PLAINTEXT", "brokers reach each other through it already"),
        ("inter.broker.protocol.version=2.7", "brokers speak the protocol of 2.8 and later"),
        (
            "listeners=PLAINTEXT://:1,C://:2\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,C:PLAINTEXT\n\
             advertised.listeners=PLAINTEXT://h:1\ncontrol.plane.listener.name=C",
            "no listener of this name is in advertised.listeners",
        ),
        ("listener.security.protocol.map=PLAINTEXT:TLS", "`TLS` should be one of PLAINTEXT, SSL"),
    ] {
        let error = refused(text);
        assert!(error.contains(words), "{text}: {error}");
    }
    assert!(load("listeners=PLAINTEXT://0.0.0.0:9092\nadvertised.listeners=PLAINTEXT://h:9092").is_ok());
    let control = "listeners=PLAINTEXT://:1,C://:2\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,C:PLAINTEXT\n\
                   control.plane.listener.name=c";
    assert_eq!(load(control).unwrap().0.control_plane_listener_name.as_deref(), Some("C"));
}

#[test]
fn keys_that_would_secure_the_broker_stop_the_start() {
    assert!(
        refused("authorizer.class.name=kafka.security.authorizer.AclAuthorizer")
            .contains("authorisation is not there yet")
    );
    assert!(refused("super.users=User:a").contains("is refused"));
    assert!(load("authorizer.class.name=\nsuper.users=\nzookeeper.set.acl=false").is_ok());
}

#[test]
fn secrets_are_in_no_message() {
    let why = refused("zookeeper.ssl.keystore.password=a secret");
    assert!(why.contains("zookeeper.ssl.keystore.password=[hidden]") && !why.contains("a secret"), "{why}");
    let (_, warnings) = load("ssl.key.password=a secret").unwrap();
    assert_eq!(warnings, [Warning::NotYet { key: "ssl.key.password".into(), value: "[hidden]".into() }]);
}

#[test]
fn unknown_keys_warn() {
    let (_, warnings) = load("no.such.key=1").unwrap();
    assert_eq!(warnings, [Warning::Unknown { key: "no.such.key".into() }]);
}

/// The file that comes with the broker says the defaults and nothing else.
#[test]
fn the_shipped_file_is_the_default() {
    let file = include_str!("../../../configs/server.properties");
    let (mut config, warnings) = load(file).unwrap();
    let given = std::mem::take(&mut config.properties);
    assert_eq!(config, BrokerConfig::default());
    assert_eq!(warnings, []);
    for (name, text) in given {
        assert_eq!(Some(text.as_str()), default_text(&name, true), "{name}");
    }
    // Suggestions are keys too, and could be switched on.
    for line in file.lines() {
        let suggestion = line.strip_prefix('#').filter(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()));
        if let Some((name, text)) = suggestion.and_then(|line| line.split_once('=')) {
            keys::broker(name).unwrap_or_else(|| panic!("{name}")).parse(text).unwrap();
        }
    }
}
