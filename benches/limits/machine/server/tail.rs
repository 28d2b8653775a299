//! What is produced goes to a file and from there to everybody who follows it: a broker's tail without the broker. One
//! thread, and one `poll` for whatever has come meanwhile.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;

use super::frames::{Frames, acknowledge};
use crate::machine::MIB;

/// Api key of Fetch. Whatever else is asked is appended.
const FETCH: [u8; 2] = [0, 1];
/// `sendfile` takes pages: what lies before the first border goes with the head of the answer.
const PAGE: u64 = 4096;

struct Peer {
    stream: TcpStream,
    frames: Frames,
    /// Up to where it has the file; from its end when it came.
    at: u64,
    asks: bool,
}

/// Serves until the listener fails.
pub fn serve(listener: &TcpListener, dir: &Path) -> io::Result<()> {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(dir.join("tail"))?;
    listener.set_nonblocking(true)?;
    let (mut peers, mut end, mut acks) = (Vec::new(), 0, Vec::new());
    loop {
        let ready = ready(listener, &peers)?;
        // Those first who came before anything that is read below was sent.
        while let Some(stream) = accepted(listener)? {
            stream.set_nodelay(true)?;
            peers.push(Peer { stream, frames: Frames::new(MIB), at: end, asks: false });
        }
        for at in ready.into_iter().rev() {
            let peer: &mut Peer = &mut peers[at];
            // One that fails has gone away like one that closes.
            if !peer.take_in(&file, &mut end, &mut acks).unwrap_or(false) {
                peers.remove(at);
            }
        }
        peers.retain_mut(|peer| peer.follow(&file, end).is_ok());
    }
}

fn accepted(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    match listener.accept() {
        Ok((stream, _)) => Ok(Some(stream)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Waits for somebody; the peers from whom something has come, in order.
fn ready(listener: &TcpListener, peers: &[Peer]) -> io::Result<Vec<usize>> {
    let all = peers.iter().map(|peer| peer.stream.as_fd()).chain([listener.as_fd()]);
    let mut fds: Vec<PollFd> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    retry_on_intr(|| poll(&mut fds, None))?;
    let has_come = |at: &usize| !fds[*at].revents().is_empty();
    Ok((0..peers.len()).filter(has_come).collect())
}

impl Peer {
    /// Reads once, appends and acknowledges what is produced, notes what is asked; a peer does one or the other. False at the
    /// end of the stream.
    fn take_in(&mut self, file: &File, end: &mut u64, acks: &mut Vec<u8>) -> io::Result<bool> {
        let n = self.stream.read(self.frames.space())?;
        self.frames.filled(n);
        acks.clear();
        let mut fetches = 0;
        let produced = self.frames.whole(|frame| match frame.get(4..6) == Some(&FETCH) {
            true => fetches += 1,
            false => acknowledge(acks, frame),
        });
        let done = produced.len();
        if fetches > 0 {
            self.asks = true;
        } else if done > 0 {
            std::hint::black_box(crc32c::crc32c(produced));
            file.write_all_at(produced, *end)?;
            *end += done as u64;
            self.stream.write_all(acks)?;
        }
        self.frames.drop_front(done);
        Ok(n > 0)
    }

    /// Sends what is new, if that was asked for: a length, four bytes for the correlation id, and the file.
    fn follow(&mut self, file: &File, end: u64) -> io::Result<()> {
        if !self.asks || self.at >= end {
            return Ok(());
        }
        let copied = (PAGE - self.at % PAGE).min(end - self.at) as usize;
        let mut head = vec![0; 8 + copied];
        head[..4].copy_from_slice(&((end - self.at + 4) as u32).to_be_bytes());
        file.read_exact_at(&mut head[8..], self.at)?;
        self.stream.write_all(&head)?;
        let mut from = self.at + copied as u64;
        while from < end {
            let left = (end - from) as usize;
            if rustix::fs::sendfile(&self.stream, file, Some(&mut from), left)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        (self.at, self.asks) = (end, false);
        Ok(())
    }
}
