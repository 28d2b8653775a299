//! The load harness: runs the limit program, Klamm and, when told where its jars are, Apache Kafka in turn, and prints
//! each figure with its ratio to the limit of the same run, beside what is asked of it.
//!
//! `cargo bench --bench load -- --rounds 3 --rows 1,fetch,start --kafka-jars DIR --json FILE`
//! Results are printed, never a verdict. Each row checks that offsets are complete and contents are what was sent; one
//! that fails is a line below the table.

mod admin;
mod cluster;
mod connection;
mod cores;
mod drive;
mod figure;
mod fingerprint;
mod fleet;
#[path = "../limits/machine/mod.rs"]
mod machine;
mod meter;
mod orphans;
mod process;
mod progress;
mod release;
mod report;
mod rows;
mod wire;
mod zookeeper;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use drive::Outcome;
use figure::Sheet;
use fingerprint::Fingerprint;
use fleet::{Fleet, Who};
use machine::server::Mode;
use progress::say;
use report::{Line, Values};
use rows::{Rival, Row, Sizes};

/// Ratios of Klamm to the limits of this machine.
#[derive(Parser)]
struct Args {
    /// Times each row runs on each server; medians are printed with their range.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Comma-separated: numbers, names, or beginnings of names as in `produce`. All when absent.
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Names all rows and what they do, and ends.
    #[arg(long)]
    list: bool,
    /// The broker to measure. A release build of this tree, made first, when absent.
    #[arg(long)]
    klamm: Option<PathBuf>,
    /// Directory with the jars of Apache Kafka 3.9, to measure it beside.
    #[arg(long)]
    kafka_jars: Option<PathBuf>,
    /// Writes everything to this file as JSON too.
    #[arg(long)]
    json: Option<PathBuf>,
    /// How the limit program answers fetches: pread, sendfile or mmap. Klamm's own way by default.
    #[arg(long, default_value = "sendfile", value_parser = Mode::parse)]
    sender: Mode,
    /// Seconds that a row is measured which runs by time.
    #[arg(long, default_value_t = 2.0)]
    secs: f64,
    /// GB in the deep log of row 14.
    #[arg(long, default_value_t = 10.0)]
    deep_gb: f64,
    /// Most partitions of a topic in row 13.
    #[arg(long, default_value_t = 10_000)]
    partitions: i32,
    /// Where data directories are made: the disk that is measured.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
    /// Leaves out the table of limits above the rows.
    #[arg(long)]
    no_limits: bool,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let outcome = match args.get(1).map(String::as_str) {
        Some("limit-server") => machine::server::from_args(&args[2..]),
        _ => compare(Args::parse()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("load: {why}");
            ExitCode::FAILURE
        }
    }
}

fn compare(args: Args) -> Outcome<()> {
    let sizes = Sizes { secs: args.secs, deep_gb: args.deep_gb, partitions: args.partitions };
    let mut rows = rows::all(sizes);
    if !args.rows.is_empty() {
        if let Some(word) = args.rows.iter().find(|word| !rows.iter().any(|row| row.is_called(word))) {
            return Err(format!("no row {word}; --list names them").into());
        }
        rows.retain(|row| args.rows.iter().any(|word| row.is_called(word)));
    }
    if args.list {
        rows.iter().for_each(|row| println!("{:3} {:16} {}", row.number, row.id, row.what));
        return Ok(());
    }
    let klamm = args.klamm.map_or_else(release::build, Ok)?;
    orphans::end_with_us()?;
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, maximum: files.maximum })?;
    let machine = Fingerprint::take();
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    println!("{}\n", report::preamble(&machine.line(), &arguments, args.sender.name()));
    let limits = if args.no_limits { Vec::new() } else { machine::table(&args.dir)? };
    limits.iter().for_each(|line| println!("{line}"));
    cores::pin()?;

    let mut fleet = Fleet::new(klamm, args.kafka_jars, args.sender, args.dir)?;
    let (mut lines, mut failures) = (Vec::new(), Vec::new());
    println!("\n{}", report::HEAD);
    for (i, row) in rows.iter().enumerate() {
        say(&format!("{} of {}: {}, {}", i + 1, rows.len(), row.id, row.what));
        for line in run(row, &mut fleet, args.rounds, &mut failures) {
            println!("{}", line.markdown());
            lines.push(line);
        }
    }
    println!("\n{}", report::sum(&lines));
    failures.iter().for_each(|failure| println!("- failed: {failure}"));
    if let Some(path) = args.json {
        let all = serde_json::json!({
            "machine": machine, "rounds": args.rounds, "sender": args.sender.name(), "limits": limits,
            "rows": lines, "failures": failures,
        });
        std::fs::write(path, serde_json::to_string_pretty(&all)?)?;
    }
    Ok(())
}

/// All rounds of a row, servers in turn.
fn run(row: &Row, fleet: &mut Fleet, rounds: usize, failures: &mut Vec<String>) -> Vec<Line> {
    let rounds = if row.rounds { rounds } else { 1 };
    let mut values = Values::new();
    let mut measure = |fleet: &mut Fleet, who: Who, round: usize| {
        say(&format!("  round {round}: {}", who.name()));
        touch_memory(row.touched_gb);
        let mut sheet = Sheet::new(&row.figures);
        if let Err(why) = (row.measure)(fleet, who, &mut sheet) {
            let failure = format!("{} on {}, round {round}: {why}", row.id, who.name());
            say(&failure);
            failures.push(failure);
        }
        for (figure, value) in sheet.values {
            values.entry((who, figure)).or_default().push(value);
        }
    };
    let kafka = if fleet.kafka_jars.is_some() { row.rival } else { Rival::Never };
    for round in 1..=rounds {
        if row.limit {
            measure(fleet, Who::Limit, round);
        }
        measure(fleet, Who::Klamm, round);
        if kafka == Rival::EachRound {
            measure(fleet, Who::Kafka, round);
        }
    }
    fleet.end_row(Who::Klamm);
    if kafka == Rival::Once {
        measure(fleet, Who::Kafka, 1);
    }
    fleet.end_row(Who::Kafka);
    report::lines(row, &values)
}

/// Pages a virtual machine gave back to its host cost ten times a warm write to touch again: take them now.
fn touch_memory(gb: f64) {
    let mut pages = vec![0u8; (gb * 1e9) as usize];
    pages.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    std::hint::black_box(&pages);
}
