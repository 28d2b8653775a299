//! Why a configuration cannot be used, and what is worth saying about one that can.

use std::fmt;

use super::def::BadValue;
use super::properties::MalformedEscape;

/// Stops the start. The text is for the operator: it names the key, its value and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error(transparent)]
    Properties(#[from] MalformedEscape),
    #[error("--override {0}: should be key=value")]
    Override(String),
    #[error(transparent)]
    BadValue(#[from] BadValue),
    /// The value alone is well formed, but not possible (beside the others).
    #[error("{key}={value}: {why}")]
    Rule { key: String, value: String, why: String },
    /// Would secure or change the broker in a way that does not exist yet.
    #[error("{key}={value} is refused: {why}; remove the setting to start without it")]
    Refused { key: String, value: String, why: String },
}

impl ConfigError {
    /// The key it is about, where it is about one.
    pub fn key(&self) -> Option<&str> {
        match self {
            ConfigError::Properties(_) | ConfigError::Override(_) => None,
            ConfigError::BadValue(bad) => Some(&bad.key),
            ConfigError::Rule { key, .. } | ConfigError::Refused { key, .. } => Some(key),
        }
    }

    pub(super) fn rule(key: &str, value: impl fmt::Display, why: impl Into<String>) -> ConfigError {
        ConfigError::Rule { key: key.into(), value: value.to_string(), why: why.into() }
    }
}

/// Worth a line in the log at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// Not a key of Kafka's or ours.
    Unknown { key: String },
    /// A key whose feature does not exist yet.
    NotYet { key: String, value: String },
    /// A key that changes nothing here; worth less than a warning.
    NoEffect { key: String, why: &'static str },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Unknown { key } => write!(f, "{key} is not a known configuration key and is ignored"),
            Warning::NotYet { key, value } => write!(f, "{key}={value} is accepted but not implemented yet"),
            Warning::NoEffect { key, why } => write!(f, "{key} has no effect: {why}"),
        }
    }
}
