//! `/brokers/ids/<id>`: a live broker. Its czxid is the broker epoch.

use std::collections::BTreeMap;

use bytes::Bytes;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::config::{Listener, SecurityProtocol};

use super::{Malformed, from_json, to_json};

/// A broker's registration, version 5. Versions 2 to 4 are read: before 5 there are no features, before 4 a listener is
/// named like its protocol; version 1 has `host` and `port` alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// What clients and brokers are told to connect to, in the order of `advertised.listeners`.
    pub listeners: Vec<Listener>,
    pub rack: Option<String>,
    /// Milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// -1 = none.
    pub jmx_port: i32,
    /// Supported features: lowest and highest level.
    pub features: BTreeMap<String, FeatureRange>,
}

/// Levels of a feature, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureRange {
    pub min_version: i16,
    pub max_version: i16,
}

#[derive(Serialize, Deserialize)]
struct RegistrationJson {
    #[serde(default)]
    features: BTreeMap<String, FeatureRange>,
    #[serde(default)]
    listener_security_protocol_map: IndexMap<String, String>,
    #[serde(default)]
    endpoints: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rack: Option<String>,
    jmx_port: i32,
    #[serde(default = "no_port")]
    port: i32,
    #[serde(default)]
    host: Option<String>,
    version: i32,
    #[serde(default)]
    timestamp: String,
}

fn no_port() -> i32 {
    -1
}

impl Registration {
    pub fn decode(path: &str, bytes: &[u8]) -> Result<Registration, Malformed> {
        let json: RegistrationJson = from_json(path, bytes)?;
        let listeners = match (json.version, &json.host) {
            (..1, _) => return Err(Malformed::new(path, format_args!("version {} is not known", json.version))),
            (1, Some(host)) => {
                let (host, port) = (host.clone(), port(path, json.port)?);
                vec![Listener { name: "PLAINTEXT".to_owned(), protocol: SecurityProtocol::Plaintext, host, port }]
            }
            (1, None) => return Err(Malformed::new(path, "no host")),
            _ => json
                .endpoints
                .iter()
                .map(|endpoint| listener(path, endpoint, &json.listener_security_protocol_map))
                .collect::<Result<_, _>>()?,
        };
        Ok(Registration {
            listeners,
            rack: json.rack,
            timestamp_ms: json.timestamp.parse().unwrap_or(-1),
            jmx_port: json.jmx_port,
            features: json.features,
        })
    }

    pub fn encode(&self) -> Bytes {
        let plaintext = self.listeners.iter().find(|listener| listener.protocol == SecurityProtocol::Plaintext);
        let protocol = |listener: &Listener| (listener.name.clone(), listener.protocol.to_string());
        to_json(&RegistrationJson {
            features: self.features.clone(),
            listener_security_protocol_map: self.listeners.iter().map(protocol).collect(),
            endpoints: self.listeners.iter().map(Listener::to_string).collect(),
            rack: self.rack.clone(),
            jmx_port: self.jmx_port,
            port: plaintext.map_or(-1, |listener| i32::from(listener.port)),
            host: plaintext.map(|listener| listener.host.clone()),
            version: 5,
            timestamp: self.timestamp_ms.to_string(),
        })
    }
}

/// `NAME://host:port`, an IPv6 host in brackets.
fn listener(path: &str, endpoint: &str, protocols: &IndexMap<String, String>) -> Result<Listener, Malformed> {
    let bad = || Malformed::new(path, format_args!("endpoint {endpoint:?} is not NAME://host:port"));
    let (name, address) = endpoint.split_once("://").ok_or_else(bad)?;
    let (host, number) = address.rsplit_once(':').ok_or_else(bad)?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = port(path, number.parse().map_err(|_| bad())?)?;
    let protocol = protocols.get(name).map_or(name, String::as_str);
    let protocol = protocol
        .parse::<SecurityProtocol>()
        .map_err(|()| Malformed::new(path, format_args!("listener {name} has the unknown protocol {protocol:?}")))?;
    Ok(Listener { name: name.to_owned(), protocol, host: host.to_owned(), port })
}

fn port(path: &str, port: i32) -> Result<u16, Malformed> {
    u16::try_from(port).map_err(|_| Malformed::new(path, format_args!("{port} is no port")))
}
