//! Suites that the makers of clients wrote for their own clients, run whole against one broker, or several.
//!
//! ```text
//!  pieces --a process each--> findings --on the list?--> left out, with its reason
//!                                |  +--passed----------> passed
//!                                +--failed--> its piece again, alone --> both results
//! ```
//!
//! A unit that is not judged stands in `left-out/LANE.toml`; one that skips itself and does not stand there has
//! failed. The light form plays a few cheap pieces; the full form plays all and writes `scores/LANE.md`.

mod go_tests;
mod kafka_python;
mod kgo;
mod left_out;
mod librdkafka;
mod rdkafka;
mod sarama;
mod several;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};

use super::checks::Verdict;
use super::scores;
use crate::lane::{Outcome, Run};
use left_out::LeftOut;

pub use kafka_python::lane as kafka_python;
pub use kgo::{lane as kgo, three as kgo_three};
pub use librdkafka::{lane as librdkafka, three as librdkafka_three};
pub use rdkafka::lane as rdkafka;
pub use sarama::lane as sarama;
pub use several::on_three;

/// What became of one unit.
struct Finding {
    unit: String,
    verdict: Verdict,
    took: Duration,
}

trait Suite: Sync {
    /// Everything there is, each a process of its own.
    fn pieces(&self) -> Vec<String>;

    /// The pieces of the light form.
    fn light(&self) -> &'static [&'static str];

    /// How many pieces are played at once in the full form.
    fn at_once(&self) -> usize;

    /// Plays one piece to its end; a finding for each of its units.
    fn play(&self, piece: &str) -> Result<Vec<Finding>>;
}

/// Plays the lane's suite in its form and judges every unit.
fn judge(run: &mut Run, suite: &dyn Suite) -> Result<()> {
    let mut left_out = LeftOut::read(run.lane)?;
    let all = suite.pieces();
    let pieces: Vec<String> = if run.full() {
        all
    } else {
        let light = suite.light();
        if let Some(stranger) = light.iter().find(|piece| !all.iter().any(|known| known == *piece)) {
            return Err(anyhow!("the suite has no {stranger}"));
        }
        light.iter().map(|piece| piece.to_string()).collect()
    };
    let mut played = Vec::new();
    for piece in pieces {
        match left_out.reason(&piece) {
            Some(reason) => run.judged(piece, Outcome::LeftOut(reason), None, Duration::ZERO),
            None => played.push(piece),
        }
    }
    let at_once = if run.full() { suite.at_once() } else { 1 };
    let mut failed = Vec::new();
    each(suite, &played, at_once, |piece, findings| {
        for finding in findings {
            match outcome(&mut left_out, &finding) {
                Outcome::Failed(reason) => {
                    println!("FAIL  {}: {}: {reason}", run.lane, finding.unit);
                    failed.push((piece.to_owned(), finding.unit, reason));
                }
                other => run.judged(finding.unit, other, None, finding.took),
            }
        }
    });
    for (piece, unit, before) in failed {
        for again in second_time(&piece, &unit, play(suite, &piece)) {
            let second = outcome(&mut left_out, &again);
            run.judged(again.unit, second, Some(before.clone()), again.took);
        }
    }
    if run.full() {
        let stale = left_out.unused();
        run.settled(
            "what is left out is there",
            stale.is_empty().then_some(()).ok_or_else(|| anyhow!("no such units: {}", stale.join(", "))),
        );
        scores::write(run)?;
    }
    Ok(())
}

/// What the piece of a failed unit says of it when it is played again. A piece that could not be played was a unit itself;
/// when it can, all its units are judged for the first time.
fn second_time(piece: &str, unit: &str, mut findings: Vec<Finding>) -> Vec<Finding> {
    if unit != piece {
        findings.retain(|finding| finding.unit == unit);
    }
    if findings.is_empty() {
        let verdict = Verdict::Failed("not reached when run alone".to_owned());
        findings.push(Finding { unit: unit.to_owned(), verdict, took: Duration::ZERO });
    }
    findings
}

/// Plays the pieces, so many at once, and says what was found as each one ends.
fn each(suite: &dyn Suite, pieces: &[String], at_once: usize, mut found: impl FnMut(&str, Vec<Finding>)) {
    let (next, (ended, findings)) = (AtomicUsize::new(0), mpsc::channel());
    thread::scope(|scope| {
        for _ in 0..at_once {
            let (next, ended) = (&next, ended.clone());
            scope.spawn(move || {
                while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // The other end is there until every sender is gone.
                    let _ = ended.send((piece, play(suite, piece)));
                }
            });
        }
        drop(ended);
        for (piece, findings) in findings {
            found(piece, findings);
        }
    });
}

/// Plays one piece; one that cannot be played is a failed unit of its own name.
fn play(suite: &dyn Suite, piece: &str) -> Vec<Finding> {
    let started = Instant::now();
    let findings = suite.play(piece).and_then(|findings| {
        ensure!(!findings.is_empty(), "nothing was run");
        Ok(findings)
    });
    findings.unwrap_or_else(|error| {
        let verdict = Verdict::Failed(format!("{error:#}").replace('\n', " "));
        vec![Finding { unit: piece.to_owned(), verdict, took: started.elapsed() }]
    })
}

fn outcome(left_out: &mut LeftOut, finding: &Finding) -> Outcome {
    if let Some(reason) = left_out.reason(&finding.unit) {
        return Outcome::LeftOut(reason);
    }
    match &finding.verdict {
        Verdict::Passed => Outcome::Passed,
        Verdict::Failed(why) => Outcome::Failed(why.clone()),
        Verdict::Skipped(why) => Outcome::Failed(format!("skips itself: {why}")),
    }
}

/// The folder in which cargo keeps the sources of a crate that this one depends on.
fn crate_sources(name: &str) -> Result<std::path::PathBuf> {
    let mut command = Command::new(crate::proc::tool("cargo")?);
    command.args(["metadata", "--format-version", "1", "--locked"]).current_dir(crate::cache::sources());
    let output = crate::proc::run(&mut command, b"", Duration::from_secs(300))?.ok()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let manifest =
        packages.iter().find(|package| package["name"] == name).and_then(|found| found["manifest_path"].as_str());
    let folder = manifest.and_then(|manifest| Path::new(manifest).parent());
    folder.map(Path::to_path_buf).ok_or_else(|| anyhow!("cargo knows no crate {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_units_of_a_piece_that_could_not_be_played_are_judged_when_it_can() {
        let played = || {
            let passed = |unit: &str| Finding { unit: unit.to_owned(), verdict: Verdict::Passed, took: Duration::ZERO };
            vec![passed("a"), passed("b")]
        };
        let units = |unit: &str| -> Vec<(String, bool)> {
            let again = second_time("file", unit, played());
            again.into_iter().map(|one| (one.unit, matches!(one.verdict, Verdict::Passed))).collect()
        };
        assert_eq!(units("file"), [("a".to_owned(), true), ("b".to_owned(), true)]);
        assert_eq!(units("b"), [("b".to_owned(), true)]);
        assert_eq!(units("gone"), [("gone".to_owned(), false)]);
    }
}
