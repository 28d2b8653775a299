//! What a real Kafka 3.9.1 left in ZooKeeper after each of a row of acts was recorded (`znodes/`); the same acts here leave
//! the same.
//!
//! Not played: 06, ACLs, which have no authorizer here; 07, internal topics of clients, whose placement is drawn by lot; 23b,
//! what other tests had left; 31, `inter.broker.protocol.version` 2.6, which is refused at start.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use kafka_protocol::messages::{ApiKey, RequestKind, ResponseKind};

use super::cluster::admin;
use super::load::{numbered, offset_of};
use crate::broker::On;
use crate::cluster::Cluster;
use crate::lane::{Run, skip};
use crate::raw::Connection;
use crate::records::NONE;
use crate::twin::requests::produce;
use crate::wait::until;
use crate::znodes::{Recorded, ZooKeeper};

/// The first becomes the controller.
const START: [i32; 3] = [2, 1, 3];
/// A follower that stands still is out of the ISR well before its session ends, and who is killed is given up with its session,
/// as by Kafka.
const SETTINGS: &[(&str, &str)] = &[
    ("broker.rack", "dc1"),
    ("klamm.fast.failover.enable", "false"),
    ("zookeeper.session.timeout.ms", "15000"),
    ("replica.lag.time.max.ms", "3000"),
    ("auto.create.topics.enable", "false"),
    ("auto.leader.rebalance.enable", "false"),
    ("controlled.shutdown.retry.backoff.ms", "200"),
    ("log.retention.ms", "-1"),
];
const LIMIT: Duration = Duration::from_secs(60);
const TOPIC: i8 = 2;
const BROKER: i8 = 4;
/// The salts of the record, and what `secret1` comes to with each in 4,096 rounds.
const SHA_256: (i8, &[u8], &[u8]) = (1, b"ixr6wvu53gel45qquuqr96tra", &SALTED_256);
const SHA_512: (i8, &[u8], &[u8]) = (2, b"11per8zypc41idswl7bi2towah", &SALTED_512);
const SALTED_256: [u8; 32] = [
    0xb2, 0x89, 0x9e, 0xb7, 0x6d, 0xec, 0x7b, 0x84, 0x98, 0x5b, 0x65, 0x4d, 0xa9, 0xfb, 0xf2, 0x18, 0x95, 0xc4, 0x03,
    0xc9, 0xc1, 0x6e, 0x2f, 0xba, 0xdc, 0xd4, 0xb4, 0x94, 0xd2, 0x21, 0x68, 0x04,
];
const SALTED_512: [u8; 64] = [
    0x5f, 0xf7, 0x6d, 0x67, 0xc6, 0xea, 0x2c, 0x75, 0x2c, 0xda, 0x4b, 0x03, 0x1f, 0xe3, 0x11, 0xcd, 0x97, 0x95, 0x4b,
    0x0d, 0x35, 0x4b, 0xe5, 0x05, 0xbb, 0x96, 0xf7, 0x6b, 0x1e, 0xa1, 0x4c, 0xa1, 0x1b, 0x05, 0x10, 0xc3, 0x0e, 0x7f,
    0x1c, 0x3d, 0x6e, 0x6d, 0x04, 0x52, 0x2f, 0xad, 0xbc, 0xa9, 0x99, 0xb0, 0xcb, 0x11, 0x8b, 0xff, 0xe8, 0x68, 0xfb,
    0xf7, 0x09, 0xfc, 0xc2, 0x8f, 0x4b, 0x41,
];

pub fn lane(run: &mut Run) -> Result<()> {
    if matches!(run.on, On::At(_)) {
        return skip("brokers of others cannot be killed");
    }
    // A machine that stalls a broker for longer than its session leaves other nodes.
    if !run.full() {
        return Ok(());
    }
    let cluster = Cluster::start(&run.on, &START, 1, SETTINGS)?;
    let zookeeper = ZooKeeper::connect(&cluster.zookeeper.connect_string())?;
    let mut play = Play { run, cluster, zookeeper, recorded: Recorded::default() };
    play.all().inspect_err(|_| println!("{}", play.cluster.log_tails(20)))
}

struct Play<'a> {
    run: &'a mut Run,
    cluster: Cluster,
    zookeeper: ZooKeeper,
    recorded: Recorded,
}

impl Play<'_> {
    fn all(&mut self) -> Result<()> {
        self.topics_and_settings()?;
        self.a_broker_comes_and_goes()?;
        self.a_follower_stands_still()?;
        self.reassigned_and_deleted()?;
        self.nobody_in_sync()?;
        self.by_hand()?;
        self.the_controller_dies()?;
        self.a_foreign_session()
    }

    /// The nodes come to be those of `znodes/NAME.txt`; what follows a failed step is not played.
    fn step(&mut self, name: &str, act: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let started = Instant::now();
        let title = self.recorded.apply(name)?;
        let result = act(self).and_then(|()| self.recorded.await_same(&self.zookeeper));
        self.run.must(format!("{name}: {title}"), result, started.elapsed())
    }

    fn topics_and_settings(&mut self) -> Result<()> {
        self.step("01-fresh", |_| Ok(()))?;
        self.step("02-create-topic", |play| {
            let configs = [("min.insync.replicas", Some("1")), ("retention.ms", Some("3600000"))];
            admin::create_topic(&play.cluster, "t1", &[&[2, 1, 3], &[1, 3, 2], &[3, 2, 1]], &configs)
        })?;
        self.step("03-create-partitions", |play| admin::add_partition(&play.cluster, "t1", 4, &[2, 3, 1]))?;
        self.step("04-configs-quotas", |play| play.configs_and_quotas())?;
        self.step("05-scram", |play| {
            let salted = |(mechanism, salt, salted): (i8, &'static [u8], &'static [u8])| {
                (mechanism, Some((Bytes::from_static(salt), Bytes::from_static(salted))))
            };
            for (user, (mechanism, credential)) in [
                ("alice", salted(SHA_256)),
                ("alice", salted(SHA_512)),
                ("bob", salted(SHA_256)),
                ("bob", (SHA_256.0, None)),
            ] {
                admin::alter_scram(&play.cluster, user, mechanism, credential)?;
            }
            Ok(())
        })
    }

    fn configs_and_quotas(&self) -> Result<()> {
        let (one, two) = (self.cluster.address(1)?, self.cluster.address(2)?);
        let set = [("retention.ms", Some("7200000")), ("segment.bytes", Some("1048576"))];
        admin::alter_configs(&two, TOPIC, "t1", &set)?;
        admin::alter_configs(&two, TOPIC, "t1", &[("segment.bytes", None)])?;
        admin::alter_configs(&one, BROKER, "1", &[("log.cleaner.threads", Some("2"))])?;
        admin::alter_configs(&two, BROKER, "", &[("log.cleaner.threads", Some("1"))])?;
        admin::alter_configs(&one, BROKER, "1", &[("log.cleaner.threads", None)])?;
        let (client, user, ip) = ("client-id", "user", "ip");
        for (entity, key, value) in [
            (&[(client, Some("c-1"))][..], "producer_byte_rate", Some(1_000_000.0)),
            (&[(user, Some("u1")), (client, Some("c1"))], "consumer_byte_rate", Some(2_000_000.0)),
            (&[(user, None), (client, None)], "request_percentage", Some(50.0)),
            (&[(user, Some("u x*"))], "producer_byte_rate", Some(5.0)),
            (&[(client, Some("c-1"))], "producer_byte_rate", None),
            (&[(ip, Some("127.0.0.1"))], "connection_creation_rate", Some(100.0)),
        ] {
            admin::alter_quota(&two, entity, key, value)?;
        }
        Ok(())
    }

    fn a_broker_comes_and_goes(&mut self) -> Result<()> {
        self.step("08-kill9-broker", |play| play.cluster.kill(&[1]))?;
        self.step("09-broker-returns", |play| play.cluster.start_again(&[1]))?;
        self.step("10-preferred-election", |play| admin::elect_preferred(&play.cluster, "t1", &[1]))?;
        self.step("11-controlled-shutdown", |play| play.cluster.stop(3))?;
        self.step("12-after-controlled-shutdown-return", |play| play.cluster.start_again(&[3]))
    }

    /// First for longer than a replica may lag, then for longer than its session.
    fn a_follower_stands_still(&mut self) -> Result<()> {
        self.cluster.broker(3)?.pause()?;
        let seen = self
            .step("13-lagging-follower-shrink", |play| {
                let records = numbered(0, 0, NONE);
                let request = RequestKind::Produce(produce(1, &[("t1", 0, Some(records))]));
                let leader = play.cluster.address(2)?;
                let answer = Connection::open(&leader)?.ask(ApiKey::Produce, 7, &request)?;
                let ResponseKind::Produce(answer) = answer else { bail!("no Produce response") };
                offset_of(&answer).map(|_| ()).with_context(|| format!("{answer:?}"))
            })
            .and_then(|()| self.step("14-lagging-follower-back", |_| Ok(())));
        self.cluster.broker(3)?.resume()?;
        seen?;
        self.step("14b-topic-r1", |play| admin::create_topic(&play.cluster, "r1", &[&[2, 1]], &[]))
    }

    fn reassigned_and_deleted(&mut self) -> Result<()> {
        self.cluster.broker(3)?.pause()?;
        let asked = self.step("15-reassignment-running", |play| admin::reassign(&play.cluster, "r1", 0, &[1, 3]));
        self.cluster.broker(3)?.resume()?;
        asked?;
        self.step("16-reassignment-done", |_| Ok(()))?;
        self.step("17-controller-failover", |play| {
            play.zookeeper.delete("/controller")?;
            play.cluster.await_whole()
        })?;
        // Of three, the one that the record goes on with.
        self.cluster.make_controller(&self.zookeeper, 2)?;
        self.step("18-delete-topic", |play| admin::delete_topic(&play.cluster, "t1"))
    }

    fn nobody_in_sync(&mut self) -> Result<()> {
        self.step("18b-topic-u1", |play| admin::create_topic(&play.cluster, "u1", &[&[1, 3]], &[]))?;
        self.step("19-one-of-two-dead", |play| play.cluster.kill(&[1]))?;
        self.step("20-all-replicas-dead", |play| play.cluster.kill(&[3]))?;
        self.step("21-non-isr-replica-returns", |play| play.cluster.start_again(&[1]))?;
        self.step("22-unclean-election", |play| {
            let unclean = [("unclean.leader.election.enable", Some("true"))];
            admin::alter_configs(&play.cluster.address(2)?, TOPIC, "u1", &unclean)
        })?;
        self.step("23-last-returns", |play| play.cluster.start_again(&[3]))
    }

    fn by_hand(&mut self) -> Result<()> {
        self.step("23c-topic-v1", |play| {
            admin::create_topic(&play.cluster, "v1", &[&[2, 1, 3], &[1, 3, 2], &[3, 2, 1]], &[])
        })?;
        self.step("24-legacy-preferred-election-node", |play| {
            let elected = r#"{"version":1,"partitions":[{"topic":"v1","partition":0}]}"#;
            play.zookeeper.put("/admin/preferred_replica_election", elected)
        })?;
        self.step("25-legacy-reassign-node", |play| {
            let moved = r#"{"version":1,"partitions":[{"topic":"v1","partition":1,"replicas":[1,3]}]}"#;
            play.zookeeper.put("/admin/reassign_partitions", moved)
        })?;
        self.step("26-notifications", |play| {
            let changed = r#"{"version":1,"partitions":[{"topic":"v1","partition":0}]}"#;
            play.zookeeper.put("/isr_change_notification/isr_change_0000000000", changed)?;
            let event = r#"{"version":1,"broker":1,"event":1}"#;
            play.zookeeper.put("/log_dir_event_notification/log_dir_event_0000000000", event)
        })
    }

    fn the_controller_dies(&mut self) -> Result<()> {
        self.step("27-controller-killed", |play| play.cluster.kill(&[2]))?;
        self.step("28-old-controller-returns", |play| play.cluster.start_again(&[2]))
    }

    fn a_foreign_session(&mut self) -> Result<()> {
        const FOREIGN: &str = r#"{"version":5,"host":"127.0.0.1","port":24099,"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://127.0.0.1:24099"],"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"features":{}}"#;
        let foreign = ZooKeeper::connect(&self.cluster.zookeeper.connect_string())?;
        self.step("29-id-owned-by-other-session", |play| {
            play.cluster.stop(2)?;
            foreign.hold("/brokers/ids/2", FOREIGN)?;
            let broker = play.cluster.broker(2)?;
            broker.spawn()?;
            let ended = until("an end", LIMIT, || broker.exited()?.context("it runs"))?;
            broker.kill()?;
            ensure!(!ended.success(), "it ended with {ended}");
            admin::create_topic(&play.cluster, "v2", &[&[2, 1]], &[])
        })?;
        self.step("30-broker-back", |play| {
            foreign.delete("/brokers/ids/2")?;
            play.cluster.start_again(&[2])
        })
    }
}
