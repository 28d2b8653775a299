//! A broker wants to stop (ControlledShutdown): others lead what it led, and nobody waits for it, before it goes.
//!
//! BROKER_NOT_AVAILABLE, or UNKNOWN_SERVER_ERROR when the request carries an epoch, for a broker that is not registered;
//! STALE_BROKER_EPOCH for one that has registered again since. From then on it is elected for nothing and joins no ISR.
//! Partitions with one replica, and those whose topics are being deleted, are left as they are. Rules and order: Kafka's
//! `doControlledShutdown`, seen in the transaction log of a live 3.9.1, which sends each StopReplica twice.

use super::{AfterRead, Effect, Event, partitions};
use crate::controller::election::Choice;
use crate::controller::state::{Partition, State};
use crate::types::{BrokerId, TopicPartition};
use crate::wire::error_code::ErrorCode;

pub(super) fn asked(state: &mut State, broker: BrokerId, broker_epoch: Option<i64>) -> Vec<Effect> {
    let refusal = match (state.live.get(&broker), broker_epoch) {
        (None, None) => Some(ErrorCode::BrokerNotAvailable),
        (None, Some(_)) => Some(ErrorCode::UnknownServerError),
        (Some(known), Some(epoch)) if epoch < known.epoch => Some(ErrorCode::StaleBrokerEpoch),
        (Some(_), _) => None,
    };
    if let Some(code) = refusal {
        return vec![Effect::Refused(code)];
    }
    tracing::info!(%broker, "broker is shutting down");
    state.shutting_down.insert(broker);
    let (led, followed): (Vec<_>, Vec<_>) =
        concerned(state, broker).into_iter().partition(|tp| state.partition(tp).is_some_and(|p| p.is_led_by(broker)));
    let mut effects = Vec::new();
    if !led.is_empty() {
        let then = AfterRead::Elect(Choice::ControlledShutdown, None);
        effects.push(Effect::ReadStates { partitions: led, then });
        effects.push(Effect::Decide(Event::SendBatch));
    }
    let followed: Vec<_> = followed.into_iter().map(|tp| (broker, tp)).collect();
    effects.extend(partitions::take_offline(state, &followed));
    effects.push(Effect::Decide(Event::ShutdownWorkedOn(broker)));
    effects
}

/// What it still leads, for want of anybody else.
pub(super) fn worked_on(state: &State, broker: BrokerId) -> Vec<Effect> {
    let mut led = concerned(state, broker);
    led.retain(|tp| state.partition(tp).is_some_and(|partition| partition.is_led_by(broker)));
    vec![Effect::StillLed(led)]
}

fn concerned(state: &State, broker: BrokerId) -> Vec<TopicPartition> {
    let replicated = |partition: &Partition| partition.assignment.replicas.len() > 1 && partition.leadership.is_some();
    let mut concerned = state.partitions_on(broker);
    concerned.retain(|tp| state.partition(tp).is_some_and(replicated) && !state.is_being_deleted(&tp.topic));
    concerned
}
