//! `klamm dump-log` against what `kafka.tools.DumpLogSegments` of 3.9.1 printed for the same files.

// The lint spares test functions, not what they call.
#![allow(clippy::unwrap_used)]

#[path = "support/archive.rs"]
mod archive;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const DATA_DIR: &[u8] = include_bytes!("fixtures/data-dir-3.9.1.tar.gz");

/// The recorded directory on disk, and its files for the tool.
fn data_dir() -> (TempDir, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for (path, bytes) in archive::files(DATA_DIR) {
        let Some((partition, _)) = path.split_once('/').filter(|(_, name)| !name.is_empty()) else { continue };
        fs::create_dir_all(dir.path().join(partition)).unwrap();
        fs::write(dir.path().join(&path), bytes).unwrap();
        paths.push(path);
    }
    (dir, paths)
}

fn dump(dir: &Path, files: &[String], flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_klamm"));
    command.current_dir(dir).args(["dump-log", "--files", &files.join(",")]).args(flags);
    command.output().unwrap()
}

/// The files of the recorded run, in its order.
fn chosen(paths: &[String], extensions: &[&str]) -> Vec<String> {
    let wanted = |path: &&String| extensions.iter().any(|extension| path.ends_with(extension));
    let mut chosen: Vec<String> = paths.iter().filter(wanted).cloned().collect();
    chosen.sort();
    chosen
}

macro_rules! prints_what_kafka_prints {
    ($($test:ident: $recorded:literal, $extensions:expr, $flags:expr;)*) => {$(
        #[test]
        fn $test() {
            let (dir, paths) = data_dir();
            let files = chosen(&paths, $extensions);
            let output = dump(dir.path(), &files, $flags);
            let recorded = archive::unzip(include_bytes!(concat!("fixtures/dump-log-3.9.1/", $recorded, ".gz")));
            let (ours, theirs) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(recorded).unwrap());
            for (n, (ours, theirs)) in ours.lines().zip(theirs.lines()).enumerate() {
                assert_eq!(ours, theirs, "line {}", n + 1);
            }
            assert!(ours == theirs, "{} bytes, not {}", ours.len(), theirs.len());
            assert!(output.status.success());
        }
    )*};
}

const ALL: &[&str] = &[".log", ".index", ".timeindex", ".txnindex", ".snapshot"];
const LOGS: &[&str] = &[".log"];

prints_what_kafka_prints! {
    batches_and_entries: "shallow", ALL, &[];
    records_with_contents: "data", LOGS, &["--print-data-log"];
    records_of_the_first_bytes: "max-bytes", LOGS, &["--deep-iteration", "--max-bytes", "500"];
    contents_alone: "skip", LOGS, &["--print-data-log", "--skip-record-metadata"];
    sanity: "sanity", ALL, &["--index-sanity-check"];
    verified_indexes: "verify", ALL, &["--verify-index-only"];
}

#[test]
fn what_does_not_fit_is_told_at_the_end() {
    let (dir, paths) = data_dir();
    let err = String::from_utf8(dump(dir.path(), &chosen(&paths, ALL), &["--deep-iteration"]).stderr).unwrap();
    let path = fs::canonicalize(dir.path()).unwrap().join("comp-0/00000000000000000028.log");
    let expected = format!(
        "The following indexed offsets are not found in the log.\nIndexed offset: 5, found log offset: 7\n\
         Non-consecutive offsets in {}\n  36 is followed by 39\n",
        path.display()
    );
    assert_eq!(err, expected);
}

#[test]
fn a_damaged_file_is_a_line_on_stderr_and_the_next_is_dumped() {
    let dir = tempfile::tempdir().unwrap();
    let files = archive::files(DATA_DIR);
    let mut log = files["gzip-0/00000000000000000000.log"].clone();
    let first = 12 + u32::from_be_bytes(log[8..12].try_into().unwrap()) as usize;
    log[first + 11] = 3;
    log[first + 10] = 0;
    fs::write(dir.path().join("00000000000000000000.log"), &log).unwrap();
    let cut = &files["lz4-0/00000000000000000000.log"];
    fs::write(dir.path().join("00000000000000000007.log"), &cut[..cut.len() - 1]).unwrap();
    let names = ["00000000000000000000.log".to_owned(), "9.txt".to_owned(), "00000000000000000007.log".to_owned()];
    let output = dump(dir.path(), &names, &["--print-data-log"]);
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(err.starts_with(&format!("{}: size 3 at offset 5 is smaller than any message", names[0])), "{err}");
    assert!(err.contains("Ignoring unknown file 9.txt"), "{err}");
    assert!(out.contains("Log starting offset: 7\n"), "{out}");
    assert!(out.ends_with("invalid bytes at the end of 00000000000000000007.log\n"), "{out}");
    assert_eq!(output.status.code(), Some(1));
}
