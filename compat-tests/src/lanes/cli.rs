//! Klamm's own commands: against the broker, and beside Kafka's tools where both print the same.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::cli_groups;
use super::java_tools::JavaTools;
use crate::broker::klamm;
use crate::lane::Run;
use crate::proc::{self, Output};

const LIMIT: Duration = Duration::from_secs(60);

struct Cli {
    program: std::path::PathBuf,
    java: JavaTools,
    address: String,
}

impl Cli {
    /// `klamm COMMAND --bootstrap-server … ARGS`.
    fn klamm(&self, command: &str, args: &[&str], input: &[u8]) -> Result<Output> {
        let mut program = Command::new(&self.program);
        program.args([command, "--bootstrap-server", &self.address]).args(args);
        proc::run(&mut program, input, LIMIT)
    }

    /// The same arguments to Klamm under the name of Kafka's tool and to its TopicCommand: exit code and standard output
    /// must be equal.
    fn same_topics(&self, args: &[&str]) -> Result<()> {
        let mut program = Command::new(&self.program);
        program.arg0("kafka-topics.sh").args(["--bootstrap-server", &self.address]).args(args);
        let ours = proc::run(&mut program, b"", LIMIT)?;
        let given = [&["--bootstrap-server", self.address.as_str()][..], args].concat();
        let theirs = self.java.run("org.apache.kafka.tools.TopicCommand", &given)?;
        ensure!(ours.status.code() == Some(theirs.code), "{} and {}{}", ours.all(), theirs.out, theirs.err);
        ensure!(ours.out() == theirs.out, "klamm prints\n{}Kafka's tool\n{}", ours.out(), theirs.out);
        Ok(())
    }
}

pub fn lane(run: &mut Run) -> Result<()> {
    let cli = Cli { program: klamm()?, java: JavaTools::start()?, address: run.address()? };
    let topic = |what: &str| format!("cli-{}-{what}", std::process::id());
    let (made, piped, keyed) = (topic("made"), topic("piped"), topic("keyed"));

    run.settled("topics: create", {
        let args = ["--create", "--topic", &made, "--partitions", "3", "--config", "retention.ms=7200000"];
        cli.klamm("topics", &args, b"").and_then(|output| {
            let out = output.ok()?.out();
            ensure!(out.contains(&format!("Created topic {made}.")), "{out}");
            Ok(())
        })
    });
    run.unit("topics: described and listed as by Kafka's tool", || {
        cli.same_topics(&["--describe", "--topic", &made])?;
        cli.same_topics(&["--list", "--exclude-internal"])?;
        cli.same_topics(&["--describe", "--topic", &made, "--under-replicated-partitions"])
    });
    run.unit("topics: what exists and what does not", || {
        let again = cli.klamm("topics", &["--create", "--topic", &made], b"")?;
        ensure!(!again.status.success() && again.all().contains("already exists"), "{}", again.all());
        cli.klamm("topics", &["--create", "--topic", &made, "--if-not-exists"], b"")?.ok()?;
        let gone = cli.klamm("topics", &["--describe", "--topic", &topic("absent")], b"")?;
        ensure!(!gone.status.success() && gone.all().contains("does not exist"), "{}", gone.all());
        Ok(())
    });
    run.settled("topics: alter", {
        let args = ["--alter", "--topic", &made, "--partitions", "5"];
        cli.klamm("topics", &args, b"").and_then(Output::ok).and_then(|_| {
            let out = cli.klamm("topics", &["--describe", "--topic", &made], b"")?.ok()?.out();
            ensure!(out.contains("PartitionCount: 5"), "{out}");
            Ok(())
        })
    });

    let lines: Vec<u8> = (1..=50_000).flat_map(|i| format!("{i}\n").into_bytes()).collect();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let name = format!("{piped}-{codec}");
        run.settled(
            format!("50,000 lines through a pipe, {codec}"),
            cli.klamm("produce", &["--topic", &name, "--compression-codec", codec], &lines)
                .and_then(Output::ok)
                .and_then(|_| {
                    let args = ["--topic", &name, "--from-beginning", "--max-messages", "50000"];
                    let back = cli.klamm("consume", &args, b"")?.ok()?.stdout;
                    ensure!(back == lines, "{} bytes came back, {} were sent", back.len(), lines.len());
                    Ok(())
                }),
        );
    }
    run.settled("keys, headers and tombstones", {
        let settings = ["--property", "parse.key=true", "--property", "key.separator=:", "--property"];
        let produce = [&["--topic", &keyed][..], &settings, &["null.marker=NULL"]].concat();
        cli.klamm("produce", &produce, b"a:1\nb:NULL\na:2\n").and_then(Output::ok).and_then(|_| {
            let show = ["--property", "print.key=true", "--property", "print.offset=true"];
            let args =
                [&["--topic", &keyed, "--partition", "0", "--offset", "0", "--max-messages", "3"][..], &show].concat();
            let out = cli.klamm("consume", &args, b"")?.ok()?.out();
            ensure!(out == "Offset:0\ta\t1\nOffset:1\tb\tnull\nOffset:2\ta\t2\n", "{out:?}");
            Ok(())
        })
    });
    run.settled("topics: delete", {
        cli.klamm("topics", &["--delete", "--topic", &made], b"").and_then(Output::ok).and_then(|_| {
            let out = cli.klamm("topics", &["--list"], b"")?.ok()?.out();
            ensure!(!out.lines().any(|line| line == made), "{out}");
            Ok(())
        })
    });
    cli_groups::units(run, &cli.java)
}
