//! Bitnami's image: `KAFKA_CFG_*` are properties, some of them without `CFG` too. A mounted file is read instead of them.

use super::kafka::{self, OPEN};
use super::names::{self, Meaning};
use super::notice::is_known;
use super::{Outside, Refusal, Setup, Variables, kraft};

pub const PREFIX: &str = "KAFKA_CFG_";

/// Variables that only this image reads.
pub const MARKS: &[&str] = &[
    "ALLOW_PLAINTEXT_LISTENER",
    "BITNAMI_DEBUG",
    "KAFKA_CLIENT_PASSWORDS",
    "KAFKA_CLIENT_USERS",
    "KAFKA_ENABLE_KRAFT",
    "KAFKA_INTER_BROKER_PASSWORD",
    "KAFKA_INTER_BROKER_USER",
    "KAFKA_KRAFT_CLUSTER_ID",
    "KAFKA_NODE_ID_COMMAND",
    "KAFKA_SKIP_KRAFT_STORAGE_INIT",
];

/// Where it looks for a file of the user's; the first that is there.
const MOUNTED: [&str; 2] = ["/bitnami/kafka/config/server.properties", "/opt/bitnami/kafka/config/server.properties"];
const DATA: &str = "/bitnami/kafka/data";

/// What may be written without `CFG`.
const ALIASES: &[&str] = &[
    "ADVERTISED_LISTENERS",
    "AUTO_CREATE_TOPICS_ENABLE",
    "BROKER_ID",
    "CONTROLLER_QUORUM_VOTERS",
    "DEFAULT_REPLICATION_FACTOR",
    "DELETE_TOPIC_ENABLE",
    "INTER_BROKER_LISTENER_NAME",
    "LISTENERS",
    "LISTENER_SECURITY_PROTOCOL_MAP",
    "LOG_DIRS",
    "LOG_FLUSH_INTERVAL_MESSAGES",
    "LOG_FLUSH_INTERVAL_MS",
    "LOG_MESSAGE_FORMAT_VERSION",
    "LOG_RETENTION_BYTES",
    "LOG_RETENTION_CHECK_INTERVALS_MS",
    "LOG_RETENTION_HOURS",
    "LOG_SEGMENT_BYTES",
    "MESSAGE_MAX_BYTES",
    "NODE_ID",
    "NUM_IO_THREADS",
    "NUM_NETWORK_THREADS",
    "NUM_PARTITIONS",
    "NUM_RECOVERY_THREADS_PER_DATA_DIR",
    "OFFSETS_TOPIC_REPLICATION_FACTOR",
    "PROCESS_ROLES",
    "SOCKET_RECEIVE_BUFFER_BYTES",
    "SOCKET_REQUEST_MAX_BYTES",
    "SOCKET_SEND_BUFFER_BYTES",
    "SSL_ENDPOINT_IDENTIFICATION_ALGORITHM",
    "TRANSACTION_STATE_LOG_MIN_ISR",
    "TRANSACTION_STATE_LOG_REPLICATION_FACTOR",
    "ZOOKEEPER_CONNECT",
    "ZOOKEEPER_CONNECTION_TIMEOUT_MS",
];

/// Old names of others.
const RENAMED: &[(&str, &str)] = &[
    ("KAFKA_LOGS_DIRS", "log.dirs"),
    ("KAFKA_SEGMENT_BYTES", "log.segment.bytes"),
    ("KAFKA_MAX_MESSAGE_BYTES", "message.max.bytes"),
    ("KAFKA_ZOOKEEPER_CONNECT_TIMEOUT_MS", "zookeeper.connection.timeout.ms"),
];

/// Commands that print a property.
const COMMANDS: &[(&str, &str)] = &[
    ("KAFKA_NODE_ID_COMMAND", "node.id"),
    ("KAFKA_CONTROLLER_QUORUM_VOTERS_COMMAND", "controller.quorum.voters"),
    ("KAFKA_BROKER_ID_COMMAND", "broker.id"),
    ("BROKER_ID_COMMAND", "broker.id"),
];

/// Variables of users, passwords and certificates.
const SECURES: &[&str] = &[
    "KAFKA_BROKER_PASSWORD",
    "KAFKA_BROKER_USER",
    "KAFKA_CERTIFICATE_PASSWORD",
    "KAFKA_CLIENT_PASSWORDS",
    "KAFKA_CLIENT_USERS",
    "KAFKA_CONTROLLER_PASSWORD",
    "KAFKA_CONTROLLER_USER",
    "KAFKA_INTER_BROKER_PASSWORD",
    "KAFKA_INTER_BROKER_USER",
    "KAFKA_TLS_CLIENT_AUTH",
    "KAFKA_TLS_TRUSTSTORE_FILE",
    "KAFKA_TLS_TYPE",
    "KAFKA_ZOOKEEPER_PASSWORD",
    "KAFKA_ZOOKEEPER_TLS_KEYSTORE_PASSWORD",
    "KAFKA_ZOOKEEPER_TLS_TRUSTSTORE_FILE",
    "KAFKA_ZOOKEEPER_TLS_TRUSTSTORE_PASSWORD",
    "KAFKA_ZOOKEEPER_TLS_TYPE",
    "KAFKA_ZOOKEEPER_USER",
];

pub fn read(variables: &Variables, outside: &dyn Outside, setup: &mut Setup) -> Result<(), Refusal> {
    let set = |name: &str| variables.get(name).filter(|value| !value.is_empty());
    for name in SECURES {
        if set(name).is_some() {
            return Err(Refusal::new(*name, OPEN));
        }
    }
    if let Some(protocol) = set("KAFKA_ZOOKEEPER_PROTOCOL").filter(|protocol| *protocol != "PLAINTEXT") {
        return Err(Refusal::new("KAFKA_ZOOKEEPER_PROTOCOL", format!("{protocol}: {OPEN}")));
    }
    for path in MOUNTED {
        if setup.mounted(path, outside)? {
            for name in variables.keys().filter(|name| name.starts_with("KAFKA_")) {
                setup.ignore(name, format!("{path} is there, which is read instead of variables"));
            }
            return Ok(());
        }
    }
    for (variable, property) in COMMANDS {
        let Some(command) = set(variable) else { continue };
        let printed = outside.run(command).map_err(|why| Refusal::new(*variable, why))?;
        setup.take(variable, property, &printed)?;
    }
    let commanded: Vec<String> = setup.given_by.keys().cloned().collect();
    for (variable, value) in variables {
        let known = property(variable);
        match known {
            // A command's answer counts more.
            Some(property) if commanded.contains(&property) => setup.ignore(variable, "a command prints the value"),
            Some(property) if is_known(&property) => setup.take(variable, &property, value)?,
            Some(property) => setup.ignore(variable, format!("{property} is no key of a broker")),
            None => other(variable, value, setup),
        }
    }
    kafka::cluster_ids(variables, &["KAFKA_KRAFT_CLUSTER_ID", "KAFKA_CLUSTER_ID"], setup)?;
    if let Some(allowed) = set("ALLOW_PLAINTEXT_LISTENER").filter(|allowed| !is_yes(allowed)) {
        let why = format!("{allowed}: only PLAINTEXT listeners can be opened yet; say yes, or remove it");
        return Err(Refusal::new("ALLOW_PLAINTEXT_LISTENER", why));
    }
    kafka::data(DATA, setup);
    Ok(())
}

/// The property of a variable that gives one.
fn property(variable: &str) -> Option<String> {
    if let Some((_, property)) = RENAMED.iter().find(|(name, _)| *name == variable) {
        return Some((*property).to_owned());
    }
    let alias = || variable.strip_prefix("KAFKA_").filter(|name| ALIASES.contains(name));
    let name = variable.strip_prefix(PREFIX).or_else(alias)?;
    if let Some(exception) = names::camel(name) {
        return Some(exception.to_owned());
    }
    let dotted = name.to_lowercase().replace('_', ".");
    // Names of listeners that have an underscore.
    Some(dotted.replace("sasl.ssl", "sasl_ssl").replace("sasl.plaintext", "sasl_plaintext"))
}

/// A variable that is no property.
fn other(variable: &str, value: &str, setup: &mut Setup) {
    if COMMANDS.iter().any(|(name, _)| *name == variable) || variable == kraft::BITNAMI_CLUSTER_ID {
        return;
    }
    match variable {
        "ALLOW_PLAINTEXT_LISTENER" => setup.ignore(variable, "PLAINTEXT listeners are opened without it"),
        "KAFKA_ENABLE_KRAFT" | "KAFKA_SKIP_KRAFT_STORAGE_INIT" => {
            setup.ignore(variable, "there is no KRaft here; zookeeper.connect says whether there is a ZooKeeper");
        }
        "KAFKA_OPTS" => names::options(variable, value, setup),
        _ if !variable.starts_with("KAFKA_") => {}
        _ => match names::meaning(variable, value) {
            Some(Meaning::Ignored(why)) => setup.ignore(variable, why),
            Some(Meaning::Silent) => {}
            Some(Meaning::Refused) | None => {
                setup.ignore(variable, format!("Bitnami's image takes properties from {PREFIX}*"));
            }
        },
    }
}

fn is_yes(value: &str) -> bool {
    ["yes", "true", "1"].iter().any(|yes| value.eq_ignore_ascii_case(yes))
}
