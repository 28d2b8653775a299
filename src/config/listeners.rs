//! `listeners`, `advertised.listeners` and `listener.security.protocol.map`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::error::ConfigError;

/// What a listener speaks. Only `Plaintext` can be opened yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecurityProtocol {
    Plaintext,
    Ssl,
    SaslPlaintext,
    SaslSsl,
}

impl FromStr for SecurityProtocol {
    type Err = ();
    fn from_str(text: &str) -> Result<SecurityProtocol, ()> {
        Ok(match text.to_ascii_uppercase().as_str() {
            "PLAINTEXT" => SecurityProtocol::Plaintext,
            "SSL" => SecurityProtocol::Ssl,
            "SASL_PLAINTEXT" => SecurityProtocol::SaslPlaintext,
            "SASL_SSL" => SecurityProtocol::SaslSsl,
            _ => return Err(()),
        })
    }
}

impl fmt::Display for SecurityProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SecurityProtocol::Plaintext => "PLAINTEXT",
            SecurityProtocol::Ssl => "SSL",
            SecurityProtocol::SaslPlaintext => "SASL_PLAINTEXT",
            SecurityProtocol::SaslSsl => "SASL_SSL",
        })
    }
}

/// A named listener: where it is bound and, in `advertised.listeners`, what clients are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Upper case, as in `listener.security.protocol.map`.
    pub name: String,
    pub protocol: SecurityProtocol,
    /// Without the brackets of an IPv6 address. Empty: every interface in `listeners`, the machine's canonical host
    /// name in `advertised.listeners` (the broker looks it up, this room does no I/O).
    pub host: String,
    /// 0 in `listeners`: any free port.
    pub port: u16,
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "{}://[{}]:{}", self.name, self.host, self.port)
        } else {
            write!(f, "{}://{}:{}", self.name, self.host, self.port)
        }
    }
}

/// `NAME:PROTOCOL,...`; names are upper-cased.
pub(super) fn parse_protocol_map(text: &str) -> Result<BTreeMap<String, SecurityProtocol>, ConfigError> {
    let key = "listener.security.protocol.map";
    let bad = |why: String| ConfigError::rule(key, text, why);
    let mut map = BTreeMap::new();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (name, protocol) = entry
            .rsplit_once(':')
            .ok_or_else(|| bad(format!("`{entry}` should be a listener name, a colon and a protocol")))?;
        let protocol = protocol
            .trim()
            .parse()
            .map_err(|()| bad(format!("`{protocol}` should be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL")))?;
        if map.insert(name.trim().to_uppercase(), protocol).is_some() {
            return Err(bad(format!("listener name {name} stands in it twice")));
        }
    }
    Ok(map)
}

/// `NAME://host:port,...`. `key` is for the error: `listeners` or `advertised.listeners`.
pub(super) fn parse_listeners(
    key: &'static str,
    text: &str,
    protocols: &BTreeMap<String, SecurityProtocol>,
) -> Result<Vec<Listener>, ConfigError> {
    let bad = |why: String| ConfigError::rule(key, text, why);
    let mut listeners: Vec<Listener> = Vec::new();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let shape = || bad(format!("`{entry}` should look like NAME://host:port"));
        let (name, address) = entry.split_once("://").ok_or_else(shape)?;
        let (host, port) = address.rsplit_once(':').ok_or_else(shape)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '%' | '.' | '_' | ':');
        if name.is_empty() || !host.chars().all(legal) {
            return Err(shape());
        }
        let port = port.parse().map_err(|_| bad(format!("port `{port}` should be a number from 0 to 65535")))?;
        let name = name.to_uppercase();
        let protocol = *protocols.get(&name).ok_or_else(|| {
            bad(format!("listener name {name} has no protocol; add {name}:PLAINTEXT to listener.security.protocol.map"))
        })?;
        if listeners.iter().any(|other| other.name == name) {
            return Err(bad(format!("listener name {name} stands in it twice; each listener needs its own name")));
        }
        listeners.push(Listener { name, protocol, host: host.to_owned(), port });
    }
    if listeners.is_empty() {
        return Err(bad("at least one listener is needed, for example PLAINTEXT://:9092".into()));
    }
    Ok(listeners)
}

/// A port may be bound once, or twice when one address is IPv4 and the other IPv6.
pub(super) fn check_ports(text: &str, listeners: &[Listener]) -> Result<(), ConfigError> {
    for (at, one) in listeners.iter().enumerate().filter(|(_, listener)| listener.port != 0) {
        for other in listeners.iter().skip(at + 1).filter(|other| other.port == one.port) {
            let is_v4 = |l: &Listener| l.host.parse::<std::net::Ipv4Addr>().is_ok();
            let is_v6 = |l: &Listener| l.host.parse::<std::net::Ipv6Addr>().is_ok();
            if !(is_v4(one) && is_v6(other) || is_v6(one) && is_v4(other)) {
                let why = format!(
                    "{one} and {other} share port {}; each listener needs its own port, unless one address is IPv4 \
                     and the other IPv6",
                    one.port
                );
                return Err(ConfigError::rule("listeners", text, why));
            }
        }
    }
    Ok(())
}
