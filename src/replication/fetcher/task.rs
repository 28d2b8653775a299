//! One fetcher's task: asks, waits, has the partitions take what came, and begins again.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{BrokerId as WireId, ListOffsetsRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use tokio::sync::mpsc;

use super::Surroundings;
use super::book::{Body, Book, Lookup};
use crate::cluster::Conversation;
use crate::replication::follower::Question;
use crate::replication::partition::Partition;
use crate::types::{BrokerId, LeaderEpoch, Offset, TopicPartition};
use crate::wire::api_versions::ApiKey;
use crate::wire::error_code::ErrorCode;
use crate::wire::fetch::FetchAnswer;

/// What the manager says to a fetcher.
pub enum Command {
    Add(Arc<Partition>, LeaderEpoch),
    Remove(TopicPartition),
}

/// Bytes of records appended before other tasks of the thread get their turn.
const TURN: usize = 1 << 20;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;

/// One task.
pub struct Fetcher {
    around: Arc<Surroundings>,
    leader: BrokerId,
    client_id: Arc<str>,
    commands: mpsc::UnboundedReceiver<Command>,
    book: Book,
    conversation: Option<Conversation>,
    /// After a failure of the connection nothing is asked before, monotonic ms.
    rests_until_ms: i64,
    /// The outage was told.
    is_down: bool,
}

/// The manager dropped this fetcher.
struct Ended;

impl Fetcher {
    pub fn new(
        around: Arc<Surroundings>,
        leader: BrokerId,
        index: i32,
        commands: mpsc::UnboundedReceiver<Command>,
    ) -> Fetcher {
        let client_id = format!("broker-{}-fetcher-{index}", around.broker).into();
        let book = Book::new(around.config, Arc::clone(&around.quota));
        Fetcher { around, leader, client_id, commands, book, conversation: None, rests_until_ms: 0, is_down: false }
    }

    /// Until the manager drops it.
    pub async fn run(mut self) {
        while self.round().await.is_ok() {}
    }

    async fn round(&mut self) -> Result<(), Ended> {
        self.obey()?;
        let now_ms = self.around.clock.monotonic_ms();
        if now_ms < self.rests_until_ms {
            return self.sleep(Some(self.rests_until_ms - now_ms)).await;
        }
        let lookups = self.book.lookups(now_ms);
        if !lookups.is_empty() {
            return self.look_up(lookups).await;
        }
        let epoch = (self.around.broker_epoch)();
        let Some(body) = self.book.request(self.around.broker, epoch, now_ms) else {
            let due_ms = self.book.next_due_ms().map(|due_ms| due_ms - now_ms);
            return self.sleep(due_ms).await;
        };
        let version = body.version;
        match self.ask(|conversation| Box::pin(fetch(conversation, body))).await? {
            Ok(frame) => self.take(&frame, version).await,
            Err(error) => self.failed(&error),
        }
        Ok(())
    }

    /// Takes the commands that are there.
    fn obey(&mut self) -> Result<(), Ended> {
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.does(command),
                Err(mpsc::error::TryRecvError::Empty) => return Ok(()),
                Err(mpsc::error::TryRecvError::Disconnected) => return Err(Ended),
            }
        }
    }

    fn does(&mut self, command: Command) {
        match command {
            Command::Add(partition, epoch) => {
                self.book.add(partition, epoch);
                // The controller knows the leader to be there.
                self.rests_until_ms = 0;
            }
            Command::Remove(tp) => self.book.remove(&tp),
        }
    }

    /// Until a command, or for so many ms.
    async fn sleep(&mut self, ms: Option<i64>) -> Result<(), Ended> {
        let over = async {
            match ms {
                Some(ms) => tokio::time::sleep(Duration::from_millis(u64::try_from(ms.max(1)).unwrap_or(1))).await,
                None => std::future::pending().await,
            }
        };
        let left = async {
            match &mut self.conversation {
                Some(conversation) => conversation.ended().await,
                None => std::future::pending().await,
            }
        };
        let command = tokio::select! {
            biased;
            command = self.commands.recv() => Some(command.ok_or(Ended)?),
            () = over => None,
            // Its session is gone with it.
            _ = left => {
                self.conversation = None;
                self.book.connection_lost();
                None
            }
        };
        if let Some(command) = command {
            self.does(command);
        }
        Ok(())
    }

    /// Has a question put over the connection, which is opened when there is none. Commands are taken meanwhile.
    async fn ask<T, F>(&mut self, question: F) -> Result<io::Result<T>, Ended>
    where
        F: for<'c> FnOnce(&'c mut Conversation) -> Asking<'c, T>,
    {
        let mut conversation = match self.conversation.take() {
            Some(conversation) => conversation,
            None => {
                match self.while_obeying(connect(Arc::clone(&self.around), self.leader, self.client_id.clone())).await?
                {
                    Ok(conversation) => conversation,
                    Err(error) => return Ok(Err(error)),
                }
            }
        };
        let limit_ms = self.around.config.socket_timeout_ms.saturating_add(self.around.config.max_wait_ms.into());
        let limit = Duration::from_millis(u64::try_from(limit_ms).unwrap_or(0));
        let answer = self.while_obeying(tokio::time::timeout(limit, question(&mut conversation))).await?;
        Ok(match answer {
            Ok(Ok(answer)) => {
                self.conversation = Some(conversation);
                if std::mem::take(&mut self.is_down) {
                    tracing::info!(leader = self.leader.0, "the leader answers again");
                }
                Ok(answer)
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {limit_ms} ms"))),
        })
    }

    async fn while_obeying<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Ended> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                command = self.commands.recv() => self.does(command.ok_or(Ended)?),
            }
        }
    }

    /// Without a connection: the same again, all of it, after a rest.
    fn failed(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.is_down, true) {
            let (leader, client) = (self.leader.0, &*self.client_id);
            tracing::warn!(leader, client, %error, "the leader is not reached; it is asked again and again");
        }
        self.conversation = None;
        self.book.connection_lost();
        self.rest();
    }

    fn rest(&mut self) {
        self.rests_until_ms = self.around.clock.monotonic_ms().saturating_add(self.around.config.backoff_ms);
    }

    async fn take(&mut self, frame: &[u8], version: i16) {
        let answer = match FetchAnswer::decode(frame, 0, version) {
            Ok(answer) => answer,
            Err(error) => return self.failed(&io::Error::new(io::ErrorKind::InvalidData, error)),
        };
        if !self.book.answered(answer.error, answer.session_id) {
            tracing::debug!(leader = self.leader.0, error = %answer.error, "the fetch session ended");
            let of_session = matches!(
                answer.error,
                ErrorCode::FetchSessionIdNotFound
                    | ErrorCode::InvalidFetchSessionEpoch
                    | ErrorCode::FetchSessionTopicIdError
            );
            if !of_session {
                self.rest();
            }
            return;
        }
        let now_ms = self.around.clock.monotonic_ms();
        let (mut owed, mut appended) = (Vec::new(), 0);
        for part in &answer.partitions {
            let Some(topic) = answer.topic(part.topic) else { continue };
            owed.extend(self.book.take(topic, part, frame, now_ms));
            appended += part.records.len();
            if appended >= TURN {
                appended = 0;
                tokio::task::yield_now().await;
            }
        }
        for (partition, end) in owed {
            // A failed fsync has taken the directory offline, and the partition with it.
            let _ = partition.durable(end).await;
        }
    }

    async fn look_up(&mut self, lookups: Vec<Lookup>) -> Result<(), Ended> {
        let version = self.around.config.list_offsets_version;
        let request = list_offsets(self.around.broker, &lookups);
        let answer = self.ask(move |conversation| Box::pin(async move { conversation.ask(version, &request).await }));
        let response = match answer.await? {
            Ok(response) => response,
            Err(error) => {
                self.failed(&error);
                return Ok(());
            }
        };
        let mut found = BTreeMap::new();
        for topic in &response.topics {
            for partition in &topic.partitions {
                let offset = ErrorCode::check(partition.error_code).map(|()| Offset(partition.offset));
                found.insert((topic.name.as_str(), partition.partition_index), offset);
            }
        }
        let now_ms = self.around.clock.monotonic_ms();
        for lookup in &lookups {
            let answer = found.get(&(&*lookup.tp.topic, lookup.tp.partition)).copied();
            self.book.offset_found(lookup, answer.unwrap_or(Err(ErrorCode::UnknownTopicOrPartition)), now_ms);
        }
        Ok(())
    }
}

type Asking<'c, T> = std::pin::Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'c>>;

async fn fetch(conversation: &mut Conversation, body: Body) -> io::Result<BytesMut> {
    let write = |out: &mut BytesMut| out.extend_from_slice(&body.bytes);
    conversation.ask_bytes(ApiKey::Fetch, body.version, body.bytes.len(), write).await
}

/// To where the metadata says the leader is; waits for the metadata to name it.
async fn connect(around: Arc<Surroundings>, leader: BrokerId, client_id: Arc<str>) -> io::Result<Conversation> {
    let mut changes = around.cluster.changes();
    let endpoint = loop {
        let snapshot = around.cluster.load();
        if let Some(endpoint) = snapshot.endpoint(leader, &around.listener) {
            break endpoint.clone();
        }
        changes.changed().await.map_err(|_| io::Error::from(io::ErrorKind::NotConnected))?;
    };
    let link = around.connector.connect(&endpoint).await?;
    Ok(Conversation::new(link, client_id))
}

fn list_offsets(me: BrokerId, lookups: &[Lookup]) -> ListOffsetsRequest {
    let mut topics: BTreeMap<&str, Vec<ListOffsetsPartition>> = BTreeMap::new();
    for lookup in lookups {
        let timestamp = if lookup.question == Question::LogStart { EARLIEST } else { LATEST };
        topics.entry(&lookup.tp.topic).or_default().push(
            ListOffsetsPartition::default()
                .with_partition_index(lookup.tp.partition)
                .with_current_leader_epoch(lookup.leader_epoch.0)
                .with_timestamp(timestamp),
        );
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        let name = TopicName(StrBytes::from_string(name.to_owned()));
        ListOffsetsTopic::default().with_name(name).with_partitions(partitions)
    });
    ListOffsetsRequest::default().with_replica_id(WireId(me.0)).with_topics(topics.collect())
}
