//! kcat 1.7.1 as Debian ships it (librdkafka 2.0): the oldest widely used client, all codecs, old formats.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use super::load;
use crate::daemon::Daemon;
use crate::lane::Run;
use crate::proc::{Output, run as run_program, tool};
use crate::wait::until;

const LIMIT: Duration = Duration::from_secs(40);

struct Kcat {
    program: String,
    address: String,
}

impl Kcat {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-b", &self.address, "-X", "broker.address.family=v4"]).args(args);
        command
    }

    fn run(&self, args: &[&str], input: &[u8]) -> Result<Output> {
        run_program(&mut self.command(args), input, LIMIT)?.ok()
    }

    fn out(&self, args: &[&str]) -> Result<String> {
        Ok(self.run(args, b"")?.out())
    }
}

/// Settings of a client that cannot ask for versions and takes the broker for a 0.9.
const OLD: [&str; 4] = ["-X", "api.version.request=false", "-X", "broker.version.fallback=0.9.0"];

pub fn lane(run: &mut Run) -> Result<()> {
    let kcat = Kcat { program: tool("kcat")?, address: run.address()? };
    let stamp = std::process::id();
    let topic = |name: &str| format!("kcat-{stamp}-{name}");

    run.unit("-L before any topic", || {
        let out = kcat.out(&["-L", "-m", "10"])?;
        ensure!(out.contains("1 brokers:") && out.contains(&kcat.address), "{out}");
        Ok(())
    });

    let lines: Vec<u8> =
        (1..=2000).flat_map(|i| format!("line {i} of a text that packs well\n").into_bytes()).collect();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let name = topic(codec);
        run.unit(format!("{codec} out and in"), || {
            let again =
                topic(&format!("{codec}-{:?}", std::time::Instant::now()).replace(|c: char| !c.is_alphanumeric(), ""));
            let name = if kcat.out(&["-L", "-t", &name])?.contains("with 0 partitions") { &name } else { &again };
            kcat.run(&["-P", "-t", name, "-p", "0", "-z", codec], &lines)?;
            let back = kcat.run(&["-C", "-t", name, "-p", "0", "-o", "beginning", "-e", "-q"], b"")?;
            ensure!(back.stdout == lines, "{} bytes came back, {} were sent", back.stdout.len(), lines.len());
            Ok(())
        });
    }

    run.unit("stored recompressed in every codec", || {
        // Topics made with compression.type need an admin: the codec is read back as the producer sent it.
        for (sent, codec) in ["gzip", "snappy", "lz4", "zstd"].iter().enumerate() {
            let name = topic(&format!("mix{sent}"));
            kcat.run(&["-P", "-t", &name, "-z", codec], b"a\nb\n")?;
            kcat.run(&["-P", "-t", &name], b"c\n")?;
            let out = kcat.out(&["-C", "-t", &name, "-o", "beginning", "-e", "-q"])?;
            ensure!(out.ends_with("a\nb\nc\n"), "{out:?}");
        }
        Ok(())
    });

    let keyed = topic("keyed");
    run.unit("keys, headers, timestamps, tombstones", || {
        let at = kcat.out(&["-Q", "-t", &format!("{keyed}:0:-1")]).ok();
        let start = at.and_then(|out| out.split("offset ").nth(1)?.trim().parse::<i64>().ok()).unwrap_or(0).max(0);
        kcat.run(
            &["-P", "-t", &keyed, "-p", "0", "-K", ":", "-Z", "-H", "a=1", "-H", "b=", "-H", "a=2"],
            b"k1:v1\nk2:\n",
        )?;
        let offset = start.to_string();
        let out =
            kcat.out(&["-C", "-t", &keyed, "-p", "0", "-o", &offset, "-e", "-q", "-f", "%o|%k|%S|%s|%h|%p\\n"])?;
        let want = format!("{start}|k1|2|v1|a=1,b=,a=2|0\n{}|k2|-1||a=1,b=,a=2|0\n", start + 1);
        ensure!(out == want, "{out:?} is not {want:?}");
        let stamps = kcat.out(&["-C", "-t", &keyed, "-p", "0", "-o", &offset, "-e", "-q", "-f", "%T\\n"])?;
        ensure!(stamps.lines().all(|stamp| stamp.len() == 13), "{stamps}");
        Ok(())
    });

    run.unit("-Q: begin, end, by time", || {
        let out = kcat.out(&["-Q", "-t", &format!("{keyed}:0:-2"), "-t", &format!("{keyed}:0:1000")])?;
        ensure!(out.matches("offset 0").count() == 2, "{out}");
        let out = kcat.out(&["-Q", "-t", &format!("{keyed}:0:99999999999999")])?;
        ensure!(out.contains("offset -1"), "{out}");
        Ok(())
    });

    run.unit("an offset in the middle of a batch", || {
        let name = topic("middle");
        kcat.run(&["-P", "-t", &name, "-p", "0"], b"a\nb\nc\nd\n")?;
        let out = kcat.out(&["-C", "-t", &name, "-p", "0", "-o", "1", "-c", "3", "-e", "-q"])?;
        ensure!(out == "b\nc\nd\n", "{out:?}");
        let out = kcat.out(&["-C", "-t", &name, "-p", "0", "-o", "3", "-e", "-q"])?;
        ensure!(out == "d\n" || out.starts_with("d\n"), "{out:?}");
        let out = kcat.out(&["-C", "-t", &name, "-p", "0", "-o", "-1", "-e", "-q"])?;
        ensure!(out == "d\n", "{out:?}");
        Ok(())
    });

    run.unit("a record larger than every limit of the consumer", || {
        let name = topic("large");
        let large = vec![b'x'; 900_000];
        kcat.run(&["-P", "-t", &name, "-p", "0"], &large)?;
        let small = [
            "-X",
            "fetch.message.max.bytes=1000",
            "-X",
            "fetch.max.bytes=1000",
            "-X",
            "receive.message.max.bytes=2000000",
            "-X",
            "message.max.bytes=1000",
        ];
        let args = [&["-C", "-t", &name, "-p", "0", "-o", "beginning", "-c", "1", "-q"][..], &small].concat();
        let out = kcat.run(&args, b"")?;
        ensure!(out.stdout.len() == 900_001, "{} bytes", out.stdout.len());
        Ok(())
    });

    run.unit("nine new topics in reverse order", || {
        for i in (1..=9).rev() {
            kcat.run(&["-P", "-t", &topic(&format!("fresh{i}"))], b"x\n")?;
        }
        for i in [1, 5, 9] {
            let out =
                kcat.out(&["-C", "-t", &topic(&format!("fresh{i}")), "-o", "beginning", "-c", "1", "-e", "-q"])?;
            ensure!(out == "x\n", "fresh{i}: {out:?}");
        }
        Ok(())
    });

    for codec in ["none", "gzip", "snappy"] {
        run.unit(format!("as a 0.9 client, {codec}"), || {
            let name = topic(&format!("old-{codec}"));
            kcat.run(
                &[&["-P", "-t", &name, "-p", "0", "-z", codec, "-K", ":"][..], &OLD].concat(),
                b"k:a\nk:b\nk:c\n",
            )?;
            let tail = ["-C", "-t", &name, "-p", "0", "-o", "-3", "-e", "-q", "-f", "%k=%s\\n"];
            for (who, settings) in [("a current client", &[][..]), ("an old client", &OLD)] {
                let out = kcat.out(&[&tail[..], settings].concat())?;
                ensure!(out == "k=a\nk=b\nk=c\n", "{who}: {out:?}");
            }
            Ok(())
        });
    }

    for (codec, acks) in [("lz4", "0"), ("none", "1"), ("zstd", "-1")] {
        run.unit(format!("acks {acks}"), || {
            let name = topic(&format!("acks{acks}"));
            kcat.run(&["-P", "-t", &name, "-p", "0", "-z", codec, "-X", &format!("acks={acks}")], b"a\nb\n")?;
            let out = kcat.out(&["-C", "-t", &name, "-p", "0", "-o", "-2", "-c", "2", "-q"])?;
            ensure!(out == "a\nb\n", "{out:?}");
            Ok(())
        });
    }

    run.unit("members of a group come and go", || members(&kcat, &topic("group")));

    run.unit("-L after it all", || {
        let out = kcat.out(&["-L", "-t", &keyed])?;
        ensure!(out.contains("partition 0, leader 1, replicas: 1, isrs: 1"), "{out}");
        Ok(())
    });
    Ok(())
}

/// A process that reads a topic as a member of the group of the same name.
struct Member {
    process: Daemon,
    /// What it says.
    log: PathBuf,
}

impl Member {
    fn join(kcat: &Kcat, topic: &str, log: PathBuf) -> Result<Member> {
        let mut command = kcat.command(&["-X", "heartbeat.interval.ms=500", "-G", topic, topic]);
        Ok(Member { process: Daemon::spawn(&mut command, &log)?, log })
    }

    /// How many partitions it holds, by the last that it was told.
    fn holds(&self) -> Result<usize> {
        let said = fs::read_to_string(&self.log)?;
        let last = said.lines().rfind(|line| line.contains(" rebalanced (memberid ")).unwrap_or_default();
        Ok(last.split_once("assigned:").map_or(0, |(_, assigned)| assigned.matches('[').count()))
    }

    /// Under which ids it has been a member.
    fn ids(&self) -> Result<BTreeSet<String>> {
        let said = fs::read_to_string(&self.log)?;
        let ids = said.lines().filter_map(|line| Some(line.split_once("(memberid ")?.1.split_once(')')?.0.to_owned()));
        Ok(ids.collect())
    }
}

/// Of another broker it was reported that the first member lost its partitions when a second came, that the second never
/// got any, and that it was dropped.
fn members(kcat: &Kcat, topic: &str) -> Result<()> {
    let dir = TempDir::with_prefix("compat-kcat-")?;
    let log = |n: usize| dir.path().join(format!("member-{n}"));
    load::create_topic(&kcat.address, topic, 3)?;
    let mut members = Vec::new();
    let share = |members: &[Member], share: &[usize]| {
        until(&format!("shares of {share:?}"), LIMIT, || {
            let mut held = members.iter().map(Member::holds).collect::<Result<Vec<_>>>()?;
            held.sort_unstable();
            ensure!(held == share, "the members hold {held:?}");
            Ok(())
        })
    };
    for (n, shares) in [&[3][..], &[1, 2], &[1, 1, 1]].into_iter().enumerate() {
        members.push(Member::join(kcat, topic, log(n))?);
        share(&members, shares)?;
    }
    let mut gone = members.remove(1).process;
    gone.signal(Signal::TERM)?;
    ensure!(gone.await_exit(LIMIT)?.is_some(), "a member does not end");
    share(&members, &[1, 2])?;
    for member in &members {
        let ids = member.ids()?;
        ensure!(ids.len() == 1, "it was dropped and came back: {ids:?}");
    }
    Ok(())
}
