//! The environment of a container to properties: what the images of Kafka that people run make of their variables.
//!
//! ```text
//! variables ─ secrets (NAME_FILE) ─┬─ kafka         apache/kafka and Confluent: KAFKA_*
//!                                  ├─ bitnami       KAFKA_CFG_* and its aliases            ─ kraft ─ Setup
//!                                  └─ wurstmeister  KAFKA_* with commands, topics to make
//! ```
//!
//! [`read`] is told what files and commands say and touches nothing itself. Only a broker that is asked to
//! (`--from-environment`) reads variables at all: a stray one on a host changes nothing.

mod bitnami;
mod kafka;
mod kraft;
mod names;
mod notice;
mod reach;
mod secrets;
#[cfg(test)]
mod tests;
mod topics;
mod wurstmeister;

use std::collections::BTreeMap;
use std::io;

use crate::config::properties;

pub use notice::{Notice, Refusal};
pub use reach::unreachable;
pub use topics::{NewTopic, Topics};

/// Names and values.
pub type Variables = BTreeMap<String, String>;

/// What is outside of the process.
pub trait Outside {
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;
    /// What a shell command prints, without the line's end; why it could not, in words.
    fn run(&self, command: &str) -> Result<String, String>;
    fn host_name(&self) -> String;
}

/// Whose rules hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Convention {
    Kafka,
    Bitnami,
    Wurstmeister,
}

/// What a broker is started with.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Setup {
    pub properties: BTreeMap<String, String>,
    pub topics: Option<Topics>,
    /// For the first lines of the log, in order.
    pub notices: Vec<Notice>,
    /// Which variable gave a property.
    given_by: BTreeMap<String, String>,
}

impl Setup {
    /// The variable that gave a property.
    pub fn given_by(&self, property: &str) -> Option<&str> {
        self.given_by.get(property).map(String::as_str)
    }

    /// Takes a property from a variable. Refused when another variable gives it another value.
    fn take(&mut self, variable: &str, property: &str, value: &str) -> Result<(), Refusal> {
        if let Some(other) = self.given_by.get(property)
            && self.properties.get(property).is_some_and(|present| present != value)
        {
            let why = format!("{other} gives {property} another value; keep one of the two");
            return Err(Refusal::new(variable, why));
        }
        self.properties.insert(property.to_owned(), value.to_owned());
        self.given_by.insert(property.to_owned(), variable.to_owned());
        self.notices.push(Notice::took(variable, property, value));
        Ok(())
    }

    fn ignore(&mut self, variable: &str, why: impl Into<String>) {
        self.notices.push(Notice::Ignored { variable: variable.to_owned(), why: why.into() });
    }

    fn say(&mut self, text: impl Into<String>) {
        self.notices.push(Notice::Said(text.into()));
    }

    /// Sets what neither a file nor a variable has set.
    fn preset(&mut self, property: &str, value: &str) {
        self.properties.entry(property.to_owned()).or_insert_with(|| value.to_owned());
    }

    fn has(&self, property: &str) -> bool {
        self.properties.get(property).is_some_and(|value| !value.trim().is_empty())
    }

    /// Reads a mounted `server.properties`; false when there is none.
    fn mounted(&mut self, path: &str, outside: &dyn Outside) -> Result<bool, Refusal> {
        let bytes = match outside.read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(Refusal::new(path, format!("it is mounted and cannot be read: {error}"))),
        };
        self.properties = properties::parse(&bytes).map_err(|error| Refusal::new(path, error.to_string()))?;
        self.say(format!("{path} is read"));
        Ok(true)
    }
}

/// What the variables come to, or why nothing is started with them.
pub fn read(variables: &Variables, outside: &dyn Outside) -> Result<Setup, Refusal> {
    let mut setup = Setup::default();
    let variables = secrets::resolve(variables, outside, &mut setup)?;
    match convention(&variables) {
        Convention::Kafka => kafka::read(&variables, outside, &mut setup)?,
        Convention::Bitnami => bitnami::read(&variables, outside, &mut setup)?,
        Convention::Wurstmeister => wurstmeister::read(&variables, outside, &mut setup)?,
    }
    kraft::understand(&mut setup)?;
    Ok(setup)
}

/// By the variables that only one image reads.
fn convention(variables: &Variables) -> Convention {
    let set = |name: &&str| variables.get(*name).is_some_and(|value| !value.is_empty());
    if variables.keys().any(|name| name.starts_with(bitnami::PREFIX)) || bitnami::MARKS.iter().any(set) {
        Convention::Bitnami
    } else if wurstmeister::MARKS.iter().any(set) {
        Convention::Wurstmeister
    } else {
        Convention::Kafka
    }
}
