//! The lines of `--export` and `--from-file`: `topic,partition,offset`, with the group in front where several are meant.

use std::collections::BTreeMap;

use anyhow::{Context, bail};

use crate::types::TopicPartition;

/// Offsets by group; under `None` those of lines without one.
pub type Plans = BTreeMap<Option<String>, BTreeMap<TopicPartition, i64>>;

/// A field that Kafka's tool would quote is quoted: a long one, and one with a character below `-`.
fn field(text: &str) -> String {
    if text.len() > 24 || text.bytes().any(|byte| byte < b'-') {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

/// One line with its end.
pub fn line(group: Option<&str>, of: &TopicPartition, offset: i64) -> String {
    let group = group.map(|group| field(group) + ",").unwrap_or_default();
    format!("{group}{},{},{offset}\n", field(&of.topic), of.partition)
}

/// An error names the line, counted from 1.
pub fn parse(text: &str) -> anyhow::Result<Plans> {
    let mut plans = Plans::new();
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let (group, of, offset) = parse_line(line).with_context(|| format!("line {}: {line}", n + 1))?;
        plans.entry(group).or_default().insert(of, offset);
    }
    Ok(plans)
}

fn parse_line(line: &str) -> anyhow::Result<(Option<String>, TopicPartition, i64)> {
    let mut fields = fields(line)?;
    let group = if fields.len() == 4 { Some(fields.remove(0)) } else { None };
    let [topic, partition, offset] = &fields[..] else {
        bail!("neither topic,partition,offset nor group,topic,partition,offset");
    };
    let partition = partition.trim().parse().with_context(|| format!("{partition} is no partition"))?;
    let offset = offset.trim().parse().with_context(|| format!("{offset} is no offset"))?;
    Ok((group, TopicPartition::new(topic.as_str(), partition), offset))
}

fn fields(line: &str) -> anyhow::Result<Vec<String>> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.trim_end_matches('\r').chars().peekable();
    while let Some(c) = chars.next() {
        let Some(field) = fields.last_mut() else { break };
        match c {
            '"' if quoted && chars.next_if_eq(&'"').is_some() => field.push('"'),
            '"' if quoted || field.is_empty() => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => field.push(other),
        }
    }
    if quoted {
        bail!("a quote is not closed");
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_quoted_as_kafka_quotes_them() {
        let of = |topic: &str| TopicPartition::new(topic, 1);
        assert_eq!(line(None, &of("a"), 7), "a,1,7\n");
        assert_eq!(line(Some("g"), &of("a"), 7), "g,a,1,7\n");
        assert_eq!(line(Some("a b"), &of("a"), 7), "\"a b\",a,1,7\n");
        assert_eq!(line(None, &of("a-topic-of-25-letters-xxx"), 7), "\"a-topic-of-25-letters-xxx\",1,7\n");
        assert_eq!(line(None, &of("a-topic-of-24-letters-xx"), 7), "a-topic-of-24-letters-xx,1,7\n");
    }

    #[test]
    fn what_is_no_line_is_an_error_that_names_it() {
        for (text, why) in [
            ("a,0", "line 1: a,0: neither topic,partition,offset nor group,topic,partition,offset"),
            ("a,0,1\n\na,x,1", "line 3: a,x,1: x is no partition: invalid digit found in string"),
            ("a,0,", "line 1: a,0,: "),
            ("\"a,0,1", "line 1: \"a,0,1: a quote is not closed"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.starts_with(why), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(group in "[^\r\n]{1,40}", topic in "[a-zA-Z0-9._-]{1,40}", offset in 0..i64::MAX) {
            let of = TopicPartition::new(topic, 3);
            let read = parse(&line(Some(&group), &of, offset)).unwrap();
            prop_assert_eq!(read, Plans::from([(Some(group), BTreeMap::from([(of, offset)]))]));
        }
    }
}
