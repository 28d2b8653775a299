//! The Python clients: kafka-python in 2.0.2, which a great many applications still pin, and 3.0; aiokafka;
//! confluent-kafka.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::checks::{self, Program};
use crate::cache::{sources, venv};
use crate::lane::Run;

/// Codecs that kafka-python leaves to the user.
const CODECS: [&str; 3] = ["python-snappy==0.7.3", "lz4==4.4.3", "zstandard==0.23.0"];

pub fn kafka_python(run: &mut Run) -> Result<()> {
    let [snappy, lz4, zstd] = CODECS;
    client(run, "2.0.2", "kafka_python.py", &["kafka-python==2.0.2", snappy, lz4, zstd, "six==1.17.0"])?;
    client(run, "3.0.12", "kafka_python.py", &["kafka-python==3.0.12", snappy, lz4, zstd])
}

pub fn aiokafka(run: &mut Run) -> Result<()> {
    client(run, "0.14.0", "aio_kafka.py", &["aiokafka==0.14.0", "cramjam==2.14.0"])?;
    if run.full() {
        client(run, "0.11.0", "aio_kafka.py", &["aiokafka==0.11.0", "cramjam==2.14.0"])?;
    }
    Ok(())
}

pub fn confluent_kafka(run: &mut Run) -> Result<()> {
    client(run, "2.16.1", "confluent.py", &["confluent-kafka==2.16.1"])?;
    if run.full() {
        client(run, "2.2.0", "confluent.py", &["confluent-kafka==2.2.0"])?;
    }
    Ok(())
}

/// Runs `python/FILE` with exactly these packages.
fn client(run: &mut Run, version: &str, file: &str, packages: &[&str]) -> Result<()> {
    let python = venv(&format!("{}-{version}", run.lane), packages)?;
    let program = Program { what: version, records: (1_500, 30_000), limit: Duration::from_secs(240) };
    checks::count(run, &program, || {
        let mut command = Command::new(&python);
        // No compiled copies beside the sources.
        command.arg("-B").arg(sources().join("python").join(file));
        Ok(command)
    })
}
