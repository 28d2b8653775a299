//! Tests of a Go package: compiled into a program, and what that says.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::Finding;
use crate::cache::{fetch, made, sources};
use crate::lanes::checks::Verdict;
use crate::proc::{self, tail, tool};

pub struct Built {
    /// The tests.
    pub program: PathBuf,
    /// The package's sources: where `go test` runs its tests.
    pub folder: PathBuf,
    /// Where further programs lie, under their names.
    pub programs: PathBuf,
}

/// Compiles the tests of `package`, of the version that `go/MODULE/go.mod` pins, and `programs` beside them, each under a name
/// of its own.
pub fn build(module: &str, package: &str, tags: &[&str], programs: &[(&str, &str)]) -> Result<Built> {
    let go = tool("go")?;
    let folder = sources().join("go").join(module);
    let mut stamp = format!("{package} {tags:?} {programs:?}\n");
    for file in ["go.mod", "go.sum"] {
        stamp += &fs::read_to_string(folder.join(file)).with_context(|| file.to_owned())?;
    }
    let command = || {
        let mut command = Command::new(&go);
        command.current_dir(&folder).env("GOFLAGS", "-buildvcs=false -mod=readonly");
        command
    };
    let tags = format!("-tags={}", tags.join(","));
    let dir = made(module, &stamp, |dir| {
        let compile = |words: &[&str], out: &Path, package: &str| {
            fetch(|| {
                let mut command = command();
                command.args(words).arg("-o").arg(out).arg(package);
                command
            })
        };
        compile(&["test", &tags, "-c"], &dir.join("tests"), package)?;
        programs.iter().try_for_each(|(name, package)| compile(&["build"], &dir.join(name), package))
    })?;
    let listed = proc::run(command().args(["list", "-f", "{{.Dir}}", package]), b"", Duration::from_secs(120))?.ok()?;
    Ok(Built { program: dir.join("tests"), folder: PathBuf::from(listed.out().trim()), programs: dir })
}

/// A finding for each test that has no tests below it. One that began and did not end has failed.
pub fn findings(said: &str, piece: &str) -> Vec<Finding> {
    let mut units: BTreeMap<String, Option<(Verdict, Duration)>> = BTreeMap::new();
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    for line in &lines {
        if let Some(name) = line.strip_prefix("=== RUN ") {
            units.entry(name.trim().to_owned()).or_default();
        }
        let Some(ended) = line.strip_prefix("--- ") else { continue };
        let Some((verdict, rest)) = ended.split_once(": ") else { continue };
        let (name, took) = rest.split_once(" (").unwrap_or((rest, ""));
        let took = Duration::from_secs_f32(took.trim_end_matches("s)").parse().unwrap_or_default());
        let verdict = match verdict {
            "PASS" => Verdict::Passed,
            "SKIP" => Verdict::Skipped(why(&lines, name)),
            _ => Verdict::Failed(why(&lines, name)),
        };
        units.insert(name.to_owned(), Some((verdict, took)));
    }
    if units.is_empty() {
        let verdict = Verdict::Failed(tail(said, 5));
        return vec![Finding { unit: piece.to_owned(), verdict, took: Duration::ZERO }];
    }
    let parents: Vec<String> = units.keys().cloned().collect();
    let passed =
        |ended: &Option<(Verdict, Duration)>| matches!(ended, Some((Verdict::Passed | Verdict::Skipped(_), _)));
    let all_below_passed =
        |name: &str| units.iter().filter(|(other, _)| is_below(other, name)).all(|(_, ended)| passed(ended));
    let mut findings = Vec::new();
    for name in &parents {
        let ended = &units[name];
        let has_below = parents.iter().any(|other| is_below(other, name));
        // A parent counts by what lies below it, unless it alone failed.
        if has_below && (passed(ended) || !all_below_passed(name)) {
            continue;
        }
        let (verdict, took) =
            ended.clone().unwrap_or_else(|| (Verdict::Failed(format!("no end: {}", tail(said, 3))), Duration::ZERO));
        findings.push(Finding { unit: name.clone(), verdict, took });
    }
    findings
}

fn is_below(name: &str, parent: &str) -> bool {
    name.strip_prefix(parent).is_some_and(|rest| rest.starts_with('/'))
}

/// What the test said last of itself before its verdict.
fn why(lines: &[&str], name: &str) -> String {
    let mut current = "";
    let mut said = "";
    for line in lines {
        match line.strip_prefix("=== ") {
            Some(turn) => current = turn.split_whitespace().last().unwrap_or_default(),
            None if current == name && line.contains("_test.go:") && !line.contains(" deleting ") => said = line,
            None => {}
        }
    }
    said.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "=== RUN   TestA
=== RUN   TestA/one
=== RUN   TestA/two
    a_test.go:3: broker has no X
--- FAIL: TestA (2.00s)
    --- PASS: TestA/one (1.50s)
    --- SKIP: TestA/two (0.00s)
=== RUN   TestB
=== RUN   TestB/one
panic: test timed out";

    #[test]
    fn a_parent_is_judged_when_it_failed_alone_and_what_never_ended_has_failed() {
        let found = findings(SAID, "TestA");
        let names: Vec<&str> = found.iter().map(|finding| finding.unit.as_str()).collect();
        assert_eq!(names, ["TestA", "TestA/one", "TestA/two", "TestB/one"]);
        assert!(matches!(found[0].verdict, Verdict::Failed(_)));
        assert!(matches!(found[1].verdict, Verdict::Passed));
        assert!(matches!(&found[2].verdict, Verdict::Skipped(why) if why == "a_test.go:3: broker has no X"));
        assert!(matches!(&found[3].verdict, Verdict::Failed(why) if why.contains("timed out")));
    }
}
