//! Fields of the JSON files that Kafka's tools read, refused as those do.

use anyhow::{Context, anyhow};
use serde_json::{Map, Value};

use crate::types::TopicPartition;

pub fn object(value: &Value) -> anyhow::Result<&Map<String, Value>> {
    value.as_object().ok_or_else(|| anyhow!("Expected JSON object, received {value}"))
}

pub fn array(value: &Value) -> anyhow::Result<&Vec<Value>> {
    value.as_array().ok_or_else(|| anyhow!("Expected JSON array, received {value}"))
}

/// A field that must be there.
pub fn field<'a>(value: &'a Value, name: &str) -> anyhow::Result<&'a Value> {
    object(value)?.get(name).with_context(|| format!("No such field exists: `{name}`"))
}

pub fn string(value: &Value) -> anyhow::Result<&str> {
    value.as_str().ok_or_else(|| anyhow!("Expected String value, received {value}"))
}

pub fn int(value: &Value) -> anyhow::Result<i32> {
    let int = value.as_i64().and_then(|int| i32::try_from(int).ok());
    int.ok_or_else(|| anyhow!("Expected Int value, received {value}"))
}

/// `topic` and `partition` of an object.
pub fn partition(value: &Value) -> anyhow::Result<TopicPartition> {
    Ok(TopicPartition::new(string(field(value, "topic")?)?, int(field(value, "partition")?)?))
}

/// The field `version`, 1 without one; an error for any other.
pub fn check_version(value: &Value) -> anyhow::Result<()> {
    match object(value)?.get("version").map(int).transpose()? {
        None | Some(1) => Ok(()),
        Some(other) => Err(anyhow!("Not supported version field value {other}")),
    }
}
