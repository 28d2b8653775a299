//! The login to ZooKeeper, from where Kafka has it: `KAFKA_OPTS`, which its scripts hand to the JVM.
//!
//! Kafka has no key for it. `-Djava.security.auth.login.config=FILE` names a JAAS file, whose section `Client` (or that of
//! `-Dzookeeper.sasl.clientconfig=NAME`) is the login; `-Dzookeeper.sasl.client=false` goes without.

use anyhow::{Context, anyhow};

use crate::metastore::zookeeper::Login;

/// Of the environment of this process; `None` when nothing asks for a login.
pub fn of_environment() -> anyhow::Result<Option<Login>> {
    login(&std::env::var("KAFKA_OPTS").unwrap_or_default(), |path| {
        std::fs::read_to_string(path).with_context(|| path.to_owned())
    })
    .context("the login to ZooKeeper that KAFKA_OPTS names")
}

fn login(options: &str, read: impl Fn(&str) -> anyhow::Result<String>) -> anyhow::Result<Option<Login>> {
    // The last one counts, as in a JVM.
    let property = |name: &str| {
        options
            .split_whitespace()
            .rev()
            .find_map(|option| option.strip_prefix("-D")?.strip_prefix(name)?.strip_prefix('='))
    };
    let Some(file) = property("java.security.auth.login.config") else { return Ok(None) };
    if property("zookeeper.sasl.client").is_some_and(|on| on.eq_ignore_ascii_case("false")) {
        return Ok(None);
    }
    let section = property("zookeeper.sasl.clientconfig").unwrap_or("Client");
    // A URL, when it begins with another =.
    let path = file.trim_start_matches('=');
    let path = path.strip_prefix("file:").unwrap_or(path);
    Login::from_jaas(&read(path)?, section).map_err(|why| anyhow!("{path}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "Client { org.apache.zookeeper.server.auth.DigestLoginModule required username=a password=b; };
        Other { org.apache.zookeeper.server.auth.DigestLoginModule required username=c password=d; };";

    fn user(options: &str) -> Option<String> {
        let read = |path: &str| if path == "/etc/jaas" { Ok(FILE.to_owned()) } else { Err(anyhow!("not there")) };
        login(options, read).expect("a login").map(|login| login.user)
    }

    #[test]
    fn the_options_are_those_of_kafkas_scripts() {
        assert_eq!(user(""), None);
        assert_eq!(user("-Xmx1g -Dcom.sun.management.jmxremote"), None);
        let file = "-Djava.security.auth.login.config=/etc/jaas";
        assert_eq!(user(file).as_deref(), Some("a"));
        assert_eq!(user("-Xmx1g -Djava.security.auth.login.config==file:/etc/jaas -Dx").as_deref(), Some("a"));
        assert_eq!(user(&format!("{file} -Dzookeeper.sasl.clientconfig=Other")).as_deref(), Some("c"));
        assert_eq!(user(&format!("{file} -Dzookeeper.sasl.clientconfig=KafkaClient")), None);
        assert_eq!(user(&format!("-Dzookeeper.sasl.client=false {file}")), None);
        assert_eq!(user(&format!("-Djava.security.auth.login.config=/nowhere {file}")).as_deref(), Some("a"));
        let missing = login("-Djava.security.auth.login.config=/nowhere", |_| Err(anyhow!("not there")));
        assert!(missing.is_err(), "a login that was asked for is not left out");
    }
}
