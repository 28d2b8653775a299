//! What is said about a variable.

use std::fmt;

use crate::config::key_of;

/// Worth a line in the log at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    Took { variable: String, property: String, value: String },
    Ignored { variable: String, why: String },
    Said(String),
}

impl Notice {
    pub(super) fn took(variable: &str, property: &str, value: &str) -> Notice {
        let shown = key_of(property).map_or_else(|| value.to_owned(), |key| key.shown(value));
        Notice::Took { variable: variable.to_owned(), property: property.to_owned(), value: shown }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Took { variable, property, value } => write!(f, "{variable} sets {property}={value}"),
            Notice::Ignored { variable, why } => write!(f, "{variable} is ignored: {why}"),
            Notice::Said(text) => f.write_str(text),
        }
    }
}

/// Stops the start: names the variable, or the file, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{subject}: {why}")]
pub struct Refusal {
    subject: String,
    why: String,
}

impl Refusal {
    pub(super) fn new(subject: impl Into<String>, why: impl Into<String>) -> Refusal {
        Refusal { subject: subject.into(), why: why.into() }
    }
}

/// Whether a broker knows the property, for itself or for one listener.
pub(super) fn is_known(property: &str) -> bool {
    key_of(property).is_some()
}
