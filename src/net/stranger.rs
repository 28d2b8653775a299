//! Peers that do not speak Kafka's protocol: what they probably are, said once in a while.

use parking_lot::Mutex;

/// What the first bytes of a connection look like, for the log.
pub fn likely_cause(first: &[u8], listener: &str) -> Option<String> {
    const HTTP: [&[u8]; 8] = [b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN"];
    let first = first.get(..4)?;
    match first {
        [0x16, 0x03, ..] => Some(format!(
            "it begins like a TLS handshake, but listener {listener} is PLAINTEXT (client with security.protocol=SSL?)"
        )),
        _ if HTTP.contains(&first) => Some("it begins like an HTTP request (web browser or health check?)".to_owned()),
        b"SSH-" => Some("it begins like an SSH client".to_owned()),
        b"PRI " => Some("it begins like an HTTP/2 client".to_owned()),
        _ => None,
    }
}

/// Lets a few lines per second through and counts the rest.
#[derive(Debug)]
pub struct LogLimiter {
    state: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    start_ms: i64,
    let_through: u32,
    held_back: u64,
}

impl LogLimiter {
    const PER_WINDOW: u32 = 5;
    const WINDOW_MS: i64 = 1000;

    pub fn new() -> LogLimiter {
        LogLimiter { state: Mutex::default() }
    }

    /// `Some(n)` when a line may be written now; `n` were held back since the last one.
    pub fn pass(&self, monotonic_ms: i64) -> Option<u64> {
        let mut window = self.state.lock();
        if window.let_through == 0 || monotonic_ms - window.start_ms >= Self::WINDOW_MS {
            window.start_ms = monotonic_ms;
            window.let_through = 0;
        }
        if window.let_through == Self::PER_WINDOW {
            window.held_back += 1;
            return None;
        }
        window.let_through += 1;
        Some(std::mem::take(&mut window.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_likely_cause() {
        assert!(likely_cause(b"GET / HTTP/1.1", "PLAINTEXT").is_some_and(|text| text.contains("HTTP")));
        assert!(likely_cause(&[0x16, 3, 1, 2, 0], "L").is_some_and(|text| text.contains("TLS") && text.contains("L")));
        assert_eq!(likely_cause(&[0, 0, 0, 0], "L"), None);
        assert_eq!(likely_cause(&[0x16], "L"), None);
    }

    #[test]
    fn a_flood_becomes_a_few_lines_and_a_number() {
        let limiter = LogLimiter::new();
        let passed = (0..100).filter(|_| limiter.pass(0).is_some()).count();
        assert_eq!(passed, 5);
        assert_eq!(limiter.pass(1000), Some(95));
        assert_eq!(limiter.pass(1000), Some(0));
    }
}
