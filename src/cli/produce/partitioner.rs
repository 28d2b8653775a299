//! Which partition a record goes to, as Kafka's default partitioner decides: by the key's hash, without a key to one
//! partition for as long as a batch fills.

use crate::cli::layout::Layout;
use crate::random::Random;

/// Kafka's hash of keys: 32-bit murmur2 with Kafka's seed.
pub fn murmur2(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ key.len() as u32;
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> 24;
        hash = hash.wrapping_mul(M) ^ word.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (n, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * n);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

/// Decides over the partitions of one topic.
#[derive(Debug)]
pub struct Partitioner {
    /// Where records without a key go for now: always one that has a leader.
    sticky: i32,
}

impl Partitioner {
    pub fn new(layout: &Layout, random: &dyn Random) -> Partitioner {
        let mut partitioner = Partitioner { sticky: 0 };
        partitioner.turn(layout, random);
        partitioner
    }

    /// The partition of a record with this key.
    pub fn partition(&self, key: Option<&[u8]>, layout: &Layout) -> i32 {
        match key {
            Some(key) => ((murmur2(key) & i32::MAX as u32) as usize % layout.len().max(1)) as i32,
            None => self.sticky,
        }
    }

    /// A batch of `partition` is full: records without a key go elsewhere if that was their partition.
    pub fn filled(&mut self, partition: i32, layout: &Layout, random: &dyn Random) {
        if partition == self.sticky {
            self.turn(layout, random);
        }
    }

    fn turn(&mut self, layout: &Layout, random: &dyn Random) {
        let led: Vec<i32> =
            layout.iter().filter_map(|(partition, leader)| leader.as_ref().map(|_| *partition)).collect();
        self.sticky = led.get(random.below(led.len() as u64) as usize).copied().unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;

    #[test]
    fn hashes_are_kafkas() {
        // Seen in Kafka's own tests of the function.
        for (key, hash) in [
            (&b"21"[..], -973932308),
            (b"foobar", -790332482),
            (b"a-little-bit-long-string", -985981536),
            (b"a-little-bit-longer-string", -1486304829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
            (b"abc", 479470107),
        ] {
            assert_eq!(murmur2(key) as i32, hash, "{}", String::from_utf8_lossy(key));
        }
    }

    #[test]
    fn records_without_a_key_stay_until_a_batch_is_full() {
        let random = SeededRandom::new(1);
        let layout: Layout = (0..9).map(|n| (n, (n % 2 == 1).then(|| "host:1".to_owned()))).collect();
        let mut partitioner = Partitioner::new(&layout, &random);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..100 {
            let partition = partitioner.partition(None, &layout);
            assert_eq!(partitioner.partition(None, &layout), partition);
            partitioner.filled(partition + 1, &layout, &random);
            assert_eq!(partitioner.partition(None, &layout), partition);
            partitioner.filled(partition, &layout, &random);
            seen.insert(partition);
        }
        assert!(seen.into_iter().eq([1, 3, 5, 7]));
    }

    #[test]
    fn a_key_goes_to_its_partition_led_or_not() {
        let layout: Layout = (0..7).map(|n| (n, None)).collect();
        let partitioner = Partitioner::new(&layout, &SeededRandom::new(1));
        assert_eq!(partitioner.partition(Some(b"abc"), &layout), 479470107 % 7);
    }
}
