//! Randomness as a value, so that a seed decides a whole run.

use std::fmt::Debug;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use uuid::Uuid;

use crate::types::TopicId;

/// A source of random numbers.
pub trait Random: Send + Sync + Debug {
    fn next_u64(&self) -> u64;

    /// A version 4 UUID, never one of Kafka's reserved ids, never beginning with `-` in base64url.
    fn topic_id(&self) -> TopicId {
        loop {
            let bits = u128::from(self.next_u64()) << 64 | u128::from(self.next_u64());
            let id = TopicId(uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid());
            if id.0.as_u128() > 1 && !id.to_string().starts_with('-') {
                return id;
            }
        }
    }

    /// In `0..bound`.
    fn below(&self, bound: u64) -> u64 {
        self.next_u64() % bound.max(1)
    }

    fn uuid(&self) -> Uuid {
        self.topic_id().0
    }
}

/// The operating system's.
#[derive(Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        rand::rng().random()
    }
}

/// The same numbers for the same seed.
#[derive(Debug)]
pub struct SeededRandom(Mutex<StdRng>);

impl SeededRandom {
    pub fn new(seed: u64) -> SeededRandom {
        SeededRandom(Mutex::new(StdRng::seed_from_u64(seed)))
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        self.0.lock().next_u64()
    }
}
