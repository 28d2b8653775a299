//! A producer that writes at a steady pace, whatever becomes of the brokers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, Producer, ProducerContext};

/// Sends records by number, from 0 on and `pace` apart, until it is to stop. What is on its way then is the caller's to wait for. An error where
/// the client gives up: a full queue is none, its record is sent again.
pub fn write<C: ProducerContext>(
    producer: &BaseProducer<C>,
    stop: &AtomicBool,
    pace: Duration,
    mut send: impl FnMut(u64) -> Result<(), KafkaError>,
) -> Result<()> {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        match send(number) {
            Ok(()) => number += 1,
            Err(KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some((code, reason)) = producer.client().fatal_error() {
            return Err(anyhow!("{code}: {reason}"));
        }
        let next = Instant::now() + pace;
        while let Some(rest) = next.checked_duration_since(Instant::now()).filter(|rest| !rest.is_zero()) {
            producer.poll(rest);
        }
    }
    Ok(())
}
