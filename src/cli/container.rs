//! `klamm server --from-environment`: what the variables of a container say, and the topics they ask for.

use std::collections::BTreeMap;
use std::process::Command;
use std::{env, fs, io, thread};

use anyhow::Context;

use super::patience::Patience;
use super::topics;
use crate::config::{BrokerConfig, ConfigError, Warning};
use crate::environment::{self, NewTopic, Outside, Setup, Topics, Variables};

/// The process and its file system.
struct Here<'a> {
    host_name: &'a str,
}

impl Outside for Here<'_> {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    /// By bash where there is one, as the images do.
    fn run(&self, command: &str) -> Result<String, String> {
        let by = |shell: &str| Command::new(shell).arg("-c").arg(command).output();
        let output = match by("bash") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => by("sh"),
            other => other,
        };
        let output = output.map_err(|error| format!("no shell runs `{command}`: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let printed = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        if !output.status.success() {
            return Err(format!("`{command}` failed ({}): {}", output.status, said.trim_end()));
        }
        if printed.is_empty() {
            return Err(format!("`{command}` printed nothing: {}", said.trim_end()));
        }
        Ok(printed)
    }

    fn host_name(&self) -> String {
        self.host_name.to_owned()
    }
}

/// What this process's variables come to.
pub fn setup(host_name: &str) -> anyhow::Result<Setup> {
    let text = |text: std::ffi::OsString| text.into_string().ok();
    let variables: Variables =
        env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect::<BTreeMap<_, _>>();
    Ok(environment::read(&variables, &Here { host_name })?)
}

/// The configuration of `setup` with the `--override`s over it. An error names the variable.
pub fn configuration(setup: &Setup, overrides: &[String]) -> anyhow::Result<(BrokerConfig, Vec<Warning>)> {
    let named = |error: ConfigError| {
        let variable = error.key().and_then(|key| setup.given_by(key)).map(str::to_owned);
        match variable {
            Some(variable) => anyhow::Error::from(error).context(variable),
            None => error.into(),
        }
    };
    BrokerConfig::overridden(setup.properties.clone(), overrides).map_err(named)
}

/// A line for each variable, then what is wrong with the addresses that clients are told.
pub fn tell(setup: &Setup, config: &BrokerConfig, host_name: &str) {
    for notice in &setup.notices {
        tracing::info!("{notice}");
    }
    if let Some(text) = environment::unreachable(&config.advertised_listeners, host_name) {
        tracing::warn!("{text}");
    }
}

/// Where a broker of this configuration is reached from its own machine.
pub fn address(config: &BrokerConfig) -> String {
    let listener = config.listeners.iter().find(|listener| listener.name == config.inter_broker_listener_name);
    let Some(listener) = listener.or(config.listeners.first()) else { return "localhost:9092".to_owned() };
    let host = match listener.host.as_str() {
        "" | "0.0.0.0" | "::" => "localhost".to_owned(),
        host if host.contains(':') => format!("[{host}]"),
        host => host.to_owned(),
    };
    format!("{host}:{}", listener.port)
}

/// Makes `topics` on a thread of its own as soon as the broker serves. One that cannot be made (brokers are missing for its
/// replicas) is tried again for as long as the patience lasts.
pub fn make_topics(topics: Topics, config: &BrokerConfig) -> anyhow::Result<()> {
    let address = address(config);
    let work = move || {
        let patience = Patience::of(topics.patience_s);
        for topic in &topics.topics {
            let made = patience.until(|| {
                make(topic, &address)
                    .inspect_err(|error| tracing::debug!("topic {} is not made yet: {error:#}", topic.name))
            });
            if let Err(error) = made {
                tracing::error!("KAFKA_CREATE_TOPICS: topic {} is not made: {error:#}", topic.name);
            }
        }
    };
    thread::Builder::new().name("create-topics".to_owned()).spawn(work).context("a thread for topics")?;
    Ok(())
}

fn make(topic: &NewTopic, address: &str) -> anyhow::Result<()> {
    let policy = topic.cleanup_policy.as_ref().map(|policy| format!("cleanup.policy={policy}"));
    topics::make_absent(address, &topic.name, topic.partitions, topic.replication_factor, policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_run_by_a_shell() {
        let here = Here { host_name: "broker" };
        assert_eq!(here.run("echo a; echo b").as_deref(), Ok("a\nb"));
        let failed = here.run("no-such-program-here").expect_err("nothing of the name");
        assert!(failed.contains("no-such-program-here") && failed.contains("not found"), "{failed}");
        assert!(here.run("true").expect_err("silence").contains("printed nothing"));
    }

    #[test]
    fn a_bad_value_is_told_with_its_variable() {
        let variables = [("KAFKA_NUM_PARTITIONS", "none"), ("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://broker:9092")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let setup =
            environment::read(&variables, &Here { host_name: "broker" }).expect("variables that are understood");
        let error = format!("{:#}", configuration(&setup, &[]).expect_err("no number"));
        assert!(
            error.starts_with("KAFKA_NUM_PARTITIONS: Invalid value none for configuration num.partitions"),
            "{error}"
        );
        let (config, _) = configuration(&setup, &["num.partitions=7".to_owned()]).expect("an override");
        assert_eq!(config.num_partitions, 7);
    }
}
