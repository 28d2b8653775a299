//! The history of one run while it is written: one file, one clock.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use anyhow::{Context, Result};
use history::event::{Event, Span};
use history::verdict::Verdict;

pub struct Chronicle {
    start: Instant,
    path: PathBuf,
    lines: Mutex<Lines>,
}

struct Lines {
    file: BufWriter<File>,
    /// The first write that failed: without it the history is not whole.
    failed: Option<anyhow::Error>,
}

impl Chronicle {
    pub fn create(path: &Path) -> Result<Chronicle> {
        let file = BufWriter::new(File::create(path).with_context(|| path.display().to_string())?);
        let lines = Mutex::new(Lines { file, failed: None });
        Ok(Chronicle { start: Instant::now(), path: path.to_owned(), lines })
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// From then to now.
    pub fn since(&self, from_us: u64) -> Span {
        Span { from_us, to_us: Some(self.now_us()) }
    }

    /// A write that fails is told by [`Chronicle::judge`].
    pub fn write(&self, event: &Event) {
        let mut lines = self.lines();
        let written = serde_json::to_writer(&mut lines.file, event)
            .map_err(anyhow::Error::from)
            .and_then(|()| Ok(lines.file.write_all(b"\n")?));
        if let Err(error) = written {
            lines.failed.get_or_insert(error);
        }
    }

    /// What all that was written so far comes to.
    pub fn judge(&self) -> Result<Verdict> {
        let mut lines = self.lines();
        if let Some(error) = lines.failed.take() {
            return Err(error.context("the history is not whole"));
        }
        lines.file.flush()?;
        history::judge(BufReader::new(File::open(&self.path)?)).with_context(|| self.path.display().to_string())
    }
}
