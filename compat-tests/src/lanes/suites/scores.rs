//! `scores/LANE.md`: what a full run came to, unit by unit. Of a real Kafka, `scores/LANE-kafka.md`.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::broker::On;
use crate::lane::{Outcome, Run};
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
    let count = |wanted: fn(&Outcome) -> bool| run.units.iter().filter(|unit| wanted(&unit.outcome)).count();
    let mut text = format!(
        "# {}, full form\n\n`compat-tests full {}` on {broker}: {} passed, {} failed, {} left out.\n\n| unit | | s |\n|---|---|---|\n",
        run.lane,
        run.lane,
        count(|outcome| matches!(outcome, Outcome::Passed)),
        count(|outcome| matches!(outcome, Outcome::Failed(_) | Outcome::Skipped(_))),
        count(|outcome| matches!(outcome, Outcome::LeftOut(_))),
    );
    let mut units: Vec<_> = run.units.iter().collect();
    units.sort_by(|a, b| a.name.cmp(&b.name));
    for unit in units {
        let (mut said, seconds) = match &unit.outcome {
            Outcome::Passed => ("passed".to_owned(), format!("{:.1}", unit.took.as_secs_f32())),
            Outcome::Failed(why) => (format!("**failed**: {why}"), format!("{:.1}", unit.took.as_secs_f32())),
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
fn commit() -> String {
    let mut command = Command::new("git");
    command.args(["describe", "--always", "--dirty"]).current_dir(cache::sources());
    match proc::run(&mut command, b"", Duration::from_secs(10)) {
        Ok(output) if output.status.success() => output.out().trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::without_folders;

    #[test]
    fn whole_paths_lose_their_folders_and_nothing_else_changes() {
        assert_eq!(without_folders("panicked at /a/b/src/c.rs:7:1 ('/d/e')"), "panicked at c.rs:7:1 ('e')");
        for kept in ["tests/test_admin.rs:3", "GET / or /topics", "http://host/a/b", "3 of 4/5"] {
            assert_eq!(without_folders(kept), kept);
        }
    }
}
