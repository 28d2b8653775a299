//! The load harness: runs the limit program, Klamm and, when told where its jars are, Apache Kafka in turn, and prints
//! each figure with its ratio to the limit of the same run.
//!
//! `cargo bench --bench load [-- --rounds 3 --rows produce,fetch --kafka-jars DIR --klamm BINARY]`
//! Results are printed, never a verdict.

mod connection;
mod meter;
mod rows;
#[path = "../limits/server.rs"]
mod server;
mod target;
mod wire;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use rows::Figures;
use target::{Kind, Target};

/// Ratios of Klamm to the limits of this machine.
#[derive(Parser)]
struct Args {
    /// Times each row runs on each target; the median is printed with the range.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Comma-separated: produce, produce-all, fetch, idle, start.
    #[arg(long, default_value = "start,idle,produce,produce-all,fetch")]
    rows: String,
    /// The broker to measure.
    #[arg(long, default_value = "target/release/klamm")]
    klamm: PathBuf,
    /// Directory with the jars of Apache Kafka 3.9, to measure it beside.
    #[arg(long)]
    kafka_jars: Option<PathBuf>,
    /// How the limit program answers fetches: pread or sendfile.
    #[arg(long, default_value = "sendfile")]
    send: String,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let outcome = match args.get(1).map(String::as_str) {
        Some("limit-server") => server::from_args(&args[2..]),
        _ => compare(&Args::parse()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("load: {why}");
            ExitCode::FAILURE
        }
    }
}

/// (row, figure, target) to the values of all rounds.
type Table = BTreeMap<(usize, String, &'static str, usize), Vec<f64>>;

fn compare(args: &Args) -> Result<(), Box<dyn Error>> {
    let mut kinds = vec![Kind::Limit { send: args.send.clone() }, Kind::Klamm(args.klamm.clone())];
    kinds.extend(args.kafka_jars.clone().map(Kind::Kafka));
    println!("{}", machine());
    let mut table = Table::new();
    for round in 1..=args.rounds {
        for (index, row) in args.rows.split(',').enumerate() {
            for (column, kind) in kinds.iter().enumerate() {
                touch_memory();
                match measure(row, kind) {
                    Ok(figures) => {
                        for (figure, value) in figures {
                            table.entry((index, row.to_string(), figure, column)).or_default().push(value);
                        }
                    }
                    Err(why) => println!("round {round}: {row} on {}: {why}", kind.name()),
                }
            }
        }
    }
    print(&table, &kinds);
    Ok(())
}

fn measure(row: &str, kind: &Kind) -> Result<Figures, Box<dyn Error>> {
    let target = Target::start(kind)?;
    if row != "start" {
        connection::wait_for(&target.addr, std::time::Duration::from_secs(60))?;
    }
    match row {
        "start" => rows::start(&target),
        "idle" => rows::idle(&target),
        "produce" => rows::produce(&target, 1),
        "produce-all" => rows::produce(&target, -1),
        "fetch" => rows::fetch(&target),
        other => Err(format!("no row {other}").into()),
    }
}

/// Pages a virtual machine gave back to its host cost ten times a warm write to touch again: take them now.
fn touch_memory() {
    let mut pages = vec![0u8; 3 << 30];
    pages.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    std::hint::black_box(&pages);
}

fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or_default();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{cores} x {}, kernel {}", model.trim_start_matches([' ', '\t', ':']), kernel.trim())
}

fn print(table: &Table, kinds: &[Kind]) {
    println!("\n| row | figure | target | median | min..max | ratio to P |");
    println!("|---|---|---|---|---|---|");
    for ((index, row, figure, column), values) in table {
        let limit = table.get(&(*index, row.clone(), *figure, 0)).map(|v| median(v));
        let value = median(values);
        let (low, high) = values.iter().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
        let ratio = limit.map_or(String::from("–"), |limit| format!("{:.2}", value / limit));
        let name = kinds[*column].name();
        println!("| {row} | {figure} | {name} | {value:.2} | {low:.2}..{high:.2} | {ratio} |");
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
