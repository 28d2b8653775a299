//! The floor of a broker: frames off the socket go to a file as they are, fetches are answered from a cached file.
//!
//! A produce costs one CRC-32C over its bytes and one write; a fetch is answered with 1 MiB by `pread` + `write` or by
//! `sendfile`. One thread per connection, no parsing beyond length, key and correlation id.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Read gulp and size of a fetch answer, bytes.
pub const CHUNK: usize = 1 << 20;
/// Bytes of the file that fetches are answered from; larger than any processor cache, so that copies are cold.
const CACHED: u64 = 512 << 20;
/// How a fetch is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Send {
    Pread,
    Sendfile,
}

/// `server ADDR DIR pread|sendfile`.
pub fn from_args(args: &[String]) -> Result<(), Box<dyn Error>> {
    let [addr, dir, send] = args else {
        return Err("usage: server ADDR DIR pread|sendfile".into());
    };
    let send = if send == "sendfile" { Send::Sendfile } else { Send::Pread };
    serve(TcpListener::bind(addr)?, PathBuf::from(dir), send)
}

/// Accepts for ever.
pub fn serve(listener: TcpListener, dir: PathBuf, send: Send) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(&dir)?;
    let cached = dir.join("cached");
    for (i, stream) in listener.incoming().enumerate() {
        let (stream, cached, sink) = (stream?, cached.clone(), dir.join(format!("sink{i}")));
        std::thread::spawn(move || {
            // A peer that goes away ends its thread; nobody is told.
            let _ = connection(stream, &sink, &cached, send);
            let _ = std::fs::remove_file(sink);
        });
    }
    Err("listener closed".into())
}

fn connection(mut stream: TcpStream, sink: &Path, cached: &Path, send: Send) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let sink = OpenOptions::new().create(true).truncate(true).write(true).open(sink)?;
    let mut source = None;
    let mut buf = vec![0u8; 4096];
    let (mut end, mut written, mut fetched) = (0, 0u64, 0u64);
    let mut out = Vec::new();
    let mut page = Vec::new();
    loop {
        let n = stream.read(&mut buf[end..])?;
        if n == 0 {
            return Ok(());
        }
        end += n;
        let (mut done, mut fetches) = (0, 0);
        out.clear();
        while end - done >= 4 {
            let frame = 4 + u32::from_be_bytes([buf[done], buf[done + 1], buf[done + 2], buf[done + 3]]) as usize;
            if end - done < frame {
                if buf.len() < frame.max(CHUNK) {
                    buf.resize(frame.max(CHUNK) + 4096, 0);
                }
                break;
            }
            if buf[done + 5] == 1 {
                fetches += 1;
            } else {
                std::hint::black_box(crc32c::crc32c(&buf[done..done + frame]));
                out.extend(4u32.to_be_bytes());
                out.extend(&buf[done + 8..done + 12]);
            }
            done += frame;
        }
        if done > 0 && fetches == 0 {
            sink.write_all_at(&buf[..done], written)?;
            written += done as u64;
        }
        for _ in 0..fetches {
            let cached = match &source {
                Some(file) => file,
                None => source.insert(cached_file(cached)?),
            };
            page.resize(8 + CHUNK, 0);
            page[..4].copy_from_slice(&((CHUNK + 4) as u32).to_be_bytes());
            match send {
                Send::Sendfile => {
                    stream.write_all(&page[..8])?;
                    let (mut at, until) = (fetched, fetched + CHUNK as u64);
                    while at < until {
                        let left = (until - at) as usize;
                        if rustix::fs::sendfile(&stream, cached, Some(&mut at), left)? == 0 {
                            return Err(std::io::ErrorKind::UnexpectedEof.into());
                        }
                    }
                }
                Send::Pread => {
                    cached.read_exact_at(&mut page[8..], fetched)?;
                    stream.write_all(&page)?;
                }
            }
            fetched = (fetched + CHUNK as u64) % CACHED;
        }
        if !out.is_empty() {
            stream.write_all(&out)?;
        }
        buf.copy_within(done..end, 0);
        end -= done;
        if end == buf.len() {
            buf.resize(end * 2, 0);
        }
    }
}

/// What fetches are answered from, made by the first connection that asks.
fn cached_file(path: &Path) -> std::io::Result<File> {
    static MADE: Mutex<bool> = Mutex::new(false);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if !*made {
        let mut file = File::create(path)?;
        let block = vec![7u8; CHUNK];
        for _ in 0..CACHED / CHUNK as u64 {
            file.write_all(&block)?;
        }
        *made = true;
    }
    File::open(path)
}
