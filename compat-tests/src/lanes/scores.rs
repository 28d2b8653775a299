//! `scores/LANE.md`: what a full run came to, unit by unit. Of a real Kafka, `scores/LANE-kafka.md`.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::broker::On;
use crate::lane::{Outcome, Run, Unit};
use crate::{cache, proc};

pub fn write(run: &Run) -> Result<()> {
    let (file, broker) = match &run.on {
        On::Klamm => (format!("{}.md", run.lane), format!("Klamm, commit {}", commit())),
        On::Kafka => (format!("{}-kafka.md", run.lane), "Apache Kafka 3.9.1 in ZooKeeper mode".to_owned()),
        On::At(_) => return Ok(()),
    };
    let path = cache::sources().join("scores").join(file);
    fs::write(&path, table(run, &broker)).with_context(|| path.display().to_string())
}

fn table(run: &Run, broker: &str) -> String {
    let mut text = head(run.lane, broker, &run.units) + "\n| unit | | s |\n|---|---|---|\n";
    let mut units: Vec<_> = run.units.iter().collect();
    units.sort_by(|a, b| a.name.cmp(&b.name));
    for unit in units {
        let (mut said, seconds) = match &unit.outcome {
            Outcome::Passed => ("passed".to_owned(), format!("{:.1}", unit.took.as_secs_f32())),
            Outcome::Failed(why) | Outcome::Violated(why) => {
                (format!("**failed**: {why}"), format!("{:.1}", unit.took.as_secs_f32()))
            }
            Outcome::Skipped(why) => (format!("**skipped**: {why}"), String::new()),
            Outcome::LeftOut(why) => (format!("left out: {why}"), String::new()),
        };
        if let Some(before) = &unit.before {
            let _ = write!(said, "; the first time, beside others: {before}");
        }
        let said = without_folders(&said).replace('|', "\\|").replace('\n', " ");
        let _ = writeln!(text, "| {} | {said} | {seconds} |", unit.name);
    }
    text
}

fn head(lane: &str, broker: &str, units: &[Unit]) -> String {
    let count = |wanted: fn(&Outcome) -> bool| units.iter().filter(|unit| wanted(&unit.outcome)).count();
    let passed = count(|outcome| matches!(outcome, Outcome::Passed));
    let failed = count(|outcome| matches!(outcome, Outcome::Failed(_) | Outcome::Violated(_) | Outcome::Skipped(_)));
    let left_out = count(|outcome| matches!(outcome, Outcome::LeftOut(_)));
    let mut text = format!(
        "# {lane}, full form\n\n`compat-tests full {lane}` on {broker}: {passed} passed, {failed} failed, {left_out} left out.\n"
    );
    match (failed, left_out) {
        (0, 0) => text += "Every unit passed.\n",
        (0, _) => text += "Every unit passed or is on the list of what is left out, with its reason.\n",
        _ => {}
    }
    text
}

/// Of files named by their whole paths only the last name stays: where the run was made is nobody's concern.
fn without_folders(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('/') {
        let (before, path) = rest.split_at(at);
        let end = path.find(|c: char| c.is_whitespace() || "\"'`(),;:|".contains(c)).unwrap_or(path.len());
        let inside_word = before.ends_with(|c: char| c.is_alphanumeric() || "._-:/".contains(c));
        let whole = !inside_word && path[1..end].contains('/');
        out.push_str(before);
        out.push_str(if whole { path[..end].rsplit('/').next().unwrap_or_default() } else { &path[..end] });
        rest = &path[end..];
    }
    out + rest
}

/// Of the sources this program was built from.
pub fn commit() -> String {
    let mut command = Command::new("git");
    command.args(["describe", "--always", "--dirty"]).current_dir(cache::sources());
    match proc::run(&mut command, b"", Duration::from_secs(10)) {
        Ok(output) if output.status.success() => output.out().trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_says_that_all_is_accounted_for_only_when_it_is() {
        let unit = |outcome| Unit { name: "u".to_owned(), outcome, before: None, took: Duration::ZERO };
        let says = |units: &[Unit]| {
            let head = head("lane", "broker", units);
            (
                head.contains("on broker: 1 passed"),
                head.contains("Every unit passed.\n"),
                head.contains("with its reason.\n"),
            )
        };
        let (passed, left_out) = (unit(Outcome::Passed), unit(Outcome::LeftOut("why".to_owned())));
        assert_eq!(says(std::slice::from_ref(&passed)), (true, true, false));
        assert_eq!(says(&[passed, left_out]), (true, false, true));
        for bad in [Outcome::Failed("why".to_owned()), Outcome::Skipped("why".to_owned())] {
            let (passed, left_out) = (unit(Outcome::Passed), unit(Outcome::LeftOut("why".to_owned())));
            assert_eq!(says(&[passed, left_out, unit(bad)]), (true, false, false));
        }
    }

    #[test]
    fn whole_paths_lose_their_folders_and_nothing_else_changes() {
        assert_eq!(without_folders("panicked at /a/b/src/c.rs:7:1 ('/d/e')"), "panicked at c.rs:7:1 ('e')");
        for kept in ["tests/test_admin.rs:3", "GET / or /topics", "http://host/a/b", "3 of 4/5"] {
            assert_eq!(without_folders(kept), kept);
        }
    }
}
