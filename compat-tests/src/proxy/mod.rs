//! A proxy of TCP connections in this process, that does to a way what networks do: it is late, stands still, resets, closes
//! one half, hands over byte by byte, loses an answer, or delivers what an old connection carried after a new one was made.
//!
//! ```text
//!  who connects ─► door ─ there: read ─ queue (due, held) ─ write ─► who serves
//!                       ◄─ back: the same, the other way round
//! ```
//!
//! A way is a pair of addresses: who connects to whom. What is ordered of a way is so for all its connections, those that
//! are there and those to come; what has become of its bytes is counted, so that a fault can be shown to have happened.

mod connection;
mod ledger;
mod order;
mod queue;

use std::collections::HashMap;
use std::fs::File;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::sync::watch;
use tokio::task::LocalSet;

use connection::Connection;
pub use ledger::Counts;
use ledger::Ledger;
pub use order::{Order, Pace, Side, Trickle};

/// Who connects, and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Way {
    pub from: IpAddr,
    pub to: IpAddr,
}

/// Where connections are taken, and where they go on to.
#[derive(Clone, Copy, Debug)]
pub struct Door {
    pub at: SocketAddr,
    pub to: SocketAddr,
}

/// Runs in a thread of its own until dropped; its connections are reset then.
pub struct Proxy {
    ways: Arc<Ways>,
    doors: Vec<SocketAddr>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// What is known of each way so far.
#[derive(Default)]
struct Ways(Mutex<HashMap<Way, Known>>);

struct Known {
    order: watch::Sender<Order>,
    ledger: Arc<Ledger>,
}

impl Ways {
    fn all(&self) -> MutexGuard<'_, HashMap<Way, Known>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn of<T>(&self, way: Way, look: impl FnOnce(&Known) -> T) -> T {
        let new = || Known { order: watch::Sender::new(Order::default()), ledger: Arc::default() };
        look(self.all().entry(way).or_insert_with(new))
    }
}

impl Proxy {
    /// Opens the doors in the network namespace of that file, or in this process's.
    pub fn start(namespace: Option<PathBuf>, doors: &[Door]) -> Result<Proxy> {
        let ways = Arc::new(Ways::default());
        let (stop, stopped) = watch::channel(false);
        let (tell, told) = std::sync::mpsc::channel();
        let (wanted, known) = (doors.to_vec(), Arc::clone(&ways));
        let thread = thread::spawn(move || {
            // Sockets are of the namespace in which their thread was when it made them.
            let open = open(namespace, &wanted);
            let addresses = open.as_ref().map(|open| open.iter().map(|(_, at, _)| *at).collect::<Vec<_>>());
            let _ = tell.send(addresses.map_err(|error| anyhow!("{error:#}")));
            if let Ok(open) = open
                && let Err(error) = run(open, known, stopped)
            {
                eprintln!("the proxy ended: {error:#}");
            }
        });
        let doors = told.recv().context("the proxy's thread ended")??;
        Ok(Proxy { ways, doors, stop, thread: Some(thread) })
    }

    /// The addresses of the doors, in their order.
    pub fn doors(&self) -> &[SocketAddr] {
        &self.doors
    }

    /// Changes what is ordered of a way.
    pub fn order(&self, way: Way, change: impl FnOnce(&mut Order)) {
        self.ways.of(way, |known| known.order.send_modify(change));
    }

    /// What has become of a way's bytes.
    pub fn counts(&self, way: Way) -> Counts {
        self.ways.of(way, |known| known.ledger.counts())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

type Open = (TcpListener, SocketAddr, SocketAddr);

fn open(namespace: Option<PathBuf>, doors: &[Door]) -> Result<Vec<Open>> {
    if let Some(path) = namespace {
        let file = File::open(&path).with_context(|| path.display().to_string())?;
        let place = std::os::fd::AsFd::as_fd(&file);
        move_into_link_name_space(place, Some(LinkNameSpaceType::Network)).context("enter the namespace")?;
    }
    let mut open = Vec::new();
    for door in doors {
        let listener = TcpListener::bind(door.at).with_context(|| format!("a door at {}", door.at))?;
        listener.set_nonblocking(true)?;
        let at = listener.local_addr()?;
        open.push((listener, at, door.to));
    }
    Ok(open)
}

fn run(open: Vec<Open>, ways: Arc<Ways>, mut stopped: watch::Receiver<bool>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = LocalSet::new();
    for (listener, _, to) in open {
        let inside = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        drop(inside);
        tasks.spawn_local(take(listener, to, Arc::clone(&ways)));
    }
    runtime.block_on(tasks.run_until(async move {
        let _ = stopped.wait_for(|stop| *stop).await;
    }));
    Ok(())
}

async fn take(listener: tokio::net::TcpListener, to: SocketAddr, ways: Arc<Ways>) {
    loop {
        // A connection that is gone before it is taken is its maker's business.
        let Ok((client, from)) = listener.accept().await else { continue };
        let way = Way { from: from.ip(), to: to.ip() };
        let connection =
            ways.of(way, |known| Connection::new(client, known.order.subscribe(), Arc::clone(&known.ledger)));
        tokio::task::spawn_local(connection.carry(to));
    }
}

#[cfg(test)]
mod tests;
