//! `/brokers/ids/<id>`: being there. The node lives as long as the session; its czxid is the broker epoch.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::former_life::{Replicas, await_out_of_isrs};
use super::session::{settle, until_known};
use super::snapshot::Broker;
use crate::config::Listener;
use crate::metastore::schema::{Malformed, Registration, paths};
use crate::metastore::{CreateMode, Error, Metastore, MultiError, Op, OpResult, Stat};
use crate::types::{BrokerId, Endpoint};

/// Why the broker cannot join.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    #[error("a broker with broker.id={0} is registered already: give this one another id or stop that one")]
    IdTaken(BrokerId),
    #[error("advertised.listeners: {host}:{port} is already registered by broker {other}")]
    EndpointTaken { host: String, port: u16, other: BrokerId },
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error(transparent)]
    Store(#[from] Error),
}

/// Creates `path` with null data, its parents when they are missing. Existing nodes are left as they are.
pub async fn ensure_path(store: &dyn Metastore, path: &str) -> Result<(), Error> {
    let create = |path: String| async move {
        match store.create(&path, None, CreateMode::Persistent).await {
            Ok(_) | Err(Error::NodeExists(_)) => Ok(()),
            Err(error) => Err(error),
        }
    };
    match until_known(store, || create(path.to_owned())).await {
        Err(Error::NoNode(_)) => {}
        other => return other,
    }
    let ends = path.char_indices().skip(1).filter(|(_, c)| *c == '/').map(|(at, _)| at).chain([path.len()]);
    for end in ends {
        until_known(store, || create(path[..end].to_owned())).await?;
    }
    Ok(())
}

/// Remembers for this broker's next life in which session it registered.
#[async_trait]
pub trait SessionNotes: Send + Sync + Debug {
    /// Returns when it is noted durably. What cannot be noted costs the next life the rest of the session.
    async fn note(&self, session: i64);
}

/// What this broker registers, again after each expiry of its session.
#[derive(Clone, Debug)]
pub struct Registrar {
    pub broker: BrokerId,
    /// As clients are told.
    pub advertised: Vec<Listener>,
    pub rack: Option<String>,
    /// `zookeeper.session.timeout.ms`.
    pub session_timeout: Duration,
    /// `None` where the metastore forgets sessions together with the process.
    pub notes: Option<Arc<dyn SessionNotes>>,
}

/// What a killed broker's session may take longer than its timeout.
const GRACE: Duration = Duration::from_secs(2);

impl Registrar {
    /// Registers for the first time in this process and returns the broker epoch.
    ///
    /// A node left by an earlier process of this broker, of which nobody can say that it is dead, goes with that process's
    /// session: it is waited for. A second broker with this id is refused then. (Kafka refuses at once.) `read` is what is
    /// known of the topics already, if anything.
    pub async fn join(
        &self,
        store: &dyn Metastore,
        now_ms: i64,
        read: Option<Replicas>,
    ) -> Result<i64, RegistrationError> {
        self.await_vacancy(store, None).await?;
        await_out_of_isrs(store, self.broker, read, self.session_timeout).await?;
        self.register(store, now_ms, None).await
    }

    /// Registers and returns the broker epoch.
    ///
    /// `former_session` is this process's expired session, if any: a node it left is taken over (Kafka's way round
    /// ZOOKEEPER-2985).
    pub async fn register(
        &self,
        store: &dyn Metastore,
        now_ms: i64,
        former_session: Option<i64>,
    ) -> Result<i64, RegistrationError> {
        self.refuse_taken_endpoints(store).await?;
        if let Some(notes) = &self.notes {
            notes.note(store.session_id()).await;
        }
        let path = paths::broker(self.broker);
        let registration = Registration {
            listeners: self.advertised.clone(),
            rack: self.rack.clone(),
            timestamp_ms: now_ms,
            jmx_port: -1,
            features: BTreeMap::new(),
        };
        // Created empty, then set: the reply to the second tells the czxid on every server version.
        let mut ops = vec![
            Op::Create { path: path.clone(), data: None, mode: CreateMode::Ephemeral },
            Op::Set { path: path.clone(), data: registration.encode(), version: 0 },
            // Raises its version. A controller that has not seen this registration writes no state that counts on this
            // broker in an earlier life.
            Op::Set { path: paths::BROKER_IDS.into(), data: Bytes::new(), version: -1 },
        ];
        loop {
            let written = store.multi(ops.clone()).await;
            if let Err(MultiError { index: 2, error: error @ (Error::Other(_) | Error::NoNode(_)) }) = &written {
                tracing::warn!(%error, path = paths::BROKER_IDS, "not written: a controller may overlook this start");
                ops.truncate(2);
                continue;
            }
            match written.map_err(|failed| failed.error) {
                Ok(results) => {
                    let set = results.into_iter().find_map(|result| match result {
                        OpResult::Set(stat) => Some(stat.czxid),
                        _ => None,
                    });
                    match set {
                        Some(epoch) => return Ok(epoch),
                        None => return Err(Error::Other("registration answered without a stat".into()).into()),
                    }
                }
                Err(Error::Unknown) => settle(store).await,
                Err(Error::NodeExists(_)) => {}
                Err(error) => return Err(error.into()),
            }
            if let Some(epoch) = self.await_vacancy(store, former_session).await? {
                return Ok(epoch);
            }
        }
    }

    /// Returns when nobody is registered under this broker's id, or with the epoch when `store`'s own session is.
    async fn await_vacancy(
        &self,
        store: &dyn Metastore,
        former_session: Option<i64>,
    ) -> Result<Option<i64>, RegistrationError> {
        let deadline = tokio::time::Instant::now() + self.session_timeout + GRACE;
        let path = paths::broker(self.broker);
        loop {
            // Ours after all, of our own expired session, or somebody's.
            let (found, gone) = until_known(store, || store.exists_watch(&path)).await?;
            match found {
                None => return Ok(None),
                Some(stat) if stat.ephemeral_owner == store.session_id() => return Ok(Some(stat.czxid)),
                Some(stat) if former_session == Some(stat.ephemeral_owner) => {
                    match until_known(store, || store.delete(&path, -1)).await {
                        Ok(()) | Err(Error::NoNode(_)) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Some(stat) => {
                    let session = stat.ephemeral_owner;
                    tracing::warn!(broker = %self.broker, session, "another session holds this broker's registration, waiting for its end");
                    if tokio::time::timeout_at(deadline, gone).await.is_err() {
                        return Err(RegistrationError::IdTaken(self.broker));
                    }
                }
            }
        }
    }

    async fn refuse_taken_endpoints(&self, store: &dyn Metastore) -> Result<(), RegistrationError> {
        for name in until_known(store, || store.children(paths::BROKER_IDS)).await? {
            let Ok(other) = name.parse().map(BrokerId) else { continue };
            if other == self.broker {
                continue;
            }
            let registration = match read_registration(store, other).await {
                Ok(Some((registration, _))) => registration,
                Ok(None) => continue,
                Err(RegistrationError::Malformed(error)) => {
                    tracing::error!(%error, "another broker's registration ignored");
                    continue;
                }
                Err(error) => return Err(error),
            };
            for listener in &self.advertised {
                if registration.listeners.iter().any(|l| l.host == listener.host && l.port == listener.port) {
                    return Err(RegistrationError::EndpointTaken {
                        host: listener.host.clone(),
                        port: listener.port,
                        other,
                    });
                }
            }
        }
        Ok(())
    }
}

/// A broker's registration; `None` when it is not registered.
async fn read_registration(
    store: &dyn Metastore,
    broker: BrokerId,
) -> Result<Option<(Registration, Stat)>, RegistrationError> {
    let path = paths::broker(broker);
    match until_known(store, || store.get(&path)).await {
        Ok((data, stat)) => Ok(Some((Registration::decode(&path, &data)?, stat))),
        Err(Error::NoNode(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A broker as it is registered, its epoch included.
pub async fn read_broker(store: &dyn Metastore, broker: BrokerId) -> Result<Option<Broker>, RegistrationError> {
    let read = read_registration(store, broker).await?;
    Ok(read.map(|(registration, stat)| Broker::from_registration(broker, &registration, stat.czxid)))
}

/// In which life, and by which session, a broker is registered.
pub async fn registered(store: &dyn Metastore, broker: BrokerId) -> Result<Option<Stat>, Error> {
    let path = paths::broker(broker);
    until_known(store, || store.exists(&path)).await
}

impl Broker {
    fn from_registration(id: BrokerId, registration: &Registration, epoch: i64) -> Broker {
        let endpoint = |listener: &Listener| {
            let endpoint = Endpoint { host: Arc::from(listener.host.as_str()), port: listener.port };
            (listener.name.clone(), endpoint)
        };
        Broker {
            id,
            rack: registration.rack.as_deref().map(Arc::from),
            endpoints: registration.listeners.iter().map(endpoint).collect(),
            epoch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::config::SecurityProtocol;
    use crate::metastore::embedded::EmbeddedStore;

    fn registrar(broker: i32, port: u16) -> Registrar {
        Registrar {
            broker: BrokerId(broker),
            advertised: vec![Listener {
                name: "PLAINTEXT".into(),
                protocol: SecurityProtocol::Plaintext,
                host: "127.0.0.1".into(),
                port,
            }],
            rack: Some("dc1".into()),
            session_timeout: Duration::from_secs(18),
            notes: None,
        }
    }

    async fn store() -> Arc<EmbeddedStore> {
        let store = EmbeddedStore::in_memory(Arc::new(ManualClock::at(1_000)));
        ensure_path(&*store.session(), paths::BROKER_IDS).await.unwrap();
        store
    }

    #[tokio::test(start_paused = true)]
    async fn the_node_is_the_one_a_live_broker_writes() {
        let store = store().await.session();
        let epoch = registrar(1, 24001).register(&*store, 1795972429078, None).await.unwrap();
        let (data, stat) = store.get("/brokers/ids/1").await.unwrap();
        let recorded = r#"{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:24001"],"rack":"dc1","jmx_port":-1,"port":24001,"host":"127.0.0.1","version":5,"timestamp":"1795972429078"}"#;
        assert_eq!(std::str::from_utf8(&data).unwrap(), recorded);
        assert_eq!((stat.version, stat.czxid, stat.ephemeral_owner), (1, epoch, store.session_id()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_id_is_ours_or_somebody_elses() {
        let tree = store().await;
        let (first, second) = (tree.session(), tree.session());
        let epoch = registrar(1, 9092).register(&*first, 0, None).await.unwrap();
        assert_eq!(registrar(1, 9092).register(&*first, 0, None).await.unwrap(), epoch, "the same session again");
        let refused = registrar(1, 9093).join(&*second, 0, None).await;
        assert!(matches!(refused, Err(RegistrationError::IdTaken(BrokerId(1)))), "{refused:?}");
        let taken_over = registrar(1, 9092).register(&*second, 0, Some(first.session_id())).await.unwrap();
        assert!(taken_over > epoch, "a new registration has a new broker epoch");
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_session_is_waited_for() {
        let tree = store().await;
        let (old, new) = (tree.session(), tree.session());
        let first = registrar(1, 9092).register(&*old, 0, None).await.unwrap();
        let registrar = registrar(1, 9092);
        let (again, expired) = tokio::join!(registrar.join(&*new, 0, None), tree.expire(old.session_id()));
        expired.unwrap();
        assert!(again.unwrap() > first);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_belongs_to_one_broker() {
        let tree = store().await;
        let (first, second) = (tree.session(), tree.session());
        registrar(1, 9092).register(&*first, 0, None).await.unwrap();
        let refused = registrar(2, 9092).register(&*second, 0, None).await;
        assert!(
            matches!(refused, Err(RegistrationError::EndpointTaken { port: 9092, other: BrokerId(1), .. })),
            "{refused:?}"
        );
        registrar(2, 9093).register(&*second, 0, None).await.unwrap();
    }
}
