//! Text to [`BrokerConfig`]: parse, fill in defaults, then the checks that need more than one key
//! (those of 3.9's `KafkaConfig` in ZooKeeper mode).

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::cleaner::CleanerConfig;
use super::def::{Key, State, Value};
use super::error::{ConfigError, Warning};
use super::group::GroupConfig;
use super::inter_broker::InterBrokerProtocol;
use super::listeners::{self, Listener, SecurityProtocol};
use super::password_encoder::PasswordEncoder;
use super::replication::{ReplicationConfig, ThrottledRates};
use super::transaction::TransactionConfig;
use super::values::{Values, default_text};
use super::{BrokerConfig, TopicConfig, keys, properties};

impl BrokerConfig {
    /// The bytes of `server.properties` (none for a start without a file) and each `--override`'s `key=value`, the
    /// later winning. The warnings are the broker's to log.
    pub fn load(file: &[u8], overrides: &[String]) -> Result<(BrokerConfig, Vec<Warning>), ConfigError> {
        BrokerConfig::overridden(properties::parse(file)?, overrides)
    }

    /// As [`BrokerConfig::load`], already split in keys and values.
    pub fn overridden(
        mut given: BTreeMap<String, String>,
        overrides: &[String],
    ) -> Result<(BrokerConfig, Vec<Warning>), ConfigError> {
        for pair in overrides {
            let (key, value) = pair
                .split_once('=')
                .filter(|(key, _)| !key.trim().is_empty())
                .ok_or_else(|| ConfigError::Override(pair.clone()))?;
            given.insert(key.trim().to_owned(), value.to_owned());
        }
        BrokerConfig::from_properties(given)
    }

    /// As [`BrokerConfig::overridden`], with nothing over it.
    pub fn from_properties(mut given: BTreeMap<String, String>) -> Result<(BrokerConfig, Vec<Warning>), ConfigError> {
        let values = Values::parse(&given)?;
        refuse(&given, values.embedded())?;
        let mut config = build(&values)?;
        check(&values, &config)?;
        let warnings = warnings(&given, values.embedded());
        for (one, other) in [("broker.id", "node.id"), ("node.id", "broker.id")] {
            if let Some(id) = given.get(one).cloned() {
                given.entry(other.to_owned()).or_insert(id);
            }
        }
        config.properties = given;
        Ok((config, warnings))
    }
}

/// Keys that can be set for one listener.
const PER_LISTENER: &[&str] = &["max.connections", "max.connection.creation.rate"];

/// Splits off `listener.name.<listener>.` (and a SASL mechanism after it): the key whose value it overrides there.
pub(super) fn listener_key(name: &str) -> Option<&'static Key> {
    let rest = name.strip_prefix("listener.name.")?;
    let (_, rest) = rest.split_once('.')?;
    keys::broker(rest).or_else(|| rest.split_once('.').and_then(|(_mechanism, rest)| keys::broker(rest)))
}

/// What a property sets: a key, for the broker or for one listener.
pub fn key_of(name: &str) -> Option<&'static Key> {
    keys::broker(name).or_else(|| listener_key(name))
}

/// Whether a key is set to something that its default is not.
fn differs(key: &Key, text: &str, embedded: bool) -> bool {
    let default = default_text(key.name, embedded);
    match key.parse(text) {
        Ok(value) => {
            default.map(|default| key.parse(default)) != Some(Ok(value))
                && !(default.is_none() && text.trim().is_empty())
        }
        Err(_) => true,
    }
}

fn refuse(given: &BTreeMap<String, String>, embedded: bool) -> Result<(), ConfigError> {
    for (name, text) in given {
        let Some(key) = key_of(name) else { continue };
        if let State::Refuses(why) = key.state
            && differs(key, text, embedded)
        {
            return Err(ConfigError::Refused { key: name.clone(), value: key.shown(text), why: why.to_owned() });
        }
    }
    Ok(())
}

fn warnings(given: &BTreeMap<String, String>, embedded: bool) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (name, text) in given {
        let Some(key) = key_of(name) else {
            warnings.push(Warning::Unknown { key: name.clone() });
            continue;
        };
        // A key that works for the whole broker may still not work for one listener.
        let per_listener = keys::broker(name).is_none();
        match key.state {
            State::NoEffect(_) | State::Refuses(_) | State::NotYet if !differs(key, text, embedded) => {}
            State::Implemented if !per_listener || PER_LISTENER.contains(&key.name) => {}
            State::Implemented | State::NotYet => {
                warnings.push(Warning::NotYet { key: name.clone(), value: key.shown(text) });
            }
            State::NoEffect(why) => warnings.push(Warning::NoEffect { key: name.clone(), why }),
            State::Refuses(_) => {}
        }
    }
    warnings
}

fn build(values: &Values) -> Result<BrokerConfig, ConfigError> {
    let protocols = listeners::parse_protocol_map(&values.text("listener.security.protocol.map").unwrap_or_default())?;
    let listeners_text = values.text("listeners").unwrap_or_default();
    let listeners = listeners::parse_listeners("listeners", &listeners_text, &protocols)?;
    listeners::check_ports(&listeners_text, &listeners)?;
    let advertised_listeners = match values.some_text("advertised.listeners") {
        Some(text) => listeners::parse_listeners("advertised.listeners", &text, &protocols)?,
        None => listeners.clone(),
    };
    check_listeners(values, &listeners, &advertised_listeners)?;
    let log_dirs = values.text("log.dirs").or_else(|| values.text("log.dir")).unwrap_or_default();
    let log_dirs: Vec<PathBuf> =
        log_dirs.split(',').map(str::trim).filter(|dir| !dir.is_empty()).map(PathBuf::from).collect();
    let session_timeout = values.number("zookeeper.session.timeout.ms");

    Ok(BrokerConfig {
        broker_id: broker_id(values)?,
        broker_id_generation_enable: values.boolean("broker.id.generation.enable"),
        reserved_broker_max_id: values.number("reserved.broker.max.id"),
        rack: values.some_text("broker.rack"),
        control_plane_listener_name: control_plane_listener(values, &listeners, &advertised_listeners)?,
        inter_broker_listener_name: inter_broker_listener(values, &advertised_listeners)?,
        inter_broker_protocol: InterBrokerProtocol::of(
            &values.text("inter.broker.protocol.version").unwrap_or_default(),
        )?,
        listeners,
        advertised_listeners,
        log_dirs,
        zookeeper_connect: values.some_text("zookeeper.connect"),
        zookeeper_session_timeout_ms: session_timeout,
        zookeeper_connection_timeout_ms: match values.long("zookeeper.connection.timeout.ms") {
            Some(_) => values.number("zookeeper.connection.timeout.ms"),
            None => session_timeout,
        },
        cluster_id: values.some_text("klamm.cluster.id"),
        fast_failover_enable: values.boolean("klamm.fast.failover.enable"),
        num_partitions: values.number("num.partitions"),
        default_replication_factor: values.number("default.replication.factor"),
        auto_create_topics_enable: values.boolean("auto.create.topics.enable"),
        delete_topic_enable: values.boolean("delete.topic.enable"),
        offsets_topic_replication_factor: values.number("offsets.topic.replication.factor"),
        transaction_state_log_replication_factor: values.number("transaction.state.log.replication.factor"),
        transaction_state_log_min_isr: values.number("transaction.state.log.min.isr"),
        group: GroupConfig::build(values),
        transaction: TransactionConfig::build(values),
        replication: ReplicationConfig::build(values)?,
        throttled_rates: ThrottledRates::NONE,
        password_encoder: PasswordEncoder::build(values, "password.encoder.secret")?,
        old_password_encoder: PasswordEncoder::build(values, "password.encoder.old.secret")?,
        socket_request_max_bytes: values.number("socket.request.max.bytes"),
        socket_send_buffer_bytes: values.number("socket.send.buffer.bytes"),
        socket_receive_buffer_bytes: values.number("socket.receive.buffer.bytes"),
        socket_listen_backlog_size: values.number("socket.listen.backlog.size"),
        queued_max_request_bytes: values.number("queued.max.request.bytes"),
        max_connections: values.number("max.connections"),
        max_connections_per_ip: values.number("max.connections.per.ip"),
        max_connections_per_ip_overrides: connection_overrides(values)?,
        max_connection_creation_rate: values.number("max.connection.creation.rate"),
        listener_max_connections: of_listeners(values, "max.connections")?,
        listener_max_connection_creation_rate: of_listeners(values, "max.connection.creation.rate")?,
        quota_window_num: values.number("quota.window.num"),
        quota_window_size_seconds: values.number("quota.window.size.seconds"),
        controller_quota_window_num: values.number("controller.quota.window.num"),
        controller_quota_window_size_seconds: values.number("controller.quota.window.size.seconds"),
        connections_max_idle_ms: values.number("connections.max.idle.ms"),
        num_network_threads: values.number("num.network.threads"),
        background_threads: values.number("background.threads"),
        fetch_max_bytes: values.number("fetch.max.bytes"),
        max_incremental_fetch_session_cache_slots: values.number("max.incremental.fetch.session.cache.slots"),
        cleaner: CleanerConfig::of(values),
        log_retention_check_interval_ms: values.number("log.retention.check.interval.ms"),
        log_initial_task_delay_ms: values.number("log.initial.task.delay.ms"),
        log_flush_scheduler_interval_ms: values.number("log.flush.scheduler.interval.ms"),
        log_flush_offset_checkpoint_interval_ms: values.number("log.flush.offset.checkpoint.interval.ms"),
        log_flush_start_offset_checkpoint_interval_ms: values.number("log.flush.start.offset.checkpoint.interval.ms"),
        replica_high_watermark_checkpoint_interval_ms: values.number("replica.high.watermark.checkpoint.interval.ms"),
        num_recovery_threads_per_data_dir: values.number("num.recovery.threads.per.data.dir"),
        log_dir_failure_timeout_ms: values.number("log.dir.failure.timeout.ms"),
        producer_id_expiration_ms: values.number("producer.id.expiration.ms"),
        producer_id_expiration_check_interval_ms: values.number("producer.id.expiration.check.interval.ms"),
        transaction_partition_verification_enable: values.boolean("transaction.partition.verification.enable"),
        transaction_max_timeout_ms: values.number("transaction.max.timeout.ms"),
        request_timeout_ms: values.number("request.timeout.ms"),
        replica_lag_time_max_ms: values.number("replica.lag.time.max.ms"),
        controlled_shutdown_enable: values.boolean("controlled.shutdown.enable"),
        controlled_shutdown_max_retries: values.number("controlled.shutdown.max.retries"),
        controlled_shutdown_retry_backoff_ms: values.number("controlled.shutdown.retry.backoff.ms"),
        auto_leader_rebalance_enable: values.boolean("auto.leader.rebalance.enable"),
        leader_imbalance_check_interval_seconds: values.number("leader.imbalance.check.interval.seconds"),
        leader_imbalance_per_broker_percentage: values.number("leader.imbalance.per.broker.percentage"),
        topic_defaults: topic_defaults(values)?,
        properties: BTreeMap::new(),
    })
}

/// `node.id` is the same key by KRaft's name; 3.9 takes either and refuses two that differ.
fn broker_id(values: &Values) -> Result<i32, ConfigError> {
    let broker_id: i32 = values.number("broker.id");
    let node_id: i32 = values.number("node.id");
    match (values.is_given("broker.id"), values.is_given("node.id")) {
        (true, true) if broker_id != node_id => {
            let why = format!("broker.id is {broker_id}; give one of the two, or both the same value");
            Err(ConfigError::rule("node.id", node_id, why))
        }
        (false, true) => Ok(node_id),
        _ => Ok(broker_id),
    }
}

fn inter_broker_listener(values: &Values, advertised: &[Listener]) -> Result<String, ConfigError> {
    let named = values.some_text("inter.broker.listener.name").map(|name| name.to_uppercase());
    let protocol = values.text("security.inter.broker.protocol").unwrap_or_default();
    if named.is_some() && values.is_given("security.inter.broker.protocol") {
        let why = "inter.broker.listener.name is given too, which decides the protocol; give one of the two";
        return Err(ConfigError::rule("security.inter.broker.protocol", protocol, why));
    }
    let (key, name) = match named {
        Some(name) => ("inter.broker.listener.name", name),
        None => ("security.inter.broker.protocol", protocol),
    };
    if advertised.iter().any(|listener| listener.name == name) {
        return Ok(name);
    }
    let names: Vec<&str> = advertised.iter().map(|listener| listener.name.as_str()).collect();
    let why = format!(
        "brokers reach each other through a listener of this name, but advertised.listeners has only {}; set \
         inter.broker.listener.name to one of them",
        names.join(", ")
    );
    Err(ConfigError::rule(key, name, why))
}

/// The controller's own listener, in front of those that clients and other brokers wait at.
fn control_plane_listener(
    values: &Values,
    listeners: &[Listener],
    advertised: &[Listener],
) -> Result<Option<String>, ConfigError> {
    let key = "control.plane.listener.name";
    let Some(name) = values.some_text(key).map(|name| name.to_uppercase()) else { return Ok(None) };
    let lacks = |listeners: &[Listener]| listeners.iter().all(|listener| listener.name != name);
    let why = if lacks(listeners) {
        "no listener of this name is in listeners"
    } else if lacks(advertised) {
        "no listener of this name is in advertised.listeners, so the controller could not find it"
    } else if inter_broker_listener(values, advertised)? == name {
        "brokers reach each other through it already; a listener for the controller is another one"
    } else {
        return Ok(Some(name));
    };
    Err(ConfigError::rule(key, name, why))
}

fn check_listeners(values: &Values, listeners: &[Listener], advertised: &[Listener]) -> Result<(), ConfigError> {
    for listener in listeners {
        if listener.protocol != SecurityProtocol::Plaintext {
            let why = format!(
                "listener {} speaks {}, which is not there yet; only PLAINTEXT listeners can be opened",
                listener.name, listener.protocol
            );
            return Err(ConfigError::Refused { key: "listeners".into(), value: values.shown("listeners"), why });
        }
    }
    let given = values.some_text("advertised.listeners");
    for listener in advertised {
        let bound = listeners.iter().any(|other| other.name == listener.name);
        if !bound {
            let why = format!("listener {} is not in listeners={}", listener.name, values.shown("listeners"));
            return Err(ConfigError::rule("advertised.listeners", values.shown("advertised.listeners"), why));
        }
        let anywhere = listener.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_unspecified());
        if anywhere && listener.host != "0.0.0.0" && given.is_none() {
            continue;
        }
        if anywhere {
            let (key, value) = match &given {
                Some(text) => ("advertised.listeners", text.clone()),
                None => ("listeners", values.shown("listeners")),
            };
            let why = format!(
                "clients would be told to connect to {}, which is no address; set advertised.listeners to the name or \
                 address clients reach this machine by, for example advertised.listeners={}://localhost:{}",
                listener.host, listener.name, listener.port
            );
            return Err(ConfigError::rule(key, value, why));
        }
    }
    Ok(())
}

/// The numbers that `listener.name.<name>.<key>` gives listeners, by upper-case name.
fn of_listeners(values: &Values, key: &str) -> Result<BTreeMap<String, i32>, ConfigError> {
    let mut numbers = BTreeMap::new();
    for (name, text) in values.of_listeners(key) {
        let Some(Value::Integer(number)) = keys::broker(key).map(|key| key.parse(text)).transpose()? else { continue };
        numbers.insert(name.to_uppercase(), i32::try_from(number).unwrap_or(i32::MAX));
    }
    Ok(numbers)
}

fn connection_overrides(values: &Values) -> Result<BTreeMap<String, i32>, ConfigError> {
    let key = "max.connections.per.ip.overrides";
    let text = values.some_text(key).unwrap_or_default();
    let mut overrides = BTreeMap::new();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let why = || ConfigError::rule(key, &text, format!("`{entry}` should be address:count"));
        let (host, count) = entry.rsplit_once(':').ok_or_else(why)?;
        let count = count.trim().parse::<i32>().ok().filter(|count| *count >= 0).ok_or_else(why)?;
        let host = host.trim().trim_start_matches('[').trim_end_matches(']');
        overrides.insert(host.to_owned(), count);
    }
    Ok(overrides)
}

fn topic_defaults(values: &Values) -> Result<TopicConfig, ConfigError> {
    let mut config = TopicConfig::default();
    for key in keys::topic_keys() {
        if let Some(value) = values.topic_default(key.name) {
            config.set(key.name, &value);
        }
    }
    if config.retention_ms == 0 {
        let why = "should be -1 (no limit) or at least 1; the topic default retention.ms would be 0";
        return Err(ConfigError::rule("log.retention.ms", values.shown("log.retention.ms"), why));
    }
    for (key, ms, least) in [("log.roll.ms", config.segment_ms, 1), ("log.roll.jitter.ms", config.segment_jitter_ms, 0)]
    {
        if ms < least {
            return Err(ConfigError::rule(key, ms, format!("should be at least {least}")));
        }
    }
    config.check().map_err(|_| {
        let why =
            format!("should not be larger than log.cleaner.max.compaction.lag.ms={}", config.max_compaction_lag_ms);
        ConfigError::rule("log.cleaner.min.compaction.lag.ms", config.min_compaction_lag_ms, why)
    })?;
    Ok(config)
}

/// Rules between keys, in the order 3.9 checks them.
fn check(values: &Values, config: &BrokerConfig) -> Result<(), ConfigError> {
    let rule = |key: &'static str, holds: bool, why: &str| {
        if holds { Ok(()) } else { Err(ConfigError::rule(key, values.shown(key), why)) }
    };
    let max = config.reserved_broker_max_id;
    if config.broker_id_generation_enable {
        let holds = (-1..=max).contains(&config.broker_id);
        rule("broker.id", holds, &format!("should be from -1 (generated) to reserved.broker.max.id={max}"))?;
    } else {
        rule("broker.id", config.broker_id >= 0, "should be at least 0 when broker.id.generation.enable is false")?;
    }
    rule("log.dirs", !config.log_dirs.is_empty(), "should name at least one directory")?;
    if values.boolean("log.cleaner.enable") {
        let threads = values.long("log.cleaner.threads").unwrap_or(1);
        let holds = threads == 0
            || values.long("log.cleaner.dedupe.buffer.size").is_some_and(|bytes| bytes / threads > 1024 * 1024);
        rule("log.cleaner.dedupe.buffer.size", holds, "should be more than 1 MiB for each of log.cleaner.threads")?;
    }
    let wait = values.long("replica.fetch.wait.max.ms");
    rule(
        "replica.fetch.wait.max.ms",
        wait <= values.long("replica.socket.timeout.ms"),
        "should not be larger than replica.socket.timeout.ms",
    )?;
    rule(
        "replica.fetch.wait.max.ms",
        wait <= values.long("replica.lag.time.max.ms"),
        "should not be larger than replica.lag.time.max.ms",
    )?;
    let acks = values.long("offsets.commit.required.acks").unwrap_or(-1);
    let holds = (-1..=i64::from(config.offsets_topic_replication_factor)).contains(&acks);
    rule("offsets.commit.required.acks", holds, "should be from -1 to offsets.topic.replication.factor")?;
    let queued = config.queued_max_request_bytes;
    let holds = queued <= 0 || queued >= i64::from(config.socket_request_max_bytes);
    rule("queued.max.request.bytes", holds, "should be -1 (no limit) or at least socket.request.max.bytes")?;
    let holds = config.max_connections_per_ip > 0 || !config.max_connections_per_ip_overrides.is_empty();
    rule("max.connections.per.ip", holds, "can be 0 only beside max.connections.per.ip.overrides")
}

#[cfg(test)]
mod tests;
