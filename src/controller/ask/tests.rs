//! Questions through the controller's task to the znodes and back.

use super::*;
use crate::controller::decide::{IsrChange, IsrMember, TopicKey};
use crate::controller::testing::Node;
use crate::types::{LeaderEpoch, TopicId};

const ME: BrokerId = BrokerId(1);

fn change(topic: TopicId, partition: i32, isr: &[i32]) -> IsrChange {
    let member = |id: &i32| IsrMember { broker: BrokerId(*id), broker_epoch: -1 };
    IsrChange {
        topic: TopicKey::Id(topic),
        partition,
        leader_epoch: LeaderEpoch(0),
        partition_epoch: 0,
        isr: isr.iter().map(member).collect(),
        recovering: false,
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_is_answered_in_the_order_it_asked() {
    let node = Node::fresh().await;
    let topic = node.create("t", 2, &[]).await.id;
    let broker_epoch = node.receiver.broker_epoch();
    let partitions = vec![change(TopicId::ZERO, 0, &[1]), change(topic, 1, &[1]), change(topic, 1, &[])];
    let questions = node.controller.questions();
    let request = AlterPartition { broker: ME, broker_epoch, partitions: partitions.clone() };
    let altered = questions.alter_partition(request).await.unwrap().unwrap();
    let codes: Vec<_> = altered.iter().map(|one| one.as_ref().map(|now| now.partition_epoch).map_err(|e| *e)).collect();
    assert_eq!(codes, [Err(ErrorCode::UnknownTopicId), Ok(0), Err(ErrorCode::InvalidRequest)]);

    let stale = AlterPartition { broker: ME, broker_epoch: broker_epoch + 1, partitions };
    assert_eq!(questions.alter_partition(stale).await, Ok(Err(ErrorCode::StaleBrokerEpoch)));
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_stops_keeps_what_nobody_else_has() {
    let node = Node::fresh().await;
    node.create("t", 1, &[]).await;
    let epoch = node.receiver.broker_epoch();
    let questions = node.controller.questions().clone();
    assert_eq!(questions.controlled_shutdown(ME, Some(epoch - 1)).await, Ok(Err(ErrorCode::StaleBrokerEpoch)));
    assert_eq!(questions.controlled_shutdown(BrokerId(2), None).await, Ok(Err(ErrorCode::BrokerNotAvailable)));
    assert_eq!(
        questions.controlled_shutdown(ME, Some(epoch)).await,
        Ok(Ok(Vec::new())),
        "one replica is not waited for"
    );
    assert!(node.table.get("t", 0).unwrap().is_leader(), "it serves until it goes");

    node.controller.stop();
    // It may have been asked before it saw that it is to stop.
    while questions.list_reassignments().await.is_ok() {}
    assert_eq!(questions.controlled_shutdown(ME, None).await, Err(NotController));
}
