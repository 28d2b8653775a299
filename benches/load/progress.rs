//! What is being done, on stderr: the table goes to stdout.

use std::sync::OnceLock;
use std::time::Instant;

/// A line with the seconds since the first one.
pub fn say(what: &str) {
    static START: OnceLock<Instant> = OnceLock::new();
    eprintln!("{:7.1} s  {what}", START.get_or_init(Instant::now).elapsed().as_secs_f64());
}
