//! DescribeConfigs, AlterConfigs, IncrementalAlterConfigs.

use anyhow::Result;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::{
    AlterConfigsRequest, ApiKey, DescribeConfigsRequest, RequestKind, alter_configs_request,
};

use super::super::requests::{DELETE, SET, incremental, text};
use super::super::script::Script;
use super::produce::topic;

const TOPIC: i8 = 2;
pub const BROKER: i8 = 4;
const LOGGER: i8 = 8;

pub fn describe_request(resources: &[(i8, &str, Option<&[&str]>)], synonyms: bool, words: bool) -> RequestKind {
    let resources = resources.iter().map(|(kind, name, keys)| {
        let keys = keys.map(|keys| keys.iter().map(|key| text(key)).collect());
        DescribeConfigsResource::default()
            .with_resource_type(*kind)
            .with_resource_name(text(name))
            .with_configuration_keys(keys)
    });
    let request = DescribeConfigsRequest::default().with_resources(resources.collect()).with_include_synonyms(synonyms);
    RequestKind::DescribeConfigs(request.with_include_documentation(words))
}

pub fn describe(script: &mut Script) -> Result<()> {
    const API: ApiKey = ApiKey::DescribeConfigs;
    let name = topic(script, "t", 1, &[("retention.ms", "1000"), ("cleanup.policy", "compact, delete")])?;
    for version in script.versions(API) {
        let (synonyms, words) = (version >= 1, version >= 3);
        for flags in [(false, false), (synonyms, words)] {
            script.ask("a topic", API, version, |_| describe_request(&[(TOPIC, &name, None)], flags.0, flags.1))?;
            script.ask("the broker", API, version, |_| describe_request(&[(BROKER, "1", None)], flags.0, flags.1))?;
        }
        script.ask("one key", API, version, |_| {
            describe_request(&[(TOPIC, &name, Some(&["cleanup.policy"]))], synonyms, words)
        })?;
        script.ask("no keys", API, version, |_| describe_request(&[(TOPIC, &name, Some(&[]))], synonyms, words))?;
        script.ask("an unknown key", API, version, |_| {
            describe_request(&[(TOPIC, &name, Some(&["no.such", "retention.ms"]))], synonyms, words)
        })?;
        script.ask("keys of the broker", API, version, |_| {
            let keys = [
                "num.partitions",
                "default.replication.factor",
                "log.retention.ms",
                "log.retention.hours",
                "no.such",
                "listeners",
            ];
            describe_request(&[(BROKER, "1", Some(&keys))], synonyms, words)
        })?;
        script
            .ask("the brokers' default", API, version, |_| describe_request(&[(BROKER, "", None)], synonyms, words))?;
        script.ask("another broker", API, version, |_| describe_request(&[(BROKER, "99", None)], synonyms, words))?;
        script.ask("a broker that is no number", API, version, |_| {
            describe_request(&[(BROKER, "x", None)], synonyms, words)
        })?;
        script.ask("unknown topics", API, version, |_| {
            describe_request(&[(TOPIC, "nowhere", None), (TOPIC, "a/b", None), (TOPIC, "", None)], synonyms, words)
        })?;
        for kind in [0, 1, 3, 5, 16, 64, -1] {
            script.ask(&format!("resource type {kind}"), API, version, |_| {
                describe_request(&[(kind, &name, None)], synonyms, words)
            })?;
        }
        script.ask("loggers of nobody, of no number, of another, and none of our own", API, version, |_| {
            let nobody: Option<&[&str]> = Some(&["no.such"]);
            let resources = [(LOGGER, "", None), (LOGGER, "x", None), (LOGGER, "99", None), (LOGGER, "1", nobody)];
            describe_request(&resources, synonyms, words)
        })?;
        script.ask("nothing", API, version, |_| describe_request(&[], synonyms, words))?;
        script.ask("one twice", API, version, |_| {
            let keys: Option<&[&str]> = Some(&["retention.ms"]);
            describe_request(&[(TOPIC, &name, keys), (TOPIC, &name, keys)], synonyms, words)
        })?;
    }
    Ok(())
}

fn full(resources: &[(i8, &str, &[(&str, Option<&str>)])], validate_only: bool) -> RequestKind {
    use alter_configs_request::{AlterConfigsResource, AlterableConfig};
    let resources = resources.iter().map(|(kind, name, configs)| {
        let configs = configs
            .iter()
            .map(|(key, value)| AlterableConfig::default().with_name(text(key)).with_value(value.map(text)));
        AlterConfigsResource::default()
            .with_resource_type(*kind)
            .with_resource_name(text(name))
            .with_configs(configs.collect())
    });
    RequestKind::AlterConfigs(
        AlterConfigsRequest::default().with_resources(resources.collect()).with_validate_only(validate_only),
    )
}

const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// The topic's own configs after a change. Changes travel through ZooKeeper: asked until both brokers show `key` as `value`.
fn after(script: &mut Script, name: &str) -> Result<()> {
    std::thread::sleep(std::time::Duration::from_millis(150));
    script.ask("afterwards", ApiKey::DescribeConfigs, 4, |_| describe_request(&[(TOPIC, name, None)], true, false))
}

pub fn alter(script: &mut Script) -> Result<()> {
    whole(script)?;
    by_step(script)?;
    brokers(script)?;
    loggers(script)
}

fn whole(script: &mut Script) -> Result<()> {
    const API: ApiKey = ApiKey::AlterConfigs;
    for version in script.versions(API) {
        let name = topic(script, &format!("whole{version}"), 1, &[("retention.ms", "1000")])?;
        script.ask("validate only", API, version, |_| {
            full(&[(TOPIC, &name, &[("segment.bytes", Some("5000"))])], true)
        })?;
        script.ask("set", API, version, |_| full(&[(TOPIC, &name, &[("segment.bytes", Some("5000"))])], false))?;
        after(script, &name)?;
        script.ask("a bad value", API, version, |_| full(&[(TOPIC, &name, &[("segment.ms", Some("0"))])], false))?;
        script.ask("an unknown key", API, version, |_| full(&[(TOPIC, &name, &[("no.such", Some("0"))])], false))?;
        script.ask("a null value", API, version, |_| full(&[(TOPIC, &name, &[("segment.bytes", None)])], false))?;
        script.ask("a key twice", API, version, |_| {
            full(&[(TOPIC, &name, &[("segment.bytes", Some("6000")), ("segment.bytes", Some("7000"))])], false)
        })?;
        script.ask("unknown topics", API, version, |_| {
            full(
                &[(TOPIC, "nowhere", &[("segment.bytes", Some("6000"))]), (TOPIC, "", &[]), (TOPIC, "a/b", &[])],
                false,
            )
        })?;
        script.ask("one good, one bad", API, version, |_| {
            full(&[(TOPIC, &name, &[("flush.ms", Some("6000"))]), (TOPIC, "nowhere", &[])], false)
        })?;
        // A resource named twice is never answered by Kafka 3.9.1: nothing to compare.
        for kind in [0, 1, 3, 8, -1] {
            script.ask(&format!("resource type {kind}"), API, version, |_| {
                full(&[(kind, "1", &[("segment.bytes", Some("5000"))])], false)
            })?;
        }
        script.ask("nothing", API, version, |_| full(&[], false))?;
        script.ask("everything back", API, version, |_| full(&[(TOPIC, &name, &[])], false))?;
        after(script, &name)?;
    }
    Ok(())
}

fn by_step(script: &mut Script) -> Result<()> {
    const API: ApiKey = ApiKey::IncrementalAlterConfigs;
    for version in script.versions(API) {
        let name = topic(script, &format!("step{version}"), 1, &[("retention.ms", "1000")])?;
        let mut step = |what: &str, configs: &[(&str, i8, Option<&str>)], validate_only: bool| {
            script.ask(what, API, version, |_| incremental(&[(TOPIC, &name, configs)], validate_only))
        };
        step("validate only", &[("segment.bytes", SET, Some("5000"))], true)?;
        step("set", &[("segment.bytes", SET, Some("5000")), ("flush.ms", SET, Some("77"))], false)?;
        step("append to a list", &[("cleanup.policy", APPEND, Some("compact"))], false)?;
        step("append what is there", &[("cleanup.policy", APPEND, Some("compact"))], false)?;
        step("subtract from a list", &[("cleanup.policy", SUBTRACT, Some("delete"))], false)?;
        step("append to no list", &[("segment.bytes", APPEND, Some("1"))], false)?;
        step("subtract from no list", &[("segment.bytes", SUBTRACT, Some("1"))], false)?;
        step("delete", &[("retention.ms", DELETE, None)], false)?;
        step("delete what is not set", &[("retention.bytes", DELETE, None)], false)?;
        step("delete an unknown key", &[("no.such", DELETE, None)], false)?;
        step("an unknown key", &[("no.such", SET, Some("1"))], false)?;
        step("an unknown operation", &[("segment.bytes", 9, Some("1"))], false)?;
        step("a null value", &[("segment.bytes", SET, None)], false)?;
        step("an empty value", &[("segment.bytes", SET, Some(""))], false)?;
        step("a key twice", &[("segment.bytes", SET, Some("6000")), ("segment.bytes", DELETE, None)], false)?;
        for (key, value) in [
            ("cleanup.policy", "compactt"),
            ("cleanup.policy", ""),
            ("compression.type", "SNAPPY"),
            ("segment.ms", "0"),
            ("segment.bytes", "13"),
            ("segment.bytes", "14"),
            ("max.message.bytes", "-1"),
            ("retention.ms", "-2"),
            ("retention.ms", "-1"),
            ("retention.bytes", "1e3"),
            ("min.insync.replicas", "0"),
            ("min.cleanable.dirty.ratio", "1.5"),
            ("min.cleanable.dirty.ratio", "0.25"),
            ("unclean.leader.election.enable", "yes"),
            ("unclean.leader.election.enable", "TRUE"),
            ("message.timestamp.type", "logappendtime"),
            ("message.format.version", "3.0"),
            ("message.format.version", "0.10.0"),
            ("index.interval.bytes", "-1"),
            ("segment.index.bytes", "3"),
            ("preallocate", "true"),
            ("flush.messages", "0"),
            ("follower.replication.throttled.replicas", "*"),
            ("follower.replication.throttled.replicas", "0:1,x"),
            ("compression.gzip.level", "0"),
            ("compression.gzip.level", "9"),
            ("compression.lz4.level", "99"),
            ("compression.zstd.level", "-7"),
            ("remote.storage.enable", "true"),
            ("local.retention.ms", "5000"),
            ("max.compaction.lag.ms", "0"),
            ("min.compaction.lag.ms", "99999999999999999999"),
            ("message.downconversion.enable", "false"),
            ("message.timestamp.difference.max.ms", "1000"),
            ("message.timestamp.before.max.ms", "-1"),
            ("file.delete.delay.ms", " 60000 "),
            ("segment.jitter.ms", "abc"),
        ] {
            step(&format!("{key}={value}"), &[(key, SET, Some(value))], false)?;
        }
        after(script, &name)?;
        script.ask("unknown topics", API, version, |_| {
            incremental(
                &[(TOPIC, "nowhere", &[("segment.bytes", SET, Some("6000"))]), (TOPIC, "", &[]), (TOPIC, "a/b", &[])],
                false,
            )
        })?;
        script.ask("a resource twice", API, version, |_| {
            incremental(&[(TOPIC, &name, &[]), (TOPIC, &name, &[])], false)
        })?;
        script.ask("nothing", API, version, |_| incremental(&[], false))?;
        for kind in [0, 1, 3, -1] {
            script.ask(&format!("resource type {kind}"), API, version, |_| {
                incremental(&[(kind, "1", &[("segment.bytes", SET, Some("5000"))])], false)
            })?;
        }
    }
    Ok(())
}

/// Some may be altered without naming a listener, some may not.
const SECURITY: &[(&str, &str)] = &[
    ("sasl.enabled.mechanisms", "GSSAPI"),
    ("sasl.kerberos.min.time.before.relogin", "58000"),
    ("sasl.kerberos.principal.to.local.rules", "DEFAULT"),
    ("sasl.login.refresh.window.factor", "0.7"),
    ("sasl.mechanism.inter.broker.protocol", "GSSAPI"),
    ("ssl.cipher.suites", "x"),
    ("ssl.enabled.protocols", "TLSv1.2"),
    ("ssl.key.password", "x"),
    ("ssl.keystore.location", "/x"),
    ("ssl.keystore.type", "PEM"),
    ("ssl.protocol", "TLSv1.2"),
    ("ssl.truststore.certificates", "x"),
    ("ssl.truststore.type", "JKS"),
];

/// Refusals, and one dynamic config set and taken back.
fn brokers(script: &mut Script) -> Result<()> {
    const API: ApiKey = ApiKey::IncrementalAlterConfigs;
    for version in script.versions(API) {
        for (name, key, value) in [
            ("1", "zookeeper.connect", "x:1"),
            ("1", "log.dirs", "/x"),
            ("1", "num.partitions", "7"),
            ("1", "no.such", "7"),
            ("1", "log.cleaner.threads", "0"),
            ("1", "log.retention.ms", "soon"),
            ("99", "log.cleaner.threads", "2"),
            ("x", "log.cleaner.threads", "2"),
            ("", "listeners", "PLAINTEXT://:1"),
        ] {
            script.ask(&format!("broker {name:?} {key}={value}"), API, version, |_| {
                incremental(&[(BROKER, name, &[(key, SET, Some(value))])], false)
            })?;
        }
        for name in ["1", ""] {
            for (key, value) in SECURITY {
                script.ask(&format!("broker {name:?} {key}={value}"), API, version, |_| {
                    incremental(&[(BROKER, name, &[(key, SET, Some(value))])], true)
                })?;
            }
        }
        for name in ["1", ""] {
            script.ask(&format!("broker {name:?} set"), API, version, |_| {
                incremental(&[(BROKER, name, &[("log.retention.ms", SET, Some("604800001"))])], false)
            })?;
            script.await_broker_config("log.retention.ms", "604800001")?;
            script.ask("afterwards", ApiKey::DescribeConfigs, 4, |_| {
                let keys: Option<&[&str]> = Some(&["log.retention.ms", "log.retention.hours"]);
                describe_request(&[(BROKER, "1", keys), (BROKER, "", None)], true, false)
            })?;
            script.ask(&format!("broker {name:?} taken back"), API, version, |_| {
                incremental(&[(BROKER, name, &[("log.retention.ms", DELETE, None)])], false)
            })?;
            script.await_broker_config("log.retention.ms", "-1")?;
        }
    }
    Ok(())
}

/// The one logger that brokers of different making have in common is the root.
fn loggers(script: &mut Script) -> Result<()> {
    const API: ApiKey = ApiKey::IncrementalAlterConfigs;
    for version in script.versions(API) {
        for (what, name, logger, operation, level, validate_only) in [
            ("set", "1", "root", SET, Some("WARN"), false),
            ("only validate", "1", "root", SET, Some("ERROR"), true),
            ("a null level", "1", "root", SET, None, false),
            ("an empty level", "1", "root", SET, Some(""), false),
            ("a level in lower case", "1", "root", SET, Some("error"), false),
            ("no level", "1", "root", SET, Some("LOUD"), false),
            ("off", "1", "root", SET, Some("OFF"), false),
            ("delete the root's", "1", "root", DELETE, None, false),
            ("append", "1", "root", APPEND, Some("ERROR"), false),
            ("subtract", "1", "root", SUBTRACT, Some("ERROR"), false),
            ("an unknown operation", "1", "root", 9, Some("ERROR"), false),
            ("an unknown logger", "1", "no.such", SET, Some("ERROR"), false),
            ("delete an unknown logger's", "1", "no.such", DELETE, None, false),
            ("append to an unknown logger", "1", "no.such", APPEND, Some("ERROR"), false),
            ("another broker", "99", "root", SET, Some("ERROR"), false),
            ("no number", "x", "root", SET, Some("ERROR"), false),
            ("nobody", "", "root", SET, Some("ERROR"), false),
        ] {
            script.ask(what, API, version, |_| {
                incremental(&[(LOGGER, name, &[(logger, operation, level)])], validate_only)
            })?;
        }
        script.ask("one good, one bad", API, version, |_| {
            let changes: &[(&str, i8, Option<&str>)] = &[("root", SET, Some("ERROR")), ("no.such", SET, Some("ERROR"))];
            incremental(&[(LOGGER, "1", changes)], false)
        })?;
        script.ask("afterwards", ApiKey::DescribeConfigs, 4, |_| {
            describe_request(&[(LOGGER, "1", Some(&["root"]))], true, true)
        })?;
        script.ask("afterwards, in few words", ApiKey::DescribeConfigs, 4, |_| {
            describe_request(&[(LOGGER, "1", Some(&["root"]))], false, false)
        })?;
        script
            .ask("set back", API, version, |_| incremental(&[(LOGGER, "1", &[("root", SET, Some("INFO"))])], false))?;
    }
    Ok(())
}
