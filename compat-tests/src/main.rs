//! `compat-tests light|full LANE...`: chosen lanes by hand. `KLAMM_TWIN=kafka` is `--on kafka`.

use std::path::PathBuf;
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
    /// Light forms, with what is said kept as seeds for the fuzz targets.
    Record,
}

#[derive(Parser)]
struct Args {
    which: Which,
    /// All lanes when empty.
    lanes: Vec<String>,
    /// `klamm`, `kafka`, or the address of a running broker.
    #[arg(long, env = "KLAMM_TWIN", default_value = "klamm")]
    on: On,
    /// Where `record` puts the seeds.
    #[arg(long, default_value = "target/recorded")]
    into: PathBuf,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let form = match args.which {
        Which::Light => Form::Light,
        Which::Full => Form::Full,
        Which::List => {
            for lane in compat_tests::lanes::ALL {
                println!("{:<19} {}", lane.name, lane.what);
            }
            return ExitCode::SUCCESS;
        }
        Which::Record => {
            return match compat_tests::record::record(&args.into, &args.lanes, &args.on) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("{error:#}");
                    ExitCode::FAILURE
                }
            };
        }
    };
    compat_tests::run_lanes(&args.lanes, form, &args.on)
}
