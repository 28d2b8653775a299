//! `history FILE...`: judges each history. Exit status 0 when all are sound, 1 when one is violated, 2 when one can not be
//! read or proves nothing.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use history::judge;
use history::verdict::Verdict;

/// Judges histories of a cluster.
#[derive(Parser)]
struct Args {
    /// Files of JSON lines.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let mut worst = 0;
    for path in Args::parse().files {
        let verdict = File::open(&path).map_err(Into::into).and_then(|file| judge(BufReader::new(file)));
        let status = match say(&path, verdict) {
            Ok(Verdict::Sound) => 0,
            Ok(Verdict::Violated(_)) => 1,
            Ok(Verdict::Invalid(_)) => 2,
            Err(why) => {
                eprintln!("history: {why:#}");
                2
            }
        };
        // A violation is worse than what could not be read.
        worst = if status == 1 || worst == 1 { 1 } else { worst.max(status) };
    }
    ExitCode::from(worst)
}

fn say(path: &std::path::Path, verdict: Result<Verdict>) -> Result<Verdict> {
    let verdict = verdict.with_context(|| path.display().to_string())?;
    print!("{}: {verdict}", path.display());
    Ok(verdict)
}
