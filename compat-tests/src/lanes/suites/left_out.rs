//! `left-out/LANE.toml`: the units of a suite that are not judged, by name, with the reason. A suite on three brokers has the
//! list of the one on a single broker, without what stands there under `one-broker`.
//!
//! A name covers itself and what lies below it: `TestTxnEtl` covers `TestTxnEtl/sticky`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::several::THREE;
use crate::cache;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    units: BTreeMap<String, String>,
    /// Not judged on one broker, and judged on three.
    #[serde(default)]
    one_broker: BTreeMap<String, String>,
}

pub struct LeftOut {
    reasons: BTreeMap<String, String>,
    used: BTreeSet<String>,
}

impl LeftOut {
    pub fn read(lane: &str) -> Result<LeftOut> {
        let suite = lane.strip_suffix(THREE).unwrap_or(lane);
        let path = cache::sources().join("left-out").join(format!("{suite}.toml"));
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        LeftOut::parse(&text, suite == lane).with_context(|| path.display().to_string())
    }

    fn parse(text: &str, one_broker: bool) -> Result<LeftOut> {
        let File { units: mut reasons, one_broker: single } = toml::from_str(text)?;
        if one_broker {
            reasons.extend(single);
        }
        Ok(LeftOut { reasons, used: BTreeSet::new() })
    }

    /// Why the unit is not judged; `None` when it is.
    pub fn reason(&mut self, unit: &str) -> Option<String> {
        let below = |name: &str| unit.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let (name, reason) = self.reasons.iter().find(|(name, _)| below(name))?;
        self.used.insert(name.clone());
        Some(reason.clone())
    }

    /// Names that no unit answered to.
    pub fn unused(&self) -> Vec<&str> {
        self.reasons.keys().filter(|name| !self.used.contains(*name)).map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_covers_what_lies_below_it_and_nothing_beside_it() {
        let mut list = LeftOut::parse("[units]\n\"a/b\" = \"why\"\nstale = \"gone\"\n", true).expect("a list");
        assert_eq!(list.reason("a/b").as_deref(), Some("why"));
        assert_eq!(list.reason("a/b/c").as_deref(), Some("why"));
        assert_eq!(list.reason("a/bc"), None);
        assert_eq!(list.reason("a"), None);
        assert_eq!(list.unused(), ["stale"]);
    }

    #[test]
    fn what_wants_several_brokers_is_judged_on_three() {
        let text = "[units]\na = \"never\"\n[one-broker]\nb = \"replication factor 3\"\n";
        let mut single = LeftOut::parse(text, true).expect("a list");
        assert_eq!(single.reason("b/c").as_deref(), Some("replication factor 3"));
        let mut three = LeftOut::parse(text, false).expect("a list");
        assert_eq!((three.reason("a").as_deref(), three.reason("b")), (Some("never"), None));
    }

    #[test]
    fn every_list_in_the_tree_can_be_read() {
        let folder = cache::sources().join("left-out");
        for entry in fs::read_dir(folder).expect("the folder") {
            let path = entry.expect("an entry").path();
            let lane = path.file_stem().expect("a name").to_string_lossy().into_owned();
            LeftOut::read(&lane).unwrap_or_else(|error| panic!("{error:#}"));
            assert!(super::super::super::ALL.iter().any(|known| known.name == lane), "no lane is called {lane}");
        }
    }
}
