//! `zookeeper.connect`: hosts, then one chroot for all of them.

use zookeeper_client as zk;

use crate::metastore::{Error, path};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConnectString {
    /// `host:port,host:port`, each with its port.
    pub hosts: String,
    /// `None` = the root.
    pub chroot: Option<String>,
}

impl ConnectString {
    pub fn parse(text: &str) -> Result<ConnectString, String> {
        let (hosts, chroot) = match text.find('/') {
            Some(slash) => text.split_at(slash),
            None => (text, "/"),
        };
        let hosts: Vec<&str> = hosts.split(',').map(str::trim).filter(|host| !host.is_empty()).collect();
        if hosts.is_empty() {
            return Err("names no host".to_owned());
        }
        let with_port = |host: &str| {
            let (name, port) = match host.rsplit_once(':') {
                Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, port),
                _ => (host, "2181"),
            };
            match port.parse::<u16>() {
                Ok(port @ 1..) => Ok(format!("{name}:{port}")),
                _ => Err(format!("{host:?} has no port between 1 and 65535")),
            }
        };
        let hosts: Vec<String> = hosts.into_iter().map(with_port).collect::<Result<_, _>>()?;
        path::validate(chroot, false).map_err(|error| error.to_string())?;
        let chroot = (chroot != "/").then(|| chroot.to_owned());
        Ok(ConnectString { hosts: hosts.join(","), chroot })
    }

    /// As the crate reads it.
    pub fn with_chroot(&self) -> String {
        format!("{}{}", self.hosts, self.chroot.as_deref().unwrap_or_default())
    }

    /// The client below the chroot.
    pub fn enter(&self, client: zk::Client) -> Result<zk::Client, Error> {
        match &self.chroot {
            None => Ok(client),
            Some(chroot) => client.chroot(chroot.clone()).map_err(|_| Error::BadPath(chroot.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_hosts_and_chroot() {
        for (text, hosts, chroot) in [
            ("localhost:2181", "localhost:2181", None),
            ("a:1,b:2/kafka/prod", "a:1,b:2", Some("/kafka/prod")),
            (" a:1 , b ,/", "a:1,b:2181", None),
            ("[::1]:2182,[::2]/x", "[::1]:2182,[::2]:2181", Some("/x")),
        ] {
            let parsed = ConnectString { hosts: hosts.into(), chroot: chroot.map(str::to_owned) };
            assert_eq!(ConnectString::parse(text), Ok(parsed), "{text}");
        }
        for bad in ["", "/kafka", ",", "a:1/kafka/", "a:1//x", "a:0", "a:65536", "a:port", "a:1/.."] {
            assert!(ConnectString::parse(bad).is_err(), "{bad}");
        }
    }
}
