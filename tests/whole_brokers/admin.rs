//! An administrator: makes and deletes topics, moves replicas, has preferred leaders elected.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::alter_partition_reassignments_request::{ReassignablePartition, ReassignableTopic};
use kafka_protocol::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::*;
use klamm::random::Random;
use klamm::wire::error_code::ErrorCode;

use crate::client::{Client, topic_name};
use crate::stage::{PARTITIONS, TOPIC};

const REPLICAS: usize = 3;

pub struct Admin {
    client: Client,
    made: u32,
    /// Whose making was acknowledged, and nobody has asked to delete.
    pub there: BTreeSet<String>,
    /// Whose deletion was acknowledged.
    pub gone: BTreeSet<String>,
}

impl Admin {
    pub fn new(client: Client) -> Admin {
        Admin { client, made: 0, there: BTreeSet::new(), gone: BTreeSet::new() }
    }

    /// Who is said to be the controller, by whoever answers.
    async fn controller(&mut self) -> Option<i32> {
        for _ in 0..5 {
            if self.client.look_around(None).await && self.client.controller > 0 {
                return Some(self.client.controller);
            }
            self.client.back_off().await;
        }
        None
    }

    fn some_brokers(&self) -> Vec<BrokerId> {
        let mut all: Vec<BrokerId> = (1..=self.client.stage.brokers).map(BrokerId).collect();
        let mut some = Vec::new();
        for _ in 0..REPLICAS {
            let at = usize::try_from(self.client.random.below(all.len() as u64)).expect("few");
            some.push(all.swap_remove(at));
        }
        some
    }

    /// `None` when it is not known whether that was done.
    async fn create_topic(&mut self, name: &str, partitions: i32) -> Option<ErrorCode> {
        let controller = self.controller().await?;
        let assigned = |partition| {
            CreatableReplicaAssignment::default().with_partition_index(partition).with_broker_ids(self.some_brokers())
        };
        let topic = CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(-1)
            .with_replication_factor(-1)
            .with_assignments((0..partitions).map(assigned).collect());
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(3_000);
        let answer = self.client.ask(controller, 7, &request, 4_000).await?;
        Some(ErrorCode::answered(answer.topics[0].error_code))
    }

    /// The topic that is judged, however long that takes.
    pub async fn create_first(&mut self) {
        loop {
            match self.create_topic(TOPIC, PARTITIONS).await {
                Some(ErrorCode::None | ErrorCode::TopicAlreadyExists) => return,
                _ => self.client.back_off().await,
            }
        }
    }

    pub async fn create(&mut self) {
        self.made += 1;
        let name = format!("extra-{}", self.made);
        let told = self.create_topic(&name, 2).await;
        self.client.stage.chronicle.note(format_args!("{name} is to be made: {told:?}"));
        if told == Some(ErrorCode::None) {
            self.client.stage.chronicle.count(|counts| counts.topics += 1);
            self.there.insert(name);
        }
    }

    pub async fn delete(&mut self) {
        let Some(name) = self.there.first().cloned() else { return };
        let Some(controller) = self.controller().await else { return };
        self.there.remove(&name);
        let topic = DeleteTopicState::default().with_name(Some(topic_name(&name)));
        let request = DeleteTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(3_000);
        let answer = self.client.ask(controller, 6, &request, 4_000).await;
        let told = answer.map(|answer| ErrorCode::answered(answer.responses[0].error_code));
        self.client.stage.chronicle.note(format_args!("{name} is to go: {told:?}"));
        if told == Some(ErrorCode::None) {
            self.gone.insert(name);
        }
    }

    /// Of one partition of the topic that is judged.
    pub async fn move_replicas(&mut self) {
        let partition = i32::try_from(self.client.random.below(u64::from(PARTITIONS.unsigned_abs()))).expect("few");
        let Some(controller) = self.controller().await else { return };
        let to = self.some_brokers();
        let one = ReassignablePartition::default().with_partition_index(partition).with_replicas(Some(to.clone()));
        let one = ReassignableTopic::default().with_name(topic_name(TOPIC)).with_partitions(vec![one]);
        let request = AlterPartitionReassignmentsRequest::default().with_topics(vec![one]).with_timeout_ms(3_000);
        let answer = self.client.ask(controller, 0, &request, 4_000).await;
        let told =
            answer.map(|answer| (answer.error_code, answer.responses.first().map(|it| it.partitions[0].error_code)));
        self.client.stage.chronicle.note(format_args!("partition {partition} is to move to {to:?}: {told:?}"));
        self.client.stage.chronicle.count(|counts| counts.moves += 1);
    }

    pub async fn elect_preferred(&mut self) {
        let Some(controller) = self.controller().await else { return };
        let request = ElectLeadersRequest::default().with_topic_partitions(None).with_timeout_ms(3_000);
        let answer = self.client.ask(controller, 2, &request, 4_000).await;
        let told = answer.map(|answer| answer.error_code);
        self.client.stage.chronicle.note(format_args!("preferred leaders are to lead: {told:?}"));
    }

    /// The end of a topic's partition that readers see, as its leader says.
    pub async fn latest(&mut self, topic: &str, partition: i32) -> Option<i64> {
        use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
        self.client.leaders.remove(&(topic.to_owned(), partition));
        let leader = self.client.leader(topic, partition).await?;
        let one = ListOffsetsPartition::default().with_partition_index(partition).with_timestamp(-1);
        let one = ListOffsetsTopic::default().with_name(topic_name(topic)).with_partitions(vec![one]);
        let request = ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![one]);
        let answer = self.client.ask(leader.broker, 7, &request, 3_000).await?;
        let told = answer.topics.first()?.partitions.first()?;
        (told.error_code == 0).then_some(told.offset)
    }

    /// The leader and the ISR of each partition as one broker tells them.
    pub async fn told_by(&mut self, broker: i32) -> Option<BTreeMap<(String, i32), (i32, BTreeSet<i32>)>> {
        let request = MetadataRequest::default().with_topics(None);
        let told = self.client.ask(broker, 12, &request, 2_000).await?;
        let mut all = BTreeMap::new();
        for topic in &told.topics {
            let name = topic.name.as_ref()?.to_string();
            for partition in &topic.partitions {
                let isr = partition.isr_nodes.iter().map(|id| id.0).collect();
                all.insert((name.clone(), partition.partition_index), (partition.leader_id.0, isr));
            }
        }
        (told.brokers.len() == self.client.stage.brokers as usize).then_some(all)
    }

    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }
}
