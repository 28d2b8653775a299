//! Requests out of a byte stream, by their lengths alone.

/// Bytes received and not yet dealt with.
pub struct Frames {
    buf: Vec<u8>,
    end: usize,
}

impl Frames {
    /// `gulp`: bytes asked of a socket in one read.
    pub fn new(gulp: usize) -> Frames {
        Frames { buf: vec![0; gulp], end: 0 }
    }

    /// Where the next read goes.
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.buf[self.end..]
    }

    pub fn filled(&mut self, n: usize) {
        self.end += n;
    }

    /// All complete frames, lengths included, calling `each` for every one of them.
    pub fn whole(&self, mut each: impl FnMut(&[u8])) -> &[u8] {
        let mut done = 0;
        while let Some(frame) = self.frame(done).filter(|frame| done + frame <= self.end) {
            each(&self.buf[done..done + frame]);
            done += frame;
        }
        &self.buf[..done]
    }

    /// Forgets `done` bytes and makes room for the frame that has begun.
    pub fn drop_front(&mut self, done: usize) {
        self.buf.copy_within(done..self.end, 0);
        self.end -= done;
        let wanted = self.frame(0).unwrap_or(0).max(self.end + 1);
        if self.buf.len() < wanted {
            self.buf.resize(wanted, 0);
        }
    }

    /// Bytes of the frame that begins at `at`, its length included.
    fn frame(&self, at: usize) -> Option<usize> {
        let head = self.buf[..self.end].get(at..at + 4)?;
        Some(4 + u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize)
    }
}

/// The shortest answer: a correlation id.
pub fn acknowledge(out: &mut Vec<u8>, frame: &[u8]) {
    out.extend(4u32.to_be_bytes());
    out.extend(frame.get(8..12).unwrap_or(&[0; 4]));
}
