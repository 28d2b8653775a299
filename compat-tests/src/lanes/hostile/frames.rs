//! Requests of every API and version the broker advertises: cut at each byte, with numbers that lie, with too many tags.

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use kafka_protocol::messages::{ApiKey, ApiVersionsRequest, RequestKind, ResponseKind};

use super::scene::{PATIENCE, Scene};
use super::volley::{BRIEF, volley};
use crate::bodies::{self, Body, LIES, put_unsigned};
use crate::raw::{Connection, Heard, frame_around, sized};

/// Lies of each size, over a number of that size.
const OF_SIZE_1: &[&[u8]] = &[&[0xff, 0xff, 0xff, 0xff, 0x0f], &[0xff, 0xff, 0x03], &[0xff; 6], &[0], &[0x7f]];
const OF_SIZE_2: &[&[u8]] = &[&[0x7f, 0xff], &[0xff, 0xfe]];
const OF_SIZE_4: &[&[u8]] = &[&[0x7f, 0xff, 0xff, 0xff], &[0xff, 0xff, 0xff, 0xfe], &[0x80, 0, 0, 0], &[0, 0x10, 0, 0]];
const OF_SIZE_8: &[&[u8]] = &[&[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], &[0x80, 0, 0, 0, 0, 0, 0, 0]];

pub fn run(scene: &mut Scene) -> Result<()> {
    let requests = Requests::of(scene.address())?;
    scene.family(&format!("{requests}, cut at each byte"), |attack| {
        // All that was announced is there: silence would be a request forgotten.
        volley(attack, &requests.cut()?, PATIENCE, |frame, heard| match heard {
            Heard::Silent => bail!("no answer and no end after {frame:x?}"),
            _ => Ok(()),
        })
    });
    scene.family("a lie in place of each number in them", |attack| {
        // Some become honest requests to wait for days.
        volley(attack, &requests.with_lies()?, BRIEF, |_, _| Ok(()))
    });
    scene.family("tags by the hundred thousand, in header and body", |attack| {
        volley(attack, &tags()?, PATIENCE, |frame, heard| {
            ensure!(heard != Heard::Silent, "no answer and no end after {} bytes of tags", frame.len());
            Ok(())
        })
    });
    if scene.is_full() {
        scene.family("every lie over every byte of them", |attack| {
            volley(attack, &requests.with_lies_everywhere()?, BRIEF, |_, _| Ok(()))
        });
    }
    Ok(())
}

/// Whoever may send these is the controller or a broker, and is obeyed: that no honest client is served any more after one
/// of them is what they are for. That their bytes do no harm is tested without a broker.
const OBEYED: &[ApiKey] =
    &[ApiKey::LeaderAndIsr, ApiKey::StopReplica, ApiKey::UpdateMetadata, ApiKey::ControlledShutdown];

/// One body of each API and version.
struct Requests(Vec<(ApiKey, i16, Body)>);

impl std::fmt::Display for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "requests of {} APIs and versions", self.0.len())
    }
}

impl Requests {
    /// Of what the broker advertises. An API that it serves and that is unknown to [`bodies`] is an error.
    fn of(address: &str) -> Result<Requests> {
        let request = RequestKind::ApiVersions(ApiVersionsRequest::default());
        let response = Connection::open(address)?.ask(ApiKey::ApiVersions, 0, &request)?;
        let ResponseKind::ApiVersions(served) = response else { bail!("no ApiVersions response") };
        let mut all = Vec::new();
        for row in served.api_keys {
            for version in row.min_version..=row.max_version {
                let body = bodies::request(row.api_key, version)
                    .with_context(|| format!("API {} is served and has no hostile requests", row.api_key))?;
                let api = ApiKey::try_from(row.api_key).ok().context("a key that bodies knows")?;
                if !OBEYED.contains(&api) {
                    all.push((api, version, body));
                }
            }
        }
        Ok(Requests(all))
    }

    fn each(
        &self,
        mut hostile: impl FnMut(&Body, &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
    ) -> Result<Vec<Bytes>> {
        let mut frames = Vec::new();
        for (api, version, body) in &self.0 {
            let header = api.request_header_version(*version);
            hostile(body, &mut |bytes| {
                frames.push(frame_around(*api as i16, *version, 1, header, bytes)?);
                Ok(())
            })?;
        }
        Ok(frames)
    }

    /// Whole and without its last byte, its last two, and so on to a header without its first.
    fn cut(&self) -> Result<Vec<Bytes>> {
        let whole = self.each(|body, put| put(&body.bytes))?;
        Ok(whole.iter().flat_map(|frame| (5..=frame.len()).map(|end| sized(&frame[4..end]))).collect())
    }

    fn with_lies(&self) -> Result<Vec<Bytes>> {
        self.each(|body, put| {
            for &(at, size) in &body.numbers {
                let lies = match size {
                    1 => OF_SIZE_1,
                    2 => OF_SIZE_2,
                    4 => OF_SIZE_4,
                    _ => OF_SIZE_8,
                };
                for lie in lies {
                    put(&[&body.bytes[..at], lie, &body.bytes[at + size..]].concat())?;
                }
            }
            Ok(())
        })
    }

    fn with_lies_everywhere(&self) -> Result<Vec<Bytes>> {
        self.each(|body, put| {
            for at in 0..body.bytes.len() {
                for lie in LIES {
                    bodies::with_lie(&body.bytes, at, lie).iter().try_for_each(|bytes| put(bytes))?;
                }
            }
            Ok(())
        })
    }
}

/// What an invented flexible body ends with.
const INVENTED_TAGS: &[u8] = b"\x02\x02\x02ss\x02\x02ss";

/// Empty tags, two to four bytes each, in ascending order.
fn tags() -> Result<Vec<Bytes>> {
    let mut frames = Vec::new();
    // As many as the limits of these APIs let through, and more.
    for (api, version, count) in [
        (ApiKey::DescribeCluster, 0, 25_000),
        (ApiKey::ApiVersions, 3, 25_000),
        (ApiKey::Metadata, 12, 400_000),
        (ApiKey::Fetch, 17, 400_000),
        (ApiKey::Produce, 11, 400_000),
        (ApiKey::DeleteTopics, 6, 400_000),
        (ApiKey::DeleteTopics, 6, 6_000_000),
        (ApiKey::Produce, 11, 6_000_000),
    ] {
        let mut tags = Vec::new();
        put_unsigned(&mut tags, count);
        for tag in 0..count {
            put_unsigned(&mut tags, tag);
            tags.push(0);
        }
        let body = bodies::request(api as i16, version).context("a body")?.bytes;
        let header = [&(api as i16).to_be_bytes()[..], &version.to_be_bytes(), &[0, 0, 0, 1, 0xff, 0xff]].concat();
        frames.push(sized(&[&header[..], &tags, &body].concat()));
        let own = body.strip_suffix(INVENTED_TAGS).with_context(|| format!("{api:?} v{version} ends without tags"))?;
        frames.push(sized(&[&header[..], &[0], own, &tags].concat()));
    }
    Ok(frames)
}
