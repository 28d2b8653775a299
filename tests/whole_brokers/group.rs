//! Members of a consumer group: they join, share the partitions, read, and commit what they have read.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use history::event::{Commit, Committed, Event, Outcome, Partition};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use klamm::random::Random;
use klamm::wire::error_code::ErrorCode;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::client::{Client, text, topic_name};
use crate::reader;
use crate::stage::{PARTITIONS, TOPIC};

pub const GROUP: &str = "g";

const BEAT: Duration = Duration::from_millis(1_000);

pub struct Member {
    client: Client,
    id: StrBytes,
    coordinator: Option<i32>,
}

/// A share of the partitions.
struct Share {
    generation: i32,
    partitions: Vec<i32>,
}

/// To be begun anew.
struct Anew;

impl Member {
    pub fn new(client: Client) -> Member {
        Member { client, id: StrBytes::default(), coordinator: None }
    }

    /// Takes part until it is to end, and leaves in silence.
    pub async fn run(mut self, mut end: watch::Receiver<bool>) {
        while !*end.borrow_and_update() {
            if let Ok(share) = self.join().await {
                let _ = self.work(share, &mut end).await;
            }
            self.client.back_off().await;
        }
    }

    async fn coordinator(&mut self) -> Result<i32, Anew> {
        if let Some(broker) = self.coordinator {
            return Ok(broker);
        }
        self.coordinator = find(&mut self.client).await;
        self.coordinator.ok_or(Anew)
    }

    /// What an answer's error means for who goes on. `None`: there was no answer.
    fn check(&mut self, error: Option<i16>) -> Result<(), Anew> {
        match error.map(ErrorCode::answered) {
            Some(ErrorCode::None) => return Ok(()),
            Some(ErrorCode::UnknownMemberId) => self.id = StrBytes::default(),
            Some(ErrorCode::RebalanceInProgress | ErrorCode::IllegalGeneration) => {}
            _ => self.coordinator = None,
        }
        Err(Anew)
    }

    async fn join(&mut self) -> Result<Share, Anew> {
        let coordinator = self.coordinator().await?;
        let protocol = JoinGroupRequestProtocol::default().with_name(text("ours")).with_metadata(Bytes::new());
        let request = JoinGroupRequest::default()
            .with_group_id(GroupId(text(GROUP)))
            .with_session_timeout_ms(6_000)
            .with_rebalance_timeout_ms(6_000)
            .with_member_id(self.id.clone())
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![protocol]);
        let joined = self.client.ask(coordinator, 7, &request, 10_000).await;
        if let Some(joined) = joined.as_ref().filter(|it| it.error_code == ErrorCode::MemberIdRequired.code()) {
            self.id = joined.member_id.clone();
            return Err(Anew);
        }
        self.check(joined.as_ref().map(|joined| joined.error_code))?;
        let joined = joined.ok_or(Anew)?;
        self.id = joined.member_id.clone();
        let mut shares: BTreeMap<StrBytes, Vec<u8>> = BTreeMap::new();
        if joined.leader == joined.member_id {
            let members: Vec<StrBytes> = joined.members.iter().map(|member| member.member_id.clone()).collect();
            for (nth, partition) in (0..PARTITIONS).enumerate() {
                let member = members[nth % members.len()].clone();
                shares.entry(member).or_default().push(u8::try_from(partition).expect("few"));
            }
        }
        let share = |(member, partitions): (StrBytes, Vec<u8>)| {
            SyncGroupRequestAssignment::default().with_member_id(member).with_assignment(partitions.into())
        };
        let request = SyncGroupRequest::default()
            .with_group_id(GroupId(text(GROUP)))
            .with_generation_id(joined.generation_id)
            .with_member_id(self.id.clone())
            .with_protocol_type(Some(text("consumer")))
            .with_protocol_name(Some(text("ours")))
            .with_assignments(shares.into_iter().map(share).collect());
        let synced = self.client.ask(coordinator, 5, &request, 10_000).await;
        self.check(synced.as_ref().map(|synced| synced.error_code))?;
        let partitions = synced.ok_or(Anew)?.assignment.iter().map(|partition| i32::from(*partition)).collect();
        Ok(Share { generation: joined.generation_id, partitions })
    }

    async fn work(&mut self, share: Share, end: &mut watch::Receiver<bool>) -> Result<(), Anew> {
        let coordinator = self.coordinator().await?;
        let mut positions = BTreeMap::new();
        for partition in &share.partitions {
            let Some(committed) = committed(&mut self.client, coordinator, *partition).await else {
                self.coordinator = None;
                return Err(Anew);
            };
            let offset = committed.unwrap_or(0);
            reader::seek(&self.client, *partition, offset);
            positions.insert(*partition, offset);
        }
        let mut saved = positions.clone();
        let mut beaten = Instant::now();
        while !*end.borrow_and_update() {
            for (partition, position) in &mut positions {
                *position = reader::poll(&mut self.client, Some(GROUP), *partition, *position).await;
            }
            if self.client.random.below(3) == 0 {
                for (partition, position) in &positions {
                    if saved.get(partition) != Some(position) {
                        self.commit(&share, *partition, *position).await?;
                        saved.insert(*partition, *position);
                    }
                }
            }
            if beaten.elapsed() >= BEAT {
                beaten = Instant::now();
                let request = HeartbeatRequest::default()
                    .with_group_id(GroupId(text(GROUP)))
                    .with_generation_id(share.generation)
                    .with_member_id(self.id.clone());
                let beat = self.client.ask(coordinator, 4, &request, 2_000).await;
                self.check(beat.map(|beat| beat.error_code))?;
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    async fn commit(&mut self, share: &Share, partition: i32, offset: i64) -> Result<(), Anew> {
        let coordinator = self.coordinator().await?;
        let one = OffsetCommitRequestPartition::default().with_partition_index(partition).with_committed_offset(offset);
        let one = OffsetCommitRequestTopic::default().with_name(topic_name(TOPIC)).with_partitions(vec![one]);
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(text(GROUP)))
            .with_generation_id_or_member_epoch(share.generation)
            .with_member_id(self.id.clone())
            .with_topics(vec![one]);
        let from_us = self.client.stage.chronicle.now_us();
        let answer = self.client.ask(coordinator, 8, &request, 6_000).await;
        let error = answer.map(|answer| answer.topics[0].partitions[0].error_code);
        let outcome = match error.map(ErrorCode::answered) {
            Some(ErrorCode::None) => Outcome::Stored { offset },
            Some(ErrorCode::IllegalGeneration | ErrorCode::UnknownMemberId | ErrorCode::RebalanceInProgress) => {
                Outcome::Refused
            }
            _ => Outcome::Unknown,
        };
        let chronicle = &self.client.stage.chronicle;
        if outcome != Outcome::Unknown && outcome != Outcome::Refused {
            chronicle.count(|counts| counts.commits += 1);
        }
        chronicle.write(&Event::Commit(Commit {
            client: self.client.name.clone(),
            group: GROUP.to_owned(),
            span: chronicle.since(from_us),
            at: Partition { topic: TOPIC.to_owned(), partition },
            offset,
            transaction: None,
            outcome,
        }));
        self.check(error)
    }
}

async fn find(client: &mut Client) -> Option<i32> {
    let request = FindCoordinatorRequest::default().with_key(text(GROUP));
    let broker = client.any_broker();
    let found = client.ask(broker, 3, &request, 3_000).await?;
    (found.error_code == 0).then_some(found.node_id.0)
}

/// What the group has committed, `Some(None)` where that is nothing. `None` when nobody says.
async fn committed(client: &mut Client, coordinator: i32, partition: i32) -> Option<Option<i64>> {
    let topic =
        OffsetFetchRequestTopics::default().with_name(topic_name(TOPIC)).with_partition_indexes(vec![partition]);
    let group = OffsetFetchRequestGroup::default().with_group_id(GroupId(text(GROUP))).with_topics(Some(vec![topic]));
    let request = OffsetFetchRequest::default().with_groups(vec![group]);
    let from_us = client.stage.chronicle.now_us();
    let answer = client.ask(coordinator, 8, &request, 3_000).await?;
    let group = answer.groups.first().filter(|group| group.error_code == 0)?;
    let told = &group.topics.first()?.partitions.first()?;
    if told.error_code != 0 {
        return None;
    }
    let offset = (told.committed_offset >= 0).then_some(told.committed_offset);
    let chronicle = &client.stage.chronicle;
    chronicle.write(&Event::Committed(Committed {
        client: client.name.clone(),
        group: GROUP.to_owned(),
        span: chronicle.since(from_us),
        at: Partition { topic: TOPIC.to_owned(), partition },
        offset,
    }));
    Some(offset)
}

/// What the group has committed of every partition, as far as it says so.
pub async fn progress(client: &mut Client) -> Option<BTreeMap<i32, i64>> {
    let coordinator = find(client).await?;
    let mut all = BTreeMap::new();
    for partition in 0..PARTITIONS {
        all.insert(partition, committed(client, coordinator, partition).await?.unwrap_or(0));
    }
    Some(all)
}
