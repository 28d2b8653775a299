//! What ZooKeeper says of brokers and partitions: it answers also where brokers do not.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context, Result};
use serde_json::Value;
use zookeeper_client::Stat;

use crate::znodes::ZooKeeper;

pub struct Witness {
    connect: String,
    /// None before the first question, and after one that was not answered.
    client: RefCell<Option<ZooKeeper>>,
}

/// The state of a partition as its node has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub leader: i64,
    pub leader_epoch: i64,
    pub isr: BTreeSet<i64>,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "leader {}, epoch {}, ISR {:?}", self.leader, self.leader_epoch, self.isr)
    }
}

/// A broker's registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The transaction that made it: the broker's epoch.
    pub epoch: i64,
    pub session: i64,
}

/// Who controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Office {
    pub holder: i64,
    pub epoch: i64,
}

impl Witness {
    pub fn of(connect: String) -> Witness {
        Witness { connect, client: RefCell::new(None) }
    }

    /// By the connection there is, and when that has been of no use by a new one: sessions end without a quorum.
    fn node(&self, path: &str) -> Result<Option<(Value, Stat)>> {
        let mut client = self.client.borrow_mut();
        if let Some(open) = client.take()
            && let Ok(answer) = open.node(path)
        {
            *client = Some(open);
            return Ok(answer);
        }
        let new = ZooKeeper::connect(&self.connect)?;
        let answer = new.node(path)?;
        *client = Some(new);
        Ok(answer)
    }

    pub fn state(&self, topic: &str, partition: i32) -> Result<State> {
        let path = format!("/brokers/topics/{topic}/partitions/{partition}/state");
        let (node, _) = self.node(&path)?.with_context(|| format!("{path} is not there"))?;
        let number = |field: &str| node[field].as_i64().with_context(|| format!("{path} has no {field}: {node}"));
        let isr = node["isr"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
        Ok(State { leader: number("leader")?, leader_epoch: number("leader_epoch")?, isr })
    }

    pub fn registration(&self, broker: i32) -> Result<Option<Registration>> {
        let node = self.node(&format!("/brokers/ids/{broker}"))?;
        Ok(node.map(|(_, stat)| Registration { epoch: stat.czxid, session: stat.ephemeral_owner }))
    }

    pub fn controller(&self) -> Result<Office> {
        let (office, _) = self.node("/controller")?.context("nobody controls")?;
        let (epoch, _) = self.node("/controller_epoch")?.context("there is no controller's epoch")?;
        let holder = office["brokerid"].as_i64().with_context(|| format!("/controller is {office}"))?;
        Ok(Office { holder, epoch: epoch.as_i64().with_context(|| format!("/controller_epoch is {epoch}"))? })
    }

    pub fn registrations(&self, brokers: &[i32]) -> Result<BTreeMap<i32, Option<Registration>>> {
        brokers.iter().map(|&id| Ok((id, self.registration(id)?))).collect()
    }
}
