//! Topics by a pattern, as Kafka's tools take one.

use anyhow::anyhow;
use regex::Regex;

/// A regular expression for whole names, in which a comma means "or" and blanks and quotes mean nothing.
pub fn include_list(text: &str) -> anyhow::Result<Regex> {
    let text: String = text.trim().replace(',', "|").chars().filter(|c| !matches!(c, ' ' | '"' | '\'')).collect();
    Regex::new(&format!("^(?:{text})$")).map_err(|_| anyhow!("{text} is an invalid regex."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_patterns_match_whole_names() {
        for (pattern, name, matches) in [
            ("a.*", "a.b", true),
            ("a", "ab", false),
            ("a, b", "b", true),
            ("a.*|c", "xc", false),
            ("\"a\"", "a", true),
        ] {
            assert_eq!(include_list(pattern).unwrap().is_match(name), matches, "{pattern} {name}");
        }
        assert!(include_list("(").is_err());
    }
}
