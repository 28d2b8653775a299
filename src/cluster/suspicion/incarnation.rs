//! One life of a broker, and where it says that it is reached.

use std::fmt;

use crate::cluster::Broker;
use crate::types::{BrokerId, Endpoint};

/// From one registration to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Incarnation {
    pub id: BrokerId,
    /// Of its registration: the broker epoch.
    pub czxid: i64,
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (epoch {})", self.id, self.czxid)
    }
}

/// A registration, as far as suspicion looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    pub who: Incarnation,
    /// Those that brokers and the controller use. Who has none is never suspected.
    pub endpoints: Vec<Endpoint>,
}

impl Registered {
    /// `listeners`: the names of the inter-broker and the control-plane listener, which may be the same.
    pub fn of(broker: &Broker, listeners: [&str; 2]) -> Registered {
        let wanted = broker.endpoints.iter().filter(|(name, _)| listeners.contains(&name.as_str()));
        Registered {
            who: Incarnation { id: broker.id, czxid: broker.epoch },
            endpoints: wanted.map(|(_, endpoint)| endpoint.clone()).collect(),
        }
    }
}
