//! Socket to file: each gulp of requests costs one checksum and one write, then all of them are answered together.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use super::frames::{Frames, acknowledge};
use crate::machine::MIB;

/// Without a `path` the bytes go nowhere.
pub fn connection(mut stream: TcpStream, path: Option<&Path>) -> std::io::Result<()> {
    let mut file = path.map(File::create).transpose()?;
    let mut frames = Frames::new(MIB);
    let mut out = Vec::new();
    loop {
        let n = stream.read(frames.space())?;
        if n == 0 {
            return Ok(());
        }
        frames.filled(n);
        out.clear();
        let whole = frames.whole(|frame| acknowledge(&mut out, frame));
        if let Some(file) = file.as_mut().filter(|_| !whole.is_empty()) {
            std::hint::black_box(crc32c::crc32c(whole));
            file.write_all(whole)?;
        }
        let done = whole.len();
        if !out.is_empty() {
            stream.write_all(&out)?;
        }
        frames.drop_front(done);
    }
}
