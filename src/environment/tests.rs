//! The environments of compose files, and what they come to: `testdata/*.txt`. `KLAMM_REWRITE=1` writes the outcomes anew,
//! for the difference to be read.
//!
//! ```text
//! == title
//! VARIABLE=value
//! file PATH: line\nline        what is read there
//! run COMMAND: printed         what a command prints
//! ----
//! property=value               what the broker is started with
//! - a line of the log
//! refused: why
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::{fs, io};

use super::{Outside, Variables, read};
use crate::config::BrokerConfig;

#[derive(Default)]
struct World {
    files: BTreeMap<String, String>,
    commands: BTreeMap<String, String>,
}

impl Outside for World {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        match self.files.get(path).map(String::as_str) {
            Some("(denied)") => Err(io::ErrorKind::PermissionDenied.into()),
            Some(text) => Ok(text.replace("\\n", "\n").into_bytes()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn run(&self, command: &str) -> Result<String, String> {
        self.commands.get(command).cloned().ok_or_else(|| format!("`{command}` ended with 127: not found"))
    }

    fn host_name(&self) -> String {
        "broker".to_owned()
    }
}

/// What the lines above `----` come to.
fn outcome(given: &str) -> String {
    let (mut variables, mut world) = (Variables::new(), World::default());
    for line in given.lines() {
        let pair = |text: &str| text.split_once(": ").map(|(one, other)| (one.to_owned(), other.to_owned()));
        if let Some((path, text)) = line.strip_prefix("file ").and_then(pair) {
            world.files.insert(path, text);
        } else if let Some((command, text)) = line.strip_prefix("run ").and_then(pair) {
            world.commands.insert(command, text);
        } else if let Some((name, value)) = line.split_once('=') {
            variables.insert(name.to_owned(), value.to_owned());
        }
    }
    let mut text = String::new();
    match read(&variables, &world) {
        Err(refusal) => writeln!(text, "refused: {refusal}").expect("a string"),
        Ok(setup) => {
            for (key, value) in &setup.properties {
                writeln!(text, "{key}={value}").expect("a string");
            }
            for notice in &setup.notices {
                writeln!(text, "- {notice}").expect("a string");
            }
            for topic in setup.topics.iter().flat_map(|topics| &topics.topics) {
                writeln!(text, "topic {topic:?}").expect("a string");
            }
            if let Err(error) = BrokerConfig::from_properties(setup.properties) {
                writeln!(text, "no configuration: {error}").expect("a string");
            }
        }
    }
    text
}

fn check(file: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/environment/testdata").join(file);
    let text = fs::read_to_string(&path).expect("a file of cases");
    let (mut anew, mut cases) = (String::new(), 0);
    for case in text.split("== ").skip(1) {
        let (title, rest) = case.split_once('\n').expect("a title");
        let given = rest.split("----\n").next().unwrap_or_default();
        write!(anew, "== {title}\n{given}----\n{}\n", outcome(given)).expect("a string");
        cases += 1;
    }
    assert!(cases > 0, "{file} has no case");
    let anew = format!("{}\n", anew.trim_end());
    if std::env::var_os("KLAMM_REWRITE").is_some() {
        fs::write(&path, &anew).expect("the file written");
    }
    for (was, is) in text.split("== ").zip(anew.split("== ")) {
        assert_eq!(is, was, "{file}");
    }
}

#[test]
fn apache_and_confluent() {
    check("kafka.txt");
}

#[test]
fn bitnami() {
    check("bitnami.txt");
}

#[test]
fn wurstmeister() {
    check("wurstmeister.txt");
}

#[test]
fn what_is_refused() {
    check("refused.txt");
}
