//! Where `--reset-offsets` puts a group: each strategy asks the cluster what it must know and answers an offset per partition.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, anyhow};

use super::{Args, csv, say_error, usage, when};
use crate::cli::admin::{Admin, EARLIEST, LATEST};
use crate::clock::{Clock, SystemClock};
use crate::types::TopicPartition;

pub type Offsets = BTreeMap<TopicPartition, i64>;

/// How new offsets are found.
#[derive(Debug, PartialEq, Eq)]
pub enum Strategy {
    Earliest,
    Latest,
    /// What is committed; the end where nothing is.
    Current,
    Offset(i64),
    ShiftBy(i64),
    /// The first record at least as late, ms since the epoch.
    Timestamp(i64),
    Plans(csv::Plans),
}

impl Strategy {
    /// An usage error when none is chosen.
    pub fn chosen(args: &Args) -> anyhow::Result<Strategy> {
        Ok(if args.to_earliest {
            Strategy::Earliest
        } else if args.to_latest {
            Strategy::Latest
        } else if args.to_current {
            Strategy::Current
        } else if let Some(offset) = args.to_offset {
            Strategy::Offset(offset)
        } else if let Some(by) = args.shift_by {
            Strategy::ShiftBy(by)
        } else if let Some(text) = &args.to_datetime {
            Strategy::Timestamp(when::datetime_ms(text)?)
        } else if let Some(text) = &args.by_duration {
            let now_ms = SystemClock::default().wall_ms();
            Strategy::Timestamp(now_ms.saturating_sub(when::duration_ms(text)?))
        } else if let Some(path) = &args.from_file {
            let text = fs::read_to_string(path).with_context(|| format!("Unable to read file {}", path.display()))?;
            Strategy::Plans(csv::parse(&text)?)
        } else {
            return Err(usage(
                "Option '[reset-offsets]' requires one of the following scenarios: [[to-offset], [to-current], \
                 [to-datetime], [from-file], [by-duration], [to-earliest], [to-latest], [shift-by]]",
            ));
        })
    }

    /// The new offsets of `partitions`, or, from a file, of those it names. All lie within the log.
    pub fn offsets(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        several_groups: bool,
        admin: &mut Admin,
    ) -> anyhow::Result<Offsets> {
        let all = |offset: i64| partitions.iter().map(|of| (of.clone(), offset)).collect();
        match self {
            Strategy::Earliest => admin.all_offsets(partitions, EARLIEST),
            Strategy::Latest => admin.all_offsets(partitions, LATEST),
            Strategy::Current => {
                let committed = admin.committed(group)?;
                let without = partitions.iter().filter(|of| !committed.contains_key(of));
                let mut offsets = admin.all_offsets(without, LATEST)?;
                offsets.extend(partitions.iter().filter_map(|of| Some((of.clone(), *committed.get(of)?))));
                Ok(offsets)
            }
            Strategy::Offset(offset) => within_log(all(*offset), admin),
            Strategy::ShiftBy(by) => {
                let committed = admin.committed(group)?;
                let shifted = partitions.iter().map(|of| match committed.get(of) {
                    Some(offset) => Ok((of.clone(), offset.saturating_add(*by))),
                    None => Err(usage(format!(
                        "Cannot shift offset for partition {of} since there is no current committed offset"
                    ))),
                });
                within_log(shifted.collect::<anyhow::Result<_>>()?, admin)
            }
            Strategy::Timestamp(timestamp) => at_timestamp(partitions, *timestamp, admin),
            Strategy::Plans(plans) => {
                let named = plans.get(&Some(group.to_owned()));
                match named.or(plans.get(&None).filter(|_| !several_groups)) {
                    Some(plan) => within_log(plan.clone(), admin),
                    None => {
                        say_error(&format!("No reset plan for group {group} found"));
                        Ok(Offsets::new())
                    }
                }
            }
        }
    }
}

/// Before the log's start means its start, behind its end its end; either is told.
fn within_log(mut offsets: Offsets, admin: &mut Admin) -> anyhow::Result<Offsets> {
    let starts = admin.all_offsets(offsets.keys(), EARLIEST)?;
    let ends = admin.all_offsets(offsets.keys(), LATEST)?;
    for (of, offset) in &mut offsets {
        let bounds = starts.get(of).zip(ends.get(of));
        let (start, end) = bounds.ok_or_else(|| anyhow!("the broker says nothing of {of}"))?;
        let (bound, side) = match *offset {
            wanted if wanted > *end => (end, "higher than latest"),
            wanted if wanted < *start => (start, "lower than earliest"),
            _ => continue,
        };
        eprintln!("New offset ({offset}) is {side} offset for topic partition {of}. Value will be set to {bound}");
        *offset = *bound;
    }
    Ok(offsets)
}

fn at_timestamp(partitions: &[TopicPartition], timestamp: i64, admin: &mut Admin) -> anyhow::Result<Offsets> {
    // Times before the epoch would read as names of offsets.
    let mut offsets = admin.all_offsets(partitions, timestamp.max(0))?;
    let late: Vec<TopicPartition> =
        offsets.iter().filter(|(_, offset)| **offset < 0).map(|(of, _)| of.clone()).collect();
    for of in &late {
        println!(
            "\nWarn: Partition {} from topic {} is empty. Falling back to latest known offset.",
            of.partition, of.topic
        );
    }
    offsets.extend(admin.all_offsets(&late, LATEST)?);
    Ok(offsets)
}
