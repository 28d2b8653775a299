use std::collections::BTreeMap;
use std::fmt::Debug;

use bytes::Bytes;

use crate::config::{Listener, SecurityProtocol};
use crate::types::{BrokerId, LeaderEpoch, TopicPartition};

use super::paths::*;
use super::*;

/// What a live 3.9.1 wrote decodes to `value` and is written again byte for byte.
fn same<T: Debug + PartialEq>(
    wrote: &str,
    value: T,
    decode: impl Fn(&str, &[u8]) -> Result<T, Malformed>,
    encode: impl Fn(&T) -> Bytes,
) {
    assert_eq!(decode("/n", wrote.as_bytes()).as_ref(), Ok(&value), "{wrote}");
    assert_eq!(String::from_utf8(encode(&value).to_vec()).unwrap(), wrote);
}

fn ids<const N: usize>(ids: [i32; N]) -> Vec<BrokerId> {
    ids.map(BrokerId).to_vec()
}

fn plaintext(host: &str, port: u16) -> Listener {
    Listener { name: "PLAINTEXT".into(), protocol: SecurityProtocol::Plaintext, host: host.into(), port }
}

#[test]
fn cluster_nodes_are_kafkas_bytes() {
    same(
        r#"{"version":"1","id":"rcw7IgMRTqWFyZNUcajExA"}"#,
        ClusterId("rcw7IgMRTqWFyZNUcajExA".into()),
        ClusterId::decode,
        ClusterId::encode,
    );
    same(
        r#"{"version":2,"brokerid":2,"timestamp":"1795972425282","kraftControllerEpoch":-1}"#,
        Controller { broker_id: BrokerId(2), timestamp_ms: 1795972425282, kraft_controller_epoch: -1 },
        Controller::decode,
        Controller::encode,
    );
    same("7", ControllerEpoch(7), ControllerEpoch::decode, |epoch| epoch.encode());
    same(
        r#"{"version":1,"broker":3,"block_start":"1000","block_end":"1999"}"#,
        Some(ProducerIdBlock { broker_id: BrokerId(3), first: 1000, last: 1999 }),
        ProducerIdBlock::decode,
        |block| block.unwrap().encode(),
    );
    assert_eq!(ProducerIdBlock::decode(PRODUCER_ID_BLOCK, b""), Ok(None));
    same(
        r#"{"features":{},"version":2,"status":1}"#,
        Features { enabled: true, finalized: BTreeMap::new() },
        Features::decode,
        Features::encode,
    );
    let disabled = Features::decode("/feature", br#"{"features":{},"version":1,"status":0}"#).unwrap();
    assert!(!disabled.enabled);
    let old = br#"{"status":1,"version":1,"features":{"f":{"min_version_level":1,"max_version_level":3}}}"#;
    assert_eq!(Features::decode("/feature", old).unwrap().finalized, BTreeMap::from([("f".into(), 3)]));
    let first = Controller::decode("/controller", br#"{"version":1,"brokerid":4,"timestamp":"5"}"#).unwrap();
    assert_eq!(first, Controller { broker_id: BrokerId(4), timestamp_ms: 5, kraft_controller_epoch: -1 });
}

#[test]
fn a_registration_is_kafkas_bytes() {
    let registration = |rack: Option<&str>| Registration {
        listeners: vec![plaintext("127.0.0.1", 24001)],
        rack: rack.map(str::to_owned),
        timestamp_ms: 1795972429078,
        jmx_port: -1,
        features: BTreeMap::new(),
    };
    same(
        r#"{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:24001"],"rack":"dc1","jmx_port":-1,"port":24001,"host":"127.0.0.1","version":5,"timestamp":"1795972429078"}"#,
        registration(Some("dc1")),
        Registration::decode,
        Registration::encode,
    );
    let version_4 = br#"{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:24001"],"jmx_port":-1,"port":24001,"host":"127.0.0.1","version":4,"timestamp":"1795972429078"}"#;
    assert_eq!(Registration::decode("/n", version_4), Ok(registration(None)));
    let version_2 = br#"{"version":2,"jmx_port":-1,"timestamp":"1795972429078","host":"127.0.0.1","port":24001,"endpoints":["PLAINTEXT://127.0.0.1:24001"],"new":[1]}"#;
    assert_eq!(Registration::decode("/n", version_2), Ok(registration(None)));
    let version_1 = br#"{"version":1,"jmx_port":-1,"timestamp":"1795972429078","host":"127.0.0.1","port":24001}"#;
    assert_eq!(Registration::decode("/n", version_1), Ok(registration(None)));
}

#[test]
fn a_registration_without_plaintext_has_no_host() {
    let tls = Listener { name: "REPL".into(), protocol: SecurityProtocol::Ssl, host: "::1".into(), port: 9093 };
    let features = BTreeMap::from([("f".to_owned(), FeatureRange { min_version: 1, max_version: 2 })]);
    let registration = Registration { listeners: vec![tls], rack: None, timestamp_ms: 1, jmx_port: 9999, features };
    same(
        r#"{"features":{"f":{"min_version":1,"max_version":2}},"listener_security_protocol_map":{"REPL":"SSL"},"endpoints":["REPL://[::1]:9093"],"jmx_port":9999,"port":-1,"host":null,"version":5,"timestamp":"1"}"#,
        registration,
        Registration::decode,
        Registration::encode,
    );
}

#[test]
fn topic_nodes_are_kafkas_bytes() {
    let partitions = [ids([2, 1, 3]), ids([1, 3, 2]), ids([3, 2, 1])];
    same(
        r#"{"partitions":{"0":[2,1,3],"1":[1,3,2],"2":[3,2,1]},"topic_id":"UG0qwWnhRQm27MlSR4Qc4g","adding_replicas":{},"removing_replicas":{},"version":3}"#,
        TopicAssignment {
            id: "UG0qwWnhRQm27MlSR4Qc4g".parse().ok(),
            partitions: (0..).zip(partitions.map(ReplicaAssignment::from)).collect(),
        },
        TopicAssignment::decode,
        TopicAssignment::encode,
    );
    let moving = ReplicaAssignment { replicas: ids([1, 3, 2]), adding: ids([3]), removing: ids([2]) };
    same(
        r#"{"partitions":{"0":[1,3,2]},"topic_id":"AkrqQw-XREqXV12P3Aa5CQ","adding_replicas":{"0":[3]},"removing_replicas":{"0":[2]},"version":3}"#,
        TopicAssignment { id: "AkrqQw-XREqXV12P3Aa5CQ".parse().ok(), partitions: BTreeMap::from([(0, moving)]) },
        TopicAssignment::decode,
        TopicAssignment::encode,
    );
    let one = TopicAssignment { id: None, partitions: BTreeMap::from([(0, ids([2, 1]).into())]) };
    same(
        r#"{"partitions":{"0":[2,1]},"adding_replicas":{},"removing_replicas":{},"version":3}"#,
        one.clone(),
        TopicAssignment::decode,
        TopicAssignment::encode,
    );
    for old in [
        r#"{"version":1,"partitions":{"0":[2,1]}}"#,
        r#"{"version":2,"partitions":{"0":[2,1]},"adding_replicas":{},"removing_replicas":{}}"#,
    ] {
        assert_eq!(TopicAssignment::decode("/n", old.as_bytes()).as_ref(), Ok(&one));
    }
}

#[test]
fn partition_states_are_kafkas_bytes() {
    let state = |leader, epoch, isr: &[i32], recovering| PartitionState {
        leader: BrokerId(leader),
        leader_epoch: LeaderEpoch(epoch),
        controller_epoch: 2,
        isr: isr.iter().copied().map(BrokerId).collect(),
        recovering,
    };
    for (wrote, value) in [
        (
            r#"{"controller_epoch":2,"leader":-1,"version":1,"leader_epoch":5,"isr":[2,3]}"#,
            state(-1, 5, &[2, 3], false),
        ),
        (
            r#"{"controller_epoch":2,"leader":1,"version":1,"leader_recovery_state":1,"leader_epoch":3,"isr":[1]}"#,
            state(1, 3, &[1], true),
        ),
    ] {
        same(wrote, value, PartitionState::decode, PartitionState::encode);
    }
}

#[test]
fn config_nodes_are_kafkas_bytes() {
    let config = |entries: &[(&str, &str)]| {
        EntityConfig(entries.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
    };
    for (wrote, value) in [
        (
            r#"{"version":1,"config":{"min.insync.replicas":"1","retention.ms":"3600000"}}"#,
            config(&[("retention.ms", "3600000"), ("min.insync.replicas", "1")]),
        ),
        (r#"{"version":1,"config":{}}"#, config(&[])),
    ] {
        same(wrote, value, EntityConfig::decode, EntityConfig::encode);
    }
    assert_eq!(EntityConfig::decode("/config/users/u1", b""), Ok(config(&[])));

    let named = |name: &str| EntityName::Named(name.into());
    for (path, entity) in [
        ("topics/t1", ConfigEntity::Topic("t1".into())),
        ("brokers/1", ConfigEntity::Broker(Some(BrokerId(1)))),
        ("brokers/<default>", ConfigEntity::Broker(None)),
        ("clients/c-1", ConfigEntity::Client(named("c-1"))),
        ("users/u1/clients/c1", ConfigEntity::UserClient(named("u1"), named("c1"))),
        ("users/<default>/clients/<default>", ConfigEntity::UserClient(EntityName::Default, EntityName::Default)),
        ("users/u%20x%2A", ConfigEntity::User(named("u x*"))),
        ("ips/127.0.0.1", ConfigEntity::Ip(named("127.0.0.1"))),
        ("ips/::1", ConfigEntity::Ip(named("::1"))),
    ] {
        let wrote = format!(r#"{{"version":2,"entity_path":"{path}"}}"#);
        same(&wrote, ConfigChange(entity.clone()), ConfigChange::decode, ConfigChange::encode);
        assert_eq!(entity.path(), format!("/config/{path}"));
    }
    let old = br#"{"version":1,"entity_type":"topics","entity_name":"t"}"#;
    assert_eq!(ConfigChange::decode("/n", old), Ok(ConfigChange(ConfigEntity::Topic("t".into()))));
    for bad in [
        r#"{"version":1,"entity_type":"users","entity_name":"t"}"#,
        r#"{"version":2,"entity_path":"nothing"}"#,
        r#"{"version":2,"entity_path":"brokers/x"}"#,
        r#"{"version":3,"entity_path":"topics/t"}"#,
    ] {
        assert!(ConfigChange::decode("/n", bad.as_bytes()).is_err(), "{bad}");
    }
}

#[test]
fn notifications_are_kafkas_bytes() {
    let v1_0 = TopicPartition::new("v1", 0);
    same(r#"{"version":1,"broker":1,"event":1}"#, LogDirEvent(BrokerId(1)), LogDirEvent::decode, |event| {
        event.encode()
    });
    same(
        r#"{"version":1,"partitions":[{"topic":"v1","partition":0}]}"#,
        PartitionList(vec![v1_0.clone()]),
        PartitionList::decode,
        PartitionList::encode,
    );
    same(
        r#"{"version":1,"partitions":[{"topic":"v1","partition":0,"replicas":[1,3]}]}"#,
        ReassignPartitions(vec![(v1_0, ids([1, 3]))]),
        ReassignPartitions::decode,
        ReassignPartitions::encode,
    );
}

#[test]
fn bad_json_names_the_path() {
    let error = PartitionState::decode("/brokers/topics/t/partitions/0/state", b"{").unwrap_err();
    assert!(error.to_string().starts_with("/brokers/topics/t/partitions/0/state holds no valid data: "), "{error}");
    for bad in ["", "null", "[]", "{\"version\":5}", "\u{0}", "{\"jmx_port\":-1,\"version\":0}"] {
        assert!(Registration::decode("/n", bad.as_bytes()).is_err(), "{bad}");
        assert!(TopicAssignment::decode("/n", bad.as_bytes()).is_err(), "{bad}");
        assert!(Controller::decode("/n", bad.as_bytes()).is_err(), "{bad}");
    }
    for endpoint in ["x", "A://b", "A://b:70000", "A://b:9092", "PLAINTEXT://h:-1"] {
        let json = format!(r#"{{"version":5,"jmx_port":-1,"endpoints":["{endpoint}"]}}"#);
        assert!(Registration::decode("/n", json.as_bytes()).is_err(), "{endpoint}");
    }
    for bad in ["", "x", "1.5", "99999999999", "\u{feff}1"] {
        assert!(ControllerEpoch::decode("/n", bad.as_bytes()).is_err(), "{bad}");
    }
    let id = br#"{"version":3,"partitions":{},"topic_id":"short"}"#;
    assert!(TopicAssignment::decode("/n", id).is_err());
}

#[test]
fn names_and_paths() {
    assert_eq!(partition_state("t", 3), "/brokers/topics/t/partitions/3/state");
    assert_eq!(broker(BrokerId(1)), "/brokers/ids/1");
    assert_eq!(new_config_change(), "/config/changes/config_change_");
    assert_eq!(sequence_number("config_change_0000000010", CONFIG_CHANGE_PREFIX), Some(10));
    for foreign in ["config_change_", "config_change_10", "config_change_000000001x", "isr_change_0000000001"] {
        assert_eq!(sequence_number(foreign, CONFIG_CHANGE_PREFIX), None, "{foreign}");
    }
    for (name, sanitized) in [("u x*", "u%20x%2A"), ("a.b-c_d", "a.b-c_d"), ("ü/~", "%C3%BC%2F%7E"), ("", "")] {
        assert_eq!(sanitize(name), sanitized);
        assert_eq!(desanitize(sanitized).as_deref(), Some(name));
    }
    for broken in ["%", "%4", "%zz", "%FF"] {
        assert_eq!(desanitize(broken), None, "{broken}");
    }
}
