//! A thread that works until it is told to stop, or until whoever started it is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Result, anyhow, ensure};

pub struct Worker {
    /// "a producer".
    who: &'static str,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Worker {
    /// `work` looks now and then whether it is to stop.
    pub fn start(who: &'static str, work: impl FnOnce(&AtomicBool) -> Result<()> + Send + 'static) -> Worker {
        Worker::listening(who, Arc::default(), work)
    }

    /// As [`Worker::start`], where others have to know as well that it is to stop.
    pub fn listening(
        who: &'static str,
        stop: Arc<AtomicBool>,
        work: impl FnOnce(&AtomicBool) -> Result<()> + Send + 'static,
    ) -> Worker {
        let told = Arc::clone(&stop);
        Worker { who, stop, thread: Some(thread::spawn(move || work(&told))) }
    }

    /// An error when it has ended, or panicked; what it ended with is told by [`Worker::stop`].
    pub fn is_at_work(&self) -> Result<()> {
        ensure!(self.thread.as_ref().is_some_and(|thread| !thread.is_finished()), "{} has given up", self.who);
        Ok(())
    }

    /// It is to stop; not waited for.
    pub fn tell(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Lets it finish what it has begun. Its error, the first time.
    pub fn stop(&mut self) -> Result<()> {
        self.tell();
        match self.thread.take() {
            Some(thread) => thread.join().map_err(|_| anyhow!("{} panicked", self.who))?,
            None => Ok(()),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.tell();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn until_told(stop: &AtomicBool) -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        Ok(())
    }

    #[test]
    fn it_works_until_it_is_told_and_says_how_it_ended() {
        let mut worker = Worker::start("a worker", until_told);
        worker.is_at_work().expect("nobody has told it");
        worker.stop().expect("no error");
        assert!(worker.is_at_work().is_err());
        worker.stop().expect("once is enough");
        let mut failed = Worker::start("a worker", |_| Err(anyhow!("no")));
        assert_eq!(failed.stop().unwrap_err().to_string(), "no");
        let mut panicked = Worker::start("a worker", |_| panic!("as is meant"));
        assert_eq!(panicked.stop().unwrap_err().to_string(), "a worker panicked");
    }

    #[test]
    fn it_ends_with_who_started_it() {
        let (ended, end) = mpsc::channel();
        let worker = Worker::start("a worker", move |stop| {
            until_told(stop)?;
            Ok(ended.send(())?)
        });
        drop(worker);
        end.recv().expect("it was told");
    }
}
