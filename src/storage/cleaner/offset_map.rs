//! Keys of the dirty part of a log, each with the last offset at which it stands: in bounded memory, whatever the keys.
//!
//! ```text
//! slot: u128 hash of the key, i64 offset + 1 (0: empty)      24 bytes; open addressing, neighbours searched in order
//! ```
//! Keys themselves are not kept. Two keys with one hash would be one key, and one of them lost: the hash is SipHash with a
//! secret of this run, so that nobody can choose keys that meet. (Kafka's is MD5, of which such keys are known.)

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::types::Offset;

/// Bytes for a key.
pub const SLOT: usize = size_of::<Slot>();

type Slot = [u64; 3];

/// The map.
#[derive(Debug)]
pub struct OffsetMap {
    slots: Vec<Slot>,
    secret: (u64, u64),
    entries: usize,
    capacity: usize,
    latest: Offset,
}

/// It holds as many keys as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl OffsetMap {
    /// Of at most `bytes`, filled to `load_factor` at most, and no larger than `keys` need. The memory is touched where keys
    /// are put.
    pub fn new(bytes: usize, load_factor: f64, keys: u64, secret: (u64, u64)) -> OffsetMap {
        let factor = load_factor.clamp(0.01, 1.0);
        let wanted = (keys as f64 / factor).ceil() as usize;
        let slots = (bytes / SLOT).min(wanted.saturating_add(1)).max(2);
        // One slot stays empty: a search must end.
        let capacity = ((slots as f64 * factor) as usize).clamp(1, slots - 1);
        OffsetMap { slots: vec![[0; 3]; slots], secret, entries: 0, capacity, latest: Offset::NONE }
    }

    /// Keys in it.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// The last offset that was looked at, with a key or without.
    pub fn latest(&self) -> Offset {
        self.latest
    }

    pub fn set_latest(&mut self, offset: Offset) {
        self.latest = offset;
    }

    fn hash(&self, key: &[u8]) -> [u64; 2] {
        let mut hasher = SipHasher13::new_with_keys(self.secret.0, self.secret.1);
        hasher.write(key);
        let hash = hasher.finish128();
        [hash.h1, hash.h2]
    }

    /// The slot that has the hash, or the empty one where it belongs.
    fn slot_of(&self, hash: [u64; 2]) -> usize {
        let len = self.slots.len();
        let mut at = ((u128::from(hash[0]) * len as u128) >> 64) as usize;
        loop {
            let slot = &self.slots[at];
            if slot[2] == 0 || (slot[0] == hash[0] && slot[1] == hash[1]) {
                return at;
            }
            at += 1;
            if at == len {
                at = 0;
            }
        }
    }

    /// The key stands at `offset`, which is above every one before.
    pub fn put(&mut self, key: &[u8], offset: Offset) -> Result<(), Full> {
        let hash = self.hash(key);
        let at = self.slot_of(hash);
        if self.slots[at][2] == 0 {
            if self.entries == self.capacity {
                return Err(Full);
            }
            self.entries += 1;
        }
        self.slots[at] = [hash[0], hash[1], offset.0 as u64 + 1];
        self.latest = offset;
        Ok(())
    }

    /// The last offset at which the key stands.
    pub fn get(&self, key: &[u8]) -> Option<Offset> {
        let slot = &self.slots[self.slot_of(self.hash(key))];
        slot[2].checked_sub(1).map(|offset| Offset(offset as i64))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_answers_as_a_map_that_keeps_keys_until_it_is_full(
            keys in proptest::collection::vec(proptest::collection::vec(0u8..3, 0..4), 0..200),
            slots in 2usize..60,
            secret: (u64, u64),
        ) {
            let mut map = OffsetMap::new(slots * SLOT, 0.9, 1000, secret);
            let mut model: HashMap<&[u8], Offset> = HashMap::new();
            for (at, key) in keys.iter().enumerate() {
                let offset = Offset(at as i64);
                let known = model.contains_key(&key[..]);
                let full = model.len() == (slots as f64 * 0.9) as usize;
                prop_assert_eq!(map.put(key, offset), if known || !full { Ok(()) } else { Err(Full) });
                if known || !full {
                    model.insert(key, offset);
                }
                prop_assert_eq!(map.len(), model.len());
            }
            for key in &keys {
                prop_assert_eq!(map.get(key), model.get(&key[..]).copied());
            }
        }
    }

    #[test]
    fn its_memory_is_bounded_by_what_it_may_have_and_by_what_it_needs() {
        let slots = |bytes, keys| OffsetMap::new(bytes, 0.9, keys, (1, 2)).slots.len();
        assert_eq!(slots(24_000, u64::MAX), 1000);
        assert!((100..120).contains(&slots(24_000, 100)));
        let mut map = OffsetMap::new(1 << 20, 0.9, 100, (1, 2));
        assert!((0..100u32).all(|key| map.put(&key.to_be_bytes(), Offset(key.into())).is_ok()), "room for all");
    }
}
