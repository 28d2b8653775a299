//! The releases that `inter.broker.protocol.version` and `message.format.version` can name.

/// As 3.9.1 lists them, oldest first.
pub const RELEASES: &[&str] = &[
    "0.8.0",
    "0.8.1",
    "0.8.2",
    "0.9.0",
    "0.10.0-IV0",
    "0.10.0-IV1",
    "0.10.1-IV0",
    "0.10.1-IV1",
    "0.10.1-IV2",
    "0.10.2-IV0",
    "0.11.0-IV0",
    "0.11.0-IV1",
    "0.11.0-IV2",
    "1.0-IV0",
    "1.1-IV0",
    "2.0-IV0",
    "2.0-IV1",
    "2.1-IV0",
    "2.1-IV1",
    "2.1-IV2",
    "2.2-IV0",
    "2.2-IV1",
    "2.3-IV0",
    "2.3-IV1",
    "2.4-IV0",
    "2.4-IV1",
    "2.5-IV0",
    "2.6-IV0",
    "2.7-IV0",
    "2.7-IV1",
    "2.7-IV2",
    "2.8-IV0",
    "2.8-IV1",
    "3.0-IV0",
    "3.0-IV1",
    "3.1-IV0",
    "3.2-IV0",
    "3.3-IV0",
    "3.3-IV1",
    "3.3-IV2",
    "3.3-IV3",
    "3.4-IV0",
    "3.5-IV0",
    "3.5-IV1",
    "3.5-IV2",
    "3.6-IV0",
    "3.6-IV1",
    "3.6-IV2",
    "3.7-IV0",
    "3.7-IV1",
    "3.7-IV2",
    "3.7-IV3",
    "3.7-IV4",
    "3.8-IV0",
    "3.9-IV0",
    "4.0-IV0",
    "4.0-IV1",
];

/// Whether `text` names a release: exactly one of the list, or its first two numbers (three for `0.x`) with anything
/// behind them (`3.9`, `3.9.1`).
pub fn is_known(text: &str) -> bool {
    named(text).is_some()
}

/// The release that `text` names, the last of its short form.
pub fn named(text: &str) -> Option<&'static str> {
    let parts: Vec<&str> = text.split('.').collect();
    let wanted = if parts.first() == Some(&"0") { 3 } else { 2 };
    let short = parts.get(..wanted).map(|parts| parts.join(".")).unwrap_or_else(|| text.to_owned());
    let names = |release: &&&str| **release == short || release.split('-').next() == Some(short.as_str());
    RELEASES.iter().rev().find(names).copied()
}
