//! apache/kafka's image and Confluent's: `KAFKA_*` are properties over those of a mounted file, `CLUSTER_ID` is the
//! cluster's id. Without anything the broker is the one of the image's own file.

use super::names::{self, Meaning};
use super::notice::is_known;
use super::{Outside, Refusal, Setup, Variables, kraft};

/// Where apache/kafka's image looks for a file of the user's.
const MOUNTED: &str = "/mnt/shared/config/server.properties";
/// The volume of both images.
const DATA: &str = "/var/lib/kafka/data";

/// Why a variable of theirs that would secure the broker stops it.
pub const OPEN: &str = "it would secure the broker, and TLS and SASL are not there yet; remove it to start an open one";

pub fn read(variables: &Variables, outside: &dyn Outside, setup: &mut Setup) -> Result<(), Refusal> {
    let mounted = setup.mounted(MOUNTED, outside)?;
    let took = properties(variables, setup, |_| false)?;
    cluster_ids(variables, &["CLUSTER_ID", "KAFKA_CLUSTER_ID"], setup)?;
    if !mounted && !took {
        setup.say("no variable sets a property: clients are told localhost:9092");
        setup.preset("advertised.listeners", "PLAINTEXT://localhost:9092");
    }
    listen_everywhere(setup);
    old_addresses(setup);
    data(DATA, setup);
    Ok(())
}

/// Takes every `KAFKA_*` that is a property and that `elsewhere` does not see to; whether there was one.
pub fn properties(variables: &Variables, setup: &mut Setup, elsewhere: impl Fn(&str) -> bool) -> Result<bool, Refusal> {
    let mut took = false;
    for (variable, value) in variables.iter().filter(|(name, _)| !elsewhere(name)) {
        let Some(property) = names::property(variable) else { continue };
        match names::meaning(variable, value) {
            _ if variable == "KAFKA_OPTS" => names::options(variable, value, setup),
            Some(Meaning::Silent) => {}
            Some(Meaning::Ignored(why)) => setup.ignore(variable, why),
            Some(Meaning::Refused) if value.is_empty() => {}
            Some(Meaning::Refused) => return Err(Refusal::new(variable, OPEN)),
            None if variable == "KAFKA_CLUSTER_ID" => {}
            None if is_known(&property) || OLD.contains(&property.as_str()) => {
                setup.take(variable, &property, value)?;
                took = true;
            }
            None => setup.ignore(variable, format!("{property} is no key of a broker")),
        }
    }
    Ok(took)
}

/// The cluster's id of the first of `names` that is set; refused when two of them differ.
pub fn cluster_ids(variables: &Variables, names: &[&str], setup: &mut Setup) -> Result<(), Refusal> {
    for name in names {
        if let Some(id) = variables.get(*name).filter(|id| !id.is_empty()) {
            setup.take(name, kraft::CLUSTER_ID, id)?;
        }
    }
    Ok(())
}

/// Without listeners those that are advertised are opened, on every address.
fn listen_everywhere(setup: &mut Setup) {
    if setup.has("listeners") || !setup.has("advertised.listeners") {
        return;
    }
    let Some(advertised) = setup.properties.get("advertised.listeners") else { return };
    let open = |listener: &str| match (listener.split_once("://"), listener.rsplit_once(':')) {
        (Some((name, _)), Some((_, port))) => format!("{name}://0.0.0.0:{port}"),
        _ => listener.to_owned(),
    };
    let listeners: Vec<String> = advertised.split(',').map(str::trim).map(open).collect();
    setup.properties.insert("listeners".to_owned(), listeners.join(","));
}

/// Keys of Kafka before 3.0 that images still set: one listener's address in parts.
const OLD: &[&str] = &["advertised.host.name", "advertised.port", "host.name", "port"];

/// Writes the old keys as Kafka 2.8 reads them: only where no listeners are given.
pub fn old_addresses(setup: &mut Setup) {
    let mut old = |key: &str| {
        setup.given_by.remove(key);
        setup.properties.remove(key).filter(|value| !value.trim().is_empty())
    };
    let [advertised_host, advertised_port, host, port] = [OLD[0], OLD[1], OLD[2], OLD[3]].map(&mut old);
    if !setup.has("listeners") && (host.is_some() || port.is_some()) {
        let (host, port) = (host.as_deref().unwrap_or_default(), port.as_deref().unwrap_or("9092"));
        setup.properties.insert("listeners".to_owned(), format!("PLAINTEXT://{host}:{port}"));
    }
    if !setup.has("advertised.listeners") && (advertised_host.is_some() || advertised_port.is_some()) {
        let host = advertised_host.or(host).unwrap_or_default();
        let port = advertised_port.or(port).unwrap_or_else(|| "9092".to_owned());
        setup.properties.insert("advertised.listeners".to_owned(), format!("PLAINTEXT://{host}:{port}"));
    }
}

/// Data goes to the image's volume unless told elsewhere.
pub fn data(path: &str, setup: &mut Setup) {
    if !setup.has("log.dirs") && !setup.has("log.dir") {
        setup.properties.insert("log.dirs".to_owned(), path.to_owned());
        setup.say(format!("data lies in the image's volume {path}"));
    }
}
