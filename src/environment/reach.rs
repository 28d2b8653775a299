//! Whether clients elsewhere can use what they are told.

use std::net::IpAddr;

use crate::config::Listener;

/// What is wrong with the addresses that clients are told, for those on other machines; `None` when one may be right.
pub fn unreachable(advertised: &[Listener], host_name: &str) -> Option<String> {
    let told = |listener: &Listener| match listener.host.is_empty() {
        true => host_name.to_owned(),
        false => listener.host.clone(),
    };
    let hosts: Vec<String> = advertised.iter().map(told).collect();
    let (first, all) = (hosts.first()?, hosts.join(", "));
    if hosts.iter().all(|host| is_loopback(host)) {
        return Some(format!(
            "clients are told {all}, which is right on this machine only, where the port is published; for other \
             containers and machines give advertised.listeners (KAFKA_ADVERTISED_LISTENERS) a listener with a name they know"
        ));
    }
    if hosts.iter().all(|host| is_container_id(host)) {
        return Some(format!(
            "clients are told {first}, this container's own id, which only containers of its network know; set \
             advertised.listeners (KAFKA_ADVERTISED_LISTENERS) to a name or address that clients know"
        ));
    }
    None
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// What an engine names a container that has no name.
fn is_container_id(host: &str) -> bool {
    host.len() == 12 && host.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SecurityProtocol;

    fn words(hosts: &[&str]) -> Option<String> {
        let listener = |host: &&str| Listener {
            name: "A".to_owned(),
            protocol: SecurityProtocol::Plaintext,
            host: (*host).to_owned(),
            port: 9092,
        };
        unreachable(&hosts.iter().map(listener).collect::<Vec<_>>(), "0123456789ab")
    }

    #[test]
    fn an_address_of_nobody_else_is_told() {
        assert!(words(&["localhost"]).is_some_and(|text| text.contains("this machine only")));
        assert!(words(&["127.0.0.1", "::1"]).is_some());
        assert!(words(&[""]).is_some_and(|text| text.contains("0123456789ab")));
        assert_eq!(words(&["localhost", "broker"]), None, "inside and outside");
        assert_eq!(words(&["broker.example"]), None);
        assert_eq!(words(&[]), None);
    }
}
