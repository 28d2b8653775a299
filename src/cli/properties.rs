//! `name=value` settings from files and flags, and which of them were looked at.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, anyhow};

use crate::config::properties;

/// Settings by name. What nobody takes is told as unknown.
#[derive(Debug, Default)]
pub struct Properties(BTreeMap<String, String>);

impl Properties {
    /// The file's settings first, then the flags', which win.
    pub fn read(file: Option<&Path>, flags: &[String]) -> anyhow::Result<Properties> {
        let mut all = BTreeMap::new();
        if let Some(path) = file {
            let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            all = properties::parse(&bytes).with_context(|| format!("{}", path.display()))?;
        }
        for flag in flags {
            let (name, value) = flag.split_once('=').ok_or_else(|| anyhow!("{flag} is not of the form name=value"))?;
            all.insert(name.to_owned(), value.to_owned());
        }
        Ok(Properties(all))
    }

    /// All of them, none looked at.
    pub fn into_map(self) -> BTreeMap<String, String> {
        self.0
    }

    pub fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// An error for a value that is no `T`.
    pub fn parse<T: FromStr>(&mut self, name: &str) -> anyhow::Result<Option<T>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        value.trim().parse().map(Some).map_err(|_| anyhow!("{value} is no valid value of {name}"))
    }

    /// Java's `Boolean.parseBoolean`: anything but true is false.
    pub fn flag(&mut self, name: &str, default: bool) -> bool {
        self.take(name).map_or(default, |value| value.trim().eq_ignore_ascii_case("true"))
    }

    /// Says on stderr what has no effect.
    pub fn warn_of_the_rest(&self, of: &str) {
        for name in self.0.keys() {
            eprintln!("{of}: {name} is not known here and has no effect");
        }
    }
}
