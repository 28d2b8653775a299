//! What a partition's leader and replicas mean to who has to act on them.

use std::collections::BTreeSet;
use std::fmt;
use std::process::ExitCode;

use super::describe::Partition;

/// Worst first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Nobody leads it: neither written nor read.
    Offline,
    /// It works, but these replicas are down or behind.
    UnderReplicated(Vec<i32>),
    /// It was elected anew: nothing is missing, but the load may be uneven.
    NotPreferred,
    Ok,
}

impl Health {
    /// `live`: brokers that are registered.
    pub fn of(partition: &Partition, live: &BTreeSet<i32>) -> Health {
        let missing: Vec<i32> =
            partition.replicas.iter().copied().filter(|id| !partition.isr.contains(id) || !live.contains(id)).collect();
        if partition.isr.is_empty() || !live.contains(&partition.leader) {
            return Health::Offline;
        }
        if !missing.is_empty() {
            return Health::UnderReplicated(missing);
        }
        match partition.is_led_as_preferred() {
            true => Health::Ok,
            false => Health::NotPreferred,
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Health::Offline => f.write_str("offline"),
            Health::UnderReplicated(missing) => {
                let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
                write!(f, "under-replicated: missing {}", missing.join(","))
            }
            Health::NotPreferred => f.write_str("leader is not the preferred replica"),
            Health::Ok => f.write_str("ok"),
        }
    }
}

/// How many are how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub partitions: usize,
    pub offline: usize,
    pub under_replicated: usize,
    pub not_preferred: usize,
}

impl Summary {
    pub fn count(&mut self, health: &Health) {
        self.partitions += 1;
        match health {
            Health::Offline => self.offline += 1,
            Health::UnderReplicated(_) => self.under_replicated += 1,
            Health::NotPreferred => self.not_preferred += 1,
            Health::Ok => {}
        }
    }

    pub fn state(&self) -> State {
        match (self.offline, self.under_replicated) {
            (0, 0) => State::Healthy,
            (0, _) => State::Degraded,
            _ => State::Offline,
        }
    }
}

/// Of many together, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// All replicas of all partitions are in sync.
    Healthy,
    /// Some are not, and all partitions work.
    Degraded,
    /// A partition does not.
    Offline,
}

impl State {
    /// 0, 3 or 4.
    pub fn exit_code(self) -> ExitCode {
        match self {
            State::Healthy => ExitCode::SUCCESS,
            State::Degraded => ExitCode::from(3),
            State::Offline => ExitCode::from(4),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Healthy => "healthy",
            State::Degraded => "degraded",
            State::Offline => "offline",
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { partitions, offline, under_replicated, not_preferred } = *self;
        let ok = partitions - offline - under_replicated - not_preferred;
        write!(
            f,
            "{partitions} partitions, {ok} ok, {offline} offline, {under_replicated} under-replicated, \
             {not_preferred} not led by the preferred replica"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(leader: i32, replicas: &[i32], isr: &[i32]) -> Partition {
        Partition { index: 0, leader, replicas: replicas.to_vec(), isr: isr.to_vec() }
    }

    #[test]
    fn the_three_readings_and_the_good_one() {
        let live = BTreeSet::from([1, 2, 3]);
        for (partition, expected) in [
            (partition(1, &[1, 2, 3], &[1, 2, 3]), "ok"),
            (partition(1, &[1, 2, 3], &[3, 1, 2]), "ok"),
            (partition(2, &[1, 2, 3], &[1, 2, 3]), "leader is not the preferred replica"),
            (partition(2, &[1, 2, 3], &[2, 1]), "under-replicated: missing 3"),
            (partition(1, &[1, 2, 4], &[1]), "under-replicated: missing 2,4"),
            // It died, and the ISR has not shrunk yet.
            (partition(1, &[1, 2, 4], &[1, 2, 4]), "under-replicated: missing 4"),
            (partition(-1, &[1, 2, 3], &[3]), "offline"),
            (partition(1, &[1, 2, 3], &[]), "offline"),
            (partition(4, &[4, 1, 2], &[4, 1, 2]), "offline"),
        ] {
            assert_eq!(Health::of(&partition, &live).to_string(), expected, "{partition:?}");
        }
    }

    #[test]
    fn a_state_ends_the_program_with_its_code() {
        let code = |state: State| format!("{:?}", state.exit_code());
        for (state, expected) in [(State::Healthy, 0), (State::Degraded, 3), (State::Offline, 4)] {
            assert_eq!(code(state), format!("{:?}", ExitCode::from(expected)));
        }
    }

    #[test]
    fn the_worst_decides() {
        let mut summary = Summary::default();
        for health in [Health::Ok, Health::NotPreferred] {
            summary.count(&health);
            assert_eq!(summary.state(), State::Healthy);
        }
        summary.count(&Health::UnderReplicated(vec![1]));
        assert_eq!(summary.state(), State::Degraded);
        summary.count(&Health::Offline);
        assert_eq!(summary.state(), State::Offline);
        let text = "4 partitions, 1 ok, 1 offline, 1 under-replicated, 1 not led by the preferred replica";
        assert_eq!(summary.to_string(), text);
    }
}
