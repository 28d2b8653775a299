//! Replaces what must differ between two brokers: ids, times, ports, paths, free disk space, wording.

use std::collections::HashMap;

use anyhow::{Context, Result};
use kafka_protocol::messages::ApiKey;

use super::tree::Tree;
use crate::records;

/// What is one broker's own.
pub struct Own {
    pub port: u16,
    pub dir: String,
    /// Topic ids met, with their topics.
    pub ids: HashMap<String, String>,
    /// Ids of group members met, in that order.
    pub members: Vec<String>,
}

impl Own {
    /// Keeps a member id, unless it is known.
    pub fn learn_member(&mut self, id: &str) {
        if !id.is_empty() && !self.members.iter().any(|known| known == id) {
            self.members.push(id.to_owned());
        }
    }

    /// `text` without what is this broker's own.
    fn neutral(&self, text: &str) -> String {
        let mut neutral = text.replace(&self.dir, "<dir>").replace(&format!(":{}", self.port), ":<port>");
        for (nth, member) in self.members.iter().enumerate() {
            // What stands before the uuid is compared.
            let uuid = member.len().checked_sub(UUID_LENGTH).and_then(|at| member.get(at..)).unwrap_or(member);
            neutral = neutral.replace(uuid, &format!("<member {nth}>"));
        }
        neutral
    }
}

const UUID_LENGTH: usize = 36;

const ZERO_ID: &str = "00000000-0000-0000-0000-000000000000";

/// The comparable form of a response.
pub fn normal(api: ApiKey, tree: &Tree, own: &Own) -> Result<Tree> {
    node("", tree, own, api != ApiKey::Fetch)
}

fn node(name: &str, tree: &Tree, own: &Own, sorted: bool) -> Result<Tree> {
    let placeholder = |text: &str| Tree::Text(format!("<{text}>"));
    Ok(match (name, tree) {
        ("topic_id", Tree::Word(id)) if id != ZERO_ID => {
            placeholder(&format!("id of {}", own.ids.get(id).map_or("a topic", String::as_str)))
        }
        ("cluster_id", Tree::Text(id)) if !id.is_empty() => placeholder("cluster id"),
        ("session_id", Tree::Word(id)) if id != "0" => placeholder("session"),
        ("log_append_time_ms", Tree::Word(time)) if time != "-1" => placeholder("time"),
        // Of a producer: its last record's, which scripts stamp long ago, or its last marker's.
        ("last_timestamp", Tree::Word(time)) if time.len() > 12 => placeholder("time"),
        ("transaction_start_time_ms", Tree::Word(time)) if time.len() > 12 => placeholder("time"),
        ("total_bytes" | "usable_bytes", Tree::Word(bytes)) if bytes != "-1" => placeholder("bytes"),
        // The project has its own words; that there are words is compared.
        ("error_message" | "batch_index_error_message" | "documentation", Tree::Text(text)) if !text.is_empty() => {
            placeholder("text")
        }
        ("port", Tree::Word(port)) if *port == own.port.to_string() => placeholder("port"),
        ("records", Tree::Bytes(bytes)) => record_tree(bytes)?,
        (_, Tree::Text(text)) => Tree::Text(own.neutral(text)),
        (_, Tree::List(items)) => {
            let mut items = items.iter().map(|item| node("", item, own, sorted)).collect::<Result<Vec<_>>>()?;
            // Kafka answers in the order of its hash maps, except where order means something.
            if sorted && name != "synonyms" && items.iter().all(|item| matches!(item, Tree::Fields(_))) {
                items.sort();
            }
            Tree::List(items)
        }
        (_, Tree::Fields(fields)) => {
            let mut kept = Vec::new();
            for (field, value) in fields {
                let empty_tags = *field == "unknown_tagged_fields" && *value == Tree::Fields(Vec::new());
                if field != "throttle_time_ms" && !empty_tags {
                    kept.push((field.clone(), node(field, value, own, sorted)?));
                }
            }
            // First what a list is sorted by.
            kept.sort_by_key(|(field, _)| !["name", "topic", "index", "partition_index"].contains(&field.as_str()));
            Tree::Fields(kept)
        }
        (_, other) => other.clone(),
    })
}

fn record_tree(bytes: &[u8]) -> Result<Tree> {
    let word = |value: i64| Tree::Word(value.to_string());
    let bytes_or_null = |bytes: &Option<Vec<u8>>| bytes.clone().map_or(Tree::Null, Tree::Bytes);
    let mut batches = Vec::new();
    for batch in records::read(bytes).context("stored records")? {
        // Bits 3 (LogAppendTime) and 5 (a control batch): the broker's own clock.
        let time = |value: i64| {
            if batch.attributes & (1 << 3 | 1 << 5) != 0 { Tree::Text("<time>".into()) } else { word(value) }
        };
        let record = |record: &records::Record| {
            let headers = record
                .headers
                .iter()
                .map(|(key, value)| Tree::List(vec![Tree::Bytes(key.clone()), bytes_or_null(value)]));
            Tree::Fields(vec![
                ("offset".into(), word(record.offset)),
                ("timestamp".into(), time(record.timestamp)),
                ("key".into(), bytes_or_null(&record.key)),
                ("value".into(), bytes_or_null(&record.value)),
                ("headers".into(), Tree::List(headers.collect())),
            ])
        };
        batches.push(Tree::Fields(vec![
            ("base_offset".into(), word(batch.base_offset)),
            ("magic".into(), word(batch.magic.into())),
            ("attributes".into(), word(batch.attributes.into())),
            ("leader_epoch".into(), word(batch.leader_epoch.into())),
            ("last_offset_delta".into(), word(batch.last_offset_delta.into())),
            ("base_timestamp".into(), time(batch.base_timestamp)),
            ("max_timestamp".into(), time(batch.max_timestamp)),
            ("producer_id".into(), word(batch.producer_id)),
            ("producer_epoch".into(), word(batch.producer_epoch.into())),
            ("base_sequence".into(), word(batch.base_sequence.into())),
            ("records".into(), Tree::List(batch.records.iter().map(record).collect())),
        ]));
    }
    Ok(Tree::List(batches))
}
