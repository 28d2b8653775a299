//! Start after kill -9: row 11. With a deep log, and with 10,000 partitions, it is measured in the rows that have them.

use rustix::process::Signal;

use super::fetch::fill;
use super::{Row, start};
use crate::admin::end_offsets;
use crate::drive::Outcome;
use crate::figure::{Figure, Sheet};
use crate::fleet::{Fleet, Who};
use crate::machine::disk::read_and_check;
use crate::wire::Batch;

/// Less than a segment, so that nothing of it is behind a checkpoint.
const BYTES: u64 = 1_000_000_000;

const S_GB: Figure = Figure::less("s/GB").of_limit(3.0, 1.5);

pub fn row() -> Row {
    let what = "kill -9 with 1 GB behind the last checkpoint, exec to acknowledged; P: pread 1 MiB + CRC-32C";
    Row::new("recovery", "11", what, vec![S_GB], run).touches(1.5)
}

fn run(fleet: &mut Fleet, who: Who, sheet: &mut Sheet) -> Outcome<()> {
    let batch = Batch::filling(16 << 10, 1024, fleet.timestamp_ms);
    if who == Who::Limit {
        let path = fleet.dir.join(format!("klamm-load-{}-recovery", std::process::id()));
        let mut file = std::fs::File::create(&path)?;
        for _ in 0..BYTES / batch.bytes.len() as u64 {
            std::io::Write::write_all(&mut file, &batch.bytes)?;
        }
        let cost = read_and_check(&path);
        std::fs::remove_file(path)?;
        return Ok(sheet.add(S_GB.name, cost?)?);
    }
    let mut server = fleet.fresh(who)?;
    server.listening()?;
    fill(&server.peer(), "log", &batch, BYTES)?;
    let end = end_offsets(&server.addr, "log", 1)?[0];
    server.stop(Signal::KILL)?;
    server.again()?;
    let acked_ms = start::until_acked(&server, "log", fleet.timestamp_ms)?;
    survived(&server.addr, "log", end)?;
    let gb = end as f64 / batch.records as f64 * batch.bytes.len() as f64 / 1e9;
    Ok(sheet.add(S_GB.name, acked_ms / 1e3 / gb)?)
}

/// One record was sent since the log ended at `end`; nothing before it may be missing.
pub fn survived(addr: &str, topic: &str, end: i64) -> Outcome<()> {
    let now = end_offsets(addr, topic, 1)?[0];
    if now < end + 1 { Err(format!("log ended at {end}, after recovery at {now}").into()) } else { Ok(()) }
}
