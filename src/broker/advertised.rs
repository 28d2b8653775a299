//! What clients and other brokers are told to connect to.

use crate::config::{BrokerConfig, Listener};
use crate::net;

/// `advertised.listeners` with host and port filled in: no host means this machine's name, port 0 the bound port.
pub fn listeners(config: &BrokerConfig, bound: &[Box<dyn net::Listener>], host_name: &str) -> Vec<Listener> {
    let mut advertised = config.advertised_listeners.clone();
    for listener in &mut advertised {
        if listener.host.is_empty() {
            listener.host = host_name.to_owned();
        }
        if listener.port == 0
            && let Some(bound) = bound.iter().find(|bound| *bound.name() == *listener.name)
        {
            listener.port = bound.port();
        }
    }
    advertised
}
