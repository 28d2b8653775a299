//! The steps, and the tools that some of them are.

use anyhow::{Context, Result, bail, ensure};

use crate::lanes::tools_twin;

const TEXT: &str = include_str!("steps.txt");

/// The tools' own files, by name.
pub const FILES: &[(&str, &str)] = &[
    ("elect.json", r#"{"partitions":[{"topic":"test","partition":2}]}"#),
    (
        "move.json",
        r#"{"version":1,"partitions":[{"topic":"test","partition":0,"replicas":[3,1]},{"topic":"test","partition":1,"replicas":[3,2,1]}]}"#,
    ),
    ("stay.json", r#"{"version":1,"partitions":[{"topic":"test","partition":1,"replicas":[2,3,1]}]}"#),
    ("orders.json", r#"{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[3,1]}]}"#),
    ("topics.json", r#"{"version":1,"topics":[{"topic":"test"}]}"#),
    ("delete.json", r#"{"version":1,"partitions":[{"topic":"test","partition":0,"offset":1}]}"#),
];

/// A line of the list.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub light: bool,
    /// The tool ends with another code than 0.
    pub refused: bool,
    pub line: &'static str,
}

impl Step {
    pub fn all() -> Result<Vec<Step>> {
        let lines = TEXT.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let step = |line: &'static str| {
            let (kind, line) = line.split_once("> ").with_context(|| line.to_owned())?;
            ensure!(["", "light", "refused"].contains(&kind), "{kind} is no kind of step");
            Ok(Step { light: kind == "light", refused: kind == "refused", line })
        };
        lines.map(step).collect()
    }
}

/// A tool's class, and whether it is one of 2.8.2's, which speak to ZooKeeper.
pub fn class(tool: &str) -> Result<(&'static str, bool)> {
    Ok(match tool {
        "topics" => ("kafka.admin.TopicCommand", true),
        "configs" => ("kafka.admin.ConfigCommand", true),
        "elect" => ("kafka.admin.PreferredReplicaLeaderElectionCommand", true),
        "reassign" => ("kafka.admin.ReassignPartitionsCommand", true),
        "kafka-broker-api-versions" => ("kafka.admin.BrokerApiVersionsCommand", false),
        tool if tool.starts_with("kafka-") => (tools_twin::class(tool)?, false),
        other => bail!("no tool is called {other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_one_and_its_files_are_there() {
        const ACTS: [&str; 9] = ["delete", "isr", "kill", "leads", "put", "replicas", "says", "start", "stop"];
        for Step { line, .. } in Step::all().expect("the list") {
            let tool = line.split(' ').next().unwrap_or_default();
            assert!(ACTS.contains(&tool) || class(tool).is_ok(), "{line}");
            for name in line.split(' ').filter_map(|word| word.strip_prefix('@')) {
                assert!(FILES.iter().any(|(file, _)| *file == name), "{line}");
            }
        }
    }
}
