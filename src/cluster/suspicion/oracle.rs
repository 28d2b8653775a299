//! What may be said of a broker, worked out again from all that was seen. It keeps no state, knows nothing of stages, and
//! looks at the whole story for each verdict.

use std::collections::BTreeSet;

use super::*;
use crate::types::{BrokerId, Endpoint};

/// What was seen or decided, in order, with the time in ms.
#[derive(Clone, Debug)]
pub enum Entry {
    Seen(Evidence, i64),
    Decided(Decision, i64),
}

pub struct Oracle {
    pub me: BrokerId,
    pub cluster_id: &'static str,
    pub session_timeout_ms: i64,
    pub story: Vec<Entry>,
}

impl Oracle {
    /// Why the last entry, a decision, is wrong.
    pub fn objection(&self) -> Option<&'static str> {
        let (before, last) = self.story.split_at(self.story.len() - 1);
        match &last[0] {
            Entry::Decided(Decision::Suspect { who, .. }, at_ms) => self.unjust(before, *who, *at_ms),
            Entry::Decided(Decision::Clear { who, why: Cleared::Answered }, _) => {
                let answered = before.iter().rev().find_map(|entry| match entry {
                    Entry::Seen(seen, _) => Some(seen),
                    Entry::Decided(..) => None,
                });
                let proves = matches!(answered, Some(Evidence::Answered { by, cluster_id })
                    if by == who && &**cluster_id == self.cluster_id);
                (!proves).then_some("cleared without an answer of this life from this cluster")
            }
            _ => None,
        }
    }

    fn unjust(&self, before: &[Entry], who: Incarnation, at_ms: i64) -> Option<&'static str> {
        if who.id == self.me {
            return Some("suspects itself");
        }
        let registered = registered(before);
        let Some(known) = registered.iter().find(|now| now.who == who) else { return Some("is not registered") };
        let (open, proven) = connections(before, who);
        if !open.is_empty() || !proven {
            return Some("its connections did not all end by it");
        }
        let since = before.iter().rposition(|entry| is_sign_of_life(entry, who)).map_or(0, |at| at + 1);
        let rounds = rounds(&before[since..], known);
        // Every series of them, an attempt that came to nothing may lie before.
        let series = (0..rounds.len()).flat_map(|from| (from..rounds.len()).map(move |to| (from, to)));
        let apart_ms = |from: usize, to: usize| rounds[to].0.began_ms - rounds[from].0.ended_ms;
        let mut series = series.filter(|(from, to)| apart_ms(*from, *to) >= 100).peekable();
        if series.peek().is_none() {
            return Some("was not looked for twice");
        }
        let is_enough = |(from, to): &(usize, usize)| {
            apart_ms(*from, *to) >= 1_000 || !rounds[*from..=*to].iter().any(|(round, _)| round.absent)
        };
        let Some(end) = series.filter(is_enough).map(|(_, to)| rounds[to].1).min() else {
            return Some("was out of reach for less than a second");
        };
        let reread = before[since..].iter().skip(end).any(|entry| {
            matches!(entry, Entry::Seen(Evidence::RegistrationRead { found: Some(found), .. }, _) if found == known)
        });
        if !reread {
            return Some("its registration was not read again");
        }
        let suspects = suspects(before);
        let connected =
            registered.iter().filter(|other| other.who.id == self.me || !connections(before, other.who).0.is_empty());
        if !registered.iter().any(|other| other.who.id == self.me) || connected.count() * 2 < registered.len() {
            return Some("who suspects is cut off");
        }
        if (registered.len() - suspects.len() - 1) * 2 < registered.len() {
            return Some("fewer than half remain");
        }
        let cleared = before.iter().rev().find_map(|entry| match entry {
            Entry::Decided(Decision::Clear { who: cleared, why: Cleared::Answered }, at_ms) if *cleared == who => {
                Some(*at_ms)
            }
            _ => None,
        });
        let is_too_soon = cleared.is_some_and(|cleared_ms| at_ms - cleared_ms < self.session_timeout_ms);
        is_too_soon.then_some("is suspected again too soon")
    }
}

/// As the last list says, and what was read since.
fn registered(before: &[Entry]) -> Vec<Registered> {
    let mut known: Vec<Registered> = Vec::new();
    for entry in before {
        match entry {
            Entry::Seen(Evidence::Registrations(now), _) => {
                known.retain(|old| now.iter().any(|new| new.who.id == old.who.id));
                now.iter().for_each(|new| note(&mut known, new));
            }
            Entry::Seen(Evidence::RegistrationRead { found: Some(found), .. }, _)
                if known.iter().any(|old| old.who.id == found.who.id) =>
            {
                note(&mut known, found);
            }
            _ => {}
        }
    }
    known
}

fn note(known: &mut Vec<Registered>, new: &Registered) {
    match known.iter_mut().find(|old| old.who.id == new.who.id) {
        Some(old) if old.who.czxid > new.who.czxid => {}
        Some(old) => *old = new.clone(),
        None => known.push(new.clone()),
    }
}

/// Those open with `who`, and whether it ended one after the last byte that came from it.
fn connections(before: &[Entry], who: Incarnation) -> (BTreeSet<ConnectionId>, bool) {
    let (mut open, mut ended_ms, mut alive_ms) = (BTreeSet::new(), i64::MIN, i64::MIN);
    for entry in before {
        match entry {
            Entry::Seen(Evidence::Opened { with, connection }, at_ms) if *with == who => {
                open.insert(*connection);
                // In the same millisecond, but after it.
                (ended_ms, alive_ms) = (i64::MIN, *at_ms);
            }
            Entry::Seen(Evidence::Closed { connection, how, heard_ms }, at_ms) if open.remove(connection) => {
                alive_ms = alive_ms.max(*heard_ms);
                if matches!(how, Ended::Fin | Ended::Reset) {
                    ended_ms = *at_ms;
                }
            }
            _ => {}
        }
    }
    (open, ended_ms >= alive_ms && ended_ms > i64::MIN)
}

fn is_sign_of_life(entry: &Entry, who: Incarnation) -> bool {
    match entry {
        Entry::Seen(Evidence::Opened { with, .. }, _) => *with == who,
        Entry::Seen(Evidence::Answered { by, .. }, _) => *by == who,
        Entry::Seen(Evidence::Probed { of, outcomes, .. }, _) => *of == who && outcomes.contains(&Outcome::Accepted),
        _ => false,
    }
}

/// Whole rounds in vain, each with the place of its end.
fn rounds(since: &[Entry], known: &Registered) -> Vec<(Round, usize)> {
    let mut rounds = Vec::new();
    for (begin, entry) in since.iter().enumerate() {
        let Entry::Decided(Decision::Probe { ticket, of, endpoints }, began_ms) = entry else { continue };
        if *of != known.who || *endpoints != known.endpoints {
            continue;
        }
        let mut untold: Vec<&Endpoint> = endpoints.iter().collect();
        let mut absent = false;
        for (end, entry) in since.iter().enumerate().skip(begin) {
            let Entry::Seen(Evidence::Probed { ticket: told, at, outcomes, .. }, ended_ms) = entry else { continue };
            if told != ticket || !untold.contains(&at) {
                continue;
            }
            if outcomes.is_empty() || outcomes.contains(&Outcome::TimedOut) {
                rounds.clear();
                break;
            }
            absent |= outcomes.iter().any(|one| *one != Outcome::Refused);
            untold.retain(|endpoint| *endpoint != at);
            if untold.is_empty() {
                rounds.push((Round { began_ms: *began_ms, ended_ms: *ended_ms, absent }, end));
            }
        }
    }
    rounds
}

fn suspects(before: &[Entry]) -> BTreeSet<Incarnation> {
    let mut suspects = BTreeSet::new();
    for entry in before {
        match entry {
            Entry::Decided(Decision::Suspect { who, .. }, _) => drop(suspects.insert(*who)),
            Entry::Decided(Decision::Clear { who, .. }, _) => drop(suspects.remove(who)),
            _ => {}
        }
    }
    suspects
}
