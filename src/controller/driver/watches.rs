//! What the controller looks at, and which of it may have changed.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::metastore::Watch;
use crate::types::BrokerId;

/// What a watch was set on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Watched {
    Controller,
    Brokers,
    Broker(BrokerId),
    Topics,
    Topic(Arc<str>),
    DeleteTopics,
    LogDirEvents,
    IsrChanges,
    ReassignPartitions,
    PreferredElection,
}

/// A watch that says what it was set on and its number.
type Armed = Pin<Box<dyn Future<Output = (Watched, u64)> + Send>>;

/// Watches that are set. Of two on the same thing only the later counts.
#[derive(Default)]
pub(super) struct Watches {
    set: FuturesUnordered<Armed>,
    latest: HashMap<Watched, u64>,
    next: u64,
}

impl Watches {
    pub(super) fn arm(&mut self, watched: Watched, watch: Watch) {
        let number = self.next;
        self.next += 1;
        self.latest.insert(watched.clone(), number);
        self.set.push(Box::pin(async move {
            watch.await;
            (watched, number)
        }));
    }

    /// The next that fires; pending while none is set.
    pub(super) async fn fired(&mut self) -> Watched {
        loop {
            match self.set.next().await {
                Some((watched, number)) if self.latest.get(&watched) == Some(&number) => {
                    self.latest.remove(&watched);
                    return watched;
                }
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    }
}
