//! The few requests that set a row up and check it afterwards.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::wire::{Produce, Reader, Writer, produce_result};

const CREATE_TOPICS: i16 = 19;
const DELETE_TOPICS: i16 = 20;
const LIST_OFFSETS: i16 = 2;
const METADATA: i16 = 3;
const ADMIN_TIMEOUT_MS: i32 = 120_000;
/// ListOffsets' name for the log end.
const LATEST: i64 = -1;

/// Creates a topic of one replica and returns when every partition has a leader.
pub fn create_topic(addr: &str, name: &str, partitions: i32, configs: &[(&str, &str)]) -> io::Result<()> {
    create_replicated(addr, name, partitions, 1, configs)
}

/// Creates a topic and returns when every partition has a leader and all its replicas in sync.
pub fn create_replicated(
    addr: &str,
    name: &str,
    partitions: i32,
    replicas: i16,
    configs: &[(&str, &str)],
) -> io::Result<()> {
    let place = |w: &mut Writer| {
        w.i32(partitions).i16(replicas).i32(0);
    };
    create(addr, name, place, partitions as usize, replicas as usize, configs)
}

/// The same, with the brokers of each partition; the first of them leads.
pub fn create_assigned(addr: &str, name: &str, brokers: &[Vec<i32>], configs: &[(&str, &str)]) -> io::Result<()> {
    let place = |w: &mut Writer| {
        w.i32(-1).i16(-1).i32(brokers.len() as i32);
        for (partition, replicas) in (0..).zip(brokers) {
            w.i32(partition).i32(replicas.len() as i32);
            for id in replicas {
                w.i32(*id);
            }
        }
    };
    create(addr, name, place, brokers.len(), brokers.first().map_or(0, Vec::len), configs)
}

fn create(
    addr: &str,
    name: &str,
    place: impl FnOnce(&mut Writer),
    partitions: usize,
    replicas: usize,
    configs: &[(&str, &str)],
) -> io::Result<()> {
    let mut w = Writer::request(CREATE_TOPICS, 2);
    w.i32(1).str(name);
    place(&mut w);
    w.i32(configs.len() as i32);
    for (key, value) in configs {
        w.str(key).str(value);
    }
    w.i32(ADMIN_TIMEOUT_MS).i8(0);
    let frame = w.done(0);
    let mut c = Connection::open(addr)?;
    let mut controller: Option<Connection> = None;
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let mut r = Reader::body(controller.as_mut().unwrap_or(&mut c).call(&frame)?)?;
        r.i32()?;
        r.i32()?;
        r.skip_str()?;
        match r.i16()? {
            0 | 36 => break,
            // A broker that listens before it knows itself, or before there is a controller.
            38 | 41 if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
                let known = metadata(&mut c, name)?;
                controller = known.controller_addr().filter(|at| *at != addr).map(Connection::open).transpose()?;
            }
            code => return Err(io::Error::other(format!("CreateTopics answered error {code}"))),
        }
    }
    let until = Instant::now() + Duration::from_secs(180);
    let ready = |partition: &Partition| partition.leader >= 0 && partition.isr.len() >= replicas;
    while metadata(&mut c, name)?.partitions.values().filter(|p| ready(p)).count() < partitions {
        if Instant::now() > until {
            return Err(io::Error::other(format!("{name} has no leaders after 180 s")));
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(())
}

/// What a broker knows of the others and of one topic.
pub struct Metadata {
    /// Addresses by id.
    pub brokers: BTreeMap<i32, String>,
    pub controller: i32,
    /// Those without an error.
    pub partitions: BTreeMap<i32, Partition>,
}

pub struct Partition {
    pub leader: i32,
    pub isr: Vec<i32>,
}

impl Metadata {
    fn controller_addr(&self) -> Option<&str> {
        self.brokers.get(&self.controller).map(String::as_str)
    }
}

/// Where partition 0 is led.
pub fn leader_addr(addr: &str, topic: &str) -> io::Result<String> {
    let known = metadata(&mut Connection::open(addr)?, topic)?;
    let leader = known.partitions.get(&0).and_then(|partition| known.brokers.get(&partition.leader));
    leader.cloned().ok_or_else(|| io::Error::other("a partition without a leader"))
}

/// Who takes administrators' requests.
pub fn controller_addr(addr: &str) -> io::Result<String> {
    let known = metadata(&mut Connection::open(addr)?, "")?;
    known.controller_addr().map(str::to_owned).ok_or_else(|| io::Error::other("no controller"))
}

pub fn metadata(c: &mut Connection, topic: &str) -> io::Result<Metadata> {
    let mut w = Writer::request(METADATA, 4);
    w.i32(1).str(topic).i8(0);
    let mut r = Reader::body(c.call(&w.done(0))?)?;
    r.i32()?;
    let mut brokers = BTreeMap::new();
    for _ in 0..r.count()? {
        let (id, host, port) = (r.i32()?, r.str()?, r.i32()?);
        brokers.insert(id, format!("{host}:{port}"));
        r.skip_str()?;
    }
    r.skip_str()?;
    let controller = r.i32()?;
    let mut partitions = BTreeMap::new();
    for _ in 0..r.count()? {
        r.i16()?;
        r.skip_str()?;
        r.take(1)?;
        for _ in 0..r.count()? {
            let (error, partition, leader) = (r.i16()?, r.i32()?, r.i32()?);
            r.skip_array(4)?;
            let isr = (0..r.count()?).map(|_| r.i32()).collect::<io::Result<_>>()?;
            // Which of the replicas answer is told as an error beside what is asked here.
            if matches!(error, 0 | 9) {
                partitions.insert(partition, Partition { leader, isr });
            }
        }
    }
    Ok(Metadata { brokers, controller, partitions })
}

pub fn delete_topic(addr: &str, name: &str) -> io::Result<()> {
    let mut w = Writer::request(DELETE_TOPICS, 1);
    w.i32(1).str(name).i32(ADMIN_TIMEOUT_MS);
    Connection::open(addr)?.call(&w.done(0)).map(|_| ())
}

/// Log ends of partitions 0 to `partitions`.
pub fn end_offsets(addr: &str, topic: &str, partitions: i32) -> io::Result<Vec<i64>> {
    let mut w = Writer::request(LIST_OFFSETS, 1);
    w.i32(-1).i32(1).str(topic).i32(partitions);
    for partition in 0..partitions {
        w.i32(partition).i64(LATEST);
    }
    let mut c = Connection::open(addr)?;
    let mut r = Reader::body(c.call(&w.done(0))?)?;
    r.i32()?;
    r.skip_str()?;
    let mut ends = vec![-1; partitions as usize];
    for _ in 0..r.count()? {
        let partition = r.i32()?;
        let error = r.i16()?;
        r.i64()?;
        let end = r.i64()?;
        if error != 0 {
            return Err(io::Error::other(format!("ListOffsets answered error {error}")));
        }
        if let Some(slot) = ends.get_mut(partition as usize) {
            *slot = end;
        }
    }
    Ok(ends)
}

/// Sends a request until the new leaders take it.
pub fn settle(c: &mut Connection, request: &Produce) -> io::Result<()> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        c.send(&request.head, &request.body)?;
        let mut worst = 0;
        produce_result(c.receive()?, |_, error, _| worst = if error == 0 { worst } else { error })?;
        match worst {
            0 => return Ok(()),
            3 | 5 | 6 if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
            code => return Err(io::Error::other(format!("produce answered error {code}"))),
        }
    }
}
