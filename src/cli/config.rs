//! `klamm config list`: every key with its type, default and what this broker makes of it.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde_json::{Value, json};

use crate::config::def::{Key, Scope, State};
use crate::config::keys;

/// Flags of `klamm config`.
#[derive(Debug, Parser)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists every configuration key of broker and topics
    List {
        /// One JSON array instead of a table
        #[arg(long)]
        json: bool,
        /// Topic configs only
        #[arg(long)]
        topic: bool,
        /// Only keys that contain this
        #[arg(value_name = "PART")]
        part: Option<String>,
    },
}

pub fn main(args: &Args) -> ExitCode {
    let Command::List { json, topic, part } = &args.command;
    let part = part.as_deref().unwrap_or_default();
    let text = if *json { as_json(*topic, part) } else { as_table(*topic, part) };
    match io::stdout().lock().write_all(text.as_bytes()) {
        // Whoever reads the first lines only, as `head` does, has what he wanted.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("klamm: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Subject and keys, in reading order.
fn subjects(topic_only: bool, part: &str) -> Vec<(&'static str, Vec<&'static Key>)> {
    let broker =
        keys::broker_by_subject().filter(|_| !topic_only).map(|(subject, keys)| (subject, keys.iter().collect()));
    let topic = std::iter::once(("topic configs", keys::topic_keys().collect()));
    let all: Vec<(&'static str, Vec<&'static Key>)> = broker.chain(topic).collect();
    let matching = all.into_iter().map(|(subject, mut keys)| {
        keys.retain(|key| key.name.contains(part));
        (subject, keys)
    });
    matching.filter(|(_, keys)| !keys.is_empty()).collect()
}

fn state(key: &Key) -> &'static str {
    match key.state {
        State::Implemented => "implemented",
        State::NoEffect(_) => "no effect",
        State::NotYet => "not yet",
        State::Refuses(_) => "refused",
    }
}

fn why(key: &Key) -> Option<&'static str> {
    match key.state {
        State::NoEffect(why) | State::Refuses(why) => Some(why),
        State::Implemented | State::NotYet => None,
    }
}

fn dynamic(key: &Key) -> &'static str {
    match key.scope {
        Scope::ReadOnly => "read-only",
        Scope::PerBroker => "per-broker",
        Scope::ClusterWide => "cluster-wide",
    }
}

/// Columns wide enough for what is in them; a default longer than this goes over its column's edge.
const WIDEST_DEFAULT: usize = 24;

fn as_table(topic_only: bool, part: &str) -> String {
    let subjects = subjects(topic_only, part);
    let widest = subjects.iter().flat_map(|(_, keys)| keys).map(|key| key.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (subject, keys) in subjects {
        text.push_str(&format!("# {subject}\n"));
        for key in keys {
            let (kind, default, state) = (key.kind.name(), key.default.unwrap_or("null"), state(key));
            let line =
                format!("{:widest$}  {kind:8}  {default:WIDEST_DEFAULT$}  {state:11}  {}", key.name, key.allowed());
            text.push_str(line.trim_end());
            text.push('\n');
            if let Some(why) = why(key) {
                text.push_str(&format!("{:widest$}  ({why})\n", ""));
            }
        }
        text.push('\n');
    }
    text
}

fn as_json(topic_only: bool, part: &str) -> String {
    let rows = subjects(topic_only, part).into_iter().flat_map(|(subject, keys)| {
        keys.into_iter().map(move |key| {
            json!({
                "name": key.name,
                "subject": subject,
                "type": key.kind.name(),
                "default": key.default,
                "allowed": key.allowed(),
                "importance": format!("{:?}", key.importance).to_uppercase(),
                // Topic configs can always be altered.
                "dynamic": if subject == "topic configs" { "per-topic" } else { dynamic(key) },
                "sensitive": key.is_sensitive(),
                "state": state(key),
                "why": why(key),
                "documentation": key.doc,
            })
        })
    });
    let mut text = format!("{:#}", Value::Array(rows.collect()));
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_listed() {
        let table = as_table(false, "");
        for key in keys::broker_keys().chain(keys::topic_keys()) {
            assert!(table.lines().any(|line| line.split_whitespace().next() == Some(key.name)), "{}", key.name);
        }
        let json: Value = serde_json::from_str(&as_json(false, "")).unwrap();
        let rows = json.as_array().unwrap();
        assert!(rows.len() > keys::broker_keys().count() + keys::topic_keys().count());
        assert!(rows.iter().all(|row| row["documentation"].as_str().is_some_and(|text| !text.is_empty())));
    }

    #[test]
    fn a_part_of_the_name_narrows_the_list() {
        let table = as_table(true, "retention.ms");
        let names: Vec<&str> = table.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(names, ["#", "delete.retention.ms", "local.retention.ms", "retention.ms"]);
        assert_eq!(as_table(false, "no such key"), "");
    }
}
