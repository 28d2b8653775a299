//! Connections to brokers whose ends are evidence: [`Contacts`] hears of each.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};

use super::contacts::{Contact, Contacts};
use super::peer::{Connector, Link};
use super::suspicion::{Ended, Incarnation, Outcome};
use crate::types::Endpoint;

/// Connects as another does.
pub struct WatchedConnector {
    inner: Arc<dyn Connector>,
    contacts: Arc<Contacts>,
}

impl WatchedConnector {
    pub fn new(inner: Arc<dyn Connector>, contacts: Arc<Contacts>) -> WatchedConnector {
        WatchedConnector { inner, contacts }
    }
}

#[async_trait]
impl Connector for WatchedConnector {
    async fn connect(&self, to: &Endpoint) -> io::Result<Box<dyn Link>> {
        let before = self.contacts.at(to);
        let inner = self.inner.connect(to).await?;
        let mut link = WatchedLink { inner, to: to.clone(), contacts: self.contacts.clone(), contact: None };
        link.is(before);
        Ok(Box::new(link))
    }

    async fn probe(&self, at: &Endpoint) -> Vec<Outcome> {
        self.inner.probe(at).await
    }
}

struct WatchedLink {
    inner: Box<dyn Link>,
    to: Endpoint,
    contacts: Arc<Contacts>,
    /// Once it is known with whom, until it has ended.
    contact: Option<Contact>,
}

impl WatchedLink {
    /// It was made, or has answered, while `before` and nobody else was registered there. Who registered meanwhile may be the
    /// one, or not; the next answer tells.
    fn is(&mut self, before: Option<Incarnation>) {
        if self.contact.is_none() {
            let with = before.filter(|before| self.contacts.at(&self.to) == Some(*before));
            self.contact = with.map(|with| self.contacts.begin(with));
        }
    }

    fn end(&mut self, how: Ended) {
        if let Some(contact) = self.contact.take() {
            contact.end(how);
        }
    }
}

#[async_trait]
impl Link for WatchedLink {
    async fn ask(&mut self, request: Bytes) -> io::Result<BytesMut> {
        let before = if self.contact.is_some() { None } else { self.contacts.at(&self.to) };
        let answer = self.inner.ask(request).await;
        match (&answer, &self.contact) {
            (Ok(_), Some(contact)) => contact.heard(),
            (Ok(_), None) => self.is(before),
            (Err(error), _) => self.end(Ended::by(error)),
        }
        answer
    }

    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        let how = ready!(self.inner.poll_ended(cx));
        self.end(how);
        Poll::Ready(how)
    }
}

impl Drop for WatchedLink {
    /// Who lets go of it may have been told of the other side's end by somebody else first.
    fn drop(&mut self) {
        if self.contact.is_some() {
            let _ = self.poll_ended(&mut Context::from_waker(Waker::noop()));
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use tokio::sync::mpsc;

    use super::*;
    use crate::clock::ManualClock;
    use crate::cluster::suspicion::{Evidence, Registered};
    use crate::types::BrokerId;

    /// Whom to tell, and in which life.
    type Registers = Option<(Arc<Contacts>, i64)>;

    /// A network where somebody may register while a connection is made or an answer given, and whose links end as it says.
    #[derive(Clone, Default)]
    struct Net {
        registers: Arc<Mutex<Registers>>,
        fails: Arc<Mutex<Option<io::ErrorKind>>>,
        ended: Arc<Mutex<Option<Ended>>>,
    }

    impl Net {
        fn time_passes(&self) {
            if let Some((contacts, czxid)) = self.registers.lock().take() {
                contacts.know(life(czxid));
            }
        }
    }

    #[async_trait]
    impl Connector for Net {
        async fn connect(&self, _: &Endpoint) -> io::Result<Box<dyn Link>> {
            self.time_passes();
            Ok(Box::new(self.clone()))
        }
        async fn probe(&self, _: &Endpoint) -> Vec<Outcome> {
            vec![Outcome::Refused]
        }
    }

    #[async_trait]
    impl Link for Net {
        async fn ask(&mut self, request: Bytes) -> io::Result<BytesMut> {
            self.time_passes();
            match *self.fails.lock() {
                Some(kind) => Err(kind.into()),
                None => Ok(request.into()),
            }
        }
        fn poll_ended(&mut self, _: &mut Context<'_>) -> Poll<Ended> {
            self.ended.lock().map_or(Poll::Pending, Poll::Ready)
        }
    }

    fn at() -> Endpoint {
        Endpoint { host: "b".into(), port: 1 }
    }

    fn life(czxid: i64) -> Vec<Registered> {
        vec![Registered { who: Incarnation { id: BrokerId(2), czxid }, endpoints: vec![at()] }]
    }

    fn watched(net: &Net) -> (WatchedConnector, Arc<Contacts>, mpsc::UnboundedReceiver<Evidence>) {
        let (contacts, evidence) = Contacts::new(Arc::new(ManualClock::at(0)));
        (WatchedConnector::new(Arc::new(net.clone()), contacts.clone()), contacts, evidence)
    }

    /// How connections ended, and how many were begun.
    fn ends(evidence: &mut mpsc::UnboundedReceiver<Evidence>) -> (usize, Vec<Ended>) {
        let (mut begun, mut ends) = (0, Vec::new());
        while let Ok(one) = evidence.try_recv() {
            match one {
                Evidence::Opened { .. } => begun += 1,
                Evidence::Closed { how, .. } => ends.push(how),
                _ => {}
            }
        }
        (begun, ends)
    }

    #[tokio::test]
    async fn each_link_tells_once_how_it_ended() {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, InvalidData, TimedOut, UnexpectedEof};
        let net = Net::default();
        let (connector, contacts, mut evidence) = watched(&net);
        contacts.know(life(7));
        let cases = [
            (UnexpectedEof, Ended::Fin),
            (ConnectionReset, Ended::Reset),
            (BrokenPipe, Ended::Reset),
            (TimedOut, Ended::ByUs),
            (InvalidData, Ended::ByUs),
        ];
        for (fails, how) in cases {
            *net.fails.lock() = None;
            let mut link = connector.connect(&at()).await.expect("connected");
            link.ask(Bytes::from_static(b"a")).await.expect("an answer");
            *net.fails.lock() = Some(fails);
            link.ask(Bytes::from_static(b"a")).await.expect_err("none");
            drop(link);
            assert_eq!(ends(&mut evidence), (1, vec![how]), "{fails}");
        }
        drop(connector.connect(&at()).await);
        assert_eq!(ends(&mut evidence), (1, vec![Ended::ByUs]));
        let link = connector.connect(&at()).await;
        *net.ended.lock() = Some(Ended::Fin);
        drop(link);
        assert_eq!(ends(&mut evidence), (1, vec![Ended::Fin]), "it had ended before it was let go of");
    }

    #[tokio::test]
    async fn where_somebody_registers_meanwhile_the_next_answer_tells_who_it_is() {
        let net = Net::default();
        let (connector, contacts, mut evidence) = watched(&net);
        let mut unknown = connector.connect(&at()).await.expect("connected");
        contacts.know(life(7));
        *net.registers.lock() = Some((contacts.clone(), 9));
        let mut either = connector.connect(&at()).await.expect("connected");
        assert_eq!(ends(&mut evidence).0, 0);
        drop(connector.connect(&at()).await);
        assert_eq!(ends(&mut evidence).0, 1);
        for link in [&mut unknown, &mut either] {
            link.ask(Bytes::from_static(b"a")).await.expect("an answer");
            assert_eq!(ends(&mut evidence).0, 1);
            link.ask(Bytes::from_static(b"a")).await.expect("an answer");
            assert_eq!(ends(&mut evidence).0, 0, "it is known already");
        }
        *net.fails.lock() = Some(io::ErrorKind::ConnectionReset);
        unknown.ask(Bytes::from_static(b"a")).await.expect_err("none");
        assert_eq!(ends(&mut evidence).1, [Ended::Reset]);
    }

    /// An answer that a former life may have given tells nothing.
    #[tokio::test]
    async fn who_registers_while_an_answer_is_waited_for_counts_for_nobody() {
        let net = Net::default();
        let (connector, contacts, mut evidence) = watched(&net);
        let mut link = connector.connect(&at()).await.expect("connected");
        *net.registers.lock() = Some((contacts.clone(), 9));
        link.ask(Bytes::from_static(b"a")).await.expect("an answer");
        assert_eq!(ends(&mut evidence).0, 0);
        link.ask(Bytes::from_static(b"a")).await.expect("an answer");
        assert_eq!(ends(&mut evidence).0, 1);
    }
}
