//! Java `kafka-clients` 3.9.1 and 4.1.0.

use std::time::Duration;

use anyhow::Result;

use super::checks;
use crate::cache;
use crate::lane::Run;

pub fn lane(run: &mut Run) -> Result<()> {
    let address = run.address()?;
    let records = if run.full() { "100000" } else { "3000" };
    for (version, pom) in [("3.9.1", "kafka-3.9.1"), ("4.1.0", "clients-4.1.0")] {
        let class_path = cache::java_program("Client.java", pom)?;
        checks::count(run, version, Duration::from_secs(300), |attempt| {
            let mut command = cache::java(&class_path)?;
            let prefix = format!("java-{version}-{}-{attempt}", std::process::id());
            command.args(["Client", &address, &prefix, records]);
            Ok(command)
        })?;
    }
    Ok(())
}
