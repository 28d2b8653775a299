//! How much each part of the broker says in its log: what Kafka's tools call the loggers of a broker.
//!
//! A logger is a path of this tree with dots, `klamm.net` or finer `klamm.net.server`: `kafka-configs` takes no colons, which
//! `target` in the log's JSON form and `--log-level` have. One without a level of its own has that of the longest path
//! before it that has one, at last that of `root`. Levels begin as `--log-level` says, are altered while the broker runs,
//! and are not kept over a restart; as in Kafka.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use parking_lot::Mutex;
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};

/// What every other logger inherits from.
pub const ROOT: &str = "root";

/// The parts that say something.
const PARTS: &[&str] = &[
    "klamm",
    "klamm.api",
    "klamm.broker",
    "klamm.cli",
    "klamm.cluster",
    "klamm.config",
    "klamm.controller",
    "klamm.coordinator",
    "klamm.metastore",
    "klamm.net",
    "klamm.quota",
    "klamm.replication",
    "klamm.storage",
];

/// What a logger may be set to: log4j's levels, in its words. Nothing here is fatal enough for [`Level::Fatal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Only from `--log-level`; nobody may set it (as in Kafka).
    Off,
    Fatal,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl Level {
    /// Those that may be set.
    pub const SETTABLE: [Level; 6] = [Level::Fatal, Level::Error, Level::Warn, Level::Info, Level::Debug, Level::Trace];

    pub fn word(self) -> &'static str {
        match self {
            Level::Off => "OFF",
            Level::Fatal => "FATAL",
            Level::Error => "ERROR",
            Level::Warn => "WARN",
            Level::Info => "INFO",
            Level::Debug => "DEBUG",
            Level::Trace => "TRACE",
        }
    }

    fn filter(self) -> LevelFilter {
        match self {
            Level::Off | Level::Fatal => LevelFilter::OFF,
            Level::Error => LevelFilter::ERROR,
            Level::Warn => LevelFilter::WARN,
            Level::Info => LevelFilter::INFO,
            Level::Debug => LevelFilter::DEBUG,
            Level::Trace => LevelFilter::TRACE,
        }
    }

    fn of(filter: LevelFilter) -> Level {
        let same = Level::SETTABLE.into_iter().skip(1).find(|level| level.filter() == filter);
        same.unwrap_or(Level::Off)
    }
}

/// The loggers that have a level of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    root: Level,
    own: BTreeMap<String, Level>,
}

impl Default for Levels {
    fn default() -> Levels {
        Levels { root: Level::Info, own: BTreeMap::new() }
    }
}

/// As in `RUST_LOG`: a level, or `target=level`, several separated by commas.
impl FromStr for Levels {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Levels, ParseError> {
        let targets: Targets = text.parse()?;
        let root = targets.default_level().map_or(Level::Off, Level::of);
        let own = targets.iter().map(|(target, filter)| (target.replace("::", "."), Level::of(filter)));
        Ok(Levels { root, own: own.collect() })
    }
}

impl Levels {
    /// What lets through what they say.
    pub fn targets(&self) -> Targets {
        let own = self.own.iter().map(|(name, level)| (name.replace('.', "::"), level.filter()));
        Targets::new().with_default(self.root.filter()).with_targets(own)
    }

    fn of(&self, logger: &str) -> Level {
        let before = self.own.iter().filter(|(name, _)| logger.starts_with(name.as_str()));
        before.max_by_key(|(name, _)| name.len()).map_or(self.root, |(_, level)| *level)
    }
}

/// What is done with changed levels.
type Apply = Box<dyn Fn(Targets) + Send + Sync>;

/// The loggers of a running broker.
pub struct Loggers {
    levels: Mutex<Levels>,
    apply: Apply,
}

impl fmt::Debug for Loggers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.levels.lock().fmt(f)
    }
}

impl Loggers {
    /// `apply` is told of every change.
    pub fn new(levels: Levels, apply: impl Fn(Targets) + Send + Sync + 'static) -> Loggers {
        Loggers { levels: Mutex::new(levels), apply: Box::new(apply) }
    }

    /// Each logger there is, in the order of their names, and the level that counts for it.
    pub fn list(&self) -> Vec<(String, Level)> {
        let levels = self.levels.lock();
        let mut names: BTreeSet<&str> = PARTS.iter().copied().collect();
        names.extend(levels.own.keys().map(String::as_str));
        let named = names.into_iter().map(|name| (name.to_owned(), levels.of(name)));
        named.chain([(ROOT.to_owned(), levels.root)]).collect()
    }

    /// Whether there is such a logger.
    pub fn has(&self, name: &str) -> bool {
        name == ROOT || PARTS.contains(&name) || self.levels.lock().own.contains_key(name)
    }

    /// Gives loggers a level, or with `None` takes their own away. That of [`ROOT`] stays.
    pub fn alter(&self, changes: impl IntoIterator<Item = (String, Option<Level>)>) {
        let mut levels = self.levels.lock();
        for (name, level) in changes {
            match level {
                Some(level) if name == ROOT => levels.root = level,
                Some(level) => _ = levels.own.insert(name, level),
                None => _ = levels.own.remove(&name),
            }
        }
        // Under the lock: the last change is the last applied.
        (self.apply)(levels.targets());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;

    fn level(loggers: &Loggers, name: &str) -> Option<&'static str> {
        loggers.list().into_iter().find(|(logger, _)| logger == name).map(|(_, level)| level.word())
    }

    #[test]
    fn every_part_that_says_something_is_a_logger() {
        fn speaks(path: &Path) -> bool {
            if path.is_dir() {
                return fs::read_dir(path).expect("a directory").any(|entry| speaks(&entry.expect("an entry").path()));
            }
            // Found apart from this line.
            let speech = concat!("tracing", "::");
            let words = ["error!", "warn!", "info!", "debug!", "trace!"];
            let text = fs::read_to_string(path).unwrap_or_default();
            words.iter().any(|word| text.contains(&format!("{speech}{word}")))
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut parts = vec!["klamm".to_owned()];
        for entry in fs::read_dir(source).expect("src") {
            let path = entry.expect("an entry").path();
            if speaks(&path) {
                parts.push(format!("klamm.{}", path.file_stem().expect("a name").to_string_lossy()));
            }
        }
        parts.sort();
        assert_eq!(parts, PARTS);
    }

    #[test]
    fn a_logger_has_its_own_level_or_that_of_the_nearest_before_it() {
        let loggers = Loggers::new("warn,klamm::net=debug,klamm::storage::log=trace".parse().expect("levels"), drop);
        for (name, expected) in [
            ("root", Some("WARN")),
            ("klamm", Some("WARN")),
            ("klamm.net", Some("DEBUG")),
            ("klamm.storage", Some("WARN")),
            ("klamm.storage.log", Some("TRACE")),
            ("klamm.nowhere", None),
        ] {
            assert_eq!(level(&loggers, name), expected, "{name}");
            assert_eq!(loggers.has(name), expected.is_some(), "{name}");
        }
        loggers.alter([("klamm".to_owned(), Some(Level::Error)), (ROOT.to_owned(), Some(Level::Info))]);
        assert_eq!(level(&loggers, "klamm.api"), Some("ERROR"));
        assert_eq!(level(&loggers, "klamm.net"), Some("DEBUG"));
        loggers.alter([("klamm.net".to_owned(), None), (ROOT.to_owned(), None)]);
        assert_eq!((level(&loggers, "klamm.net"), level(&loggers, "root")), (Some("ERROR"), Some("INFO")));
    }

    #[test]
    fn what_is_let_through_changes_with_the_levels() {
        let applied = Arc::new(Mutex::new(Levels::default().targets()));
        let loggers = Loggers::new(Levels::default(), {
            let applied = applied.clone();
            move |targets| *applied.lock() = targets
        });
        let heard = |target: &str, level| applied.lock().would_enable(target, &level);
        assert!(!heard("klamm::net::server", tracing::Level::DEBUG));
        loggers.alter([("klamm.net".to_owned(), Some(Level::Debug))]);
        assert!(heard("klamm::net::server", tracing::Level::DEBUG));
        assert!(!heard("klamm::api", tracing::Level::DEBUG));
        loggers.alter([("klamm.net".to_owned(), Some(Level::Fatal))]);
        assert!(!heard("klamm::net::server", tracing::Level::ERROR));
        assert_eq!(level(&loggers, "klamm.net"), Some("FATAL"));
    }

    #[test]
    fn the_filter_of_the_start_is_read_as_before() {
        for text in ["info", "off", "klamm::net=debug", "info,klamm=off"] {
            let levels: Levels = text.parse().expect(text);
            let targets: Targets = text.parse().expect(text);
            for (target, level) in [("klamm::net::x", tracing::Level::DEBUG), ("h2", tracing::Level::ERROR)] {
                assert_eq!(
                    levels.targets().would_enable(target, &level),
                    targets.would_enable(target, &level),
                    "{text}"
                );
            }
        }
        assert!("klamm=loud".parse::<Levels>().is_err());
    }
}
