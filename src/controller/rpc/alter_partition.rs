//! AlterPartition (56), versions 0 to 3.
//!
//! ```text
//! 1  recovery state
//! 2  topics by id; INELIGIBLE_REPLICA, where older ones answer OPERATION_NOT_ATTEMPTED
//! 3  members with their broker epochs
//! ```

use kafka_protocol::messages::alter_partition_request::PartitionData as Asked;
use kafka_protocol::messages::alter_partition_response::{PartitionData, TopicData};
use kafka_protocol::messages::{AlterPartitionRequest, AlterPartitionResponse, BrokerId as WireId, TopicName};

use super::{from_wire, to_wire, topic_of};
use crate::controller::ask::AlteredIsrs;
use crate::controller::decide::{AlterPartition, IsrChange, IsrMember, TopicKey};
use crate::types::{BrokerId, LeaderEpoch, TopicId};
use crate::wire::error_code::ErrorCode;

/// First version that names topics by id.
pub const BY_ID: i16 = 2;

/// First version with broker epochs.
const WITH_EPOCHS: i16 = 3;

pub fn read(request: &AlterPartitionRequest, version: i16) -> AlterPartition {
    let members = |asked: &Asked| match version >= WITH_EPOCHS {
        true => asked
            .new_isr_with_epochs
            .iter()
            .map(|member| IsrMember { broker: BrokerId(member.broker_id.0), broker_epoch: member.broker_epoch })
            .collect(),
        false => from_wire(&asked.new_isr).into_iter().map(|broker| IsrMember { broker, broker_epoch: -1 }).collect(),
    };
    let partitions = request.topics.iter().flat_map(|topic| {
        let key = match version >= BY_ID {
            true => TopicKey::Id(TopicId(topic.topic_id)),
            false => TopicKey::Name(topic_of(&topic.topic_name)),
        };
        topic.partitions.iter().map(move |asked| IsrChange {
            topic: key.clone(),
            partition: asked.partition_index,
            leader_epoch: LeaderEpoch(asked.leader_epoch),
            partition_epoch: asked.partition_epoch,
            isr: members(asked),
            recovering: asked.leader_recovery_state == 1,
        })
    });
    AlterPartition {
        broker: BrokerId(request.broker_id.0),
        broker_epoch: request.broker_epoch,
        partitions: partitions.collect(),
    }
}

/// The answer to `asked`: the outcomes are in its order, or one error is for all.
pub fn response(
    outcome: Result<AlteredIsrs, ErrorCode>,
    asked: &AlterPartitionRequest,
    version: i16,
) -> AlterPartitionResponse {
    let outcomes = match outcome {
        Ok(outcomes) => outcomes,
        Err(code) => return AlterPartitionResponse::default().with_error_code(code.code()),
    };
    let mut outcomes = outcomes.into_iter();
    let mut one = |asked: &Asked| {
        let data = PartitionData::default().with_partition_index(asked.partition_index);
        match outcomes.next().unwrap_or(Err(ErrorCode::UnknownServerError)) {
            Ok(leadership) => data
                .with_leader_id(WireId(leadership.state.leader.0))
                .with_leader_epoch(leadership.state.leader_epoch.0)
                .with_isr(to_wire(&leadership.state.isr))
                .with_leader_recovery_state(i8::from(leadership.state.recovering && version >= 1))
                .with_partition_epoch(leadership.partition_epoch),
            Err(ErrorCode::IneligibleReplica) if version < BY_ID => {
                data.with_error_code(ErrorCode::OperationNotAttempted.code())
            }
            Err(code) => data.with_error_code(code.code()),
        }
    };
    let topics = asked.topics.iter().map(|topic| {
        TopicData::default()
            .with_topic_name(topic.topic_name.clone())
            .with_topic_id(topic.topic_id)
            .with_partitions(topic.partitions.iter().map(&mut one).collect())
    });
    AlterPartitionResponse::default().with_topics(topics.collect())
}

/// A request of the newest version as an older one says it.
pub fn in_version(mut request: AlterPartitionRequest, version: i16) -> AlterPartitionRequest {
    for topic in &mut request.topics {
        match version >= BY_ID {
            true => topic.topic_name = TopicName::default(),
            false => topic.topic_id = TopicId::ZERO.0,
        }
        for asked in &mut topic.partitions {
            if version < WITH_EPOCHS {
                let members = std::mem::take(&mut asked.new_isr_with_epochs);
                asked.new_isr = members.into_iter().map(|member| member.broker_id).collect();
            }
            if version < 1 {
                asked.leader_recovery_state = 0;
            }
        }
    }
    request
}

#[cfg(test)]
mod tests {
    use kafka_protocol::protocol::Encodable;

    use super::super::recorded;
    use super::*;
    use crate::controller::state::Leadership;
    use crate::metastore::schema::PartitionState;

    const RECORDED: &str = include_str!("recorded/alter_partition.txt");

    fn ids(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    fn leadership(leader: i32, epoch: i32, isr: &[i32], partition_epoch: i32) -> Leadership {
        let state = PartitionState {
            leader: BrokerId(leader),
            leader_epoch: LeaderEpoch(epoch),
            controller_epoch: 1,
            isr: ids(isr),
            recovering: false,
        };
        Leadership { state, partition_epoch }
    }

    #[test]
    fn a_live_kafkas_requests_are_read_and_answered_as_it_was() {
        let all = recorded::read::<AlterPartitionRequest>(RECORDED);
        let changes: Vec<AlterPartition> = all.iter().map(|it| read(&it.request, it.version)).collect();
        let shrink = &changes[0];
        assert_eq!((shrink.broker, shrink.broker_epoch), (BrokerId(3), 84));
        let expected = IsrChange {
            topic: TopicKey::Id("UG0qwWnhRQm27MlSR4Qc4g".parse().expect("an id")),
            partition: 2,
            leader_epoch: LeaderEpoch(0),
            partition_epoch: 0,
            isr: vec![IsrMember { broker: BrokerId(3), broker_epoch: -1 }],
            recovering: false,
        };
        assert_eq!(shrink.partitions, [expected]);
        let outcomes = [leadership(3, 0, &[3], 1), leadership(3, 0, &[3, 2], 2), leadership(1, 3, &[1, 3], 4)];
        for (recorded, outcome) in all.iter().zip(outcomes) {
            recorded.assert_request(&in_version(recorded.request.clone(), recorded.version));
            recorded.assert_response(&response(Ok(vec![Ok(outcome)]), &recorded.request, recorded.version));
        }
    }

    #[test]
    fn an_older_version_says_less() {
        let mut newest = recorded::read::<AlterPartitionRequest>(RECORDED).remove(1).request;
        newest.topics[0].topic_name = super::super::topic_name("t1");
        newest.topics[0].partitions[0].leader_recovery_state = 1;
        for version in 0..=3 {
            let request = in_version(newest.clone(), version);
            request.compute_size(version).expect("this version can say it");
            let read = read(&request, version);
            let change = &read.partitions[0];
            assert_eq!(change.isr.iter().map(|member| member.broker).collect::<Vec<_>>(), ids(&[3, 2]));
            assert_eq!(change.recovering, version >= 1);
            assert_eq!(matches!(&change.topic, TopicKey::Name(name) if &**name == "t1"), version < 2);
        }
    }

    #[test]
    fn what_failed_is_answered_by_its_code_alone() {
        let asked = recorded::read::<AlterPartitionRequest>(RECORDED).remove(0).request;
        let code = |version| {
            let response = response(Ok(vec![Err(ErrorCode::IneligibleReplica)]), &asked, version);
            let partition = &response.topics[0].partitions[0];
            assert_eq!((partition.leader_id.0, partition.partition_epoch, partition.isr.len()), (0, 0, 0));
            partition.error_code
        };
        assert_eq!(code(2), ErrorCode::IneligibleReplica.code());
        assert_eq!(code(1), ErrorCode::OperationNotAttempted.code());
        let refused = response(Err(ErrorCode::StaleBrokerEpoch), &asked, 3);
        assert_eq!((refused.error_code, refused.topics.len()), (ErrorCode::StaleBrokerEpoch.code(), 0));
    }
}
