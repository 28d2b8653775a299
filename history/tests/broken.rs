//! A sound history, and the same with one thing changed: each change is found, by the check that is there for it, and
//! shown in no more lines than it takes.

use std::collections::BTreeSet;

use history::{checks, judge};

const SOUND: &str = include_str!("sound.jsonl");
const BROKEN: &str = include_str!("broken.txt");

/// What is changed in the sound history, and the verdict of that.
struct Case {
    what: String,
    from: String,
    to: String,
    says: String,
}

fn cases() -> Vec<Case> {
    let case = |part: &str| {
        let (change, says) = part.split_once("\n----\n").expect("a change and a verdict");
        let mut lines = change.lines();
        let what = lines.next().expect("what it is").to_owned();
        let from = lines.next().and_then(|line| line.strip_prefix("- ")).expect("what is changed").to_owned();
        let to: Vec<&str> = lines.map(|line| line.strip_prefix('+').expect("into what").trim_start()).collect();
        Case { what, from, to: to.join("\n"), says: format!("{}\n", says.trim_end()) }
    };
    BROKEN.split("\n# ").skip(1).map(case).collect()
}

#[test]
fn the_sound_history_is_sound() {
    assert_eq!(judge(SOUND.as_bytes()).expect("a history").to_string(), "sound\n");
}

#[test]
fn each_broken_history_is_found_and_shown() {
    for Case { what, from, to, says } in cases() {
        assert_eq!(SOUND.matches(&from).count(), 1, "{what}: the text to change is there once");
        let verdict = judge(SOUND.replace(&from, &to).as_bytes()).expect("a history").to_string();
        assert_eq!(verdict, says, "{what}");
    }
}

/// A check that no broken history speaks of could be switched off unseen.
#[test]
fn every_check_finds_something() {
    let cases = cases();
    let found = cases.iter().flat_map(|case| case.says.split("violated: ").skip(1));
    let found: BTreeSet<&str> = found.filter_map(|rest| Some(rest.split_once(':')?.0)).collect();
    let all: BTreeSet<&str> = checks::ALL.iter().map(|check| check.name).collect();
    assert_eq!(found, all);
}

#[test]
fn a_line_that_is_no_event_is_named() {
    let broken = format!("{SOUND}{{\"event\":\"send\"}}\n");
    let error = format!("{:#}", judge(broken.as_bytes()).expect_err("no event"));
    let line = SOUND.lines().count() + 1;
    assert!(error.starts_with(&format!("line {line}: missing field")), "{error}");
}

#[test]
fn a_log_nobody_looked_at_proves_nothing() {
    let seen = |line: &&str| !line.contains(r#""event":"replica""#);
    let unseen: Vec<&str> = SOUND.lines().filter(seen).collect();
    let verdict = judge(unseen.join("\n").as_bytes()).expect("a history").to_string();
    let missing = ["o-0", "o-1", "s-0", "t-0"].map(|log| format!("invalid: the log of {log}'s leader is missing\n"));
    assert_eq!(verdict, missing.concat());
}
