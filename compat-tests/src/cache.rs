//! `target/compat-cache`: what lanes fetch from the registries, each under a name and a stamp of what it was made from.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::proc::{run, tail, tool};

/// How long making something may take that others' work holds up.
pub const BUILD: Duration = Duration::from_secs(1800);

/// This crate's folder in the source tree: the lanes' programs lie there.
pub fn sources() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Cargo's target directory: the nearest one above this program that carries cargo's tag.
pub fn target_dir() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    let tagged = exe.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file());
    tagged.map_or_else(|| sources().join("../target"), Path::to_path_buf)
}

/// `dir/name`, made by `make` unless it was finished before from the same `stamp`.
pub fn made(name: &str, stamp: &str, make: impl Fn(&Path) -> Result<()>) -> Result<PathBuf> {
    let dir = target_dir().join("compat-cache").join(name);
    let mark = dir.join(".made-from");
    if fs::read_to_string(&mark).is_ok_and(|text| text == stamp) {
        return Ok(dir);
    }
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("clear {}", dir.display()))?;
    }
    fs::create_dir_all(&dir)?;
    make(&dir).with_context(|| format!("make {}", dir.display()))?;
    fs::write(&mark, stamp)?;
    Ok(dir)
}

/// A download may fail for reasons of the network alone: three tries.
pub fn fetch(command: impl Fn() -> Command) -> Result<()> {
    let mut last = String::new();
    for _ in 0..3 {
        match run(&mut command(), b"", Duration::from_secs(600)) {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => last = tail(&output.all(), 12),
            Err(error) => last = format!("{error:#}"),
        }
    }
    bail!("{last}")
}

/// The jars named by `java/POM/pom.xml`, with everything they need. `clients-VERSION` is that version of what
/// `java/clients/pom.xml` names.
pub fn jars(pom: &str) -> Result<PathBuf> {
    let mvn = tool("mvn")?;
    let clients = pom.strip_prefix(CLIENTS);
    let file = sources().join("java").join(clients.map_or(pom, |_| "clients")).join("pom.xml");
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    made(pom, &text, |dir| {
        fetch(|| {
            let mut command = Command::new(&mvn);
            command.args(["-q", "-B", "-f"]).arg(&file).arg("dependency:copy-dependencies");
            command.arg("-DincludeScope=runtime").arg(format!("-DoutputDirectory={}", dir.display()));
            command.args(clients.map(|version| format!("-Dclients={version}")));
            command
        })
    })
}

const CLIENTS: &str = "clients-";

/// A Python environment with exactly these packages.
pub fn venv(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let python = tool("python3")?;
    let dir = made(name, &packages.join(" "), |dir| {
        run(Command::new(&python).args(["-m", "venv"]).arg(dir), b"", BUILD)?.ok()?;
        fetch(|| {
            let mut command = Command::new(dir.join("bin/pip"));
            command.args(["install", "--quiet", "--no-input"]).args(packages);
            command
        })
    })?;
    Ok(dir.join("bin/python"))
}

/// `go/NAME/main.go`, built.
pub fn go_program(name: &str) -> Result<PathBuf> {
    let go = tool("go")?;
    let source = sources().join("go");
    let mut stamp = String::new();
    for file in ["checks/checks.go", &format!("{name}/go.mod"), &format!("{name}/main.go")] {
        stamp += &fs::read_to_string(source.join(file)).with_context(|| file.to_owned())?;
    }
    let dir = made(&format!("go-{name}"), &stamp, |dir| {
        fetch(|| {
            let mut command = Command::new(&go);
            command.args(["build", "-o"]).arg(dir).arg(".").current_dir(source.join(name));
            command.env("GOFLAGS", "-buildvcs=false -mod=readonly");
            command
        })
    })?;
    Ok(dir.join(name))
}

/// `node/` with the packages of its lock file installed beside a copy of the programs. Answers the folder.
pub fn node_programs() -> Result<PathBuf> {
    let npm = tool("npm")?;
    let source = sources().join("node");
    let mut stamp = String::new();
    for file in NODE_FILES {
        stamp += &fs::read_to_string(source.join(file)).with_context(|| file.to_owned())?;
    }
    made("node", &stamp, |dir| {
        for file in NODE_FILES {
            fs::copy(source.join(file), dir.join(file))?;
        }
        fetch(|| {
            let mut command = Command::new(&npm);
            command.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(dir);
            command
        })
    })
}

const NODE_FILES: [&str; 4] = ["package.json", "package-lock.json", "checks.js", "kafkajs.js"];

/// Java classes compiled from `java/FILE` and what it uses there, against a folder of jars. Answers the class path.
pub fn java_program(file: &str, pom: &str) -> Result<String> {
    let javac = tool("javac")?;
    let jars = jars(pom)?;
    let java = sources().join("java");
    let read = |name: &str| fs::read_to_string(java.join(name)).with_context(|| java.join(name).display().to_string());
    let text = read(file)? + &read("Checks.java")?;
    let class_path = format!("{}/*", jars.display());
    let classes = made(&format!("{pom}-{}", file.trim_end_matches(".java")), &text, |dir| {
        let mut command = Command::new(&javac);
        command.args(["-nowarn", "-Xlint:none", "-cp", &class_path, "-d"]).arg(dir);
        command.arg("-sourcepath").arg(&java).arg(java.join(file));
        run(&mut command, b"", Duration::from_secs(120))?.ok().map(|_| ())
    })?;
    Ok(format!("{}:{class_path}", classes.display()))
}

/// A small JVM that starts fast.
pub fn java(class_path: &str) -> Result<Command> {
    let mut command = Command::new(tool("java")?);
    command.args(["-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]);
    let log4j = sources().join("java/log4j.properties");
    command.arg(format!("-Dlog4j.configuration=file:{}", log4j.display()));
    command.args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", class_path]);
    Ok(command)
}
