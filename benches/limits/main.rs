//! The limit program, "P": what this machine does with no broker in the way. Every figure of the broker is a ratio to it.
//!
//! `cargo bench --bench limits` measures each limit once and prints a table. The `load` bench prints the same table above
//! its rows and runs [`machine::server`] as the process that a broker is compared with.

mod machine;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let outcome = match args.first().map(String::as_str) {
        Some("server") => machine::server::from_args(&args[1..]),
        None => machine::table(&std::env::temp_dir()).map(|lines| lines.iter().for_each(|line| println!("{line}"))),
        Some(other) => Err(format!("no limit {other}; usage: limits [server ADDR DIR MODE]").into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("limits: {why}");
            ExitCode::FAILURE
        }
    }
}
