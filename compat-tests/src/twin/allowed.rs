//! `twin-differences.toml`: the differences that stay, each with its reason.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::script::Difference;
use super::tree::without_indices;
use crate::cache::sources;

/// More would mean that Klamm is not Kafka.
const MOST: usize = 20;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    difference: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    /// As in the message definitions, or `*`.
    api: String,
    /// `FIRST-LAST`, or one version.
    versions: String,
    /// Paths without what stands in their brackets, or whole ones; a trailing `*` stands for any rest, `|` for or.
    field: String,
    /// Only in steps whose name contains this.
    #[serde(default)]
    step: String,
    reason: String,
    /// What a live Kafka 3.9.1 answers.
    kafka: String,
    klamm: String,
}

impl Entry {
    fn covers(&self, found: &Difference) -> bool {
        let (first, last) = self.versions.split_once('-').unwrap_or((&self.versions, &self.versions));
        let range = first.parse().unwrap_or(i16::MAX)..=last.parse().unwrap_or(i16::MIN);
        let field_matches = |path: &str| {
            self.field.split('|').map(str::trim).any(|field| match field.strip_suffix('*') {
                Some(start) => path.starts_with(start),
                None => path == field,
            })
        };
        (self.api == "*" || self.api == found.api)
            && range.contains(&found.version)
            && (field_matches(&found.field) || field_matches(&without_indices(&found.field)))
            && found.step.contains(&self.step)
    }
}

pub struct Allowed {
    entries: Vec<Entry>,
}

impl Allowed {
    pub fn read() -> Result<Allowed> {
        let path = sources().join("twin-differences.toml");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let file: File = toml::from_str(&text).with_context(|| path.display().to_string())?;
        ensure!(file.difference.len() <= MOST, "{} entries; at most {MOST}", file.difference.len());
        for entry in &file.difference {
            let said = [&entry.reason, &entry.kafka, &entry.klamm];
            ensure!(said.iter().all(|text| !text.is_empty()), "{} {}: something is left empty", entry.api, entry.field);
        }
        Ok(Allowed { entries: file.difference })
    }

    pub fn covers(&self, found: &Difference) -> bool {
        self.entries.iter().any(|entry| entry.covers(found))
    }

    pub fn none_stale(&self, found: &[Difference]) -> Result<()> {
        let stale = self.entries.iter().filter(|entry| !found.iter().any(|found| entry.covers(found)));
        let stale: Vec<String> = stale.map(|entry| format!("{} {}", entry.api, entry.field)).collect();
        if !stale.is_empty() {
            bail!("no difference any more: {}", stale.join(", "));
        }
        Ok(())
    }
}
