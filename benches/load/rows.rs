//! The rows: each drives one process under test and returns figures.

use std::error::Error;
use std::time::{Duration, Instant};

use crate::connection::{Connection, create_topic, delete_topic, end_offset, wait_for};
use crate::meter::{Mark, resident_mb};
use crate::target::Target;
use crate::wire;

/// A row's outcome: name of the figure and its value.
pub type Figures = Vec<(&'static str, f64)>;
type Done = Result<Figures, Box<dyn Error>>;

const RECORD: usize = 1024;
/// Bytes produced before and while measuring. Bounded by bytes, not time: every target then fills the same number of
/// fresh pages, which were touched before (see `touch_memory`).
const WARM_BYTES: u64 = 256 << 20;
const MEASURED_BYTES: u64 = 2 << 30;
/// Seconds of fetching before and while measuring.
const WARM: f64 = 1.0;
const MEASURED: f64 = 3.0;

/// One connection keeps four requests of one 512 KiB batch in flight. Offsets are verified at the end.
pub fn produce(target: &Target, acks: i16) -> Done {
    let count = wire::fit(512 << 10, RECORD);
    let body = wire::batch(count, RECORD, target.started_ms);
    let topic = target.fresh_topic();
    let head = wire::produce_head(&topic, acks, body.len());
    if target.broker {
        create_topic(&target.addr, &topic)?;
    }
    let mut c = Connection::open(&target.addr)?;
    let mut records = settle(target, &mut c, &head, &body, count)?;
    let (mut sent, mut acked, mut base) = (0u64, 0u64, 0u64);
    let warm = WARM_BYTES / body.len() as u64;
    let until = warm + MEASURED_BYTES / body.len() as u64;
    let (mut mark, mut spent) = (None, None);
    while spent.is_none() || acked < sent {
        while spent.is_none() && sent - acked < 4 {
            c.send(&head, &body)?;
            sent += 1;
        }
        let frame = c.receive()?;
        if target.broker {
            let (error, _) = wire::produce_result(frame);
            if error != 0 {
                return Err(format!("produce answered error {error}").into());
            }
        }
        acked += 1;
        if mark.is_none() && acked >= warm {
            mark = Some(Mark::now(target.pid));
            base = acked;
        } else if let Some(mark) = mark.as_ref().filter(|_| spent.is_none() && acked >= until) {
            spent = Some((mark.spent(), acked - base));
        }
    }
    records += acked as i64 * count as i64;
    if target.broker {
        let end = end_offset(&target.addr, &topic)?;
        if end != records {
            return Err(format!("{records} records acknowledged, log end is {end}").into());
        }
        delete_topic(&target.addr, &topic)?;
    }
    let ((cpu, secs), requests) = spent.ok_or("ended before it was measured")?;
    let gb = requests as f64 * body.len() as f64 / 1e9;
    Ok(vec![("s/GB", cpu / gb), ("MB/s", gb * 1e3 / secs), ("RSS MB", resident_mb(target.pid))])
}

/// One consumer reads a warm log of 512 MB in answers of 1 MiB, over and over. Checksums are compared.
pub fn fetch(target: &Target) -> Done {
    let count = wire::fit(16 << 10, RECORD);
    let body = wire::batch(count, RECORD, target.started_ms);
    let topic = target.fresh_topic();
    let mut end = i64::MAX;
    let mut c = Connection::open(&target.addr)?;
    if target.broker {
        create_topic(&target.addr, &topic)?;
        let head = wire::produce_head(&topic, 1, body.len());
        settle(target, &mut c, &head, &body, count)?;
        let total = 512_000_000 / body.len();
        let (mut sent, mut acked) = (1, 1);
        while acked < total {
            while sent < total && sent - acked < 16 {
                c.send(&head, &body)?;
                sent += 1;
            }
            c.receive()?;
            acked += 1;
        }
        end = end_offset(&target.addr, &topic)?;
    }
    let begin = Instant::now();
    let (mut at, mut bytes) = (0i64, 0u64);
    let mut mark: Option<(Mark, u64)> = None;
    let (cpu, secs, gb) = loop {
        c.send(&wire::fetch(&topic, at), &[])?;
        let frame = c.receive()?;
        if target.broker {
            let (error, records) = wire::fetch_result(frame);
            if error != 0 || records.is_empty() {
                return Err(format!("fetch at {at}: error {error}, {} bytes", records.len()).into());
            }
            for batch in wire::batches(records) {
                if batch[17..21] != body[17..21] {
                    return Err(format!("the batch at {at} has another checksum").into());
                }
                bytes += batch.len() as u64;
                at = wire::next_offset(batch);
            }
            if at >= end {
                at = 0;
            }
        } else {
            bytes += frame.len() as u64;
        }
        let t = begin.elapsed().as_secs_f64();
        match &mark {
            None if t >= WARM => mark = Some((Mark::now(target.pid), bytes)),
            Some((mark, base)) if t >= WARM + MEASURED => {
                let (cpu, secs) = mark.spent();
                break (cpu, secs, (bytes - base) as f64 / 1e9);
            }
            _ => {}
        }
    };
    if target.broker {
        delete_topic(&target.addr, &topic)?;
    }
    Ok(vec![("s/GB", cpu / gb), ("MB/s", gb * 1e3 / secs)])
}

/// Resident memory three seconds after start, nothing done yet.
pub fn idle(target: &Target) -> Done {
    std::thread::sleep(Duration::from_secs(3).saturating_sub(target.started.elapsed()));
    Ok(vec![("RSS MB", resident_mb(target.pid))])
}

/// From exec to a listening port, and to the first acknowledged produce on a new topic. An empty data directory.
pub fn start(target: &Target) -> Done {
    let body = wire::batch(1, 100, target.started_ms);
    let topic = target.fresh_topic();
    let head = wire::produce_head(&topic, 1, body.len());
    let mut c = wait_for(&target.addr, Duration::from_secs(60))?;
    let listening = target.started.elapsed();
    if target.broker {
        let until = Instant::now() + Duration::from_secs(60);
        while let Err(why) = create_topic(&target.addr, &topic) {
            if Instant::now() > until {
                return Err(why.into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    settle(target, &mut c, &head, &body, 1)?;
    let acked = target.started.elapsed();
    Ok(vec![("listen ms", listening.as_secs_f64() * 1e3), ("acked ms", acked.as_secs_f64() * 1e3)])
}

/// Sends the first request until the new leader takes it. Returns the records it put there.
fn settle(target: &Target, c: &mut Connection, head: &[u8], body: &[u8], count: usize) -> Result<i64, Box<dyn Error>> {
    for _ in 0..2000 {
        c.send(head, body)?;
        let frame = c.receive()?;
        if !target.broker {
            return Ok(0);
        }
        match wire::produce_result(frame).0 {
            0 => return Ok(count as i64),
            3 | 5 | 6 => std::thread::sleep(Duration::from_millis(1)),
            code => return Err(format!("produce answered error {code}").into()),
        }
    }
    Err("the new topic has no leader".into())
}
