//! Of two committed transactions each may have read what the other wrote only if both read what was not committed yet.
//! An edge is what was read, never who wrote first: Kafka lets writes of transactions interleave (KIP-98 isolates
//! readers), so that orders of writes may form a circle and contradict nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::event::{End, Partition, Poll, Polled};
use crate::story::{At, Story};
use crate::verdict::{Fact, Violation};

/// Who reads what whom: the transaction that wrote, the one that read, and how that is known.
type Edges<'a> = BTreeMap<&'a str, BTreeMap<&'a str, (&'a Partition, &'a At<Poll>, &'a Polled)>>;

pub fn judge(story: &Story) -> Vec<Violation> {
    let edges = edges(story);
    let mut found: Vec<Violation> = Vec::new();
    let mut told = BTreeSet::new();
    for start in in_circles(&edges) {
        if told.contains(start) {
            continue;
        }
        if let Some(circle) = shortest(&edges, start) {
            told.extend(circle.iter().copied());
            found.push(violation(&edges, &circle));
        }
    }
    found
}

fn edges(story: &Story) -> Edges<'_> {
    let committed = |transaction: &str| story.end(transaction) == End::Committed;
    let mut writers: HashMap<(&Partition, &str), &str> = HashMap::new();
    for (partition, scene) in &story.scenes {
        for send in &scene.sends {
            if let Some(transaction) = send.transaction.as_deref().filter(|one| committed(one)) {
                writers.insert((partition, &send.value), transaction);
            }
        }
    }
    let mut edges = Edges::new();
    for (partition, scene) in &story.scenes {
        for (poll, record) in scene.read() {
            let Some(reader) = poll.transaction.as_deref().filter(|one| committed(one)) else { continue };
            let Some(&writer) = writers.get(&(partition, record.value.as_str())) else { continue };
            if writer != reader {
                edges.entry(writer).or_default().entry(reader).or_insert((partition, poll, record));
            }
        }
    }
    edges
}

/// What is left when those that read of nobody left are taken away, one after the other.
fn in_circles<'a>(edges: &Edges<'a>) -> BTreeSet<&'a str> {
    let mut left: BTreeSet<&str> = edges.iter().flat_map(|(writer, to)| to.keys().chain([writer])).copied().collect();
    let mut writers: HashMap<&str, usize> = HashMap::new();
    for &reader in edges.values().flat_map(BTreeMap::keys) {
        *writers.entry(reader).or_default() += 1;
    }
    let mut free: Vec<&str> = left.iter().copied().filter(|node| !writers.contains_key(node)).collect();
    while let Some(node) = free.pop() {
        left.remove(node);
        for &reader in edges.get(node).into_iter().flat_map(BTreeMap::keys) {
            if let Some(more) = writers.get_mut(reader) {
                *more -= 1;
                if *more == 0 {
                    free.push(reader);
                }
            }
        }
    }
    left
}

/// The shortest way from a transaction back to itself.
fn shortest<'a>(edges: &Edges<'a>, start: &'a str) -> Option<Vec<&'a str>> {
    let mut came_from: HashMap<&str, &str> = HashMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for &next in edges.get(node).into_iter().flat_map(BTreeMap::keys) {
            if next == start {
                let mut circle = vec![node];
                while let Some(&before) = came_from.get(circle[circle.len() - 1]) {
                    circle.push(before);
                }
                circle.reverse();
                return Some(circle);
            }
            if !came_from.contains_key(next) {
                came_from.insert(next, node);
                queue.push_back(next);
            }
        }
    }
    None
}

fn violation(edges: &Edges<'_>, circle: &[&str]) -> Violation {
    let next = circle.iter().cycle().skip(1);
    let fact = |(writer, reader): (&&str, &&str)| -> Option<Fact> {
        let (partition, poll, record) = edges.get(writer)?.get(reader)?;
        Some(poll.fact(format!("{reader} read {} of {partition}, which {writer} wrote", record.value)))
    };
    Violation {
        says: format!("{} have read one another's records", circle.join(" and ")),
        facts: circle.iter().zip(next).filter_map(fact).collect(),
    }
}
