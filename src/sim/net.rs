//! A network in memory: listeners by port, connections as pairs of streams. Refuses like a real one.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::io::{DuplexStream, duplex};
use tokio::sync::mpsc;

use crate::net::{Incoming, Listener, Stream};

/// Bytes under way in each direction before a writer waits.
const IN_FLIGHT: usize = 256 << 10;

type Waiting = mpsc::UnboundedSender<DuplexStream>;

/// The network; clones share it.
#[derive(Clone, Debug, Default)]
pub struct SimNet {
    listening: Arc<Mutex<HashMap<u16, Waiting>>>,
}

/// A listener on it.
#[derive(Debug)]
pub struct SimListener {
    name: Arc<str>,
    port: u16,
    net: SimNet,
    waiting: tokio::sync::Mutex<Option<mpsc::UnboundedReceiver<DuplexStream>>>,
}

impl SimNet {
    pub fn listener(&self, name: &str, port: u16) -> SimListener {
        SimListener { name: name.into(), port, net: self.clone(), waiting: tokio::sync::Mutex::new(None) }
    }

    pub fn connect(&self, port: u16) -> io::Result<DuplexStream> {
        let (ours, theirs) = duplex(IN_FLIGHT);
        let listening = self.listening.lock().get(&port).cloned();
        listening
            .and_then(|waiting| waiting.send(theirs).ok())
            .map(|()| ours)
            .ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }
}

#[async_trait]
impl Listener for SimListener {
    fn name(&self) -> Arc<str> {
        self.name.clone()
    }

    fn address(&self) -> String {
        format!("sim:{}", self.port)
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn start(&self) -> io::Result<()> {
        let (waiting, accepting) = mpsc::unbounded_channel();
        let mut slot = self.waiting.try_lock().map_err(|_| io::ErrorKind::AddrInUse)?;
        *slot = Some(accepting);
        self.net.listening.lock().insert(self.port, waiting);
        Ok(())
    }

    async fn accept(&self) -> io::Result<Incoming> {
        let mut waiting = self.waiting.lock().await;
        let stream = match waiting.as_mut() {
            Some(waiting) => waiting.recv().await.ok_or(io::ErrorKind::NotConnected)?,
            None => std::future::pending().await,
        };
        Ok(Incoming {
            peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
            peer_name: "sim".to_owned(),
            open: Box::new(move || Ok(Box::new(stream) as Box<dyn Stream>)),
        })
    }
}
