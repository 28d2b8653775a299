//! The image, built by a Docker engine, and compose files of other people's with nothing but the image's name changed: a
//! client inside the network and one outside are served. Full form only; needs root where no engine runs yet.
//!
//! Base images are not pulled: Debian's is made by `debootstrap`, ZooKeeper's from it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::broker::{On, free_port, klamm};
use crate::daemon::Daemon;
use crate::lane::{Run, skip};
use crate::proc::{self, Output, tool};
use crate::wait::until;

const IMAGE: &str = "klamm-tests/klamm";
const ZOOKEEPER: &str = "klamm-tests/zookeeper";
const BASE: &str = "debian:bookworm-slim";

/// What the image may weigh.
const IMAGE_BYTES: u64 = 30_000_000;
/// For one command in a container.
const LIMIT: Duration = Duration::from_secs(60);
/// For what downloads packages.
const BUILD_LIMIT: Duration = Duration::from_secs(900);

/// A compose file, and what is asked of it beyond serving.
struct Fixture {
    name: &'static str,
    /// Whether a port is published.
    outside: bool,
    /// A topic that an init container or a variable makes.
    topic: Option<&'static str>,
    /// Where data must lie.
    data: &'static str,
    replicas: u32,
}

const FIXTURES: &[Fixture] = &[
    Fixture {
        name: "confluent-zookeeper",
        outside: true,
        topic: Some("orders"),
        data: "/var/lib/kafka/data",
        replicas: 1,
    },
    Fixture { name: "confluent-three", outside: true, topic: None, data: "/var/lib/kafka/data", replicas: 3 },
    Fixture { name: "confluent-kraft", outside: true, topic: None, data: "/tmp/kraft-combined-logs", replicas: 1 },
    Fixture { name: "bitnami-zookeeper", outside: true, topic: None, data: "/bitnami/kafka/data", replicas: 1 },
    Fixture { name: "bitnami-kraft", outside: true, topic: None, data: "/bitnami/kafka/data", replicas: 1 },
    Fixture { name: "apache-default", outside: false, topic: None, data: "/var/lib/kafka/data", replicas: 1 },
    Fixture { name: "apache-file", outside: true, topic: None, data: "/tmp/kraft-combined-logs", replicas: 1 },
    Fixture {
        name: "wurstmeister",
        outside: true,
        topic: Some("ledger"),
        data: "/kafka/kafka-logs-broker",
        replicas: 1,
    },
];

pub fn lane(run: &mut Run) -> Result<()> {
    if !run.full() {
        return Ok(());
    }
    if run.on != On::Klamm {
        return skip("it judges Klamm's own image");
    }
    let scratch = TempDir::with_prefix("images-")?;
    let _engine = engine(scratch.path())?;
    base(scratch.path())?;
    if docker(&["image", "inspect", ZOOKEEPER], LIMIT).is_err() {
        let dir = images().join("zookeeper");
        docker(&["build", "-t", ZOOKEEPER, &dir.display().to_string()], BUILD_LIMIT)?;
    }
    let started = Instant::now();
    let built = build(scratch.path());
    let told = built.as_ref().map_or_else(|_| String::new(), |bytes| format!(": {} kB", bytes / 1000));
    let name = format!("the image is built, and no more than {} kB{told}", IMAGE_BYTES / 1000);
    run.must(name, built.map(|_| ()), started.elapsed())?;
    for fixture in FIXTURES {
        run.unit(fixture.name, || fixture.play(scratch.path()));
    }
    for (name, variables, words) in REFUSED {
        run.unit(format!("refused: {name}"), || refused(variables, words));
    }
    Ok(())
}

/// Variables with which a container ends, and what it says then.
const REFUSED: &[(&str, &[&str], &str)] = &[
    (
        "one of three KRaft nodes",
        &["KAFKA_PROCESS_ROLES=broker,controller", "KAFKA_CONTROLLER_QUORUM_VOTERS=1@a:1,2@b:1,3@c:1"],
        "KAFKA_CONTROLLER_QUORUM_VOTERS",
    ),
    ("a controller alone", &["KAFKA_PROCESS_ROLES=controller"], "a controller alone is not there"),
    ("users of Bitnami's", &["KAFKA_CLIENT_USERS=user", "KAFKA_CLIENT_PASSWORDS=x"], "TLS and SASL are not there yet"),
    ("a bad value", &["KAFKA_NUM_PARTITIONS=many"], "KAFKA_NUM_PARTITIONS"),
    ("a secret that is not there", &["CLUSTER_ID_FILE=/run/secrets/no"], "/run/secrets/no cannot be read"),
    ("clients told 0.0.0.0", &["KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://0.0.0.0:9092"], "KAFKA_ADVERTISED_LISTENERS"),
];

fn refused(variables: &[&str], words: &str) -> Result<()> {
    let mut command = Command::new("docker");
    command.args(["run", "--rm"]);
    for variable in variables {
        command.args(["-e", variable]);
    }
    let output = proc::run(command.arg(IMAGE), b"", LIMIT)?;
    ensure!(output.status.code() == Some(1), "{}: {}", output.status, output.all());
    ensure!(output.all().contains(words), "{}", output.all());
    Ok(())
}

fn images() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("images")
}

fn docker(args: &[&str], limit: Duration) -> Result<Output> {
    proc::run(Command::new("docker").args(args).env("DOCKER_BUILDKIT", "0"), b"", limit)?.ok()
}

/// Ends in order when dropped, and its containers with it.
struct Engine(Daemon);

impl Drop for Engine {
    fn drop(&mut self) {
        // One that does not end by itself is killed with the process.
        let _ = self.0.signal(Signal::TERM).and_then(|()| self.0.await_exit(LIMIT));
    }
}

/// The engine that runs, else one of our own for as long as the lane lasts.
fn engine(scratch: &Path) -> Result<Option<Engine>> {
    tool("docker")?;
    tool("docker-compose")?;
    if docker(&["info"], LIMIT).is_ok() {
        return Ok(None);
    }
    let log = scratch.join("dockerd.log");
    let engine = Engine(Daemon::spawn(&mut Command::new(tool("dockerd")?), &log)?);
    until("the Docker engine", LIMIT, || docker(&["info"], LIMIT).map(|_| ()))
        .with_context(|| proc::tail(&fs::read_to_string(&log).unwrap_or_default(), 10))?;
    Ok(Some(engine))
}

/// Debian's base image under the name that Dockerfiles know.
fn base(scratch: &Path) -> Result<()> {
    if docker(&["image", "inspect", BASE], LIMIT).is_ok() {
        return Ok(());
    }
    let (root, tar) = (scratch.join("root"), scratch.join("root.tar"));
    let mut command = Command::new(tool("debootstrap")?);
    command.args(["--variant=minbase", "bookworm"]).arg(&root);
    proc::run(&mut command, b"", BUILD_LIMIT)?.ok()?;
    let mut command = Command::new("tar");
    proc::run(command.arg("-cf").arg(&tar).arg("-C").arg(&root).arg("."), b"", BUILD_LIMIT)?.ok()?;
    docker(&["import", &tar.display().to_string(), BASE], BUILD_LIMIT)?;
    fs::remove_dir_all(root)?;
    Ok(fs::remove_file(tar)?)
}

/// Builds the image around the binary that is judged; its size in bytes.
fn build(scratch: &Path) -> Result<u64> {
    let context = scratch.join("context");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the root of the tree")?;
    fs::create_dir_all(&context)?;
    for dir in ["docker", "configs"] {
        proc::run(Command::new("cp").arg("-r").arg(root.join(dir)).arg(&context), b"", LIMIT)?.ok()?;
    }
    let binary = context.join("klamm");
    // As the Dockerfile's own build does; without a strip the image is judged as it is.
    let stripped =
        proc::run(Command::new("strip").arg("-o").arg(&binary).arg(klamm()?), b"", LIMIT).and_then(Output::ok);
    if stripped.is_err() {
        fs::copy(klamm()?, &binary)?;
    }
    // Without the stage that builds the binary: not every engine's builder leaves out what is not asked for.
    let text = fs::read_to_string(context.join("docker/Dockerfile"))?;
    let rest = text.find("FROM scratch AS prebuilt").context("the stage `prebuilt` of docker/Dockerfile")?;
    let file = context.join("Dockerfile");
    fs::write(&file, format!("ARG BINARY=prebuilt\n{}", &text[rest..]))?;
    let (file, context) = (file.display().to_string(), context.display().to_string());
    docker(&["build", "-t", IMAGE, "-f", &file, &context], BUILD_LIMIT)?;
    let size = docker(&["image", "inspect", "--format", "{{.Size}}", IMAGE], LIMIT)?.out();
    let size: u64 = size.trim().parse().context("a size")?;
    ensure!(size <= IMAGE_BYTES, "the image has {size} bytes");
    Ok(size)
}

/// A compose file that is up. Taken down, with its volumes, when dropped.
struct Project {
    name: String,
    file: PathBuf,
    ports: [u16; 3],
}

impl Project {
    fn compose(&self, args: &[&str], input: &[u8], limit: Duration) -> Result<Output> {
        let mut command = Command::new("docker-compose");
        command.arg("-p").arg(&self.name).arg("-f").arg(&self.file).args(args);
        command.env("IMAGE", IMAGE).env("ZOOKEEPER_IMAGE", ZOOKEEPER).env("PROJECT", &self.name);
        for (name, port) in ["PORT", "PORT2", "PORT3"].iter().zip(self.ports) {
            command.env(name, port.to_string());
        }
        proc::run(&mut command, input, limit)?.ok()
    }

    /// In the container of the first broker.
    fn inside(&self, command: &[&str], input: &[u8]) -> Result<String> {
        Ok(self.compose(&[&["exec", "-T", "broker"], command].concat(), input, LIMIT)?.out())
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        // What is left behind is seen by the next `up`.
        let _ = self.compose(&["down", "-v", "-t", "10"], b"", LIMIT);
    }
}

impl Fixture {
    fn play(&self, scratch: &Path) -> Result<()> {
        let ports = [free_port()?, free_port()?, free_port()?];
        let file = images().join("compose").join(format!("{}.yml", self.name));
        let name = format!("klamm{}{}", std::process::id(), self.name.replace('-', ""));
        let project = Project { name, file, ports };
        project.compose(&["up", "-d"], b"", LIMIT)?;
        let served = self.serve(&project, scratch);
        if served.is_err() {
            let logs = project.compose(&["logs", "--no-color", "--tail=40"], b"", LIMIT);
            println!("{}", logs.map_or_else(|error| format!("{error:#}"), |output| output.all()));
        }
        served
    }

    fn serve(&self, project: &Project, scratch: &Path) -> Result<()> {
        let inside = if self.outside { "broker:29092" } else { "localhost:9092" };
        until("the image's health check", LIMIT, || project.inside(&["klamm", "ready"], b""))?;
        if self.replicas > 1 {
            let expected = self.replicas.to_string();
            project.inside(&["cub", "kafka-ready", "-b", inside, &expected, "60"], b"")?;
        }
        if let Some(topic) = self.topic {
            let described = until("the topic", LIMIT, || {
                project.inside(&["kafka-topics.sh", "--bootstrap-server", inside, "--describe", "--topic", topic], b"")
            })?;
            ensure!(described.contains(&format!("Topic: {topic}")), "{described}");
        }
        let replicas = self.replicas.to_string();
        let create = ["/opt/kafka/bin/kafka-topics.sh", "--bootstrap-server", inside, "--create", "--topic", "lakes"];
        project.inside(&[&create[..], &["--partitions", "2", "--replication-factor", &replicas]].concat(), b"")?;
        let produce = ["kafka-console-producer", "--bootstrap-server", inside, "--topic", "lakes"];
        project.inside(&produce, b"from inside\n")?;
        if self.outside {
            let broker = format!("localhost:{}", project.ports[0]);
            let mut kcat = Command::new(tool("kcat")?);
            kcat.args(["-b", &broker, "-P", "-t", "lakes"]).current_dir(scratch);
            proc::run(&mut kcat, b"from outside\n", LIMIT)?.ok()?;
            let mut kcat = Command::new(tool("kcat")?);
            kcat.args(["-b", &broker, "-C", "-t", "lakes", "-o", "beginning", "-e", "-q"]);
            let read = proc::run(&mut kcat, b"", LIMIT)?.ok()?.out();
            ensure!(read.contains("from inside\n") && read.contains("from outside\n"), "{read}");
        }
        let count = if self.outside { "2" } else { "1" };
        let consume = ["/opt/bitnami/kafka/bin/kafka-console-consumer.sh", "--bootstrap-server", inside];
        let rest = ["--topic", "lakes", "--from-beginning", "--max-messages", count, "--timeout-ms", "30000"];
        let read = project.inside(&[&consume[..], &rest].concat(), b"")?;
        ensure!(read.contains("from inside\n"), "{read}");
        // The shape of common health checks, by a shell.
        let check =
            format!("kafka-broker-api-versions --bootstrap-server {inside} && nc -z {}", inside.replace(':', " "));
        project.inside(&["bash", "-c", &check], b"")?;
        project.inside(&["sh", "-c", &format!("ls {}/meta.properties", self.data)], b"")?;
        // It is the same after the container is made anew: with its volumes, or its own layer.
        project.compose(&["restart", "-t", "20", "broker"], b"", LIMIT)?;
        until("the broker again", LIMIT, || project.inside(&["klamm", "ready"], b""))?;
        let read = project.inside(&[&consume[..], &rest].concat(), b"")?;
        ensure!(read.contains("from inside\n"), "after a restart: {read}");
        Ok(())
    }
}
