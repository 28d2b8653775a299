//! `KAFKA_CREATE_TOPICS`: `name:partitions:replicas[:cleanup.policy]`, separated by commas.

use std::fmt;

use super::Refusal;

const VARIABLE: &str = "KAFKA_CREATE_TOPICS";
/// How long a broker is waited for, in seconds.
const START_TIMEOUT_S: u64 = 600;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopic {
    pub name: String,
    pub partitions: i32,
    pub replication_factor: i16,
    pub cleanup_policy: Option<String>,
}

/// What is made when the broker serves, where it is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topics {
    pub topics: Vec<NewTopic>,
    /// `START_TIMEOUT`.
    pub patience_s: u64,
}

impl Topics {
    /// An empty `separator` is a line's end, as for the shell that splits them.
    pub(super) fn parse(text: &str, separator: &str, patience_s: Option<&str>) -> Result<Topics, Refusal> {
        let ends = |c: char| if separator.is_empty() { c == '\n' } else { separator.contains(c) };
        let topics = text.split(ends).map(str::trim).filter(|topic| !topic.is_empty()).map(parse);
        let topics = topics.collect::<Result<_, _>>()?;
        let patience_s = match patience_s {
            None => START_TIMEOUT_S,
            Some(text) => text
                .trim()
                .parse()
                .map_err(|_| Refusal::new("START_TIMEOUT", format!("`{text}` should be a number of seconds")))?,
        };
        Ok(Topics { topics, patience_s })
    }
}

fn parse(text: &str) -> Result<NewTopic, Refusal> {
    let bad = || {
        Refusal::new(
            VARIABLE,
            format!("`{text}` should be name:partitions:replicas or name:partitions:replicas:policy"),
        )
    };
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    let (name, partitions, replicas, policy) = match parts[..] {
        [name, partitions, replicas] => (name, partitions, replicas, None),
        [name, partitions, replicas, policy, ..] => (name, partitions, replicas, Some(policy)),
        _ => return Err(bad()),
    };
    if name.is_empty() {
        return Err(bad());
    }
    Ok(NewTopic {
        name: name.to_owned(),
        partitions: partitions.parse().ok().filter(|count| *count > 0).ok_or_else(bad)?,
        replication_factor: replicas.parse().ok().filter(|count| *count > 0).ok_or_else(bad)?,
        cleanup_policy: policy.filter(|policy| !policy.is_empty()).map(str::to_owned),
    })
}

impl fmt::Display for Topics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.topics.iter().map(|topic| topic.name.as_str()).collect();
        write!(f, "{} are made where they are not there", names.join(", "))
    }
}
