//! Kafka's own command line tools of 3.9.1, against the running broker and on its stopped data directory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::scores;
use crate::broker::On;
use crate::cache;
use crate::lane::{Run, skip};
use crate::proc::{self, Output};

const LIMIT: Duration = Duration::from_secs(120);
const TOPICS: &str = "org.apache.kafka.tools.TopicCommand";
const CONFIGS: &str = "kafka.admin.ConfigCommand";
const OFFSETS: &str = "org.apache.kafka.tools.GetOffsetShell";
const GROUPS: &str = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";
const CONSUMER: &str = "org.apache.kafka.tools.consumer.ConsoleConsumer";
const DUMP: &str = "kafka.tools.DumpLogSegments";

struct Tools {
    class_path: String,
    address: String,
}

impl Tools {
    fn run(&self, class: &str, args: &[&str]) -> Result<Output> {
        proc::run(cache::java(&self.class_path)?.arg(class).args(args), b"", LIMIT)
    }

    /// Against the broker; every text must be in what it prints, and the exit code as said.
    fn says(&self, class: &str, args: &[&str], succeeds: bool, texts: &[&str]) -> Result<String> {
        let args = [&["--bootstrap-server", &self.address][..], args].concat();
        let output = self.run(class, &args)?;
        let all = output.all();
        ensure!(output.status.success() == succeeds, "{}: {}", output.status, proc::tail(&all, 10));
        for text in texts {
            ensure!(all.contains(text), "{text:?} is missing in: {}", proc::tail(&all, 15));
        }
        Ok(all)
    }
}

/// Where a group of these letters, all ASCII, has its offsets among fifty partitions.
fn offsets_partition(group: &str) -> i32 {
    let hash = group.bytes().fold(0i32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    hash.checked_abs().unwrap_or(0) % 50
}

pub fn lane(run: &mut Run) -> Result<()> {
    let class_path = format!("{}/*", cache::jars("kafka-3.9.1")?.display());
    let tools = Tools { class_path, address: run.address()? };
    let name = |what: &str| format!("tools-{}-{what}", std::process::id());
    let (a, perf, mixed, cleaned) = (name("a"), name("perf"), name("mixed"), name("cleaned"));

    run.settled("topics: create", {
        let args = [
            "--create",
            "--topic",
            &a,
            "--partitions",
            "3",
            "--replication-factor",
            "1",
            "--config",
            "retention.ms=7200000",
        ];
        tools.says(TOPICS, &args, true, &[&format!("Created topic {a}.")]).map(|_| ())
    });
    run.unit("topics: create what exists", || {
        tools.says(TOPICS, &["--create", "--topic", &a], false, &["already exists"]).map(|_| ())
    });
    run.unit("topics: create with a bad config", || {
        let args = ["--create", "--topic", "x", "--config", "retention.ms=abc"];
        tools.says(TOPICS, &args, false, &["retention.ms"]).map(|_| ())
    });
    run.unit("topics: nine replicas", || {
        let args = ["--create", "--topic", "x", "--replication-factor", "9"];
        tools.says(TOPICS, &args, false, &["InvalidReplicationFactor"]).map(|_| ())
    });
    run.unit("topics: list and describe", || {
        tools.says(TOPICS, &["--list"], true, &[&a])?;
        let texts = [
            "TopicId: ",
            "PartitionCount: 3",
            "ReplicationFactor: 1",
            "retention.ms=7200000",
            "Partition: 2",
            "Leader: 1",
            "Isr: 1",
        ];
        tools.says(TOPICS, &["--describe", "--topic", &a], true, &texts).map(|_| ())
    });
    run.settled(
        "topics: alter",
        tools.says(TOPICS, &["--alter", "--topic", &a, "--partitions", "5"], true, &[]).map(|_| ()),
    );
    // Of another broker it was reported that tools which read the offsets' topic find none.
    run.unit("what groups have committed is read from their topic", || {
        let group = name("reader");
        let reset = ["--reset-offsets", "--execute", "--to-earliest", "--group", &group, "--topic", &a];
        tools.says(GROUPS, &reset, true, &[&group])?;
        let committed: Vec<String> =
            (0..5).map(|partition| format!("[{group},{a},{partition}]::OffsetAndMetadata(offset=0, ")).collect();
        let formatter = "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter";
        // Without a group: its own records would come in between.
        let partition = offsets_partition(&group).to_string();
        let mut read = vec!["--topic", "__consumer_offsets", "--partition", &partition, "--offset", "earliest"];
        read.extend(["--formatter", formatter, "--max-messages", "5"]);
        let texts: Vec<&str> = committed.iter().map(String::as_str).collect();
        tools.says(CONSUMER, &read, true, &texts)?;
        let texts = ["PartitionCount: 50", "cleanup.policy=compact"];
        tools.says(TOPICS, &["--describe", "--topic", "__consumer_offsets"], true, &texts).map(|_| ())
    });
    run.unit("topics: alter to fewer", || {
        tools.says(TOPICS, &["--alter", "--topic", &a, "--partitions", "2"], false, &[]).map(|_| ())
    });
    run.unit("configs: alter and describe a topic", || {
        let entity = ["--entity-type", "topics", "--entity-name", &a];
        let alter = ["--alter", "--add-config", "segment.bytes=20000000,cleanup.policy=[compact,delete]"];
        tools.says(CONFIGS, &[&entity[..], &alter].concat(), true, &["Completed updating config for topic"])?;
        let texts =
            ["segment.bytes=20000000", "DYNAMIC_TOPIC_CONFIG:segment.bytes=20000000", "cleanup.policy=compact,delete"];
        tools.says(CONFIGS, &[&entity[..], &["--describe"]].concat(), true, &texts)?;
        let all = tools.says(
            CONFIGS,
            &[&entity[..], &["--describe", "--all"]].concat(),
            true,
            &["max.message.bytes=1048588"],
        )?;
        ensure!(all.contains("DEFAULT_CONFIG:"), "no defaults");
        Ok(())
    });
    run.unit("configs: a bad value", || {
        let args =
            ["--entity-type", "topics", "--entity-name", &a, "--alter", "--add-config", "cleanup.policy=compactt"];
        tools.says(CONFIGS, &args, false, &["cleanup.policy"]).map(|_| ())
    });
    run.unit("configs: describe the broker", || {
        let args = ["--entity-type", "brokers", "--entity-name", "1", "--describe", "--all"];
        tools.says(CONFIGS, &args, true, &["num.io.threads=", "log.retention.hours="]).map(|_| ())
    });
    let on_klamm = run.on == On::Klamm;
    let log = run.broker()?.log_file();
    run.unit("configs: loggers of the broker", || {
        // Kafka names its classes, Klamm its parts.
        let logger = if on_klamm { "klamm.net" } else { "kafka.server.KafkaConfig" };
        let entity = ["--entity-type", "broker-loggers", "--entity-name", "1"];
        tools.says(CONFIGS, &[&entity[..], &["--describe"]].concat(), true, &["root=", &format!("{logger}=")])?;
        let done = "Completed updating config for broker-logger 1.";
        let debug = format!("{logger}=DEBUG");
        tools.says(CONFIGS, &[&entity[..], &["--alter", "--add-config", &debug]].concat(), true, &[done])?;
        tools.says(CONFIGS, &[&entity[..], &["--describe"]].concat(), true, &[&debug])?;
        tools.says(CONFIGS, &[&entity[..], &["--alter", "--delete-config", logger]].concat(), true, &[done])?;
        let refused = "Invalid broker logger(s): no.such";
        tools.says(
            CONFIGS,
            &[&entity[..], &["--alter", "--add-config", "no.such=DEBUG"]].concat(),
            false,
            &[refused],
        )?;
        // Every tool that came to an end while the level was lower closed a connection.
        let log = std::fs::read_to_string(&log)?;
        ensure!(!on_klamm || log.contains("connection closed: closed by the peer"), "nothing more was logged");
        Ok(())
    });
    let records = if run.full() { "2000000" } else { "50000" };
    tools.says(
        TOPICS,
        &[
            "--create",
            "--topic",
            &perf,
            "--partitions",
            "1",
            "--config",
            "segment.bytes=2000000",
            "--config",
            "index.interval.bytes=512",
        ],
        true,
        &[],
    )?;
    for (codec, acks) in [("none", "all"), ("lz4", "1")] {
        run.unit(format!("producer performance, {codec}, acks {acks}"), || {
            let bootstrap = format!("bootstrap.servers={}", tools.address);
            let (acks, codec) = (format!("acks={acks}"), format!("compression.type={codec}"));
            let output = tools.run(
                "org.apache.kafka.tools.ProducerPerformance",
                &[
                    "--topic",
                    &perf,
                    "--num-records",
                    records,
                    "--record-size",
                    "200",
                    "--throughput",
                    "-1",
                    "--producer-props",
                    &bootstrap,
                    &acks,
                    &codec,
                ],
            )?;
            let all = output.ok()?.all();
            ensure!(
                all.contains(&format!("{records} records sent")) && all.contains("99.9th"),
                "{}",
                proc::tail(&all, 5)
            );
            Ok(())
        });
    }
    run.unit("offsets", || {
        let latest = tools.says(OFFSETS, &["--topic", &perf, "--time", "-1"], true, &[&format!("{perf}:0:")])?;
        let count: u64 =
            latest.lines().find_map(|line| line.strip_prefix(&format!("{perf}:0:"))?.parse().ok()).unwrap_or(0);
        ensure!(count >= 2 * records.parse::<u64>()?, "latest {count}");
        tools.says(OFFSETS, &["--topic", &perf, "--time", "-2"], true, &[&format!("{perf}:0:0")])?;
        tools.says(OFFSETS, &["--topic", &perf, "--time", "-3"], true, &[&format!("{perf}:0:")])?;
        tools.says(OFFSETS, &["--topic", &a, "--time", "-1"], true, &[&format!("{a}:4:")]).map(|_| ())
    });
    run.unit("broker API versions", || {
        tools
            .says("kafka.admin.BrokerApiVersionsCommand", &[], true, &["Produce(0): 0 to 11", "Fetch(1): 0 to 17"])
            .map(|_| ())
    });
    run.unit("log dirs", || {
        tools
            .says("org.apache.kafka.tools.LogDirsCommand", &["--describe"], true, &["\"isFuture\":false", &perf])
            .map(|_| ())
    });
    run.unit("cluster id", || {
        tools.says("org.apache.kafka.tools.ClusterTool", &["cluster-id"], true, &["Cluster ID: "]).map(|_| ()).or_else(
            |_| {
                // It wants its subcommand first.
                let output = tools
                    .run("org.apache.kafka.tools.ClusterTool", &["cluster-id", "--bootstrap-server", &tools.address])?;
                ensure!(output.all().contains("Cluster ID: "), "{}", output.all());
                Ok(())
            },
        )
    });
    run.unit("delete records", || {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(
            file.path(),
            format!("{{\"partitions\":[{{\"topic\":\"{perf}\",\"partition\":0,\"offset\":1000}}],\"version\":1}}"),
        )?;
        let path = file.path().display().to_string();
        tools
            .says(
                "org.apache.kafka.tools.DeleteRecordsCommand",
                &["--offset-json-file", &path],
                true,
                &["low_watermark: 1000"],
            )
            .map(|_| ())
    });
    run.settled("topics: delete", tools.says(TOPICS, &["--delete", "--topic", &a], true, &[]).map(|_| ()));
    every_codec(&tools, &mixed)?;
    if !matches!(run.on, On::At(_)) {
        let log_dir = run.broker()?.log_dir();
        run.settled("a compacted topic is cleaned", compact(&tools, &log_dir, &cleaned));
    }
    dump(run, &tools, &[("perf", &perf), ("mixed", &mixed), ("cleaned", &cleaned)])?;
    if run.full() {
        scores::write(run)?;
    }
    Ok(())
}

/// Batches of every codec and of an idempotent producer, for the dump.
fn every_codec(tools: &Tools, topic: &str) -> Result<()> {
    use crate::raw::Connection;
    use crate::records::Batch;
    use crate::twin::requests::produce_one;
    use kafka_protocol::messages::{ApiKey, ResponseKind};

    tools.says(TOPICS, &["--create", "--topic", topic, "--partitions", "1"], true, &[])?;
    let mut connection = Connection::open(&tools.address)?;
    for (sequence, codec) in (0..5).enumerate() {
        let batch = Batch {
            producer_id: 77,
            producer_epoch: 0,
            base_sequence: 3 * sequence as i32,
            ..Batch::stamped(&[1000, 1005, 1001])
        };
        let response = connection.ask(ApiKey::Produce, 7, &produce_one(topic, 0, batch.codec(codec).encode()))?;
        let ResponseKind::Produce(response) = response else { bail!("no Produce response") };
        let error = response.responses[0].partition_responses[0].error_code;
        ensure!(error == 0, "codec {codec}: error {error}");
    }
    Ok(())
}

/// Batches of every codec with three keys each, of ten, in small segments, and the cleaner's work on them awaited.
fn compact(tools: &Tools, log_dir: &Path, topic: &str) -> Result<()> {
    use crate::raw::Connection;
    use crate::records::{Batch, Record};
    use crate::twin::requests::produce_one;
    use kafka_protocol::messages::{ApiKey, ResponseKind};

    let soon =
        ["--entity-type", "brokers", "--entity-default", "--alter", "--add-config", "log.cleaner.backoff.ms=100"];
    tools.says(CONFIGS, &soon, true, &[])?;
    let create = ["--create", "--topic", topic, "--partitions", "1"];
    let configs =
        ["cleanup.policy=compact", "segment.bytes=2000", "index.interval.bytes=200", "min.cleanable.dirty.ratio=0.01"];
    let configs: Vec<&str> = configs.iter().flat_map(|config| ["--config", config]).collect();
    tools.says(TOPICS, &[&create[..], &configs].concat(), true, &[])?;
    let mut connection = Connection::open(&tools.address)?;
    for round in 0..100i64 {
        let record = |n: i64| Record {
            timestamp: 1000 + 10 * round + n,
            key: Some(format!("key {}", (round + 3 * n) % 10).into_bytes()),
            // Now and then a tombstone.
            value: ((round + n) % 9 != 0).then(|| format!("value {round}.{n}").into_bytes()),
            ..Record::default()
        };
        let batch = Batch {
            producer_id: 78,
            producer_epoch: 0,
            base_sequence: 3 * round as i32,
            ..Batch::new((0..3).map(record).collect())
        };
        let bytes = batch.codec((round % 5) as i16).encode();
        let response = connection.ask(ApiKey::Produce, 7, &produce_one(topic, 0, bytes))?;
        let ResponseKind::Produce(response) = response else { bail!("no Produce response") };
        let error = response.responses[0].partition_responses[0].error_code;
        ensure!(error == 0, "batch {round}: error {error}");
    }
    let partition = log_dir.join(format!("{topic}-0"));
    crate::wait::until("the log is cleaned", LIMIT, || {
        let active = files(&partition, "log")?.pop().context("no segment")?;
        let base: i64 = active.file_stem().context("no name")?.to_string_lossy().parse()?;
        let said = std::fs::read_to_string(log_dir.join("cleaner-offset-checkpoint"))?;
        let wanted = format!("{topic} 0 {base}");
        ensure!(base > 0 && said.lines().any(|line| line == wanted), "{wanted:?} is not in {said:?}");
        Ok(())
    })
}

/// What lies on disk after a clean stop, read by Kafka's own reader. Topics by what they are called in the report.
fn dump(run: &mut Run, tools: &Tools, topics: &[(&str, &str)]) -> Result<()> {
    if matches!(run.on, On::At(_)) {
        return skip("the data directory of a foreign broker is out of reach");
    }
    let broker = run.broker()?;
    let log_dir = broker.log_dir();
    let stopped = broker.stop_in_order();
    run.settled("stops cleanly", stopped);
    for (called, topic) in topics {
        let partition = log_dir.join(format!("{topic}-0"));
        for (extension, flags, wants) in [
            ("log", &["--deep-iteration"][..], "isvalid: true"),
            ("log", &["--print-data-log", "--verify-index-only"], "Dumping"),
            ("index", &["--index-sanity-check"], "passed sanity check"),
            ("index", &["--verify-index-only"], "Dumping"),
            ("timeindex", &["--index-sanity-check"], "passed sanity check"),
            ("timeindex", &["--verify-index-only"], "Dumping"),
        ] {
            run.unit(format!("dump {called} .{extension} {}", flags.join(" ")), || {
                let files = files(&partition, extension)?;
                ensure!(!files.is_empty(), "no .{extension} in {}", partition.display());
                let list = files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(",");
                let output = tools.run(DUMP, &[&["--files", &list][..], flags].concat())?.ok()?;
                let gaps = |line: &&str| *called == "cleaned" && line.contains("Non-consecutive");
                let text = output.out();
                let lines: Vec<&str> = text.lines().filter(|line| !gaps(line)).collect();
                complaint(&lines.join("\n"), wants)
            });
        }
        run.unit(format!("dump {called} .snapshot"), || {
            let files = files(&partition, "snapshot")?;
            ensure!(!files.is_empty(), "no producer snapshot after a clean stop in {}", partition.display());
            for file in files {
                let output = tools.run(DUMP, &["--files", &file.display().to_string()])?.ok()?;
                complaint(&output.out(), "Dumping")?;
            }
            Ok(())
        });
    }
    run.unit("the producer is in a snapshot", || {
        let newest = files(&log_dir.join(format!("{}-0", topics[1].1)), "snapshot")?.pop();
        let Some(newest) = newest else { bail!("none") };
        let output = tools.run(DUMP, &["--files", &newest.display().to_string()])?.ok()?;
        ensure!(
            output.all().contains("producerId: 77") && output.all().contains("lastSequence: 14"),
            "{}",
            output.all()
        );
        Ok(())
    });
    let again = run_again(run, tools, topics[1].1);
    run.settled("starts again on what it wrote", again);
    Ok(())
}

fn run_again(run: &mut Run, tools: &Tools, topic: &str) -> Result<()> {
    run.broker()?.start_again()?;
    tools.says(OFFSETS, &["--topic", topic, "--time", "-1"], true, &[&format!("{topic}:0:15")]).map(|_| ())
}

fn files(dir: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn complaint(text: &str, wanted: &str) -> Result<()> {
    for bad in [
        "Found",
        "Mismatch",
        "mismatch",
        "Non-consecutive",
        "rror",
        "xception",
        "not equal",
        "isvalid: false",
        "corrupt",
        "out of order",
    ] {
        if let Some(line) = text.lines().find(|line| line.contains(bad)) {
            bail!("{line}");
        }
    }
    // One batch in a segment needs no entry.
    ensure!(text.contains(wanted) || text.contains("is empty."), "{wanted:?} is missing in: {}", proc::tail(text, 10));
    Ok(())
}
