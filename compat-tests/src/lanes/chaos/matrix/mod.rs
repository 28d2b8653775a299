//! The faults, one after the other.

mod disks;
mod processes;
mod suspicions;
mod ways;

use super::fault::{CONTROLLER, FOLLOWER, Fault, LEADER};

const BROKERS: [i32; 3] = [LEADER, CONTROLLER, FOLLOWER];

/// Those of the light form.
pub const LIGHT: &[Fault] = &[processes::KILL_LEADER, processes::CUT_FROM_ZOOKEEPER, processes::EXPIRY];

/// All.
pub fn full() -> impl Iterator<Item = &'static Fault> {
    [processes::FAULTS, ways::FAULTS, disks::FAULTS, suspicions::FAULTS].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::cache;

    #[test]
    fn every_fault_has_a_name_of_its_own_and_a_trace() {
        let names: BTreeSet<&str> = full().map(|fault| fault.name).collect();
        assert_eq!(names.len(), full().count());
        assert!(full().all(|fault| !fault.deeds.is_empty() && !fault.shown_by.is_empty()));
        assert!(LIGHT.iter().all(|fault| names.contains(fault.name)), "the full form has the light one's");
    }

    /// `scores/interleavings.md` names tests and faults that there are.
    #[test]
    fn what_plays_an_interleaving_is_there() {
        let sources = cache::sources().join("..");
        let table = fs::read_to_string(cache::sources().join("scores/interleavings.md")).expect("the table");
        let faults: BTreeSet<&str> = full().map(|fault| fault.name).collect();
        let (mut tests, mut played) = (0, 0);
        let mut file = String::new();
        for (number, part) in table.split('`').enumerate() {
            if number % 2 == 1 {
                part.clone_into(&mut file);
                if part.ends_with(".txt") {
                    assert!(sources.join("src/controller/testdata").join(part).is_file(), "{part} is not there");
                }
                continue;
            }
            for name in
                part.split([' ', ',', '\n']).filter_map(|word| word.strip_suffix("()")).filter(|word| !word.is_empty())
            {
                let text = fs::read_to_string(sources.join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
                assert!(text.contains(&format!("fn {name}()")), "{file} has no {name}");
                tests += 1;
            }
            for name in part.split('"').skip(1).step_by(2) {
                assert!(faults.contains(name), "no fault is called {name}");
                played += 1;
            }
        }
        assert!(tests > 20 && played > 5, "{tests} tests and {played} faults are named");
    }
}
