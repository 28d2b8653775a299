//! DescribeClientQuotas, AlterClientQuotas, and what quotas refuse.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_client_quotas_request::ComponentData;
use kafka_protocol::messages::{
    ApiKey, CreatePartitionsRequest, DeleteTopicsRequest, DescribeClientQuotasRequest, RequestKind,
};

use super::super::requests::{Entity, Ops, alter_quotas as alter, counted, create, text, topic_name};
use super::super::script::Script;

/// Longer than a change takes to reach a broker.
const CHANGED: Duration = Duration::from_millis(150);

fn describe(components: &[(&str, i8, Option<&str>)], strict: bool) -> RequestKind {
    let components = components.iter().map(|(kind, match_type, name)| {
        ComponentData::default().with_entity_type(text(kind)).with_match_type(*match_type).with_match(name.map(text))
    });
    RequestKind::DescribeClientQuotas(
        DescribeClientQuotasRequest::default().with_components(components.collect()).with_strict(strict),
    )
}

const EXACT: i8 = 0;
const DEFAULT: i8 = 1;
const ANY: i8 = 2;

fn described(script: &mut Script, version: i16) -> Result<()> {
    const API: ApiKey = ApiKey::DescribeClientQuotas;
    let filters: &[&[(&str, i8, Option<&str>)]] = &[
        &[],
        &[("user", ANY, None)],
        &[("user", EXACT, Some("u"))],
        &[("user", EXACT, Some("nobody"))],
        &[("user", DEFAULT, None)],
        &[("user", EXACT, Some("<default>"))],
        &[("user", EXACT, Some("a b*/%ä+"))],
        &[("client-id", ANY, None)],
        &[("client-id", EXACT, Some("c"))],
        &[("client-id", DEFAULT, None)],
        &[("user", ANY, None), ("client-id", ANY, None)],
        &[("user", EXACT, Some("u")), ("client-id", EXACT, Some("c"))],
        &[("user", EXACT, Some("u")), ("client-id", ANY, None)],
        &[("user", DEFAULT, None), ("client-id", DEFAULT, None)],
        &[("user", DEFAULT, Some("ignored")), ("client-id", ANY, Some("ignored"))],
        &[("ip", ANY, None)],
        &[("ip", EXACT, Some("10.0.0.1"))],
        &[("ip", EXACT, Some("10.0.0.2"))],
        &[("ip", DEFAULT, None)],
        // Refused.
        &[("user", EXACT, None)],
        &[("user", 3, Some("u"))],
        &[("user", -1, Some("u"))],
        &[("user", ANY, None), ("user", ANY, None)],
        &[("ip", ANY, None), ("ip", DEFAULT, None)],
        &[("", ANY, None)],
        &[("group", ANY, None)],
        &[("ip", ANY, None), ("user", ANY, None)],
        &[("client-id", ANY, None), ("ip", ANY, None)],
        &[("group", ANY, None), ("user", 9, None)],
    ];
    for components in filters {
        for strict in [false, true] {
            script.ask(&format!("{components:?} strict={strict}"), API, version, |_| describe(components, strict))?;
        }
    }
    Ok(())
}

pub fn client_quotas(script: &mut Script) -> Result<()> {
    const API: ApiKey = ApiKey::AlterClientQuotas;
    const ALL: Ops = &[
        ("producer_byte_rate", Some(1_000_000.0)),
        ("consumer_byte_rate", Some(2e12)),
        ("request_percentage", Some(50.0)),
        ("controller_mutation_rate", Some(0.25)),
    ];
    const NONE: Ops = &[
        ("producer_byte_rate", None),
        ("consumer_byte_rate", None),
        ("request_percentage", None),
        ("controller_mutation_rate", None),
        ("connection_creation_rate", None),
    ];
    let entities: &[Entity] = &[
        &[("user", Some("u"))],
        &[("user", Some("a b*/%ä+"))],
        &[("user", None)],
        &[("user", Some("<default>"))],
        &[("client-id", Some("c"))],
        &[("client-id", None)],
        &[("user", Some("u")), ("client-id", Some("c"))],
        &[("user", Some("u")), ("client-id", None)],
        &[("client-id", Some("d")), ("user", None)],
        &[("user", None), ("client-id", None)],
    ];
    for version in script.versions(API) {
        let mut ask = |step: &str, changes: &[(Entity, Ops)], validate_only: bool| {
            script.ask(step, API, version, |_| alter(changes, validate_only))
        };
        ask("nothing", &[], false)?;
        ask("no operation", &[(&[("user", Some("u"))], &[])], false)?;
        ask("validate only", &[(&[("user", Some("u"))], ALL)], true)?;
        for entity in entities {
            ask(&format!("{entity:?}"), &[(entity, ALL)], false)?;
        }
        const RATE: Ops = &[("connection_creation_rate", Some(100_000.0))];
        ask("addresses", &[(&[("ip", Some("10.0.0.1"))], RATE), (&[("ip", None)], RATE)], false)?;
        ask("a host", &[(&[("ip", Some("localhost"))], RATE)], true)?;
        ask("no address", &[(&[("ip", Some("no.such.host.invalid"))], RATE)], false)?;
        ask("an address of IPv6", &[(&[("ip", Some("::1"))], RATE)], true)?;
        ask("no entity", &[(&[], ALL)], false)?;
        ask("an unknown type", &[(&[("group", Some("g"))], ALL)], false)?;
        ask("an empty type", &[(&[("", Some("g"))], ALL)], false)?;
        for kind in ["user", "client-id", "ip"] {
            ask(&format!("an empty {kind}"), &[(&[(kind, Some(""))], ALL)], false)?;
        }
        ask("a user and an address", &[(&[("user", Some("u")), ("ip", Some("10.0.0.1"))], ALL)], false)?;
        ask("a client and an address", &[(&[("client-id", Some("u")), ("ip", Some("10.0.0.1"))], ALL)], false)?;
        ask(
            "a type twice",
            &[(&[("user", Some("u")), ("user", Some("v"))], &[("producer_byte_rate", Some(9.0))])],
            true,
        )?;
        let values: &[(&str, f64)] = &[
            ("producer_byte_rate", 1.5),
            ("producer_byte_rate", -1.0),
            ("producer_byte_rate", 0.0),
            ("producer_byte_rate", 0.999_999_9),
            ("producer_byte_rate", 1e300),
            ("producer_byte_rate", f64::NAN),
            ("consumer_byte_rate", f64::INFINITY),
            ("request_percentage", 0.1),
            ("request_percentage", f64::NAN),
            ("controller_mutation_rate", -3.0),
            ("connection_creation_rate", 1.0),
            ("no_such_rate", 1.0),
            ("SCRAM-SHA-256", 1.0),
            ("", 1.0),
        ];
        for validate_only in [true, false] {
            for (key, value) in values {
                for entity in [&[("user", Some("x"))][..], &[("client-id", Some("x"))], &[("user", None)]] {
                    let ops: Ops = &[(*key, Some(*value))];
                    ask(&format!("{entity:?} {key}={value} {validate_only}"), &[(entity, ops)], validate_only)?;
                }
            }
            for value in [-1.0, 0.5, 0.0, 3e9, f64::NAN] {
                let ops: Ops = &[("connection_creation_rate", Some(value))];
                ask(&format!("ip {value} {validate_only}"), &[(&[("ip", Some("10.0.0.9"))], ops)], validate_only)?;
            }
            let ops: Ops = &[("producer_byte_rate", Some(1.0))];
            ask("an address that produces", &[(&[("ip", Some("10.0.0.9"))], ops)], validate_only)?;
        }
        ask(
            "a key twice",
            &[(&[("user", Some("x"))], &[("producer_byte_rate", Some(1.0)), ("producer_byte_rate", None)])],
            false,
        )?;
        ask("an unknown key removed", &[(&[("user", Some("x"))], &[("no_such_rate", None)])], false)?;
        ask("an entity twice", &[(&[("user", Some("x"))], ALL), (&[("user", Some("x"))], NONE)], false)?;
        ask("one good, one bad", &[(&[("user", Some("x"))], ALL), (&[("user", Some(""))], ALL)], false)?;
        described(script, version)?;
        let mut ask = |step: &str, changes: &[(Entity, Ops)]| script.ask(step, API, version, |_| alter(changes, false));
        for entity in entities {
            ask(&format!("{entity:?} taken back"), &[(entity, NONE)])?;
        }
        for name in ["x", "nobody"] {
            ask(
                &format!("{name} taken back"),
                &[(&[("user", Some(name))], NONE), (&[("client-id", Some(name))], NONE)],
            )?;
        }
        ask(
            "addresses taken back",
            &[(&[("ip", Some("10.0.0.1"))], NONE), (&[("ip", Some("10.0.0.9"))], NONE), (&[("ip", None)], NONE)],
        )?;
        described(script, version)?;
        thread::sleep(CHANGED);
    }
    Ok(())
}

/// KIP-599: what goes beyond `controller_mutation_rate` is refused by newer versions, served by older ones.
pub fn mutations(script: &mut Script) -> Result<()> {
    const USER: Entity = &[("user", Some("ANONYMOUS"))];
    // The bucket is overdrawn by what is made first, and stays so for as long as the script takes.
    const RATE: Ops = &[("controller_mutation_rate", Some(0.01))];
    for version in script.versions(ApiKey::CreateTopics) {
        let name = |what: &str| format!("mutations{version}-{what}");
        let [first, second, third, checked] =
            ["first", "second", "third", "checked"].map(|what| script.topic(&name(what)));
        script.ask("made before", ApiKey::CreateTopics, version, |_| {
            RequestKind::CreateTopics(create(vec![counted(&second, 1, 1)]))
        })?;
        script.ask("limited", ApiKey::AlterClientQuotas, 1, |_| alter(&[(USER, RATE)], false))?;
        thread::sleep(CHANGED);
        script.ask("any number passes once", ApiKey::CreateTopics, version, |_| {
            RequestKind::CreateTopics(create(vec![counted(&first, 5, 1)]))
        })?;
        // Who is throttled is not read from: the script is there again under another connection.
        script.reconnect();
        script.ask("then it is used up", ApiKey::CreateTopics, version, |_| {
            RequestKind::CreateTopics(create(vec![counted(&third, 1, 1), counted("", 1, 1), counted(&first, 1, 1)]))
        })?;
        script.reconnect();
        if version >= 1 {
            script.ask("validation is free", ApiKey::CreateTopics, version, |_| {
                RequestKind::CreateTopics(create(vec![counted(&checked, 1, 1)]).with_validate_only(true))
            })?;
        }
        script.reconnect();
        let of = |range: std::ops::RangeInclusive<i16>| version.min(*range.end());
        let grow = of(script.versions(ApiKey::CreatePartitions));
        script.ask("partitions", ApiKey::CreatePartitions, grow, |_| {
            let topics = [&second, "nowhere"]
                .map(|name| CreatePartitionsTopic::default().with_name(topic_name(name)).with_count(3));
            let request = CreatePartitionsRequest::default().with_topics(topics.to_vec());
            RequestKind::CreatePartitions(request.with_timeout_ms(10_000))
        })?;
        script.reconnect();
        let delete = of(script.versions(ApiKey::DeleteTopics));
        script.ask("deletion", ApiKey::DeleteTopics, delete, |_| {
            let request = DeleteTopicsRequest::default().with_timeout_ms(10_000);
            let names = [second.as_str(), "nowhere"];
            RequestKind::DeleteTopics(match delete {
                6.. => request.with_topics(
                    names.iter().map(|name| DeleteTopicState::default().with_name(Some(topic_name(name)))).collect(),
                ),
                _ => request.with_topic_names(names.iter().map(|name| topic_name(name)).collect()),
            })
        })?;
        script.reconnect();
        script.ask("free again", ApiKey::AlterClientQuotas, 1, |_| {
            alter(&[(USER, &[("controller_mutation_rate", None)])], false)
        })?;
        thread::sleep(CHANGED);
    }
    Ok(())
}
