//! `NAME_FILE=path` gives `NAME` what the file holds.

use super::notice::is_known;
use super::{Outside, Refusal, Setup, Variables, bitnami, names};

/// The variables with those read from files in their places. A file that cannot be read is refused, and so is a name that
/// is given both ways with two values.
pub fn resolve(given: &Variables, outside: &dyn Outside, setup: &mut Setup) -> Result<Variables, Refusal> {
    let mut variables = given.clone();
    for (variable, path) in given {
        let Some(name) = variable.strip_suffix("_FILE").filter(|name| is_secret(name)) else { continue };
        variables.remove(variable);
        if path.is_empty() {
            continue;
        }
        let bytes = outside.read(path).map_err(|error| {
            let why = format!("{path} cannot be read: {error}; mount it readable for this container's user");
            Refusal::new(variable, why)
        })?;
        let text = String::from_utf8(bytes).map_err(|_| Refusal::new(variable, format!("{path} is not text")))?;
        let value = text.trim_end_matches(['\r', '\n']).to_owned();
        if given.get(name).is_some_and(|other| !other.is_empty() && *other != value) {
            return Err(Refusal::new(
                variable,
                format!("{name} gives another value than {path} holds; keep one of the two"),
            ));
        }
        setup.say(format!("{variable}: {name} is read from {path}"));
        variables.insert(name.to_owned(), value);
    }
    Ok(variables)
}

/// Whether a name may be given by a file: properties, ids of clusters, what Bitnami's image lists.
fn is_secret(name: &str) -> bool {
    let property = name.strip_prefix(bitnami::PREFIX).map(|rest| format!("KAFKA_{rest}"));
    let property = names::property(property.as_deref().unwrap_or(name));
    property.is_some_and(|property| is_known(&property)) || name == "CLUSTER_ID" || LISTED.contains(&name)
}

const LISTED: &[&str] = &[
    "KAFKA_CERTIFICATE_PASSWORD",
    "KAFKA_CLIENT_PASSWORDS",
    "KAFKA_CLIENT_USERS",
    "KAFKA_CONTROLLER_PASSWORD",
    "KAFKA_CONTROLLER_USER",
    "KAFKA_HEAP_OPTS",
    "KAFKA_INTER_BROKER_PASSWORD",
    "KAFKA_INTER_BROKER_USER",
    "KAFKA_KRAFT_CLUSTER_ID",
    "KAFKA_OPTS",
    "KAFKA_ZOOKEEPER_PASSWORD",
    "KAFKA_ZOOKEEPER_USER",
];
