//! Ends a session of somebody else: whoever shows its id and its password to any server may close it.
//!
//! A server makes the password of the id alone (ZooKeeper's `ZooKeeperServer.generatePasswd`), with Java's generator of
//! random numbers: a session can be taken over by the next server without anybody having told it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::{Buf, BufMut};

const LIMIT: Duration = Duration::from_secs(10);
/// In ms, asked for and used for no longer than it takes to close it.
const TIMEOUT: i32 = 10_000;
/// What a server mixes into the id.
const SECRET: u64 = 0xB341_5C00;
const CLOSE_SESSION: i32 = -11;

/// Closes the session at the server `HOST:PORT`. An error where that does not know it.
pub fn expire(server: &str, session: i64) -> Result<()> {
    let address: SocketAddr = server.parse().with_context(|| server.to_owned())?;
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let mut connect = Vec::new();
    connect.put_i32(0);
    connect.put_i64(0);
    connect.put_i32(TIMEOUT);
    connect.put_i64(session);
    let password = password(session);
    connect.put_i32(password.len() as i32);
    connect.put_slice(&password);
    connect.put_u8(0);
    send(&mut stream, &connect)?;
    let answer = hear(&mut stream)?;
    let mut rest = answer.as_slice();
    let (_, granted, id) = (rest.try_get_i32()?, rest.try_get_i32()?, rest.try_get_i64()?);
    ensure!(granted > 0 && id == session, "session {session:#x} is not known, or not by this password");
    let mut close = Vec::new();
    close.put_i32(1);
    close.put_i32(CLOSE_SESSION);
    send(&mut stream, &close)?;
    // Answered when it is done, or the connection is closed by then.
    let _ = hear(&mut stream);
    Ok(())
}

fn send(stream: &mut TcpStream, body: &[u8]) -> Result<()> {
    stream.write_all(&[&(body.len() as i32).to_be_bytes(), body].concat())?;
    Ok(())
}

fn hear(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let mut size = [0; 4];
    stream.read_exact(&mut size)?;
    let size = u32::from_be_bytes(size);
    ensure!(size < 1 << 20, "an answer of {size} bytes");
    let mut body = vec![0; size as usize];
    stream.read_exact(&mut body)?;
    Ok(body)
}

/// 16 bytes of `java.util.Random` with this seed.
fn password(session: i64) -> [u8; 16] {
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;
    const MASK: u64 = (1 << 48) - 1;
    let mut state = (session as u64 ^ SECRET ^ MULTIPLIER) & MASK;
    let mut bytes = [0; 16];
    for word in bytes.chunks_exact_mut(4) {
        state = state.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
        word.copy_from_slice(&((state >> 16) as u32).to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `new Random(SEED).nextBytes` gives them.
    #[test]
    fn passwords_are_javas_random_bytes() {
        let seeded = |seed: i64| password(seed ^ SECRET as i64);
        assert_eq!(seeded(0)[..8], [0x60, 0xb4, 0x20, 0xbb, 0x38, 0x51, 0xd9, 0xd4]);
        assert_eq!(
            seeded(0x0100_a1b2_c3d4_0005 ^ SECRET as i64)[8..],
            [0x26, 0xf3, 0x3b, 0x80, 0xe6, 0x97, 0x34, 0x14]
        );
    }
}
