//! `scores/chaos.md`: what the full form came to, fault by fault.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};

use super::Told;
use crate::broker::On;
use crate::cache;
use crate::lanes::scores::commit;

pub struct Row {
    name: &'static str,
    /// Seen, the two times and the count; or why it failed.
    cells: Result<[String; 4], String>,
}

impl Row {
    pub fn of(name: &'static str, result: &Result<Told>) -> Row {
        let cells = match result {
            Ok(told) => {
                let [all, one] = told.stood_still.map(|still| format!("{:.1}", still.as_secs_f32()));
                Ok([told.shown_by.clone(), all, one, told.acknowledged.to_string()])
            }
            // The first line says what, the rest shows it.
            Err(error) => Err(format!("{error:#}").lines().nth(1).unwrap_or("see its history").to_owned()),
        };
        Row { name, cells }
    }
}

/// Only of a Klamm: nothing else is judged by it.
pub fn write(rows: &[Row], on: &On) -> Result<()> {
    if *on != On::Klamm {
        return Ok(());
    }
    let path = cache::sources().join("scores/chaos.md");
    let sound = rows.iter().filter(|row| row.cells.is_ok()).count();
    let mut text = format!(
        "# Faults, full form\n\n`compat-tests full chaos` on Klamm, commit {}: {sound} of {} sound.\n\n\
         Three brokers and three ZooKeeper servers, each in a network namespace of its own; sessions of 4 s,\n\
         `replica.lag.time.max.ms` 1000, three replicas, `min.insync.replicas` 2 (1 for acks=1). An idempotent producer\n\
         writes with acks=all and another one with acks=1 to three partitions each; every partition is read by hand, and\n\
         one topic by a group that commits. After each fault all replicas are read from their files, and the history is\n\
         judged. Times are the longest without an acknowledgement in any partition; sessions of 4 s are in them.\n\n\
         | fault | seen of it | acks=all stood still, s | acks=1 stood still, s | acknowledged | |\n\
         |---|---|---|---|---|---|\n",
        commit(),
        rows.len(),
    );
    for Row { name, cells } in rows {
        let line = match cells {
            Ok(cells) => format!("{} | sound", cells.join(" | ")),
            Err(why) => format!(" | | | | **failed**: {}", why.replace('|', "\\|")),
        };
        let _ = writeln!(text, "| {name} | {line} |");
    }
    fs::write(&path, text).with_context(|| path.display().to_string())
}
