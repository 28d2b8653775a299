//! Consumers that wait for what does not come.

use std::time::{Duration, Instant};

use super::{Row, Sizes};
use crate::admin::{create_topic, delete_topic};
use crate::connection::{Connection, Poller};
use crate::drive::{ANSWER, Outcome};
use crate::figure::{Figure, Sheet};
use crate::fleet::{Fleet, Who};
use crate::machine::server::Mode;
use crate::meter::Mark;
use crate::wire::{fetch, fetch_result};

const CONSUMERS: usize = 1000;
const WARM_SECS: f64 = 1.0;

const PERCENT: Figure = Figure::less("CPU % of a core");
const US_POLL: Figure = Figure::less("CPU µs/poll");

pub fn row(sizes: Sizes) -> Row {
    let what = "1,000 consumers in long polls of 500 ms at the end of an empty partition";
    let measure = move |fleet: &mut Fleet, who, sheet: &mut Sheet| run(fleet, who, sheet, sizes.secs.max(4.0));
    Row::new("longpoll-1000", "", what, vec![PERCENT, US_POLL], measure).without_limit()
}

fn run(fleet: &mut Fleet, who: Who, sheet: &mut Sheet, secs: f64) -> Outcome<()> {
    let (peer, topic) = (fleet.peer(who, Mode::Sink)?, fleet.fresh_topic());
    create_topic(&peer.addr, &topic, 1, &[])?;
    let poll = fetch(&topic, 0, 0, ANSWER);
    let (mut poller, mut waiting) = (Poller::new()?, Vec::new());
    for i in 0..CONSUMERS {
        let mut connection = Connection::open(&peer.addr)?;
        connection.send(&poll, &[])?;
        poller.add(&connection, i)?;
        waiting.push(connection);
    }
    let begin = Instant::now();
    let (mut polls, mut mark) = (0u64, None);
    let spent = loop {
        for i in poller.wait(Duration::from_millis(100))? {
            waiting[i].fill()?;
            let Some(frame) = waiting[i].pop() else { continue };
            if !fetch_result(frame)?.is_empty() {
                return Err("an empty partition has records".into());
            }
            polls += 1;
            waiting[i].send(&poll, &[])?;
        }
        let t = begin.elapsed().as_secs_f64();
        match &mark {
            None if t >= WARM_SECS => {
                mark = Some(Mark::now(peer.pid));
                polls = 0;
            }
            Some(mark) if t >= WARM_SECS + secs => break mark.spent(),
            _ => {}
        }
    };
    drop(waiting);
    delete_topic(&peer.addr, &topic)?;
    sheet.add(PERCENT.name, spent.cpu * 100.0 / spent.secs)?;
    Ok(sheet.add(US_POLL.name, spent.cpu * 1e6 / polls as f64)?)
}
