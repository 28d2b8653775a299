//! Rules of this tree that the compiler does not know: arrows between rooms point down only, files stay small, clocks
//! and `unsafe` stay in their places. Reads the sources as text.

use std::fs;
use std::path::{Path, PathBuf};

/// The rooms from the bottom up. A room may use itself and those before it. Neighbours in one line are on one level
/// and do not use each other.
const ORDER: &[&[&str]] = &[
    &["alloc"],
    &["types"],
    &["clock", "loggers", "random", "spawn"],
    &["wire"],
    &["config"],
    &["environment"],
    &["storage"],
    &["metastore"],
    &["quota"],
    &["cluster"],
    &["replication"],
    &["controller", "coordinator"],
    &["api"],
    &["net"],
    &["broker"],
    &["cli", "sim"],
    &["lib", "main", "tidy"],
];

/// Files that may say `unsafe`, each with the reason in its head.
const MAY_BE_UNSAFE: &[&str] = &["alloc.rs", "wire/crc32c.rs"];

/// Lines a file may have before the second noun has to be found.
const MAX_LINES: usize = 700;

/// What stands in for code that is not there.
const UNWRITTEN: &[&str] = &["todo!(", "unimplemented!("];

struct Source {
    /// Below `src`.
    path: PathBuf,
    text: String,
}

fn sources() -> Vec<Source> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    paths.sort();
    let read = |path: PathBuf| Source {
        text: fs::read_to_string(&path).expect("a source file"),
        path: path.strip_prefix(&root).expect("below src").to_owned(),
    };
    paths.into_iter().map(read).collect()
}

impl Source {
    /// The room: `net` of `net/tcp.rs`, `clock` of `clock.rs`.
    fn room(&self) -> String {
        let first = self.path.components().next().expect("a component").as_os_str().to_string_lossy();
        first.trim_end_matches(".rs").to_owned()
    }

    /// Where the files of its own modules lie: `net` for `net/mod.rs`, `storage/log` for `storage/log.rs`.
    fn module_dir(&self) -> PathBuf {
        match self.path.file_name().and_then(|name| name.to_str()) {
            Some("mod.rs" | "lib.rs" | "main.rs") => self.path.parent().unwrap_or(Path::new("")).to_owned(),
            _ => self.path.with_extension(""),
        }
    }

    /// The modules it declares for tests alone, as paths without extension.
    fn test_modules(&self) -> Vec<PathBuf> {
        let lines: Vec<&str> = self.text.lines().collect();
        let declared = lines.windows(2).filter(|pair| pair[0].trim() == "#[cfg(test)]").filter_map(|pair| {
            let name = pair[1].trim().strip_suffix(';')?.split("mod ").nth(1)?;
            Some(self.module_dir().join(name))
        });
        declared.collect()
    }

    /// Lines without comments, up to the tests inside the file, numbered from 1.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(n, line)| (n + 1, line));
        lines
            .take_while(|(_, line)| !line.starts_with("mod tests {"))
            .map(|(n, line)| (n, line.split("//").next().unwrap_or_default()))
    }

    fn at(&self, line: usize) -> String {
        format!("src/{}:{line}", self.path.display())
    }
}

fn level(room: &str) -> usize {
    let found = ORDER.iter().position(|level| level.contains(&room));
    found.unwrap_or_else(|| panic!("room {room} has no place in tidy::ORDER"))
}

/// Rooms that `line` names: the word behind each `crate::`, or the words of a group behind it.
fn rooms_named(line: &str) -> Vec<String> {
    let word = |text: &str| text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut rooms = Vec::new();
    for rest in line.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            Some(group) => rooms.extend(group.split(['}', ';']).next().unwrap_or_default().split(',').map(word)),
            None => rooms.push(word(rest)),
        }
    }
    rooms.retain(|room| !room.is_empty());
    rooms
}

fn report(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

/// Where one of `sources`, tests aside, uses a room that is not below its own.
fn upward_arrows(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    let tests: Vec<PathBuf> = sources.iter().flat_map(Source::test_modules).collect();
    for source in sources.iter().filter(|source| !tests.iter().any(|test| source.module_dir().starts_with(test))) {
        let from = source.room();
        for (n, line) in source.code() {
            for to in rooms_named(line) {
                let points_down = from == to || level(&to) < level(&from);
                if !points_down {
                    found.push(format!("{}: {from} uses {to}", source.at(n)));
                }
            }
        }
    }
    found
}

/// Those of `sources` that have too many lines.
fn long_files(sources: &[Source]) -> Vec<String> {
    let lines = |source: &Source| source.text.lines().count();
    sources
        .iter()
        .filter(|source| lines(source) > MAX_LINES)
        .map(|source| format!("src/{} has {} lines", source.path.display(), lines(source)))
        .collect()
}

/// Where one of `sources` says that something is not written yet.
fn unwritten_code(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| source.room() != "tidy") {
        let says = |line: &str| UNWRITTEN.iter().any(|word| line.contains(word));
        found.extend(source.code().filter(|(_, line)| says(line)).map(|(n, _)| source.at(n)));
    }
    found
}

#[test]
fn arrows_point_down() {
    report("a room uses one above it", &upward_arrows(&sources()));
}

#[test]
fn files_stay_small() {
    let found = long_files(&sources());
    report(&format!("more than {MAX_LINES} lines: look for the second noun"), &found);
}

#[test]
fn nothing_is_left_unwritten() {
    report("code that is not written yet", &unwritten_code(&sources()));
}

#[test]
fn unsafe_stays_in_its_place() {
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| !MAY_BE_UNSAFE.iter().any(|file| source.path == Path::new(file))) {
        let blocks = source.code().filter(|(_, line)| line.contains("unsafe ") || line.contains("unsafe_code"));
        found.extend(blocks.filter(|_| source.room() != "tidy").map(|(n, _)| source.at(n)));
    }
    report("unsafe outside the named files", &found);
}

#[test]
fn clocks_are_read_in_one_place() {
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| !["clock", "tidy"].contains(&source.room().as_str())) {
        // tokio's instants are deadlines for tokio's timers, and stand still with them in a simulation.
        let tokios = source.text.contains("tokio::time::{Instant") || source.text.contains("tokio::time::Instant");
        let reads = source
            .code()
            .filter(|(_, line)| line.contains("SystemTime::now") || (line.contains("Instant::now") && !tokios));
        found.extend(reads.map(|(n, _)| source.at(n)));
    }
    report("a clock is read outside clock.rs", &found);
}

#[test]
fn names_behind_crate_are_found() {
    assert_eq!(rooms_named("use crate::net::tcp;"), ["net"]);
    assert_eq!(rooms_named("use crate::{api, net::tcp};"), ["api", "net"]);
    assert_eq!(rooms_named("let x = crate::clock::now() + crate::types::X;"), ["clock", "types"]);
    assert!(rooms_named("use super::tcp;").is_empty());
}

/// A file of this tree that does not exist.
fn fake(path: &str, text: &str) -> Vec<Source> {
    vec![Source { path: path.into(), text: text.to_owned() }]
}

#[test]
fn an_arrow_that_points_up_is_found() {
    let up = fake(
        "wire/frame.rs",
        "//! crate::net is named here only.\nuse crate::types::Offset;\nuse crate::net::tcp::Tcp;\n",
    );
    assert_eq!(upward_arrows(&up), ["src/wire/frame.rs:3: wire uses net"]);
    assert_eq!(upward_arrows(&fake("api/mod.rs", "fn f() {\n    crate::broker::start();\n}")).len(), 1);
    // Neighbours do not use each other.
    assert_eq!(upward_arrows(&fake("clock.rs", "use crate::random::Random;")).len(), 1);
    let down = "use crate::wire::frame;\nuse crate::net::pool;\nmod tests {\n    use crate::sim::disk;\n}\n";
    assert_eq!(upward_arrows(&fake("net/tcp.rs", down)), [""; 0]);
    let mut with_tests = fake("storage/log.rs", "#[cfg(test)]\nmod tests;\n");
    with_tests.extend(fake("storage/log/tests.rs", "use crate::sim::disk;\n"));
    assert_eq!(upward_arrows(&with_tests), [""; 0]);
}

#[test]
fn a_file_that_is_too_long_is_found() {
    assert_eq!(long_files(&fake("net/tcp.rs", &"\n".repeat(MAX_LINES))), [""; 0]);
    assert_eq!(long_files(&fake("net/tcp.rs", &"\n".repeat(MAX_LINES + 1))), ["src/net/tcp.rs has 701 lines"]);
}

#[test]
fn code_that_is_not_written_is_found() {
    assert_eq!(
        unwritten_code(&fake("net/tcp.rs", "// todo!() as a word\nfn f() {\n    todo!()\n}\n")),
        ["src/net/tcp.rs:3"]
    );
}
