//! What was refused is nowhere. What has an unknown outcome may be there, and where its producer is idempotent only once,
//! which the check of offsets sees to.

use std::collections::HashMap;

use crate::event::Outcome;
use crate::story::{At, Story};
use crate::verdict::{Fact, Violation};

pub fn judge(story: &Story) -> Vec<Violation> {
    let mut found = Vec::new();
    for (partition, scene) in &story.scenes {
        let refused: HashMap<&str, &At<_>> = scene
            .sends
            .iter()
            .filter(|send| send.outcome == Outcome::Refused)
            .map(|send| (send.value.as_str(), send))
            .collect();
        let mut seen = |value: &str, fact: Fact| {
            if let Some(send) = refused.get(value) {
                let refusal = send.fact(format!("{} was told that {value} is refused", send.client));
                let says = format!("{value} was refused and is in {partition}");
                found.push(Violation { says, facts: vec![refusal, fact] });
            }
        };
        for (poll, record) in scene.read() {
            seen(&record.value, poll.fact(format!("{} read it at offset {}", poll.client, record.offset)));
        }
        if let Some(log) = &scene.leader {
            for (value, record) in log.values() {
                seen(value, record.fact(format!("broker {} holds it at offset {}", log.broker, record.offset)));
            }
        }
    }
    found
}
