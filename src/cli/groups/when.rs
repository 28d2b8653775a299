//! `--to-datetime` and `--by-duration`.

use anyhow::bail;
use jiff::{Span, SpanRelativeTo, Timestamp};

/// Milliseconds since the epoch of `YYYY-MM-DDThh:mm:ss.sss`, in UTC unless an offset follows: `Z`, `+02`, `+0200` or
/// `+02:00`.
pub fn datetime_ms(text: &str) -> anyhow::Result<i64> {
    let Some((_, time)) = text.split_once('T') else {
        bail!("Error parsing timestamp. It does not contain a 'T' according to ISO8601 format");
    };
    let with_zone = if time.contains(['+', '-', 'Z']) { text.to_owned() } else { format!("{text}Z") };
    // jiff takes shorter and longer times as well, which Kafka's tool refuses.
    let exact = with_zone.split_at_checked(23).is_some_and(|(front, zone)| {
        front.bytes().zip(*b"0000-00-00T00:00:00.000").all(same_kind) && zone.starts_with(['+', '-', 'Z'])
    });
    match with_zone.parse::<Timestamp>() {
        Ok(timestamp) if exact && !time.contains(['[', ',']) => Ok(timestamp.as_millisecond()),
        _ => bail!("Unparseable date: \"{with_zone}\""),
    }
}

fn same_kind((byte, pattern): (u8, u8)) -> bool {
    if pattern == b'0' { byte.is_ascii_digit() } else { byte == pattern }
}

/// Milliseconds of `PnDTnHnMnS`, a day being 24 hours; a minus in front turns it round.
pub fn duration_ms(text: &str) -> anyhow::Result<i64> {
    let iso = text.trim_start_matches(['+', '-']).starts_with(['P', 'p']);
    let days = SpanRelativeTo::days_are_24_hours();
    match text.parse::<Span>().and_then(|span| span.to_duration(days)) {
        Ok(duration) if iso => Ok(i64::try_from(duration.as_millis())?),
        _ => bail!("Text cannot be parsed to a Duration"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // What is taken and what is refused was seen with Kafka's tool of 3.9.1.

    #[test]
    fn datetimes_are_utc_unless_they_say_otherwise() {
        for (text, ms) in [
            ("1970-01-02T00:00:00.001", 86_400_001),
            ("2020-01-01T00:00:00.000", 1_577_836_800_000),
            ("2020-01-01T00:00:00.000Z", 1_577_836_800_000),
            ("2020-01-01T00:00:00.000+02:00", 1_577_829_600_000),
            ("2020-01-01T00:00:00.000+0200", 1_577_829_600_000),
            ("2020-01-01T00:00:00.000-01", 1_577_840_400_000),
        ] {
            assert_eq!(datetime_ms(text).unwrap(), ms, "{text}");
        }
        for (text, why) in [
            ("yesterday", "Error parsing timestamp. It does not contain a 'T' according to ISO8601 format"),
            ("2020-01-01T00:00:00", "Unparseable date: \"2020-01-01T00:00:00Z\""),
            ("2020-13-01T00:00:00.000", "Unparseable date: \"2020-13-01T00:00:00.000Z\""),
            ("2020-01-01T00:00:00.0001", "Unparseable date: \"2020-01-01T00:00:00.0001Z\""),
            ("T", "Unparseable date: \"TZ\""),
        ] {
            assert_eq!(datetime_ms(text).unwrap_err().to_string(), why);
        }
    }

    #[test]
    fn durations_are_days_and_time() {
        for (text, ms) in [
            ("PT1H", 3_600_000),
            ("P1DT0H0M0S", 86_400_000),
            ("P2D", 172_800_000),
            ("-PT1H", -3_600_000),
            ("PT1.5S", 1500),
        ] {
            assert_eq!(duration_ms(text).unwrap(), ms, "{text}");
        }
        for text in ["5", "1 hour", "P1M", "P1Y", "", "PT"] {
            assert!(duration_ms(text).is_err(), "{text}");
        }
    }
}
