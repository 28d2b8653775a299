//! Every lane in its light form, as part of `cargo test --workspace`. Arguments that are no options choose lanes.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--list") {
        for lane in compat_tests::lanes::ALL {
            println!("{}: test", lane.name);
        }
        return ExitCode::SUCCESS;
    }
    let names: Vec<String> = args.into_iter().filter(|arg| !arg.starts_with('-')).collect();
    compat_tests::run_lanes(&names, compat_tests::lane::Form::Light, &compat_tests::broker::On::Klamm)
}
