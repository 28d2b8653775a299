//! `/brokers/ids/<id>`: being there. The node lives as long as the session; its czxid is the broker epoch.

use std::collections::BTreeMap;

use super::StartError;
use crate::clock::Clock;
use crate::config::{BrokerConfig, Listener};
use crate::metastore::schema::{Registration, paths};
use crate::metastore::{CreateMode, Error, Metastore, Op, OpResult};
use crate::types::BrokerId;

/// Rounds of reading back before an outcome that stays unknown is given up.
const ROUNDS: usize = 10;

/// Registers and returns the broker epoch.
///
/// A node left by an earlier process of this broker goes with that process's session: it is waited for, up to the
/// session timeout and a little. A second broker with this id is refused then. (Kafka refuses at once.)
pub async fn register(
    store: &dyn Metastore,
    id: BrokerId,
    config: &BrokerConfig,
    advertised: &[Listener],
    clock: &dyn Clock,
) -> Result<i64, StartError> {
    let failed = StartError::metastore("the broker registered");
    refuse_shared_endpoints(store, id, advertised).await?;
    let path = paths::broker(id);
    let patience_ms = i64::from(config.zookeeper_session_timeout_ms).saturating_add(2_000);
    let deadline_ms = clock.monotonic_ms().saturating_add(patience_ms);
    let mut unknown = 0;
    loop {
        let registration = Registration {
            listeners: advertised.to_vec(),
            rack: config.rack.clone(),
            timestamp_ms: clock.wall_ms(),
            jmx_port: -1,
            features: BTreeMap::new(),
        };
        // Two steps, as Kafka does: only the second one's answer carries the czxid.
        let ops = vec![
            Op::Create { path: path.clone(), data: None, mode: CreateMode::Ephemeral },
            Op::Set { path: path.clone(), data: registration.encode(), version: 0 },
        ];
        match store.multi(ops).await {
            Ok(results) => match results.last() {
                Some(OpResult::Set(stat)) => return Ok(stat.czxid),
                _ => return Err(failed(Error::Other("the answer to the registration is incomplete".to_owned()))),
            },
            Err(error) => match error.error {
                Error::NodeExists(_) => {}
                Error::Unknown if unknown < ROUNDS => unknown += 1,
                error => return Err(failed(error)),
            },
        }
        let (found, gone) = match store.exists_watch(&path).await {
            Ok(found) => found,
            Err(Error::Unknown) if unknown < ROUNDS => {
                unknown += 1;
                continue;
            }
            Err(error) => return Err(failed(error)),
        };
        let Some(stat) = found else { continue };
        if stat.ephemeral_owner == store.session_id() {
            return Ok(stat.czxid);
        }
        let left_ms = u64::try_from(deadline_ms - clock.monotonic_ms()).unwrap_or(0);
        let wait = std::time::Duration::from_millis(left_ms);
        tracing::warn!(broker_id = id.0, "another session holds this broker's registration, waiting for its end");
        if left_ms == 0 || tokio::time::timeout(wait, gone).await.is_err() {
            return Err(StartError::Refused(format!(
                "a broker with broker.id={id} is registered already: give this one another id or stop that one"
            )));
        }
    }
}

/// Two brokers at one address would take each other's clients.
async fn refuse_shared_endpoints(
    store: &dyn Metastore,
    id: BrokerId,
    advertised: &[Listener],
) -> Result<(), StartError> {
    let failed = StartError::metastore("other registrations were read");
    for name in store.children(paths::BROKER_IDS).await.map_err(&failed)? {
        let Some(other) = name.parse().ok().map(BrokerId).filter(|other| *other != id) else { continue };
        let path = paths::broker(other);
        let bytes = match store.get(&path).await {
            Ok((bytes, _)) => bytes,
            Err(Error::NoNode(_)) => continue,
            Err(error) => return Err(failed(error)),
        };
        for theirs in Registration::decode(&path, &bytes)?.listeners {
            if let Some(ours) = advertised.iter().find(|ours| ours.host == theirs.host && ours.port == theirs.port) {
                return Err(StartError::Refused(format!(
                    "advertised.listeners: {}:{} is already registered by broker {other}",
                    ours.host, ours.port
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::config::SecurityProtocol;
    use crate::metastore::embedded::EmbeddedStore;
    use std::sync::Arc;

    fn listeners(port: u16) -> Vec<Listener> {
        vec![Listener { name: "L".into(), protocol: SecurityProtocol::Plaintext, host: "h".into(), port }]
    }

    async fn store() -> Arc<EmbeddedStore> {
        let store = EmbeddedStore::in_memory(Arc::new(ManualClock::at(5)));
        super::super::identity::make_startup_nodes(&*store.session()).await.expect("nodes");
        store
    }

    #[tokio::test(start_paused = true)]
    async fn registering_yields_the_czxid_and_again_the_same() {
        let store = store().await;
        let (session, config, clock) = (store.session(), BrokerConfig::default(), ManualClock::at(5));
        let first = register(&*session, BrokerId(1), &config, &listeners(1), &clock).await.expect("registered");
        let stat = session.exists("/brokers/ids/1").await.expect("answer").expect("a node");
        assert_eq!((stat.czxid, stat.version), (first, 1));
        assert_eq!(register(&*session, BrokerId(1), &config, &listeners(1), &clock).await.ok(), Some(first));
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_session_is_waited_for() {
        let store = store().await;
        let (old, new, config, clock) = (store.session(), store.session(), BrokerConfig::default(), ManualClock::at(5));
        let first = register(&*old, BrokerId(1), &config, &listeners(1), &clock).await.expect("registered");
        let advertised = listeners(1);
        let again = register(&*new, BrokerId(1), &config, &advertised, &clock);
        let (again, expired) = tokio::join!(again, store.expire(old.session_id()));
        expired.expect("expired");
        assert!(again.expect("registered") > first);
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_broker_of_the_same_id_or_address_is_refused() {
        let store = store().await;
        let (one, two, config, clock) = (store.session(), store.session(), BrokerConfig::default(), ManualClock::at(5));
        register(&*one, BrokerId(1), &config, &listeners(1), &clock).await.expect("registered");
        let error = register(&*two, BrokerId(1), &config, &listeners(2), &clock).await.expect_err("taken");
        assert!(error.to_string().contains("broker.id=1 is registered already"), "{error}");
        let error = register(&*two, BrokerId(2), &config, &listeners(1), &clock).await.expect_err("taken");
        assert_eq!(error.to_string(), "advertised.listeners: h:1 is already registered by broker 1");
    }
}
