//! Three simulated brokers that know of each other.

#![allow(dead_code)]

use std::collections::BTreeMap;
use std::future::Future;

use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::metadata_response::MetadataResponsePartition;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use klamm::sim::brokers::{SimBroker, World};

use crate::sim_client::Client;

pub fn run(scenario: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(scenario);
}

/// Three brokers that know of each other, each in a rack of its own (`r1` to `r3`), and a client of each. The first is the controller.
pub struct Trio {
    pub world: World,
    pub brokers: BTreeMap<i32, SimBroker>,
    pub clients: Vec<Client>,
}

impl Trio {
    pub async fn start(seed: u64, overrides: &[&str]) -> Trio {
        let world = World::new(seed);
        let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
        let (mut brokers, mut clients) = (BTreeMap::new(), Vec::new());
        for id in 1..=3 {
            let rack = format!("broker.rack=r{id}");
            let overrides: Vec<String> = overrides.iter().cloned().chain([rack]).collect();
            brokers.insert(id, world.start(id, None, &overrides).expect("a configuration"));
            let mut client = Client::connect(&world, id).await;
            client
                .metadata_until(|metadata| metadata.brokers.len() == id as usize && metadata.controller_id == 1)
                .await;
            clients.push(client);
        }
        for client in &mut clients {
            client.metadata_until(|metadata| metadata.brokers.len() == 3).await;
        }
        Trio { world, brokers, clients }
    }

    pub fn client(&mut self, broker: i32) -> &mut Client {
        &mut self.clients[broker as usize - 1]
    }

    pub async fn create(&mut self, name: &'static str, partitions: i32) {
        let topic = CreatableTopic::default()
            .with_name(TopicName(StrBytes::from_static_str(name)))
            .with_num_partitions(partitions)
            .with_replication_factor(3);
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(5_000);
        let answer = self.client(1).ask(7, request).await;
        assert_eq!(answer.topics[0].error_code, 0, "{:?}", answer.topics[0].error_message);
    }

    pub async fn stop(self) {
        drop(self.clients);
        for broker in self.brokers.into_values() {
            broker.stop().await.expect("no panic").expect("an orderly end");
        }
    }
}

pub fn partitions(metadata: &MetadataResponse) -> &[MetadataResponsePartition] {
    metadata.topics.first().map_or(&[], |topic| &topic.partitions)
}

pub fn everywhere(partition: &MetadataResponsePartition, leader: i32) -> bool {
    partition.leader_id == leader && partition.isr_nodes.len() == 3
}
