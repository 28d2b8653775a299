//! The file that says which replicas partitions shall have, read and written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::Value;

use super::joined;
use crate::cli::json;
use crate::types::TopicPartition;

/// A log directory that says: whichever.
const ANY: &str = "any";

/// A partition's replica on a broker. In the order of brokers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Replica {
    pub broker: i32,
    pub of: TopicPartition,
}

/// `topic-partition-broker`.
impl fmt::Display for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.of, self.broker)
    }
}

/// Replicas by partition; the first is the preferred leader.
pub type Assignment = BTreeMap<TopicPartition, Vec<i32>>;

#[derive(Debug, Default)]
pub struct Plan {
    pub partitions: Assignment,
    /// Of replicas that are to lie in one certain directory.
    pub log_dirs: BTreeMap<Replica, String>,
}

impl Plan {
    /// Of a partition that is there twice the last counts.
    pub fn parse(text: &str) -> anyhow::Result<Plan> {
        let (partitions, log_dirs) = entries(text)?;
        Ok(Plan { partitions: partitions.into_iter().collect(), log_dirs })
    }

    /// As [`Plan::parse`]; an error for a plan that could not be carried out whoever the brokers are.
    pub fn parse_to_execute(text: &str) -> anyhow::Result<Plan> {
        let (partitions, log_dirs) = entries(text)?;
        if partitions.is_empty() {
            bail!("Partition reassignment list cannot be empty");
        }
        if partitions.iter().any(|(_, replicas)| replicas.is_empty()) {
            bail!("Partition replica list cannot be empty");
        }
        let twice = duplicates(partitions.iter().map(|(of, _)| of));
        if !twice.is_empty() {
            bail!("Partition reassignment contains duplicate topic partitions: {}", joined(twice));
        }
        let repeating = partitions.iter().map(|(of, replicas)| (of, duplicates(replicas)));
        let repeating: Vec<String> = repeating
            .filter(|(_, twice)| !twice.is_empty())
            .map(|(of, twice)| format!("{of} contains multiple entries for {}", joined(twice)))
            .collect();
        if !repeating.is_empty() {
            bail!("Partition replica lists may not contain duplicate entries: {}", repeating.join(". "));
        }
        Ok(Plan { partitions: partitions.into_iter().collect(), log_dirs })
    }

    pub fn topics(&self) -> BTreeSet<&str> {
        self.partitions.keys().map(|of| &*of.topic).collect()
    }

    /// All brokers that a partition is to have a replica on.
    pub fn brokers(&self) -> BTreeSet<i32> {
        self.partitions.values().flatten().copied().collect()
    }
}

type Entries = (Vec<(TopicPartition, Vec<i32>)>, BTreeMap<Replica, String>);

fn entries(text: &str) -> anyhow::Result<Entries> {
    let file: Value = serde_json::from_str(text).context("the plan is no JSON")?;
    json::check_version(&file)?;
    let (mut partitions, mut log_dirs) = (Vec::new(), BTreeMap::new());
    let list = json::object(&file)?.get("partitions").map(json::array).transpose()?;
    for entry in list.into_iter().flatten() {
        let of = json::partition(entry)?;
        let replicas = json::array(json::field(entry, "replicas")?)?;
        let replicas = replicas.iter().map(json::int).collect::<anyhow::Result<Vec<i32>>>()?;
        if let Some(dirs) = json::object(entry)?.get("log_dirs") {
            let dirs = json::array(dirs)?.iter().map(json::string).collect::<anyhow::Result<Vec<&str>>>()?;
            if dirs.len() != replicas.len() {
                bail!(
                    "Size of replicas list {replicas:?} is different from size of log dirs list [{}] for partition {of}",
                    dirs.join(", ")
                );
            }
            for (broker, dir) in replicas.iter().zip(dirs).filter(|(_, dir)| *dir != ANY) {
                log_dirs.insert(Replica { broker: *broker, of: of.clone() }, dir.to_owned());
            }
        }
        partitions.push((of, replicas));
    }
    Ok((partitions, log_dirs))
}

/// What is there more than once.
pub fn duplicates<'a, T: Ord + 'a>(of: impl IntoIterator<Item = &'a T>) -> BTreeSet<&'a T> {
    let mut seen = BTreeSet::new();
    of.into_iter().filter(|one| !seen.insert(*one)).collect()
}

#[derive(Serialize)]
struct PlanJson<'a> {
    version: i32,
    partitions: Vec<PartitionJson<'a>>,
}

#[derive(Serialize)]
struct PartitionJson<'a> {
    topic: &'a str,
    partition: i32,
    replicas: &'a [i32],
    log_dirs: Vec<&'static str>,
}

impl<'a> PartitionJson<'a> {
    fn new(of: &'a TopicPartition, replicas: &'a [i32]) -> PartitionJson<'a> {
        PartitionJson { topic: &of.topic, partition: of.partition, replicas, log_dirs: vec![ANY; replicas.len()] }
    }
}

/// A file that [`Plan::parse`] reads, each replica in any directory.
pub fn format(assignment: &Assignment) -> anyhow::Result<String> {
    let partitions = assignment.iter().map(|(of, replicas)| PartitionJson::new(of, replicas)).collect();
    Ok(serde_json::to_string(&PlanJson { version: 1, partitions })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"{"version":1,"partitions":[
        {"topic":"t","partition":1,"replicas":[2,3],"log_dirs":["any","/data"]},
        {"topic":"t","partition":0,"replicas":[1]}]}"#;

    #[test]
    fn a_plan_is_written_as_kafka_writes_it_and_read_back() {
        let plan = Plan::parse_to_execute(TWO).unwrap();
        let written = format(&plan.partitions).unwrap();
        assert_eq!(
            written,
            "{\"version\":1,\"partitions\":[{\"topic\":\"t\",\"partition\":0,\"replicas\":[1],\"log_dirs\":[\"any\"]},\
             {\"topic\":\"t\",\"partition\":1,\"replicas\":[2,3],\"log_dirs\":[\"any\",\"any\"]}]}"
        );
        assert_eq!(Plan::parse(&written).unwrap().partitions, plan.partitions);
        let dirs: Vec<_> = plan.log_dirs.iter().map(|(replica, dir)| (replica.to_string(), dir.as_str())).collect();
        assert_eq!(dirs, [("t-1-3".to_owned(), "/data")]);
    }

    #[test]
    fn a_plan_that_cannot_be_carried_out_is_refused() {
        let partition = |replicas: &str| format!(r#"{{"topic":"t","partition":0,"replicas":{replicas}}}"#);
        let plan = |partitions: &str| format!(r#"{{"partitions":[{partitions}]}}"#);
        for (text, why) in [
            (plan(""), "Partition reassignment list cannot be empty"),
            (plan(&partition("[]")), "Partition replica list cannot be empty"),
            (
                plan(&[partition("[1]"), partition("[2]")].join(",")),
                "Partition reassignment contains duplicate topic partitions: t-0",
            ),
            (
                plan(&partition("[1,2,1,2,3]")),
                "Partition replica lists may not contain duplicate entries: t-0 contains multiple entries for 1,2",
            ),
            (
                plan(r#"{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any"]}"#),
                "Size of replicas list [1, 2] is different from size of log dirs list [any] for partition t-0",
            ),
            (r#"{"version":2}"#.to_owned(), "Not supported version field value 2"),
            (plan(&partition("[\"1\"]")), "Expected Int value, received \"1\""),
        ] {
            assert_eq!(Plan::parse_to_execute(&text).unwrap_err().to_string(), why, "{text}");
        }
        assert_eq!(Plan::parse("{}").unwrap().partitions, Assignment::new());
    }
}
