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

use std::io;
use std::path::Path;

use super::atomic_file;
use super::disk::Disk;
use crate::config::properties;
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
        let mut keys = properties::parse(&bytes).map_err(|error| bad(error.to_string()))?;
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
        let broker_id = self.broker_id.map(|id| id.to_string());
        let version = self.version.to_string();
        let entries = [
            (if self.version == 0 { "broker.id" } else { "node.id" }, broker_id.as_deref()),
            ("version", Some(&*version)),
            ("cluster.id", self.cluster_id.as_deref()),
            ("directory.id", self.directory_id.as_deref()),
        ];
        let entries = entries.into_iter().filter_map(|(key, value)| Some((key, value?)));
        let text = format!("#\n{}", properties::write(&[&java_date(now_ms)], entries));
        atomic_file::replace(disk, &dir.join(NAME), text.as_bytes())
    }
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
    use std::sync::Arc;

    use super::*;
    use crate::clock::ManualClock;
    use crate::sim::disk::SimDisk;

    #[test]
    fn dates_are_javas() {
        assert_eq!(java_date(0), "Thu Jan 01 00:00:00 UTC 1970");
        assert_eq!(java_date(1_709_210_096_000), "Thu Feb 29 12:34:56 UTC 2024");
        assert_eq!(java_date(1_795_975_200_000), "Sun Nov 29 18:00:00 UTC 2026");
    }

    #[test]
    fn an_id_of_any_characters_comes_back() {
        let disk = SimDisk::new(Arc::new(ManualClock::at(0)));
        let dir = Path::new("/logs");
        disk.create_dir_all(dir).unwrap();
        for id in ["#y=z", " a b ", "ends in a return\r", "\t\n\u{c}", "\\", "\u{e9}\u{1f30a}"] {
            let written = MetaProperties {
                version: 0,
                broker_id: Some(BrokerId(1)),
                cluster_id: Some(id.to_owned()),
                directory_id: None,
            };
            written.write(&disk, dir, 0).unwrap();
            assert_eq!(MetaProperties::read(&disk, dir).unwrap(), Some(written), "{id:?}");
        }
    }
}
