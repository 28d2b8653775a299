//! Bytes on their way to one side of a connection.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::sync::Notify;
use tokio::time::Instant;

/// More is not taken from the sender: it waits, as where a window is full.
const ROOM: usize = 4 << 20;

/// Used by one thread; whoever waits is told of each change.
#[derive(Default)]
pub struct Queue {
    chunks: RefCell<VecDeque<Chunk>>,
    held: Cell<usize>,
    ended: Cell<bool>,
    changed: Notify,
}

/// What was read at once.
#[derive(Clone)]
pub struct Chunk {
    pub read: Instant,
    pub due: Instant,
    pub bytes: Bytes,
}

impl Queue {
    pub fn push(&self, bytes: Bytes, delay: Duration) {
        let read = Instant::now();
        self.held.set(self.held.get() + bytes.len());
        self.chunks.borrow_mut().push_back(Chunk { read, due: read + delay, bytes });
        self.changed.notify_waiters();
    }

    /// Nothing comes after what is held.
    pub fn end(&self) {
        self.ended.set(true);
        self.changed.notify_waiters();
    }

    pub fn held(&self) -> usize {
        self.held.get()
    }

    pub async fn room(&self) {
        self.when(|| (self.held.get() < ROOM).then_some(())).await;
    }

    /// The next one; none after the end.
    pub async fn front(&self) -> Option<Chunk> {
        self.when(|| match self.chunks.borrow().front() {
            Some(chunk) => Some(Some(chunk.clone())),
            None => self.ended.get().then_some(None),
        })
        .await
    }

    /// The first `bytes` of the first one are handed over.
    pub fn advance(&self, bytes: usize) {
        let mut chunks = self.chunks.borrow_mut();
        if let Some(front) = chunks.front_mut() {
            front.bytes.advance(bytes);
            if front.bytes.is_empty() {
                chunks.pop_front();
            }
        }
        self.held.set(self.held.get() - bytes);
        self.changed.notify_waiters();
    }

    async fn when<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        loop {
            // Made before the look: what changes between is noticed. One thread, and no wait in between.
            let changed = self.changed.notified();
            if let Some(seen) = look() {
                return seen;
            }
            changed.await;
        }
    }
}
