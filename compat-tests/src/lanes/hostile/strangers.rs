//! Peers that speak another protocol, or this one badly: before any request is understood.

use anyhow::{Result, ensure};
use bytes::{BufMut, Bytes};
use kafka_protocol::messages::ApiKey;

use super::scene::{Attack, PATIENCE, Scene};
use super::volley::{BRIEF, crowd, heard_by_all, volley};
use crate::bodies::put_unsigned;
use crate::raw::{Heard, frame_around, sized};

pub fn run(scene: &mut Scene) -> Result<()> {
    scene.family("HTTP, TLS, SSH and SASL on the port, 200 times each at once", |attack| {
        for greeting in [
            &b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..],
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            b"SSH-2.0-OpenSSH_9.6\r\n",
            b"\0\0\0\x12\0\x11\0\x01\0\0\0\x01\0\x01a\0\x05PLAIN",
        ] {
            heard_by_all(crowd(attack, &vec![greeting.to_vec(); 200])?, PATIENCE)?;
        }
        Ok(())
    });
    scene.family("sizes that cannot be, 50 times each", |attack| {
        for size in [i32::MAX, -1, -2, i32::MIN, 0, 104_857_601] {
            heard_by_all(crowd(attack, &vec![size.to_be_bytes().to_vec(); 50])?, PATIENCE)?;
        }
        Ok(())
    });
    scene.family("100 MiB announced and not sent, 200 times at once", |attack| {
        let opening = [&104_857_600i32.to_be_bytes()[..], b"\0\0\0\x03\0\0\0\x01"].concat();
        let waiting = crowd(attack, &vec![opening; 200])?;
        // They are still believed; what they announced is not held for them.
        ensure!(waiting.len() == 200);
        Ok(())
    });
    scene.family("APIs and versions that there are not", |attack| {
        volley(attack, &unknown()?, PATIENCE, |frame, heard| {
            ensure!(heard != Heard::Silent, "no answer and no end after {frame:x?}");
            Ok(())
        })
    });
    scene.family("names of clients as long as they can be", |attack| {
        volley(attack, &long_names()?, PATIENCE, |frame, heard| {
            ensure!(heard != Heard::Silent, "no answer and no end after a frame of {} bytes", frame.len());
            Ok(())
        })
    });
    scene.family("random bytes in every API", |attack| volley(attack, &noise(attack)?, BRIEF, |_, _| Ok(())));
    Ok(())
}

fn unknown() -> Result<Vec<Bytes>> {
    let mut frames = Vec::new();
    for key in (-3..=100).chain([1000, i16::MAX, i16::MIN]) {
        for version in [-1, 0, 30, i16::MAX] {
            frames.push(frame_around(key, version, 1, 1, &[0xff; 40])?);
        }
    }
    Ok(frames)
}

fn long_names() -> Result<Vec<Bytes>> {
    let mut frames = Vec::new();
    for length in [0x7fff, 0x7ffe, 1] {
        let mut header = b"\0\x12\0\0\0\0\0\x01".to_vec();
        header.put_i16(length);
        header.resize(header.len() + length as usize, b'n');
        frames.push(sized(&header));
    }
    // Below the limit that ApiVersions has here, and above.
    for length in [1_000usize, 60_000, 120_000, 10_000_000] {
        let mut body = Vec::new();
        for byte in [b'n', b'v'] {
            put_unsigned(&mut body, length as u32 + 1);
            body.resize(body.len() + length, byte);
        }
        body.push(0);
        frames.push(frame_around(ApiKey::ApiVersions as i16, 3, 1, 2, &body)?);
    }
    Ok(frames)
}

/// The same noise every time.
fn noise(attack: &Attack) -> Result<Vec<Bytes>> {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut frames = Vec::new();
    for key in 0..=68 {
        let Ok(api) = ApiKey::try_from(key) else { continue };
        let versions = api.valid_versions();
        for version in versions.min..=versions.max {
            for _ in 0..attack.sized(3, 100) {
                let body: Vec<u8> = (0..next() % 200).map(|_| next() as u8).collect();
                frames.push(frame_around(key, version, 1, api.request_header_version(version), &body)?);
            }
        }
    }
    Ok(frames)
}
