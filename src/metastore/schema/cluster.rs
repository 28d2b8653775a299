//! Nodes of the whole cluster: its id, controller, features and producer ids.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::types::BrokerId;

use super::{Malformed, from_json, number, to_json};

/// `/cluster/id`: 22 characters of base64url.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterId(pub String);

#[derive(Serialize, Deserialize)]
struct ClusterIdJson {
    /// A string here, a number everywhere else.
    #[serde(default = "one")]
    version: serde_json::Value,
    id: String,
}

fn one() -> serde_json::Value {
    "1".into()
}

impl ClusterId {
    pub fn decode(path: &str, bytes: &[u8]) -> Result<ClusterId, Malformed> {
        from_json(path, bytes).map(|json: ClusterIdJson| ClusterId(json.id))
    }

    pub fn encode(&self) -> Bytes {
        to_json(&ClusterIdJson { version: one(), id: self.0.clone() })
    }
}

/// `/controller`, version 2; version 1 has no `kraftControllerEpoch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controller {
    pub broker_id: BrokerId,
    /// Milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// -1 unless a KRaft controller has taken over.
    pub kraft_controller_epoch: i32,
}

#[derive(Serialize, Deserialize)]
struct ControllerJson {
    version: i32,
    brokerid: i32,
    #[serde(default)]
    timestamp: String,
    #[serde(rename = "kraftControllerEpoch", default = "minus_one")]
    kraft_controller_epoch: i32,
}

fn minus_one() -> i32 {
    -1
}

impl Controller {
    pub fn decode(path: &str, bytes: &[u8]) -> Result<Controller, Malformed> {
        let json: ControllerJson = from_json(path, bytes)?;
        Ok(Controller {
            broker_id: BrokerId(json.brokerid),
            timestamp_ms: json.timestamp.parse().unwrap_or(-1),
            kraft_controller_epoch: json.kraft_controller_epoch,
        })
    }

    pub fn encode(&self) -> Bytes {
        to_json(&ControllerJson {
            version: 2,
            brokerid: self.broker_id.0,
            timestamp: self.timestamp_ms.to_string(),
            kraft_controller_epoch: self.kraft_controller_epoch,
        })
    }
}

/// `/controller_epoch`: decimal text. Begins at 0; the first controller has 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ControllerEpoch(pub i32);

impl ControllerEpoch {
    pub fn decode(path: &str, bytes: &[u8]) -> Result<ControllerEpoch, Malformed> {
        let text = std::str::from_utf8(bytes).map_err(|error| Malformed::new(path, error))?;
        number(path, "epoch", text).map(ControllerEpoch)
    }

    pub fn encode(self) -> Bytes {
        Bytes::from(self.0.to_string())
    }
}

/// `/latest_producer_id_block`: the producer ids last given to a broker, both ends inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdBlock {
    pub broker_id: BrokerId,
    pub first: i64,
    pub last: i64,
}

#[derive(Serialize, Deserialize)]
struct ProducerIdBlockJson {
    version: i32,
    broker: i32,
    block_start: String,
    block_end: String,
}

impl ProducerIdBlock {
    /// Null data, which reads as empty, means that no block was given yet.
    pub fn decode(path: &str, bytes: &[u8]) -> Result<Option<ProducerIdBlock>, Malformed> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let json: ProducerIdBlockJson = from_json(path, bytes)?;
        Ok(Some(ProducerIdBlock {
            broker_id: BrokerId(json.broker),
            first: number(path, "block_start", &json.block_start)?,
            last: number(path, "block_end", &json.block_end)?,
        }))
    }

    pub fn encode(&self) -> Bytes {
        to_json(&ProducerIdBlockJson {
            version: 1,
            broker: self.broker_id.0,
            block_start: self.first.to_string(),
            block_end: self.last.to_string(),
        })
    }
}

/// `/feature`, version 2: finalized features and their levels. Version 1 also names minimum levels, which are dropped.
/// The node's version is the epoch of the finalized features.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// False below inter.broker.protocol.version 2.7.
    pub enabled: bool,
    /// Name to highest level.
    pub finalized: BTreeMap<String, i16>,
}

#[derive(Serialize, Deserialize)]
struct FeaturesJson {
    features: BTreeMap<String, FeatureJson>,
    version: i32,
    status: i32,
}

#[derive(Serialize, Deserialize)]
struct FeatureJson {
    max_version_level: i16,
}

impl Features {
    pub fn decode(path: &str, bytes: &[u8]) -> Result<Features, Malformed> {
        let json: FeaturesJson = from_json(path, bytes)?;
        if !matches!(json.version, 1 | 2) || !matches!(json.status, 0 | 1) {
            let why = format_args!("version {} with status {} is not known", json.version, json.status);
            return Err(Malformed::new(path, why));
        }
        let finalized = json.features.into_iter().map(|(name, feature)| (name, feature.max_version_level)).collect();
        Ok(Features { enabled: json.status == 1, finalized })
    }

    pub fn encode(&self) -> Bytes {
        let level = |(name, level): (&String, &i16)| (name.clone(), FeatureJson { max_version_level: *level });
        let features = self.finalized.iter().map(level).collect();
        to_json(&FeaturesJson { features, version: 2, status: i32::from(self.enabled) })
    }
}
