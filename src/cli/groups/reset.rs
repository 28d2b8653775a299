//! `--reset-offsets`: new offsets for groups without members, shown, exported or committed.

use std::collections::BTreeMap;

use anyhow::bail;

use super::describe::group;
use super::strategy::{Offsets, Strategy};
use super::table::left;
use super::{Args, csv, groups_meant, say_error, scope, usage};
use crate::cli::admin::Admin;
use crate::types::TopicPartition;

pub fn reset(args: &Args, admin: &mut Admin) -> anyhow::Result<()> {
    if !args.all_topics && args.topic.is_empty() && args.from_file.is_none() {
        return Err(usage("One of the reset scopes should be defined: --all-topics, --topic."));
    }
    let strategy = Strategy::chosen(args)?;
    let several_groups = args.all_groups || args.group.len() > 1;
    let mut plans = BTreeMap::new();
    for id in groups_meant(args, admin)? {
        let state = group(admin, &id)?.state;
        if state != "Empty" && state != "Dead" {
            say_error(&format!(
                "Assignments can only be reset if the group '{id}' is inactive, but the current state is {state}."
            ));
            continue;
        }
        let partitions = partitions(args, &id, admin)?;
        let offsets = strategy.offsets(&id, &partitions, several_groups, admin)?;
        if args.execute && !offsets.is_empty() {
            admin.commit(&id, &offsets)?;
        }
        plans.insert(id, offsets);
    }
    match args.export {
        true => println!("{}", exported(&plans, several_groups)),
        false => print!("{}", table(&plans)),
    }
    Ok(())
}

/// From a file the partitions are its own.
fn partitions(args: &Args, group: &str, admin: &mut Admin) -> anyhow::Result<Vec<TopicPartition>> {
    if args.all_topics {
        return Ok(admin.committed(group)?.into_keys().collect());
    }
    let scope = scope::resolve(&args.topic, admin)?;
    match scope.missing.first() {
        Some((topic, code)) => bail!("topic {topic}: {code}"),
        None => Ok(scope.partitions),
    }
}

fn rows(plans: &BTreeMap<String, Offsets>) -> impl Iterator<Item = (&str, &TopicPartition, i64)> {
    plans.iter().flat_map(|(group, offsets)| offsets.iter().map(move |(of, offset)| (group.as_str(), of, *offset)))
}

fn exported(plans: &BTreeMap<String, Offsets>, with_groups: bool) -> String {
    rows(plans).map(|(group, of, offset)| csv::line(with_groups.then_some(group), of, offset)).collect()
}

fn table(plans: &BTreeMap<String, Offsets>) -> String {
    let line = |group: &str, topic: &str, partition: &str, offset: &str| {
        format!("{} {} {} {}\n", left(group, 30), left(topic, 30), left(partition, 10), left(offset, 15))
    };
    let mut out = String::from("\n") + &line("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET");
    for (group, of, offset) in rows(plans) {
        out += &line(group, &of.topic, &of.partition.to_string(), &offset.to_string());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_a_table_or_lines() {
        let of = |topic: &str, partition| TopicPartition::new(topic, partition);
        let plans = BTreeMap::from([
            ("g".to_owned(), Offsets::from([(of("a", 0), 7), (of("a", 1), 8)])),
            ("h".to_owned(), Offsets::from([(of("b", 0), 9)])),
        ]);
        assert_eq!(
            table(&plans),
            "\nGROUP                          TOPIC                          PARTITION  NEW-OFFSET     \n\
             g                              a                              0          7              \n\
             g                              a                              1          8              \n\
             h                              b                              0          9              \n"
        );
        assert_eq!(exported(&plans, true), "g,a,0,7\ng,a,1,8\nh,b,0,9\n");
        assert_eq!(exported(&plans, false), "a,0,7\na,1,8\nb,0,9\n");
    }
}
