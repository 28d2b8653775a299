//! kcat 1.7.1 as Debian ships it (librdkafka 2.0): the oldest widely used client, all codecs, old formats.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::lane::Run;
use crate::proc::{Output, run as run_program, tool};

const LIMIT: Duration = Duration::from_secs(40);

struct Kcat {
    program: String,
    address: String,
}

impl Kcat {
    fn run(&self, args: &[&str], input: &[u8]) -> Result<Output> {
        let mut command = Command::new(&self.program);
        command.args(["-b", &self.address, "-X", "broker.address.family=v4"]).args(args);
        run_program(&mut command, input, LIMIT)?.ok()
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

    run.unit("-L after it all", || {
        let out = kcat.out(&["-L", "-t", &keyed])?;
        ensure!(out.contains("partition 0, leader 1, replicas: 1, isrs: 1"), "{out}");
        Ok(())
    });
    Ok(())
}
