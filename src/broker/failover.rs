//! Where this broker learns that another one is dead (`klamm.fast.failover.enable`).

use std::sync::Arc;

use crate::clock::Clock;
use crate::cluster::peer::Connector;
use crate::cluster::{Contacts, WatchedConnector};
use crate::controller::driver::FastFailover;

/// With what others are reached from now on, so that it is seen how connections end.
pub fn begin(
    connector: Arc<dyn Connector>,
    cluster_id: &str,
    clock: &Arc<dyn Clock>,
) -> (Arc<dyn Connector>, FastFailover) {
    let (contacts, evidence) = Contacts::new(clock.clone());
    let watched = Arc::new(WatchedConnector::new(connector.clone(), contacts.clone()));
    (watched, FastFailover { contacts, evidence, connector, cluster_id: cluster_id.into() })
}
