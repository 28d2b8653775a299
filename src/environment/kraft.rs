//! Properties of a KRaft node: one that is the whole cluster is this broker with its embedded store. Any other would be
//! one broker of several that know nothing of each other, and is refused.

use super::{Notice, Refusal, Setup};

/// Our key of the id that a new cluster is given.
pub const CLUSTER_ID: &str = "klamm.cluster.id";
pub const BITNAMI_CLUSTER_ID: &str = "KAFKA_KRAFT_CLUSTER_ID";

const ROLES: &str = "process.roles";
const VOTERS: &str = "controller.quorum.voters";
const BOOTSTRAP: &str = "controller.quorum.bootstrap.servers";
const CONTROLLER_LISTENERS: &str = "controller.listener.names";

/// Takes out what is KRaft's, with one line that says so.
pub fn understand(setup: &mut Setup) -> Result<(), Refusal> {
    let text =
        |setup: &Setup, key: &str| setup.properties.get(key).map(|text| text.trim().to_owned()).unwrap_or_default();
    let refuse = |setup: &Setup, key: &str, why: String| {
        let subject = setup.given_by(key).unwrap_or(key);
        Err(Refusal::new(subject, format!("{}: {why}", text(setup, key))))
    };
    for key in [VOTERS, BOOTSTRAP] {
        let count = list(&text(setup, key)).len();
        if count > 1 {
            let why = format!(
                "a quorum of {count} controllers is not there: each broker would start as a cluster of its own; give the \
                 brokers zookeeper.connect to make them one"
            );
            return refuse(setup, key, why);
        }
    }
    let roles = list(&text(setup, ROLES));
    if roles.is_empty() {
        forget(setup, false);
        return Ok(());
    }
    if let Some(role) = roles.iter().find(|role| !["broker", "controller"].contains(&role.as_str())) {
        return refuse(setup, ROLES, format!("{role} is no role; broker,controller is a node on its own"));
    }
    if !roles.iter().any(|role| role == "broker") {
        let why = "a controller alone is not there: brokers have theirs inside; leave this container out and give the \
                   brokers broker,controller (one) or zookeeper.connect (several)";
        return refuse(setup, ROLES, why.to_owned());
    }
    if !roles.iter().any(|role| role == "controller") {
        let why = "the cluster would be kept by a controller elsewhere, which is not there: each broker would start as \
                   a cluster of its own; say broker,controller for one broker, zookeeper.connect for several";
        return refuse(setup, ROLES, why.to_owned());
    }
    if setup.has("zookeeper.connect") {
        let why =
            format!("zookeeper.connect={} says the opposite; keep one of the two", text(setup, "zookeeper.connect"));
        return refuse(setup, ROLES, why);
    }
    let (voter, node) = (text(setup, VOTERS), text(setup, "node.id"));
    if let Some((id, _)) = voter.split_once('@')
        && !node.is_empty()
        && id.trim() != node
    {
        return refuse(setup, VOTERS, format!("the one voter is another node than node.id={node}"));
    }
    forget(setup, true);
    Ok(())
}

/// Controllers' listeners are not opened, their keys not passed on.
fn forget(setup: &mut Setup, kraft: bool) {
    let names: Vec<String> = setup.properties.get(CONTROLLER_LISTENERS).map(|names| list(names)).unwrap_or_default();
    let of_controller = |listener: &str| {
        let name = listener.split("://").next().unwrap_or_default().trim();
        names.iter().any(|controller| controller.eq_ignore_ascii_case(name))
    };
    for key in ["listeners", "advertised.listeners"] {
        let Some(listeners) = setup.properties.get_mut(key) else { continue };
        let kept: Vec<&str> = listeners.split(',').filter(|listener| !of_controller(listener)).collect();
        *listeners = kept.join(",");
        if listeners.trim().is_empty() {
            setup.properties.remove(key);
        }
    }
    for key in [ROLES, VOTERS, BOOTSTRAP, CONTROLLER_LISTENERS] {
        setup.properties.remove(key);
        setup.notices.retain(|notice| !matches!(notice, Notice::Took { property, .. } if property == key));
    }
    if kraft {
        let opened =
            if names.is_empty() { String::new() } else { format!(", listener {} is not opened", names.join(", ")) };
        setup.say(format!(
            "a KRaft node on its own is a broker with its embedded store: node id and cluster id are taken{opened}"
        ));
    }
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
