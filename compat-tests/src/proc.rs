//! Programs of other people: found, run with a time limit, their output kept.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::lane::skip;

/// What a program said before it ended.
#[derive(Debug)]
pub struct Output {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Output {
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Standard output and error, one after the other.
    pub fn all(&self) -> String {
        self.out() + &self.err()
    }

    /// Fails with the end of what was said unless the program ended with 0.
    pub fn ok(self) -> Result<Output> {
        if !self.status.success() {
            bail!("{}: {}", self.status, tail(&self.all(), 12));
        }
        Ok(self)
    }
}

/// The last `lines` lines.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Runs to the end or for `limit`, whichever comes first; past it the whole process group is killed.
pub fn run(command: &mut Command, input: &[u8], limit: Duration) -> Result<Output> {
    supervised(command, limit, |mut stdin, mut stdout| {
        thread::scope(|scope| {
            scope.spawn(move || {
                // A program that ends before reading everything is judged by its exit code.
                let _ = stdin.as_mut().map(|pipe| pipe.write_all(input));
            });
            drain(stdout.as_mut())
        })
    })
}

/// As [`run`]; `answer` sees each line of standard output and may say a line to the program's standard input.
pub fn converse(
    command: &mut Command,
    limit: Duration,
    mut answer: impl FnMut(&str) -> Option<String> + Send,
) -> Result<Output> {
    supervised(command, limit, |mut stdin, stdout| {
        let (mut heard, mut start) = (Vec::new(), 0);
        let Some(stdout) = stdout else { return heard };
        let mut lines = BufReader::new(stdout);
        while lines.read_until(b'\n', &mut heard).is_ok_and(|read| read > 0) {
            if let Some(said) = answer(String::from_utf8_lossy(&heard[start..]).trim_end()) {
                // One that does not listen is judged by what it says afterwards.
                let _ = stdin.as_mut().map(|pipe| pipe.write_all((said + "\n").as_bytes()));
            }
            start = heard.len();
        }
        heard
    })
}

/// Runs the program with `talk` at its standard input and output; `talk` answers what it read.
fn supervised(
    command: &mut Command,
    limit: Duration,
    talk: impl FnOnce(Option<ChildStdin>, Option<ChildStdout>) -> Vec<u8> + Send,
) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().with_context(|| format!("start {name}"))?;
    let (stdin, stdout, mut stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        let out = scope.spawn(move || talk(stdin, stdout));
        let err = scope.spawn(move || drain(stderr.as_mut()));
        let status = wait(&mut child, limit)?;
        if status.is_none() {
            kill_group(&child);
        }
        let ended = child.wait()?;
        let output =
            Output { status: ended, stdout: out.join().unwrap_or_default(), stderr: err.join().unwrap_or_default() };
        match status {
            Some(_) => Ok(output),
            None => bail!("{name} did not end within {} s: {}", limit.as_secs(), tail(&output.all(), 8)),
        }
    })
}

fn drain(pipe: Option<&mut impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let _ = pipe.read_to_end(&mut bytes);
    }
    bytes
}

/// `None` when the child still runs after `limit`.
pub fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let until = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn kill_group(child: &Child) {
    if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
}

/// The program's path, or a skip that names it.
pub fn tool(name: &str) -> Result<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    match std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file()) {
        Some(file) => Ok(file.to_string_lossy().into_owned()),
        None => skip(format!("{name} is not installed")),
    }
}
