//! What a history comes to, with no more of it than shows why.

use std::fmt;

/// A line of the history, and what of it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// From 1.
    pub line: usize,
    pub says: String,
}

/// Facts that can not be true together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub says: String,
    pub facts: Vec<Fact>,
}

/// What one check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub check: &'static str,
    pub violations: Vec<Violation>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing contradicts what was promised.
    Sound,
    Violated(Vec<Finding>),
    /// It proves nothing, for these reasons.
    Invalid(Vec<String>),
}

/// Of what one check finds this much is printed; the rest is counted.
const SHOWN: usize = 3;

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Sound => writeln!(f, "sound"),
            Verdict::Invalid(reasons) => reasons.iter().try_for_each(|why| writeln!(f, "invalid: {why}")),
            Verdict::Violated(findings) => {
                for Finding { check, violations } in findings {
                    for violation in violations.iter().take(SHOWN) {
                        writeln!(f, "violated: {check}: {}", violation.says)?;
                        for fact in &violation.facts {
                            writeln!(f, "    line {}: {}", fact.line, fact.says)?;
                        }
                    }
                    if violations.len() > SHOWN {
                        writeln!(f, "    and {} more of {check}", violations.len() - SHOWN)?;
                    }
                }
                Ok(())
            }
        }
    }
}
