//! The tree that brokers keep in ZooKeeper, beside what was recorded of a real Kafka 3.9.1.
//!
//! ```text
//!  znodes/*.txt --applied one after the other--> recorded tree --+
//!  ZooKeeper ----------------------read whole--> tree there -----+--> complaints
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
use zookeeper_client::{Acls, Client, CreateMode, Error};

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

/// Fields that hold epochs.
const EPOCHS: [&str; 2] = ["leader_epoch", "controller_epoch"];
/// How long the tree may take to become what was recorded.
const PATIENCE: Duration = Duration::from_secs(30);

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

    pub fn delete(&self, path: &str) -> Result<()> {
        Ok(self.runtime.block_on(self.client.delete(path, None))?)
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
    /// Recorded epoch and epoch there, by path and field.
    epochs: BTreeMap<String, (i64, i64)>,
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
    fn compare(&self, there: &Tree) -> Result<BTreeMap<String, (i64, i64)>> {
        let (mut complaints, mut epochs) = (String::new(), BTreeMap::new());
        for (path, recorded) in &self.tree {
            let Some(node) = there.get(path) else {
                let _ = write!(complaints, "\n{path} is missing");
                continue;
            };
            if node.ephemeral != recorded.ephemeral {
                let _ =
                    write!(complaints, "\n{path}: ephemeral is {}, recorded {}", node.ephemeral, recorded.ephemeral);
            }
            let (mut ours, mut theirs) = (normal(&node.data), normal(&recorded.data));
            for (field, ours, theirs) in taken(&mut ours, &mut theirs) {
                let key = format!("{path} {field}");
                let before = self.epochs.get(&key).copied();
                if let Some((recorded, there)) = before
                    && (ours < there || theirs > recorded && ours == there)
                {
                    let _ = write!(complaints, "\n{key} went from {there} to {ours}, recorded {recorded} to {theirs}");
                }
                epochs.insert(key, (theirs, ours));
            }
            if ours != theirs {
                let _ = write!(complaints, "\n{path}: {ours}\n  recorded: {theirs}");
            }
        }
        for path in there.keys().filter(|path| self.judges(path) && !self.tree.contains_key(*path)) {
            let _ = write!(complaints, "\n{path} is there, and was not recorded");
        }
        ensure!(complaints.is_empty(), "{}", complaints.trim_start());
        Ok(epochs)
    }

    /// Whether a node that was not recorded is a complaint: not one of topics that were made for other purposes.
    fn judges(&self, path: &str) -> bool {
        let topic = ["/brokers/topics/", "/config/topics/"].iter().find_map(|parent| path.strip_prefix(parent));
        let topic = topic.and_then(|rest| rest.split('/').next());
        // Recorded topics stay judged when they are deleted.
        let other = topic.is_some_and(|topic| !RECORDED_TOPICS.contains(&topic));
        let passing = ["/isr_change_notification/", "/config/changes/"].iter().any(|parent| path.starts_with(parent));
        // Producers are at work beside the recorded acts.
        !other && !passing && path != "/latest_producer_id_block"
    }
}

/// The topics of the recorded steps.
const RECORDED_TOPICS: [&str; 2] = ["t1", "r1"];

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

/// What two clusters that went through the same must have in common, by path: everything but epochs and what announces a
/// change in passing.
pub fn common(tree: &Tree) -> BTreeMap<String, (bool, Value)> {
    let passing = ["/isr_change_notification/", "/config/changes/", "/latest_producer_id_block"];
    let kept = tree.iter().filter(|(path, _)| !passing.iter().any(|parent| path.starts_with(parent)));
    let neutral = |(path, node): (&String, &Node)| {
        let mut data = normal(&node.data);
        taken(&mut data.clone(), &mut data);
        (path.clone(), (node.ephemeral, data))
    };
    kept.map(neutral).collect()
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
        with("/brokers/topics/other").expect("nobody's concern");
        let mut ephemeral = there(1, 0);
        ephemeral.values_mut().for_each(|node| node.ephemeral = true);
        steps.compare(&ephemeral).expect_err("another mode");
    }

    #[test]
    fn two_clusters_have_all_but_epochs_in_common() {
        assert_eq!(common(&there(1, 3)), common(&there(1, 9)));
        assert_ne!(common(&there(1, 3)), common(&there(2, 3)));
        let mut announced = there(1, 3);
        let path = "/config/changes/config_change_0000000001".to_owned();
        announced.insert(path, Node { ephemeral: false, data: String::new() });
        assert_eq!(common(&announced), common(&there(1, 3)));
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
