//! The names that compose files, health checks and runbooks call: Kafka's scripts, with and without `.sh`, and Confluent's
//! `cub`. A program that is called by one of them is that tool.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::{env, fs};

use anyhow::Context;
use clap::Parser;

use super::{
    api_versions, configs, consume, cub, delete_records, dump_log, elect_leaders, failed, groups, log_dirs, offsets,
    produce, reassign, refused, server, stop, storage, topics, transactions,
};

/// Classes that `kafka-run-class` is called with, by the tools they are.
const CLASSES: &[(&str, &str)] = &[
    ("ConfigCommand", "kafka-configs"),
    ("ConsoleConsumer", "kafka-console-consumer"),
    ("ConsoleProducer", "kafka-console-producer"),
    ("ConsumerGroupCommand", "kafka-consumer-groups"),
    ("DeleteRecordsCommand", "kafka-delete-records"),
    ("DumpLogSegments", "kafka-dump-log"),
    ("GetOffsetShell", "kafka-get-offsets"),
    ("Kafka", "kafka-server-start"),
    ("LogDirsCommand", "kafka-log-dirs"),
    ("ReassignPartitionsCommand", "kafka-reassign-partitions"),
    ("StorageTool", "kafka-storage"),
    ("TopicCommand", "kafka-topics"),
];

/// What was asked of the tool that this program is called as; `None` when it is called by its own name.
pub fn called() -> Option<ExitCode> {
    let mut words = env::args_os();
    let path = PathBuf::from(words.next()?);
    let name = path.file_name().and_then(OsStr::to_str)?;
    tool(name.strip_suffix(".sh").unwrap_or(name), words.collect())
}

fn tool(name: &str, words: Vec<OsString>) -> Option<ExitCode> {
    let is_known = name.starts_with("kafka-") || name == "cub";
    if !is_known {
        return None;
    }
    if words == ["--version"] {
        println!("{} (klamm {})", server::KAFKA, env!("CARGO_PKG_VERSION"));
        return Some(ExitCode::SUCCESS);
    }
    let by = (name, words);
    Some(match name {
        "kafka-topics" => run(by, |args| topics::main(args, topics::Style::Kafka)),
        "kafka-configs" => run(by, |args: configs::Args| configs::main(&args)),
        "kafka-consumer-groups" => run(by, |args: groups::Args| groups::main(&args)),
        "kafka-get-offsets" => run(by, |args: offsets::Args| offsets::main(&args)),
        "kafka-transactions" => run(by, |args: transactions::Args| transactions::main(&args)),
        "kafka-console-producer" => run(by, produce::main),
        "kafka-console-consumer" => run(by, consume::main),
        "kafka-reassign-partitions" => run(by, |args: reassign::Args| reassign::main(&args)),
        "kafka-leader-election" => run(by, |args: elect_leaders::Args| elect_leaders::main(&args)),
        "kafka-broker-api-versions" => run(by, |args: api_versions::Args| api_versions::main(&args)),
        "kafka-log-dirs" => run(by, |args: log_dirs::Args| log_dirs::main(&args)),
        "kafka-delete-records" => run(by, |args: delete_records::Args| delete_records::main(&args)),
        "kafka-dump-log" => run(by, dump_log::main),
        "kafka-storage" => run(by, |args: storage::Args| storage::main(&args)),
        "kafka-server-start" => start(by.1),
        "kafka-server-stop" => stop::main(),
        "kafka-run-class" => class(by.1),
        "cub" => run(by, |args: cub::Args| cub::main(&args)),
        _ => return None,
    })
}

fn run<A: Parser>((name, words): (&str, Vec<OsString>), main: impl FnOnce(A) -> ExitCode) -> ExitCode {
    match A::try_parse_from([name.into()].into_iter().chain(words)) {
        Ok(args) => main(args),
        Err(error) => refused(&error),
    }
}

/// `kafka-server-start [-daemon] server.properties [--override key=value]*`.
fn start(mut words: Vec<OsString>) -> ExitCode {
    if words.is_empty() {
        println!("USAGE: kafka-server-start [-daemon] server.properties [--override property=value]*");
        return ExitCode::FAILURE;
    }
    if words.first().is_some_and(|word| word == "-daemon") {
        words.remove(0);
        return match daemon(&words) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        };
    }
    run(("kafka-server-start", words), server::main)
}

/// Starts a broker that outlives the caller; what it says goes to `kafkaServer.out` in `LOG_DIR`, `logs` without.
fn daemon(words: &[OsString]) -> anyhow::Result<()> {
    use std::os::unix::process::CommandExt as _;
    let dir = env::var_os("LOG_DIR").map_or_else(|| PathBuf::from("logs"), PathBuf::from);
    let path = dir.join("kafkaServer.out");
    fs::create_dir_all(&dir).with_context(|| format!("LOG_DIR={}", dir.display()))?;
    let out = fs::File::create(&path).with_context(|| path.display().to_string())?;
    let mut command = std::process::Command::new(env::current_exe()?);
    command.arg("server").args(words);
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    // A terminal's signals go to the group that it is not in.
    command.process_group(0).spawn().context("the broker")?;
    Ok(())
}

/// `kafka-run-class [-daemon] [-name NAME] [-loggc] CLASS ...`.
fn class(words: Vec<OsString>) -> ExitCode {
    let mut words = words.into_iter();
    let mut class = words.next();
    while let Some(option) = class.as_ref().filter(|word| word.to_string_lossy().starts_with('-')) {
        if option == "-name" {
            words.next();
        }
        class = words.next();
    }
    let class = class.unwrap_or_default().to_string_lossy().into_owned();
    let simple = class.rsplit('.').next().unwrap_or_default();
    let found = CLASSES.iter().find(|(name, _)| *name == simple).and_then(|(_, name)| tool(name, words.collect()));
    found.unwrap_or_else(|| {
        eprintln!("Error: Could not find or load main class {class}");
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(name: &str, words: &[&str]) -> Option<ExitCode> {
        tool(name, words.iter().map(OsString::from).collect())
    }

    #[test]
    fn its_own_name_is_no_tool() {
        assert!(says("klamm", &["--version"]).is_none());
        assert!(says("kafka-no-such-tool", &[]).is_none());
        assert!(says("kafka-no-such-tool", &["x"]).is_none());
    }

    #[test]
    fn every_name_and_class_is_a_tool() {
        let names = [
            "broker-api-versions",
            "configs",
            "console-consumer",
            "console-producer",
            "consumer-groups",
            "delete-records",
            "dump-log",
            "get-offsets",
            "leader-election",
            "log-dirs",
            "reassign-partitions",
            "server-start",
            "storage",
            "topics",
            "transactions",
        ];
        for name in names {
            let code = says(&format!("kafka-{name}"), &["--no-such-flag", "x"]);
            assert_eq!(code, Some(ExitCode::FAILURE), "{name}");
            assert_eq!(says(&format!("kafka-{name}"), &["--version"]), Some(ExitCode::SUCCESS), "{name}");
        }
        for (class, name) in CLASSES {
            let code = says("kafka-run-class", &["-name", "x", &format!("kafka.tools.{class}"), "--no-such-flag", "x"]);
            assert_eq!(code, Some(ExitCode::FAILURE), "{class}");
            assert!(names.iter().any(|known| name.ends_with(known)), "{name}");
        }
    }
}
