//! `compat-tests light|full LANE...`: chosen lanes by hand.

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use compat_tests::broker::On;
use compat_tests::lane::Form;

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    /// What `cargo test` runs.
    Light,
    /// Whole forms.
    Full,
    /// Names the lanes.
    List,
}

#[derive(Parser)]
struct Args {
    which: Which,
    /// All lanes when empty.
    lanes: Vec<String>,
    /// `klamm`, `kafka`, or the address of a running broker.
    #[arg(long, default_value = "klamm")]
    on: On,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let form = match args.which {
        Which::Light => Form::Light,
        Which::Full => Form::Full,
        Which::List => {
            for lane in compat_tests::lanes::ALL {
                println!("{:<14} {}", lane.name, lane.what);
            }
            return ExitCode::SUCCESS;
        }
    };
    compat_tests::run_lanes(&args.lanes, form, &args.on)
}
