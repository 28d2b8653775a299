//! File to socket in the three ways there are: pread + write, sendfile, and a write from a mapping.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::Mode;
use super::frames::Frames;
use super::mapped::Mapped;
use crate::machine::MIB;

/// Bytes of an answer.
const CHUNK: usize = MIB;
/// Bytes of the file that answers come from, as many as in the log of the row: larger than any processor cache, so that
/// copies are cold.
const CACHED: u64 = 1 << 30;
/// Bytes of one write to it: a batch as the row's producer sends it. The page cache keeps a file in pieces as large as its
/// writes, cut at page borders, and a socket takes a large piece for the price of a small one: the same answers from a
/// file that was written by the megabyte cost a third, and no broker may wait for a megabyte.
const APPENDED: usize = (16 << 10) + 61;

/// Makes the file that all connections answer from.
pub fn make_cached(dir: &Path) -> std::io::Result<()> {
    let mut file = File::create(dir.join("cached"))?;
    let batch = vec![7u8; APPENDED];
    (0..=CACHED / APPENDED as u64).try_for_each(|_| file.write_all(&batch))
}

/// Connections that begin at places of their own: readers at one place would find everything in the processor's cache.
const PLACES: u64 = 8;

/// Answers every request with the next chunk of the file.
pub fn connection(mut stream: TcpStream, mode: Mode, dir: &Path, number: usize) -> std::io::Result<()> {
    let file = File::open(dir.join("cached"))?;
    let mapped = if mode == Mode::Mmap { Some(Mapped::new(&file, CACHED as usize)?) } else { None };
    let mut frames = Frames::new(4096);
    let mut page = vec![0u8; 8 + CHUNK];
    page[..4].copy_from_slice(&((CHUNK + 4) as u32).to_be_bytes());
    let mut at = number as u64 % PLACES * (CACHED / PLACES);
    loop {
        let n = stream.read(frames.space())?;
        if n == 0 {
            return Ok(());
        }
        frames.filled(n);
        let mut asked = 0;
        let done = frames.whole(|_| asked += 1).len();
        frames.drop_front(done);
        for _ in 0..asked {
            match &mapped {
                Some(mapped) => {
                    stream.write_all(&page[..8])?;
                    stream.write_all(&mapped.bytes()[at as usize..at as usize + CHUNK])?;
                }
                None if mode == Mode::Sendfile => {
                    stream.write_all(&page[..8])?;
                    let (mut from, until) = (at, at + CHUNK as u64);
                    while from < until {
                        let left = (until - from) as usize;
                        if rustix::fs::sendfile(&stream, &file, Some(&mut from), left)? == 0 {
                            return Err(std::io::ErrorKind::UnexpectedEof.into());
                        }
                    }
                }
                None => {
                    file.read_exact_at(&mut page[8..], at)?;
                    stream.write_all(&page)?;
                }
            }
            at = (at + CHUNK as u64) % CACHED;
        }
    }
}
