//! Many frames over few connections.

use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use bytes::Bytes;

use super::scene::Attack;
use crate::raw::{Connection, Heard};

/// Connections that send at once.
const AT_ONCE: usize = 4;

/// What becomes of a frame that may be parked for as long as it says.
pub const BRIEF: Duration = Duration::from_millis(100);

/// Sends every frame and hears what becomes of it, for at most `patience`. A connection lasts as long as the broker keeps
/// it and answers.
pub fn volley(
    attack: &Attack,
    frames: &[Bytes],
    patience: Duration,
    verdict: impl Fn(&Bytes, Heard) -> Result<()> + Sync,
) -> Result<()> {
    let verdict = &verdict;
    thread::scope(|scope| {
        let workers: Vec<_> = frames
            .chunks(frames.len().div_ceil(AT_ONCE).max(1))
            .map(|chunk| {
                scope.spawn(move || -> Result<()> {
                    let mut open = None;
                    for frame in chunk {
                        let mut connection = match open.take() {
                            Some(connection) => connection,
                            None => Connection::open(attack.address)?,
                        };
                        attack.count(frame.len());
                        connection.send(frame);
                        let heard = connection.hear(patience)?;
                        if matches!(heard, Heard::Reply(_)) {
                            open = Some(connection);
                        }
                        verdict(frame, heard)?;
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow!("an attacker panicked"))?)
    })
}

/// Sends each of `openings` on a connection of its own, all of them open at once.
pub fn crowd(attack: &Attack, openings: &[Vec<u8>]) -> Result<Vec<Connection>> {
    let open = |bytes: &Vec<u8>| {
        let mut connection = Connection::open(attack.address)?;
        attack.count(bytes.len());
        connection.send(bytes);
        Ok(connection)
    };
    openings.iter().map(open).collect()
}

/// Each of them is answered or closed within `patience`.
pub fn heard_by_all(mut connections: Vec<Connection>, patience: Duration) -> Result<()> {
    for connection in &mut connections {
        let heard = connection.hear(patience)?;
        anyhow::ensure!(heard != Heard::Silent, "neither answered nor closed");
    }
    Ok(())
}
