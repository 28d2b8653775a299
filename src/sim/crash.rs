//! Scripts cut short at every change they make to a disk, and what each crash may leave of it.

use super::disk::{Keep, SimDisk, Stop};
use crate::random::SeededRandom;

/// What a crash may leave of `disk`, each as a disk of its own with the outcome's name; of outcomes that are alike the
/// first. `seeds` random ones come with those that are always tried.
pub fn outcomes(disk: &SimDisk, seeds: u64) -> Vec<(String, SimDisk)> {
    let fixed = [
        ("nothing unsynced is left", Keep::Nothing),
        ("everything is left", Keep::Everything),
        ("names are left", Keep::Names),
        ("bytes are left", Keep::Bytes),
        ("zeros are left", Keep::Zeros),
        ("the last write is torn", Keep::Torn),
    ];
    let mut found: Vec<(String, SimDisk)> = Vec::new();
    let mut add = |name: String, keep: Keep<'_>| {
        let after = disk.after_crash(keep);
        if found.iter().all(|(_, other)| other.tree() != after.tree()) {
            found.push((name, after));
        }
    };
    fixed.into_iter().for_each(|(name, keep)| add(name.to_owned(), keep));
    (0..seeds).for_each(|seed| {
        let random = SeededRandom::new(seed * 1_000_000 + disk.changes());
        add(format!("something is left, seed {seed}"), Keep::Prefix(&random));
    });
    found
}

/// Runs `script` on copies of `start`, with `stop` at its first change, then at its second, and so on, and shows `then`
/// the index of that change, the disk as it stopped and what the script returned; at last the whole script. Returns how
/// many changes that makes.
pub fn at_every_change<T>(
    start: &SimDisk,
    stop: Stop,
    script: impl Fn(&SimDisk) -> T,
    mut then: impl FnMut(u64, &SimDisk, T),
) -> u64 {
    for at in 0.. {
        let disk = start.fork();
        disk.stop_at(at, stop);
        let result = script(&disk);
        let whole = !disk.has_stopped();
        then(at, &disk, result);
        if whole {
            return at;
        }
    }
    u64::MAX
}
