//! `meta.properties`: whose directory this is, as a ZooKeeper-mode 3.9.1 broker writes it.
//!
//! ```text
//! #
//! #Sun Nov 29 10:00:00 UTC 2026
//! broker.id=1
//! version=0
//! cluster.id=YfD-6pUITVuXVain1RHbIw
//! ```
//! Version 1 belongs to KRaft and is never taken over.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::atomic_file;
use super::disk::Disk;
use crate::types::BrokerId;

pub const NAME: &str = "meta.properties";

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetaProperties {
    /// 0 (ZooKeeper mode; also when absent) or 1 (KRaft).
    pub version: i32,
    /// `broker.id`, or `node.id` in version 1.
    pub broker_id: Option<BrokerId>,
    pub cluster_id: Option<String>,
    pub directory_id: Option<String>,
}

impl MetaProperties {
    pub fn read(disk: &dyn Disk, dir: &Path) -> io::Result<Option<MetaProperties>> {
        let path = dir.join(NAME);
        let Some(bytes) = atomic_file::read_if_there(disk, &path)? else { return Ok(None) };
        let bad = |what: String| io::Error::new(io::ErrorKind::InvalidData, format!("{} has {what}", path.display()));
        let text = String::from_utf8(bytes).map_err(|_| bad("bytes that are no UTF-8".into()))?;
        let mut keys = parse(&text);
        let version = match keys.remove("version") {
            None => 0,
            Some(text) => text.parse().map_err(|_| bad(format!("version={text}")))?,
        };
        let id = keys.remove(if version == 0 { "broker.id" } else { "node.id" });
        let broker_id = match id {
            None => None,
            Some(text) => Some(BrokerId(text.parse().map_err(|_| bad(format!("broker id {text}")))?)),
        };
        Ok(Some(MetaProperties {
            version,
            broker_id,
            cluster_id: keys.remove("cluster.id"),
            directory_id: keys.remove("directory.id"),
        }))
    }

    /// Writes the file durably; `now_ms` is for its date line.
    pub fn write(&self, disk: &dyn Disk, dir: &Path, now_ms: i64) -> io::Result<()> {
        let mut text = format!("#\n#{}\n", java_date(now_ms));
        if let Some(id) = self.broker_id {
            text += &format!("broker.id={id}\n");
        }
        text += &format!("version={}\n", self.version);
        if let Some(id) = &self.cluster_id {
            text += &format!("cluster.id={}\n", escape(id));
        }
        if let Some(id) = &self.directory_id {
            text += &format!("directory.id={}\n", escape(id));
        }
        atomic_file::replace(disk, &dir.join(NAME), text.as_bytes())
    }
}

/// Java properties, as far as ids need them: comments, `=` `:` or blank between key and value, backslash escapes.
fn parse(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .map(str::trim_start)
        .filter(|line| !line.is_empty() && !line.starts_with(['#', '!']))
        .map(|line| {
            let mut split = line.len();
            let mut escaped = false;
            for (at, c) in line.char_indices() {
                match c {
                    _ if escaped => escaped = false,
                    '\\' => escaped = true,
                    '=' | ':' | ' ' | '\t' => {
                        split = at;
                        break;
                    }
                    _ => {}
                }
            }
            let (key, rest) = line.split_at(split);
            let rest = rest.trim_start_matches([' ', '\t']);
            let value = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start_matches([' ', '\t']);
            (unescape(key), unescape(value))
        })
        .collect()
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('t') => out.push('\t'),
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => {}
            },
            (c, false) => out.push(c),
        }
    }
    out
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | '=' | ':' | '#' | '!') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// `Sun Nov 29 10:00:00 UTC 2026`, from days since the epoch in the proleptic Gregorian calendar.
fn java_date(now_ms: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = now_ms.div_euclid(1000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years begin in March here, so that the leap day comes last.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = (shifted_month + 2) % 12;
    let year = year_of_era + era * 400 + i64::from(month < 2);
    format!(
        "{} {} {day:02} {:02}:{:02}:{:02} UTC {year}",
        DAYS[days.rem_euclid(7) as usize],
        MONTHS[month as usize],
        second / 3600,
        second / 60 % 60,
        second % 60,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_javas() {
        assert_eq!(java_date(0), "Thu Jan 01 00:00:00 UTC 1970");
        assert_eq!(java_date(1_709_210_096_000), "Thu Feb 29 12:34:56 UTC 2024");
        assert_eq!(java_date(1_795_975_200_000), "Sun Nov 29 18:00:00 UTC 2026");
    }

    #[test]
    fn escapes_come_back() {
        let keys = parse("#c\n a : b\nx=\\#y\\=z\nempty=\n");
        assert_eq!(keys["a"], "b");
        assert_eq!(keys["x"], "#y=z");
        assert_eq!(keys["empty"], "");
        assert_eq!(escape("#y=z"), "\\#y\\=z");
    }
}
