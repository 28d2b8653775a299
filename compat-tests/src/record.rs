//! Seeds for the fuzz targets: what real clients and a broker say to each other, and what the broker leaves on its disk.
//!
//! ```text
//! client ──► recorder ──► broker (whose advertised listener is the recorder)
//!               └─► INTO/frames, INTO/answers;   afterwards, of its directory: INTO/recovery, batches, metastore
//! ```
//! Each file is one input of the target its folder is named after. What repeats is left out; the rest is for
//! libFuzzer's `-merge=1` to choose from.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Context, Result};
use kafka_protocol::messages::ApiKey;

use crate::broker::{Broker, On};
use crate::lane::{Form, Run};
use crate::lanes;
use crate::records::batches;

/// Inputs of one kind (API, version, client) that are kept.
const OF_A_KIND: usize = 4;
/// Bytes above which an input is no use as a seed.
const LARGE: usize = 4096;

/// What has been kept so far.
struct Kept {
    into: PathBuf,
    of_kind: Mutex<HashMap<String, usize>>,
}

impl Kept {
    fn put(&self, target: &str, kind: &str, bytes: &[u8]) {
        let mut of_kind = self.of_kind.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let count = of_kind.entry(format!("{target}/{kind}")).or_default();
        if bytes.len() > LARGE || *count == OF_A_KIND {
            return;
        }
        *count += 1;
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let path = self.into.join(target).join(format!("{kind}-{:08x}", hasher.finish() as u32));
        if let Err(error) = fs::write(&path, bytes) {
            eprintln!("{}: {error}", path.display());
        }
    }
}

/// Runs the named lanes, light, through a recorder, and then takes the broker's files. With no lane named it waits until
/// standard input ends, so that any other client can be pointed at it.
pub fn record(into: &Path, names: &[String], on: &On) -> Result<()> {
    for target in ["frames", "answers", "recovery", "batches", "message_set", "metastore"] {
        fs::create_dir_all(into.join(target)).with_context(|| into.display().to_string())?;
    }
    let kept = Arc::new(Kept { into: into.to_owned(), of_kind: Mutex::default() });
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let advertised = format!("PLAINTEXT://{address}");
    let settings = [
        ("advertised.listeners", advertised.as_str()),
        ("log.segment.bytes", "16384"),
        ("log.index.interval.bytes", "512"),
    ];
    let mut broker = Broker::start(on, &settings)?;
    let to = broker.address();
    let recorder = Arc::clone(&kept);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (kept, to) = (Arc::clone(&recorder), to.clone());
            thread::spawn(move || relay(client, &to, &kept));
        }
    });
    if names.is_empty() {
        println!("recording on {address} until standard input ends");
        io::copy(&mut io::stdin(), &mut io::sink())?;
    }
    for lane in lanes::ALL.iter().filter(|lane| names.iter().any(|name| name == lane.name)) {
        Run::lane(lane, Form::Light, &On::At(address.clone()));
    }
    broker.stop()?;
    keep_files(&broker.log_dir(), &kept)
}

/// Passes frames in both directions; ends when either side does.
fn relay(client: TcpStream, to: &str, kept: &Arc<Kept>) -> io::Result<()> {
    let broker = TcpStream::connect(to)?;
    let asked: Arc<Mutex<HashMap<[u8; 4], (u8, u8)>>> = Arc::default();
    let (answers, asking) = ((broker.try_clone()?, client.try_clone()?), Arc::clone(&asked));
    let keeping = Arc::clone(kept);
    thread::spawn(move || {
        let (from, to) = answers;
        let _ = each_frame(&from, &to, |frame| {
            let Some((correlation, body)) = frame.split_first_chunk::<4>() else { return };
            let asked = asked.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(correlation);
            if let Some((api, version)) = asked {
                let flexible = ApiKey::try_from(i16::from(api))
                    .is_ok_and(|key| key.response_header_version(i16::from(version)) > 0);
                let body = body.get(usize::from(flexible)..).unwrap_or_default();
                keeping.put("answers", &format!("{api}-v{version}"), &[&[api, version], body].concat());
            }
        });
        let _ = to.shutdown(Shutdown::Both);
    });
    let result = each_frame(&client, &broker, |frame| {
        if let [0, api, 0, version, a, b, c, d, rest @ ..] = frame {
            let mut asking = asking.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            asking.insert([*a, *b, *c, *d], (*api, *version));
            // Clients differ most in how they write the same request: each by the first letters of its id.
            let id: String =
                rest.iter().skip(2).take(4).filter(|c| c.is_ascii_alphanumeric()).map(|c| *c as char).collect();
            kept.put("frames", &format!("{api}-v{version}-{id}"), frame);
        }
    });
    let _ = broker.shutdown(Shutdown::Both);
    result
}

fn each_frame(mut from: &TcpStream, mut to: &TcpStream, mut seen: impl FnMut(&[u8])) -> io::Result<()> {
    let mut frame = Vec::new();
    loop {
        let mut size = [0; 4];
        from.read_exact(&mut size)?;
        frame.clear();
        from.take(u32::from_be_bytes(size).into()).read_to_end(&mut frame)?;
        to.write_all(&size)?;
        to.write_all(&frame)?;
        seen(&frame);
    }
}

/// What a stopped broker left: whole partitions, single batches, the metastore.
fn keep_files(dir: &Path, kept: &Kept) -> Result<()> {
    let part = |kind: u8, bytes: &[u8]| [&[kind][..], &(bytes.len() as u16).to_le_bytes(), bytes].concat();
    let mut store = vec![1];
    for (kind, name) in ["klamm-metastore.snapshot", "klamm-metastore.journal"].iter().enumerate() {
        let bytes = fs::read(dir.join(name)).unwrap_or_default();
        store.extend(part(kind as u8, &bytes[..bytes.len().min(LARGE / 2)]));
    }
    kept.put("metastore", "stopped", &store);
    for partition in fs::read_dir(dir)?.flatten().filter(|entry| entry.path().is_dir()) {
        let path = partition.path();
        // Clean and not, in the order of the target's kinds.
        let mut files = vec![2];
        for (kind, extension) in ["log", "index", "timeindex", "txnindex", "snapshot"].iter().enumerate() {
            if let Ok(bytes) = fs::read(path.join(format!("{:020}.{extension}", 0))) {
                let used = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
                files.extend(part(kind as u8, &bytes[..used.next_multiple_of(12).min(bytes.len()).min(2048)]));
            }
        }
        if let Ok(epochs) = fs::read(path.join("leader-epoch-checkpoint")) {
            files.extend(part(10, &epochs));
        }
        kept.put("recovery", "partition", &files);
        let log = fs::read(path.join(format!("{:020}.log", 0))).unwrap_or_default();
        for batch in batches(&log) {
            let codec = batch.get(22).map_or(0, |attributes| attributes & 7);
            kept.put("batches", &format!("codec{codec}"), batch);
            kept.put("message_set", &format!("codec{codec}"), &[&[0][..], batch].concat());
        }
    }
    Ok(())
}
