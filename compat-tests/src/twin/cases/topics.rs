//! CreateTopics, DeleteTopics, CreatePartitions.

use anyhow::Result;
use kafka_protocol::messages::create_partitions_request::{CreatePartitionsAssignment, CreatePartitionsTopic};
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::{
    ApiKey, BrokerId, CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, RequestKind,
};
use uuid::Uuid;

use super::super::requests::{assigned, counted, create, text, topic_name, with_configs};
use super::super::script::Script;

const CREATE: ApiKey = ApiKey::CreateTopics;
const DELETE: ApiKey = ApiKey::DeleteTopics;

fn kind(request: CreateTopicsRequest) -> RequestKind {
    RequestKind::CreateTopics(request)
}

pub fn run(script: &mut Script) -> Result<()> {
    let exists = script.topic("exists");
    script.ask("the first", CREATE, 1, |_| kind(create(vec![counted(&exists, 1, 1)])))?;
    script.await_topic(&exists, 1)?;
    for version in script.versions(CREATE) {
        let name = script.topic(&format!("v{version}"));
        if version >= 1 {
            script.ask("validate only", CREATE, version, |_| {
                kind(create(vec![counted(&name, 3, 1)]).with_validate_only(true))
            })?;
        }
        script.ask("three partitions", CREATE, version, |_| kind(create(vec![counted(&name, 3, 1)])))?;
        script.await_topic(&name, 3)?;
        script.ask("again", CREATE, version, |_| kind(create(vec![counted(&name, 3, 1)])))?;
        refused(script, version)?;
        accepted(script, version)?;
    }
    delete(script)
}

/// Everything that creates nothing, and which error wins.
fn refused(script: &mut Script, version: i16) -> Result<()> {
    let long = "x".repeat(250);
    let exists = script.topic("exists");
    let bad: Vec<(&str, Vec<CreatableTopic>)> = vec![
        ("nothing", vec![]),
        ("a name twice", vec![counted("twice", 1, 1), counted("twice", 2, 1)]),
        ("a name twice and another", vec![counted("twice", 1, 1), counted("twice", 1, 1), counted("a b", 1, 1)]),
        ("an empty name", vec![counted("", 1, 1)]),
        ("names of dots", vec![counted(".", 1, 1), counted("..", 1, 1)]),
        ("a slash", vec![counted("a/b", 1, 1)]),
        ("250 letters", vec![counted(&long, 1, 1)]),
        ("the metadata topic of KRaft", vec![counted("__cluster_metadata", 1, 1)]),
        ("no partitions", vec![counted("bad", 0, 1)]),
        ("minus two partitions", vec![counted("bad", -2, 1)]),
        ("no replicas", vec![counted("bad", 1, 0)]),
        ("minus two replicas", vec![counted("bad", 1, -2)]),
        ("nine replicas", vec![counted("bad", 1, 9)]),
        ("no partitions and nine replicas", vec![counted("bad", 0, 9)]),
        ("a bad name and no partitions", vec![counted("a b", 0, 1)]),
        ("an existing name and no partitions", vec![counted(&exists, 0, 1)]),
        ("an existing name and a bad config", vec![with_configs(counted(&exists, 1, 1), &[("x", Some("y"))])]),
        ("counts and assignment", vec![assigned("bad", &[(0, &[1])]).with_num_partitions(1)]),
        ("replication and assignment", vec![assigned("bad", &[(0, &[1])]).with_replication_factor(1)]),
        ("an assignment with a gap", vec![assigned("bad", &[(0, &[1]), (2, &[1])])]),
        ("an assignment from 1", vec![assigned("bad", &[(1, &[1])])]),
        ("an assignment with a partition twice", vec![assigned("bad", &[(0, &[1]), (0, &[1])])]),
        ("an assignment without replicas", vec![assigned("bad", &[(0, &[])])]),
        ("an assignment with a broker twice", vec![assigned("bad", &[(0, &[1, 1])])]),
        ("an assignment of two lengths", vec![assigned("bad", &[(0, &[1]), (1, &[1, 2])])]),
        ("an unknown config", vec![with_configs(counted("bad", 1, 1), &[("no.such", Some("1"))])]),
        ("a config of another type", vec![with_configs(counted("bad", 1, 1), &[("retention.ms", Some("soon"))])]),
        ("a config out of range", vec![with_configs(counted("bad", 1, 1), &[("segment.bytes", Some("1"))])]),
        (
            "a config that is no choice",
            vec![with_configs(counted("bad", 1, 1), &[("cleanup.policy", Some("compactt"))])],
        ),
        ("a null config", vec![with_configs(counted("bad", 1, 1), &[("retention.ms", None)])]),
        ("a null config and no partitions", vec![with_configs(counted("bad", 0, 1), &[("retention.ms", None)])]),
        ("one bad of two", vec![counted("a b", 1, 1), counted(&exists, 1, 1)]),
    ];
    for (name, topics) in bad {
        script.ask(name, CREATE, version, |_| kind(create(topics.clone())))?;
        if version >= 1 && ["nine replicas", "an unknown config", "an existing name and no partitions"].contains(&name)
        {
            script.ask(&format!("{name}, validate only"), CREATE, version, |_| {
                kind(create(topics.clone()).with_validate_only(true))
            })?;
        }
    }
    let dotted = script.topic("clash.x");
    if version == 0 {
        script.ask("a dot", CREATE, version, |_| kind(create(vec![counted(&dotted, 1, 1)])))?;
        script.await_topic(&dotted, 1)?;
    }
    let clash = script.topic("clash_x");
    script.ask("a clash with the dot", CREATE, version, |_| kind(create(vec![counted(&clash, 1, 1)])))?;
    if version < 4 {
        script.ask("default counts before they were known", CREATE, version, |_| {
            kind(create(vec![counted("bad", -1, 1)]))
        })?;
        script.ask("default replicas before they were known", CREATE, version, |_| {
            kind(create(vec![counted("bad", 1, -1)]))
        })?;
    }
    Ok(())
}

fn accepted(script: &mut Script, version: i16) -> Result<()> {
    let (a, b, c) = (
        script.topic(&format!("a{version}")),
        script.topic(&format!("b{version}")),
        script.topic(&format!("c{version}")),
    );
    let configs = [
        ("cleanup.policy", Some("compact,delete")),
        ("retention.ms", Some("-1")),
        ("max.message.bytes", Some(" 2000 ")),
    ];
    let topics = vec![assigned(&a, &[(1, &[1]), (0, &[1])]), with_configs(counted(&b, 1, 1), &configs)];
    script.ask("an assignment and configs", CREATE, version, |_| kind(create(topics.clone())))?;
    script.await_topic(&a, 2)?;
    script.await_topic(&b, 1)?;
    if version >= 4 {
        script.ask("default counts", CREATE, version, |_| kind(create(vec![counted(&c, -1, -1)])))?;
        script.await_topic(&c, 2)?;
    }
    let hurried = script.topic(&format!("h{version}"));
    script.ask("no time", CREATE, version, |_| kind(create(vec![counted(&hurried, 1, 1)]).with_timeout_ms(0)))?;
    script.await_topic(&hurried, 1)
}

fn delete_names(version: i16, names: &[&str]) -> DeleteTopicsRequest {
    let request = DeleteTopicsRequest::default().with_timeout_ms(10_000);
    if version < 6 {
        return request.with_topic_names(names.iter().map(|name| topic_name(name)).collect());
    }
    let states = names.iter().map(|name| DeleteTopicState::default().with_name(Some(topic_name(name))));
    request.with_topics(states.collect())
}

fn delete(script: &mut Script) -> Result<()> {
    for version in script.versions(DELETE) {
        let name = script.topic(&format!("v{version}"));
        script.ask("known and unknown", DELETE, version, |_| {
            RequestKind::DeleteTopics(delete_names(version, &[&name, "nowhere"]))
        })?;
        script.await_gone(&name)?;
        script.ask("gone", DELETE, version, |_| RequestKind::DeleteTopics(delete_names(version, &[&name])))?;
        script.ask("nothing", DELETE, version, |_| RequestKind::DeleteTopics(delete_names(version, &[])))?;
        script
            .ask("a bad name", DELETE, version, |_| RequestKind::DeleteTopics(delete_names(version, &["a/b", ""])))?;
        let a = script.topic(&format!("a{version}"));
        script.ask("twice in one", DELETE, version, |_| RequestKind::DeleteTopics(delete_names(version, &[&a, &a])))?;
        let b = script.topic(&format!("b{version}"));
        script.ask("no time", DELETE, version, |_| {
            RequestKind::DeleteTopics(delete_names(version, &[&b]).with_timeout_ms(0))
        })?;
        script.await_gone(&b)?;
        // Deleted, and made anew with another id.
        script.make_topic(&b, 1)?;
    }
    let state = |id: Uuid, name: Option<&str>| {
        let state = DeleteTopicState::default().with_topic_id(id).with_name(name.map(topic_name));
        RequestKind::DeleteTopics(DeleteTopicsRequest::default().with_timeout_ms(10_000).with_topics(vec![state]))
    };
    let (b, known) = (script.topic("b1"), script.topic("b2"));
    script.ask("by an unknown id", DELETE, 6, |_| state(Uuid::from_u128(9), None))?;
    script.ask("by no id and no name", DELETE, 6, |_| state(Uuid::nil(), None))?;
    script.ask("by id and name", DELETE, 6, |side| state(side.id(&known), Some(&known)))?;
    script.ask("by id twice", DELETE, 6, |side| {
        let state = DeleteTopicState::default().with_topic_id(side.id(&b)).with_name(None);
        RequestKind::DeleteTopics(
            DeleteTopicsRequest::default().with_timeout_ms(10_000).with_topics(vec![state.clone(), state]),
        )
    })?;
    let other = script.topic("by-id");
    script.make_topic(&other, 1)?;
    script.ask("by id", DELETE, 6, |side| state(side.id(&other), None))
}

pub fn partitions(script: &mut Script) -> Result<()> {
    const API: ApiKey = ApiKey::CreatePartitions;
    let assignment = |lists: &[&[i32]]| {
        let lists = lists.iter().map(|brokers| {
            CreatePartitionsAssignment::default().with_broker_ids(brokers.iter().map(|&id| BrokerId(id)).collect())
        });
        Some(lists.collect::<Vec<_>>())
    };
    let topic = |name: &str, count: i32, assignments: Option<Vec<CreatePartitionsAssignment>>| {
        CreatePartitionsTopic::default().with_name(topic_name(name)).with_count(count).with_assignments(assignments)
    };
    let ask = |topics: Vec<CreatePartitionsTopic>, validate_only: bool| {
        let request = CreatePartitionsRequest::default().with_timeout_ms(10_000).with_validate_only(validate_only);
        RequestKind::CreatePartitions(request.with_topics(topics))
    };
    for version in script.versions(API) {
        let name = script.topic(&format!("v{version}"));
        script.ask("the topic", CREATE, 5, |_| kind(create(vec![counted(&name, 2, 1)])))?;
        script.await_topic(&name, 2)?;
        script.ask("the same count", API, version, |_| ask(vec![topic(&name, 2, None)], false))?;
        script.ask("fewer", API, version, |_| ask(vec![topic(&name, 1, None)], false))?;
        script.ask("none", API, version, |_| ask(vec![topic(&name, 0, None)], false))?;
        script.ask("minus one", API, version, |_| ask(vec![topic(&name, -1, None)], false))?;
        script.ask("too many lists", API, version, |_| ask(vec![topic(&name, 3, assignment(&[&[1], &[1]]))], false))?;
        script.ask("too few lists", API, version, |_| ask(vec![topic(&name, 5, assignment(&[&[1]]))], false))?;
        script.ask("no lists", API, version, |_| ask(vec![topic(&name, 3, assignment(&[]))], false))?;
        script.ask("an empty list", API, version, |_| ask(vec![topic(&name, 3, assignment(&[&[]]))], false))?;
        script.ask("a broker twice", API, version, |_| ask(vec![topic(&name, 3, assignment(&[&[1, 1]]))], false))?;
        script.ask("an unknown broker", API, version, |_| ask(vec![topic(&name, 3, assignment(&[&[99]]))], false))?;
        script
            .ask("another replication", API, version, |_| ask(vec![topic(&name, 3, assignment(&[&[1, 99]]))], false))?;
        script.ask("an unknown topic", API, version, |_| {
            ask(vec![topic("nowhere", 3, None), topic("a/b", 3, None)], false)
        })?;
        script
            .ask("a topic twice", API, version, |_| ask(vec![topic(&name, 4, None), topic(&name, 5, None)], false))?;
        script.ask("nothing", API, version, |_| ask(vec![], false))?;
        script.ask("validate only", API, version, |_| ask(vec![topic(&name, 4, None)], true))?;
        script.ask("one more, assigned", API, version, |_| ask(vec![topic(&name, 3, assignment(&[&[1]]))], false))?;
        script.await_topic(&name, 3)?;
        script.ask("two more", API, version, |_| ask(vec![topic(&name, 5, None)], false))?;
        script.await_topic(&name, 5)?;
        script.ask("described", ApiKey::Metadata, 9, |_| {
            let request = kafka_protocol::messages::MetadataRequest::default();
            RequestKind::Metadata(request.with_topics(Some(vec![super::super::requests::metadata_topic(text(&name))])))
        })?;
    }
    Ok(())
}
