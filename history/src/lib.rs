//! Judges a run of a cluster by its history: JSON lines of what clients sent and were told, of what was done to the
//! cluster, and of what each replica holds at the end.
//!
//! ```text
//!  event    one line                      story    all lines, by partition, client and transaction
//!  checks   what must hold of a story     verdict  what does not, with the facts that show it
//! ```
//!
//! A check never guesses: what a client was not told is unknown, and an unknown outcome contradicts nothing by itself.
//! A history in which nothing happened proves nothing and is `invalid`, not `sound`.

pub mod checks;
pub mod event;
pub mod story;
pub mod verdict;

use std::io::BufRead;

use anyhow::Result;

use story::Story;
use verdict::{Finding, Verdict};

/// Reads a history and judges it. An error where a line is no event.
pub fn judge(lines: impl BufRead) -> Result<Verdict> {
    Ok(judge_story(&Story::read(lines)?))
}

/// What contradicts itself is violated even where the run shows nothing else.
pub fn judge_story(story: &Story) -> Verdict {
    let findings: Vec<Finding> = checks::ALL
        .iter()
        .map(|check| Finding { check: check.name, violations: (check.judge)(story) })
        .filter(|finding| !finding.violations.is_empty())
        .collect();
    if !findings.is_empty() {
        return Verdict::Violated(findings);
    }
    match story.shows_nothing() {
        why if why.is_empty() => Verdict::Sound,
        why => Verdict::Invalid(why),
    }
}
