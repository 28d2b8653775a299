//! The tree that brokers keep in ZooKeeper, beside that of a real Kafka 3.9.1: recorded, or alive.
//!
//! ```text
//!  znodes/*.txt --applied one after the other--> recorded tree --+
//!  another ZooKeeper --------------read whole--> tree ----- or --+--> complaints
//!  ZooKeeper ----------------------read whole--> tree there -----+
//! ```
//!
//! Paths, modes and data (as JSON) must be the same. What differs from run to run is replaced first: ids, times, addresses.
//! Epochs need not be the same numbers: they must have risen wherever the recorded ones have, and never fall.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use zookeeper_client::{Acls, Client, CreateMode, Error, Stat};

use crate::cache;
use crate::wait::until;

/// A node: whether it is ephemeral, and its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub ephemeral: bool,
    pub data: String,
}

/// Nodes by path.
pub type Tree = BTreeMap<String, Node>;

/// Kafka's epoch and ours, by path and field.
pub type Epochs = BTreeMap<String, (i64, i64)>;

/// Fields that hold epochs.
const EPOCHS: [&str; 2] = ["leader_epoch", "controller_epoch"];
/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to ZooKeeper of one's own.
pub struct ZooKeeper {
    runtime: tokio::runtime::Runtime,
    client: Client,
}

impl ZooKeeper {
    pub fn connect(to: &str) -> Result<ZooKeeper> {
        // The session is kept by a task, so it must run while nobody calls.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let client = runtime.block_on(Client::connect(to))?;
        Ok(ZooKeeper { runtime, client })
    }

    /// Makes a node that lasts as long as this connection's session.
    pub fn hold(&self, path: &str, data: &str) -> Result<()> {
        let held = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        self.runtime.block_on(self.client.create(path, data.as_bytes(), &held))?;
        Ok(())
    }

    /// Makes a node, persistent, or writes the one that is there.
    pub fn put(&self, path: &str, data: &str) -> Result<()> {
        let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
        self.runtime.block_on(async {
            match self.client.create(path, data.as_bytes(), &open).await {
                Err(Error::NodeExists) => self.client.set_data(path, data.as_bytes(), None).await.map(|_| ()),
                made => made.map(|_| ()),
            }
        })?;
        Ok(())
    }

    /// Whether there is such a node.
    pub fn has(&self, path: &str) -> Result<bool> {
        Ok(self.runtime.block_on(self.client.check_stat(path))?.is_some())
    }

    pub fn delete(&self, path: &str) -> Result<()> {
        Ok(self.runtime.block_on(self.client.delete(path, None))?)
    }

    /// A node's JSON and what ZooKeeper keeps of it, if it is there.
    pub fn node(&self, path: &str) -> Result<Option<(Value, Stat)>> {
        match self.runtime.block_on(self.client.get_data(path)) {
            Ok((data, stat)) => Ok(Some((serde_json::from_slice(&data).with_context(|| path.to_owned())?, stat))),
            Err(Error::NoNode) => Ok(None),
            Err(error) => Err(error).with_context(|| path.to_owned()),
        }
    }

    /// The broker that is the controller.
    pub fn controller(&self) -> Result<i32> {
        let (node, _) = self.node("/controller")?.context("there is no controller")?;
        let id = node["brokerid"].as_i64().with_context(|| format!("{node} names nobody"))?;
        Ok(i32::try_from(id)?)
    }

    /// Deposes controllers until it is this broker's turn.
    pub fn make_controller(&self, id: i32) -> Result<()> {
        until("its turn", PATIENCE, || {
            let controller = self.controller()?;
            if controller != id {
                self.delete("/controller")?;
            }
            ensure!(controller == id, "broker {controller} controls");
            Ok(())
        })
    }

    /// The controller's.
    pub fn epoch(&self) -> Result<i64> {
        let (epoch, _) = self.runtime.block_on(self.client.get_data("/controller_epoch"))?;
        Ok(std::str::from_utf8(&epoch)?.parse()?)
    }

    /// Everything but ZooKeeper's own.
    pub fn tree(&self) -> Result<Tree> {
        self.runtime.block_on(self.read())
    }

    /// Level by level, all of a level asked for at once: the tree is looked at while a broker is stopped, for less than its
    /// session lasts.
    async fn read(&self) -> Result<Tree> {
        let mut tree = Tree::new();
        let mut level = vec![String::new()];
        while !level.is_empty() {
            // A question is sent when its future is made.
            let asked: Vec<_> = level
                .drain(..)
                .map(|path| {
                    let at = if path.is_empty() { "/" } else { path.as_str() };
                    let answers = (self.client.get_data(at), self.client.get_children(at));
                    (path, answers)
                })
                .collect();
            for (path, (data, children)) in asked {
                let (data, stat, children) = match (data.await, children.await) {
                    (Ok((data, stat)), Ok((children, _))) => (data, stat, children),
                    // Gone since its parent was read.
                    (Err(Error::NoNode), _) | (_, Err(Error::NoNode)) => continue,
                    (Err(error), _) | (_, Err(error)) => return Err(error.into()),
                };
                level.extend(children.iter().map(|name| format!("{path}/{name}")).filter(|path| path != "/zookeeper"));
                if !path.is_empty() {
                    let data = String::from_utf8_lossy(&data).into_owned();
                    tree.insert(path, Node { ephemeral: stat.ephemeral_owner != 0, data });
                }
            }
        }
        Ok(tree)
    }
}

/// The recorded steps that were played so far, and how the trees stood at the last of them.
#[derive(Default)]
pub struct Recorded {
    tree: Tree,
    epochs: Epochs,
}

impl Recorded {
    /// Goes on to the step in `znodes/NAME.txt`. Answers what it was.
    pub fn apply(&mut self, name: &str) -> Result<String> {
        let path = cache::sources().join("znodes").join(format!("{name}.txt"));
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        self.apply_text(&text).with_context(|| path.display().to_string())
    }

    fn apply_text(&mut self, text: &str) -> Result<String> {
        let mut lines = text.lines();
        let title = lines.next().and_then(|line| line.strip_prefix("# ")).context("no title")?;
        for line in lines.filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words[..] {
                ["-", path] => drop(self.tree.remove(path).with_context(|| format!("{path} was not there"))?),
                ["+" | "~", path, mode @ ("P" | "E"), data] => {
                    let there = self.tree.contains_key(path);
                    ensure!(there == (words[0] == "~"), "{path} was there: {there}");
                    self.tree.insert(path.to_owned(), Node { ephemeral: mode == "E", data: data.to_owned() });
                }
                ["+" | "~", path, mode @ ("P" | "E")] => {
                    self.tree.insert(path.to_owned(), Node { ephemeral: mode == "E", data: String::new() });
                }
                _ => bail!("a line that is no change: {line}"),
            }
        }
        Ok(title.to_owned())
    }

    /// Waits until the tree there is as recorded.
    pub fn await_same(&mut self, zookeeper: &ZooKeeper) -> Result<()> {
        let epochs = until("the recorded znodes", PATIENCE, || self.compare(&zookeeper.tree()?))?;
        self.epochs = epochs;
        Ok(())
    }

    /// The epochs of both when the trees are the same; else every difference.
    fn compare(&self, there: &Tree) -> Result<Epochs> {
        differences(&self.tree, there, &self.epochs)
    }
}

/// The epochs of both trees when they are the same; else every difference. `before` are the epochs at the last step.
pub fn differences(theirs: &Tree, ours: &Tree, before: &Epochs) -> Result<Epochs> {
    // What announces a change in passing, and what each broker hands out to its producers.
    let lasting = |path: &str| !["/config/changes/", "/latest_producer_id_block"].iter().any(|it| path.starts_with(it));
    let (mut complaints, mut epochs) = (String::new(), Epochs::new());
    for (path, node) in theirs.iter().filter(|(path, _)| lasting(path)) {
        let Some(our) = ours.get(path) else {
            let _ = write!(complaints, "\n{path} is missing");
            continue;
        };
        if our.ephemeral != node.ephemeral {
            let _ = write!(complaints, "\n{path}: ephemeral is {}, on Kafka {}", our.ephemeral, node.ephemeral);
        }
        let (mut our, mut their) = (normal(&our.data), normal(&node.data));
        for (field, ours, theirs) in taken(&mut our, &mut their) {
            let key = format!("{path} {field}");
            if let Some(&(their_last, our_last)) = before.get(&key)
                && (ours < our_last || theirs > their_last && ours == our_last)
            {
                let _ = write!(complaints, "\n{key} went from {our_last} to {ours}, on Kafka {their_last} to {theirs}");
            }
            epochs.insert(key, (theirs, ours));
        }
        if our != their {
            let _ = write!(complaints, "\n{path}: {our}\n  on Kafka: {their}");
        }
    }
    for path in ours.keys().filter(|path| lasting(path) && !theirs.contains_key(*path)) {
        let _ = write!(complaints, "\n{path} is there, and not on Kafka");
    }
    ensure!(complaints.is_empty(), "{}", complaints.trim_start());
    Ok(epochs)
}

/// Takes the epochs out of both: field, epoch there, recorded epoch.
fn taken(ours: &mut Value, theirs: &mut Value) -> Vec<(&'static str, i64, i64)> {
    // The node /controller_epoch is nothing but one.
    if let (Some(our), Some(their)) = (ours.as_i64(), theirs.as_i64()) {
        (*ours, *theirs) = (Value::Null, Value::Null);
        return vec![("", our, their)];
    }
    let number = |value: &mut Value, field: &str| {
        let taken = value.as_object_mut()?.get_mut(field)?;
        let epoch = taken.as_i64()?;
        *taken = Value::from("<epoch>");
        Some(epoch)
    };
    let both = EPOCHS.iter().filter_map(|field| Some((*field, number(ours, field)?, number(theirs, field)?)));
    both.collect()
}

/// Data as JSON, without what differs from run to run. Text that is no JSON is a JSON string.
fn normal(data: &str) -> Value {
    let mut value = serde_json::from_str(data).unwrap_or_else(|_| Value::from(data));
    if let Some(fields) = value.as_object_mut() {
        for (field, held) in fields {
            let masked = match (field.as_str(), &*held) {
                ("topic_id" | "timestamp" | "id", Value::String(_)) => Value::from(format!("<{field}>")),
                // Whoever was first.
                ("port" | "brokerid", Value::Number(_)) => Value::from(format!("<{field}>")),
                ("endpoints", Value::Array(endpoints)) => endpoints.iter().map(without_port).collect(),
                _ => continue,
            };
            *held = masked;
        }
    }
    value
}

fn without_port(endpoint: &Value) -> Value {
    match endpoint.as_str().and_then(|text| text.rsplit_once(':')) {
        Some((host, _)) => Value::from(format!("{host}:<port>")),
        None => endpoint.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: &str = "/brokers/topics/t1/partitions/0/state";

    fn there(leader: i32, epoch: i32) -> Tree {
        let data = format!(r#"{{"isr":[2],"leader":{leader},"leader_epoch":{epoch},"controller_epoch":7}}"#);
        Tree::from([(STATE.to_owned(), Node { ephemeral: false, data })])
    }

    fn recorded(leader: i32, epoch: i32, sign: &str) -> String {
        format!(
            "# a step\n{sign} {STATE} P {{\"controller_epoch\":1,\"leader\":{leader},\"leader_epoch\":{epoch},\"isr\":[2]}}\n"
        )
    }

    #[test]
    fn epochs_rise_where_recorded_ones_do() {
        let mut steps = Recorded::default();
        steps.apply_text(&recorded(1, 0, "+")).expect("a step");
        steps.epochs = steps.compare(&there(1, 5)).expect("the same");
        steps.compare(&there(1, 4)).expect_err("fell");
        steps.apply_text(&recorded(1, 1, "~")).expect("a step");
        steps.compare(&there(1, 5)).expect_err("stayed");
        steps.compare(&there(1, 8)).expect("rose");
    }

    #[test]
    fn paths_modes_and_data_are_compared() {
        let mut steps = Recorded::default();
        steps.apply_text(&recorded(1, 0, "+")).expect("a step");
        steps.compare(&there(2, 0)).expect_err("another leader");
        steps.compare(&Tree::new()).expect_err("missing");
        let with = |path: &str| {
            let mut more = there(1, 0);
            more.insert(path.to_owned(), Node { ephemeral: false, data: String::new() });
            steps.compare(&more)
        };
        with("/brokers/topics/t1/partitions/9").expect_err("not recorded");
        with("/config/changes/config_change_0000000001").expect("announced in passing");
        let mut ephemeral = there(1, 0);
        ephemeral.values_mut().for_each(|node| node.ephemeral = true);
        steps.compare(&ephemeral).expect_err("another mode");
    }

    #[test]
    fn what_differs_from_run_to_run_does_not_count() {
        let one = r#"{"endpoints":["PLAINTEXT://127.0.0.1:1"],"port":1,"timestamp":"1","rack":"dc1"}"#;
        let two = r#"{"rack":"dc1","port":2,"timestamp":"2","endpoints":["PLAINTEXT://127.0.0.1:2"]}"#;
        assert_eq!(normal(one), normal(two));
        assert_ne!(normal(one), normal(&one.replace("dc1", "dc2")));
        assert_ne!(normal(one), normal(&one.replace("PLAINTEXT", "SSL")));
    }
}
