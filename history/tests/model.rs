//! Whatever a cluster does that keeps its promises is sound: a partition that is led, replicated and read by the rules, its
//! leaders dying at any time, told as a history.

use history::event::{
    Acks, Commit, Committed, Event, Outcome, Partition, Poll, Polled, Replica, Seek, Send, Span, Stored,
};
use history::judge;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// A record is sent; the answer is lost where `told` is false.
    Send {
        client: u8,
        all: bool,
        told: bool,
    },
    Refuse {
        client: u8,
    },
    /// The follower fetches all there is.
    Replicate,
    /// The leader dies; what the follower does not have goes with it.
    Die,
    Poll {
        client: u8,
        most: u8,
    },
    Commit {
        client: u8,
        told: bool,
    },
    Ask,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..2u8, any::<bool>(), prop::bool::weighted(0.8)).prop_map(|(client, all, told)| Step::Send { client, all, told }),
        1 => (0..2u8).prop_map(|client| Step::Refuse { client }),
        3 => Just(Step::Replicate),
        1 => Just(Step::Die),
        3 => (0..2u8, 0..4u8).prop_map(|(client, most)| Step::Poll { client, most }),
        2 => (0..2u8, any::<bool>()).prop_map(|(client, told)| Step::Commit { client, told }),
        1 => Just(Step::Ask),
    ];
    prop::collection::vec(step, 1..60)
}

/// A sent record that waits for the follower: its answer is written when that has it.
struct Waiting {
    offset: i64,
    send: Send,
}

#[derive(Default)]
struct Model {
    now_us: u64,
    epoch: i32,
    log: Vec<Stored>,
    high_watermark: i64,
    waiting: Vec<Waiting>,
    sent: [u64; 2],
    position: [i64; 2],
    events: Vec<Event>,
    /// What the group may have committed: the last certain offset, and uncertain ones since.
    committed: Option<i64>,
}

fn at() -> Partition {
    Partition { topic: "t".into(), partition: 0 }
}

impl Model {
    fn tick(&mut self) -> u64 {
        self.now_us += 1;
        self.now_us
    }

    fn send(&mut self, client: u8, acks: Acks, outcome: Outcome, to_us: Option<u64>) -> Send {
        let number = self.sent[client as usize];
        self.sent[client as usize] += 1;
        let (client, value) = (format!("p{client}"), format!("p{client}-{number}"));
        let span = Span { from_us: self.tick(), to_us };
        let (key, transaction, input) = (None, None, None);
        Send { client, number, span, at: at(), key, value, acks, idempotent: true, transaction, input, outcome }
    }

    fn play(&mut self, step: &Step) {
        match *step {
            Step::Send { client, all, told } => {
                let acks = if all { Acks::All } else { Acks::Leader };
                let mut send = self.send(client, acks, Outcome::Unknown, None);
                let offset = self.log.len() as i64;
                let (epoch, value) = (self.epoch, Some(send.value.clone()));
                self.log.push(Stored { offset, epoch, value, key: None, crc: None });
                match (told, all) {
                    (true, true) => return self.waiting.push(Waiting { offset, send }),
                    (true, false) => {
                        send.outcome = Outcome::Stored { offset };
                        send.span.to_us = Some(self.tick());
                    }
                    (false, _) => {}
                }
                self.events.push(Event::Send(send));
            }
            Step::Refuse { client } => {
                let end = self.now_us + 2;
                let send = self.send(client, Acks::All, Outcome::Refused, Some(end));
                self.events.push(Event::Send(send));
                self.now_us = end;
            }
            Step::Replicate => self.replicate(),
            Step::Die => {
                self.epoch += 1;
                self.log.truncate(self.high_watermark as usize);
                let lost = self.waiting.drain(..).map(|waiting| Event::Send(waiting.send));
                self.events.extend(lost);
            }
            Step::Poll { client, most } => self.poll(client, most),
            Step::Commit { client, told } => {
                let offset = self.position[client as usize];
                let outcome = if told { Outcome::Stored { offset } } else { Outcome::Unknown };
                let span = Span { from_us: self.tick(), to_us: told.then(|| self.now_us + 1) };
                self.now_us += 2;
                self.committed = Some(offset);
                let (client, group) = (format!("c{client}"), "g".into());
                self.events.push(Event::Commit(Commit {
                    client,
                    group,
                    span,
                    at: at(),
                    offset,
                    transaction: None,
                    outcome,
                }));
            }
            Step::Ask => {
                let span = Span { from_us: self.tick(), to_us: Some(self.now_us + 1) };
                self.now_us += 2;
                let (client, group, offset) = ("a".into(), "g".into(), self.committed);
                self.events.push(Event::Committed(Committed { client, group, span, at: at(), offset }));
            }
        }
    }

    fn replicate(&mut self) {
        self.high_watermark = self.log.len() as i64;
        for mut waiting in std::mem::take(&mut self.waiting) {
            waiting.send.outcome = Outcome::Stored { offset: waiting.offset };
            waiting.send.span.to_us = Some(self.tick());
            self.events.push(Event::Send(waiting.send));
        }
    }

    fn poll(&mut self, client: u8, most: u8) {
        let position = self.position[client as usize];
        let next = self.high_watermark.min(position + i64::from(most));
        self.position[client as usize] = next;
        let records = self.log[position as usize..next as usize].iter().map(|record| Polled {
            offset: record.offset,
            key: None,
            value: record.value.clone().unwrap_or_default(),
        });
        let records = records.collect();
        let span = Span { from_us: self.tick(), to_us: Some(self.now_us + 1) };
        self.now_us += 2;
        let mark = Some(self.high_watermark);
        self.events.push(Event::Poll(Poll {
            client: format!("c{client}"),
            group: Some("g".into()),
            span,
            at: at(),
            position,
            next,
            leader_epoch: Some(self.epoch),
            high_watermark: mark,
            last_stable_offset: mark,
            read_committed: false,
            transaction: None,
            records,
        }));
    }

    fn history(mut self) -> String {
        // Something is acknowledged, or the run would show nothing.
        self.play(&Step::Send { client: 0, all: true, told: true });
        self.replicate();
        let seeks =
            (0..2).map(|client| Event::Seek(Seek { client: format!("c{client}"), at_us: 0, at: at(), offset: 0 }));
        let replica = |broker, leader| {
            let records = self.log.clone();
            let high_watermark = self.high_watermark;
            Event::Replica(Replica { broker, at: at(), leader, log_start_offset: 0, high_watermark, records })
        };
        let ends = [replica(1, true), replica(2, false)];
        let lines = seeks.chain(self.events).chain(ends).map(|event| serde_json::to_string(&event).expect("JSON"));
        lines.collect::<Vec<_>>().join("\n")
    }
}

proptest! {
    #[test]
    fn what_keeps_its_promises_is_sound(steps in steps()) {
        let mut model = Model::default();
        steps.iter().for_each(|step| model.play(step));
        prop_assert_eq!(judge(model.history().as_bytes()).expect("a history").to_string(), "sound\n");
    }

    /// One promise broken: a record that was acknowledged by all goes at the end.
    #[test]
    fn a_lost_record_is_found(steps in steps()) {
        let mut model = Model::default();
        steps.iter().for_each(|step| model.play(step));
        let history = model.history();
        let last = history.lines().rfind(|line| line.contains(r#""event":"send""#)).expect("a send");
        let send: Send = serde_json::from_str(last).expect("a send");
        let Outcome::Stored { offset } = send.outcome else { panic!("{last} was not acknowledged") };
        let held = format!(r#"{{"offset":{offset},"#);
        let broken: Vec<String> = history.lines().map(|line| {
            let Ok(Event::Replica(mut replica)) = serde_json::from_str(line) else { return line.to_owned() };
            replica.records.retain(|record| record.offset != offset);
            assert!(line.contains(&held));
            serde_json::to_string(&Event::Replica(replica)).expect("JSON")
        }).collect();
        let verdict = judge(broken.join("\n").as_bytes()).expect("a history").to_string();
        prop_assert!(verdict.starts_with("violated: acknowledged-is-kept: "), "{}", verdict);
    }
}
