//! Directories, disks, ports and settings that are wrong: one clear sentence, and nothing lost.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::load::{self, Ledger};
use super::{bad_disks, bad_zookeepers};
use crate::broker::{Broker, On, free_port, klamm};
use crate::lane::{Run, skip};
use crate::proc;

/// What a broker that does not come up is given.
const LIMIT: Duration = Duration::from_secs(20);

pub fn lane(run: &mut Run) -> Result<()> {
    if run.on != On::Klamm {
        return skip("the sentences are Klamm's own");
    }
    refusals(run)?;
    run.unit("the directory is in use by a second process", in_use);
    run.unit("the directory belongs to another broker id", || foreign("broker.id=7"));
    run.unit("the directory belongs to another cluster", other_cluster);
    run.unit("a directory of partitions without our store", lost_store);
    run.unit("strange folders in the directory", strange_folders);
    run.unit("the port is taken", port_taken);
    bad_disks::units(run);
    bad_zookeepers::units(run);
    run.unit("indexes damaged, the log's tail cut", damaged);
    run.unit("SIGTERM: exit 0 and a clean mark", clean_stop);
    Ok(())
}

/// Runs a broker that must end by itself; answers what it said.
pub(super) fn refused(dir: &Path, lines: &[String]) -> Result<String> {
    let file = dir.join("server.properties");
    fs::write(&file, lines.join("\n") + "\n")?;
    let output = proc::run(Command::new(klamm()?).arg(&file), b"", LIMIT)?;
    let said = output.all();
    ensure!(!output.status.success(), "it ended with success: {said}");
    ensure!(!said.contains("panicked"), "it panicked: {said}");
    ensure!(output.status.code().is_some(), "it was killed: {}", output.status);
    Ok(said)
}

/// The words must be in the sentence, whatever their case.
pub(super) fn says(said: &str, words: &[&str]) -> Result<()> {
    let lower = said.to_lowercase();
    for word in words {
        ensure!(lower.contains(&word.to_lowercase()), "{word:?} is missing in: {said}");
    }
    Ok(())
}

pub(super) fn basic(dir: &Path, port: u16) -> Vec<String> {
    vec![
        "broker.id=1".to_owned(),
        format!("listeners=PLAINTEXT://127.0.0.1:{port}"),
        format!("log.dirs={}", dir.join("data").display()),
    ]
}

/// Settings that stop the start, and the words that must be in the sentence.
fn refusals(run: &mut Run) -> Result<()> {
    let cases: &[(&[&str], &[&str])] = &[
        (&["listeners=PLAINTEXT://no-such-host.invalid:PORT"], &["no-such-host.invalid"]),
        (&["listeners=PLAINTEXT://0.0.0.0:PORT"], &["advertised.listeners", "0.0.0.0"]),
        (&["advertised.listeners=PLAINTEXT://0.0.0.0:PORT"], &["advertised.listeners", "0.0.0.0"]),
        (&["listeners=SSL://127.0.0.1:PORT", "security.inter.broker.protocol=SSL"], &["SSL"]),
        (&["listeners=SASL_PLAINTEXT://127.0.0.1:PORT", "security.inter.broker.protocol=SASL_PLAINTEXT"], &["SASL"]),
        (
            &["listeners=A://127.0.0.1:PORT", "listener.security.protocol.map=A:SSL", "inter.broker.listener.name=A"],
            &["SSL"],
        ),
        (&["listeners=NOPE://127.0.0.1:PORT"], &["NOPE"]),
        (&["listeners=PLAINTEXT://127.0.0.1:PORT,PLAINTEXT://127.0.0.1:1"], &["listener"]),
        (&["listeners=PLAINTEXT://127.0.0.1:99999"], &["99999"]),
        (
            &[
                "advertised.listeners=OTHER://127.0.0.1:PORT",
                "listener.security.protocol.map=OTHER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            ],
            &["advertised.listeners"],
        ),
        (&["num.partitions=0"], &["num.partitions", "0"]),
        (&["num.partitions=many"], &["num.partitions", "many"]),
        (&["log.segment.bytes=1"], &["log.segment.bytes"]),
        (&["log.cleanup.policy=sometimes"], &["log.cleanup.policy", "sometimes"]),
        (&["compression.type=brotli"], &["compression.type", "brotli"]),
        (&["broker.id=-7"], &["broker.id"]),
        (&["log.retention.ms=1.5"], &["log.retention.ms", "1.5"]),
        (&["auto.create.topics.enable=perhaps"], &["auto.create.topics.enable", "perhaps"]),
        (&["authorizer.class.name=kafka.security.authorizer.AclAuthorizer"], &["authorizer.class.name"]),
        (&["super.users=User:admin"], &["super.users"]),
        (&["process.roles=broker,controller"], &["process.roles"]),
        (&["log.dirs="], &["log.dirs"]),
        (
            &["zookeeper.connect=127.0.0.1:PORT/kafka", "zookeeper.connection.timeout.ms=1000"],
            &["zookeeper.connection.timeout.ms", "1000 ms", "127.0.0.1:", "refused"],
        ),
        (&["zookeeper.connect=127.0.0.1:PORT/kafka/"], &["zookeeper.connect", "/kafka/"]),
        (&["zookeeper.connect=127.0.0.1:PORT,another:port"], &["zookeeper.connect", "another:port"]),
    ];
    for (lines, words) in cases {
        run.unit(lines.join(" "), || {
            let dir = TempDir::with_prefix("compat-")?;
            let port = free_port()?;
            let mut all = basic(dir.path(), port);
            all.extend(lines.iter().map(|line| line.replace("PORT", &port.to_string())));
            says(&refused(dir.path(), &all)?, words)
        });
    }
    run.unit("an unknown key only warns", || {
        let mut broker = Broker::start(&On::Klamm, &[("no.such.key", "1")])?;
        let log = broker.log_text();
        ensure!(log.contains("no.such.key"), "no warning in: {log}");
        broker.stop().map(|_| ())
    });
    run.unit("no such configuration file", || {
        let output = proc::run(Command::new(klamm()?).arg("/nowhere/server.properties"), b"", LIMIT)?;
        ensure!(!output.status.success(), "success");
        says(&output.all(), &["/nowhere/server.properties"])
    });
    Ok(())
}

fn in_use() -> Result<()> {
    let mut first = Broker::start(&On::Klamm, &[])?;
    let dir = TempDir::with_prefix("compat-")?;
    let mut lines = basic(dir.path(), free_port()?);
    lines.push(format!("log.dirs={}", first.log_dir().display()));
    let said = refused(dir.path(), &lines)?;
    says(&said, &[&first.log_dir().display().to_string()])?;
    ensure!(first.exited()?.is_none(), "the first one ended");
    load::create_topic(&first.address(), "still", 1)
}

/// A directory of broker 1 with the topic `kept`; the broker is stopped.
fn used_directory() -> Result<Broker> {
    let mut broker = Broker::start(&On::Klamm, &[])?;
    load::create_topic(&broker.address(), "kept", 1)?;
    let mut writers = vec![vec![(0, Ledger::default())]];
    load::run(&broker.address(), "kept", -1, &mut writers, |total| load::await_count(total, 20, LIMIT))?;
    let status = broker.stop()?;
    ensure!(status.success(), "{status}");
    Ok(broker)
}

fn foreign(line: &str) -> Result<()> {
    let broker = used_directory()?;
    let dir = TempDir::with_prefix("compat-")?;
    let mut lines = basic(dir.path(), free_port()?);
    lines.push(format!("log.dirs={}", broker.log_dir().display()));
    lines.push(line.to_owned());
    says(&refused(dir.path(), &lines)?, &["broker 1", "broker 7"])
}

fn other_cluster() -> Result<()> {
    let mut broker = used_directory()?;
    let file = broker.log_dir().join("meta.properties");
    let kept = fs::read_to_string(&file)?;
    let ours = kept.lines().find_map(|line| line.strip_prefix("cluster.id=")).context("no cluster.id")?.to_owned();
    fs::write(&file, kept.replace(&ours, "AAAAAAAAAAAAAAAAAAAAAA"))?;
    let lines: Vec<String> = fs::read_to_string(broker.properties_file())?.lines().map(str::to_owned).collect();
    let dir = TempDir::with_prefix("compat-")?;
    says(&refused(dir.path(), &lines)?, &[&ours, "AAAAAAAAAAAAAAAAAAAAAA"])?;
    // Nothing was touched: with its own id back it serves.
    fs::write(&file, kept)?;
    broker.start_again()?;
    load::verify(&broker.address(), "kept", 0, &Ledger::default()).map(|_| ())
}

fn lost_store() -> Result<()> {
    let dir = TempDir::with_prefix("compat-")?;
    let partition = dir.path().join("data/orders-0");
    fs::create_dir_all(&partition)?;
    fs::write(partition.join("00000000000000000000.log"), b"")?;
    let said = refused(dir.path(), &basic(dir.path(), free_port()?))?;
    says(&said, &[&dir.path().join("data").display().to_string()])?;
    ensure!(partition.join("00000000000000000000.log").exists(), "the partition's file is gone");
    Ok(())
}

fn strange_folders() -> Result<()> {
    let mut broker = used_directory()?;
    let data = broker.log_dir();
    for name in ["lost+found", "t-x", "data"] {
        fs::create_dir(data.join(name))?;
    }
    // Either a refusal that names one, or a start that leaves them all.
    match broker.start_again() {
        Ok(()) => {
            load::verify(&broker.address(), "kept", 0, &Ledger::default())?;
            broker.stop()?;
        }
        Err(error) => says(&format!("{error:#}"), &["lost+found"]).or_else(|_| says(&broker.log_text(), &["data"]))?,
    }
    for name in ["lost+found", "t-x", "data"] {
        ensure!(data.join(name).is_dir(), "{name} was removed");
    }
    Ok(())
}

fn port_taken() -> Result<()> {
    let port = free_port()?;
    let _taken = TcpListener::bind(("127.0.0.1", port))?;
    let dir = TempDir::with_prefix("compat-")?;
    says(&refused(dir.path(), &basic(dir.path(), port))?, &[&port.to_string()])
}

/// After a kill: indexes of zeros, cut, or missing are rebuilt, a torn tail is cut.
fn damaged() -> Result<()> {
    let settings = [("log.segment.bytes", "200000"), ("log.index.interval.bytes", "500")];
    let mut broker = Broker::start(&On::Klamm, &settings)?;
    load::create_topic(&broker.address(), "t", 1)?;
    let mut writers = vec![vec![(0, Ledger::default())]];
    load::run(&broker.address(), "t", -1, &mut writers, |total| {
        load::await_count(total, 400, Duration::from_secs(60))
    })?;
    broker.kill()?;
    let partition = broker.log_dir().join("t-0");
    let mut names: Vec<_> =
        fs::read_dir(&partition)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    names.sort();
    for (i, path) in
        names.iter().filter(|path| path.extension().is_some_and(|e| e == "index" || e == "timeindex")).enumerate()
    {
        match i % 3 {
            0 => fs::write(path, vec![0; 800])?,
            1 => fs::write(path, [0; 5])?,
            _ => fs::remove_file(path)?,
        }
    }
    let last = names.iter().rfind(|path| path.extension().is_some_and(|e| e == "log")).context("no segment")?;
    let size = fs::metadata(last)?.len();
    let file = fs::File::options().write(true).open(last)?;
    file.set_len(size.saturating_sub(100))?;
    drop(file);
    broker.start_again()?;
    let ledger = &mut writers[0][0].1;
    let whole = load::verify(&broker.address(), "t", 0, &Ledger::default())?;
    // What was cut away was cut by us; everything before it is there.
    ledger.acknowledged.retain(|offset, _| *offset < whole as i64);
    ensure!(whole + 50 > ledger.next as usize / 2, "only {whole} records are left");
    load::verify(&broker.address(), "t", 0, ledger).map(|_| ())
}

fn clean_stop() -> Result<()> {
    let mut broker = used_directory()?;
    let mark = broker.log_dir().join(".kafka_cleanshutdown");
    ensure!(mark.exists(), "no clean-shutdown marker");
    broker.start_again()?;
    ensure!(!mark.exists(), "the marker stays while it runs");
    Ok(())
}
