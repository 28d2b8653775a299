//! Names of variables: which property one gives, and which give none.

use super::Setup;

/// What becomes of a variable that is no property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Read by the image's own scripts or by the JVM, with nothing here that it could change.
    Ignored(&'static str),
    /// Part of how the image is built; not worth a line.
    Silent,
    /// Would secure the broker.
    Refused,
}

const JVM: &str = "there is no JVM here";
const LOG4J: &str = "there is no log4j here; KLAMM_LOG sets what is logged";
const JMX: &str = "there is no JMX here";

/// Names that the images' scripts keep out of the properties, and those they read for TLS.
const NAMES: &[(&str, Meaning)] = &[
    (
        "KAFKA_DATA_DIRS",
        Meaning::Ignored("the image only checks that it can be written; log.dirs says where data lies"),
    ),
    ("KAFKA_CUB_ZK_TIMEOUT", Meaning::Ignored("ZooKeeper is waited for by the broker")),
    ("KAFKA_DEBUG", Meaning::Ignored(JVM)),
    ("KAFKA_DUMP_LOG_OPTS", Meaning::Ignored(JVM)),
    ("KAFKA_GC_LOG_OPTS", Meaning::Ignored(JVM)),
    ("KAFKA_HEAP_OPTS", Meaning::Ignored(JVM)),
    ("KAFKA_JVM_PERFORMANCE_OPTS", Meaning::Ignored(JVM)),
    ("KAFKA_JMX_HOSTNAME", Meaning::Ignored(JMX)),
    ("KAFKA_JMX_OPTS", Meaning::Ignored(JMX)),
    ("KAFKA_JMX_PORT", Meaning::Ignored(JMX)),
    ("KAFKA_LOG4J_LOGGERS", Meaning::Ignored(LOG4J)),
    ("KAFKA_LOG4J_OPTS", Meaning::Ignored(LOG4J)),
    ("KAFKA_LOG4J_ROOT_LOGLEVEL", Meaning::Ignored(LOG4J)),
    ("KAFKA_TOOLS_LOG4J_LOGLEVEL", Meaning::Ignored(LOG4J)),
    ("KAFKA_HOME", Meaning::Silent),
    ("KAFKA_LOG", Meaning::Silent),
    ("KAFKA_USER", Meaning::Silent),
    ("KAFKA_VERSION", Meaning::Silent),
    ("KAFKA_SSL_KEYSTORE_FILENAME", Meaning::Refused),
    ("KAFKA_SSL_KEYSTORE_CREDENTIALS", Meaning::Refused),
    ("KAFKA_SSL_KEY_CREDENTIALS", Meaning::Refused),
    ("KAFKA_SSL_TRUSTSTORE_FILENAME", Meaning::Refused),
    ("KAFKA_SSL_TRUSTSTORE_CREDENTIALS", Meaning::Refused),
];

/// Beginnings of such names.
const PREFIXES: &[(&str, Meaning)] = &[
    ("KAFKA_CONFLUENT_", Meaning::Ignored("it is for parts of Confluent's platform that are not here")),
    ("KAFKA_REST_", Meaning::Ignored("there is no REST proxy here")),
    ("KAFKA_SERVICE_", Meaning::Ignored("it is a service's address, set by Kubernetes")),
];

/// A variable that is no property.
pub fn meaning(variable: &str, value: &str) -> Option<Meaning> {
    let named = NAMES.iter().find(|(name, _)| *name == variable);
    let found = named.or_else(|| PREFIXES.iter().find(|(prefix, _)| variable.starts_with(prefix)));
    // Kubernetes and container links name a service's address by its name: KAFKA_PORT, KAFKA_PORT_9092_TCP ...
    let link =
        variable.starts_with("KAFKA_PORT") && (value.starts_with("tcp://") || variable.starts_with("KAFKA_PORT_"));
    match found {
        Some((_, meaning)) => Some(*meaning),
        None if link => Some(Meaning::Ignored("it is a service's address, set by links or by Kubernetes")),
        None => None,
    }
}

/// The property of a `KAFKA_*` variable, as apache/kafka's and Confluent's images name it: `_` is a dot, `__` an
/// underscore, `___` a dash.
pub fn property(variable: &str) -> Option<String> {
    let name = variable.strip_prefix("KAFKA_").filter(|name| !name.is_empty())?;
    if let Some(exception) = camel(name) {
        return Some(exception.to_owned());
    }
    Some(name.to_lowercase().replace('_', ".").replace("...", "-").replace("..", "_"))
}

/// Properties whose names have capitals.
pub fn camel(name: &str) -> Option<&'static str> {
    let bare = name.replace('_', "");
    (bare == "ZOOKEEPERCLIENTCNXNSOCKET").then_some("zookeeper.clientCnxnSocket")
}

/// What is said of `KAFKA_OPTS` and `KAFKA_JMX_OPTS`: options of a JVM, one of which may ask for metrics.
pub fn options(variable: &str, value: &str, setup: &mut Setup) {
    let agent =
        value.split_whitespace().find(|option| option.starts_with("-javaagent:") && option.contains("jmx_prometheus"));
    let port = agent
        .and_then(|agent| agent.split_once('='))
        .and_then(|(_, rest)| rest.split(':').find(|part| part.parse::<u16>().is_ok()));
    if value.contains("java.security.auth.login.config") {
        setup.say(format!("{variable}: the section Client of its JAAS file is the login to ZooKeeper"));
    }
    match port {
        Some(port) => setup.ignore(variable, format!("nothing serves metrics on the exporter's port {port} yet")),
        None => setup.ignore(variable, format!("{JVM} to take the options")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn underscores_are_dots_underscores_and_dashes() {
        let name = |variable: &str| property(variable).expect("a property");
        assert_eq!(name("KAFKA_LOG_DIRS"), "log.dirs");
        assert_eq!(name("KAFKA_ABC__DEF"), "abc_def");
        assert_eq!(name("KAFKA_ABC___DEF"), "abc-def");
        assert_eq!(
            name("KAFKA_LISTENER_NAME_INTERNAL_SCRAM___SHA___256_SASL_JAAS_CONFIG"),
            "listener.name.internal.scram-sha-256.sasl.jaas.config"
        );
        assert_eq!(name("KAFKA_ZOOKEEPER_CLIENT_CNXN_SOCKET"), "zookeeper.clientCnxnSocket");
        assert_eq!(property("KAFKA_"), None);
        assert_eq!(property("PATH"), None);
    }

    #[test]
    fn addresses_of_services_are_no_properties() {
        assert!(meaning("KAFKA_PORT", "tcp://10.0.0.7:9092").is_some());
        assert!(meaning("KAFKA_PORT_9092_TCP_ADDR", "10.0.0.7").is_some());
        assert!(meaning("KAFKA_SERVICE_PORT", "9092").is_some());
        assert_eq!(meaning("KAFKA_PORT", "9092"), None);
    }
}
