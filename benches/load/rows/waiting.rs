//! Clients that wait: consumers for what does not come, connections for nothing.

use std::time::{Duration, Instant};

use super::memory::idle_connections;
use super::{Row, Sizes};
use crate::admin::{create_topic, delete_topic, settle};
use crate::connection::{Connection, Poller};
use crate::drive::{ANSWER, Amount, Closed, Ledger, Outcome};
use crate::figure::{Figure, Sheet};
use crate::fleet::{Fleet, Who};
use crate::machine::server::Mode;
use crate::meter::Mark;
use crate::wire::{Batch, Produce, fetch, fetch_result};

const CONSUMERS: usize = 1000;
const WARM_SECS: f64 = 1.0;

const PERCENT: Figure = Figure::less("CPU % of a core");
const US_POLL: Figure = Figure::less("CPU µs/poll");

const IDLE: usize = 10_000;
const ACTIVE: usize = 100;

const ALONE_P99: Figure = Figure::less("100 active: p99 ms");
const BESIDE_P99: Figure = Figure::less("beside 10,000 idle: p99 ms");
const P99: Figure = Figure::less("p99, beside idle ones to alone").of_value(1.3, 1.1);

pub fn rows(sizes: Sizes) -> Vec<Row> {
    let what = "100 connections with a record of 1 KiB in flight each, alone and beside 10,000 idle connections";
    let figures = vec![ALONE_P99, BESIDE_P99, P99];
    let idle =
        Row::new("idle-10000", "", what, figures, move |fleet, who, sheet| beside_idle(fleet, who, sheet, sizes));
    vec![long_polls(sizes), idle.without_limit()]
}

fn beside_idle(fleet: &mut Fleet, who: Who, sheet: &mut Sheet, sizes: Sizes) -> Outcome<()> {
    let (peer, topic) = (fleet.peer(who, Mode::Sink)?, fleet.fresh_topic());
    let batch = Batch::new(1, 1024, fleet.timestamp_ms);
    let requests = [Produce::one(&topic, 0, 1, &batch)];
    create_topic(&peer.addr, &topic, 1, &[])?;
    settle(&mut Connection::open(&peer.addr)?, &requests[0])?;
    let p99_ms = || -> Outcome<f64> {
        let mut ledger = Ledger::open(&peer, &topic, 1, &batch)?;
        let (warm, measured) = (Amount::Secs(0.5), Amount::Secs(sizes.secs.max(2.0)));
        let load = Closed { requests: &requests, connections: ACTIVE, window: 1, warm, measured };
        let produced = load.run(&peer, &mut ledger)?;
        ledger.check()?;
        Ok(produced.answered.value_at_quantile(0.99) as f64 / 1e6)
    };
    let alone = p99_ms()?;
    let idle = idle_connections(&peer, IDLE)?;
    let beside = p99_ms()?;
    drop(idle);
    delete_topic(&peer.addr, &topic)?;
    sheet.add(ALONE_P99.name, alone)?;
    sheet.add(BESIDE_P99.name, beside)?;
    Ok(sheet.add(P99.name, beside / alone)?)
}

fn long_polls(sizes: Sizes) -> Row {
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
                mark = Some(Mark::now(&peer.paying));
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
