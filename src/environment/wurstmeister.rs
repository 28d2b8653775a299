//! wurstmeister's image: `KAFKA_*` are properties, into which what commands print is put, and topics are made at start.

use super::topics::Topics;
use super::{Outside, Refusal, Setup, Variables, kafka};

/// Variables that only this image reads.
pub const MARKS: &[&str] = &[
    "BROKER_ID_COMMAND",
    "HOSTNAME_COMMAND",
    "KAFKA_ADVERTISED_HOST_NAME",
    "KAFKA_ADVERTISED_PORT",
    "KAFKA_CREATE_TOPICS",
    "PORT_COMMAND",
    "RACK_COMMAND",
];

/// Read by the image's scripts.
const OWN: &[&str] = &["KAFKA_CREATE_TOPICS", "KAFKA_CREATE_TOPICS_SEPARATOR"];

pub fn read(given: &Variables, outside: &dyn Outside, setup: &mut Setup) -> Result<(), Refusal> {
    let mut variables = given.clone();
    let set = |variables: &Variables, name: &str| variables.get(name).is_some_and(|value| !value.is_empty());
    if !set(&variables, "KAFKA_ZOOKEEPER_CONNECT") {
        let why = "it is not set, and wurstmeister's image does not start without; \
                   for a broker on its own remove the variables that only that image reads";
        return Err(Refusal::new("KAFKA_ZOOKEEPER_CONNECT", format!("{why} ({})", marks(&variables))));
    }
    let run = |variable: &str| -> Result<Option<String>, Refusal> {
        let Some(command) = given.get(variable).filter(|command| !command.is_empty()) else { return Ok(None) };
        outside.run(command).map(Some).map_err(|why| Refusal::new(variable, why))
    };
    if !set(&variables, "KAFKA_BROKER_ID")
        && let Some(id) = run("BROKER_ID_COMMAND")?
    {
        setup.say(format!("BROKER_ID_COMMAND prints {id}"));
        variables.insert("KAFKA_BROKER_ID".to_owned(), id);
    }
    let host = run("HOSTNAME_COMMAND")?;
    for (variable, printed) in [("HOSTNAME_COMMAND", host.clone()), ("PORT_COMMAND", run("PORT_COMMAND")?)] {
        let Some(printed) = printed else { continue };
        setup.say(format!("{variable} prints {printed}"));
        let mark = format!("_{{{variable}}}");
        for value in variables.iter_mut().filter(|(name, _)| name.starts_with("KAFKA_")).map(|(_, value)| value) {
            *value = value.replace(&mark, &printed);
        }
    }
    if !set(&variables, "KAFKA_BROKER_RACK")
        && let Some(rack) = run("RACK_COMMAND")?
    {
        variables.insert("KAFKA_BROKER_RACK".to_owned(), rack);
    }
    if !set(&variables, "KAFKA_ADVERTISED_HOST_NAME") && !set(&variables, "KAFKA_LISTENERS") {
        match host {
            _ if set(&variables, "KAFKA_ADVERTISED_LISTENERS") => {
                return Err(Refusal::new("KAFKA_LISTENERS", "it is not set, and goes with KAFKA_ADVERTISED_LISTENERS"));
            }
            Some(host) => drop(variables.insert("KAFKA_ADVERTISED_HOST_NAME".to_owned(), host)),
            None => {
                let why =
                    "nothing says what clients are told; set it, or KAFKA_LISTENERS and KAFKA_ADVERTISED_LISTENERS";
                return Err(Refusal::new("KAFKA_ADVERTISED_HOST_NAME", why));
            }
        }
    }
    if let Some(script) = variables.get("CUSTOM_INIT_SCRIPT").filter(|script| !script.is_empty()) {
        return Err(Refusal::new("CUSTOM_INIT_SCRIPT", format!("scripts are not run at start: {script}")));
    }
    kafka::properties(&variables, setup, |name| OWN.contains(&name))?;
    kafka::old_addresses(setup);
    if let Some(topics) = variables.get("KAFKA_CREATE_TOPICS").filter(|topics| !topics.trim().is_empty()) {
        let separator = variables.get("KAFKA_CREATE_TOPICS_SEPARATOR").map_or(",", String::as_str);
        let seconds = variables.get("START_TIMEOUT").filter(|seconds| !seconds.is_empty());
        let topics = Topics::parse(topics, separator, seconds.map(String::as_str))?;
        setup.say(format!("KAFKA_CREATE_TOPICS: {topics}"));
        setup.topics = Some(topics);
    }
    kafka::data(&format!("/kafka/kafka-logs-{}", outside.host_name()), setup);
    Ok(())
}

fn marks(variables: &Variables) -> String {
    let present: Vec<&str> = MARKS.iter().copied().filter(|name| variables.contains_key(*name)).collect();
    present.join(", ")
}
