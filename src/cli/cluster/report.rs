//! A view in words.

use std::collections::BTreeSet;
use std::fmt;

use super::view::View;
use crate::cli::topics::{Health, Partition, State, Summary};

const HEAD: [&str; 8] = ["BROKER", "ADDRESS", "RACK", "EPOCH", "REACHABLE", "LEADS", "FOLLOWS", "BEHIND"];

pub struct Report<'a> {
    pub view: &'a View,
    /// Those that answer.
    pub reached: &'a BTreeSet<i32>,
}

impl Report<'_> {
    /// The worst of partitions, brokers and controller.
    pub fn state(&self) -> State {
        let partitions = self.summary().state();
        if self.view.controller.is_none() {
            return State::Offline;
        }
        let all = self.brokers().iter().all(|id| self.reached.contains(id));
        partitions.max(if all { State::Healthy } else { State::Degraded })
    }

    fn summary(&self) -> Summary {
        let live = self.view.brokers.keys().copied().collect();
        let mut summary = Summary::default();
        for partition in &self.view.partitions {
            summary.count(&Health::of(partition, &live));
        }
        summary
    }

    /// Registered ones, and those that should have replicas.
    fn brokers(&self) -> BTreeSet<i32> {
        let assigned = self.view.partitions.iter().flat_map(|partition| &partition.replicas);
        self.view.brokers.keys().chain(assigned).copied().collect()
    }

    fn row(&self, id: i32) -> [String; 8] {
        let of = |which: &dyn Fn(&Partition) -> bool| {
            self.view.partitions.iter().filter(|partition| partition.replicas.contains(&id) && which(partition)).count()
        };
        let leads = of(&|partition| partition.leader == id);
        let follows = of(&|partition| partition.leader != id);
        let behind = of(&|partition| !partition.isr.contains(&id));
        let broker = self.view.brokers.get(&id);
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let reachable = match (broker.is_some(), self.reached.contains(&id)) {
            (false, _) => "not registered",
            (true, true) => "yes",
            (true, false) => "no",
        };
        [
            id.to_string(),
            or_dash(broker.map(|broker| broker.address.clone())),
            or_dash(broker.and_then(|broker| broker.rack.clone())),
            or_dash(broker.and_then(|broker| broker.epoch).map(|epoch| epoch.to_string())),
            reachable.to_owned(),
            leads.to_string(),
            follows.to_string(),
            behind.to_string(),
        ]
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let View { cluster_id, controller, controller_epoch, .. } = self.view;
        write!(f, "Cluster: {}\tController: ", cluster_id.as_deref().unwrap_or("none"))?;
        match controller {
            Some(id) => write!(f, "{id}")?,
            None => f.write_str("none")?,
        }
        if let Some(epoch) = controller_epoch {
            write!(f, "\tControllerEpoch: {epoch}")?;
        }
        writeln!(f)?;
        let brokers = self.brokers();
        let mut rows = vec![HEAD.map(str::to_owned)];
        rows.extend(brokers.iter().map(|id| self.row(*id)));
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
        for row in &rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        let (count, missing) = (brokers.len(), brokers.iter().filter(|id| !self.reached.contains(id)).count());
        writeln!(f, "{}: {count} brokers, {missing} out of reach; {}", self.state(), self.summary())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::cli::cluster::view::Broker;

    fn view() -> View {
        let broker = |port: u16| Broker { address: format!("h:{port}"), rack: Some("dc1".to_owned()), epoch: Some(27) };
        let partition =
            |index, leader, isr: &[i32]| Partition { index, leader, replicas: vec![1, 2], isr: isr.to_vec() };
        View {
            cluster_id: Some("x".to_owned()),
            controller: Some(1),
            controller_epoch: Some(4),
            brokers: BTreeMap::from([(1, broker(1)), (2, broker(2))]),
            partitions: vec![partition(0, 1, &[1, 2]), partition(1, 1, &[1, 2])],
        }
    }

    fn state(view: &View, reached: &[i32]) -> State {
        Report { view, reached: &reached.iter().copied().collect() }.state()
    }

    #[test]
    fn the_worst_of_all_decides() {
        assert_eq!(state(&view(), &[1, 2]), State::Healthy);
        assert_eq!(state(&view(), &[1]), State::Degraded, "out of reach");
        let mut gone = view();
        gone.brokers.remove(&2);
        assert_eq!(state(&gone, &[1]), State::Degraded, "not registered");
        let mut shrunk = view();
        shrunk.partitions[0].isr.pop();
        assert_eq!(state(&shrunk, &[1, 2]), State::Degraded);
        shrunk.partitions[0].leader = -1;
        assert_eq!(state(&shrunk, &[1, 2]), State::Offline);
        assert_eq!(state(&View { controller: None, ..view() }, &[1, 2]), State::Offline);
    }

    #[test]
    fn a_broker_that_is_gone_stays_in_the_table() {
        let mut view = view();
        view.brokers.remove(&2);
        view.partitions[1].isr = vec![1];
        let text = Report { view: &view, reached: &BTreeSet::from([1]) }.to_string();
        let expected = "\
Cluster: x\tController: 1\tControllerEpoch: 4
BROKER  ADDRESS  RACK  EPOCH  REACHABLE       LEADS  FOLLOWS  BEHIND
1       h:1      dc1   27     yes             2      0        0
2       -        -     -      not registered  0      2        1
degraded: 2 brokers, 1 out of reach; 2 partitions, 0 ok, 0 offline, 2 under-replicated, 0 not led by the preferred replica
";
        assert_eq!(text, expected);
    }
}
