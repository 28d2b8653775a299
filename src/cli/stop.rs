//! `kafka-server-stop`: SIGTERM to every broker of this program that runs on this machine, as Kafka's script finds its own.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, process};

use rustix::process::{Pid, Signal, kill_process};

/// 1 when there is none.
pub fn main() -> ExitCode {
    let own = env::current_exe().ok();
    let mut found = false;
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        if u32::try_from(id) == Ok(process::id()) || fs::read_link(entry.path().join("exe")).ok() != own {
            continue;
        }
        let Ok(command) = fs::read(entry.path().join("cmdline")) else { continue };
        if let Some(pid) = Pid::from_raw(id).filter(|_| is_broker(&command)) {
            match kill_process(pid, Signal::TERM) {
                Ok(()) => found = true,
                Err(error) => eprintln!("process {id}: {error}"),
            }
        }
    }
    if found {
        return ExitCode::SUCCESS;
    }
    println!("No kafka server to stop");
    ExitCode::FAILURE
}

/// Whether the words of a process, each ended by a zero, are those of a broker.
fn is_broker(command: &[u8]) -> bool {
    let words: Vec<_> = command.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    let name = words.first().map(|word| Path::new(&**word)).and_then(Path::file_name);
    let name = name.map(|name| name.to_string_lossy().trim_end_matches(".sh").to_owned()).unwrap_or_default();
    let first = words.get(1).map(|word| &**word).unwrap_or_default();
    match name.as_str() {
        "kafka-server-start" => true,
        "kafka-run-class" => words.iter().any(|word| word == "kafka.Kafka"),
        name if name.starts_with("kafka-") || name == "cub" => false,
        // Without a subcommand the broker is started: a flag, a path, or nothing.
        _ => first.is_empty() || first == "server" || first.starts_with('-') || first.contains(['/', '.']),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_are_told_from_tools() {
        for broker in [
            "klamm\0",
            "/usr/bin/klamm\0server\0--from-environment\0",
            "klamm\0--override\0a=b\0",
            "klamm\0server.properties\0",
            "/opt/kafka/bin/kafka-server-start.sh\0/x/server.properties\0",
        ] {
            assert!(is_broker(broker.as_bytes()), "{broker}");
        }
        for tool in [
            "klamm\0topics\0--list\0",
            "kafka-topics.sh\0--list\0",
            "cub\0kafka-ready\x001\x0020\0",
            "kafka-server-stop\0",
        ] {
            assert!(!is_broker(tool.as_bytes()), "{tool}");
        }
    }
}
