//! Configs of brokers that change while they run: what is accepted, refused, shown, and in effect.

use anyhow::Result;
use kafka_protocol::messages::ApiKey;

use super::super::requests::{DELETE, SET, incremental};
use super::super::script::Script;
use super::configs::{BROKER, describe_request};

/// Changed after each change: brokers are told of changes in their order, so one that knows this one knows those before.
const LAST: &str = "log.retention.ms";
const API: ApiKey = ApiKey::IncrementalAlterConfigs;

/// Taken by one broker, or by all, or by neither.
const CHANGES: &[(&str, &str)] = &[
    ("num.io.threads", "16"),
    ("num.io.threads", "17"),
    ("num.io.threads", "4"),
    ("num.io.threads", "3"),
    ("num.io.threads", "0"),
    ("num.network.threads", "6"),
    ("num.network.threads", "7"),
    ("num.network.threads", "1"),
    ("num.replica.fetchers", "2"),
    ("num.replica.fetchers", "3"),
    ("background.threads", "20"),
    ("background.threads", "4"),
    ("num.recovery.threads.per.data.dir", "2"),
    ("num.recovery.threads.per.data.dir", "9"),
    ("message.max.bytes", "2000000"),
    ("message.max.bytes", "-1"),
    ("max.connections", "500"),
    ("max.connections", "-1"),
    ("max.connections.per.ip", "400"),
    ("max.connections.per.ip.overrides", "127.0.0.1:400"),
    ("max.connections.per.ip.overrides", "127.0.0.1"),
    ("max.connection.creation.rate", "100000"),
    ("max.connection.creation.rate", "0"),
    ("listener.name.plaintext.max.connections", "300"),
    ("listener.name.plaintext.max.connections", "many"),
    ("listener.name.plaintext.max.connection.creation.rate", "100000"),
    ("listener.name.plaintext.max.connection.creation.rate", "0"),
    ("listener.name.plaintext.num.network.threads", "4"),
    ("listener.name.plaintext.num.network.threads", "90"),
    ("listener.name.plaintext.no.such", "4"),
    ("log.retention.bytes", "1000000000"),
    ("log.retention.minutes", "5"),
    ("log.retention.hours", "5"),
    ("log.segment.bytes", "100000000"),
    ("log.roll.ms", "60000"),
    ("log.roll.hours", "5"),
    ("log.index.interval.bytes", "5000"),
    ("log.flush.interval.messages", "5000"),
    ("log.flush.interval.ms", "5000"),
    ("log.message.timestamp.type", "LogAppendTime"),
    ("log.message.timestamp.type", "Now"),
    ("log.cleanup.policy", "compact"),
    ("log.cleanup.policy", "shred"),
    ("log.local.retention.ms", "5"),
    ("log.local.retention.bytes", "5"),
    ("compression.type", "lz4"),
    ("unclean.leader.election.enable", "true"),
    ("min.insync.replicas", "2"),
    ("min.insync.replicas", "0"),
    ("auto.create.topics.enable", "false"),
    ("producer.id.expiration.ms", "5000"),
    ("producer.id.expiration.ms", "0"),
    ("producer.id.expiration.check.interval.ms", "5000"),
    ("transaction.partition.verification.enable", "false"),
    ("log.cleaner.threads", "2"),
    ("log.cleaner.threads", "5"),
    ("log.cleaner.backoff.ms", "5"),
    ("leader.replication.throttled.rate", "1000"),
    ("leader.replication.throttled.rate", "-1"),
    ("follower.replication.throttled.rate", "1000"),
    ("replica.alter.log.dirs.io.max.bytes.per.second", "x"),
    ("remote.log.index.file.cache.total.size.bytes", "1"),
    ("remote.log.index.file.cache.total.size.bytes", "0"),
    ("remote.log.manager.copy.max.bytes.per.second", "5"),
    ("remote.fetch.max.wait.ms", "5"),
    ("quota.window.num", "5"),
    ("controller.quota.window.num", "5"),
    ("default.replication.factor", "1"),
    ("connections.max.idle.ms", "1"),
    ("replica.lag.time.max.ms", "1"),
    ("ssl.keystore.location", "/x"),
    ("ssl.keystore.password", "x"),
    ("password.encoder.secret", "x"),
    ("metric.reporters", "no.such.Class"),
    ("my.own", "anything"),
];

pub fn run(script: &mut Script) -> Result<()> {
    let version = *script.versions(API).end();
    let mut changes = 0;
    for name in ["1", ""] {
        for (key, value) in CHANGES {
            let step = format!("broker {name:?} {key}={value}");
            script.ask(&format!("{step} (validated)"), API, version, |_| {
                incremental(&[(BROKER, name, &[(key, SET, Some(value))])], true)
            })?;
            script.ask(&step, API, version, |_| incremental(&[(BROKER, name, &[(key, SET, Some(value))])], false))?;
            settle(script, &mut changes)?;
            script.ask(&format!("{step} shown"), ApiKey::DescribeConfigs, 4, |_| {
                describe_request(&[(BROKER, "1", Some(&[key])), (BROKER, "", None)], true, false)
            })?;
            script.ask(&format!("{step} taken back"), API, version, |_| {
                incremental(&[(BROKER, name, &[(key, DELETE, None)])], false)
            })?;
            settle(script, &mut changes)?;
        }
    }
    for threads in ["16", "32", "16", "8"] {
        script.ask(&format!("by steps to {threads}"), API, version, |_| {
            incremental(&[(BROKER, "1", &[("num.io.threads", SET, Some(threads))])], false)
        })?;
        settle(script, &mut changes)?;
    }
    for key in ["num.io.threads", LAST] {
        script.ask(&format!("{key} gone"), API, version, |_| {
            incremental(&[(BROKER, "1", &[(key, DELETE, None)])], false)
        })?;
    }
    script.await_broker_config(LAST, "-1")
}

/// Waits until both brokers know of every change so far.
fn settle(script: &mut Script, changes: &mut u32) -> Result<()> {
    *changes += 1;
    let value = format!("{}", 700_000_000 + *changes);
    let version = *script.versions(API).end();
    script
        .ask("the last change", API, version, |_| incremental(&[(BROKER, "1", &[(LAST, SET, Some(&value))])], false))?;
    script.await_broker_config(LAST, &value)
}
