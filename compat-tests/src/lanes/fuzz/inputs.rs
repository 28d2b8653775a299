//! Inputs made from seeds, the same in every run on every machine: each is a seed with a few things changed.
//!
//! libFuzzer chooses what to change next by what it saw covered, and that differs from run to run (maps, threads): a short
//! search of its own would find another thing each time, or none. Searching is what the full form is for.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// As libFuzzer is told with `-max_len`.
pub const LEN_MAX: usize = 8192;

/// Numbers that length fields, counts and offsets go wrong at.
const EDGES: [i64; 14] =
    [-2, -1, 0, 1, 2, 0x7f, 0x80, 0x7fff, 0x8000, 0x0100_0000, i32::MAX as i64, i32::MIN as i64, i64::MAX, i64::MIN];

pub struct Inputs {
    seeds: Vec<Vec<u8>>,
    random: StdRng,
}

impl Inputs {
    /// `seeds` in an order that is the same everywhere. Without any, inputs grow from nothing.
    pub fn new(mut seeds: Vec<Vec<u8>>) -> Inputs {
        if seeds.is_empty() {
            seeds.push(Vec::new());
        }
        Inputs { seeds, random: StdRng::seed_from_u64(1) }
    }

    fn seed(&mut self) -> Vec<u8> {
        self.seeds.choose(&mut self.random).cloned().unwrap_or_default()
    }

    /// A range that is not empty, unless `len` is 0; short ones are likelier.
    fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        if len == 0 {
            return 0..0;
        }
        let from = self.random.random_range(0..len);
        let most = if self.random.random_bool(0.8) { (len - from).min(16) } else { len - from };
        from..from + self.random.random_range(1..=most)
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        match self.random.random_range(0..8) {
            0 => {
                let at = self.range(input.len()).start;
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << self.random.random_range(0..8);
                }
            }
            1 => {
                let at = self.range(input.len()).start;
                if let Some(byte) = input.get_mut(at) {
                    *byte = self.random.random();
                }
            }
            2 => drop(input.drain(self.range(input.len()))),
            3 => input.truncate(self.range(input.len()).start),
            4 => {
                let piece = input[self.range(input.len())].to_vec();
                let at = self.random.random_range(0..=input.len());
                input.splice(at..at, piece);
            }
            5 => {
                let bytes: Vec<u8> = (0..self.random.random_range(1..=8)).map(|_| self.random.random()).collect();
                let at = self.random.random_range(0..=input.len());
                input.splice(at..at, bytes);
            }
            6 => {
                let edge = EDGES.choose(&mut self.random).copied().unwrap_or_default();
                let width = [1, 2, 4, 8].choose(&mut self.random).copied().unwrap_or(1);
                let bytes = if self.random.random() {
                    edge.to_be_bytes()[8 - width..].to_vec()
                } else {
                    edge.to_le_bytes()[..width].to_vec()
                };
                let at = self.random.random_range(0..=input.len());
                input.splice(at..(at + width).min(input.len()), bytes);
            }
            _ => {
                // What begins here goes on as another seed does.
                let other = self.seed();
                let from = self.range(other.len()).start;
                input.truncate(self.range(input.len()).start);
                input.extend_from_slice(&other[from..]);
            }
        }
    }
}

impl Iterator for Inputs {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut input = self.seed();
        for _ in 0..self.random.random_range(1..=6) {
            self.change(&mut input);
        }
        input.truncate(LEN_MAX);
        Some(input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seeds_make_the_same_inputs_and_not_only_themselves() {
        let seeds = || vec![b"one seed that is long enough".to_vec(), b"and another one of another kind".to_vec()];
        let of = |seeds| Inputs::new(seeds).take(500).collect::<Vec<_>>();
        let (first, again) = (of(seeds()), of(seeds()));
        assert_eq!(first, again);
        let different: std::collections::BTreeSet<_> = first.into_iter().collect();
        assert!(different.len() > 400, "{} different ones", different.len());
        assert!(of(Vec::new()).iter().any(|input| input.len() > 4));
    }
}
