//! What must hold of a history. One check, one file; each says what it takes for granted.

mod acknowledged_is_kept;
mod commits_follow_delivery;
mod epochs_rise;
mod marks_never_fall;
mod no_circles;
mod offsets_follow_time;
mod one_value_one_offset;
mod polls_without_gaps;
mod refused_stays_away;
mod replicas_agree;
mod seen_in_time;
mod transactions_whole;

use crate::story::Story;
use crate::verdict::Violation;

pub struct Check {
    pub name: &'static str,
    pub judge: fn(&Story) -> Vec<Violation>,
}

pub const ALL: &[Check] = &[
    Check { name: "acknowledged-is-kept", judge: acknowledged_is_kept::judge },
    Check { name: "one-value-one-offset", judge: one_value_one_offset::judge },
    Check { name: "refused-stays-away", judge: refused_stays_away::judge },
    Check { name: "offsets-follow-time", judge: offsets_follow_time::judge },
    Check { name: "polls-without-gaps", judge: polls_without_gaps::judge },
    Check { name: "marks-never-fall", judge: marks_never_fall::judge },
    Check { name: "replicas-agree", judge: replicas_agree::judge },
    Check { name: "epochs-rise", judge: epochs_rise::judge },
    Check { name: "commits-follow-delivery", judge: commits_follow_delivery::judge },
    Check { name: "transactions-whole", judge: transactions_whole::judge },
    Check { name: "seen-in-time", judge: seen_in_time::judge },
    Check { name: "no-circles", judge: no_circles::judge },
];
