//! Metadata: names, ids, auto-creation.

use anyhow::Result;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{ApiKey, MetadataRequest, RequestKind};
use uuid::Uuid;

use super::super::requests::{counted, create, metadata_topic, text, with_configs};
use super::super::script::Script;

const API: ApiKey = ApiKey::Metadata;

/// Without auto-creation where the version can say so.
fn named(version: i16, names: &[&str]) -> RequestKind {
    let topics = names.iter().map(|name| metadata_topic(text(name))).collect();
    RequestKind::Metadata(
        MetadataRequest::default().with_topics(Some(topics)).with_allow_auto_topic_creation(version < 4),
    )
}

pub fn run(script: &mut Script) -> Result<()> {
    let (one, two) = (script.topic("one"), script.topic("two"));
    script.ask_all("no topics at all", API, |version, _| {
        let topics = if version == 0 { Some(Vec::new()) } else { None };
        RequestKind::Metadata(MetadataRequest::default().with_topics(topics))
    })?;
    script.ask("topics", ApiKey::CreateTopics, 5, |_| {
        let two = with_configs(counted(&two, 3, 1), &[("retention.ms", Some("1000"))]);
        RequestKind::CreateTopics(create(vec![counted(&one, 1, 1), two]))
    })?;
    script.await_topic(&one, 1)?;
    script.await_topic(&two, 3)?;
    script.ask_all("named", API, |version, _| named(version, &[&two, &one]))?;
    script.ask_all("named twice", API, |version, _| named(version, &[&one, &one]))?;
    script
        .ask_all("none", API, |_, _| RequestKind::Metadata(MetadataRequest::default().with_topics(Some(Vec::new()))))?;
    script.ask_all("all", API, |version, _| {
        let topics = if version == 0 { Some(Vec::new()) } else { None };
        RequestKind::Metadata(MetadataRequest::default().with_topics(topics))
    })?;
    script.ask_all("authorized operations", API, |version, _| {
        let topics = Some(vec![metadata_topic(text(&one))]);
        let request = MetadataRequest::default().with_topics(topics).with_include_topic_authorized_operations(true);
        RequestKind::Metadata(request.with_include_cluster_authorized_operations(version <= 10))
    })?;
    for version in script.versions(API).filter(|&version| version >= 4) {
        script.ask("unknown", API, version, |_| named(version, &["nowhere", &one]))?;
    }
    let longest = "x".repeat(249);
    let too_long = "x".repeat(250);
    for name in ["", ".", "..", "a/b", "a b", "ä", "a\0b", &too_long] {
        script.ask_all(&format!("bad name {name:?}"), API, |version, _| named(version, &[name]))?;
    }
    for version in script.versions(API).filter(|&version| version >= 4) {
        for name in ["", "a/b", "..", &too_long] {
            script.ask(&format!("bad name {name:?} with auto-creation"), API, version, |_| {
                let topics = Some(vec![metadata_topic(text(name))]);
                RequestKind::Metadata(
                    MetadataRequest::default().with_topics(topics).with_allow_auto_topic_creation(true),
                )
            })?;
        }
        script.ask("the longest name", API, version, |_| named(version, &[&longest]))?;
    }
    by_id(script, &one)?;
    auto_creation(script)
}

fn by_id(script: &mut Script, known: &str) -> Result<()> {
    let by = |id: Uuid, name: Option<&str>| {
        let topic = MetadataRequestTopic::default().with_topic_id(id).with_name(name.map(|name| text(name).into()));
        let request = MetadataRequest::default().with_topics(Some(vec![topic])).with_allow_auto_topic_creation(false);
        RequestKind::Metadata(request)
    };
    for version in 10..=12 {
        script.ask("by id", API, version, |side| by(side.id(known), None))?;
        script.ask("by id and name", API, version, |side| by(side.id(known), Some(known)))?;
        script.ask("by id and another name", API, version, |side| by(side.id(known), Some("other")))?;
        script.ask("by an unknown id", API, version, |_| by(Uuid::from_u128(0x1234), None))?;
        script.ask("by no id and no name", API, version, |_| by(Uuid::nil(), None))?;
        script.ask("by id and by name in one request", API, version, |side| {
            let topics = vec![
                MetadataRequestTopic::default().with_topic_id(side.id(known)).with_name(None),
                metadata_topic(text(known)),
            ];
            RequestKind::Metadata(
                MetadataRequest::default().with_topics(Some(topics)).with_allow_auto_topic_creation(false),
            )
        })?;
    }
    Ok(())
}

fn auto_creation(script: &mut Script) -> Result<()> {
    for version in script.versions(API) {
        let name = script.topic(&format!("auto{version}"));
        let ask = |allowed: bool| {
            let topics = Some(vec![metadata_topic(text(&name))]);
            RequestKind::Metadata(
                MetadataRequest::default().with_topics(topics).with_allow_auto_topic_creation(allowed),
            )
        };
        if version >= 4 {
            script.ask("auto-creation forbidden", API, version, |_| ask(false))?;
        }
        script.ask("auto-creation", API, version, |_| ask(true))?;
        script.await_topic(&name, 2)?;
        script.ask("auto-created", API, version, |_| ask(version < 4))?;
    }
    // A name that differs from an existing one only by . and _.
    let (dotted, underscored) = (script.topic("a.b"), script.topic("a_b"));
    for name in [&dotted, &underscored] {
        script.ask("a clash", API, 9, |_| {
            let topics = Some(vec![metadata_topic(text(name))]);
            RequestKind::Metadata(MetadataRequest::default().with_topics(topics).with_allow_auto_topic_creation(true))
        })?;
        if name == &dotted {
            script.await_topic(name, 2)?;
        }
    }
    Ok(())
}
