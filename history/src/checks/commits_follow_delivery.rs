//! A group's committed offset is never ahead of what its members were given, and what a group is told of it is what one of
//! them committed last: none is lost, none invented. A commit within a transaction holds from the transaction's end.

use crate::event::{Commit, Committed, End, Outcome, Partition};
use crate::story::{At, Scene, Story};
use crate::verdict::Violation;

pub fn judge(story: &Story) -> Vec<Violation> {
    let mut found = Vec::new();
    for (partition, scene) in &story.scenes {
        found.extend(scene.commits.iter().filter_map(|commit| ahead(partition, scene, commit)));
        found.extend(scene.committed.iter().filter_map(|told| strange(story, partition, scene, told)));
    }
    found
}

/// A commit beyond all that any member had begun to read when it ended. A group that read nothing is one that somebody
/// has set by hand.
fn ahead(partition: &Partition, scene: &Scene, commit: &At<Commit>) -> Option<Violation> {
    let end = commit.span.to_us.unwrap_or(u64::MAX);
    let of_group = scene.all_polls().filter(|poll| poll.group.as_ref() == Some(&commit.group));
    let last = of_group.filter(|poll| poll.span.from_us <= end).max_by_key(|poll| poll.next)?;
    if commit.offset <= last.next {
        return None;
    }
    Some(Violation {
        says: format!("{} committed {} of {partition} before it was given that", commit.group, commit.offset),
        facts: vec![
            last.fact(format!("{} was given what lies below {}", last.client, last.next)),
            commit.fact(format!("{} committed {}", commit.client, commit.offset)),
        ],
    })
}

/// A commit with what is known of when it took effect.
struct Effect<'a> {
    commit: &'a At<Commit>,
    /// It has; otherwise it may have.
    sure: bool,
    /// By then, if ever.
    by_us: u64,
}

fn effect<'a>(story: &Story, commit: &'a At<Commit>) -> Option<Effect<'a>> {
    let (end, told_us) = match &commit.transaction {
        Some(transaction) => (story.end(transaction), story.transactions.get(transaction).and_then(|it| it.span.to_us)),
        None => (End::Committed, commit.span.to_us),
    };
    if commit.outcome == Outcome::Refused || end == End::Aborted {
        return None;
    }
    let sure = end == End::Committed && matches!(commit.outcome, Outcome::Stored { .. });
    Some(Effect { commit, sure, by_us: told_us.filter(|_| sure).unwrap_or(u64::MAX) })
}

fn strange(story: &Story, partition: &Partition, scene: &Scene, told: &At<Committed>) -> Option<Violation> {
    let of_group = scene.commits.iter().filter(|commit| commit.group == told.group);
    let effects: Vec<Effect> = of_group.filter_map(|commit| effect(story, commit)).collect();
    let before: Vec<&Effect> = effects.iter().filter(|one| one.by_us < told.span.from_us).collect();
    // What came after it for certain, and before the question, stands in its place.
    let replaced = |one: &Effect| before.iter().any(|later| one.by_us < later.commit.span.from_us);
    let begun = |one: &Effect| told.span.to_us.is_none_or(|end| one.commit.span.from_us <= end);
    let may_hold = match told.offset {
        None => before.is_empty(),
        Some(offset) => effects.iter().any(|one| one.commit.offset == offset && begun(one) && !replaced(one)),
    };
    if may_hold {
        return None;
    }
    let client = |commit: &At<Commit>| format!("{} committed {}", commit.client, commit.offset);
    let last = before.iter().filter(|one| one.sure && !replaced(one));
    let mut facts: Vec<_> = last.map(|one| one.commit.fact(client(one.commit))).collect();
    let offset = told.offset.map_or("nothing".to_owned(), |offset| offset.to_string());
    facts.push(told.fact(format!("{} was told that {} has committed {offset}", told.client, told.group)));
    Some(Violation { says: format!("the offset of {} in {partition} is not what was committed", told.group), facts })
}
