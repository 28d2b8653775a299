//! Who reads committed records is given all of a transaction or nothing of it, and nothing of an aborted one. What is made
//! of an input within transactions that commit the input's offset is made exactly once.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::event::{End, Partition, Poll, Send};
use crate::story::{At, Scene, Story};
use crate::verdict::{Fact, Violation};

pub fn judge(story: &Story) -> Vec<Violation> {
    let seen = Seen::of(story);
    let mut found = aborted(&seen, story);
    found.extend(halves(&seen, story));
    found.extend(twice(&seen, story));
    found.extend(never(&seen, story));
    found
}

type Given<'a> = (&'a Partition, &'a At<Send>, &'a At<Poll>);

/// What those who read committed records were given of each transaction, and what they passed over.
#[derive(Default)]
struct Seen<'a> {
    given: BTreeMap<&'a str, Vec<Given<'a>>>,
    passed: BTreeMap<&'a str, Vec<Given<'a>>>,
    values: HashSet<&'a str>,
}

impl<'a> Seen<'a> {
    fn of(story: &'a Story) -> Seen<'a> {
        let mut seen = Seen::default();
        for (partition, scene) in &story.scenes {
            seen.add(partition, scene);
        }
        seen
    }

    fn add(&mut self, partition: &'a Partition, scene: &'a Scene) {
        let in_transaction = |send: &&At<Send>| send.transaction.is_some();
        let sent: HashMap<&str, &At<Send>> =
            scene.sends.iter().filter(in_transaction).map(|send| (send.value.as_str(), send)).collect();
        let log = scene.leader.as_ref();
        let held = |send: &'a At<Send>| Some((log?.keeps(send)?, send));
        let mut by_offset: Vec<(i64, &At<Send>)> = scene.sends.iter().filter(in_transaction).filter_map(held).collect();
        by_offset.sort_by_key(|(offset, _)| *offset);
        for poll in scene.all_polls().filter(|poll| poll.read_committed) {
            let values: HashSet<&str> = poll.records.iter().map(|record| record.value.as_str()).collect();
            self.values.extend(&values);
            for send in values.iter().filter_map(|value| sent.get(value)) {
                let transaction = send.transaction.as_deref().unwrap_or_default();
                self.given.entry(transaction).or_default().push((partition, send, poll));
            }
            let from = by_offset.partition_point(|(offset, _)| *offset < poll.position);
            let range = by_offset[from..].iter().take_while(|(offset, _)| *offset < poll.next);
            for (_, send) in range.filter(|(_, send)| !values.contains(send.value.as_str())) {
                let transaction = send.transaction.as_deref().unwrap_or_default();
                self.passed.entry(transaction).or_default().push((partition, send, poll));
            }
        }
    }
}

fn read(partition: &Partition, send: &Send, poll: &At<Poll>) -> Fact {
    poll.fact(format!("{} read {} of {partition}", poll.client, send.value))
}

fn aborted(seen: &Seen<'_>, story: &Story) -> Vec<Violation> {
    let ended = seen.given.iter().filter(|(transaction, _)| story.end(transaction) == End::Aborted);
    ended
        .flat_map(|(transaction, given)| given.iter().map(move |one| (transaction, one)))
        .map(|(transaction, (partition, send, poll))| Violation {
            says: format!("{} of the aborted transaction {transaction} was read as committed", send.value),
            facts: story
                .transactions
                .get(*transaction)
                .map(|it| it.fact(format!("{transaction} is aborted")))
                .into_iter()
                .chain([read(partition, send, poll)])
                .collect(),
        })
        .collect()
}

fn halves(seen: &Seen<'_>, story: &Story) -> Vec<Violation> {
    let open = seen.given.iter().filter(|(transaction, _)| story.end(transaction) != End::Aborted);
    open.filter_map(|(transaction, given)| {
        let (partition, send, poll) = given.first()?;
        let (other, passed, by) = seen.passed.get(transaction)?.first()?;
        Some(Violation {
            says: format!("only a part of the transaction {transaction} was read as committed"),
            facts: vec![
                read(partition, send, poll),
                by.fact(format!("{} read over {} of {other}", by.client, passed.value)),
            ],
        })
    })
    .collect()
}

/// Outputs that count: of a transaction that has committed, or that somebody was given as committed.
fn outputs<'a>(seen: &Seen<'_>, story: &'a Story) -> BTreeMap<(&'a str, &'a str), Vec<&'a At<Send>>> {
    let mut made: BTreeMap<_, Vec<&At<Send>>> = BTreeMap::new();
    for (partition, scene) in &story.scenes {
        let log = scene.leader.as_ref();
        let held: Option<HashSet<&str>> = log.map(|log| log.values().map(|(value, _)| value).collect());
        for send in &scene.sends {
            let (Some(input), Some(transaction)) = (&send.input, &send.transaction) else { continue };
            let counts = match story.end(transaction) {
                // Where nobody looked at the log, it is taken for whole.
                End::Committed => held.as_ref().is_none_or(|held| held.contains(send.value.as_str())),
                End::Aborted => false,
                End::Unknown => seen.values.contains(send.value.as_str()),
            };
            if counts {
                made.entry((input.as_str(), partition.topic.as_str())).or_default().push(send);
            }
        }
    }
    made
}

fn twice(seen: &Seen<'_>, story: &Story) -> Vec<Violation> {
    let made = outputs(seen, story);
    made.iter()
        .filter(|(_, outputs)| outputs.len() > 1)
        .map(|((input, topic), outputs)| Violation {
            says: format!("{input} was consumed {} times into {topic}", outputs.len()),
            facts: outputs
                .iter()
                .map(|send| send.fact(format!("{} made {} of it and committed", send.client, send.value)))
                .collect(),
        })
        .collect()
}

/// Inputs that a transaction's offset has passed and of which nothing was made.
fn never(seen: &Seen<'_>, story: &Story) -> Vec<Violation> {
    let made = outputs(seen, story);
    let consumed: HashSet<&str> = made.keys().map(|(input, _)| *input).collect();
    let mut found = Vec::new();
    for (partition, scene) in &story.scenes {
        let committed = |transaction: &Option<String>| {
            transaction.as_ref().is_some_and(|transaction| story.end(transaction) == End::Committed)
        };
        let ends = scene.commits.iter().filter(|commit| committed(&commit.transaction));
        let Some(last) = ends.max_by_key(|commit| commit.offset) else { continue };
        let from = scene.all_polls().filter(|poll| poll.group.as_ref() == Some(&last.group)).map(|poll| poll.position);
        let Some(from) = from.min() else { continue };
        let mut inputs: BTreeMap<i64, (&str, usize)> = BTreeMap::new();
        for (poll, record) in scene.read() {
            if poll.group.as_ref() == Some(&last.group) && (from..last.offset).contains(&record.offset) {
                inputs.entry(record.offset).or_insert((&record.value, poll.line));
            }
        }
        for (offset, (value, line)) in inputs.into_iter().filter(|(_, (value, _))| !consumed.contains(value)) {
            found.push(Violation {
                says: format!("{value} of {partition} was consumed and nothing was made of it"),
                facts: vec![
                    Fact { line, says: format!("{} was given {value} at offset {offset}", last.group) },
                    last.fact(format!("{} committed {} with a transaction", last.client, last.offset)),
                ],
            });
        }
    }
    found
}
