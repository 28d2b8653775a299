//! Looks after [`Suspicions`] for one broker: asks what they want to know, and acts on their verdicts.
//!
//! ```text
//! connections, registrations, answers to questions ──► Suspicions ──► probes, reads, greetings (tasks of their own)
//!                                                          └──► verdict: the controller does without the suspect,
//!                                                               another broker takes the office over, if it is the suspect's
//! ```

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kafka_protocol::messages::MetadataRequest;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::{Driver, Parts};
use crate::clock::Clock;
use crate::cluster::peer::Connector;
use crate::cluster::suspicion::{Cleared, Decision, Evidence, Incarnation, Proof, Registered, Rules, Suspicions};
use crate::cluster::{Broker, Contacts, Conversation, RegistrationError, Session, read_broker, until_known};
use crate::controller::decide::Event;
use crate::controller::fence::Lost;
use crate::controller::take_over::{Left, Office, TakeOver};
use crate::metastore::Op;
use crate::metastore::schema::paths;
use crate::spawn::Spawner;
use crate::types::{BrokerId, Endpoint};

/// Of Metadata: the first that names the cluster, which every broker of today serves.
const METADATA: i16 = 2;
/// A question to a broker or to the metastore is answered within this, or it tells nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// What it takes to know that a broker is gone before its session says so.
pub struct FastFailover {
    pub contacts: Arc<Contacts>,
    /// What `contacts` tell.
    pub evidence: mpsc::UnboundedReceiver<Evidence>,
    /// Makes connections that are no evidence.
    pub connector: Arc<dyn Connector>,
    pub cluster_id: Arc<str>,
}

/// One broker's.
pub(super) struct Doubts {
    asking: Asking,
    evidence: mpsc::UnboundedReceiver<Evidence>,
    suspicions: Suspicions,
    take_over: TakeOver,
    /// Not yet acted on.
    decisions: VecDeque<Decision>,
    /// Held while somebody is doubted: connections with those that were greeted end with it.
    greetings: Option<watch::Sender<()>>,
}

/// What questions are asked with.
#[derive(Clone)]
struct Asking {
    me: BrokerId,
    contacts: Arc<Contacts>,
    connector: Arc<dyn Connector>,
    cluster_id: Arc<str>,
    session: Arc<Session>,
    spawner: Arc<dyn Spawner>,
    /// Of brokers and of the controller.
    listeners: [Arc<str>; 2],
}

impl Doubts {
    pub(super) fn new(with: FastFailover, parts: &Parts) -> Doubts {
        let config = &parts.config;
        let session_timeout_ms = i64::from(config.zookeeper_session_timeout_ms);
        let listeners = [&*config.inter_broker_listener_name, config.controller_listener_name()];
        let FastFailover { contacts, evidence, connector, cluster_id } = with;
        Doubts {
            evidence,
            suspicions: Suspicions::new(parts.broker, cluster_id.clone(), session_timeout_ms, Rules::default()),
            take_over: TakeOver::new(parts.broker),
            decisions: VecDeque::new(),
            greetings: None,
            asking: Asking {
                me: parts.broker,
                contacts,
                connector,
                cluster_id,
                session: parts.session.clone(),
                spawner: parts.spawner.clone(),
                listeners: listeners.map(Arc::from),
            },
        }
    }

    /// What is seen next; the time that is due is seen, too. Never anything without `doubts`.
    pub(super) async fn next(doubts: Option<&mut Doubts>, clock: &dyn Clock) -> Evidence {
        let Some(doubts) = doubts else { return std::future::pending().await };
        let due = async {
            match doubts.suspicions.due_ms() {
                Some(due_ms) => sleep(milliseconds(due_ms.saturating_sub(clock.monotonic_ms()))).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(evidence) = doubts.evidence.recv() => evidence,
            () = due => Evidence::Due,
        }
    }

    fn decide(&mut self, evidence: Evidence, now_ms: i64) {
        self.decisions.extend(self.suspicions.decide(evidence, now_ms));
        if self.suspicions.due_ms().is_none() {
            self.greetings = None;
        }
    }

    /// [`TakeOver::attempt`], with all that was seen until now.
    pub(super) fn take_over(
        &mut self,
        office: Office,
        suspect: (Incarnation, i64),
        now_ms: i64,
        wall_ms: i64,
    ) -> Result<Vec<Op>, Left> {
        while let Ok(evidence) = self.evidence.try_recv() {
            self.decide(evidence, now_ms);
        }
        let is_suspected = self.suspicions.is_suspected(suspect.0);
        self.take_over.attempt(office, suspect, is_suspected, self.suspicions.majority(), wall_ms)
    }

    fn ask(&mut self, question: Decision) {
        let asking = self.asking.clone();
        let task = match question {
            Decision::Probe { ticket, of, endpoints } => {
                for at in endpoints {
                    let asking = asking.clone();
                    self.asking.spawner.control(Box::pin(async move {
                        let outcomes = asking.connector.probe(&at).await;
                        asking.contacts.tell(Evidence::Probed { ticket, of, at, outcomes });
                    }));
                }
                return;
            }
            Decision::ReadRegistration { ticket, of } => boxed(async move {
                if let Some(found) = asking.registered(of.id).await {
                    asking.contacts.tell(Evidence::RegistrationRead { ticket, found });
                }
            }),
            Decision::Ask { of, endpoints } => boxed(async move {
                let Some((_, cluster_id)) = asking.met(&endpoints).await else { return };
                // A later life listens after it has registered: without one it was this life that answered.
                if let Some(Some(found)) = asking.registered(of.id).await
                    && found.who == of
                {
                    asking.contacts.tell(Evidence::Answered { by: of, cluster_id });
                }
            }),
            Decision::Greet { of, endpoints } => {
                let mut over = self.greetings.get_or_insert_with(|| watch::Sender::new(())).subscribe();
                boxed(async move {
                    let Some((mut talk, cluster_id)) = asking.met(&endpoints).await else { return };
                    if cluster_id != asking.cluster_id || asking.contacts.life_of(of.id) != Some(of) {
                        return;
                    }
                    let contact = asking.contacts.begin(of);
                    tokio::select! {
                        biased;
                        how = talk.ended() => contact.end(how),
                        // An error: nobody is doubted any more.
                        _ = over.changed() => {}
                    }
                })
            }
            Decision::Suspect { .. } | Decision::Clear { .. } => return,
        };
        self.asking.spawner.control(task);
    }
}

fn boxed(task: impl Future<Output = ()> + Send + 'static) -> crate::spawn::Task {
    Box::pin(task)
}

impl Asking {
    /// The registration of a broker as it is now; the outer `None`: that cannot be told, or not in time.
    async fn registered(&self, id: BrokerId) -> Option<Option<Registered>> {
        timeout(PATIENCE, self.read(id)).await.ok().flatten()
    }

    async fn read(&self, id: BrokerId) -> Option<Option<Registered>> {
        let store = self.session.store();
        until_known(&*store, || store.sync(paths::BROKER_IDS)).await.ok()?;
        match read_broker(&*store, id).await {
            Ok(found) => Some(found.map(|broker| self.seen(&broker))),
            Err(error @ RegistrationError::Malformed(_)) => {
                tracing::error!(broker = %id, %error, "registration ignored");
                None
            }
            // An expired session is seen by the driver.
            Err(_) => None,
        }
    }

    fn seen(&self, broker: &Broker) -> Registered {
        let [of_brokers, of_controller] = &self.listeners;
        Registered::of(broker, [of_brokers, of_controller])
    }

    /// A broker that answers at one of `endpoints`, and of which cluster it is.
    async fn met(&self, endpoints: &[Endpoint]) -> Option<(Conversation, Arc<str>)> {
        for at in endpoints {
            let asked = timeout(PATIENCE, async {
                let link = self.connector.connect(at).await?;
                let mut talk = Conversation::new(link, self.me.to_string().into());
                // No topic; null would be all.
                let answer = talk.ask(METADATA, &MetadataRequest::default().with_topics(Some(Vec::new()))).await?;
                Ok::<_, std::io::Error>((talk, answer.cluster_id))
            });
            if let Ok(Ok((talk, Some(cluster_id)))) = asked.await {
                return Some((talk, cluster_id.as_str().into()));
            }
        }
        None
    }
}

impl Driver {
    /// These are registered.
    pub(super) fn know(&self, brokers: &[Broker]) {
        if let Some(Doubts { asking, .. }) = &self.doubts {
            asking.contacts.know(brokers.iter().map(|broker| asking.seen(broker)).collect());
        }
    }

    pub(super) fn suspects(&self) -> Vec<Incarnation> {
        self.doubts.as_ref().map_or_else(Vec::new, |doubts| doubts.suspicions.suspects())
    }

    /// One piece of evidence and all that follows from it.
    pub(super) async fn saw(&mut self, evidence: Evidence) -> Result<(), Lost> {
        let now_ms = self.parts.clock.monotonic_ms();
        let Some(doubts) = &mut self.doubts else { return Ok(()) };
        tracing::trace!(?evidence, "seen");
        doubts.decide(evidence, now_ms);
        while let Some(doubts) = &mut self.doubts
            && let Some(decision) = doubts.decisions.pop_front()
        {
            tracing::debug!(?decision, "follows from what was seen");
            match decision {
                Decision::Suspect { who, proof } => self.suspect(who, &proof).await?,
                Decision::Clear { who, why } => self.clear(who, why).await?,
                Decision::Ask { of, .. } => {
                    doubts.ask(decision);
                    // This broker may have been cut off when it was first to take the office over.
                    if self.term.is_none() {
                        self.take_over(of).await?;
                    }
                }
                question => doubts.ask(question),
            }
        }
        Ok(())
    }

    async fn suspect(&mut self, who: Incarnation, proof: &Proof) -> Result<(), Lost> {
        let Proof { closed_by_it, closed_at_ms, rounds, majority } = proof;
        let refused_after_ms: Vec<i64> = rounds.iter().map(|round| round.ended_ms - closed_at_ms).collect();
        let absent = rounds.iter().any(|round| round.absent);
        tracing::warn!(
            broker = %who, closed_by_it, ?refused_after_ms, absent,
            connected = majority.connected, registered = majority.registered, suspected = majority.suspected,
            "taken for dead before its session ends: it closed its connections, and nobody is there"
        );
        self.tells.suspicions.fetch_add(1, Ordering::Relaxed);
        match self.term.is_some() {
            true => self.process(Event::BrokerSuspected(who)).await,
            false => self.take_over(who).await,
        }
    }

    async fn clear(&mut self, who: Incarnation, why: Cleared) -> Result<(), Lost> {
        match why {
            Cleared::Answered => {
                tracing::warn!(broker = %who, "it was taken for dead, and answers");
                self.process(Event::SuspectAnswered(who)).await
            }
            // The list of brokers says what is to be done.
            Cleared::Gone | Cleared::NewLife => Ok(()),
        }
    }
}

fn milliseconds(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
