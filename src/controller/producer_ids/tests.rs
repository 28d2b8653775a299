use std::collections::HashSet;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use super::super::testing::{Node, tree};
use super::*;
use crate::metastore::{MultiError, Op, OpResult, SessionState, Stat, Watch};
use crate::sim::brokers::Inline;

fn block(broker: i32, first: i64) -> ProducerIdBlock {
    ProducerIdBlock { broker_id: BrokerId(broker), first, last: first + 999 }
}

#[test]
fn a_block_begins_behind_the_last_one() {
    assert_eq!(next_block(None, BrokerId(1)), Ok(block(1, 0)));
    assert_eq!(next_block(Some(block(1, 0)), BrokerId(2)), Ok(block(2, 1000)));
    let to = |last| next_block(Some(ProducerIdBlock { broker_id: BrokerId(9), first: 0, last }), BrokerId(1));
    assert_eq!(to(41), Ok(block(1, 42)));
    assert_eq!(to(i64::MAX - 1000).map(|block| block.last), Ok(i64::MAX));
    assert_eq!(to(i64::MAX - 999), Err(BlockError::UsedUp(i64::MAX - 999)));
    assert_eq!(to(-2), Err(BlockError::UsedUp(-2)), "no id is negative");
}

#[test]
fn the_next_block_is_fetched_once_and_before_it_is_needed() {
    let mut ids = Ids::none();
    assert_eq!((ids.take(), ids.begin_fetch(), ids.begin_fetch()), (None, true, false));
    ids.fetched(block(1, 5000));
    let mut fetches = Vec::new();
    for expected in 5000..6000 {
        assert_eq!(ids.take(), Some(expected));
        if ids.begin_fetch() {
            fetches.push(expected);
        }
    }
    assert_eq!(fetches, [5899], "100 are left behind it");
    assert_eq!(ids.take(), None);
    ids.fetched(block(1, 9000));
    assert_eq!((ids.take(), ids.begin_fetch()), (Some(9000), false));
}

/// What becomes of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Answered,
    /// It is carried out, and the answer is lost.
    AnswerLost,
    /// It never arrives.
    Lost,
}

/// A session whose next writes end as `fates` says.
struct Unsteady {
    inner: Arc<dyn Metastore>,
    fates: Mutex<Vec<Fate>>,
}

impl Unsteady {
    async fn write<T>(&self, write: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let fate = self.fates.lock().pop().unwrap_or(Fate::Answered);
        match fate {
            Fate::Answered => write.await,
            Fate::AnswerLost => write.await.and(Err(Error::Unknown)),
            Fate::Lost => Err(Error::Unknown),
        }
    }
}

const NOT_ASKED: &str = "blocks are taken with get, create and set";

#[async_trait]
impl Metastore for Unsteady {
    async fn create(&self, path: &str, data: Option<Bytes>, mode: CreateMode) -> Result<String, Error> {
        self.write(self.inner.create(path, data, mode)).await
    }
    async fn get(&self, path: &str) -> Result<(Bytes, Stat), Error> {
        self.inner.get(path).await
    }
    async fn set(&self, path: &str, data: Bytes, version: i32) -> Result<Stat, Error> {
        self.write(self.inner.set(path, data, version)).await
    }
    async fn get_watch(&self, _: &str) -> Result<(Bytes, Stat, Watch), Error> {
        panic!("{NOT_ASKED}")
    }
    async fn exists(&self, _: &str) -> Result<Option<Stat>, Error> {
        panic!("{NOT_ASKED}")
    }
    async fn exists_watch(&self, _: &str) -> Result<(Option<Stat>, Watch), Error> {
        panic!("{NOT_ASKED}")
    }
    async fn children(&self, _: &str) -> Result<Vec<String>, Error> {
        panic!("{NOT_ASKED}")
    }
    async fn children_watch(&self, _: &str) -> Result<(Vec<String>, Watch), Error> {
        panic!("{NOT_ASKED}")
    }
    async fn delete(&self, _: &str, _: i32) -> Result<(), Error> {
        panic!("{NOT_ASKED}")
    }
    async fn multi(&self, _: Vec<Op>) -> Result<Vec<OpResult>, MultiError> {
        panic!("{NOT_ASKED}")
    }
    async fn sync(&self, _: &str) -> Result<(), Error> {
        panic!("{NOT_ASKED}")
    }
    fn session_id(&self) -> i64 {
        self.inner.session_id()
    }
    fn session_states(&self) -> watch::Receiver<SessionState> {
        self.inner.session_states()
    }
}

#[tokio::test(start_paused = true)]
async fn no_id_comes_twice_whatever_becomes_of_the_writes() {
    const FATES: [Fate; 3] = [Fate::Answered, Fate::AnswerLost, Fate::Lost];
    for node_is_there in [true, false] {
        for (first, second) in FATES.into_iter().flat_map(|first| FATES.map(|second| (first, second))) {
            let tree = tree();
            if node_is_there {
                tree.session().create(paths::PRODUCER_ID_BLOCK, None, CreateMode::Persistent).await.unwrap();
            }
            let unsteady = Unsteady { inner: tree.session(), fates: Mutex::new(vec![second, first]) };
            let other = tree.session();
            let mut given = HashSet::new();
            for _ in 0..3 {
                let (mine, theirs) = tokio::join!(take_block(&unsteady, BrokerId(1)), take_block(&*other, BrokerId(1)));
                for block in [mine.unwrap(), theirs.unwrap()] {
                    assert!(given.insert(block.first), "{first:?}, {second:?}: {block:?} was given already");
                    assert_eq!((block.first % BLOCK_SIZE, block.last - block.first), (0, BLOCK_SIZE - 1));
                }
            }
        }
    }
}

#[tokio::test]
async fn a_block_node_nobody_can_read_gives_nothing_and_stays() {
    let store = tree().session();
    let garbage = Bytes::from_static(b"{\"version\":1");
    store.create(paths::PRODUCER_ID_BLOCK, Some(garbage.clone()), CreateMode::Persistent).await.unwrap();
    assert!(matches!(take_block(&*store, BrokerId(1)).await, Err(BlockError::Malformed(_))));
    assert_eq!(store.get(paths::PRODUCER_ID_BLOCK).await.unwrap().0, garbage);
}

/// The first id that comes.
async fn first_id(ids: &ProducerIds) -> i64 {
    loop {
        match ids.generate() {
            Ok(id) => return id,
            Err(code) => assert_eq!(code, ErrorCode::CoordinatorLoadInProgress),
        }
        tokio::time::sleep(BACK_OFF).await;
    }
}

#[tokio::test(start_paused = true)]
async fn ids_go_on_through_blocks_restarts_and_a_new_session() {
    let node = Node::fresh().await;
    let ids = || ProducerIds::new(BrokerId(1), Blocks::Metastore(node.session.clone()), Arc::new(Inline));
    let first = ids();
    assert_eq!(first.generate(), Err(ErrorCode::CoordinatorLoadInProgress), "the first asks for a block");
    for expected in 0..=1000 {
        assert_eq!(first_id(&first).await, expected);
    }
    let stored = node.node(paths::PRODUCER_ID_BLOCK).await.unwrap();
    let expected = r#"{"version":1,"broker":1,"block_start":"1000","block_end":"1999"}"#;
    assert_eq!((stored.0.as_str(), stored.1), (expected, 2));
    drop(first);

    let second = ids();
    assert_eq!(first_id(&second).await, 2000, "what the first had left is lost");
    node.tree.expire(node.session.store().session_id()).await.unwrap();
    for expected in 2001..3005 {
        assert_eq!(first_id(&second).await, expected);
    }
}
