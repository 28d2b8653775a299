//! What goes to other brokers: one request at a time for each, and all that waits meanwhile goes with the next.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::cluster::peer::{Connector, Link};
use crate::cluster::{Cluster, Conversation};
use crate::spawn::{Shutdown, Spawner};
use crate::types::BrokerId;

/// Items that go into one request.
const AT_ONCE: usize = 1_000;

/// A connection, and the version that is spoken on it.
pub(super) struct Line {
    pub talk: Conversation,
    pub version: i16,
}

/// Carries items to a broker.
#[async_trait]
pub(super) trait Carrier<T>: Send + Sync + 'static {
    /// Tells whoever sent them what became of them, whatever that is. A line that broke is taken away.
    async fn carry(&self, to: BrokerId, line: &mut Option<Line>, items: Vec<T>);
}

/// A queue and a task for each broker that anything was sent to.
pub(super) struct Couriers<T> {
    carrier: Arc<dyn Carrier<T>>,
    spawner: Arc<dyn Spawner>,
    shutdown: Shutdown,
    queues: Mutex<HashMap<BrokerId, mpsc::UnboundedSender<T>>>,
}

impl<T: Send + 'static> Couriers<T> {
    pub fn new(carrier: Arc<dyn Carrier<T>>, spawner: Arc<dyn Spawner>, shutdown: Shutdown) -> Couriers<T> {
        Couriers { carrier, spawner, shutdown, queues: Mutex::default() }
    }

    /// Without a bound: whoever sends waits for what becomes of it before it sends more.
    pub fn send(&self, to: BrokerId, item: T) {
        let mut queues = self.queues.lock();
        let queue = queues.entry(to).or_insert_with(|| {
            let (queue, items) = mpsc::unbounded_channel();
            let (carrier, shutdown) = (self.carrier.clone(), self.shutdown.clone());
            self.spawner.data(Box::pin(async move {
                tokio::select! {
                    biased;
                    () = shutdown.requested() => {}
                    () = run(to, items, carrier) => {}
                }
            }));
            queue
        });
        // The task ends with the broker only.
        let _ = queue.send(item);
    }
}

async fn run<T: Send + 'static>(to: BrokerId, mut queue: mpsc::UnboundedReceiver<T>, carrier: Arc<dyn Carrier<T>>) {
    let mut line: Option<Line> = None;
    let mut items = Vec::new();
    loop {
        let received = match &mut line {
            None => queue.recv_many(&mut items, AT_ONCE).await,
            Some(resting) => {
                let ended = tokio::select! {
                    biased;
                    _ = resting.talk.ended() => None,
                    received = queue.recv_many(&mut items, AT_ONCE) => Some(received),
                };
                let Some(received) = ended else {
                    line = None;
                    continue;
                };
                received
            }
        };
        if received == 0 {
            return;
        }
        carrier.carry(to, &mut line, std::mem::take(&mut items)).await;
    }
}

/// A link to a broker, by the listener that brokers use among themselves.
pub(super) async fn connect(
    cluster: &Cluster,
    connector: &dyn Connector,
    to: BrokerId,
    listener: &str,
) -> io::Result<Box<dyn Link>> {
    let at = cluster.load().endpoint(to, listener).cloned();
    let nobody = || io::Error::new(io::ErrorKind::NotFound, format!("broker {to} has no listener {listener}"));
    connector.connect(&at.ok_or_else(nobody)?).await
}
