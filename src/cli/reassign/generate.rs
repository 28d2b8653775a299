//! `--generate`: a plan for topics and the brokers that may have them, placed as if the topics were new.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{anyhow, bail};
use serde_json::Value;

use super::cluster::Cluster;
use super::plan::{self, Assignment, duplicates};
use super::{Args, joined, read};
use crate::cli::json;
use crate::controller::placement::{Candidate, Start, place};
use crate::random::{Random, SystemRandom};
use crate::types::{BrokerId, TopicPartition};

pub fn generate(args: &Args, cluster: &mut Cluster) -> anyhow::Result<()> {
    let text = read(args.topics_to_move_json_file.as_deref())?;
    let ids = broker_list(args.broker_list.as_deref().unwrap_or_default())?;
    let topics = topics(&text)?;
    let current = cluster.assignment_of_all(&topics.iter().map(String::as_str).collect())?;
    let candidates = candidates(cluster.brokers()?, &ids, args.disable_rack_aware)?;
    let proposed = propose(&current, &candidates, &SystemRandom)?;
    println!("Current partition replica assignment\n{}\n", plan::format(&current)?);
    println!("Proposed partition reassignment configuration\n{}", plan::format(&proposed)?);
    Ok(())
}

fn broker_list(text: &str) -> anyhow::Result<BTreeSet<i32>> {
    let id = |id: &str| id.parse().map_err(|_| anyhow!("For input string: \"{id}\""));
    let ids = text.split(',').map(id).collect::<anyhow::Result<Vec<i32>>>()?;
    let twice = duplicates(&ids);
    if !twice.is_empty() {
        bail!("Broker list contains duplicate entries: [{}]", joined(twice).replace(',', ", "));
    }
    Ok(ids.into_iter().collect())
}

fn topics(text: &str) -> anyhow::Result<BTreeSet<String>> {
    let Ok(file) = serde_json::from_str::<Value>(text) else { bail!("The input string is not a valid JSON") };
    json::check_version(&file)?;
    let list = json::object(&file)?.get("topics").map(json::array).transpose()?;
    let name = |topic| Ok(json::string(json::field(topic, "topic")?)?.to_owned());
    let names = list.into_iter().flatten().map(name).collect::<anyhow::Result<Vec<String>>>()?;
    let twice = duplicates(&names);
    if !twice.is_empty() {
        bail!("List of topics to reassign contains duplicate entries: [{}]", joined(twice).replace(',', ", "));
    }
    Ok(names.into_iter().collect())
}

/// Those of the brokers that are listed and live.
fn candidates(
    live: BTreeMap<i32, Option<String>>,
    listed: &BTreeSet<i32>,
    without_racks: bool,
) -> anyhow::Result<Vec<Candidate>> {
    let candidate = |(id, rack): (i32, Option<String>)| {
        let rack = rack.filter(|_| !without_racks);
        Candidate { id: BrokerId(id), rack }
    };
    let found: Vec<Candidate> = live.into_iter().filter(|(id, _)| listed.contains(id)).map(candidate).collect();
    let rackless = found.iter().filter(|broker| broker.rack.is_none()).count();
    if rackless != 0 && rackless != found.len() {
        bail!(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica assignment \
             without rack information."
        );
    }
    Ok(found)
}

/// Each topic keeps its number of partitions, and of replicas what its first partition has.
fn propose(current: &Assignment, candidates: &[Candidate], random: &dyn Random) -> anyhow::Result<Assignment> {
    let mut topics: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (of, replicas) in current {
        topics.entry(&of.topic).or_insert((0, replicas.len())).0 += 1;
    }
    let mut proposed = Assignment::new();
    for (topic, (partitions, replicas)) in topics {
        let start = Start::random(random, candidates.len());
        for (partition, placed) in (0..).zip(place(candidates, partitions, replicas, start)?) {
            let placed = placed.into_iter().map(|id| id.0).collect();
            proposed.insert(TopicPartition::new(topic, partition), placed);
        }
    }
    Ok(proposed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;

    #[test]
    fn brokers_and_topics_are_named_once() {
        assert_eq!(broker_list("3,1").unwrap(), BTreeSet::from([1, 3]));
        for (text, why) in [
            ("1,x", "For input string: \"x\""),
            ("", "For input string: \"\""),
            ("1,2,2,1", "Broker list contains duplicate entries: [1, 2]"),
        ] {
            assert_eq!(broker_list(text).unwrap_err().to_string(), why, "{text}");
        }
        assert_eq!(topics(r#"{"topics":[{"topic":"b"},{"topic":"a"}],"version":1}"#).unwrap().len(), 2);
        for (text, why) in [
            ("{", "The input string is not a valid JSON"),
            (
                r#"{"topics":[{"topic":"b"},{"topic":"b"}]}"#,
                "List of topics to reassign contains duplicate entries: [b]",
            ),
            (r#"{"topics":[{}]}"#, "No such field exists: `topic`"),
        ] {
            assert_eq!(topics(text).unwrap_err().to_string(), why, "{text}");
        }
    }

    #[test]
    fn racks_are_known_of_all_or_of_none() {
        let live = || BTreeMap::from([(1, Some("a".to_owned())), (2, None), (3, None)]);
        assert!(candidates(live(), &BTreeSet::from([1, 2]), false).is_err());
        assert_eq!(candidates(live(), &BTreeSet::from([1, 2]), true).unwrap().len(), 2);
        assert_eq!(candidates(live(), &BTreeSet::from([2, 3, 9]), false).unwrap().len(), 2);
    }

    #[test]
    fn topics_keep_their_size() {
        let of = |topic: &str, partition| TopicPartition::new(topic, partition);
        let current = Assignment::from([(of("a", 0), vec![1, 2]), (of("a", 1), vec![1, 2]), (of("b", 0), vec![1])]);
        let candidates: Vec<_> = (4..7).map(|id| Candidate { id: BrokerId(id), rack: None }).collect();
        let proposed = propose(&current, &candidates, &SeededRandom::new(1)).unwrap();
        let shape = |assignment: &Assignment| {
            assignment.iter().map(|(of, replicas)| (of.clone(), replicas.len())).collect::<Vec<_>>()
        };
        assert_eq!(shape(&proposed), shape(&current));
        assert!(proposed.values().flatten().all(|id| (4..7).contains(id)));
        assert!(propose(&current, &candidates[..1], &SeededRandom::new(1)).is_err());
    }
}
