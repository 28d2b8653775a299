//! The broker as it is released. The one that cargo builds beside a bench has what only tests want in it: the simulator,
//! and a tokio whose clock can be stopped.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::drive::Outcome;
use crate::progress::say;

/// Builds it in a directory of its own, so that the two do not take turns in being rebuilt.
pub fn build() -> Outcome<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = root.join("target").join("load");
    say("building klamm");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.current_dir(root).args(["build", "--release", "--bin", "klamm", "--target-dir"]).arg(&target);
    // Stdout is for the table.
    if build.stdout(Stdio::null()).status()?.success() {
        Ok(target.join("release").join("klamm"))
    } else {
        Err("klamm does not build".into())
    }
}
