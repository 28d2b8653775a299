//! From request to znodes to partitions, on one broker. Nodes and JSON as a live 3.9.1 writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::admin::NewTopic;
use super::decide::{AfterRead, Event, Written};
use super::election::Choice;
use super::fence::{Fence, Lost, brokers_version_of};
use super::message::{ControlBody, ControlRequest};
use super::state::State;
use super::testing::{Node, tree};
use crate::cluster::{Broker, Registrar};
use crate::config::BrokerConfig;
use crate::metastore::CreateMode;
use crate::metastore::schema::{ConfigEntity, PartitionState};
use crate::quota::Mutations;
use crate::replication::partition::{PartitionFetch, Reader};
use crate::storage::log::AppendParams;
use crate::storage::testing::{batch, client};
use crate::types::{Acks, BrokerId, IsolationLevel, LeaderEpoch, Offset, TopicPartition};
use crate::wire::error_code::ErrorCode;

const CONSUMER: Reader = Reader::Consumer(IsolationLevel::ReadUncommitted);

fn produce() -> AppendParams {
    client(-1, 2_000)
}

fn fetch(offset: i64) -> PartitionFetch {
    PartitionFetch {
        reader: CONSUMER,
        offset: Offset(offset),
        current_leader_epoch: LeaderEpoch::NONE,
        last_fetched_epoch: LeaderEpoch::NONE,
        log_start_offset: Offset::NONE,
        max_bytes: 1 << 20,
        min_one_batch: true,
        only_leader: true,
    }
}

#[tokio::test(start_paused = true)]
async fn a_fresh_broker_is_registered_and_elected() {
    let node = Node::fresh().await;
    assert!(node.admin.is_controller());
    assert_eq!(node.node("/controller_epoch").await, Some(("1".into(), 1, 0)));
    let held = r#"{"version":2,"brokerid":1,"timestamp":"1000","kraftControllerEpoch":-1}"#;
    assert_eq!(node.node("/controller").await, Some((held.into(), 0, 0)));
    let features = r#"{"features":{},"version":2,"status":1}"#;
    assert_eq!(node.node("/feature").await, Some((features.into(), 0, 0)));
    let snapshot = node.cluster.load();
    assert_eq!(snapshot.controller, Some(BrokerId(1)));
    assert_eq!(snapshot.brokers[&BrokerId(1)].epoch, node.receiver.broker_epoch());
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_starts_has_no_ear_for_a_controller_that_was_replaced() {
    let (tree, dir) = (tree(), tempfile::tempdir().unwrap());
    let other = tree.session();
    other.create("/controller_epoch", Some("5".into()), CreateMode::Persistent).await.unwrap();
    let held = r#"{"version":2,"brokerid":2,"timestamp":"1","kraftControllerEpoch":-1}"#;
    other.create("/controller", Some(held.into()), CreateMode::Ephemeral).await.unwrap();
    let node = Node::begin(1, tree, dir.path(), BrokerConfig::default()).await;

    let asked = |controller_epoch| ControlRequest {
        controller: BrokerId(2),
        controller_epoch,
        broker_epoch: node.receiver.broker_epoch(),
        body: ControlBody::UpdateMetadata(Arc::default()),
    };
    assert_eq!(node.receiver.receive(asked(4)).await.error, ErrorCode::StaleControllerEpoch);
    assert_eq!(node.receiver.receive(asked(5)).await.error, ErrorCode::None);
}

#[tokio::test(start_paused = true)]
async fn a_topic_lives_from_creation_to_deletion() {
    let node = Node::fresh().await;
    let created = node.create("t1", 2, &[("retention.ms", "3600000")]).await;

    let topic = format!(
        r#"{{"partitions":{{"0":[1],"1":[1]}},"topic_id":"{}","adding_replicas":{{}},"removing_replicas":{{}},"version":3}}"#,
        created.id
    );
    assert_eq!(node.node("/brokers/topics/t1").await, Some((topic, 0, 1)));
    assert_eq!(node.node("/brokers/topics/t1/partitions").await, Some((String::new(), 0, 2)));
    assert_eq!(node.node("/brokers/topics/t1/partitions/1").await, Some((String::new(), 0, 1)));
    let state = r#"{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}"#;
    assert_eq!(node.node("/brokers/topics/t1/partitions/1/state").await, Some((state.into(), 0, 0)));
    let config = r#"{"version":1,"config":{"retention.ms":"3600000"}}"#;
    assert_eq!(node.node("/config/topics/t1").await, Some((config.into(), 0, 0)));
    assert_eq!(node.eyes.children("/config/changes").await.unwrap(), Vec::<String>::new());

    let partition = node.table.get("t1", 1).unwrap();
    assert_eq!((partition.is_leader(), partition.isr()), (true, vec![BrokerId(1)]));
    assert_eq!(partition.topic_id(), created.id);
    assert_eq!(partition.log().unwrap().config().retention_ms, 3_600_000, "made with its own configuration");
    let append = partition.append_to_leader(&mut batch(3), Acks::All, produce()).unwrap();
    assert_eq!((append.info.first_offset, append.committed_at), (Offset(0), None), "committed by the append itself");
    let read = partition.read(fetch(0)).unwrap();
    assert_eq!((read.offsets.high_watermark, read.offsets.log_end), (Offset(3), Offset(3)));
    assert_eq!(read.slice.map(|slice| slice.len), Some(batch(3).len()));

    node.admin.delete_topic("t1", &mut Mutations::unlimited()).await.unwrap();
    assert!(node.admin.wait_until_gone("t1", created.id, 20_000).await);
    let gone = async {
        while node.node("/admin/delete_topics/t1").await.is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), gone).await.unwrap();
    assert_eq!(node.node("/brokers/topics/t1").await, None);
    assert_eq!(node.node("/config/topics/t1").await, None);
    assert!(node.table.get("t1", 1).is_none());
    assert!(!partition.is_leader());
    assert!(node.table.logs().get(partition.topic_partition()).is_none());
    assert!(!node.configs.load().topics.contains_key("t1"));

    // The same name is another topic.
    let again = node.create("t1", 1, &[]).await;
    assert_ne!(again.id, created.id);
    assert!(node.admin.wait_until_gone("t1", created.id, 1).await, "the deleted one stays gone");
    assert!(!node.admin.wait_until_gone("t1", again.id, 100).await);
    assert_eq!(node.table.get("t1", 0).unwrap().log().unwrap().offsets().log_end, Offset(0));
}

/// As controllers before 2.8 and tools that write to ZooKeeper make one. Of a client it was reported that it never reads a
/// topic without an id.
#[tokio::test(start_paused = true)]
async fn a_topic_that_was_made_without_an_id_is_given_one() {
    let node = Node::fresh().await;
    for (name, data) in [
        ("t1", r#"{"version":1,"partitions":{"0":[1]}}"#),
        ("t2", r#"{"version":2,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{}}"#),
    ] {
        let path = format!("/brokers/topics/{name}");
        node.eyes.create(&path, Some(data.into()), CreateMode::Persistent).await.unwrap();
        assert!(node.admin.wait_for_leaders(name, 1, 20_000).await);
        let id = node.table.get(name, 0).unwrap().topic_id();
        assert!(!id.is_zero());
        let written = format!(
            r#"{{"partitions":{{"0":[1]}},"topic_id":"{id}","adding_replicas":{{}},"removing_replicas":{{}},"version":3}}"#
        );
        assert_eq!(node.node(&path).await.map(|(data, version, _)| (data, version)), Some((written, 1)));
        assert_eq!(node.cluster.load().topic_names.get(&id).map(|name| &**name), Some(name));
    }
}

/// Numbers of the transactions that made `paths`; each is one fsync of the store.
async fn made_by(node: &Node, paths: &[String]) -> BTreeSet<i64> {
    let mut made = BTreeSet::new();
    for path in paths {
        made.insert(node.eyes.exists(path).await.unwrap().unwrap_or_else(|| panic!("no {path}")).czxid);
    }
    made
}

#[tokio::test(start_paused = true)]
async fn a_topic_of_many_partitions_costs_two_transactions_and_two_to_delete() {
    let node = Node::fresh().await;
    let created = node.create("t", 100, &[]).await;
    let topic = ["/config/topics/t", "/brokers/topics/t"].map(String::from);
    let nodes =
        |p: i32| [format!("/brokers/topics/t/partitions/{p}"), format!("/brokers/topics/t/partitions/{p}/state")];
    let partitions: Vec<String> = (0..100).flat_map(nodes).chain(["/brokers/topics/t/partitions".into()]).collect();
    assert_eq!(made_by(&node, &topic).await.len(), 1);
    assert_eq!(made_by(&node, &partitions).await.len(), 1);

    let now = async || node.eyes.create("/now-", None, CreateMode::PersistentSequential).await.unwrap();
    let before = made_by(&node, &[now().await]).await;
    node.admin.delete_topic("t", &mut Mutations::unlimited()).await.unwrap();
    assert!(node.admin.wait_until_gone("t", created.id, 20_000).await);
    let gone = async {
        while node.node("/admin/delete_topics/t").await.is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), gone).await.unwrap();
    assert_eq!(node.node("/brokers/topics/t").await, None);
    let after = made_by(&node, &[now().await]).await;
    // The request, the leaders' end, the deletion, and the node that tells.
    assert_eq!(after.first().unwrap() - before.first().unwrap(), 4);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_there_already_do_not_keep_a_topic_from_being_made() {
    let node = Node::fresh().await;
    // As a creation leaves them that a crash cut short, or an earlier topic of the name.
    let data = Some(bytes::Bytes::from_static(br#"{"version":1,"config":{"retention.ms":"5"}}"#));
    node.eyes.create("/config/topics/t", data, CreateMode::Persistent).await.unwrap();
    node.create("t", 2, &[("retention.ms", "3600000")]).await;
    let config = r#"{"version":1,"config":{"retention.ms":"3600000"}}"#;
    assert_eq!(node.node("/config/topics/t").await, Some((config.into(), 1, 0)));
    node.eyes.create("/brokers/topics/t/partitions/3", None, CreateMode::Persistent).await.unwrap();
    node.admin.create_partitions("t", 5, None, false, &mut Mutations::unlimited()).await.unwrap();
    assert!(node.admin.wait_for_leaders("t", 5, 20_000).await);
}

#[tokio::test(start_paused = true)]
async fn brokers_are_told_in_kafkas_order() {
    let node = Node::fresh().await;
    let created = node.create("t", 1, &[]).await;
    node.admin.delete_topic("t", &mut Mutations::unlimited()).await.unwrap();
    assert!(node.admin.wait_until_gone("t", created.id, 20_000).await);
    let deleted = async {
        while node.table.get("t", 0).is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), deleted).await.unwrap();
    let sent: Vec<String> = node
        .sent
        .lock()
        .iter()
        .map(|request| match &request.body {
            ControlBody::LeaderAndIsr(update) => format!("LeaderAndIsr new={}", update.partitions[0].is_new),
            ControlBody::UpdateMetadata(update) => match update.partitions.first() {
                None => "UpdateMetadata brokers".into(),
                Some(partition) => format!("UpdateMetadata leader={}", partition.meta.leader),
            },
            ControlBody::StopReplica(stops) => {
                format!("StopReplica delete={} epoch={}", stops[0].delete, stops[0].leader_epoch)
            }
        })
        .collect();
    assert_eq!(
        sent,
        [
            "UpdateMetadata brokers",
            "LeaderAndIsr new=true",
            "UpdateMetadata leader=1",
            "UpdateMetadata leader=-2",
            "StopReplica delete=false epoch=-2",
            "StopReplica delete=true epoch=-2",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn partitions_are_added_by_writing_the_topic() {
    let node = Node::fresh().await;
    let created = node.create("t", 1, &[]).await;
    let code = |result: Result<(), super::admin::AdminError>| result.map_err(|error| error.code).err();
    assert_eq!(
        code(node.admin.create_partitions("t", 1, None, false, &mut Mutations::unlimited()).await),
        Some(ErrorCode::InvalidPartitions)
    );
    assert_eq!(
        code(node.admin.create_partitions("t", 0, None, false, &mut Mutations::unlimited()).await),
        Some(ErrorCode::InvalidPartitions)
    );
    assert_eq!(
        code(node.admin.create_partitions("x", 3, None, false, &mut Mutations::unlimited()).await),
        Some(ErrorCode::UnknownTopicOrPartition)
    );
    for bad in [vec![vec![1]], vec![vec![1], vec![7]], vec![vec![1], vec![1, 1]], vec![vec![1], vec![]]] {
        let bad = bad.into_iter().map(|ids: Vec<i32>| ids.into_iter().map(BrokerId).collect()).collect();
        assert_eq!(
            code(node.admin.create_partitions("t", 3, Some(bad), false, &mut Mutations::unlimited()).await),
            Some(ErrorCode::InvalidReplicaAssignment)
        );
    }
    node.admin.create_partitions("t", 3, None, true, &mut Mutations::unlimited()).await.unwrap();
    assert_eq!(node.node("/brokers/topics/t").await.unwrap().1, 0, "validate_only writes nothing");

    node.admin.create_partitions("t", 3, None, false, &mut Mutations::unlimited()).await.unwrap();
    assert!(node.admin.wait_for_leaders("t", 3, 20_000).await);
    let topic = format!(
        r#"{{"partitions":{{"0":[1],"1":[1],"2":[1]}},"topic_id":"{}","adding_replicas":{{}},"removing_replicas":{{}},"version":3}}"#,
        created.id
    );
    assert_eq!(node.node("/brokers/topics/t").await, Some((topic, 1, 1)));
    assert!(node.table.get("t", 2).unwrap().is_leader());
}

#[tokio::test(start_paused = true)]
async fn a_changed_configuration_reaches_the_log() {
    let node = Node::fresh().await;
    node.create("t", 1, &[]).await;
    let log = node.table.get("t", 0).unwrap().log().unwrap();
    node.admin.set_topic_configs("t", [("segment.bytes".into(), "2048".into())].into()).await.unwrap();
    let applied = async {
        while log.config().segment_bytes != 2048 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), applied).await.unwrap();
    let config = r#"{"version":1,"config":{"segment.bytes":"2048"}}"#;
    assert_eq!(node.node("/config/topics/t").await, Some((config.into(), 1, 0)));
    let change = r#"{"version":2,"entity_path":"topics/t"}"#;
    assert_eq!(node.node("/config/changes/config_change_0000000000").await, Some((change.into(), 0, 0)));
    assert_eq!(node.configs.load().topics["t"]["segment.bytes"], "2048");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_created_is_refused_in_kafkas_order() {
    let node = Node::fresh().await;
    node.create("there", 1, &[]).await;
    node.create("a.b", 1, &[]).await;
    let topic = |name: &str, partitions: i32, factor: i16| NewTopic {
        name: name.into(),
        num_partitions: partitions,
        replication_factor: factor,
        ..NewTopic::default()
    };
    let assigned = |assignments: &[(i32, &[i32])]| NewTopic {
        assignments: assignments
            .iter()
            .map(|(index, ids)| (*index, ids.iter().copied().map(BrokerId).collect()))
            .collect(),
        ..topic("n", -1, -1)
    };
    let configured = |name: &str, partitions: i32, key: &str, value: Option<&str>| NewTopic {
        configs: vec![(key.into(), value.map(Into::into))],
        ..topic(name, partitions, 1)
    };
    let cases = [
        (topic("there", 0, 9), ErrorCode::TopicAlreadyExists),
        (configured("n", 0, "retention.ms", None), ErrorCode::InvalidConfig),
        (NewTopic { num_partitions: 1, ..assigned(&[(0, &[1])]) }, ErrorCode::InvalidRequest),
        (topic("/", 0, 0), ErrorCode::InvalidPartitions),
        (topic("/", -2, 1), ErrorCode::InvalidPartitions),
        (topic("/", 1, 0), ErrorCode::InvalidReplicationFactor),
        (topic("/", 1, 9), ErrorCode::InvalidReplicationFactor),
        (topic("/", 1, 1), ErrorCode::InvalidTopicException),
        (topic("a_b", 1, 1), ErrorCode::InvalidTopicException),
        (assigned(&[(0, &[1]), (2, &[1])]), ErrorCode::InvalidReplicaAssignment),
        (assigned(&[(0, &[1]), (1, &[1, 2])]), ErrorCode::InvalidReplicaAssignment),
        (assigned(&[(0, &[1, 1])]), ErrorCode::InvalidReplicaAssignment),
        (configured("n", 1, "no.such.key", Some("1")), ErrorCode::InvalidConfig),
        (configured("n", 1, "retention.ms", Some("soon")), ErrorCode::InvalidConfig),
    ];
    for (asked, code) in cases {
        let described = format!("{asked:?}");
        assert_eq!(
            node.admin.create_topic(asked, false, &mut Mutations::unlimited()).await.unwrap_err().code,
            code,
            "{described}"
        );
    }
    let created = node.admin.create_topic(topic("n", -1, -1), true, &mut Mutations::unlimited()).await.unwrap();
    assert_eq!((created.num_partitions, created.replication_factor, created.id.is_zero()), (1, 1, true));
    assert_eq!(node.node("/config/topics/n").await, None, "validate_only writes nothing");
}

#[tokio::test(start_paused = true)]
async fn a_new_topic_is_checked_against_the_brokers_dynamic_defaults() {
    let node = Node::fresh().await;
    let topic = || NewTopic {
        name: "t".into(),
        num_partitions: 1,
        replication_factor: 1,
        configs: vec![("max.compaction.lag.ms".into(), Some("500".into()))],
        ..NewTopic::default()
    };
    assert!(node.admin.create_topic(topic(), true, &mut Mutations::unlimited()).await.is_ok());
    let lag = BTreeMap::from([("log.cleaner.min.compaction.lag.ms".to_owned(), "1000".to_owned())]);
    node.configs.update(|configs| configs.broker_default = Arc::new(lag));
    let refused = node.admin.create_topic(topic(), true, &mut Mutations::unlimited()).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidConfig, "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_replica_on_an_unknown_broker_alone_waits_for_it() {
    let node = Node::fresh().await;
    let topic = NewTopic {
        name: "t".into(),
        num_partitions: -1,
        replication_factor: -1,
        assignments: [(0, vec![BrokerId(9)])].into(),
        configs: Vec::new(),
    };
    node.admin.create_topic(topic, false, &mut Mutations::unlimited()).await.unwrap();
    assert!(!node.admin.wait_for_leaders("t", 1, 100).await);
    assert_eq!(node.node("/brokers/topics/t/partitions").await, None);
}

#[tokio::test(start_paused = true)]
async fn an_expired_session_registers_and_is_elected_again() {
    let node = Node::fresh().await;
    node.create("t", 1, &[]).await;
    let (session, epoch) = (node.session.store().session_id(), node.receiver.broker_epoch());
    node.tree.expire(session).await.unwrap();
    node.until(|snapshot| snapshot.brokers.values().any(|broker| broker.epoch > epoch)).await;
    assert!(node.receiver.broker_epoch() > epoch);
    assert_ne!(node.session.store().session_id(), session);
    assert_eq!(node.node("/controller_epoch").await, Some(("2".into(), 2, 0)));
    assert!(node.table.get("t", 0).unwrap().is_leader(), "served on all the while");
    node.create("u", 1, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_controller_node_forces_an_election() {
    let node = Node::fresh().await;
    node.eyes.delete("/controller", -1).await.unwrap();
    node.create_when_elected("t").await;
    assert_eq!(node.node("/controller_epoch").await, Some(("2".into(), 2, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_restart_finds_its_topics_and_bumps_no_leader_epoch() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree();
    let first = Node::start(1, tree.clone(), dir.path(), BrokerConfig::default()).await;
    first.create("t", 1, &[]).await;
    first.table.get("t", 0).unwrap().append_to_leader(&mut batch(2), Acks::All, produce()).unwrap();
    first.controller.stop();
    first.table.logs().close();
    tree.expire(first.session.store().session_id()).await.unwrap();
    drop(first);

    let second = Node::start(1, tree, dir.path(), BrokerConfig::default()).await;
    assert!(second.admin.wait_for_leaders("t", 1, 20_000).await);
    let partition = second.table.get("t", 0).unwrap();
    assert_eq!(partition.leader_epoch(), LeaderEpoch(0));
    assert_eq!(partition.log().unwrap().offsets().high_watermark, Offset(2));
    let state = r#"{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}"#;
    assert_eq!(second.node("/brokers/topics/t/partitions/0/state").await, Some((state.into(), 0, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_delete_request_for_no_topic_is_removed() {
    let node = Node::fresh().await;
    node.eyes.create("/admin/delete_topics/x", None, crate::metastore::CreateMode::Persistent).await.unwrap();
    let gone = async {
        while node.node("/admin/delete_topics/x").await.is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), gone).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_replaced_controller_changes_nothing() {
    let node = Node::fresh().await;
    let fence = Fence { store: Arc::clone(&node.eyes), epoch_version: 0, brokers_version: -1 };
    assert_eq!(fence.delete("/brokers/topics".into()).await, Err(Lost::Moved));
}

#[tokio::test(start_paused = true)]
async fn no_state_is_written_that_counts_on_a_member_that_came_back_unseen() {
    let node = Node::fresh().await;
    node.create("t", 1, &[]).await;
    let registers = async |id: i32, former: Option<i64>| {
        let session = node.tree.session();
        let registrar = Registrar {
            broker: BrokerId(id),
            advertised: Vec::new(),
            rack: None,
            session_timeout: Duration::from_secs(18),
            notes: None,
        };
        let epoch = registrar.register(&*session, 0, former).await.unwrap();
        (session, epoch)
    };
    let (first, epoch) = registers(2, None).await;
    let (_, version, _) = node.node("/controller_epoch").await.unwrap();
    let brokers_version = brokers_version_of(&*node.eyes).await.unwrap();
    let fence = Fence { store: Arc::clone(&node.eyes), epoch_version: version, brokers_version };
    let broker = |id: i32, epoch| Broker { id: BrokerId(id), rack: None, endpoints: BTreeMap::new(), epoch };
    let live = [(1, node.receiver.broker_epoch()), (2, epoch)];
    let mut known = State::new(BrokerId(1), 1, true);
    known.live = live.map(|(id, epoch)| (BrokerId(id), broker(id, epoch))).into();
    let writes = async |isr: &[i32], then: &AfterRead| {
        let tp = TopicPartition::new("t", 0);
        let read = fence.read_states(vec![tp.clone()]).await.unwrap();
        let now = read[0].1.clone().unwrap();
        let state = PartitionState { isr: isr.iter().copied().map(BrokerId).collect(), ..now.state };
        match fence.write_states(vec![(tp, state, now.partition_epoch)], then.clone(), &known).await.unwrap() {
            Event::StatesWritten { written, .. } => written[0].2,
            event => panic!("{event:?}"),
        }
    };
    let elect = AfterRead::Elect(Choice::Preferred, None);
    let is_done = |written| matches!(written, Written::Done { .. });
    assert!(is_done(writes(&[1, 2], &elect).await));
    let (_third, _) = registers(3, None).await;
    assert!(is_done(writes(&[1, 2], &elect).await), "nobody counts on the one that started");
    let (_second, _) = registers(2, Some(first.session_id())).await;
    assert_eq!(writes(&[1, 2], &elect).await, Written::Unseen);
    assert_eq!(writes(&[2, 3], &AfterRead::RemoveFromIsr(BrokerId(1))).await, Written::Unseen);
    assert_eq!(writes(&[2], &elect).await, Written::Unseen);
    assert!(is_done(writes(&[1], &elect).await));
    assert!(is_done(writes(&[2], &AfterRead::RemoveFromIsr(BrokerId(1))).await), "nobody else is left to count on");
}

impl Node {
    async fn create_when_elected(&self, name: &str) {
        let elected = async {
            while self.node("/controller_epoch").await.is_some_and(|(epoch, ..)| epoch == "1")
                || self.node("/controller").await.is_none()
                || !self.admin.is_controller()
            {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), elected).await.unwrap();
        self.create(name, 1, &[]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn quotas_are_stored_as_kafka_does_and_leave_no_node_behind() {
    let node = Node::fresh().await;
    let set = async |entity: &str, configs: &[(&str, &str)]| {
        let configs = configs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        node.admin.set_quota_configs(&ConfigEntity::parse(entity).unwrap(), configs).await.unwrap();
    };
    let there = async |path: &str| node.node(path).await.is_some();
    let limit = [("producer_byte_rate", "1000")];
    set("users/a%20b/clients/c", &limit).await;
    let json = r#"{"version":1,"config":{"producer_byte_rate":"1000"}}"#;
    assert_eq!(node.node("/config/users/a%20b/clients/c").await, Some((json.into(), 0, 0)));
    let change = r#"{"version":2,"entity_path":"users/a%20b/clients/c"}"#;
    assert_eq!(node.node("/config/changes/config_change_0000000000").await, Some((change.into(), 0, 0)));

    set("users/a%20b/clients/d", &limit).await;
    set("users/a%20b/clients/c", &[]).await;
    assert!(!there("/config/users/a%20b/clients/c").await);
    assert!(there("/config/users/a%20b/clients/d").await, "another client of that user is not touched");
    set("users/a%20b", &limit).await;
    set("users/a%20b", &[]).await;
    assert!(
        there("/config/users/a%20b/clients/d").await,
        "a user without quotas of its own stays while it has clients"
    );
    set("users/a%20b/clients/d", &[]).await;
    assert!(!there("/config/users/a%20b").await, "with the last client goes the user");

    set("users/u", &limit).await;
    set("users/u/clients/c", &limit).await;
    set("users/u/clients/c", &[]).await;
    assert!(!there("/config/users/u/clients").await);
    assert!(there("/config/users/u").await, "a user with quotas stays");
    for entity in ["users/u", "clients/c", "ips/10.0.0.1"] {
        set(entity, &limit).await;
        set(entity, &[]).await;
        set(entity, &[]).await;
        assert!(!there(&format!("/config/{entity}")).await);
    }
    assert!(node.admin.quota_configs().await.unwrap().is_empty());
}
