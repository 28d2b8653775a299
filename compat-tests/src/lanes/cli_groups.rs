//! `klamm groups`, `configs`, `offsets` and `consume --group` beside Kafka's tools of 3.9.1, both on the same broker.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::java_tools::JavaTools;
use crate::broker::{Broker, klamm};
use crate::lane::Run;
use crate::proc::{self, Output};

const LIMIT: Duration = Duration::from_secs(60);
const RECORDS: usize = 60;

/// A command of klamm and the tool it stands for.
#[derive(Clone, Copy)]
struct Tool {
    command: &'static str,
    class: &'static str,
}

const GROUPS: Tool = Tool { command: "groups", class: "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand" };
const CONFIGS: Tool = Tool { command: "configs", class: "kafka.admin.ConfigCommand" };
const OFFSETS: Tool = Tool { command: "offsets", class: "org.apache.kafka.tools.GetOffsetShell" };

struct Both<'a> {
    program: std::path::PathBuf,
    java: &'a JavaTools,
    address: String,
}

impl Both<'_> {
    fn command(&self, command: &str, args: &[&str]) -> Command {
        let mut program = Command::new(&self.program);
        program.args([command, "--bootstrap-server", &self.address]).args(args);
        program
    }

    fn klamm(&self, command: &str, args: &str) -> Result<Output> {
        let words: Vec<&str> = args.split_whitespace().collect();
        proc::run(&mut self.command(command, &words), b"", LIMIT)
    }

    fn send(&self, topic: &str, lines: &str) -> Result<()> {
        let mut program = self.command("produce", &["--topic", topic, "--property", "parse.key=true"]);
        proc::run(&mut program, lines.as_bytes(), LIMIT)?.ok().map(|_| ())
    }

    /// Exit code and standard output of both must be the same, lines in any order.
    fn same(&self, tool: Tool, args: &str) -> Result<String> {
        let ours = self.klamm(tool.command, args)?;
        let words: Vec<&str> =
            ["--bootstrap-server", &self.address].into_iter().chain(args.split_whitespace()).collect();
        let theirs = self.java.run(tool.class, &words)?;
        let code = ours.status.code().unwrap_or(-1);
        ensure!(
            code == theirs.code,
            "{args}: klamm ends with {code}: {}\nKafka's tool with {}: {}{}",
            ours.all(),
            theirs.code,
            theirs.out,
            theirs.err
        );
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
            lines.sort();
            lines
        };
        ensure!(
            sorted(&ours.out()) == sorted(&theirs.out),
            "{args}: klamm prints\n{}\nKafka's tool\n{}",
            ours.out(),
            theirs.out
        );
        Ok(ours.out())
    }

    /// As [`Both::same`] for what is refused: also the sentence on standard error.
    fn same_refusal(&self, tool: Tool, args: &str) -> Result<()> {
        self.same(tool, args)?;
        let ours = self.klamm(tool.command, args)?.err();
        let words: Vec<&str> =
            ["--bootstrap-server", &self.address].into_iter().chain(args.split_whitespace()).collect();
        let theirs = self.java.run(tool.class, &words)?.err;
        let sentence = ours.lines().last().unwrap_or_default();
        ensure!(theirs.lines().any(|line| line == sentence), "{args}: klamm says\n{ours}\nKafka's tool\n{theirs}");
        Ok(())
    }

    /// What the group has committed, by partition of its only topic.
    fn committed(&self, group: &str) -> Result<BTreeMap<i32, i64>> {
        let out = self.same(GROUPS, &format!("--describe --group {group}"))?;
        let rows = out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let rows = rows.filter(|row| row.first() == Some(&group) && row.len() > 3);
        rows.map(|row| Ok((row[2].parse()?, row[3].parse().context("an offset")?))).collect()
    }

    /// Waits until the group has that many members and rests.
    fn await_members(&self, group: &str, members: usize) -> Result<()> {
        let until = Instant::now() + LIMIT;
        loop {
            let out = self.klamm("groups", &format!("--describe --group {group} --state"))?.ok()?.out();
            let row: Vec<&str> = out.lines().last().unwrap_or_default().split_whitespace().collect();
            if row.contains(&"Stable") && row.last() == Some(&members.to_string().as_str()) {
                return Ok(());
            }
            ensure!(Instant::now() < until, "no {members} members: {out}");
        }
    }

    fn member(&self, group: &str, topic: &str, into: &Path) -> Result<Member> {
        let show = ["--property", "print.partition=true", "--property", "print.offset=true"];
        let properties = ["--consumer-property", "heartbeat.interval.ms=100"];
        let args = [&["--topic", topic, "--group", group, "--from-beginning"][..], &show, &properties].concat();
        let mut command = self.command("consume", &args);
        command.stdin(Stdio::null()).stdout(fs::File::create(into)?).stderr(Stdio::null());
        Ok(Member(command.spawn().context("start a member")?))
    }
}

/// A running `klamm consume`. Killed when dropped.
struct Member(Child);

impl Member {
    /// As Ctrl-C does.
    fn interrupt(&mut self) -> Result<()> {
        let pid = Pid::from_raw(self.0.id() as i32).ok_or_else(|| anyhow!("no process id"))?;
        kill_process(pid, Signal::INT)?;
        let status = proc::wait(&mut self.0, LIMIT)?.ok_or_else(|| anyhow!("it goes on after Ctrl-C"))?;
        ensure!(status.success(), "{status}");
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the members have written so many lines, and answers them in order.
fn await_lines(files: &[&Path], count: usize) -> Result<Vec<String>> {
    let until = Instant::now() + LIMIT;
    loop {
        let mut lines = Vec::new();
        for file in files {
            lines.extend(fs::read_to_string(file)?.lines().map(str::to_owned));
        }
        if lines.len() >= count {
            lines.sort();
            return Ok(lines);
        }
        ensure!(Instant::now() < until, "{} lines of {count}", lines.len());
        thread::sleep(Duration::from_millis(10));
    }
}

/// Keys spread them over the partitions.
fn lines(from: usize, to: usize) -> String {
    (from..to).map(|n| format!("key-{n}\tvalue-{n}\n")).collect()
}

pub fn units(run: &mut Run, java: &JavaTools) -> Result<()> {
    let on = run.on.clone();
    let broker = Broker::start(&on, &[("group.initial.rebalance.delay.ms", "0")])?;
    let both = Both { program: klamm()?, java, address: broker.address() };
    let name = |what: &str| format!("cli-{}-{what}", std::process::id());
    let (topic, group, shared) = (name("topic"), name("group"), name("shared"));
    both.klamm("topics", &format!("--create --topic {topic} --partitions 3"))?.ok()?;
    both.klamm("topics", &format!("--create --topic {} --partitions 1", name("other")))?.ok()?;
    both.send(&topic, &lines(0, RECORDS))?;

    run.settled("consume: a group goes on where it was", {
        let args = format!("--topic {topic} --group {group} --from-beginning --max-messages");
        let read = |count: usize| -> Result<Vec<String>> {
            let out = both.klamm("consume", &format!("{args} {count}"))?.ok()?.out();
            Ok(out.lines().map(str::to_owned).collect())
        };
        let begin = || -> Result<()> {
            let mut all = read(25)?;
            all.extend(read(RECORDS - 25)?);
            all.sort();
            let mut expected: Vec<String> = (0..RECORDS).map(|n| format!("value-{n}")).collect();
            expected.sort();
            ensure!(all == expected, "{all:?}");
            let total: i64 = both.committed(&group)?.values().sum();
            ensure!(total == RECORDS as i64, "{total} of {RECORDS} are committed");
            Ok(())
        };
        begin()
    });
    let dir = TempDir::with_prefix("cli-")?;
    run.settled("consume: two members share a topic, and one takes over", members(&both, &shared, &topic, dir.path()));
    run.unit("groups: listed as by Kafka's tool", || {
        for args in ["--list", "--list --state", "--list --type", "--list --state empty,STABLE --type classic"] {
            both.same(GROUPS, args)?;
        }
        Ok(())
    });
    run.unit("groups: described as by Kafka's tool", || {
        let groups = format!("--group {group} --group {shared}");
        for what in ["", "--offsets", "--members", "--members --verbose", "--state"] {
            both.same(GROUPS, &format!("--describe {groups} {what}"))?;
            both.same(GROUPS, &format!("--describe --group absent {what}"))?;
        }
        both.same(GROUPS, "--describe --all-groups").map(|_| ())
    });
    run.unit("groups: refused as by Kafka's tool", || {
        for args in [
            "--list --state bad",
            "--list --type bad",
            "--list --group g",
            "--delete",
            "--delete --group g --topic t",
            "--describe --group g --state --members",
            "--reset-offsets --group g --dry-run --all-topics",
            "--reset-offsets --group g --dry-run --to-earliest",
            "--reset-offsets --group g --dry-run --execute --to-earliest --topic t",
            "--reset-offsets --group g --dry-run --to-earliest --to-latest --topic t",
        ] {
            // The tool's usage follows the sentence.
            let ours = both.klamm("groups", args)?;
            let words = [&["--bootstrap-server", &both.address][..], &args.split(' ').collect::<Vec<_>>()].concat();
            let theirs = both.java.run(GROUPS.class, &words)?;
            ensure!(ours.status.code() == Some(1) && theirs.code == 1, "{args}: {} and {}", ours.status, theirs.code);
            let sentence = ours.err().lines().last().unwrap_or_default().to_owned();
            ensure!(theirs.err.lines().any(|line| line == sentence), "{args}: {sentence}\n{}", theirs.err);
        }
        Ok(())
    });
    run.unit("groups: offsets are reset as by Kafka's tool", || {
        let file = dir.path().join("offsets.csv");
        fs::write(&file, format!("{topic},0,1\n{topic},1,999\n"))?;
        let scope = format!("--reset-offsets --group {group} --topic {topic}");
        for strategy in [
            "--to-earliest",
            "--to-latest",
            "--to-current",
            "--to-offset 7",
            "--to-offset 999",
            "--to-offset -5",
            "--shift-by -3",
            "--shift-by 1000",
            "--to-datetime 2020-01-01T00:00:00.000",
            "--to-datetime 2036-01-01T00:00:00.000+0200",
            "--by-duration PT1H",
            "--by-duration P1DT2H3M4S",
            "--by-duration -PT1H",
        ] {
            both.same(GROUPS, &format!("{scope} {strategy} --export --dry-run"))?;
        }
        let of_file = format!("--reset-offsets --group {group} --from-file {} --export --dry-run", file.display());
        both.same(GROUPS, &of_file)?;
        both.same(
            GROUPS,
            &format!("--reset-offsets --group {group} --topic {topic}:0,2 --to-offset 1 --export --dry-run"),
        )?;
        let all =
            format!("--reset-offsets --group {group} --group {shared} --all-topics --to-earliest --export --dry-run");
        both.same(GROUPS, &all)?;
        let wrong = both.klamm("groups", &format!("{scope} --to-datetime yesterday --dry-run"))?;
        let why = "failed due to Error parsing timestamp. It does not contain a 'T' according to ISO8601 format";
        ensure!(wrong.status.success() && wrong.out().contains(why), "{}", wrong.all());
        Ok(())
    });
    run.settled("groups: a reset is committed when it is executed", {
        let args = format!("--reset-offsets --group {group} --topic {topic} --to-offset 2");
        both.klamm("groups", &args).and_then(|_| {
            let before = both.committed(&group)?;
            ensure!(before.values().sum::<i64>() == RECORDS as i64, "a dry run has changed {before:?}");
            let out = both.klamm("groups", &format!("{args} --execute"))?.ok()?.out();
            ensure!(out.lines().filter(|line| line.starts_with(&group)).count() == 3, "{out}");
            let after: Vec<i64> = both.committed(&group)?.into_values().collect();
            ensure!(after == [2, 2, 2], "{after:?}");
            Ok(())
        })
    });
    run.settled("groups: offsets and groups are deleted", {
        let delete = || -> Result<()> {
            let out = both.klamm("groups", &format!("--delete-offsets --group {group} --topic {topic}:0"))?.ok()?.out();
            ensure!(out.contains("Request succeed") && out.contains("Successful"), "{out}");
            ensure!(both.committed(&group)?.len() == 2, "an offset is still there");
            let out = both.klamm("groups", &format!("--delete --group {group} --group absent"))?.ok()?.out();
            ensure!(out.contains("* Group 'absent' could not be deleted due to: "), "{out}");
            ensure!(out.contains(&format!("deleted successfully: '{group}'")), "{out}");
            let list = both.same(GROUPS, "--list")?;
            ensure!(!list.lines().any(|line| line == group), "{list}");
            Ok(())
        };
        delete()
    });
    run.unit("offsets: as by Kafka's tool", || {
        for args in [
            format!("--topic {topic}"),
            format!("--topic {topic} --time -2"),
            format!("--topic {topic} --time earliest"),
            format!("--topic {topic} --time max-timestamp"),
            format!("--topic {topic} --time 0"),
            format!("--topic {topic} --time 99999999999999"),
            format!("--topic {topic} --partitions 0,2"),
            format!("--topic-partitions {topic}:1-,{}", name("other")),
            format!("--topic-partitions {topic}:-2"),
            "--exclude-internal-topics".to_owned(),
            "--partitions 0 --exclude-internal-topics".to_owned(),
        ] {
            both.same(OFFSETS, &args)?;
        }
        for args in ["--topic absent", "--time bogus", "--partitions 0-2", "--topic-partitions a:0 --topic a"] {
            both.same_refusal(OFFSETS, args)?;
        }
        Ok(())
    });
    configs(run, &both, &topic, dir.path());
    Ok(())
}

fn members(both: &Both<'_>, group: &str, topic: &str, dir: &Path) -> Result<()> {
    let (first_file, second_file) = (dir.join("first"), dir.join("second"));
    let mut first = both.member(group, topic, &first_file)?;
    both.await_members(group, 1)?;
    await_lines(&[&first_file], RECORDS)?;
    let mut second = both.member(group, topic, &second_file)?;
    both.await_members(group, 2)?;
    both.same(GROUPS, &format!("--describe --group {group} --members --verbose"))?;
    both.same(GROUPS, &format!("--describe --group {group} --state"))?;
    both.send(topic, &lines(0, RECORDS))?;
    let twice = await_lines(&[&first_file, &second_file], 2 * RECORDS)?;
    let mut once = twice.clone();
    once.dedup();
    ensure!(once == twice, "a record was written twice");
    ensure!(!fs::read_to_string(&second_file)?.is_empty(), "the second member was given nothing");
    first.interrupt()?;
    both.await_members(group, 1)?;
    both.send(topic, &lines(0, RECORDS))?;
    await_lines(&[&first_file, &second_file], 3 * RECORDS)?;
    second.interrupt()?;
    let total: i64 = both.committed(group)?.values().sum();
    ensure!(total == 3 * RECORDS as i64, "{total} are committed at the end");
    // What follows counts on as many records as before.
    both.klamm("groups", &format!("--reset-offsets --group {group} --topic {topic} --to-earliest --execute"))?.ok()?;
    Ok(())
}

fn configs(run: &mut Run, both: &Both<'_>, topic: &str, dir: &Path) {
    let of_topic = format!("--entity-type topics --entity-name {topic}");
    run.unit("configs: altered and described as by Kafka's tool", || {
        let file = dir.join("topic.properties");
        fs::write(&file, "segment.bytes = 20000000\n# a comment\nflush.messages=7\n")?;
        for args in [
            format!("--alter {of_topic} --add-config retention.ms=7200000,cleanup.policy=[compact,delete]"),
            format!("--describe {of_topic}"),
            format!("--describe --topic {topic} --all"),
            format!("--alter {of_topic} --add-config-file {}", file.display()),
            format!("--describe {of_topic}"),
        ] {
            both.same(CONFIGS, &args)?;
        }
        both.klamm("configs", &format!("--alter {of_topic} --delete-config retention.ms,cleanup.policy"))?.ok()?;
        let out = both.same(CONFIGS, &format!("--describe {of_topic}"))?;
        ensure!(!out.contains("retention.ms") && out.contains("segment.bytes=20000000"), "{out}");
        Ok(())
    });
    run.unit("configs: of brokers as by Kafka's tool", || {
        for args in [
            "--alter --entity-type brokers --entity-default --add-config message.max.bytes=2000000",
            "--alter --entity-type brokers --entity-name 1 --add-config log.retention.ms=1000000",
            "--describe --entity-type brokers --entity-name 1",
            "--describe --entity-type brokers --entity-default",
            "--describe --entity-type brokers",
        ] {
            both.same(CONFIGS, args)?;
        }
        both.klamm("configs", "--alter --broker 1 --delete-config log.retention.ms")?.ok()?;
        both.same(CONFIGS, "--describe --broker 1").map(|_| ())
    });
    run.unit("configs: refused as by Kafka's tool", || {
        for args in [
            format!("--alter {of_topic} --delete-config absent"),
            format!("--alter {of_topic} --add-config retention.ms"),
            format!("--alter {of_topic}"),
            "--alter --entity-type topics --add-config retention.ms=1".to_owned(),
            "--alter --entity-type clients --add-config producer_byte_rate=1".to_owned(),
            "--alter --entity-type brokers --entity-name x --add-config log.retention.ms=1".to_owned(),
            "--describe".to_owned(),
            "--describe --entity-type users --entity-type topics".to_owned(),
        ] {
            both.same_refusal(CONFIGS, &args)?;
        }
        let bad = both.klamm("configs", &format!("--alter {of_topic} --add-config retention.ms=abc"))?;
        ensure!(bad.status.code() == Some(1) && bad.err().contains("Not a number of type LONG"), "{}", bad.all());
        Ok(())
    });
}
