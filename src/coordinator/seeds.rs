//! Schedules for the pools of cores, a seed each.

/// How many: `KLAMM_SEEDS`, or `otherwise`.
pub fn schedules(otherwise: u64) -> u64 {
    std::env::var("KLAMM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// The first of so many seeds with which `run` finds one, and what it found.
pub fn first_violation(seeds: u64, run: impl Fn(u64) -> Result<(), String>) -> Option<(u64, String)> {
    (0..seeds).find_map(|seed| run(seed).err().map(|what| (seed, what)))
}
