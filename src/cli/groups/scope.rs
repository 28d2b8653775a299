//! `--topic topic:0,1`: which partitions are meant.

use std::collections::BTreeMap;

use super::usage;
use crate::cli::admin::Admin;
use crate::types::TopicPartition;
use crate::wire::error_code::ErrorCode;

/// Topics and the partitions named, or `None` for all of a topic.
pub fn parse(topics: &[String]) -> anyhow::Result<BTreeMap<String, Option<Vec<i32>>>> {
    let mut parsed: BTreeMap<String, Option<Vec<i32>>> = BTreeMap::new();
    for argument in topics {
        let Some((topic, list)) = argument.split_once(':') else {
            parsed.insert(argument.clone(), None);
            continue;
        };
        if topic.is_empty() || list.contains(':') {
            return Err(usage(format!("Invalid topic arg '{argument}', expected topic name and partitions")));
        }
        let number = |text: &str| {
            let wrong = || usage(format!("Invalid partition '{text}' specified in topic arg '{argument}''"));
            text.parse().map_err(|_| wrong())
        };
        let mut partitions: Vec<i32> = list.split(',').map(number).collect::<anyhow::Result<_>>()?;
        // What names a topic as a whole elsewhere wins.
        if let Some(named) = parsed.entry(topic.to_owned()).or_insert_with(|| Some(Vec::new())) {
            named.append(&mut partitions);
        }
    }
    Ok(parsed)
}

/// What is meant.
#[derive(Debug, Default)]
pub struct Scope {
    /// In order.
    pub partitions: Vec<TopicPartition>,
    /// Topics of which all partitions are meant and that cannot be found, with the reason.
    pub missing: Vec<(String, ErrorCode)>,
}

pub fn resolve(topics: &[String], admin: &mut Admin) -> anyhow::Result<Scope> {
    let mut scope = Scope::default();
    for (topic, partitions) in parse(topics)? {
        let partitions = match partitions {
            Some(named) => Ok(named),
            None => admin.partitions(&topic)?,
        };
        match partitions {
            Ok(partitions) => {
                scope.partitions.extend(partitions.into_iter().map(|of| TopicPartition::new(topic.as_str(), of)));
            }
            Err(code) => scope.missing.push((topic, code)),
        }
    }
    scope.partitions.sort();
    scope.partitions.dedup();
    Ok(scope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_come_with_or_without_partitions() {
        let of = |arguments: &[&str]| {
            parse(&arguments.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>())
                .map_err(|error| error.to_string())
        };
        assert_eq!(of(&["b:0,2", "a"]).unwrap(), [("a".to_owned(), None), ("b".to_owned(), Some(vec![0, 2]))].into());
        assert_eq!(of(&["a:0", "a:1"]).unwrap(), [("a".to_owned(), Some(vec![0, 1]))].into());
        assert_eq!(of(&["a", "a:1"]).unwrap(), [("a".to_owned(), None)].into());
        assert_eq!(of(&["a:x"]).unwrap_err(), "Invalid partition 'x' specified in topic arg 'a:x''");
        assert_eq!(of(&[":1"]).unwrap_err(), "Invalid topic arg ':1', expected topic name and partitions");
    }
}
