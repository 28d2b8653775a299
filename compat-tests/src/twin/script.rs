//! One conversation held with both brokers, step by step, and what differed.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, DescribeConfigsRequest, DescribeGroupsRequest, FindCoordinatorRequest, GroupId,
    MetadataRequest, RequestKind, ResponseKind,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::normal::{Own, normal};
use super::requests::{counted, create, metadata_topic};
use super::tree::{Tree, differences};
use crate::broker::Broker;
use crate::raw::{self, Connection, Heard};

/// Longer than any answer takes; a broker that says nothing is given this long once.
const LIMIT: Duration = Duration::from_secs(10);

/// What each API's versions are, by key.
pub type Served = BTreeMap<i16, (i16, i16)>;

/// One of the two brokers, as a script sees it.
pub struct Side {
    pub who: &'static str,
    address: String,
    connection: Option<Connection>,
    /// The other connections, by name.
    parked: BTreeMap<&'static str, Option<Connection>>,
    own: Own,
    /// Topic ids by name.
    pub ids: HashMap<String, Uuid>,
    /// Of the last Fetch answer that carried one.
    pub session: i32,
    /// Id and epoch of the last InitProducerId that was answered with some.
    producer: (i64, i16),
    /// The keys that both serve.
    compared_apis: Vec<i16>,
}

impl Side {
    pub fn new(who: &'static str, broker: &Broker) -> Side {
        Side {
            who,
            address: broker.address(),
            connection: None,
            own: Own {
                port: broker.port(),
                dir: broker.log_dir().display().to_string(),
                ids: HashMap::new(),
                members: Vec::new(),
            },
            parked: BTreeMap::new(),
            ids: HashMap::new(),
            session: 0,
            producer: (-1, -1),
            compared_apis: Vec::new(),
        }
    }

    /// Its one log directory.
    pub fn log_dir(&self) -> &str {
        &self.own.dir
    }

    /// What the broker advertises.
    pub fn served(&mut self) -> Result<Served> {
        let request = RequestKind::ApiVersions(ApiVersionsRequest::default());
        let response = self.connection()?.ask(ApiKey::ApiVersions, 0, &request)?;
        let ResponseKind::ApiVersions(response) = response else { bail!("no ApiVersions response") };
        Ok(response.api_keys.iter().map(|api| (api.api_key, (api.min_version, api.max_version))).collect())
    }

    pub fn id(&self, topic: &str) -> Uuid {
        self.ids.get(topic).copied().unwrap_or_default()
    }

    /// The id of the `nth` group member met; one that nobody has when there are not as many.
    pub fn member(&self, nth: usize) -> StrBytes {
        StrBytes::from_string(self.own.members.get(nth).cloned().unwrap_or_else(|| format!("no member {nth}")))
    }

    fn connection(&mut self) -> Result<&mut Connection> {
        if self.connection.is_none() {
            self.connection = Some(Connection::open(&self.address).with_context(|| self.who.to_owned())?);
        }
        self.connection.as_mut().context("opened above")
    }

    fn exchange(&mut self, frames: &[u8]) -> Result<Heard> {
        let who = self.who;
        let connection = self.connection()?;
        connection.send(frames);
        let heard = connection.hear(LIMIT).with_context(|| who.to_owned())?;
        if !matches!(heard, Heard::Reply(_)) {
            self.connection = None;
        }
        Ok(heard)
    }

    /// Decodes an answer, keeps what later requests need of it, and makes it comparable.
    fn understand(&mut self, api: ApiKey, version: i16, bytes: Bytes) -> Result<Tree> {
        // A version above the range is answered in the oldest layout.
        let version = if api == ApiKey::ApiVersions && !(0..=4).contains(&version) { 0 } else { version };
        let size = bytes.len();
        let (correlation, mut response) =
            raw::decode(api, version, bytes).with_context(|| format!("{}'s {api:?} v{version} answer", self.who))?;
        // Of another broker it was reported that it wrote tagged fields which held their default: librdkafka before 2.2 does
        // not find the end of those.
        let least = raw::size(api, version, &response)?;
        ensure!(size == least, "{}'s {api:?} v{version} answer has {size} bytes where {least} say it", self.who);
        match &mut response {
            ResponseKind::Metadata(metadata) => {
                for topic in &metadata.topics {
                    if let Some(name) = &topic.name {
                        self.learn(name, topic.topic_id);
                    }
                }
            }
            ResponseKind::CreateTopics(created) => {
                created.topics.iter().for_each(|topic| self.learn(&topic.name, topic.topic_id));
            }
            ResponseKind::Fetch(fetch) if fetch.session_id != 0 => self.session = fetch.session_id,
            ResponseKind::InitProducerId(given) if given.error_code == 0 => {
                self.producer = (given.producer_id.0, given.producer_epoch);
            }
            ResponseKind::JoinGroup(joined) => {
                self.own.learn_member(&joined.member_id);
                joined.members.iter().for_each(|member| self.own.learn_member(&member.member_id));
            }
            // What one of them does not serve yet is not compared.
            ResponseKind::ApiVersions(versions) => {
                versions.api_keys.retain(|api| self.compared_apis.contains(&api.api_key));
            }
            _ => {}
        }
        let mut tree = normal(api, &Tree::of(&response)?, &self.own)?;
        if let Tree::Fields(fields) = &mut tree {
            fields.push(("correlation_id".into(), Tree::Word(correlation.to_string())));
        }
        Ok(tree)
    }

    fn learn(&mut self, name: &str, id: Uuid) {
        if !id.is_nil() {
            self.ids.insert(name.to_owned(), id);
            self.own.ids.insert(id.to_string(), name.to_owned());
        }
    }
}

/// Something the two brokers did not answer alike.
#[derive(Clone, Debug)]
pub struct Difference {
    pub step: String,
    pub api: String,
    pub version: i16,
    pub field: String,
    pub kafka: String,
    pub klamm: String,
}

/// A script's memory of both sides.
pub struct Script {
    pub name: String,
    pub sides: [Side; 2],
    pub served: Served,
    pub compared: usize,
    /// Comparisons by API and version.
    pub covered: BTreeMap<(i16, i16), usize>,
    pub differences: Vec<Difference>,
    correlation: i32,
    /// The connection in use; the first has no name.
    connection: &'static str,
}

/// A request whose answer is awaited later.
#[must_use]
pub struct Sent {
    step: String,
    api: ApiKey,
    version: i16,
    connection: &'static str,
}

impl Script {
    pub fn new(name: &str, mut sides: [Side; 2], served: Served) -> Script {
        sides.iter_mut().for_each(|side| side.compared_apis = served.keys().copied().collect());
        Script {
            name: name.to_owned(),
            sides,
            served,
            compared: 0,
            covered: BTreeMap::new(),
            differences: Vec::new(),
            correlation: 1000,
            connection: "",
        }
    }

    /// Id and epoch that Kafka's side gave last; that Klamm's gave the same is compared.
    pub fn producer(&self) -> (i64, i16) {
        self.sides[0].producer
    }

    /// A topic name of this script alone.
    pub fn topic(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// Every version of `api` that is served.
    pub fn versions(&self, api: ApiKey) -> RangeInclusive<i16> {
        let &(first, last) = self.served.get(&(api as i16)).unwrap_or(&(0, -1));
        first..=last
    }

    /// The same request to both. A version that cannot carry it is passed over.
    pub fn ask(&mut self, step: &str, api: ApiKey, version: i16, build: impl Fn(&Side) -> RequestKind) -> Result<()> {
        self.correlation += 1;
        let mut frames = Vec::new();
        for side in &self.sides {
            match raw::frame(api, version, self.correlation, &build(side)) {
                Ok(frame) => frames.push(frame),
                Err(_) => return Ok(()),
            }
        }
        self.exchange(step, api, version, &[&frames[0], &frames[1]])
    }

    /// The same request in every version served.
    pub fn ask_all(&mut self, step: &str, api: ApiKey, build: impl Fn(i16, &Side) -> RequestKind) -> Result<()> {
        for version in self.versions(api) {
            self.ask(step, api, version, |side| build(version, side))?;
        }
        Ok(())
    }

    /// The same bytes to both; the answer, if there is one, is of this API and version.
    pub fn raw(&mut self, step: &str, api: ApiKey, version: i16, bytes: &[u8]) -> Result<()> {
        self.exchange(step, api, version, &[bytes, bytes])
    }

    fn exchange(&mut self, step: &str, api: ApiKey, version: i16, frames: &[&[u8]; 2]) -> Result<()> {
        let step = format!("{}: {step}", self.name);
        let mut trees = Vec::new();
        for (side, frame) in self.sides.iter_mut().zip(frames) {
            let started = Instant::now();
            trees.push(match side.exchange(frame)? {
                Heard::Reply(bytes) => match side.understand(api, version, bytes) {
                    Ok(tree) => tree,
                    Err(error) => Tree::Text(format!("<unreadable: {error:#}>")),
                },
                Heard::Closed => Tree::Text("<closed>".into()),
                Heard::Silent => Tree::Text("<silent>".into()),
            });
            if std::env::var_os("KLAMM_TWIN_TIMES").is_some() && started.elapsed() > Duration::from_millis(100) {
                println!("      {} took {} ms: {step} v{version}", side.who, started.elapsed().as_millis());
            }
        }
        self.compared += 1;
        *self.covered.entry((api as i16, version)).or_default() += 1;
        for (field, kafka, klamm) in differences(&trees[0], &trees[1]) {
            self.differences.push(Difference {
                step: step.clone(),
                api: format!("{api:?}"),
                version,
                field,
                kafka,
                klamm,
            });
        }
        Ok(())
    }

    /// Sends frames that must not be answered, then an ApiVersions: its answer comes first, or the connection is closed.
    pub fn unanswered(
        &mut self,
        step: &str,
        api: ApiKey,
        version: i16,
        build: impl Fn(&Side) -> RequestKind,
    ) -> Result<()> {
        self.correlation += 2;
        let probe = RequestKind::ApiVersions(ApiVersionsRequest::default());
        let probe = raw::frame(ApiKey::ApiVersions, 0, self.correlation + 1, &probe)?;
        let mut heard = Vec::new();
        for side in &mut self.sides {
            let Ok(frame) = raw::frame(api, version, self.correlation, &build(side)) else { return Ok(()) };
            heard.push(match side.exchange(&[&frame[..], &probe[..]].concat())? {
                Heard::Reply(bytes) => format!("correlation id {:?}", bytes.get(..4)),
                other => format!("{other:?}"),
            });
        }
        self.compared += 1;
        *self.covered.entry((api as i16, version)).or_default() += 1;
        if heard[0] != heard[1] {
            self.differences.push(Difference {
                step: format!("{}: {step}", self.name),
                api: format!("{api:?}"),
                version,
                field: "(outcome)".into(),
                kafka: heard[0].clone(),
                klamm: heard[1].clone(),
            });
        }
        Ok(())
    }

    /// Several frames in one write; the answers must come back in order.
    pub fn pipelined(&mut self, step: &str, requests: &[(ApiKey, i16, RequestKind)]) -> Result<()> {
        let mut bytes = Vec::new();
        for (i, (api, version, request)) in requests.iter().enumerate() {
            bytes.extend_from_slice(&raw::frame(*api, *version, self.correlation + 1 + i as i32, request)?);
        }
        self.correlation += requests.len() as i32;
        let mut bytes = bytes.as_slice();
        for (api, version, _) in requests {
            self.exchange(step, *api, *version, &[bytes, bytes])?;
            bytes = &[];
        }
        Ok(())
    }

    /// What follows goes over the connection of this name, to either side.
    pub fn over(&mut self, connection: &'static str) {
        if connection == self.connection {
            return;
        }
        for side in &mut self.sides {
            let next = side.parked.remove(connection).flatten();
            let last = std::mem::replace(&mut side.connection, next);
            side.parked.insert(self.connection, last);
        }
        self.connection = connection;
    }

    /// Sends a request that is answered when others have come: see [`Script::answer`].
    pub fn send(
        &mut self,
        step: &str,
        api: ApiKey,
        version: i16,
        build: impl Fn(&Side) -> RequestKind,
    ) -> Result<Sent> {
        self.correlation += 1;
        for side in &mut self.sides {
            let frame = raw::frame(api, version, self.correlation, &build(side))?;
            side.connection()?.send(&frame);
        }
        Ok(Sent { step: step.to_owned(), api, version, connection: self.connection })
    }

    /// Compares the answers to what was sent.
    pub fn answer(&mut self, sent: Sent) -> Result<()> {
        let back = self.connection;
        self.over(sent.connection);
        let compared = self.exchange(&sent.step, sent.api, sent.version, &[&[], &[]]);
        self.over(back);
        compared
    }

    /// Waits until both brokers describe `group` as being in `state` with so many members. Not compared.
    pub fn await_group(&mut self, group: &str, state: &str, members: usize) -> Result<()> {
        let groups = vec![GroupId(StrBytes::from_string(group.to_owned()))];
        let request = RequestKind::DescribeGroups(DescribeGroupsRequest::default().with_groups(groups));
        let what = format!("have {group} {state} with {members} members");
        self.until(&what, ApiKey::DescribeGroups, 0, &request, |response| match response {
            ResponseKind::DescribeGroups(described) => described
                .groups
                .first()
                .is_some_and(|group| *group.group_state == *state && group.members.len() == members),
            _ => false,
        })
    }

    /// Waits until both brokers say that `key` of broker 1 is `value`: Kafka acts on a change when ZooKeeper tells it of
    /// one. Not compared.
    pub fn await_broker_config(&mut self, key: &'static str, value: &str) -> Result<()> {
        let resource = DescribeConfigsResource::default()
            .with_resource_type(4)
            .with_resource_name(StrBytes::from_static_str("1"))
            .with_configuration_keys(Some(vec![StrBytes::from_static_str(key)]));
        let request = RequestKind::DescribeConfigs(DescribeConfigsRequest::default().with_resources(vec![resource]));
        self.until(&format!("have {key}={value}"), ApiKey::DescribeConfigs, 1, &request, |response| match response {
            ResponseKind::DescribeConfigs(described) => described
                .results
                .iter()
                .flat_map(|result| &result.configs)
                .any(|config| *config.name == *key && config.value.as_deref() == Some(value)),
            _ => false,
        })
    }

    /// Waits until both brokers know the coordinator of groups. Not compared.
    pub fn await_coordinator(&mut self) -> Result<()> {
        let request = FindCoordinatorRequest::default().with_key(StrBytes::from_static_str("any"));
        self.until(
            "a coordinator",
            ApiKey::FindCoordinator,
            0,
            &RequestKind::FindCoordinator(request),
            |response| matches!(response, ResponseKind::FindCoordinator(found) if found.error_code == 0),
        )
    }

    /// Fresh connections for the next step.
    pub fn reconnect(&mut self) {
        self.sides.iter_mut().for_each(|side| side.connection = None);
    }

    /// Makes a topic on both, however long a deleted one of that name lingers. Not compared.
    pub fn make_topic(&mut self, topic: &str, partitions: i32) -> Result<()> {
        let request = RequestKind::CreateTopics(create(vec![counted(topic, partitions, 1)]));
        let frame = raw::frame(ApiKey::CreateTopics, 2, 7, &request)?;
        for side in &mut self.sides {
            let until = Instant::now() + LIMIT;
            loop {
                let Heard::Reply(bytes) = side.exchange(&frame)? else { bail!("{} did not create {topic}", side.who) };
                let (_, ResponseKind::CreateTopics(created)) = raw::decode(ApiKey::CreateTopics, 2, bytes)? else {
                    bail!("no CreateTopics response")
                };
                match created.topics.first().map(|topic| topic.error_code) {
                    Some(0) => break,
                    error if Instant::now() > until => bail!("{} does not create {topic}: {error:?}", side.who),
                    _ => thread::sleep(Duration::from_millis(20)),
                }
            }
        }
        self.await_topic(topic, partitions as usize)
    }

    /// Asks each until its answer is as `wanted`. Not compared.
    pub fn until(
        &mut self,
        what: &str,
        api: ApiKey,
        version: i16,
        request: &RequestKind,
        wanted: impl Fn(&ResponseKind) -> bool,
    ) -> Result<()> {
        for side in &mut self.sides {
            let until = Instant::now() + LIMIT;
            loop {
                let response = side.connection()?.ask(api, version, request)?;
                if wanted(&response) {
                    break;
                }
                if Instant::now() > until {
                    bail!("{} does not come to {what}: {response:?}", side.who);
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Waits until both brokers have the topic with a leader for each of its partitions.
    pub fn await_topic(&mut self, topic: &str, partitions: usize) -> Result<()> {
        self.await_metadata(topic, |found| found.is_some_and(|leaders| leaders == partitions))
    }

    /// Waits until neither broker has the topic.
    pub fn await_gone(&mut self, topic: &str) -> Result<()> {
        self.await_metadata(topic, |found| found.is_none())
    }

    fn await_metadata(&mut self, topic: &str, wanted: impl Fn(Option<usize>) -> bool) -> Result<()> {
        let name = StrBytes::from_string(topic.to_owned());
        let request = MetadataRequest::default()
            .with_topics(Some(vec![metadata_topic(name)]))
            .with_allow_auto_topic_creation(false);
        let version = *self.versions(ApiKey::Metadata).end();
        let frame = raw::frame(ApiKey::Metadata, version, 7, &RequestKind::Metadata(request))?;
        for side in &mut self.sides {
            let until = Instant::now() + LIMIT;
            loop {
                let Heard::Reply(bytes) = side.exchange(&frame)? else { bail!("{} gave no metadata", side.who) };
                side.understand(ApiKey::Metadata, version, bytes.clone())?;
                let (_, ResponseKind::Metadata(metadata)) = raw::decode(ApiKey::Metadata, version, bytes)? else {
                    bail!("no Metadata response")
                };
                let found = metadata.topics.iter().find(|topic| topic.error_code == 0);
                let leaders = found.map(|topic| topic.partitions.iter().filter(|p| p.leader_id.0 >= 0).count());
                if wanted(leaders) {
                    break;
                }
                if Instant::now() > until {
                    bail!("{} does not come to have {topic} as awaited: {leaders:?} leaders", side.who);
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }
}
