//! Schedules from seeds: with all rules, and with one of them left out.

use super::{Counts, Off, Pool, Rule};

/// More with `KLAMM_SEEDS`; one alone, told step by step, with `KLAMM_SEED`.
pub(super) fn schedules() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("KLAMM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("KLAMM_SEEDS").unwrap_or(300),
    }
}

#[test]
fn any_order_of_messages_and_crashes_keeps_what_was_committed() {
    let mut sum = Counts::default();
    let all = schedules();
    let alone = all.end - all.start == 1;
    for seed in all.clone() {
        match (Pool { told: alone, ..Pool::new(seed, Off(&[])) }).run() {
            Err(what) => panic!("seed {seed}: {what}"),
            Ok(counts) => {
                sum.elections += counts.elections;
                sum.isr_changes += counts.isr_changes;
                sum.truncations += counts.truncations;
                sum.committed += counts.committed;
                sum.lossy_crashes += counts.lossy_crashes;
                sum.lost += counts.lost;
            }
        }
    }
    println!("{} schedules: {sum:?}", all.end - all.start);
    let enough = sum.elections > 0 && sum.isr_changes > 0 && sum.truncations > 0 && sum.lossy_crashes > 0;
    assert!(enough && sum.committed > 0, "too quiet: {sum:?}");
    assert!(sum.lost * 50 <= all.end - all.start, "too much is lost to say anything: {sum:?}");
}

#[test]
fn without_one_of_its_rules_a_violation_is_found() {
    // What the others are for is too rare for this many schedules: `unseen` tells it step by step.
    const CASES: [&[Rule]; 8] =
        [&[Rule::B1], &[Rule::B2], &[Rule::B4], &[Rule::B5], &[Rule::B9], &[Rule::B10], &[Rule::B12], &[Rule::F8]];
    for off in CASES {
        let found = (0..2_000).find_map(|seed| Pool::new(seed, Off(off)).run().err().map(|what| (seed, what)));
        println!("{off:?}: {:.300}", format!("{found:?}"));
        assert!(found.is_some(), "{off:?} is not missed");
    }
}
