//! `klamm api-versions`: kafka-broker-api-versions' flags and lines (3.9.1).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use super::admin::Admin;
use super::client::{Caller, Connection};
use super::command_config;
use crate::wire::api_versions::{ApiKey, TABLE};

/// APIs that Kafka's client knows and a broker with ZooKeeper does not serve.
const UNSERVED: &[(i16, &str)] = &[
    (55, "DescribeQuorum"),
    (64, "UnregisterBroker"),
    (71, "GetTelemetrySubscriptions"),
    (72, "PushTelemetry"),
    (74, "ListClientMetricsResources"),
    (75, "DescribeTopicPartitions"),
    (76, "ShareGroupHeartbeat"),
    (77, "ShareGroupDescribe"),
    (78, "ShareFetch"),
    (79, "ShareAcknowledge"),
    (80, "AddRaftVoter"),
    (81, "RemoveRaftVoter"),
    (83, "InitializeShareGroupState"),
    (84, "ReadShareGroupState"),
    (85, "WriteShareGroupState"),
    (86, "DeleteShareGroupState"),
    (87, "ReadShareGroupStateSummary"),
];

/// Tells which versions of which APIs each broker serves
#[derive(Debug, Parser)]
pub struct Args {
    /// host:port,host:port of brokers to connect to
    #[arg(long)]
    bootstrap_server: String,
    /// A file of client properties
    #[arg(long)]
    command_config: Option<PathBuf>,
}

pub fn main(args: &Args) -> ExitCode {
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::failed(&error),
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    let caller = || -> anyhow::Result<Caller> { command_config::caller(args.command_config.as_deref()) };
    let mut brokers = Admin::connect(&args.bootstrap_server, caller()?)?.cluster()?.brokers;
    brokers.sort_by_key(|broker| broker.node_id);
    let caller = caller()?;
    for broker in brokers {
        let address = format!("{}:{}", broker.host, broker.port);
        let rack = broker.rack.as_ref().map_or("null", |rack| rack.as_str());
        let name = format!("{address} (id: {} rack: {rack})", broker.node_id.0);
        match Connection::open_as(&caller, &address) {
            Ok(connection) => println!("{name} -> (\n{}\n)", lines(connection.served())),
            Err(error) => println!("{name} -> ERROR: {error:#}"),
        }
    }
    Ok(())
}

/// One line for each API, by its number.
fn lines(served: impl Iterator<Item = (i16, i16, i16)>) -> String {
    let mut lines: Vec<(i16, String)> = served.map(|(key, min, max)| (key, line(key, min, max))).collect();
    let unserved = UNSERVED.iter().map(|(key, name)| (*key, *name));
    let known = unserved.chain(TABLE.iter().map(|api| (*api as i16, api.name())));
    for (key, name) in known {
        if lines.iter().all(|(other, _)| *other != key) {
            lines.push((key, format!("\t{name}({key}): UNSUPPORTED")));
        }
    }
    lines.sort_by_key(|(key, _)| *key);
    lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join(",\n")
}

fn line(key: i16, min: i16, max: i16) -> String {
    let range = if min == max { min.to_string() } else { format!("{min} to {max}") };
    let Some(api) = ApiKey::from_code(key) else {
        let name = UNSERVED.iter().find(|(other, _)| *other == key).map_or("UNKNOWN", |(_, name)| name);
        return format!("\t{name}({key}): {range}");
    };
    let row = api.row();
    let usable = match row.max_version.min(max) {
        _ if max < row.min_version => "[unusable: node too old]".to_owned(),
        _ if min > row.max_version => "[unusable: node too new]".to_owned(),
        usable => format!("[usable: {usable}]"),
    };
    format!("\t{}({key}): {range} {usable}", api.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Kafka's tool printed a Klamm's answer, shortened.
    #[test]
    fn a_line_is_kafkas() {
        assert_eq!(line(0, 0, 11), "\tProduce(0): 0 to 11 [usable: 11]");
        assert_eq!(line(45, 0, 0), "\tAlterPartitionReassignments(45): 0 [usable: 0]");
        assert_eq!(line(0, 0, 99), "\tProduce(0): 0 to 99 [usable: 11]");
        assert_eq!(line(0, 50, 99), "\tProduce(0): 50 to 99 [unusable: node too new]");
        assert_eq!(line(999, 0, 1), "\tUNKNOWN(999): 0 to 1");
        let all = lines([(0, 0, 11)].into_iter());
        assert!(all.starts_with("\tProduce(0): 0 to 11 [usable: 11],\n\tFetch(1): UNSUPPORTED,\n"), "{all}");
        assert!(all.ends_with(",\n\tReadShareGroupStateSummary(87): UNSUPPORTED"), "{all}");
    }
}
