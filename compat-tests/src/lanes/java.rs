//! Java `kafka-clients` 3.9.1 and 4.1.0.

use std::time::Duration;

use anyhow::Result;

use super::checks::{self, Program};
use crate::cache;
use crate::lane::Run;

pub fn lane(run: &mut Run) -> Result<()> {
    for (version, pom) in [("3.9.1", "kafka-3.9.1"), ("4.1.0", "clients-4.1.0")] {
        let class_path = cache::java_program("Client.java", pom)?;
        let program = Program { what: version, records: (3_000, 100_000), limit: Duration::from_secs(300) };
        checks::count(run, &program, || {
            let mut command = cache::java(&class_path)?;
            command.arg("Client");
            Ok(command)
        })?;
    }
    Ok(())
}
