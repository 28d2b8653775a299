//! What clients use, each by a measure of its own; as many as [`MOST`].
//!
//! A measure that was not used for an hour goes, as Kafka's sensors do. When there is no room for another, one of the
//! longest unused among a few goes: who changes its name with every request has a fresh measure anyway, and those who
//! keep theirs use it in the meantime. Clients are kept by the hash of their names, which may be long.

use std::hash::{BuildHasher, Hash, RandomState};

use indexmap::IndexMap;

/// Measures of one kind.
pub const MOST: usize = 10_000;

/// Unused for so long, a measure goes.
const IDLE_MS: i64 = 60 * 60 * 1_000;

/// How many are looked at for one to give way.
const LOOKED_AT: usize = 16;

/// Measures by client.
#[derive(Debug)]
pub struct Measures<M> {
    hashes: RandomState,
    by_hash: IndexMap<u64, Used<M>>,
    /// The next one looked at.
    at: usize,
    most: usize,
}

#[derive(Debug)]
struct Used<M> {
    measure: M,
    last_ms: i64,
}

impl<M> Default for Measures<M> {
    fn default() -> Measures<M> {
        Measures { hashes: RandomState::new(), by_hash: IndexMap::new(), at: 0, most: MOST }
    }
}

impl<M: Default> Measures<M> {
    /// The measure of `client`; a new one for a new client.
    pub fn of(&mut self, client: impl Hash, now_ms: i64) -> &mut M {
        self.drop_idle(now_ms);
        let hash = self.hashes.hash_one(client);
        if self.by_hash.len() >= self.most && !self.by_hash.contains_key(&hash) {
            self.make_room();
        }
        let used = self.by_hash.entry(hash).or_insert_with(|| Used { measure: M::default(), last_ms: now_ms });
        used.last_ms = now_ms;
        &mut used.measure
    }

    /// Looks at one more with each use: all are looked at as long as any is used.
    fn drop_idle(&mut self, now_ms: i64) {
        match self.by_hash.get_index(self.at) {
            // The last one takes its place, and is looked at next.
            Some((_, used)) if now_ms - used.last_ms >= IDLE_MS => drop(self.by_hash.swap_remove_index(self.at)),
            Some(_) => self.at += 1,
            None => self.at = 0,
        }
    }

    fn make_room(&mut self) {
        let looked_at = (0..LOOKED_AT.min(self.by_hash.len())).map(|n| (self.at + n) % self.by_hash.len());
        let oldest = looked_at.min_by_key(|at| self.by_hash.get_index(*at).map(|(_, used)| used.last_ms));
        if let Some(at) = oldest {
            self.by_hash.swap_remove_index(at);
        }
    }

    pub fn len(&self) -> usize {
        self.by_hash.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_hash.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_most(most: usize) -> Measures<u32> {
        Measures { most, ..Measures::default() }
    }

    #[test]
    fn a_client_that_is_there_keeps_its_measure_while_a_hundred_thousand_names_pass() {
        let mut measures = at_most(1_000);
        *measures.of("honest", 0) = 7;
        for n in 0..100_000i64 {
            *measures.of(format!("name {n}"), n) = 1;
            assert_eq!(*measures.of("honest", n), 7, "after {n}");
        }
        assert_eq!(measures.len(), 1_000);
    }

    #[test]
    fn what_is_idle_for_an_hour_goes_while_anything_is_used() {
        let mut measures = at_most(1_000);
        for n in 0..100 {
            measures.of(n, 0);
        }
        for n in 0..210 {
            measures.of("used", IDLE_MS - 1 + n);
        }
        assert_eq!(measures.len(), 1);
    }
}
