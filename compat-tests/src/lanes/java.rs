//! Java `kafka-clients`: what 3.9.1 and 4.1.0 do, and the transactions of every line from 0.11 to 4.2.

use std::time::Duration;

use anyhow::Result;

use super::checks::{self, Program};
use crate::cache;
use crate::lane::Run;

/// The last of a line each. The light form plays the ends.
const TRANSACTIONS: [&str; 8] = ["0.11.0.3", "1.1.1", "2.0.1", "2.5.1", "2.8.2", "3.3.2", "3.9.1", "4.2.0"];

pub fn lane(run: &mut Run) -> Result<()> {
    for (version, pom) in [("3.9.1", "kafka-3.9.1"), ("4.1.0", "clients-4.1.0")] {
        program(run, version, "Client", pom)?;
    }
    let ends = [TRANSACTIONS[0], TRANSACTIONS[TRANSACTIONS.len() - 1]];
    for version in if run.full() { &TRANSACTIONS[..] } else { &ends } {
        program(run, &format!("transactions-{version}"), "Transactions", &format!("clients-{version}"))?;
    }
    Ok(())
}

/// Compiles `java/CLASS.java` against the jars of a POM and counts its checks.
fn program(run: &mut Run, what: &str, class: &str, pom: &str) -> Result<()> {
    let class_path = cache::java_program(&format!("{class}.java"), pom)?;
    let program = Program { what, records: (3_000, 100_000), limit: Duration::from_secs(300) };
    checks::count(run, &program, || {
        let mut command = cache::java(&class_path)?;
        command.arg(class);
        Ok(command)
    })
}
