//! The `klamm` binary: flags to configuration to run.

fn main() -> std::process::ExitCode {
    klamm::cli::main()
}
