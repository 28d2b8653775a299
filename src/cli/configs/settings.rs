//! What `--add-config`, `--add-config-file` and `--delete-config` ask for.

use std::collections::BTreeMap;
use std::path::Path;

use super::usage;
use crate::cli::properties::Properties;

/// Settings to be made, by name, and names of those to be taken back.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub set: BTreeMap<String, String>,
    pub delete: Vec<String>,
}

impl Settings {
    pub fn new(add: Option<&str>, file: Option<&Path>, delete: Option<&str>) -> anyhow::Result<Settings> {
        let mut set = match file {
            Some(path) => Properties::read(Some(path), &[])?.into_map(),
            None => BTreeMap::new(),
        };
        for pair in add.map(|text| split(text, ',')).unwrap_or_default() {
            let [name, value] = split(pair, '=')[..] else {
                return Err(usage(
                    "requirement failed: Invalid entity config: all configs to be added must be in the format \"key=val\".",
                ));
            };
            set.insert(name.trim().to_owned(), value.replace(['[', ']'], "").trim().to_owned());
        }
        let delete = delete.map(|names| names.split(',').map(|name| name.trim().to_owned()).collect());
        Ok(Settings { set, delete: delete.unwrap_or_default() })
    }

    /// An error that names those of the settings to be deleted that are not there.
    pub fn require(&self, exists: impl Fn(&str) -> bool) -> anyhow::Result<()> {
        let absent: Vec<&str> = self.delete.iter().map(String::as_str).filter(|name| !exists(name)).collect();
        if absent.is_empty() { Ok(()) } else { Err(usage(format!("Invalid config(s): {}", absent.join(",")))) }
    }
}

/// At separators that stand in no square brackets.
fn split(text: &str, separator: char) -> Vec<&str> {
    let mut inside = false;
    text.split(|c| {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ => {}
        }
        c == separator && !inside
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(add: &str) -> anyhow::Result<Vec<(String, String)>> {
        Ok(Settings::new(Some(add), None, None)?.set.into_iter().collect())
    }

    // As Kafka's tool of 3.9.1 was seen to read them.
    #[test]
    fn brackets_hold_values_together() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(set("a=1, b = 2").unwrap(), [pair("a", "1"), pair("b", "2")]);
        assert_eq!(set("p=[compact,delete],r=[500]").unwrap(), [pair("p", "compact,delete"), pair("r", "500")]);
        assert_eq!(set("S=[iterations=8192,password=x]").unwrap(), [pair("S", "iterations=8192,password=x")]);
        assert_eq!(set("a=").unwrap(), [pair("a", "")]);
        for bad in ["a", "a=b=c", "a=1,,b=2", ""] {
            assert!(set(bad).unwrap_err().to_string().contains("\"key=val\""), "{bad}");
        }
    }

    #[test]
    fn what_is_deleted_must_be_there() {
        let settings = Settings::new(None, None, Some("a, b,c")).unwrap();
        assert_eq!(settings.delete, ["a", "b", "c"]);
        assert!(settings.require(|_| true).is_ok());
        let error = settings.require(|name| name == "b").unwrap_err();
        assert_eq!(error.to_string(), "Invalid config(s): a,c");
    }
}
