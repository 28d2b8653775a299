//! Large buffers that are kept warm: a page touched before costs a tenth of a fresh one.

use bytes::BytesMut;
use parking_lot::Mutex;

/// Buffers of at least this many bytes are worth keeping.
pub const SMALLEST: usize = 64 << 10;

/// Capacities are multiples of this above [`SMALLEST`], so that buffers fit more than one connection.
const STEP: usize = 256 << 10;

/// Larger ones are given back to the allocator.
const LARGEST: usize = 2 << 20;

/// Bytes kept in all.
const KEPT: usize = 8 << 20;

/// Free buffers of one broker, shared by its data runtimes; the lock is held for a push or a pop.
#[derive(Debug, Default)]
pub struct BufferPool {
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    buffers: Vec<BytesMut>,
    bytes: usize,
}

impl BufferPool {
    /// An empty buffer of at least `capacity` bytes.
    pub fn take(&self, capacity: usize) -> BytesMut {
        let capacity = if capacity <= SMALLEST { SMALLEST } else { capacity.next_multiple_of(STEP) };
        let mut free = self.free.lock();
        let fitting = free.buffers.iter().rposition(|buffer| buffer.capacity() >= capacity);
        match fitting {
            Some(at) => {
                let buffer = free.buffers.swap_remove(at);
                free.bytes -= buffer.capacity();
                buffer
            }
            None => {
                drop(free);
                BytesMut::with_capacity(capacity)
            }
        }
    }

    /// Takes back `buffer`, which had `whole` bytes when it was taken, if nobody else holds a part of it and it is worth
    /// keeping. What is in it is dropped.
    pub fn put(&self, mut buffer: BytesMut, whole: usize) {
        buffer.clear();
        // What was split off its front is part of it again, unless someone still holds it.
        let is_whole = buffer.capacity() >= whole || buffer.try_reclaim(whole);
        if !is_whole || !(SMALLEST..=LARGEST).contains(&whole) {
            return;
        }
        let mut free = self.free.lock();
        if free.bytes + buffer.capacity() <= KEPT {
            free.bytes += buffer.capacity();
            free.buffers.push(buffer);
        }
    }
}

/// Bytes read from files at once.
const FILE_BUFFER: usize = 1 << 20;

/// File buffers kept.
const FILE_BUFFERS: usize = 4;

/// Buffers that parts of files are read into on their way to a socket. They are never cleared in between.
#[derive(Debug, Default)]
pub struct FileBuffers {
    free: Mutex<Vec<Box<[u8]>>>,
}

impl FileBuffers {
    pub fn take(&self) -> Box<[u8]> {
        let kept = self.free.lock().pop();
        kept.unwrap_or_else(|| vec![0; FILE_BUFFER].into_boxed_slice())
    }

    pub fn put(&self, buffer: Box<[u8]>) {
        let mut free = self.free.lock();
        if free.len() < FILE_BUFFERS {
            free.push(buffer);
        }
    }

    /// Buffers at hand.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.free.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_whole_once_its_parts_are_gone() {
        let pool = BufferPool::default();
        let mut buffer = pool.take(300 << 10);
        assert!(buffer.capacity() >= 512 << 10);
        buffer.extend_from_slice(&[1; 1000]);
        let address = buffer.as_ptr();
        let whole = buffer.capacity();
        let frame = buffer.split_to(600);
        drop(frame);
        pool.put(buffer, whole);
        let again = pool.take(300 << 10);
        assert!(again.is_empty() && again.capacity() >= 512 << 10);
        assert_eq!(again.as_ptr(), address);
    }

    #[test]
    fn what_is_still_held_is_not_kept() {
        let pool = BufferPool::default();
        let mut buffer = pool.take(0);
        buffer.extend_from_slice(&[1; 1000]);
        let whole = buffer.capacity();
        let held = buffer.split_to(600).freeze();
        pool.put(buffer, whole);
        assert_eq!(pool.free.lock().buffers.len(), 0);
        assert!(held.iter().all(|&b| b == 1));
    }

    #[test]
    fn keeps_a_bounded_number_of_bytes() {
        let pool = BufferPool::default();
        let buffers: Vec<BytesMut> = (0..20).map(|_| pool.take(1 << 20)).collect();
        buffers.into_iter().for_each(|buffer| pool.put(buffer, 1 << 20));
        assert_eq!(pool.free.lock().bytes, KEPT);
    }
}
