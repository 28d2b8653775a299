//! A process that runs until it is told to end.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustix::process::{Pid, Signal, kill_process};

use crate::proc;

/// Killed when dropped.
pub struct Daemon(Child);

impl Daemon {
    /// Starts it; what it says is appended to the file `log`.
    pub fn spawn(command: &mut Command, log: &Path) -> Result<Daemon> {
        let name = command.get_program().to_string_lossy().into_owned();
        let out = File::options().create(true).append(true).open(log).with_context(|| log.display().to_string())?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        Ok(Daemon(command.spawn().with_context(|| format!("start {name}"))?))
    }

    pub fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    /// How it ended, if it has.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.0.try_wait()?)
    }

    /// Waits for its end; `None` when it still runs after `limit`.
    pub fn await_exit(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        proc::wait(&mut self.0, limit)
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.pid()).ok_or_else(|| anyhow!("no process id"))?;
        kill_process(pid, signal).with_context(|| format!("signal process {}", self.pid()))
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // One that has ended already needs no more.
        let _ = self.end();
    }
}
