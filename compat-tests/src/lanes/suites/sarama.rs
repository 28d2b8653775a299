//! sarama's own functional tests, of the version that `go/sarama-suite/go.mod` pins: five brokers as in its
//! `docker-compose.yml`, each behind a proxy.
//!
//! ```text
//!  tests --localhost:2909N--> toxiproxy ---> listener for clients of broker N
//!    |  +-- breaks ----------^
//!    +- `docker compose stop kafka-N`: a script --> this program --SIGTERM--> broker N
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use tempfile::TempDir;

use super::left_out::LeftOut;
use super::several::on_brokers;
use super::{Finding, Suite, go_tests, judge};
use crate::broker::free_port;
use crate::cluster::Cluster;
use crate::daemon::Daemon;
use crate::lane::{Run, skip};
use crate::lanes::checks::Verdict;
use crate::lanes::cluster::admin;
use crate::proc::{self, tail, tool};
use crate::wait::until;
use crate::znodes::ZooKeeper;

const PACKAGE: &str = "github.com/IBM/sarama";
const TOXIPROXY: (&str, &str) = ("toxiproxy", "github.com/Shopify/toxiproxy/v2/cmd/server");
const BROKERS: [i32; 5] = [1, 2, 3, 4, 5];
/// Its proxies listen on this port and a broker's id, whatever it is told.
const PROXIES: u16 = 29_090;
/// The brokers' listeners behind them: the same way.
const BEHIND: u16 = 28_090;
/// Those of its `docker-compose.yml`, and that records stamped long ago stay.
const SETTINGS: &[(&str, &str)] = &[
    ("listeners", "INTERNAL://127.0.0.1:{port},LOCAL://127.0.0.1:2809{id}"),
    ("advertised.listeners", "INTERNAL://127.0.0.1:{port},LOCAL://localhost:2909{id}"),
    ("listener.security.protocol.map", "INTERNAL:PLAINTEXT,LOCAL:PLAINTEXT"),
    ("inter.broker.listener.name", "INTERNAL"),
    ("broker.rack", "{id}"),
    ("replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector"),
    ("default.replication.factor", "2"),
    ("offsets.topic.replication.factor", "2"),
    ("zookeeper.session.timeout.ms", "6000"),
    ("auto.create.topics.enable", "false"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("log.retention.ms", "-1"),
];
/// For the tests of one file.
const LIMIT: Duration = Duration::from_secs(900);

struct Sarama<'a> {
    cluster: &'a Mutex<&'a mut Cluster>,
    zookeeper: ZooKeeper,
    program: PathBuf,
    folder: PathBuf,
    /// Tests by the name of their file; whether each is judged.
    tests: BTreeMap<String, Vec<(String, bool)>>,
    toxiproxy: String,
    /// With a script called `docker` in it.
    bin: TempDir,
}

pub fn lane(run: &mut Run) -> Result<()> {
    if !run.full() {
        // Each of its processes makes topics of three replicas anew, and most of its tests wait for brokers to come back.
        return Ok(());
    }
    for port in BROKERS.iter().flat_map(|&id| [PROXIES + id as u16, BEHIND + id as u16]) {
        if TcpListener::bind(("127.0.0.1", port)).is_err() {
            return skip(format!("port {port} is taken, and its tests want it"));
        }
    }
    let built = go_tests::build("sarama-suite", PACKAGE, &["functional"], &[TOXIPROXY])?;
    let control = TcpListener::bind(("127.0.0.1", free_port()?))?;
    let bin = TempDir::with_prefix("compat-bin-")?;
    docker(bin.path(), &control)?;
    on_brokers(run, &BROKERS, SETTINGS, |run, cluster| {
        let (_toxiproxy, address) = proxies(&built.programs.join(TOXIPROXY.0), bin.path())?;
        let mut left_out = LeftOut::read(run.lane)?;
        let tests = tests(&built.folder, |test| left_out.reason(test).is_none())?;
        let toxiproxy = format!("http://{address}");
        let zookeeper = ZooKeeper::connect(&cluster.zookeeper.connect_string())?;
        let cluster = &Mutex::new(cluster);
        let suite = Sarama { cluster, zookeeper, program: built.program, folder: built.folder, tests, toxiproxy, bin };
        thread::scope(|scope| {
            scope.spawn(|| answer(&control, cluster));
            let judged = judge(run, &suite);
            // Ends the other thread.
            let asked = ask(&control, END);
            judged.and(asked)
        })
    })
}

/// The tests in the files that hold those for brokers.
fn tests(folder: &Path, mut judged: impl FnMut(&str) -> bool) -> Result<BTreeMap<String, Vec<(String, bool)>>> {
    let mut tests = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(subject) = name.strip_prefix("functional_").and_then(|rest| rest.strip_suffix("_test.go")) else {
            continue;
        };
        let source = fs::read_to_string(&path)?;
        let declared = source.lines().filter_map(|line| line.strip_prefix("func Test")?.split_once("(t *testing.T)"));
        let named = declared.map(|(name, _)| format!("Test{name}"));
        let marked: Vec<(String, bool)> = named.map(|test| (test.clone(), judged(&test))).collect();
        if !marked.is_empty() {
            tests.insert(subject.to_owned(), marked);
        }
    }
    ensure!(!tests.is_empty(), "no tests in {}", folder.display());
    Ok(tests)
}

/// Starts the proxies before the brokers. Answers where they are told what to do.
fn proxies(program: &Path, dir: &Path) -> Result<(Daemon, String)> {
    let port = free_port()?;
    let file = dir.join("proxies.json");
    let proxy = |id: &i32| {
        serde_json::json!({
            "name": format!("kafka{id}"),
            "listen": format!("127.0.0.1:{}", PROXIES + *id as u16),
            "upstream": format!("127.0.0.1:{}", BEHIND + *id as u16),
            "enabled": true,
        })
    };
    fs::write(&file, serde_json::to_vec(&BROKERS.iter().map(proxy).collect::<Vec<_>>())?)?;
    let mut command = Command::new(program);
    command.args(["-host", "127.0.0.1", "-port", &port.to_string(), "-config"]).arg(&file);
    let daemon = Daemon::spawn(&mut command, &dir.join("toxiproxy.log"))?;
    let last = PROXIES + BROKERS[BROKERS.len() - 1] as u16;
    until("the proxies", Duration::from_secs(60), || {
        [port, last].iter().try_for_each(|&port| Ok(TcpStream::connect(("127.0.0.1", port)).map(|_| ())?))
    })?;
    Ok((daemon, format!("127.0.0.1:{port}")))
}

/// What ends [`answer`].
const END: &str = "end";

/// A script that stands in for docker: it sends its words, and prints and ends as it is told.
fn docker(bin: &Path, control: &TcpListener) -> Result<()> {
    let port = control.local_addr()?.port();
    let text = format!(
        "#!{}\nexec 3<>/dev/tcp/127.0.0.1/{port}\necho \"$*\" >&3\nread -r code <&3\ncat <&3\nexit \"$code\"\n",
        tool("bash")?
    );
    let script = bin.join("docker");
    fs::write(&script, text)?;
    Ok(fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?)
}

/// Does what the script is asked for, until the end is asked for.
fn answer(control: &TcpListener, cluster: &Mutex<&mut Cluster>) {
    for asking in control.incoming() {
        let Ok(mut asking) = asking else { continue };
        let mut words = String::new();
        if BufReader::new(&asking).read_line(&mut words).is_err() {
            continue;
        }
        if words.trim() == END {
            return;
        }
        let (code, text) = match compose(words.trim(), cluster) {
            Ok(text) => (0, text),
            Err(error) => (1, format!("{error:#}\n")),
        };
        // One that no longer listens is judged by what its test makes of that.
        let _ = asking.write_all(format!("{code}\n{text}").as_bytes());
    }
}

fn ask(control: &TcpListener, words: &str) -> Result<()> {
    Ok(TcpStream::connect(control.local_addr()?)?.write_all(format!("{words}\n").as_bytes())?)
}

/// `compose stop kafka-2`, and the like.
fn compose(words: &str, cluster: &Mutex<&mut Cluster>) -> Result<String> {
    let words: Vec<&str> = words.split_whitespace().collect();
    let id = words.last().and_then(|word| word.strip_prefix("kafka-")?.parse().ok());
    let mut cluster = locked(cluster)?;
    let broker = cluster.broker(id.with_context(|| format!("no broker is named in {words:?}"))?)?;
    match words[..] {
        ["compose", "stop", _] => broker.stop_in_order().map(|()| String::new()),
        ["compose", "start", _] => broker.start_again().map(|()| String::new()),
        ["compose", "logs", ..] => Ok(broker.log_text()),
        _ => bail!("{words:?} is not known here"),
    }
}

impl Sarama<'_> {
    /// Deletes what was made so far, to the end. Each process does so itself, and makes its topics anew as soon as metadata
    /// no longer shows them; those that a controller has not deleted whole by then are never made, on a real Kafka either.
    fn delete_topics(&self) -> Result<()> {
        let cluster = locked(self.cluster)?;
        let topics: BTreeSet<String> = cluster.view()?.partitions.into_keys().map(|(topic, _)| topic).collect();
        let own: Vec<String> = topics.into_iter().filter(|topic| !topic.starts_with("__")).collect();
        own.iter().try_for_each(|topic| admin::delete_topic(&cluster, topic))?;
        until("the topics to be gone", Duration::from_secs(60), || {
            let tree = self.zookeeper.tree()?;
            let left = own.iter().find(|topic| tree.contains_key(&format!("/brokers/topics/{topic}")));
            left.map_or(Ok(()), |topic| bail!("{topic} is there"))
        })
    }
}

impl Suite for Sarama<'_> {
    fn pieces(&self) -> Vec<String> {
        self.tests.keys().cloned().collect()
    }

    fn light(&self) -> &'static [&'static str] {
        &[]
    }

    /// Its processes share topics.
    fn at_once(&self) -> usize {
        1
    }

    /// What is not judged is not played: it would wait for its limit.
    fn play(&self, piece: &str) -> Result<Vec<Finding>> {
        let tests = self.tests.get(piece).with_context(|| format!("no file has tests of {piece}"))?;
        let (played, not): (Vec<_>, Vec<_>) = tests.iter().partition(|(_, judged)| *judged);
        let mut findings: Vec<Finding> = not.into_iter().map(|(test, _)| not_played(test)).collect();
        if played.is_empty() {
            return Ok(findings);
        }
        let names: Vec<&str> = played.iter().map(|(test, _)| test.as_str()).collect();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(&self.program);
        command.args(["-test.v", "-test.run", &format!("^({})$", names.join("|"))]).current_dir(&self.folder);
        command.arg(format!("-test.timeout={}s", LIMIT.as_secs()));
        command.env("TOXIPROXY_ADDR", &self.toxiproxy).env("KAFKA_VERSION", "3.9.1");
        command.env("PATH", format!("{}:{path}", self.bin.path().display()));
        self.delete_topics()?;
        let said = proc::run(&mut command, b"", LIMIT + Duration::from_secs(20))?.all();
        ensure!(said.contains("=== RUN"), "no test was begun: {}", tail(&said, 12));
        findings.extend(go_tests::findings(&said, piece));
        Ok(findings)
    }
}

fn locked<'a, 'b>(cluster: &'a Mutex<&'b mut Cluster>) -> Result<MutexGuard<'a, &'b mut Cluster>> {
    cluster.lock().map_err(|_| anyhow!("who held the brokers has panicked"))
}

fn not_played(test: &str) -> Finding {
    Finding { unit: test.to_owned(), verdict: Verdict::Skipped("not played".to_owned()), took: Duration::ZERO }
}
