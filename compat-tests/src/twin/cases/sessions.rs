//! Fetch sessions (KIP-227).

use anyhow::Result;
use kafka_protocol::messages::fetch_request::{FetchTopic, ForgottenTopic};
use kafka_protocol::messages::{ApiKey, RequestKind};
use uuid::Uuid;

use super::super::requests::{at, fetch, fetch_topic, produce_one, topic_name};
use super::super::script::{Script, Side};
use super::produce::topic;
use crate::records::Batch;

const API: ApiKey = ApiKey::Fetch;

fn forgotten(name: &str, id: Uuid, version: i16, partitions: &[i32]) -> ForgottenTopic {
    let topic = ForgottenTopic::default().with_partitions(partitions.to_vec());
    if version >= 13 { topic.with_topic_id(id) } else { topic.with_topic(topic_name(name)) }
}

fn ask(version: i16, session: i32, epoch: i32, topics: Vec<FetchTopic>, forgotten: Vec<ForgottenTopic>) -> RequestKind {
    let request = fetch(version, topics).with_session_id(session).with_session_epoch(epoch);
    RequestKind::Fetch(request.with_forgotten_topics_data(forgotten))
}

pub fn run(script: &mut Script) -> Result<()> {
    for version in script.versions(API).filter(|&version| version >= 7) {
        let name = topic(script, &format!("v{version}"), 4, &[])?;
        let batch = Batch::stamped(&[1, 2]).encode();
        for partition in [0, 1] {
            script.ask("records", ApiKey::Produce, 7, |_| produce_one(&name, partition, batch.clone()))?;
        }
        let topics = |side: &Side, parts: &[(i32, i64)]| {
            let parts = parts.iter().map(|&(partition, offset)| at(partition, offset)).collect();
            vec![fetch_topic(&name, side.id(&name), version, parts)]
        };
        script.ask("no session", API, version, |side| ask(version, 0, -1, topics(side, &[(0, 0)]), vec![]))?;
        script.ask("opens", API, version, |side| {
            ask(version, 0, 0, topics(side, &[(0, 0), (1, 0), (2, 0), (9, 0)]), vec![])
        })?;
        script.ask("1: nothing named", API, version, |side| ask(version, side.session, 1, vec![], vec![]))?;
        script.ask("2: moved on", API, version, |side| {
            ask(version, side.session, 2, topics(side, &[(0, 2), (1, 2)]), vec![])
        })?;
        script.ask("3: nothing new", API, version, |side| ask(version, side.session, 3, vec![], vec![]))?;
        script.ask("records", ApiKey::Produce, 7, |_| produce_one(&name, 2, batch.clone()))?;
        script.ask("4: news", API, version, |side| ask(version, side.session, 4, vec![], vec![]))?;
        script.ask("the same epoch again", API, version, |side| ask(version, side.session, 4, vec![], vec![]))?;
        script.ask("an epoch ahead", API, version, |side| ask(version, side.session, 9, vec![], vec![]))?;
        script.ask("an unknown session", API, version, |side| ask(version, side.session ^ 1, 5, vec![], vec![]))?;
        script.reconnect();
        script.ask("5: from another connection, one more", API, version, |side| {
            ask(version, side.session, 5, topics(side, &[(3, 0)]), vec![])
        })?;
        script.ask("6: one forgotten", API, version, |side| {
            ask(version, side.session, 6, vec![], vec![forgotten(&name, side.id(&name), version, &[2, 9])])
        })?;
        for partition in [0, 1, 2, 3] {
            script.ask("records", ApiKey::Produce, 7, |_| produce_one(&name, partition, batch.clone()))?;
        }
        script.ask("7: three with news", API, version, |side| ask(version, side.session, 7, vec![], vec![]))?;
        script.ask("8: the same, nothing moved", API, version, |side| ask(version, side.session, 8, vec![], vec![]))?;
        script.ask("9: an unknown topic added", API, version, |_side| {
            ask(
                version,
                _side.session,
                9,
                vec![fetch_topic("nowhere", Uuid::from_u128(0x77), version, vec![at(0, 0)])],
                vec![],
            )
        })?;
        script.ask("10: an unknown one forgotten", API, version, |side| {
            ask(version, side.session, 10, vec![], vec![forgotten("elsewhere", Uuid::from_u128(0x78), version, &[0])])
        })?;
        if version == 12 {
            let id = script.sides.each_ref().map(|side| side.id(&name));
            script.ask("11: by id in a session of names", API, 13, |side| {
                let id = if side.who == "kafka" { id[0] } else { id[1] };
                ask(13, side.session, 11, vec![fetch_topic(&name, id, 13, vec![at(0, 0)])], vec![])
            })?;
        }
        script.ask("closes", API, version, |side| ask(version, side.session, -1, topics(side, &[(0, 0)]), vec![]))?;
        script.ask("closed", API, version, |side| ask(version, side.session, 11, vec![], vec![]))?;
        script.ask("opens without partitions", API, version, |_| ask(version, 0, 0, vec![], vec![]))?;
        script.ask("opens again", API, version, |side| ask(version, 0, 0, topics(side, &[(0, 0)]), vec![]))?;
        script.ask("renews", API, version, |side| ask(version, side.session, 0, topics(side, &[(1, 0)]), vec![]))?;
        script.ask("1: all forgotten", API, version, |side| {
            ask(version, side.session, 1, vec![], vec![forgotten(&name, side.id(&name), version, &[1])])
        })?;
        script.ask("2: left empty", API, version, |side| {
            ask(version, side.session, 2, topics(side, &[(0, 0)]), vec![])
        })?;
        script.ask("id 0 and epoch 3", API, version, |side| ask(version, 0, 3, topics(side, &[(0, 0)]), vec![]))?;
        script.ask("a negative epoch", API, version, |side| ask(version, 0, -5, topics(side, &[(0, 0)]), vec![]))?;
    }
    Ok(())
}
