//! kafka-python: 2.0.2, which a great many applications still pin, and 3.0.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::checks;
use crate::cache::{sources, venv};
use crate::lane::Run;

/// Codecs that kafka-python leaves to the user.
const CODECS: [&str; 3] = ["python-snappy==0.7.3", "lz4==4.4.3", "zstandard==0.23.0"];

pub fn lane(run: &mut Run) -> Result<()> {
    let address = run.address()?;
    let records = if run.full() { "30000" } else { "1500" };
    for (version, more) in [("2.0.2", Some("six==1.17.0")), ("3.0.12", None)] {
        let package = format!("kafka-python=={version}");
        let mut packages = vec![package.as_str()];
        packages.extend(CODECS);
        packages.extend(more);
        let python = venv(&format!("kafka-python-{version}"), &packages)?;
        checks::count(run, version, Duration::from_secs(240), |attempt| {
            let mut command = Command::new(&python);
            let prefix = format!("py-{version}-{}-{attempt}", std::process::id());
            command.arg(sources().join("python/client.py")).args([&address, &prefix, records]);
            Ok(command)
        })?;
    }
    Ok(())
}
